/** The addresses that mail of ours comes from. */
import type { DnsAnswer, DnsLookup } from '../../dns/dns.ts';
import type { OurServers } from './evaluate-spf.ts';

/** They are the same for every domain, so that they are not asked for again for each. */
const KEPT_MS = 60_000;
/** SPF records are evaluated for each; nobody has more mail hosts behind one name. */
const ADDRESSES_MAX = 16;

/**
 * Finds the A and AAAA addresses of our host, and keeps them for a minute.
 *
 * @param now milliseconds since 1970
 */
export function createOurServers(
  dns: DnsLookup,
  hostname: string,
  now: () => number,
): () => Promise<OurServers> {
  let kept: { readonly at: number; readonly servers: Promise<OurServers> } | undefined;
  return () => {
    if (!kept || now() - kept.at >= KEPT_MS || now() < kept.at) {
      const found = { at: now(), servers: findServers(dns, hostname) };
      kept = found;
      // What could not be asked is asked again the next time.
      const forget = () => {
        if (kept === found) kept = undefined;
      };
      found.servers.then(({ unanswered }) => unanswered !== undefined && forget(), forget);
    }
    return kept.servers;
  };
}

async function findServers(dns: DnsLookup, hostname: string): Promise<OurServers> {
  const answers: readonly DnsAnswer<'A' | 'AAAA'>[] = await Promise.all([
    dns.lookup(hostname, 'A'),
    dns.lookup(hostname, 'AAAA'),
  ]);
  for (const answer of answers) {
    // Half of them would let a record pass that leaves the other half out.
    if (answer.kind === 'unanswered') {
      return { hostname, addresses: [], unanswered: answer.reason };
    }
  }
  const addresses = answers.flatMap((answer) => (answer.kind === 'records' ? answer.records : []));
  return { hostname, addresses: addresses.slice(0, ADDRESSES_MAX) };
}
