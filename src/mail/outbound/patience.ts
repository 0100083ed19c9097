/**
 * How long an attempt may wait for one host while others wait for its slot. RFC 5321 section 4.5.3.2 gives a host minutes
 * for its greeting and for each reply. Somebody with many domains whose hosts say nothing, or a line now and then, would
 * fill all slots for as long. So a host has 30 s until it has the whole message, and 2 minutes more to answer it:
 * an attempt that is ended then may be repeated although the host took the message, so that is the longer time. While
 * nobody waits, a host has all the time of the protocol.
 *
 * Whether the host answered before is not asked: it would answer once, and be slow from then on.
 */
import { SmtpFailure } from '../../protocols/smtp-client/smtp-client.ts';

/** The slot of an attempt among all that are under way. */
export interface SendSlot {
  /** Whether somebody waits for a slot. */
  readonly isWanted: boolean;
  /** Called before a connection with its address; what it throws ends the attempt before that. */
  enter(address: string): void;
  /** Calls `end` where somebody waits for a slot. @returns to be called when that is over */
  whenWanted(end: () => void): () => void;
}

/** Milliseconds that a host has while others wait for a slot. */
export interface PatienceTimes {
  /** Until it has the whole message. */
  readonly handover: number;
  /** For its answer to the message. */
  readonly answer: number;
}

const SLOW = new SmtpFailure('the server took too long, and other mail waited');

/** One attempt at one host. */
export class Wait {
  /** Ends the connection. */
  readonly signal: AbortSignal;
  readonly #slot: SendSlot | undefined;
  readonly #times: PatienceTimes;
  readonly #ended = new AbortController();
  #stop = () => {};
  #isLong = false;

  constructor(slot: SendSlot | undefined, times: PatienceTimes, stop: AbortSignal) {
    this.#slot = slot;
    this.#times = times;
    this.signal = AbortSignal.any([stop, this.#ended.signal]);
    this.#begin(times.handover);
  }

  /** Whether it may be, or was, ended for others. */
  get isLong(): boolean {
    return this.#isLong;
  }

  /** The host has the whole message. */
  onSent(): void {
    this.#stop();
    this.#isLong = false;
    this.#begin(this.#times.answer);
  }

  end(): void {
    this.#stop();
  }

  #begin(ms: number): void {
    const slot = this.#slot;
    if (!slot) return;
    const timer = setTimeout(() => {
      this.#isLong = true;
      this.#stop = slot.whenWanted(() => this.#ended.abort(SLOW));
    }, ms);
    this.#stop = () => clearTimeout(timer);
  }
}
