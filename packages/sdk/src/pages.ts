/** A list of the API: all of it by iterating, one page by awaiting. */

/** One page, as the API answers it. */
export interface Page<T> {
  readonly items: readonly T[];
}

/**
 * `for await (const item of list)` reads page after page, `await list` reads one. No item comes twice, also when others
 * are added or removed meanwhile.
 */
export class Pages<T, P extends Page<T> = Page<T>> implements PromiseLike<P>, AsyncIterable<T> {
  readonly #read: (query: object) => PromiseLike<P>;
  readonly #next: (page: P) => object | undefined;

  /** @param next what asks for the page after one; undefined after the last */
  constructor(read: (query: object) => PromiseLike<P>, next: (page: P) => object | undefined) {
    this.#read = read;
    this.#next = next;
  }

  // biome-ignore lint/suspicious/noThenProperty: awaiting a list reads a page
  then<A = P, B = never>(
    done?: ((page: P) => A | PromiseLike<A>) | null,
    failed?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return Promise.resolve(this.#read({})).then(done, failed);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for (let query: object | undefined = {}; query; ) {
      const page: P = await this.#read(query);
      yield* page.items;
      query = this.#next(page);
    }
  }

  /** The items, at most `max` of them: a list may be longer than the memory is large. */
  async toArray(limit: { readonly max: number }): Promise<T[]> {
    const { max } = limit ?? {};
    if (!(max >= 0)) throw new TypeError('max must be given, 0 or more: toArray({ max: 200 })');
    const items: T[] = [];
    if (max === 0) return items;
    for await (const item of this) {
      items.push(item);
      if (items.length >= max) break;
    }
    return items;
  }
}
