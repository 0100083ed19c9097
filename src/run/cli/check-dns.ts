/** What `postroom doctor` checks of DNS, and of the way to another mail server. */
import type { DnsResolver } from '../../protocols/dns/dns.ts';
import { checkBanner } from './check-listeners.ts';
import { failed, ok, type Verdict, warning } from './check-stores.ts';

export async function checkResolver(
  dns: DnsResolver,
  servers: readonly string[],
): Promise<Verdict> {
  const asked = servers.length > 0 ? servers.join(', ') : 'those of the system';
  // A name that DNS always has; any answer will do.
  const answer = await dns.lookup('org', 'MX');
  if (answer.kind !== 'unanswered') return ok(`answers come from ${asked}`);
  return failed(
    `no resolver answers (${answer.reason}; ${asked})`,
    'until DNS works, mail is accepted unchecked, domains do not become active and no mail is sent: check DNS_SERVERS and /etc/resolv.conf',
  );
}

export async function checkHost(dns: DnsResolver, host: string): Promise<Verdict> {
  if (host === 'mail.localhost') {
    return warning('MAIL_HOSTNAME is not set', 'set it to the name of this machine in DNS');
  }
  const [four, six] = await Promise.all([dns.lookup(host, 'A'), dns.lookup(host, 'AAAA')]);
  if (four.kind === 'unanswered') return warning('not checked: no resolver answers', 'see above');
  const addresses = [four, six].flatMap((answer) =>
    answer.kind === 'records' ? answer.records : [],
  );
  if (addresses.length === 0) {
    return failed(`${host} has no address`, 'publish an A record: all MX records lead there');
  }
  return ok(`${host} is ${addresses.join(', ')}`);
}

export async function checkSpf(dns: DnsResolver, name: string): Promise<Verdict> {
  const answer = await dns.lookup(name, 'TXT');
  if (answer.kind === 'unanswered') return warning('not checked: no resolver answers', 'see above');
  const records = answer.kind === 'records' ? answer.records : [];
  const spf = records.find((text) => /^v=spf1(?: |$)/i.test(text));
  if (spf !== undefined) return ok(spf.replace(/[^ -~]/g, '?'));
  const advice = `publish "v=spf1 ip4:<your address> -all" there: without it the SPF of every domain fails`;
  return name.endsWith('.localhost')
    ? warning('SPF_INCLUDE is not set', 'set MAIL_HOSTNAME')
    : failed(`${name} has no SPF record`, advice);
}

export async function checkReach(dns: DnsResolver, domain: string, port: number): Promise<Verdict> {
  const answer = await dns.lookup(domain, 'MX');
  if (answer.kind === 'unanswered') return warning('not checked: no resolver answers', 'see above');
  // Without an MX record, mail goes to the domain's own address (RFC 5321 section 5.1).
  const exchanges =
    answer.kind === 'records' ? [...answer.records] : [{ preference: 0, exchange: domain }];
  const [first] = exchanges.sort((a, b) => a.preference - b.preference);
  if (!first?.exchange) return warning(`${domain} accepts no mail`, 'try another domain');
  const found = await checkBanner(first.exchange, port, 'MX_PORT');
  if (found.result !== 'failed') return found;
  return failed(
    found.detail,
    'many providers block outgoing port 25: ask yours to open it, or set SMTP_RELAY_URL',
  );
}
