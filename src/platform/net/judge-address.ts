/**
 * Which addresses we connect to when somebody else named the host: none inside the operator's network, except those
 * that the operator allowed.
 */
import { lookup } from 'node:dns/promises';
import { isIP, isIPv6, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import pLimit from 'p-limit';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Network = [Address, number];

export type AddressVerdict =
  | { readonly allowed: true }
  | {
      readonly allowed: false;
      /** What kind of address it is, as an adjective: `private`. */
      readonly kind: string;
    };

export interface AddressFilter {
  /** @param address IPv4 or IPv6 in any form that `net.isIP` takes; anything else is refused */
  judge(address: string): AddressVerdict;
}

/** A connection that was refused because of its address. */
export class AddressRefused extends Error {
  override readonly name = 'AddressRefused';
  readonly code = 'ADDRESS_REFUSED';
  readonly kind: string;

  /**
   * @param host as the caller named it
   * @param kind as in the verdict
   */
  constructor(host: string, kind: string) {
    // The address itself is left out: whoever named the host must not learn about our network.
    super(`the address of ${host} is ${kind}: no connection to it is allowed`);
    this.kind = kind;
  }
}

/** Better names for some ranges of ipaddr.js; the rest are `reserved`. */
const kinds: Readonly<Record<string, string>> = {
  unspecified: 'unspecified',
  loopback: 'loopback',
  private: 'private',
  uniqueLocal: 'private',
  deprecatedSiteLocal: 'private',
  linkLocal: 'link-local',
  carrierGradeNat: 'shared',
  multicast: 'multicast',
  broadcast: 'multicast',
};

/** Metadata and host services of clouds at addresses that look public. */
const metadata: readonly Network[] = [ipaddr.parseCIDR('168.63.129.16/32')];

/** Prefixes of IPv6 addresses that contain an IPv4 address, and the byte where it begins. */
const embeddings: readonly (readonly [Network, number])[] = [
  // IPv4-mapped (RFC 4291 section 2.5.5.2): the system connects by IPv4.
  [ipaddr.parseCIDR('::ffff:0:0/96'), 12],
  // IPv4-compatible (RFC 4291 section 2.5.5.1), deprecated.
  [ipaddr.parseCIDR('::/96'), 12],
  // IPv4-translated (RFC 2765 section 2.1).
  [ipaddr.parseCIDR('::ffff:0:0:0/96'), 12],
  // NAT64: the well-known prefix (RFC 6052 section 2.1).
  [ipaddr.parseCIDR('64:ff9b::/96'), 12],
  // 6to4 (RFC 3056 section 2).
  [ipaddr.parseCIDR('2002::/16'), 2],
];

/**
 * Makes the filter of addresses: globally reachable unicast addresses are allowed, and networks that the operator
 * allows.
 *
 * @param allowed networks as `address/bits`
 */
export function createAddressFilter(allowed: readonly string[]): AddressFilter {
  const networks = allowed.map((network) => ipaddr.parseCIDR(network));
  return {
    judge(text) {
      if (!isIP(text)) return { allowed: false, kind: 'malformed' };
      const forms = formsOf(ipaddr.parse(text));
      if (forms.some((form) => isInside(form, networks))) return { allowed: true };
      for (const form of forms) {
        const kind = kindOf(form);
        if (kind !== undefined) return { allowed: false, kind };
      }
      return { allowed: true };
    },
  };
}

/** The address, and the IPv4 address inside it: packets to one may arrive at the other. */
function formsOf(address: Address): Address[] {
  if (address.kind() === 'ipv4') return [address];
  for (const [prefix, start] of embeddings) {
    if (!isInside(address, [prefix])) continue;
    const inner = ipaddr.fromByteArray(address.toByteArray().slice(start, start + 4));
    return [address, inner];
  }
  return [address];
}

/** The kind of a refused address; undefined where it is allowed. */
function kindOf(address: Address): string | undefined {
  if (isInside(address, metadata)) return 'metadata';
  const range: string = address.range();
  // Judged by the address inside; only these two prefixes have ranges of their own.
  if (isEmbedding(address) && !(range in kinds)) return undefined;
  return range === 'unicast' ? undefined : (kinds[range] ?? 'reserved');
}

function isEmbedding(address: Address): boolean {
  return address.kind() === 'ipv6' && embeddings.some(([prefix]) => isInside(address, [prefix]));
}

function isInside(address: Address, networks: readonly Network[]): boolean {
  return networks.some(([network, bits]) => {
    // Each form is compared with networks of its own family.
    if (address instanceof ipaddr.IPv4 && network instanceof ipaddr.IPv4) {
      return address.match(network, bits);
    }
    if (address instanceof ipaddr.IPv6 && network instanceof ipaddr.IPv6) {
      return address.match(network, bits);
    }
    return false;
  });
}

/** Finds the addresses of a host name, those to try first first. @throws where there are none or there was no answer */
export type ResolveHost = (hostname: string) => Promise<readonly string[]>;

/**
 * The `lookup` of a connection (`net.connect`, `tls.connect`): resolves once, checks every address, and gives the
 * connection only checked ones. One refused address refuses the name: a name with addresses inside and outside at once
 * is no accident.
 *
 * A host that is an IP address is never looked up: the caller checks it before it connects.
 */
export function guardLookup(filter: AddressFilter, resolve: ResolveHost): LookupFunction {
  return (hostname, options, callback) => {
    findAllowed(filter, resolve, hostname, options.family).then(
      (addresses) => {
        const [first] = addresses;
        if (options.all) callback(null, addresses);
        else if (first) callback(null, first.address, first.family);
      },
      (error: NodeJS.ErrnoException) => callback(error, []),
    );
  };
}

async function findAllowed(
  filter: AddressFilter,
  resolve: ResolveHost,
  hostname: string,
  family: number | string | undefined,
): Promise<{ address: string; family: number }[]> {
  const found = await resolve(hostname);
  for (const address of found) {
    const verdict = filter.judge(address);
    if (!verdict.allowed) throw new AddressRefused(hostname, verdict.kind);
  }
  const wanted = family === 4 || family === 'IPv4' ? 4 : family === 6 || family === 'IPv6' ? 6 : 0;
  const addresses = found
    .map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }))
    .filter((entry) => wanted === 0 || entry.family === wanted);
  if (addresses.length > 0) return addresses;
  throw Object.assign(new Error(`${hostname} has no address`), { code: 'ENOTFOUND' });
}

