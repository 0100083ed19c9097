/**
 * DNS as the checks ask it: the questions of one message, and what all messages share of the resolver.
 */
import { isDnsName } from '../../dns/dns.ts';

export type LookupType = 'A' | 'AAAA' | 'MX' | 'PTR' | 'TXT';

export interface MailExchanger {
  /** Lower is preferred. */
  readonly preference: number;
  readonly exchange: string;
}

/**
 * What DNS said. `absent` is an answer, too: the name, or the record at it, is not there.
 * `unanswered` says nothing about the record: nobody could be asked.
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
  /** Asks one question. Rejects for bugs only: what goes wrong is `unanswered`. */
  lookup(name: string, type: LookupType): Promise<LookupAnswer>;
  /** The answer to a question where it is at hand, so that nobody has to be asked. */
  kept?(name: string, type: LookupType): LookupAnswer | undefined;
}

function unanswered(reason: string): LookupAnswer {
  return { kind: 'unanswered', reason };
}

/** The records that are text; those of TXT all are. */
export function textRecords(answer: LookupAnswer): string[] {
  if (answer.kind !== 'records') return [];
  return answer.records.filter((record) => typeof record === 'string');
}

/* The lookups for one message: each question once, all in the time that they have together. */

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

  /** The time starts to run. */
  constructor(guard: ResolverGuard, { lookupMs, totalMs }: LookupTimes, now: () => number) {
    this.#guard = guard;
    this.#now = now;
    this.#lookupMs = lookupMs;
    this.#endsAt = now() + totalMs;
  }

  /** Throws what the lookup function threw, if it did: a bug must not pass for a silent server. */
  throwBugs(): void {
    if (this.#bug) throw this.#bug.error;
  }

  /** Never rejects. */
  ask(name: string, type: LookupType, weight: Weight): Promise<LookupAnswer> {
    const asked = name.toLowerCase().replace(/\.$/, '');
    // What decides is never answered by what was turned away for being of less weight.
    const key = `${weight} ${type} ${asked}`;
    const known = this.#answers.get(`deciding ${type} ${asked}`) ?? this.#answers.get(key);
    if (known) return known;
    const answer = this.#ask(asked, type, weight);
    this.#answers.set(key, answer);
    return answer;
  }

  async #ask(name: string, type: LookupType, weight: Weight): Promise<LookupAnswer> {
    // Names come out of the message. Called unanswered, one that cannot be asked for would make DMARC a
    // temperror, and mail with a signature by an impossible selector would be taken.
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

/** What mailauth knows the absences by. */
const codes = { no_name: 'ENOTFOUND', no_record: 'ENODATA', bad_name: 'EBADNAME' } as const;

/** An error as mailauth expects of its resolver. */
export class LookupError extends Error {
  readonly code: string;

  constructor(answer: Exclude<LookupAnswer, { kind: 'records' }>) {
    super(`DNS: ${answer.reason}`);
    this.code = answer.kind === 'absent' ? codes[answer.reason] : 'EUNANSWERED';
  }
}

/*
 * What all checks share of the resolver: it is left alone while it is dead, and lookups that decide
 * nothing cannot take it away from those that do.
 */

/**
 * `deciding`: a DMARC record, or an identifier aligned with the author, whose failure makes DMARC
 * temperror. `other`: the rest, which is only told.
 */
export type Weight = 'deciding' | 'other';

/** A name that every resolver has an answer for at hand, and that no sender has a hand in. */
const PROBE = 'a.root-servers.net';

/**
 * Lookups of weight `other` under way at a time, of all messages. Without a limit, mail with
 * signatures of domains whose servers never answer would keep the resolver from the DMARC record of
 * the next message, which would then be taken unchecked.
 */
const MAX_OTHER = 64;

/** A timer may fire a little before the clock says so. */
const TIMER_MARGIN_MS = 5;

export interface ResolverGuardOptions {
  readonly dns: SenderDns;
  /** Told when the resolver is found dead, and when it answers again. */
  readonly onOutage?: ((isOut: boolean) => void) | undefined;
  /** Milliseconds that the resolver is left alone after it was found dead. */
  readonly restMs: number;
  /** Milliseconds that the probe waits. */
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

  /** Whether nothing is asked for now. Once the rest is over, a probe goes out to find out. */
  isResting(): boolean {
    if (this.#restsUntil === undefined) return false;
    if (this.#options.now() >= this.#restsUntil) this.#probe();
    return true;
  }

  /**
   * Asks one question.
   *
   * @param ms how long its answer is waited for
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
      // Silence may be that of the servers of one domain, chosen by the sender: then the resolver
      // answers other questions, and must not be given up.
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
    // Also where no mail comes: the first message after the outage is to be checked.
    else setTimeout(() => this.isResting(), restMs + TIMER_MARGIN_MS).unref();
    if (wasResting === isAnswering) onOutage?.(!isAnswering);
  }
}
