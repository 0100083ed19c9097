/** About 600 bytes each: 6 MB, and 20 MB at most. */
const ENTRIES_MAX = 10_000;
/** Tokens of ours have some 300 characters; what is much longer is verified each time. */
const LENGTH_MAX = 2_048;

/** What good tokens say, so that the signature of the same token is checked once. */
export class TokenCache<Claims> {
  readonly #entries = new Map<string, Claims>();

  /** The claims of a token seen before, or undefined. */
  get(token: string): Claims | undefined {
    return this.#entries.get(token);
  }

  set(token: string, claims: Claims): void {
    if (token.length > LENGTH_MAX) return;
    this.#entries.set(token, claims);
    if (this.#entries.size <= ENTRIES_MAX) return;
    // Those in use come again at once; moving them at each use would cost more.
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }

  delete(token: string): void {
    this.#entries.delete(token);
  }
}
