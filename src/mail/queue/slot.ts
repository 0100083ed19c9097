/** The slot that an attempt holds among those of its worker. */
import type { Lanes } from './lanes.ts';
import type { Batch, Lane } from './parties.ts';

/** Thrown by {@link Slot.enter}: the attempt ends before it has begun, and does not count. */
export class Postponed extends Error {
  override readonly name = 'Postponed';
}

/** Attempts that have waited for a host for long, the longest waiting first: each by the function that ends it. */
export type Patient = Map<() => void, Lane>;

interface SlotOptions {
  readonly lanes: Lanes;
  readonly batch: Batch;
  readonly patient: Patient;
  /** Called when one more attempt may be ended for another that needs its slot. */
  onPatient(): void;
}

export class Slot {
  readonly #options: SlotOptions;
  #hasEntered = false;
  /** The host at which the attempt counts, beside its destination. */
  host: string | undefined;

  constructor(options: SlotOptions) {
    this.#options = options;
    this.host = options.batch.host;
  }

  /** Whether somebody waits for a slot who has a right to this one. */
  get isWanted(): boolean {
    const { lanes, batch } = this.#options;
    return lanes.isWanted(batch);
  }

  /**
   * The attempt is about to connect to a host, such as the address of an MX.
   *
   * @throws Postponed where too many attempts are at this host, and this one has connected to none before
   */
  enter(host: string): void {
    const { lanes, batch } = this.#options;
    if (lanes.enter(batch, host, this.host)) this.host = host;
    else if (!this.#hasEntered) throw new Postponed(`other mail waits for ${host}`);
    this.#hasEntered = true;
  }

  /**
   * The attempt has waited for long.
   *
   * @param end ends it; called where somebody waits for a slot
   * @returns to be called when it has come
   */
  whenWanted(end: () => void): () => void {
    const { batch, patient, onPatient } = this.#options;
    patient.set(end, batch);
    onPatient();
    return () => patient.delete(end);
  }
}
