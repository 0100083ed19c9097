/**
 * Whether heartbeats come without a gap. A lease of another node that has ended says that this node is dead only then: after an
 * outage of the database, a pause of the whole machine or a jump of the database's clock, the leases of all nodes have ended.
 */
import type { EpochMs } from '../time/time.ts';

/** Two heartbeats and a half. No lease ends within such a gap that was renewed before it and is renewed after it. */
const GAP_MS = 12_500;
/** Within that each living node has measured the database's clock and renewed its leases, whatever made a gap. */
const STEADY_MS = 15_000;

export class SteadyBeats {
  readonly #monotonic: () => number;
  /** Of the last heartbeat, by the database's clock: it goes on where that is away, and where the machine is paused. */
  #at = 0;
  /** The same by the monotonic clock. */
  #notedAt = Number.NEGATIVE_INFINITY;
  /** When the heartbeats began that came without a gap. */
  #from = Number.POSITIVE_INFINITY;

  constructor(monotonic = () => performance.now()) {
    this.#monotonic = monotonic;
  }

  /** A heartbeat was written. @param at by the database's clock, which was just measured */
  note(at: EpochMs): void {
    this.#notedAt = this.#monotonic();
    if (at - this.#at > GAP_MS) this.#from = this.#notedAt;
    this.#at = at;
  }

  get isSteady(): boolean {
    const now = this.#monotonic();
    return now - this.#notedAt <= GAP_MS && now - this.#from >= STEADY_MS;
  }
}
