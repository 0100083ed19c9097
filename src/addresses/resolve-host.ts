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
 * read with, for as long as a dead name server takes: for that reason a name is asked only once at a
 * time, too.
 */
export function createHostResolver(dns: AddressRecords): ResolveHost {
  const underWay = new Map<string, Promise<readonly string[]>>();

  function askSystem(hostname: string): Promise<readonly string[]> {
    const known = underWay.get(hostname);
    if (known) return known;
    const asked = lookup(hostname, { all: true })
      .then((found) => found.map(({ address }) => address))
      .finally(() => underWay.delete(hostname));
    underWay.set(hostname, asked);
    return asked;
  }

  return async (hostname) => {
    // RFC 6761 section 6.3: never a question for DNS.
    if (/^(?:.*\.)?localhost\.?$/i.test(hostname)) return ['127.0.0.1', '::1'];
    const answers = await Promise.all([dns.lookup(hostname, 'A'), dns.lookup(hostname, 'AAAA')]);
    // IPv4 first: a network without IPv6 is common, one without IPv4 is not.
    const found = answers.flatMap((answer) => (answer.kind === 'records' ? answer.records : []));
    if (found.length > 0) return found;
    for (const answer of answers) {
      if (answer.kind !== 'unanswered' || NO_DNS.includes(answer.reason)) continue;
      const error = new Error(`DNS gave no answer for ${hostname}: ${answer.reason}`);
      throw Object.assign(error, { code: 'EAI_AGAIN' });
    }
    return askSystem(hostname);
  };
}
