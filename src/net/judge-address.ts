import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

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

/** A connection that was not made because of where it would have gone. */
export class AddressRefused extends Error {
  override readonly name = 'AddressRefused';
  readonly code = 'ADDRESS_REFUSED';
  readonly kind: string;

  /**
   * @param host as it was asked for
   * @param kind as in the verdict
   */
  constructor(host: string, kind: string) {
    // The address itself is left out: whoever named the host may not know our network.
    super(`${host} is at a ${kind} address, to which no connection is allowed`);
    this.kind = kind;
  }
}

/** Ranges by their names in ipaddr.js that have a better one; the rest are `reserved`. */
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

/** Metadata and host services of clouds at addresses that look like any other. */
const metadata: readonly Network[] = [ipaddr.parseCIDR('168.63.129.16/32')];

/** Prefixes of IPv6 addresses that hold an IPv4 address, and the byte where it begins. */
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
 * Makes the judge of addresses: what is globally reachable by unicast is allowed, and what the
 * operator allows by name of its network.
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

/** The address, and the IPv4 address inside it: packets to the one may end up at the other. */
function formsOf(address: Address): Address[] {
  if (address.kind() === 'ipv4') return [address];
  for (const [prefix, start] of embeddings) {
    if (!isInside(address, [prefix])) continue;
    const inner = ipaddr.fromByteArray(address.toByteArray().slice(start, start + 4));
    return [address, inner];
  }
  return [address];
}

/** What speaks against an address by itself; undefined where nothing does. */
function kindOf(address: Address): string | undefined {
  if (isInside(address, metadata)) return 'metadata';
  const range: string = address.range();
  // Judged by what is inside; these two have ranges of their own that are none of the kind.
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
