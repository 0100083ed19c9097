/** Quotas and the count of what came in, where mail arrives. */

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import {
  openTestMailstore,
  sampleMessage,
  type TestMailstore,
} from '../../../test/support/mail.ts';
import { arriving, openReceiver } from '../../../test/support/receive.ts';
import { activateDomain, openTenants } from '../../../test/support/tenants.ts';
import { answerOf, Refusal } from '../../platform/errors/errors.ts';
import { setQuota } from '../../tenants/accounts/accounts.ts';
import type { Domains } from '../../tenants/domains/domains.ts';
import type { MailReceiver } from './delivery.ts';

const NOON = Date.UTC(2026, 4, 3, 12);
const from = 'bob@example.test';

onEachEngine('quotas', (engine) => {
  let store: TestMailstore;
  let domains: Domains;
  let delivery: MailReceiver;
  let create: (localPart: string, quotaBytes: number | null) => Promise<number>;

  before(async () => {
    const now = () => NOON;
    store = await openTestMailstore(engine, now, { quotaBytes: 5_000 });
    const { database } = store;
    const tenants = openTenants(database, { now });
    ({ domains } = tenants);
    delivery = openReceiver(store, { ...tenants, now });
    await activateDomain(domains, 'u', 'acme.test');
    create = async (localPart, quotaBytes) => {
      const password = 'a good password';
      const made = { userId: 'u', domain: 'acme.test', localPart, password };
      const { id } = (await tenants.accounts.create(made)).account;
      await database.write((tx) => setQuota(tx, id, quotaBytes));
      return id;
    };
  });

  const receive = (to: string[], protocol?: string, text = '') =>
    delivery.receive(...arriving(to, sampleMessage('m') + text, protocol));

  /** The reply to RCPT; undefined where it is accepted. */
  async function rcpt(recipient: string, octets = 0): Promise<string | undefined> {
    return replyOf(await delivery.checkRecipient(recipient, { from, octets }));
  }

  function replyOf(refusal: unknown): string | undefined {
    if (!(refusal instanceof Refusal)) return undefined;
    const { code, enhanced } = answerOf(refusal.code).smtp;
    return `${code} ${enhanced}`;
  }

  /** Messages and octets, counted from the rows and as the counters of the mailboxes have them. */
  async function stored(accountId: number) {
    const mailboxes = await store.database.read
      .selectFrom('mailboxes')
      .select(['id', 'messages', 'octets'])
      .where('account_id', '=', accountId)
      .execute();
    const ids = mailboxes.map(({ id }) => id);
    const rows = await store.database.read
      .selectFrom('messages')
      .select('size')
      .where('mailbox_id', 'in', [0, ...ids])
      .execute();
    const sum = (values: number[]) => values.reduce((all, one) => all + one, 0);
    assert.deepEqual(
      [rows.length, sum(rows.map(({ size }) => size))],
      [sum(mailboxes.map((one) => one.messages)), sum(mailboxes.map((one) => one.octets))],
    );
    return { messages: rows.length, octets: sum(rows.map(({ size }) => size)) };
  }

  const usageOf = (accountId: number) =>
    store.database.read
      .selectFrom('usage_days')
      .selectAll()
      .where('account_id', '=', accountId)
      .execute();

  test('deliveries at the same time fill a quota and never exceed it', async () => {
    const id = await create('ann', null);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 20 }, () => receive(['ann@acme.test'])),
    );
    const { messages, octets } = await stored(id);
    const taken = outcomes.filter(({ status }) => status === 'fulfilled').length;
    assert.equal(messages, taken);
    assert.ok(octets <= 5_000, `${octets} octets`);
    assert.ok(octets + octets / messages > 5_000, 'one more has no room');
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') assert.equal(replyOf(outcome.reason), '452 4.2.2');
    }
    const [day, ...others] = await usageOf(id);
    assert.deepEqual(others, []);
    assert.deepEqual(
      [day?.day, day?.domain, day?.user_id, day?.email, day?.messages_in, day?.bytes_in],
      [Date.UTC(2026, 4, 3), 'acme.test', 'u', 'ann@acme.test', messages, octets],
    );
    assert.equal(await rcpt('ann@acme.test', 1), '452 4.2.2');
  });

  test('RCPT accepts an announced size only where our own fields have room as well', async () => {
    await create('eve', 10_000);
    assert.equal(await rcpt('eve@acme.test', 10_000 - 4_096), undefined);
    assert.equal(await rcpt('eve@acme.test', 10_000 - 4_095), '452 4.2.2');
  });

  test('a quota of 0 means no limit, and one that is already exceeded refuses everything', async () => {
    const id = await create('ben', 0);
    for (let sent = 0; sent < 2; sent++)
      await receive(['ben@acme.test'], 'ESMTP', 'x'.repeat(5_000));
    await store.database.write((tx) => setQuota(tx, id, 1_000));
    assert.equal(await rcpt('ben@acme.test'), '452 4.2.2');
    assert.equal((await stored(id)).messages, 2);
    await store.database.write((tx) => setQuota(tx, id, null));
    assert.equal(await rcpt('ben@acme.test'), '452 4.2.2', 'the default holds again');
  });

  test('RCPT refuses the one full mailbox of several where the sender announces the size', async () => {
    const small = await create('small', 6_000);
    const large = await create('large', 0);
    const both = ['small@acme.test', 'large@acme.test'];
    const text = 'x'.repeat(6_000);
    assert.equal(await rcpt('small@acme.test'), undefined, 'nobody knows yet how large it is');
    await assert.rejects(receive(both, 'ESMTP', text), { code: 'unavailable' });
    assert.equal(await rcpt('small@acme.test', 6_100), '452 4.2.2');
    assert.equal(await rcpt('small@acme.test', 500), undefined, 'a smaller one has room');
    assert.equal(await rcpt('large@acme.test', 6_100), undefined);
    await receive(['large@acme.test'], 'ESMTP', text);
    assert.equal((await stored(small)).messages, 0);
    assert.equal((await stored(large)).messages, 1);
    const bodies = store.database.read.selectFrom('bodies').select('id');
    const before = (await bodies.execute()).length;
    const outcomes = await receive(both, 'LMTP', text);
    assert.deepEqual(
      outcomes.map((one) => ('refusal' in one ? replyOf(one.refusal) : one.result)),
      ['452 4.2.2', 'delivered'],
    );
    const alone = await receive(['small@acme.test'], 'LMTP', text);
    assert.equal(alone[0]?.result, 'temporary');
    assert.equal((await bodies.execute()).length, before + 1, 'what nobody took is not kept');
    assert.deepEqual(
      [(await usageOf(small)).length, (await usageOf(large))[0]?.messages_in],
      [0, 2],
    );
  });

  test('mail for a webhook counts for its accounts, else for the domain', async () => {
    const dee = await create('dee', 1_000);
    const webhookUrl = 'https://hook.example/in';
    await domains.setRoute('u', 'acme.test', { forwardMode: 'webhook', webhookUrl });
    await receive(['dee@acme.test', 'nobody@acme.test'], 'ESMTP', 'x'.repeat(2_000));
    await receive(['nobody@acme.test']);
    assert.equal((await usageOf(dee))[0]?.messages_in, 1, 'taken, whatever its quota');
    await domains.setRoute('u', 'acme.test', { forwardMode: 'webhook_then_store', webhookUrl });
    assert.equal(await rcpt('dee@acme.test', 2_000), '452 4.2.2', 'it would be stored');
    const forwardToEmail = 'me@elsewhere.test';
    await domains.setRoute('u', 'acme.test', { forwardMode: 'forward_email', forwardToEmail });
    await receive(['anybody@acme.test']);
    const [day, ...others] = await usageOf(0);
    assert.deepEqual(others, []);
    assert.deepEqual(
      [day?.domain, day?.email, day?.messages_in, day?.messages_out],
      ['acme.test', '', 2, 1],
    );
    const { bytes_in = 0, bytes_out = 0 } = day ?? {};
    assert.ok(bytes_out > 0 && bytes_in > bytes_out);
  });
});
