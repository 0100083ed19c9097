/**
 * What each client holds of something that there is only so much of: connections, octets of unfinished
 * messages. Clients are counted by `clientKey`.
 */
export class ClientShares {
  readonly #total: number;
  readonly #held = new Map<string, number>();
  #taken = 0;

  /** @param total how much there is for all clients together */
  constructor(total: number) {
    this.#total = total;
  }

  /** How much all clients hold together. */
  get taken(): number {
    return this.#taken;
  }

  /** How much nobody holds. */
  get left(): number {
    return this.#total - this.#taken;
  }

  /**
   * Takes some for a client.
   *
   * @param most how much this client may hold
   * @returns false, and nothing is taken, where the client or all together would hold too much
   */
  take(client: string, amount: number, most: number): boolean {
    const held = (this.#held.get(client) ?? 0) + amount;
    if (held > most || this.#taken + amount > this.#total) return false;
    this.#held.set(client, held);
    this.#taken += amount;
    return true;
  }

  /** Gives back what was taken. */
  give(client: string, amount: number): void {
    const held = (this.#held.get(client) ?? 0) - amount;
    if (held > 0) this.#held.set(client, held);
    else this.#held.delete(client);
    this.#taken -= amount;
  }
}
