/** Work of one command that may go on for long, in a process that serves all other connections between its steps. */
import { setImmediate as turn } from 'node:timers/promises';
import { No, type Session } from './session.ts';

/** Milliseconds after which others have their turn. */
const STEP = 10;
/** Milliseconds for the work of a command in all: others may wait for its turn. */
const WORK_MAX = 30_000;

export class Pace {
  readonly #signal: AbortSignal;
  readonly #until: number;
  #rested = performance.now();

  constructor({ channel }: Session) {
    this.#signal = channel.signal;
    this.#until = this.#rested + WORK_MAX;
  }

  /** Whether it is time to {@link Pace.rest}. */
  get isTired(): boolean {
    return performance.now() - this.#rested > STEP;
  }

  /** Gives others their turn. @throws No where the work takes too long; the signal's reason where the client left */
  async rest(): Promise<void> {
    await turn();
    this.#signal.throwIfAborted();
    this.#rested = performance.now();
    if (this.#rested > this.#until) throw tooMuch();
  }
}

/** What a command is refused with that costs too much. */
export function tooMuch(): No {
  return new No('LIMIT', 'That reads too much: ask for less, by date for example');
}
