/**
 * Which hosts accept the mail of a domain, and at which addresses (RFC 5321 section 5.1).
 */
import type { DnsLookup, MxRecord } from '../../protocols/dns/dns.ts';
import { failure, type SendFailure } from './outcome.ts';

/** Hosts in the order in which they are tried, or why there is none. */
type Exchangers = { readonly hosts: readonly string[] } | SendFailure;

/** The most hosts of one domain that are used: enough for the largest domains. */
const HOSTS_MAX = 20;
/** The most addresses of one host that are used. */
const ADDRESSES_MAX = 10;

/** Shuffles a copy: hosts of one preference, and addresses of one host, share the load. */
function shuffled<Item>(items: readonly Item[]): Item[] {
  const copy = [...items];
  for (let left = copy.length; left > 1; left--) {
    const chosen = Math.floor(Math.random() * left);
    copy.push(...copy.splice(chosen, 1));
  }
  return copy;
}

/**
 * Finds the hosts that accept a domain's mail.
 *
 * @param domain in ASCII
 * @param isSelf whether a host name is ours. Where we are an exchanger of the domain, only exchangers with a better
 *   preference than ours are tried; where there is none, the mail is in a loop (RFC 5321 section 5.1)
 */
export async function findExchangers(
  domain: string,
  dns: DnsLookup,
  isSelf: (host: string) => boolean,
): Promise<Exchangers> {
  const found = await dns.lookup(domain, 'MX');
  if (found.kind === 'unanswered') {
    return failure('temporary', '4.4.3', `DNS did not answer for ${domain}: ${found.reason}`);
  }
  if (found.kind === 'absent') {
    if (found.reason !== 'no_record') {
      return failure('permanent', '5.1.2', `there is no domain ${domain}`);
    }
    // Without an MX record the domain is its own exchanger (RFC 5321 section 5.1).
    return orderHosts(domain, [{ preference: 0, exchange: domain }], isSelf);
  }
  const named = found.records.filter(({ exchange }) => exchange !== '');
  if (named.length === 0) {
    // RFC 7505 section 4.1: 556 and 5.1.10.
    const { result, error } = failure('permanent', '5.1.10', `${domain} takes no mail (null MX)`);
    return { result, error: { ...error, status: 556 } };
  }
  return orderHosts(domain, named, isSelf);
}

function orderHosts(
  domain: string,
  records: readonly MxRecord[],
  isSelf: (host: string) => boolean,
): Exchangers {
  const selves = records.filter(({ exchange }) => isSelf(exchange));
  const ours = Math.min(...selves.map(({ preference }) => preference));
  const ordered = shuffled(records)
    .filter(({ preference }) => preference < ours)
    .sort((one, other) => one.preference - other.preference);
  if (ordered.length === 0) {
    return failure('permanent', '5.4.6', `mail for ${domain} comes back to this host`);
  }
  const hosts = new Set(ordered.map(({ exchange }) => exchange.toLowerCase()));
  return { hosts: [...hosts].slice(0, HOSTS_MAX) };
}

/** Addresses of a host in the order in which they are tried, or why there is none. */
type HostAddresses = { readonly addresses: readonly string[] } | SendFailure;

/**
 * Finds the addresses of an exchanger: IPv4 first, since far ends refuse mail over IPv6 for unrelated reasons, such as
 * a missing PTR record.
 */
export async function findAddresses(host: string, dns: DnsLookup): Promise<HostAddresses> {
  const answers = await Promise.all([dns.lookup(host, 'A'), dns.lookup(host, 'AAAA')]);
  const addresses = answers.flatMap((answer) =>
    answer.kind === 'records' ? shuffled(answer.records) : [],
  );
  if (addresses.length > 0) return { addresses: addresses.slice(0, ADDRESSES_MAX) };
  const silent = answers.find(({ kind }) => kind === 'unanswered');
  if (silent?.kind === 'unanswered') {
    return failure('temporary', '4.4.3', `DNS did not answer for ${host}: ${silent.reason}`);
  }
  return failure('permanent', '5.4.4', `the mail host ${host} has no address`);
}
