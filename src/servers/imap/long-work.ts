/**
 * Work of one command that may go on for long, in a process that serves all other connections between its steps, while its
 * own client gets signs of life.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { takeTurnOf } from '../../mailboxes/mailstore/mailstore.ts';
import { No, type Progress, type Session } from './session.ts';

/** Milliseconds after which others have their turn. */
const STEP = 10;
/** Milliseconds for the work of a command in all: others may wait for its turn. */
const WORK_MAX = 30_000;

export class Pace {
  readonly #session: Session;
  readonly #until: number;
  #yieldedAt = performance.now();

  /** @param most milliseconds of all of it; a command that waits for its client has no end of its own */
  constructor(session: Session, most = WORK_MAX) {
    this.#session = session;
    this.#until = this.#yieldedAt + most;
  }

  /** Whether it is time to {@link Pace.yieldTurn}. */
  get mustYield(): boolean {
    return performance.now() - this.#yieldedAt > STEP;
  }

  /** Gives others their turn. @throws No where the work takes too long; the signal's reason where the client left */
  async yieldTurn(): Promise<void> {
    await this.leaveTurn();
    this.#session.channel.signal.throwIfAborted();
    if (this.#yieldedAt > this.#until) throw tooMuch();
  }

  /** The same between answers of which all are told that were read, also where the session ends. */
  async leaveTurn(): Promise<void> {
    await takeTurnOf(this.#session.user);
    this.#yieldedAt = performance.now();
  }
}

/** What a command is refused with that costs too much. */
export function tooMuch(): No {
  return new No('LIMIT', 'That reads too much: ask for less, by date for example');
}

/* Signs of life (RFC 9585), so that programs and what is between do not give up. */

/** Milliseconds between two of them. */
const PROGRESS_EVERY_MS = 10_000;

/**
 * Waits for work of a command, of whose answer nothing or whole lines were passed on.
 *
 * @param progress how far it is; undefined where nobody knows
 * @throws what the work throws
 */
export async function* showProgress<T>(
  session: Session,
  work: Promise<T>,
  progress: () => Progress | undefined = () => undefined,
): AsyncGenerator<string, T> {
  if (session.services.disabled?.has('INPROGRESS')) return work;
  // Where the client leaves meanwhile nobody waits for it.
  work.catch(() => {});
  const ended = work.then((value) => ({ value }));
  for (;;) {
    const { promise: passed, resolve: pass } = Promise.withResolvers<undefined>();
    const timer = setTimeout(pass, PROGRESS_EVERY_MS, undefined);
    const result = await Promise.race([ended, passed]).finally(() => clearTimeout(timer));
    if (result) return result.value;
    const { done, of } = progress() ?? { done: 'NIL', of: 'NIL' };
    yield `* OK [INPROGRESS ("${session.tag}" ${done} ${of})] Still working\r\n`;
    await session.channel.flush();
  }
}

/* Puts many numbers in order without holding up other connections. */

/** Numbers that are put in order without a pause. */
const AT_ONCE = 4_096;

/** The indexes below `length` in order: sorted in pieces, which are merged, so that others have their turn between them. */
export async function sortInTurns(
  length: number,
  compare: (a: number, b: number) => number,
): Promise<Uint32Array> {
  let sorted = Uint32Array.from({ length }, (_, index) => index);
  let merged = new Uint32Array(length);
  for (let at = 0; at < length; at += AT_ONCE) {
    await turn();
    const some = sorted.subarray(at, at + AT_ONCE);
    // As a list: what is in order already, as mail mostly is, is found to be so.
    some.set(Array.from(some).sort(compare));
  }
  for (let size = AT_ONCE; size < length; size *= 2) {
    for (let at = 0; at < length; at += 2 * size) {
      const [left, right] = [
        sorted.subarray(at, at + size),
        sorted.subarray(at + size, at + 2 * size),
      ];
      for (let l = 0, r = 0; l + r < left.length + right.length; ) {
        if ((l + r) % AT_ONCE === 0) await turn();
        const [a, b] = [left[l], right[r]];
        const isLeft = b === undefined || (a !== undefined && compare(a, b) <= 0);
        merged[at + l + r] = (isLeft ? a : b) ?? 0;
        if (isLeft) l++;
        else r++;
      }
    }
    [sorted, merged] = [merged, sorted];
  }
  return sorted;
}
