/** Decoded sizes of large parts: a message never changes under its UIDVALIDITY and UID. */

const KEPT = 2_000;

export class PartSizes {
  readonly #sizes = new Map<string, Promise<number>>();

  /** @param measure reads the part; run once for readers that come together */
  of(key: string, measure: () => Promise<number>): Promise<number> {
    const known = this.#sizes.get(key);
    if (known) {
      this.#sizes.delete(key);
      this.#sizes.set(key, known);
      return known;
    }
    const size = measure();
    this.#sizes.set(key, size);
    size.catch(() => this.#sizes.delete(key));
    const [oldest] = this.#sizes.keys();
    if (this.#sizes.size > KEPT && oldest !== undefined) this.#sizes.delete(oldest);
    return size;
  }
}
