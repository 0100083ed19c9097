/**
 * Clients: the address that a request comes from, the networks it belongs to, the key under which requests,
 * connections and failures of a client are counted, and how many connections it holds.
 */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** Whether an address is in certain networks; false for a text that is not an address. */
export type NetworkTest = (address: string) => boolean;

/**
 * Makes a test for a list of networks. An IPv4 address written as IPv6 (`::ffff:10.1.2.3`) counts as
 * the IPv4 address.
 *
 * @param networks as `address/bits`, or a single address
 */
export function testNetworks(networks: readonly string[]): NetworkTest {
  const list = new BlockList();
  for (const network of networks) {
    const [address = '', bits] = network.split('/');
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    list.addSubnet(address, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family);
  }
  return (address) => {
    const version = isIP(address);
    return version !== 0 && list.check(address, version === 6 ? 'ipv6' : 'ipv4');
  };
}

/** Addresses of this machine itself. */
export const isLoopback: NetworkTest = testNetworks(['127.0.0.0/8', '::1']);

/** Some proxies, such as Azure's, name the port, too: `198.51.100.7:4711`, `[2001:db8::7]:4711` (RFC 7239 section 6). */
const PORT = /^(?:\[(.*)\](?::\d+)?|([\d.]+):\d+)$/;

/**
 * Finds the address that a request comes from: from the connection towards the client, as long as each hop is a
 * trusted proxy. Where X-Forwarded-For has a text that is not an address, the request counts as coming from the
 * proxy that passed it on.
 */
export function addressOf(request: IncomingMessage, isTrusted: NetworkTest): string {
  let address = request.socket.remoteAddress ?? '';
  const named = request.headers['x-forwarded-for'];
  if (named === undefined || !isTrusted(address)) return address;
  for (const hop of String(named).split(',').reverse()) {
    const next = hop.trim().replace(PORT, '$1$2');
    if (isIP(next) === 0) return address;
    address = next;
    if (!isTrusted(address)) return address;
  }
  return address;
}

/** The addresses of a link of IPv6 are a /64 (RFC 4291 section 2.5.4): all of them are one client. */
const CLIENT_BYTES = 8;
/** A customer gets up to a /48 (RFC 6177 section 2), which are 65,536 clients. */
const NETWORK_BYTES = 6;

/**
 * The key under which a client is counted: its IPv4 address, or the /64 of its IPv6 address (`2001:db8:0:1::/64`). A
 * zone (RFC 4007 section 11) is ignored. Text that is not an address is not changed.
 */
export function clientKey(address: string): string {
  if (isIP(address) !== 6) return address;
  const [withoutZone = ''] = address.split('%', 1);
  // IPv4 in IPv6 (RFC 4291 section 2.5.5.2) comes back as IPv4.
  const parsed = ipaddr.process(withoutZone);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  const network = parsed.toByteArray().fill(0, CLIENT_BYTES);
  return `${ipaddr.fromByteArray(network).toString()}/64`;
}

/**
 * The network that a client is in: the /48 of its IPv6 address, or the /24 of its IPv4 address, the smallest that the
 * internet routes. Whoever has many addresses has them in few networks.
 *
 * @param client as {@link clientKey} names it
 */
export function networkKey(client: string): string {
  const [address = ''] = client.split('/', 1);
  if (isIP(address) === 4) return address.replace(/\d+$/, '0/24');
  if (isIP(address) !== 6) return client;
  const network = ipaddr.parse(address).toByteArray().fill(0, NETWORK_BYTES);
  return `${ipaddr.fromByteArray(network).toString()}/48`;
}

/**
 * How much each client holds of a limited resource: connections, octets of unfinished messages. Clients are counted by
 * `clientKey`.
 */
export class ClientShares {
  readonly #total: number;
  readonly #held = new Map<string, number>();
  #taken = 0;

  /** @param total the limit for all clients together */
  constructor(total: number) {
    this.#total = total;
  }

  /** How much all clients hold together. */
  get taken(): number {
    return this.#taken;
  }

  /** How much is free. */
  get left(): number {
    return this.#total - this.#taken;
  }

  /** Takes one for a client. @returns what gives it back, once; undefined where there is none for it, see {@link take} */
  hold(client: string, most: number): (() => void) | undefined {
    if (!this.take(client, 1, most)) return undefined;
    let isHeld = true;
    return () => {
      if (isHeld) this.give(client, 1);
      isHeld = false;
    };
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

/**
 * Places that strangers hold. A client has a part of them, and a network leaves as many free as all its clients hold:
 * nobody takes all of them with many addresses of his own, and a network that is alone has half.
 */
export class StrangerShares {
  readonly #clients: ClientShares;
  readonly #networks: ClientShares;

  /** @param total the limit for all clients together */
  constructor(total: number) {
    this.#clients = new ClientShares(total);
    this.#networks = new ClientShares(total);
  }

  /** How many places are held. */
  get taken(): number {
    return this.#clients.taken;
  }

  /**
   * Takes a place for a client.
   *
   * @param client as {@link clientKey} names it
   * @param most how many this client may hold
   * @param isStranger false for those whom the operator knows, whose networks hold what they need
   * @returns what gives it back, once; undefined where there is none for it
   */
  hold(client: string, most: number, isStranger = true): (() => void) | undefined {
    const ofClient = this.#clients.hold(client, most);
    if (!ofClient || !isStranger || isLoopback(client)) return ofClient;
    // Each network has one, however small the total is.
    const ofNetwork = this.#networks.hold(networkKey(client), Math.max(1, this.#clients.left));
    if (!ofNetwork) {
      ofClient();
      return undefined;
    }
    return () => {
      ofClient();
      ofNetwork();
    };
  }
}
