import { lookup } from 'node:dns/promises';
import type { ResolveHost } from './guard-lookup.ts';

/** Asks DNS for addresses; a `DnsLookup` of `dns/` fits. */
export interface AddressRecords {
  lookup(name: string, type: 'A' | 'AAAA'): Promise<AddressAnswer>;
}

type AddressAnswer =
  | { readonly kind: 'records'; readonly records: readonly string[] }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unanswered'; readonly reason: string };

/** Why nobody could be asked, where the hosts file may still know. */
const NO_DNS = ['no connection', 'no DNS server is set'];

/**
 * Finds addresses in DNS; what is not there is asked of the system, which knows the hosts file and
 * names of its own network.
 *
 * DNS comes first since the system's lookup (getaddrinfo) holds a thread of the few that files are
 * read with, for as long as a dead name server takes. A name is asked for only once at a time: all
 * connections to a host whose name servers are dead together wait for one question, and leave the
 * others to the rest.
 */
export function createHostResolver(dns: AddressRecords): ResolveHost {
  const underWay = new Map<string, Promise<readonly string[]>>();
  return (hostname) => {
    const name = hostname.toLowerCase();
    const known = underWay.get(name);
    if (known) return known;
    const asked = resolveHost(dns, name).finally(() => underWay.delete(name));
    underWay.set(name, asked);
    return asked;
  };
}

async function resolveHost(dns: AddressRecords, hostname: string): Promise<readonly string[]> {
  // RFC 6761 section 6.3: never a question for DNS.
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
  const known = await lookup(hostname, { all: true });
  return known.map(({ address }) => address);
}
