/**
 * Which address a request comes from: that of the connection, or what proxies that are trusted say
 * in X-Forwarded-For.
 */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';

/** Whether an address is that of a proxy whose word counts. */
export type TrustedProxy = (address: string) => boolean;

/**
 * Builds the test.
 *
 * @param networks as `address/bits`
 */
export function trustNetworks(networks: readonly string[]): TrustedProxy {
  const trusted = new BlockList();
  for (const network of networks) {
    const [address = '', bits] = network.split('/');
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    trusted.addSubnet(address, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family);
  }
  return (address) => {
    const version = isIP(address);
    return version !== 0 && trusted.check(address, version === 6 ? 'ipv6' : 'ipv4');
  };
}

/**
 * Walks from the connection towards the client for as long as each hop is trusted. What is no
 * address counts for the proxy that passed it on.
 */
export function addressOf(request: IncomingMessage, isTrusted: TrustedProxy): string {
  let address = request.socket.remoteAddress ?? '';
  const named = request.headers['x-forwarded-for'];
  if (named === undefined || !isTrusted(address)) return address;
  for (const hop of String(named).split(',').reverse()) {
    const next = hop.trim();
    if (isIP(next) === 0) return address;
    address = next;
    if (!isTrusted(address)) return address;
  }
  return address;
}
