/**
 * DNS for the checks: the lookups of one message, and the state of the resolver that all messages share.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { ClientShares, type Party, Turns } from '../../../platform/net/net.ts';
import { within } from '../../../platform/time/time.ts';
import { type DnsAnswer, isDnsName } from '../../../protocols/dns/dns.ts';
import type { SpfType } from '../../../protocols/spf/spf.ts';

export type LookupType = SpfType;

/** What DNS said. */
export type LookupAnswer = DnsAnswer<LookupType>;

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
  readonly #partiesOf: (name: string) => readonly Party[];
  readonly #signal: AbortSignal;
  #isCrowded = false;
  #bug: { readonly error: unknown } | undefined;

  /**
   * The time limit starts here.
   *
   * @param partiesOf whose share the lookup of a name takes: the client's first
   */
  constructor(
    guard: ResolverGuard,
    { lookupMs, totalMs }: LookupTimes,
    partiesOf: (name: string) => readonly Party[],
    now: () => number,
  ) {
    this.#guard = guard;
    this.#partiesOf = partiesOf;
    this.#signal = AbortSignal.timeout(totalMs);
    this.#now = now;
    this.#lookupMs = lookupMs;
    this.#endsAt = now() + totalMs;
  }

  /**
   * Whether a lookup that decides was not made, since too many of its parties' were under way, or was not answered by a
   * resolver that may be full of others.
   */
  get isCrowded(): boolean {
    return this.#isCrowded;
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
    const ms = Math.min(left, this.#lookupMs);
    const [parties, signal] = [this.#partiesOf(name), this.#signal];
    try {
      const answer = await this.#guard.ask(name, type, { ms, weight, parties, signal });
      if (answer.kind === 'unanswered' && weight === 'deciding' && this.#guard.isFull()) {
        this.#isCrowded = true;
      }
      return answer;
    } catch (error) {
      if (signal.aborted && error === signal.reason) {
        this.#isCrowded = true;
        return unanswered('too many lookups');
      }
      this.#bug ??= { error };
      return unanswered('failed');
    }
  }
}

/*
 * What all checks know about the resolver: it is left alone while it does not answer, and lookups that decide nothing
 * cannot use up the capacity for those that decide.
 *
 * A resolver that many lookups have just filled looks like a dead one. So it counts as dead only where it does not answer
 * after a time without them; until then, mail whose policy is not known is deferred.
 */

/**
 * `deciding`: a DMARC record, or an identifier aligned with the author, whose failure makes DMARC
 * temperror. `other`: the rest, which is only reported.
 */
export type Weight = 'deciding' | 'other';

/** A name that every resolver has cached, and that no sender controls. */
const PROBE = 'a.root-servers.net';

/*
 * Lookups under way at a time, of all messages. Strangers choose the names, and may choose ones whose servers never
 * answer. All together are fewer than the resolver makes at once, so that the probe never waits behind them.
 */

/** Of weight `deciding`. Whoever has used up his share waits, and his mail is deferred. */
const DECIDING_AT_ONCE = 400;
/** The share of one client. */
export const DECIDING_OF_CLIENT = 16;
/** The share of the clients of one network: with many addresses of his own nobody has more. */
export const DECIDING_OF_NETWORK = DECIDING_AT_ONCE / 2;
/** The share of the names of one organisation: no client fills it alone. */
export const DECIDING_OF_ORGANIZATION = 32;
/** Of weight `other`: what comes on top is not looked up. */
const OTHERS_AT_ONCE = 64;
const OTHERS_OF_ONE = 8;

/** Milliseconds that a resolver may still work at a lookup that we have given up, where it may be full. */
const LATE_MS = 8_000;

/** Milliseconds that a resolver that may be full is left alone before the next probe. */
const FULL_REST_MS = 2_000;

/** A timer may fire a little early by the clock. */
const TIMER_MARGIN_MS = 5;

export interface ResolverGuardOptions {
  readonly dns: SenderDns;
  /** Called when the resolver is found dead, and when it answers again. */
  readonly onOutage?: ((isOut: boolean) => void) | undefined;
  /** What this process did not get an answer to lately. */
  readonly unanswered: Unanswered;
  /** Milliseconds that the resolver is left alone after it was found dead. */
  readonly restMs: number;
  /** Milliseconds to wait for the answer to the probe. */
  readonly probeMs: number;
  /** Milliseconds on a clock that never goes back. */
  readonly now: () => number;
}

/** Answers within `ms`, else `unanswered`. */
function withDeadline(lookup: Promise<LookupAnswer>, ms: number): Promise<LookupAnswer> {
  return within(lookup, ms, unanswered('timeout'));
}

export interface GuardedLookup {
  /** How long to wait for its answer, in milliseconds. */
  readonly ms: number;
  readonly weight: Weight;
  /** Whose share it takes: the client, then others. */
  readonly parties: readonly Party[];
  /** Ends the wait for its turn. */
  readonly signal: AbortSignal;
}

export class ResolverGuard {
  readonly #options: ResolverGuardOptions;
  /** The shares of clients, in which one that is late is held for longer than in the rest. */
  readonly #clients = new Turns(Number.POSITIVE_INFINITY);
  readonly #deciding = new Turns(DECIDING_AT_ONCE);
  readonly #others = new ClientShares(OTHERS_AT_ONCE);
  #answeredAt = Number.NEGATIVE_INFINITY;
  #state: 'in use' | 'full' | 'dead' = 'in use';
  /** When the resolver may be tried again, where it is not in use. */
  #restsUntil = 0;
  #isProbing = false;

  constructor(options: ResolverGuardOptions) {
    this.#options = options;
  }

  /** Whether lookups are not made for now. At the end of the pause a probe tests the resolver. */
  isResting(): boolean {
    if (this.#state === 'in use') return false;
    if (this.#options.now() >= this.#restsUntil) this.#probe();
    return true;
  }

  /** Whether the resolver does not answer anything, whatever it is asked. */
  isDead(): boolean {
    return this.isResting() && this.#state === 'dead';
  }

  /** Whether lookups may be unanswered because of others of this process. */
  isFull(): boolean {
    return this.#state === 'full' || this.#options.unanswered.areMany();
  }

  /**
   * Makes one lookup, when it is its turn.
   *
   * @throws the signal's reason where it comes before the turn
   */
  async ask(name: string, type: LookupType, asked: GuardedLookup): Promise<LookupAnswer> {
    const kept = this.#options.dns.kept?.(name, type);
    if (kept) return kept;
    if (this.isResting()) return unanswered('the resolver is left alone');
    const { ms, weight, parties, signal } = asked;
    const begun = Promise.withResolvers<LookupAnswer>();
    // The slots are held until the lookup ends, also where nobody waits for the answer any more.
    const lookUp = () => {
      const lookup = this.#options.dns.lookup(name, type);
      begun.resolve(this.#watch(lookup, ms));
      return lookup;
    };
    const [client, ...others] = parties;
    if (weight === 'deciding') {
      const inTurn = () => this.#hold(this.#deciding.run(others, lookUp, signal));
      this.#clients.run(client ? [client] : [], inTurn, signal).catch(begun.reject);
      return begun.promise;
    }
    const giveBack = this.#others.hold(client?.name ?? '', OTHERS_OF_ONE);
    if (!giveBack) return unanswered('too busy');
    this.#hold(lookUp()).catch(begun.reject).finally(giveBack);
    return begun.promise;
  }

  /** Ends when the resolver no longer works at a lookup: then the client's slot is free again. */
  async #hold(lookup: Promise<LookupAnswer>): Promise<void> {
    const answer = await lookup;
    const isLate = answer.kind === 'unanswered' && answer.failure === 'late';
    if (isLate && this.isFull()) await pause(LATE_MS, undefined, { ref: false });
  }

  async #watch(lookup: Promise<LookupAnswer>, ms: number): Promise<LookupAnswer> {
    const askedAt = this.#options.now();
    const answer = await withDeadline(lookup, ms);
    if (answer.kind !== 'unanswered') {
      this.#answeredAt = this.#options.now();
      return answer;
    }
    if (answer.failure !== 'unreachable') this.#options.unanswered.add();
    // The missing answer may be the fault of one domain's servers, which the sender chose: then the resolver answers
    // other questions, and must not be given up.
    if (this.#answeredAt < askedAt) this.#probe();
    return answer;
  }

  #probe(): void {
    if (this.#isProbing) return;
    this.#isProbing = true;
    const { dns, probeMs, now } = this.#options;
    const probedAt = now();
    void withDeadline(dns.lookup(PROBE, 'A'), probeMs)
      .catch(() => unanswered('failed'))
      .then(({ kind }) => {
        this.#isProbing = false;
        // It may be so busy that it drops some questions.
        this.#found(kind !== 'unanswered' || this.#answeredAt > probedAt);
      });
  }

  #found(isAnswering: boolean): void {
    const { now, onOutage, unanswered } = this.#options;
    const wasDead = this.#state === 'dead';
    const mayBeFull = !wasDead && unanswered.areMany();
    this.#state = isAnswering ? 'in use' : mayBeFull ? 'full' : 'dead';
    if (isAnswering) this.#answeredAt = now();
    else this.#rest();
    const isDead = this.#state === 'dead';
    if (wasDead !== isDead) onOutage?.(isDead);
  }

  #rest(): void {
    const { restMs, now } = this.#options;
    const ms = this.#state === 'full' ? FULL_REST_MS : restMs;
    this.#restsUntil = now() + ms;
    // This runs also where no mail comes, so that the first message after the outage is checked.
    setTimeout(() => this.isResting(), ms + TIMER_MARGIN_MS).unref();
  }
}

/** Seconds for which a lookup is counted: a resolver may work at it for that long after we have given it up. */
const LATELY = 15;
/** A power of two above it. */
const SECONDS = 16;
/** So many may fill a resolver. A machine whose DNS is away, and which gets little mail, does not come to so many. */
const MANY = 50;
/** Of each second: which one it is, and the number of lookups. */
const CELLS = 2;

/**
 * How many lookups the resolver has left unanswered lately. A resolver has limits, too: Dnsmasq refuses all questions while
 * it waits for 150 answers, and waits for each about ten seconds. Lookups of names whose servers never answer fill it, and
 * it then looks like one that is dead. It counts in memory that threads share, since all ask the same resolver.
 */
export class Unanswered {
  readonly #cells: Int32Array<SharedArrayBuffer>;
  readonly #now: () => number;

  /** @param now milliseconds on a clock that is the same in all threads */
  constructor(
    memory: SharedArrayBuffer = Unanswered.memory(),
    now = () => performance.timeOrigin + performance.now(),
  ) {
    this.#cells = new Int32Array(memory);
    this.#now = now;
  }

  static memory(): SharedArrayBuffer {
    return new SharedArrayBuffer(SECONDS * CELLS * Int32Array.BYTES_PER_ELEMENT);
  }

  add(): void {
    const second = this.#second();
    const at = (second % SECONDS) * CELLS;
    // Where two threads begin a second together, one lookup may not be counted.
    if (Atomics.exchange(this.#cells, at, second) !== second) Atomics.store(this.#cells, at + 1, 0);
    Atomics.add(this.#cells, at + 1, 1);
  }

  /** Whether they are so many that they may have filled the resolver. */
  areMany(): boolean {
    const second = this.#second();
    let sum = 0;
    for (let at = 0; at < this.#cells.length; at += CELLS) {
      const age = second - Atomics.load(this.#cells, at);
      if (age >= 0 && age <= LATELY) sum += Atomics.load(this.#cells, at + 1);
    }
    return sum >= MANY;
  }

  #second(): number {
    return Math.floor(this.#now() / 1_000) % 2 ** 31;
  }
}
