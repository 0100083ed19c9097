/**
 * How many connections each client holds. One instance may serve several listeners.
 */
import ipaddr from 'ipaddr.js';

export class ConnectionsPerIp {
  readonly #max: number;
  readonly #open = new Map<string, number>();

  /** @param max concurrent connections of one address, at least 1 */
  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Counts a connection.
   *
   * @returns takes the connection off the count again, once however often it is called; undefined
   *   where the client holds as many as it may
   */
  enter(address: string): (() => void) | undefined {
    const key = clientOf(address);
    const open = this.#open.get(key) ?? 0;
    if (open >= this.#max) return undefined;
    this.#open.set(key, open + 1);
    let left = false;
    return () => {
      if (left) return;
      left = true;
      const rest = (this.#open.get(key) ?? 1) - 1;
      if (rest === 0) this.#open.delete(key);
      else this.#open.set(key, rest);
    };
  }

  /** Connections that the client at this address holds now. */
  count(address: string): number {
    return this.#open.get(clientOf(address)) ?? 0;
  }
}

/** An IPv6 client commands a whole /64 and counts by it (RFC 6177). */
function clientOf(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  return parsed instanceof ipaddr.IPv6
    ? `${parsed.parts.slice(0, 4).join(':')}/64`
    : parsed.toString();
}

/** Whether the address is of this machine. */
export function isLoopback(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback';
}
