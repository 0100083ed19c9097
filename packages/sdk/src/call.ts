/** What a method returns: its answer as a promise, with the response beside it for those who ask. */
import type { ApiAnswer } from './transport.ts';

/** The answer of a call as a promise; `withResponse` has its status and headers, too. */
export class Call<T> implements Promise<T> {
  readonly [Symbol.toStringTag]: string = 'Call';
  readonly #answer: Promise<ApiAnswer<T>>;

  constructor(answer: Promise<ApiAnswer<T>>) {
    this.#answer = answer;
  }

  // biome-ignore lint/suspicious/noThenProperty: a promise has one
  then<A = T, B = never>(
    done?: ((data: T) => A | PromiseLike<A>) | null,
    failed?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#answer.then(({ data }) => data).then(done, failed);
  }

  catch<B = never>(failed?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<T | B> {
    return this.then(undefined, failed);
  }

  finally(ended?: (() => void) | null): Promise<T> {
    return this.then().finally(ended);
  }

  /** The answer with its status and headers. */
  withResponse(): Promise<ApiAnswer<T>> {
    return this.#answer;
  }
}
