/** Builds the parts that mail passes through: sender checks, delivery, the queue, and its workers. */
import type { Logger } from 'pino';
import {
  type CheckSettings,
  createMailReceiver,
  LocalDelivery,
  OwnMailboxes,
  openSenderChecks,
  ServerMailboxes,
  SpamFilter,
  StagingThread,
  Unanswered,
} from '../../mail/delivery/delivery.ts';
import { MessageSender, SenderRewriting } from '../../mail/outbound/outbound.ts';
import type { Queue } from '../../mail/queue/queue.ts';
import { EmbeddedCopies, readReport, Sending, ServerCopies } from '../../mail/sending/sending.ts';
import type { Trace } from '../../mail/trace/trace.ts';
import {
  createWebhookSender,
  EventHooks,
  EventQueuer,
  type QueueEventsOptions,
} from '../../mail/webhooks/webhooks.ts';
import type { ServerDelivery } from '../../mailboxes/mail-server/mail-server.ts';
import type { EmbeddedMailstore, Mailstore } from '../../mailboxes/mailstore/mailstore.ts';
import {
  type AddressFilter,
  createAddressFilter,
  createHostResolver,
  type NetworkTest,
  testNetworks,
} from '../../platform/net/net.ts';
import { MINUTE_MS, Outage } from '../../platform/time/time.ts';
import { DnsResolver } from '../../protocols/dns/dns.ts';
import { ownPreface } from '../../protocols/smtp-client/smtp-client.ts';
import type { Metrics } from '../../servers/metrics/metrics.ts';
import type { Accounts } from '../../tenants/accounts/accounts.ts';
import type { Domains } from '../../tenants/domains/domains.ts';
import type { Events } from '../../tenants/events/events.ts';
import type { Usage } from '../../tenants/usage/usage.ts';
import type { Config } from '../config/config.ts';
import type { Common } from './common.ts';

export interface MailFlowOptions extends Omit<Common, 'secrets' | 'openLimit' | 'nodes'> {
  readonly domains: Domains;
  readonly accounts: Accounts;
  /** Our own mailboxes. */
  readonly embedded: EmbeddedMailstore;
  /** The accounts' mailboxes, ours or a mail server's, with every change published. */
  readonly mailstore: Mailstore;
  /** Delivers to the mail server, where the mailboxes are there. */
  readonly mailServer?: ServerDelivery | undefined;
  readonly queue: Queue;
  /** Counts mail for billing. */
  readonly usage: Usage;
  readonly trace: Trace;
  readonly events: Events;
  /** The start of links to us, known once the port is. */
  readonly publicUrl: () => string;
}

/**
 * Deliveries have a resolver of their own, with as many lookups as they can have under way: behind a limit, receivers
 * with dead name servers would delay all the others.
 */
const DELIVERY_CONCURRENCY = 1_024;

export function buildMailFlow(options: MailFlowOptions) {
  const { config, keys, database, changes, domains, accounts, bodies, queue, usage } = options;
  const { embedded, mailServer, metrics, trace, logger: log, now } = options;
  const hostname = config.mailHostname;
  const filter = createAddressFilter(config.outbound.allowCidrs);
  const dns = openDeliveryDns(config, metrics);
  const { closeSenderChecks, ...judges } = buildSenderChecks(options);
  const shared = {
    database,
    domains,
    accounts,
    bodies,
    queue,
    usage,
    trace,
    mailstore: embedded,
    changes,
    log,
    now,
  };
  const storage = mailServer
    ? new ServerMailboxes({ ...shared, mailServer })
    : new OwnMailboxes(shared);
  const resolving = {
    ...shared,
    storage,
    senders: new SenderRewriting({ key: keys.senders, now }),
    linkSecret: keys.links,
    publicUrl: options.publicUrl,
    hostname,
  };
  const delivery = createMailReceiver({ ...resolving, ...judges, readReport, metrics });
  const sender = buildSender(options, dns, filter);
  const webhooks = createWebhookSender({ filter, resolve: createHostResolver(dns), now });
  const attempts = { ...shared, storage, webhooks, sender, hostname };
  const ofEvents = buildEventHooks({ ...shared, webhooks, events: options.events });
  const copies = mailServer
    ? new ServerCopies({ ...shared, mailstore: options.mailstore })
    : new EmbeddedCopies(shared);
  const local = new LocalDelivery(resolving);
  const sendAttempts = { ...shared, sender, hostname, copies, local };
  const { maxMessageBytes } = config.limits;
  const sending = new Sending({
    ...shared,
    ...config.sending,
    mailstore: options.mailstore,
    copies,
    local,
    hostname,
    maxMessageBytes,
  });
  return {
    delivery,
    /** For `carryOut`, after everything listens. */
    attempts,
    /** For `carryOutSends`, then as well. */
    sendAttempts,
    sending,
    ...ofEvents,
    /** Closes connections for outgoing mail, after the queue has stopped. */
    async close() {
      await webhooks.close();
      dns.close();
      mailServer?.close();
    },
    /** Closes the DNS of the sender checks, after all listeners are closed. */
    closeSenderChecks,
  };
}

function buildEventHooks(
  attempts: QueueEventsOptions & Pick<MailFlowOptions, 'bodies' | 'events'>,
) {
  const queuer = new EventQueuer(attempts);
  const hooks = new EventHooks({ ...attempts, onSet: queuer.look });
  return { eventAttempts: attempts, eventQueuer: queuer, eventHooks: hooks };
}

