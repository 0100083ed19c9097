/** The lookups for one message: each question once, all in the time that they have together. */
import { type LookupAnswer, type LookupType, unanswered } from './lookup.ts';
import type { ResolverGuard, Weight } from './resolver-guard.ts';

export interface LookupTimes {
  /** Milliseconds that one lookup may take. */
  readonly lookupMs: number;
  /** Milliseconds that all of them may take. */
  readonly totalMs: number;
}

/** RFC 1035 section 2.3.4, in presentation form. */
const NAME_MAX = 253;
const LABEL = /^[!-~]{1,63}$/;

/**
 * Whether DNS could hold the name. Names come out of the message: one that cannot be asked for has
 * no records, which is an answer. Called unanswered, it would make DMARC a temperror, and mail with a
 * signature by an impossible selector would be taken.
 */
function isName(name: string): boolean {
  return name.length <= NAME_MAX && name.split('.').every((label) => LABEL.test(label));
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
    if (!isName(name)) return { kind: 'absent', reason: 'bad_name' };
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
