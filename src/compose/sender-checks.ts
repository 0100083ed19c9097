/** Builds the sender checks, for each thread that stages messages. */
import { createSenderChecks, type SenderChecks } from '../delivery/delivery.ts';
import { createDnsResolver } from '../dns/dns.ts';

/** Plain data: it is handed to threads. */
export interface CheckSettings {
  readonly dnsServers: readonly string[];
  /** MAIL_HOSTNAME. */
  readonly hostname: string;
  /** DMARC_ENFORCE. */
  readonly enforce: boolean;
}

/**
 * The checks ask for themselves: an answer that comes late is of no use to a message that waits, and
 * questions about names that strangers chose must not hold up those of verification.
 */
const CONCURRENCY = 512;
const TIMEOUTS = { first: 1_000, later: 900 };

export function buildSenderChecks({ dnsServers, hostname, enforce }: CheckSettings): {
  readonly checks: SenderChecks;
  close(): void;
} {
  const dns = createDnsResolver({
    servers: dnsServers,
    concurrency: CONCURRENCY,
    timeouts: TIMEOUTS,
  });
  const checks = createSenderChecks({
    lookup: (name, type) => dns.lookup(name, type),
    hostname,
    enforce,
  });
  return { checks, close: () => dns.close() };
}