function openDeliveryDns({ dns: { servers } }: Config, metrics: Metrics) {
  return new DnsResolver({
    servers,
    concurrency: DELIVERY_CONCURRENCY,
    onAsked: metrics.dnsQuestions('delivery'),
  });
}

/** Of a relay with several addresses one may be down, and what fails is tried again a minute later. */
const RELAY_PATIENCE_MS = MINUTE_MS;

/** Sends messages to the hosts of their recipients, or by the smarthost. */
function buildSender(
  { config, domains, metrics, logger: log }: MailFlowOptions,
  dns: DnsResolver,
  filter: AddressFilter,
): MessageSender {
  const { relay } = config.outbound;
  const outage = new Outage<string>(
    (reason) => {
      metrics.setRelayUp(false);
      const what = { relay: relay?.host, port: relay?.port, reason };
      log.error(
        what,
        'the relay of SMTP_RELAY_URL takes no mail: what is sent waits, and is tried again',
      );
    },
    (seconds) => {
      metrics.setRelayUp(true);
      log.info({ relay: relay?.host, seconds }, 'the relay of SMTP_RELAY_URL takes mail again');
    },
    RELAY_PATIENCE_MS,
  );
  if (relay) metrics.setRelayUp(true);
  return new MessageSender({
    hostname: config.mailHostname,
    dns,
    isAllowedAddress: (address) => filter.judge(address).allowed,
    mxPort: config.outbound.mxPort,
    smarthost: relay,
    onSmarthost: (fault) => (fault === undefined ? outage.worked() : outage.failed(fault)),
    ownListener: ownListener(config, domains),
  });
}

/** Mail from one of our domains to another is sent to our own listener, whatever MX records say. */
function ownListener({ smtp }: Config, domains: Domains) {
  if (smtp.port === 0) return undefined;
  const host = smtp.host === '0.0.0.0' || smtp.host === '::' ? '127.0.0.1' : smtp.host;
  const hosts = async (domain: string) => (await domains.findActive(domain)) !== undefined;
  const preface = ownPreface(host, smtp.proxyNetworks);
  return { host, port: smtp.port, hosts, ...(preface && { preface }) };
}

/** The sender checks, on the event loop and in the thread. */
function buildSenderChecks(options: MailFlowOptions) {
  const { config, database, mailServer, metrics, logger: log } = options;
  const {
    dns: { servers },
    mailHostname: hostname,
    senderChecks: { dmarcEnforce: enforce },
    smtp: { trustedNetworks },
  } = config;
  const spamFilter = buildSpamFilter(config, testNetworks(trustedNetworks), metrics, log);
  const hasSpamFilter = spamFilter !== undefined;
  const settings: CheckSettings = {
    servers,
    hostname,
    enforce,
    trustedNetworks,
    hasSpamFilter,
    unanswered: Unanswered.memory(),
  };
  const onAsked = metrics.dnsQuestions('sender_checks');
  metrics.setChecksOff(false);
  /** Where DNS does not answer. */
  const out = new Set<string>();
  let isClosed = false;
  const hooksFor = (who: 'event loop' | 'thread') => ({
    onAsked,
    onOutage(isOut: boolean) {
      const wasOut = out.size > 0;
      if (isOut) out.add(who);
      else out.delete(who);
      if (isClosed || wasOut === out.size > 0) return;
      metrics.setChecksOff(isOut);
      const dnsServers = servers.length > 0 ? servers : 'those of the system';
      log.warn({ dnsServers }, isOut ? CHECKS_END : CHECKS_BEGIN);
    },
  });
  const { checks, close } = openSenderChecks(settings, hooksFor('event loop'));
  const thread = new StagingThread({
    // Where one statement takes the usual message, what is indexed of it goes with it.
    settings: { ...settings, readsTerms: database.atOnce !== undefined && !mailServer },
    log,
    ...hooksFor('thread'),
  });
  const closeSenderChecks = () => {
    isClosed = true;
    close();
    thread.close();
    void spamFilter?.close();
  };
  return { checks, thread, spamFilter, closeSenderChecks };
}

const CHECKS_END =
  'DNS does not answer: until it does, mail is accepted without SPF, DKIM and DMARC checks';
const CHECKS_BEGIN = 'DNS answers again: SPF, DKIM and DMARC are checked for new mail';

/** Undefined where the operator has no spam filter. @param isTrusted clients whose mail is not checked */
function buildSpamFilter(
  config: Config,
  isTrusted: NetworkTest,
  metrics: Metrics,
  log: Logger,
): SpamFilter | undefined {
  const { rspamdUrl: url } = config.senderChecks;
  if (url === undefined) return undefined;
  metrics.setSpamFilterUp(true);
  const filter = new SpamFilter({
    url,
    hostname: config.mailHostname,
    isTrusted,
    onChecked: (outcome, ms) => metrics.countSpamCheck(outcome, ms),
    onOutage(isOut, reason) {
      metrics.setSpamFilterUp(!isOut);
      if (isOut)
        log.warn({ url, reason }, 'Rspamd does not answer: mail is accepted without a spam check');
      else log.info({ url }, 'Rspamd answers again: new mail is checked for spam');
    },
  });
  void filter.look();
  return filter;
}
