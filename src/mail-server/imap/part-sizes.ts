/** Decoded sizes of large parts: a message never changes under its UIDVALIDITY and UID. */
import { LRUCache } from 'lru-cache';

const KEPT = 2_000;

export class PartSizes {
  readonly #sizes = new LRUCache<string, Promise<number>>({ max: KEPT });

  /** @param measure reads the part; run once for readers that come together */
  of(key: string, measure: () => Promise<number>): Promise<number> {
    const known = this.#sizes.get(key);
    if (known) return known;
    const size = measure();
    this.#sizes.set(key, size);
    size.catch(() => this.#sizes.delete(key));
    return size;
  }
}
