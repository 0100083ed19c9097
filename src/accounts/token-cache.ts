import { hash } from 'node:crypto';

/** About 300 bytes each: 3 MB. */
const ENTRIES_MAX = 10_000;

/**
 * What good tokens say, so that the signature of the same token is checked once. Kept under the
 * token's digest: small whatever the token, and a copy of the memory holds no tokens.
 */
export class TokenCache<Claims> {
  readonly #entries = new Map<string, Claims>();

  /** The claims of a token seen before, or undefined. */
  get(token: string): Claims | undefined {
    const key = digest(token);
    const claims = this.#entries.get(key);
    if (claims === undefined) return undefined;
    // A Map keeps the order of insertion: the first is the one not used for longest.
    this.#entries.delete(key);
    this.#entries.set(key, claims);
    return claims;
  }

  set(token: string, claims: Claims): void {
    this.#entries.set(digest(token), claims);
    if (this.#entries.size <= ENTRIES_MAX) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }

  delete(token: string): void {
    this.#entries.delete(digest(token));
  }
}

function digest(token: string): string {
  return hash('sha256', token, 'base64');
}
