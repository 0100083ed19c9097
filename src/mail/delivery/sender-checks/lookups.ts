/**
 * DNS for the checks: the lookups of one message, and the state of the resolver that all messages share.
 */
import { isDnsName } from '../../dns/dns.ts';

export type LookupType = 'A' | 'AAAA' | 'MX' | 'PTR' | 'TXT';

export interface MailExchanger {
  /** Lower is preferred. */
  readonly preference: number;
  readonly exchange: string;
}

/**
 * What DNS said. `absent` is an answer, too: the name, or the record, does not exist. `unanswered` says
 * nothing about the record: DNS did not answer.
 */
export type LookupAnswer =
  | {
      readonly kind: 'records';
      /** TXT: the strings of a record joined, one character for each byte. */
      readonly records: readonly (string | MailExchanger)[];
    }
  | { readonly kind: 'absent'; readonly reason: 'no_name' | 'no_record' | 'bad_name' }
  | { readonly kind: 'unanswered'; readonly reason: string };

/** Answers questions; the resolver of `dns/` fits. */
export interface SenderDns {
  /** Makes one lookup. Rejects only because of a bug: any failure of DNS is `unanswered`. */
  lookup(name: string, type: LookupType): Promise<LookupAnswer>;
  /** The cached answer, if there is one. */
  kept?(name: string, type: LookupType): LookupAnswer | undefined;
}

function unanswered(reason: string): LookupAnswer {
  return { kind: 'unanswered', reason };
}

/** The records that are text: all of them for TXT. */
export function textRecords(answer: LookupAnswer): string[] {
  if (answer.kind !== 'records') return [];
  return answer.records.filter((record) => typeof record === 'string');
}

/* The lookups for one message: each is made once, within the time limit of all together. */

export interface LookupTimes {
  /** Milliseconds that one lookup may take. */
  readonly lookupMs: number;
  /** Milliseconds that all of them may take. */
  readonly totalMs: number;
}

export class MessageLookups {
  readonly #guard: ResolverGuard;
  readonly #now: () => number;
  readonly #lookupMs: number;
  readonly #endsAt: number;
  readonly #answers = new Map<string, Promise<LookupAnswer>>();
  #bug: { readonly error: unknown } | undefined;

  /** The time limit starts here. */
  constructor(guard: ResolverGuard, { lookupMs, totalMs }: LookupTimes, now: () => number) {
    this.#guard = guard;
    this.#now = now;
    this.#lookupMs = lookupMs;
    this.#endsAt = now() + totalMs;
  }

  /** Throws the error of the lookup function, if any: a bug must not look like a server that does not answer. */
  throwBugs(): void {
    if (this.#bug) throw this.#bug.error;
  }

  /** Never rejects. */
  ask(name: string, type: LookupType, weight: Weight): Promise<LookupAnswer> {
    const asked = name.toLowerCase().replace(/\.$/, '');
    // A lookup that decides must not get the answer of one that was turned away for its lower weight.
    const key = `${weight} ${type} ${asked}`;
    const known = this.#answers.get(`deciding ${type} ${asked}`) ?? this.#answers.get(key);
    if (known) return known;
    const answer = this.#ask(asked, type, weight);
    this.#answers.set(key, answer);
    return answer;
  }

  async #ask(name: string, type: LookupType, weight: Weight): Promise<LookupAnswer> {
    // Names come from the message. If a name that cannot exist counted as unanswered, DMARC would be a
    // temperror, and mail with a signature by an impossible selector would be accepted.
    if (!isDnsName(name)) return { kind: 'absent', reason: 'bad_name' };
    const left = this.#endsAt - this.#now();
    if (left <= 0) return unanswered('out of time');
    try {
      return await this.#guard.ask(name, type, Math.min(left, this.#lookupMs), weight);
    } catch (error) {
      this.#bug ??= { error };
      return unanswered('failed');
    }
  }
}

/** The codes by which mailauth knows absent names and records. */
const codes = { no_name: 'ENOTFOUND', no_record: 'ENODATA', bad_name: 'EBADNAME' } as const;

/** An error in the form that mailauth expects of its resolver. */
export class LookupError extends Error {
  readonly code: string;

