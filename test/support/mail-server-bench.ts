/** Delivery, queue and workers over the mailboxes of a mail server that the test speaks for. */

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import {
  carryOut,
  type MailboxStorage,
  type MailReceiver,
  OwnMailboxes,
  ServerMailboxes,
  type SpamFilter,
} from '../../src/mail/delivery/delivery.ts';
import type { MessageSender } from '../../src/mail/outbound/outbound.ts';
import { Queue } from '../../src/mail/queue/queue.ts';
import type { WebhookSender } from '../../src/mail/webhooks/webhooks.ts';
import {
  ServerDelivery,
  type ServerDeliveryOptions,
} from '../../src/mailboxes/mail-server/mail-server.ts';
import type { Engine } from '../../src/platform/database/database.ts';
import type { Account, Accounts } from '../../src/tenants/accounts/accounts.ts';
import type { Domains } from '../../src/tenants/domains/domains.ts';
import { Usage } from '../../src/tenants/usage/usage.ts';
import { startLmtpServer, type TestLmtpServer } from './lmtp-server.ts';
import { openTestMailstore, type TestMailstore } from './mail.ts';
import { FakeClock } from './queue/fake-clock.ts';
import { openReceiver } from './receive.ts';
import { activateDomain, openTenants } from './tenants.ts';

/** What the tests change of the mail server's side. */
export type MailServerOptions = Partial<
  ServerDeliveryOptions['imap'] & Pick<ServerDeliveryOptions, 'lmtp'>
>;

export class MailServerBench {
  readonly clock = new FakeClock();
  readonly store: TestMailstore;
  readonly server: TestLmtpServer;
  readonly domains: Domains;
  readonly accounts: Accounts;
  readonly queue: Queue;
  readonly mailServer: ServerDelivery;
  readonly delivery: MailReceiver;
  /** Set by a test: how the webhook and the far end answer. */
  webhook: Awaited<ReturnType<WebhookSender['attempt']>> = { result: 'delivered' };
  /** Set by a test: what the spam filter says of each message. */
  spam: Awaited<ReturnType<SpamFilter['check']>>;
  readonly announced: string[] = [];

  constructor(store: TestMailstore, server: TestLmtpServer, options: MailServerOptions) {
    this.store = store;
    this.server = server;
    const { database } = store;
    const now = () => this.clock.now();
    const log = { info: () => {}, warn: () => {}, error: () => {} };
    const { domains, accounts } = openTenants(database, { now });
    this.domains = domains;
    this.accounts = accounts;
    this.queue = new Queue({ database, log, clock: this.clock, random: () => 0 });
    this.mailServer = new ServerDelivery({
      lmtp: { server: { host: '127.0.0.1', port: server.port }, hostname: 'mx.test' },
      ...options,
      imap: {
        appendByImap: () => Promise.reject(new Error('no IMAP in this test')),
        hasReceived: async () => false,
        changeOf: async ({ accountId, address }, mailbox) => {
          this.announced.push(`${address} ${mailbox}`);
          const eventType = 'MailboxesChanged';
          return { kind: 'mailbox', accountId, mailbox, uidvalidity: '1', token: '1', eventType };
        },
        ...options,
      },
      log,
    });
    this.delivery = this.#createMailReceiver();
  }

  #createMailReceiver(): MailReceiver {
    const { domains, accounts, queue, store } = this;
    return openReceiver(store, {
      domains,
      accounts,
      storage: this.#storage(true),
      queue,
      spamFilter: { check: async () => this.spam },
      now: () => this.clock.now(),
    });
  }

  #storage(hasMailServer: boolean): MailboxStorage {
    const { mailServer, queue } = this;
    const { database, bodies, mailstore } = this.store;
    const changes = { publish: () => {} };
    if (!hasMailServer) return new OwnMailboxes({ mailstore, bodies, changes });
    const log = { warn: () => {} };
    const now = () => this.clock.now();
    return new ServerMailboxes({ database, bodies, queue, mailServer, changes, log, now });
  }

  /**
   * Starts the workers. Bounces are queued and stay so: nobody takes them.
   *
   * @param hasMailServer false: mailboxes are our own again
   */
  work({ hasMailServer = true } = {}): void {
    const busy = { enhancedStatus: '4.3.0', text: 'busy' };
    const sender: Pick<MessageSender, 'sendMessage'> = {
      sendMessage: async () => ({ result: 'temporary', error: busy }),
    };
    const webhooks: WebhookSender = {
      attempt: async () => this.webhook,
      close: async () => {},
    };
    carryOut({
      queue: this.queue,
      bodies: this.store.bodies,
      domains: this.domains,
      database: this.store.database,
      storage: this.#storage(hasMailServer),
      webhooks,
      sender,
      usage: new Usage({ database: this.store.database }),
      hostname: 'mx.test',
      log: { error: () => {} },
      now: () => this.clock.now(),
    });
  }

  async activate(domain: string): Promise<void> {
    await activateDomain(this.domains, 'u', domain);
  }

  async account(localPart: string, domain = 'acme.test'): Promise<Account> {
    const password = 'a good password';
    return (await this.accounts.create({ userId: 'u', domain, localPart, password })).account;
  }

  receive(
    to: readonly string[],
    { protocol = 'ESMTP', from = 'bob@sender.test', source = '' } = {},
  ) {
    const arrival = { protocol, heloName: 'c', remoteAddress: '192.0.2.1', sessionId: 's' };
    const text = source || `From: ${from || 'bob@sender.test'}\r\nSubject: s\r\n\r\nHello.\r\n`;
    return this.delivery.receive(
      { id: randomUUID(), from, to, arrival },
      (async function* () {
        yield Buffer.from(text);
      })(),
    );
  }

  /** Rows of the queue: kind, destination, status and last error. */
  async rows() {
    const rows = await this.store.database.read
      .selectFrom('deliveries')
      .select(['kind', 'destination', 'status', 'attempts', 'last_error', 'body_id'])
      .orderBy('id')
      .execute();
    return rows.map(({ last_error, ...row }) => ({
      ...row,
      error: last_error === null ? undefined : JSON.parse(last_error),
    }));
  }

  /** What every mailbox has, by address. */
  copies(address: string): number {
    return this.server.kept.filter(({ to }) => to === address).length;
  }

  async countBodies(): Promise<number> {
    const rows = await this.store.database.read.selectFrom('bodies').select('id').execute();
    return rows.length;
  }

  /** Lets a queued delivery come to its turn, and its attempt to its end. */
  async pass(ms: number): Promise<void> {
    await this.clock.advance(ms);
    await this.queue.idle();
  }
}

export async function openMailServerBench(
  engine: Engine,
  options: (server: TestLmtpServer) => MailServerOptions = () => ({}),
): Promise<MailServerBench> {
  const server = await startLmtpServer();
  const bench = new MailServerBench(await openTestMailstore(engine), server, options(server));
  await bench.activate('acme.test');
  for (const name of ['ann', 'ben', 'cal']) assert.ok(await bench.account(name));
  return bench;
}
