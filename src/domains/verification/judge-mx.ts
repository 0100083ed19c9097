/** Whether mail for a domain comes to us. */
import { isIP } from 'node:net';
import type { DnsAnswer, MxRecord } from '../../dns/dns.ts';
import { listed, NO_RECORD, unanswered, type Verdict } from './verdict.ts';

/**
 * Our host must be there, and no other host preferred over it (RFC 5321 section 5.1). Another host
 * of the same preference passes with a warning: senders choose between the two by chance.
 *
 * @param ourHost lower case
 */
export function judgeMx(domain: string, ourHost: string, answer: DnsAnswer<'MX'>): Verdict {
  if (answer.kind === 'unanswered') return unanswered(domain, answer.reason);
  if (answer.kind === 'absent') {
    const detail =
      answer.reason === 'no_record'
        ? `${domain} has no MX record: add one that names ${ourHost}.`
        : `DNS knows no name ${domain}: see that it is registered and served, and add an MX record that names ${ourHost}.`;
    return { outcome: 'absent', observed: NO_RECORD, detail };
  }
  const records = [...answer.records].sort(byPreference);
  const observed = listed(records.map(show));
  const problem = findProblem(domain, ourHost, records);
  if (problem !== undefined) return { outcome: 'mismatch', observed, detail: problem };
  return { outcome: 'match', observed, detail: describeMatch(domain, ourHost, records) };
}

const byPreference = (a: MxRecord, b: MxRecord) =>
  a.preference - b.preference || a.exchange.localeCompare(b.exchange);

const show = ({ preference, exchange }: MxRecord) => `${preference} ${exchange || '.'}`;

function findProblem(
  domain: string,
  ourHost: string,
  records: readonly MxRecord[],
): string | undefined {
  // RFC 7505 section 3: the root as exchange says "no mail at all", and must stand alone.
  if (records.some(({ exchange }) => exchange === '')) {
    return `${domain} has a null MX record ("0 ."), which says that it takes no mail: replace it by one that names ${ourHost}.`;
  }
  const ours = records.find(({ exchange }) => exchange === ourHost);
  if (!ours) return describeForeign(domain, ourHost, records);
  const preferred = records.filter(({ preference }) => preference < ours.preference);
  if (preferred.length === 0) return undefined;
  const hosts = listed(preferred.map(({ exchange }) => exchange));
  return `Mail goes to ${hosts} first, since a lower number is preferred: remove that record, or give ${ourHost} a lower number.`;
}

function describeForeign(domain: string, ourHost: string, records: readonly MxRecord[]): string {
  // A zone file adds the zone's name to a name without a dot at its end (RFC 1035 section 5.1).
  if (records.some(({ exchange }) => exchange === `${ourHost}.${domain}`)) {
    return `The MX record names ${ourHost}.${domain}: put a dot at the end of ${ourHost}, so that ${domain} is not added to it.`;
  }
  // RFC 5321 section 5.1: the exchange is a name; mail for an address there is not delivered.
  if (records.some(({ exchange }) => isIP(exchange) !== 0)) {
    return `An MX record names a host, not an IP address: replace it by one that names ${ourHost}.`;
  }
  const hosts = listed(records.map(({ exchange }) => exchange));
  return `Mail goes to ${hosts}: replace the MX records by one that names ${ourHost}.`;
}

function describeMatch(domain: string, ourHost: string, records: readonly MxRecord[]): string {
  const ours = records.find(({ exchange }) => exchange === ourHost);
  const equals = records.filter(
    ({ exchange, preference }) => exchange !== ourHost && preference === ours?.preference,
  );
  if (equals.length === 0) return `Mail for ${domain} comes to ${ourHost}.`;
  const hosts = listed(equals.map(({ exchange }) => exchange));
  return `Mail for ${domain} comes to ${ourHost}, but part of it goes to ${hosts}, which has the same number: give it a higher one.`;
}
