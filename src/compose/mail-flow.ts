/** Builds what mail flows through: sender checks, delivery, the queue, and what carries it out. */

import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import type { Accounts } from '../accounts/accounts.ts';
import type { Bodies } from '../bodies/bodies.ts';
import type { Changes } from '../changes/changes.ts';
import type { Config, Secrets } from '../config/config.ts';
import type { Database } from '../database/database.ts';
import {
  type CarryOutOptions,
  createDelivery,
  createStaging,
  type Delivery,
  ThreadedStaging,
} from '../delivery/delivery.ts';
import { createDnsResolver } from '../dns/dns.ts';
import type { Domains } from '../domains/domains.ts';
import type { InboundDelivery, Mailstore } from '../mailstore/mailstore.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { createAddressFilter, createHostResolver } from '../net/net.ts';
import { createMessageSender, createSenderRewriting } from '../outbound/outbound.ts';
import type { Queue } from '../queue/queue.ts';
import { createWebhookSender } from '../webhooks/webhooks.ts';
import { buildSenderChecks, type CheckSettings } from './sender-checks.ts';

export interface MailFlowOptions {
  readonly config: Config;
  readonly secrets: Secrets;
  readonly database: Database;
  readonly changes: Changes;
  readonly domains: Domains;
  readonly accounts: Accounts;
  readonly bodies: Bodies;
  readonly mailstore: Mailstore;
  /** What brings mail to the mail server, where mail is kept there. */
  readonly mailServer?: InboundDelivery | undefined;
  readonly queue: Queue;
  readonly metrics: Metrics;
  /** Where links to us begin, known once the port is. */
  readonly publicUrl: () => string;
  readonly logger: Logger;
}

export interface MailFlow {
  readonly delivery: Delivery;
  /** For `carryOut`, once everything listens. */
  readonly courier: CarryOutOptions;
  /** Ends connections that mail goes out on, once the queue has stopped. */
  close(): Promise<void>;
  /** Ends the staging thread and the DNS of the sender checks, once all listeners are closed. */
  closeStaging(): Promise<void>;
}

/**
 * Deliveries ask for themselves, too, as many questions as they can have under way: behind a limit,
 * receivers whose name servers are dead would hold up all the others.
 */
const DELIVERY_CONCURRENCY = 1_024;

/**
 * Memory of the staging thread: messages in hand are small, and what they leave behind is better
 * cleared away often than kept. A thread that needs more ends, and nothing else does.
 */
const STAGING_LIMITS = { maxYoungGenerationSizeMb: 24, maxOldGenerationSizeMb: 128 };

export function buildMailFlow(options: MailFlowOptions): MailFlow {
  const { config, secrets, changes, domains, bodies, mailstore, queue, metrics } = options;
  const hostname = config.mailHostname;
  const filter = createAddressFilter(config.outbound.allowCidrs);
  const dns = createDnsResolver({ servers: config.dns.servers, concurrency: DELIVERY_CONCURRENCY });
  const { staging, close: closeStaging } = buildStaging(options);
  const delivery = createDelivery({
    domains,
    accounts: options.accounts,
    mailstore,
    bodies,
    queue,
    senders: createSenderRewriting({ key: secrets.srsSecret }),
    staging,
    linkSecret: secrets.linkSecret,
    publicUrl: options.publicUrl,
    log: options.logger,
    count: (result) => metrics.countRecipient(result),
  });
  const sender = createMessageSender({
    hostname,
    dns: {
      mx: (name) => dns.lookup(name, 'MX'),
      a: (name) => dns.lookup(name, 'A'),
      aaaa: (name) => dns.lookup(name, 'AAAA'),
    },
    isAllowedAddress: (address) => filter.judge(address).allowed,
    mxPort: config.outbound.mxPort,
    smarthost: config.outbound.relay,
    ownListener: ownListener(config, domains),
  });
  const webhooks = createWebhookSender({ filter, resolve: createHostResolver(dns) });
  const publish: CarryOutOptions['publish'] = (change) => changes.publish(change);
  const { accounts, mailServer, logger: log } = options;
  const stores = { queue, bodies, accounts, mailstore, mailServer };
  const courier = { ...stores, domains, publish, webhooks, sender, hostname, log };
  const close = async () => {
    await webhooks.close();
    dns.close();
    mailServer?.close();
  };
  return { delivery, courier, close, closeStaging };
}

/** Mail from one of our domains to another goes to our own listener, whatever MX records say. */
function ownListener({ smtp }: Config, domains: Domains) {
  if (smtp.port === 0) return undefined;
  const host = smtp.host === '0.0.0.0' || smtp.host === '::' ? '127.0.0.1' : smtp.host;
  const takes = async (domain: string) => (await domains.findActive(domain)) !== undefined;
  return { host, port: smtp.port, takes };
}

function buildStaging({ config, bodies, logger }: MailFlowOptions) {
  const hostname = config.mailHostname;
  const settings: CheckSettings = {
    dnsServers: config.dns.servers,
    hostname,
    enforce: config.senderChecks.dmarcEnforce,
  };
  const { checks, close: closeChecks } = buildSenderChecks(settings);
  const staging = new ThreadedStaging({
    local: createStaging({ bodies, checks, hostname }),
    start: () =>
      new Worker(new URL('../staging-thread.ts', import.meta.url), {
        workerData: settings,
        resourceLimits: STAGING_LIMITS,
      }),
    log: logger,
  });
  const close = async () => {
    await staging.close();
    closeChecks();
  };
  return { staging, close };
}
