/** A list of the API: all of it by iterating, one page by awaiting. */

/** One page, as the API answers it. */
export interface Page<T> {
  readonly items: readonly T[];
}

export interface PageReader<P> {
  first(): PromiseLike<P>;
  /** Undefined after the last page. */
  after(page: P): PromiseLike<P> | undefined;
}

/**
 * `for await (const item of list)` reads page after page, `await list` reads one. No item comes twice, also when others
 * are added or removed meanwhile.
 */
export class Pages<T, P extends Page<T> = Page<T>> implements PromiseLike<P>, AsyncIterable<T> {
  readonly #reader: PageReader<P>;

  constructor(reader: PageReader<P>) {
    this.#reader = reader;
  }

  // biome-ignore lint/suspicious/noThenProperty: awaiting a list reads a page
  then<A = P, B = never>(
    done?: ((page: P) => A | PromiseLike<A>) | null,
    failed?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return Promise.resolve(this.#reader.first()).then(done, failed);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    let page: P | undefined = await this.#reader.first();
    while (page) {
      yield* page.items;
      page = await this.#reader.after(page);
    }
  }

  /** The items, at most `max` of them: a list may be longer than the memory is large. */
  async toArray({ max }: { readonly max: number }): Promise<T[]> {
    const items: T[] = [];
    if (max <= 0) return items;
    for await (const item of this) {
      items.push(item);
      if (items.length >= max) break;
    }
    return items;
  }
}
