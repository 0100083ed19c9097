/** Something that fails for a while: only its first failure is told, and its end. */

/** @typeParam Failure what is known of a failure */
export class Outage<Failure = unknown> {
  readonly #begins: (failure: Failure) => void;
  readonly #ends: (seconds: number) => void;
  #since: number | undefined;

  /**
   * @param begins called with the first failure
   * @param ends called with the first success after it, and how many seconds it came after the failure
   */
  constructor(begins: (failure: Failure) => void, ends: (seconds: number) => void = () => {}) {
    this.#begins = begins;
    this.#ends = ends;
  }

  /** Whether it failed the last time. */
  get isOn(): boolean {
    return this.#since !== undefined;
  }

  failed(failure: Failure): void {
    if (this.isOn) return;
    this.#since = performance.now();
    this.#begins(failure);
  }

  worked(): void {
    if (this.#since === undefined) return;
    const seconds = Math.round((performance.now() - this.#since) / 1000);
    this.#since = undefined;
    this.#ends(seconds);
  }
}
