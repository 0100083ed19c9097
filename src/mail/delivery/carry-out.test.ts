import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { onEachEngine } from '../../../test/support/databases.ts';
import {
  openTestMailstore,
  sampleMessage,
  type TestMailstore,
} from '../../../test/support/mail.ts';
import { type FarEnd, refusal, startFarEnd } from '../../../test/support/outbound/far-end.ts';
import { FakeClock, UNTIL_MS } from '../../../test/support/queue/fake-clock.ts';
import { arriving, openReceiver } from '../../../test/support/receive.ts';
import { activateDomain, openTenants } from '../../../test/support/tenants.ts';
import { type Receiver, startReceiver } from '../../../test/support/webhooks/receiver.ts';
import { createAddressFilter } from '../../platform/net/net.ts';
import type { Accounts } from '../../tenants/accounts/accounts.ts';
import type { Domains, RouteSettings } from '../../tenants/domains/domains.ts';
import { Usage } from '../../tenants/usage/usage.ts';
import { MessageSender } from '../outbound/outbound.ts';
import { Queue } from '../queue/queue.ts';
import { createWebhookSender, type WebhookSender } from '../webhooks/webhooks.ts';
import { carryOut, type MailReceiver, OwnMailboxes } from './delivery.ts';
import { mailboxPayloads } from './kinds.ts';

const SECOND = 1_000;
/** How many requests one receiver has under way at a time. */
const IN_FLIGHT = 32;

