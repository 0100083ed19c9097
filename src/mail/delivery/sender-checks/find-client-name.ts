/** The client's name in reverse DNS, for the spam filter. */
import ipaddr from 'ipaddr.js';
import { type MessageLookups, textRecords } from './lookups.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** The most names of one address that are looked up: its owner may list any number. */
const NAMES_MAX = 3;

/**
 * Finds the name that an address has in DNS and that leads back to this address: the owner of an address can give it
 * the name of somebody else (RFC 8601 section 3).
 *
 * @param lookups for this search alone: their time limit is its time limit
 * @returns in lower case without the root's dot; undefined where there is none, or DNS does not answer in time
 */
export async function findClientName(
  remoteAddress: string,
  lookups: MessageLookups,
): Promise<string | undefined> {
  if (!ipaddr.isValid(remoteAddress)) return undefined;
  const address = ipaddr.process(remoteAddress);
  const type = address.kind() === 'ipv4' ? 'A' : 'AAAA';
  const answer = await lookups.ask(reverseName(address), 'PTR', 'other');
  const names = textRecords(answer).slice(0, NAMES_MAX);
  const confirmed = await Promise.all(
    names.map(async (name) => {
      const addresses = textRecords(await lookups.ask(name, type, 'other'));
      return addresses.some((text) => isSame(text, address));
    }),
  );
  lookups.throwBugs();
  return names.find((_, index) => confirmed[index]);
}

/** RFC 1035 section 3.5; RFC 3596 section 2.5. */
function reverseName(address: Address): string {
  const octets = address.toByteArray();
  if (address.kind() === 'ipv4') return `${octets.toReversed().join('.')}.in-addr.arpa`;
  const digits = [...Buffer.from(octets).toString('hex')];
  return `${digits.toReversed().join('.')}.ip6.arpa`;
}

function isSame(text: string, address: Address): boolean {
  return ipaddr.isValid(text) && ipaddr.parse(text).toString() === address.toString();
}
