/**
 * What all checks share of the resolver: it is left alone while it is dead, and lookups that decide
 * nothing cannot take it away from those that do.
 */
import { type Lookup, type LookupAnswer, type LookupType, unanswered } from './lookup.ts';

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

export interface ResolverGuardOptions {
  readonly lookup: Lookup;
  /** Milliseconds that the resolver is left alone after it was found dead. */
  readonly restMs: number;
  /** Milliseconds that the probe waits. */
  readonly probeMs: number;
  /** Milliseconds on a clock that never goes back. */
  readonly now: () => number;
}

/** Answers within `ms`, else `unanswered`. */
export function withDeadline(lookup: Promise<LookupAnswer>, ms: number): Promise<LookupAnswer> {
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
    if (this.isResting()) return unanswered('the resolver is left alone');
    if (weight === 'other' && this.#othersUnderWay >= MAX_OTHER) return unanswered('too busy');
    const count = Number(weight === 'other');
    const askedAt = this.#options.now();
    this.#othersUnderWay += count;
    try {
      const answer = await withDeadline(this.#options.lookup(name, type), ms);
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
    const { lookup, probeMs, restMs, now } = this.#options;
    void withDeadline(lookup(PROBE, 'A'), probeMs)
      .catch(() => unanswered('failed'))
      .then(({ kind }) => {
        this.#isProbing = false;
        this.#restsUntil = kind === 'unanswered' ? now() + restMs : undefined;
        if (kind !== 'unanswered') this.#answeredAt = now();
      });
  }
}
