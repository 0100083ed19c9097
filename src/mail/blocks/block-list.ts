/** The syntax of a block, and the list in which each sender is looked up. Pure: no database, no clocks. */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { invalidField } from '../../platform/errors/errors.ts';
import { formatAddress, parseAddress, toDnsName } from '../../protocols/message/message.ts';

export type BlockKind = 'address' | 'domain' | 'network';

export interface BlockedSender {
  readonly kind: BlockKind;
  /** As {@link readBlock} writes it. */
  readonly value: string;
}

/** Bits of the widest network that can be blocked. A wider one would be a typing error, and block too much. */
const WIDEST = { 4: 8, 6: 16 };

/**
 * Reads an operator's block.
 *
 * @returns the one form in which it is stored and looked up: an address and a domain in lower case and IDNA-encoded, a
 *   network without host bits
 * @throws Refusal invalid_request (`value`)
 */
export function readBlock(kind: BlockKind, text: string): string {
  if (kind === 'network') return readNetwork(text);
  if (kind === 'domain') {
    const domain = readDomain(text);
    if (domain !== undefined) return domain;
    throw invalidField('value', 'must be a domain such as bad.example');
  }
  const { address } = readSender(text);
  if (address !== undefined) return address;
  throw invalidField('value', 'must be an address such as spam@bad.example');
}

function readNetwork(text: string): string {
  const [address = '', bits, more] = text.split('/');
  const version = address.includes('%') ? 0 : isIP(address);
  if (version === 4 || version === 6) {
    const most = version === 4 ? 32 : 128;
    const length = /^\d{1,3}$/.test(bits ?? String(most)) ? Number(bits ?? most) : 0;
    const parsed = ipaddr.process(address);
    // `::ffff:192.0.2.1` is an IPv4 address (RFC 4291 section 2.5.5.2) and is written as one.
    const isPlain = parsed.kind() === `ipv${version}` && more === undefined;
    if (isPlain && length >= WIDEST[version] && length <= most) {
      return networkOf(parsed.toByteArray(), length);
    }
  }
  throw invalidField(
    'value',
    `must be an IP address, or a network such as 192.0.2.0/24 (at least /${WIDEST[4]}) or 2001:db8::/32 (at least /${WIDEST[6]})`,
  );
}

/**
 * Checks that a network has a client whose mail would be refused.
 *
 * @param value as {@link readBlock} writes it
 * @param trusted networks of clients whose mail is never blocked, as `address/bits`
 * @throws Refusal invalid_request (`value`) where it lies in one of them
 */
export function refuseTrusted(value: string, trusted: readonly string[]): void {
  const [address, bits] = ipaddr.parseCIDR(value);
  const around = trusted.find((network) => {
    const [first, most] = ipaddr.parseCIDR(network);
    return first.kind() === address.kind() && most <= bits && address.match(first, most);
  });
  if (around === undefined) return;
  const reason = `lies in ${around} of SMTP_TRUSTED_NETWORKS, whose mail is never blocked`;
  throw invalidField('value', reason);
}

/** The network with so many bits that contains an address. */
function networkOf(octets: readonly number[], bits: number): string {
  const masked = octets.map((octet, at) => {
    const kept = Math.min(Math.max(bits - 8 * at, 0), 8);
    return octet & (0xff00 >> kept);
  });
  return `${ipaddr.fromByteArray(masked).toString()}/${bits}`;
}

/** A domain as DNS has it. SMTP accepts names with underscores, so they can be blocked as well. */
function readDomain(text: string): string | undefined {
  const name = toDnsName(text);
  return name?.split('.').every((label) => /^.{1,63}$/.test(label)) ? name : undefined;
}

/** The domain of a sender, and its address in the form for comparing. */
function readSender(text: string): { readonly domain?: string; readonly address?: string } {
  const at = text.lastIndexOf('@');
  const domain = at < 1 ? undefined : readDomain(text.slice(at + 1));
  if (domain === undefined) return {};
  // A quoted local part is the same as an unquoted one; the domain may have an underscore.
  const local = parseAddress(`${text.slice(0, at)}@sender.test`)?.local;
  return local === undefined
    ? { domain }
    : { domain, address: formatAddress(local.toLowerCase(), domain) };
}

/** Blocks in memory. The time of a lookup does not depend on their number. */
export class BlockList {
  readonly #values: Readonly<Record<BlockKind, Set<string>>> = {
    address: new Set(),
    domain: new Set(),
    network: new Set(),
  };
  /** Lengths of the networks, by the octets of their addresses. */
  readonly #lengths = new Map<number, Set<number>>([
    [4, new Set()],
    [16, new Set()],
  ]);

  constructor(blocks: Iterable<BlockedSender>) {
    for (const { kind, value } of blocks) {
      this.#values[kind].add(value);
      if (kind !== 'network') continue;
      const bits = Number(value.slice(value.indexOf('/') + 1));
      this.#lengths.get(value.includes(':') ? 16 : 4)?.add(bits);
    }
  }

  /**
   * Finds what blocks a sender.
   *
   * @param client IP address of the client that brings the mail
   * @param from reverse-path of MAIL; empty for bounces, which only a network blocks
   */
  find(client: string, from: string): BlockedSender | undefined {
    return this.#findNetwork(client) ?? this.#findSender(from);
  }

  #findNetwork(client: string): BlockedSender | undefined {
    if (this.#values.network.size === 0) return undefined;
    const [withoutZone = ''] = client.split('%', 1);
    if (isIP(withoutZone) === 0) return undefined;
    const octets = ipaddr.process(withoutZone).toByteArray();
    for (const bits of this.#lengths.get(octets.length) ?? []) {
      const value = networkOf(octets, bits);
      if (this.#values.network.has(value)) return { kind: 'network', value };
    }
    return undefined;
  }

  #findSender(from: string): BlockedSender | undefined {
    if (this.#values.address.size + this.#values.domain.size === 0) return undefined;
    const { address, domain } = readSender(from);
    if (address !== undefined && this.#values.address.has(address)) {
      return { kind: 'address', value: address };
    }
    const labels = domain?.split('.') ?? [];
    const names = labels.map((_, at) => labels.slice(at).join('.'));
    const value = names.find((name) => this.#values.domain.has(name));
    return value === undefined ? undefined : { kind: 'domain', value };
  }
}