onEachEngine('what was queued', (engine) => {
  const clock = new FakeClock();
  const now = () => clock.now();
  let store: TestMailstore;
  let domains: Domains;
  let accounts: Accounts;
  let delivery: MailReceiver;
  let queue: Queue;
  let webhooks: WebhookSender;
  let far: FarEnd;
  /** Whether the far end takes mail; it defers all other mail. */
  let isTaking = true;
  let receiver: Receiver;
  /** The status that the receiver answers; undefined: it does not answer. */
  let status: number | undefined;
  let waiting: ServerResponse[] = [];
  let names = 0;

  before(async () => {
    store = await openTestMailstore(engine, now);
    far = await startFarEnd({
      onMailFrom: (_address, _session, done) => done(isTaking ? null : refusal(451, 'later')),
    });
    receiver = await startReceiver((_, response) => {
      if (status === undefined) waiting.push(response);
      else response.writeHead(status).end('stack trace');
    });
    const { database, bodies, mailstore } = store;
    const log = { info: () => {}, warn: () => {}, error: () => {} };
    ({ domains, accounts } = openTenants(database, { now }));
    queue = new Queue({ database, clock, random: () => 0, log });
    const changes = { publish: () => {} };
    const storage = new OwnMailboxes({ mailstore, bodies, changes });
    delivery = openReceiver(store, { domains, accounts, queue, now });
    webhooks = createWebhookSender({
      filter: createAddressFilter(['127.0.0.0/8']),
      resolve: async () => [],
      timeoutMs: 60_000,
      now,
    });
    const sender = new MessageSender({
      hostname: 'mx.test',
      dns: { lookup: async () => ({ kind: 'unanswered', reason: 'no DNS in this test' }) },
      isAllowedAddress: () => false,
      smarthost: { host: '127.0.0.1', port: far.port, implicitTls: false, login: undefined },
    });
    carryOut({
      database,
      queue,
      bodies,
      domains,
      storage,
      webhooks,
      sender,
      usage: new Usage({ database, now }),
      log,
      now,
      hostname: 'mx.test',
    });
  });
  after(async () => {
    answerAll(200);
    await queue.stop(1_000);
    await webhooks.close();
  });

  /** Makes a domain with this route and two accounts. */
  async function makeDomain(route: RouteSettings, name = `d${++names}.test`): Promise<string> {
    await activateDomain(domains, 'u', name);
    for (const localPart of ['ann', 'ben']) await create(name, localPart);
    await domains.setRoute('u', name, route);
    return name;
  }

  const create = async (domain: string, localPart: string) =>
    (await accounts.create({ userId: 'u', domain, localPart, password: 'a good password' }))
      .account;

  const hook = () => ({ webhookUrl: `${receiver.origin}/hook` });

  const receive = (to: string[], source?: string) => delivery.receive(...arriving(to, source));

  async function countIn(address: string): Promise<number> {
    const account = await accounts.findForMail(address);
    assert.ok(account);
    const user = { accountId: account.id, address };
    return (await store.mailstore.sync(user, { mailbox: 'INBOX' })).changes.added.length;
  }

  async function rows(domain: string) {
    const { id: domainId } = await domains.find('u', domain);
    return queue.list({ domainId, limit: 1_000, offset: 0 });
  }

  async function until(check: () => Promise<boolean> | boolean): Promise<void> {
    const end = performance.now() + UNTIL_MS;
    while (!(await check())) {
      if (performance.now() > end) throw new Error(`never came true: ${check}`);
      await turn();
    }
  }

  function answerAll(code: number): void {
    status = code;
    for (const response of waiting.splice(0)) response.writeHead(code).end();
  }

  test('webhook_then_store: a mailbox waits 16 s for the first attempt, and no longer', async () => {
    const domain = await makeDomain({ forwardMode: 'webhook_then_store', ...hook() });
    const ann = `ann@${domain}`;
    status = undefined;
    waiting = [];
    // So many that the last ones are not attempted in time.
    const messages = IN_FLIGHT + 2;
    for (let n = 0; n < messages; n++) await receive([ann, `stranger@${domain}`]);
    await until(() => waiting.length === IN_FLIGHT);
    await clock.advance(16 * SECOND - 1);
    assert.equal(await countIn(ann), 0);
    await clock.advance(1);
    await until(async () => (await countIn(ann)) === messages);

    // Late attempts store nothing a second time.
    answerAll(200);
    const isOver = async () => (await rows(domain)).every(({ status: is }) => is === 'delivered');
    await until(isOver);
    assert.equal(await countIn(ann), messages);
    assert.equal((await rows(domain)).length, messages);
  });

  test('webhook_then_store: an answer in time cancels the late store', async () => {
    const domain = await makeDomain({ forwardMode: 'webhook_then_store', ...hook() });
    status = 500;
    await receive([`ann@${domain}`]);
    await until(async () => (await countIn(`ann@${domain}`)) === 1);
    assert.deepEqual(
      (await rows(domain)).map(({ kind, status: is }) => `${kind} ${is}`),
      ['webhook queued'],
    );
    await clock.advance(60 * SECOND);
    await queue.idle();
    assert.equal(await countIn(`ann@${domain}`), 1);
    await accounts.removeDomain('u', domain);
  });

  test('a message is stored in its turn of the account, so that many hold few connections', async (t) => {
    const { line } = store.mailstore;
    const turns: number[][] = [];
    let inTurn = 0;
    const run = line.run.bind(line);
    t.mock.method(line, 'run', (accountIds: number[], write: () => Promise<unknown>) => {
      turns.push(accountIds);
      return run(accountIds, async () => {
        inTurn++;
        return write().finally(() => inTurn--);
      });
    });
    for (const forwardMode of ['webhook_then_store', 'webhook'] as const) {
      const domain = await makeDomain({ forwardMode, ...hook() });
      const address = `ann@${domain}`;
      turns.length = 0;
      status = 410;
      await receive([address]);
      await until(async () => (await countIn(address)) === 1);
      const account = await accounts.findForMail(address);
      assert.deepEqual(turns, [[account?.id]], forwardMode);
      assert.equal(inTurn, 0);
      await accounts.removeDomain('u', domain);
    }
    const domain = await makeDomain({ forwardMode: 'store' });
    const address = `ann@${domain}`;
    const { id: accountId = 0 } = (await accounts.findForMail(address)) ?? {};
    const { id: domainId } = await domains.find('u', domain);
    const origin = { from: '', id: randomUUID(), receivedAt: now() };
    const user = { accountId, address };
    const kept = { kind: 'mailbox', userId: 'u', domainId, accountId, destination: address };
    const payload = { user, mailbox: 'INBOX', recipient: address, origin };
    turns.length = 0;
    await store.database.write(async (tx) => {
      const content = Buffer.from(sampleMessage('of a mail server'));
      const bodyId = await store.bodies.commit(tx, { size: content.length, content });
      await queue.enqueue(tx, { ...kept, payload: mailboxPayloads.write(payload), bodyId });
    });
    queue.wake([kept]);
    await until(async () => (await countIn(address)) === 1);
    assert.deepEqual(turns, [[accountId]], 'of a mail server that was used before');
    await accounts.removeDomain('u', domain);
  });

  test('the account was deleted before the message is stored: the sender gets a bounce', async () => {
    const domain = await makeDomain({ forwardMode: 'webhook', ...hook() });
    const before = far.received.length;
    status = 500;
    await receive([`ann@${domain}`, `ben@${domain}`]);
    await until(async () => (await rows(domain))[0]?.attempts === 1);
    const ann = await accounts.findForMail(`ann@${domain}`);
    assert.ok(ann);
    await accounts.remove('u', ann.id);
    await create(domain, 'ann');
    status = 410;
    await clock.advance(6 * SECOND);
    await until(() => far.received.length > before);
    const dsn = far.received.at(-1)?.source.toString() ?? '';
    assert.match(dsn, new RegExp(`Final-Recipient: rfc822; ann@${domain}`));
    assert.doesNotMatch(dsn, new RegExp(`Final-Recipient: rfc822; ben@${domain}`));
    assert.equal(await countIn(`ben@${domain}`), 1);
    assert.equal(await countIn(`ann@${domain}`), 0, 'a successor gets no mail of before its time');
  });

  test('a DSN is from the domain by its A-label, however the sender wrote it', async () => {
    const domain = await makeDomain({ forwardMode: 'webhook', ...hook() }, 'bücher.test');
    const before = far.received.length;
    status = 410;
    await receive([`stranger@${domain}`]);
    await until(() => far.received.length > before);
    const dsn = far.received.at(-1)?.source.toString() ?? '';
    assert.match(dsn, /^From: .*<postmaster@xn--bcher-kva\.test>/m);
    assert.match(dsn, /^Diagnostic-Code: x-postroom; The message could not be passed on\.\r$/m);
    assert.doesNotMatch(dsn, /stack trace/, 'what the receiver said is not for strangers');
    assert.match(dsn, /^DKIM-Signature: .* d=xn--bcher-kva\.test;/m);
  });

  test('mail of a suspended account is not lost', async () => {
    const domain = await makeDomain({ forwardMode: 'webhook', ...hook() });
    status = 500;
    await receive([`ann@${domain}`]);
    await until(async () => (await rows(domain))[0]?.attempts === 1);
    const ann = await accounts.findForMail(`ann@${domain}`);
    assert.ok(ann);
    await accounts.update('u', ann.id, { status: 'suspended' });
    status = 410;
    await clock.advance(6 * SECOND);
    await until(async () => (await countIn(`ann@${domain}`)) === 1);
  });

  test('a message keeps the route it was accepted under', async () => {
    const domain = await makeDomain({ forwardMode: 'webhook', ...hook() });
    status = 500;
    await receive([`ann@${domain}`]);
    await until(async () => (await rows(domain))[0]?.attempts === 1);
    await domains.setRoute('u', domain, { forwardMode: 'store' });
    const before = receiver.received.length;
    status = 200;
    await clock.advance(6 * SECOND);
    await until(async () => (await rows(domain))[0]?.status === 'delivered');
    assert.equal(receiver.received.length, before + 1);
    assert.equal(await countIn(`ann@${domain}`), 0);
  });

  test('a delivery that a newer release queued is held, whatever its kind', async () => {
    const domain = await makeDomain({ forwardMode: 'store' });
    const { id: domainId } = await domains.find('u', domain);
    const deliveries = ['webhook', 'forward', 'bounce', 'mailbox'].map((kind) => ({
      kind,
      userId: 'u',
      domainId,
      destination: 'later.example',
      payload: JSON.stringify({ v: 2, parts: [] }),
      lateAt: now(),
    }));
    await store.database.write(async (tx) => {
      const content = Buffer.from(sampleMessage('newer'));
      const bodyId = await store.bodies.commit(tx, { size: content.length, content });
      for (const delivery of deliveries) await queue.enqueue(tx, { ...delivery, bodyId });
    });
    queue.wake(deliveries);
    await until(async () => (await rows(domain)).every(({ status: is }) => is === 'held'));
    for (const { lastError } of await rows(domain)) {
      assert.match(lastError?.text ?? '', /version 2, this program reads version 1/);
    }
    await clock.advance(300 * SECOND);
    assert.equal((await rows(domain)).filter(({ status: is }) => is === 'held').length, 4);
    await accounts.removeDomain('u', domain);
  });

  test('forwarding that fails for good because of a local error: the sender gets a bounce', async () => {
    const domain = await makeDomain({
      forwardMode: 'forward_email',
      forwardToEmail: 'me@elsewhere.example',
    });
    const before = far.received.length;
    // Large enough to be stored as a file, which is then lost, maybe not before the first attempt has read it.
    isTaking = false;
    await receive([`ann@${domain}`], `${sampleMessage('lost')}${'x'.repeat(76)}\r\n`.repeat(2_000));
    await rm(join(store.directory, 'bodies'), { recursive: true });
    await until(async () => (await rows(domain))[0]?.attempts === 1);
    isTaking = true;
    // Five days later.
    const { id } = (await rows(domain))[0] ?? {};
    await store.database.write((tx) =>
      tx
        .updateTable('deliveries')
        .set({ attempts: 1_000, next_attempt_at: now() })
        .where('id', '=', id ?? 0)
        .execute(),
    );
    const { id: domainId } = (await domains.findActive(domain)) ?? { id: 0 };
    queue.wake([{ kind: 'forward', userId: 'u', domainId, destination: 'elsewhere.example' }]);
    await until(() => far.received.length > before);
    const { from, to, source } = far.received.at(-1) ?? {};
    assert.deepEqual([from, to], ['', ['bob@example.test']]);
    assert.match(String(source), new RegExp(`Final-Recipient: rfc822; ann@${domain}`));
    const [forward, bounce] = await rows(domain);
    assert.deepEqual([forward?.status, bounce?.kind], ['failed', 'bounce']);
  });
});
