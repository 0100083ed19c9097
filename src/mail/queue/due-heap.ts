/** Items in the order of their due times: a binary heap. */

interface Entry<T> {
  readonly due: number;
  readonly item: T;
}

export class DueHeap<T> {
  #entries: Entry<T>[] = [];

  get size(): number {
    return this.#entries.length;
  }

  /** The earliest time; infinity where it is empty. */
  get earliest(): number {
    return this.#entries[0]?.due ?? Number.POSITIVE_INFINITY;
  }

  push(due: number, item: T): void {
    const entry = { due, item };
    let at = this.#entries.length;
    this.#entries.push(entry);
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = this.#entries[above];
      if (!parent || parent.due <= due) break;
      this.#entries[at] = parent;
      at = above;
    }
    this.#entries[at] = entry;
  }

  /** Removes and returns the earliest. */
  pop(): T | undefined {
    const first = this.#entries[0];
    const last = this.#entries.pop();
    if (first && last && first !== last) this.#sink(last);
    return first?.item;
  }

  /** Keeps only the entries that are up to date. */
  keep(isCurrent: (item: T, due: number) => boolean): void {
    // A sorted array is a heap.
    this.#entries = this.#entries
      .filter(({ item, due }) => isCurrent(item, due))
      .sort((a, b) => a.due - b.due);
  }

  /** Replaces the first entry, and restores the order. */
  #sink(entry: Entry<T>): void {
    let at = 0;
    for (;;) {
      const left = this.#entries[2 * at + 1];
      const right = this.#entries[2 * at + 2];
      if (!left) break;
      const isRight = right !== undefined && right.due < left.due;
      const child = isRight ? right : left;
      if (child.due >= entry.due) break;
      this.#entries[at] = child;
      at = 2 * at + (isRight ? 2 : 1);
    }
    this.#entries[at] = entry;
  }
}