/** Asks DNS for addresses; a `DnsLookup` of `dns/` fits. */
export interface AddressRecords {
  lookup(name: string, type: 'A' | 'AAAA'): Promise<AddressAnswer>;
}

type AddressAnswer =
  | { readonly kind: 'records'; readonly records: readonly string[] }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unanswered'; readonly reason: string };

/**
 * Lookups by the system at a time. Two of its threads look names up, also those of the operator's own database and bucket:
 * one is left for these, since whoever names a host decides how long the lookup takes.
 */
const SYSTEM_AT_ONCE = 1;
/** Milliseconds to wait for the turn: nobody waits longer for the answer. */
const TURN_MS = 15_000;

/** Failures of DNS after which the hosts file may still have the name. */
const NO_DNS = ['no connection', 'no DNS server is set'];

/**
 * Finds addresses in DNS; a name that is not there is looked up by the system, which knows the hosts file and names of
 * its own network.
 *
 * DNS comes first, since the system's lookup (getaddrinfo) blocks one of the few threads for file access for as long
 * as a dead name server takes. A name is looked up only once at a time: all connections to a host with dead name
 * servers wait for one lookup together, and leave the threads to the rest.
 *
 * @param bySystem looks a name up in the system
 */
export function createHostResolver(dns: AddressRecords, bySystem = lookupAll): ResolveHost {
  const underWay = new Map<string, Promise<readonly string[]>>();
  const inTurn = pLimit(SYSTEM_AT_ONCE);
  const lookUp = (name: string) => {
    const since = performance.now();
    return inTurn(() => {
      if (performance.now() - since < TURN_MS) return bySystem(name);
      const error = new Error(`the system was too busy to look up ${name}`);
      throw Object.assign(error, { code: 'EAI_AGAIN' });
    });
  };
  return (hostname) => {
    const name = hostname.toLowerCase();
    const known = underWay.get(name);
    if (known) return known;
    const asked = resolveHost(dns, name, lookUp).finally(() => underWay.delete(name));
    underWay.set(name, asked);
    return asked;
  };
}

async function lookupAll(hostname: string): Promise<readonly string[]> {
  return (await lookup(hostname, { all: true })).map(({ address }) => address);
}

async function resolveHost(
  dns: AddressRecords,
  hostname: string,
  bySystem: ResolveHost,
): Promise<readonly string[]> {
  // RFC 6761 section 6.3: never looked up in DNS.
  if (/^(?:.*\.)?localhost\.?$/.test(hostname)) return ['127.0.0.1', '::1'];
  const answers = await Promise.all([dns.lookup(hostname, 'A'), dns.lookup(hostname, 'AAAA')]);
  // IPv4 first: a network without IPv6 is common, one without IPv4 is not.
  const found = answers.flatMap((answer) => (answer.kind === 'records' ? answer.records : []));
  if (found.length > 0) return found;
  for (const answer of answers) {
    if (answer.kind !== 'unanswered' || NO_DNS.includes(answer.reason)) continue;
    const error = new Error(`DNS gave no answer for ${hostname}: ${answer.reason}`);
    throw Object.assign(error, { code: 'EAI_AGAIN' });
  }
  return bySystem(hostname);
}
