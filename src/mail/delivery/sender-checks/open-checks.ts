/** Opens the sender checks with a resolver of their own, for the event loop and for the thread alike. */
import { testNetworks } from '../../../platform/net/net.ts';
import { DnsResolver, type DnsResolverOptions } from '../../../protocols/dns/dns.ts';
import { createSenderChecks, type SenderChecks } from './check-sender.ts';
import { Unanswered } from './lookups.ts';

/** What the operator has set: plain data, which a thread can be given. */
export interface CheckSettings {
  /** Servers of DNS; empty: those of the system. */
  readonly servers: readonly string[];
  /** Our name (MAIL_HOSTNAME). */
  readonly hostname: string;
  /** Whether mail that fails a policy of `reject` is refused; else it goes to Junk. */
  readonly enforce: boolean;
  /** Networks whose clients are the operator's own relays. */
  readonly trustedNetworks: readonly string[];
  readonly hasSpamFilter: boolean;
  /** Of {@link Unanswered}: the same for the event loop and for the thread. */
  readonly unanswered: SharedArrayBuffer;
}

export interface CheckHooks {
  readonly onAsked: NonNullable<DnsResolverOptions['onAsked']>;
  /** Called when DNS stops answering, and when it answers again. */
  readonly onOutage: (isOut: boolean) => void;
}

export interface OpenChecks {
  readonly checks: SenderChecks;
  readonly close: () => void;
}

const CONCURRENCY = 512;
const TIMEOUTS = { first: 1_000, later: 900 };

/**
 * The resolver is their own: a late answer is useless for a waiting message, and lookups of names that strangers chose
 * must not delay those of verification.
 */
export function openSenderChecks(settings: CheckSettings, hooks: CheckHooks): OpenChecks {
  const { servers, hostname, enforce, trustedNetworks, hasSpamFilter } = settings;
  const isTrusted = testNetworks(trustedNetworks);
  const dns = new DnsResolver({
    servers,
    concurrency: CONCURRENCY,
    timeouts: TIMEOUTS,
    keeps: true,
    onAsked: hooks.onAsked,
  });
  const checks = createSenderChecks({
    dns,
    unanswered: new Unanswered(settings.unanswered),
    onOutage: hooks.onOutage,
    hostname,
    enforce,
    isRelay: isTrusted,
    removesSpamFields: hasSpamFilter,
    ...(hasSpamFilter && { isNameWanted: (address) => !isTrusted(address) }),
  });
  return { checks, close: () => dns.close() };
}