  constructor(answer: Exclude<LookupAnswer, { kind: 'records' }>) {
    super(`DNS: ${answer.reason}`);
    this.code = answer.kind === 'absent' ? codes[answer.reason] : 'EUNANSWERED';
  }
}

/*
 * What all checks know about the resolver: it is left alone while it is dead, and lookups that decide nothing
 * cannot use up the capacity for those that decide.
 */

/**
 * `deciding`: a DMARC record, or an identifier aligned with the author, whose failure makes DMARC
 * temperror. `other`: the rest, which is only reported.
 */
export type Weight = 'deciding' | 'other';

/** A name that every resolver has cached, and that no sender controls. */
const PROBE = 'a.root-servers.net';

/**
 * Lookups of weight `other` under way at a time, of all messages. Without a limit, mail with signatures of
 * domains whose servers never answer would block the lookup of the DMARC record of the next message, which
 * would then be accepted unchecked.
 */
const MAX_OTHER = 64;

/** A timer may fire a little early by the clock. */
const TIMER_MARGIN_MS = 5;

export interface ResolverGuardOptions {
  readonly dns: SenderDns;
  /** Called when the resolver is found dead, and when it answers again. */
  readonly onOutage?: ((isOut: boolean) => void) | undefined;
  /** Milliseconds that the resolver is left alone after it was found dead. */
  readonly restMs: number;
  /** Milliseconds to wait for the answer to the probe. */
  readonly probeMs: number;
  /** Milliseconds on a clock that never goes back. */
  readonly now: () => number;
}

/** Answers within `ms`, else `unanswered`. */
function withDeadline(lookup: Promise<LookupAnswer>, ms: number): Promise<LookupAnswer> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(unanswered('timeout')), ms);
    lookup.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

export class ResolverGuard {
  readonly #options: ResolverGuardOptions;
  #othersUnderWay = 0;
  #answeredAt = Number.NEGATIVE_INFINITY;
  /** When the resolver may be tried again; undefined while it is in use. */
  #restsUntil: number | undefined;
  #isProbing = false;

  constructor(options: ResolverGuardOptions) {
    this.#options = options;
  }

  /** Whether lookups are not made for now. At the end of the pause a probe tests the resolver. */
  isResting(): boolean {
    if (this.#restsUntil === undefined) return false;
    if (this.#options.now() >= this.#restsUntil) this.#probe();
    return true;
  }

  /**
   * Makes one lookup.
   *
   * @param ms how long to wait for its answer
   */
  async ask(name: string, type: LookupType, ms: number, weight: Weight): Promise<LookupAnswer> {
    const kept = this.#options.dns.kept?.(name, type);
    if (kept) return kept;
    if (this.isResting()) return unanswered('the resolver is left alone');
    if (weight === 'other' && this.#othersUnderWay >= MAX_OTHER) return unanswered('too busy');
    const count = Number(weight === 'other');
    const askedAt = this.#options.now();
    this.#othersUnderWay += count;
    try {
      const answer = await withDeadline(this.#options.dns.lookup(name, type), ms);
      if (answer.kind !== 'unanswered') this.#answeredAt = this.#options.now();
      // The missing answer may be the fault of one domain's servers, which the sender chose: then the
      // resolver answers other questions, and must not be given up.
      else if (this.#answeredAt < askedAt) this.#probe();
      return answer;
    } finally {
      this.#othersUnderWay -= count;
    }
  }

  #probe(): void {
    if (this.#isProbing) return;
    this.#isProbing = true;
    const { dns, probeMs } = this.#options;
    void withDeadline(dns.lookup(PROBE, 'A'), probeMs)
      .catch(() => unanswered('failed'))
      .then(({ kind }) => {
        this.#isProbing = false;
        this.#found(kind !== 'unanswered');
      });
  }

  #found(isAnswering: boolean): void {
    const { restMs, now, onOutage } = this.#options;
    const wasResting = this.#restsUntil !== undefined;
    this.#restsUntil = isAnswering ? undefined : now() + restMs;
    if (isAnswering) this.#answeredAt = now();
    // This runs also where no mail comes, so that the first message after the outage is checked.
    else setTimeout(() => this.isResting(), restMs + TIMER_MARGIN_MS).unref();
    if (wasResting === isAnswering) onOutage?.(!isAnswering);
  }
}
