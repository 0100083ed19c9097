/** One row for a message: what became of it, how operators find it, and what can be done. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, test } from 'node:test';
import { type RunningApi, startApi } from '../../../test/support/api/start-api.ts';
import { onEachEngine } from '../../../test/support/databases.ts';
import { newMailId, Trace, type TraceEvent } from '../../mail/trace/trace.ts';
import type { NewRow } from '../../platform/database/database.ts';
import { explainReply } from './explain-reply.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

interface Listed {
  readonly id: string;
  readonly status: string;
  readonly counts: Readonly<Record<string, number>>;
  readonly [member: string]: unknown;
}

onEachEngine('messages of operators', (engine) => {
  let api: RunningApi;
  let domainId: number;
  let bodyId: number;
  let trace: Trace;
  const clock = { now: Date.now() - HOUR };

  before(async () => {
    api = await startApi(engine);
    await api.activateDomain('ann', 'acme.test');
    const { database } = api;
    const { id } = await database.read.selectFrom('domains').select('id').executeTakeFirstOrThrow();
    domainId = id;
    bodyId = await database.write(async (tx) => {
      const body = { size: 1, content: Buffer.from('x'), file: null };
      const row = await tx.insertInto('bodies').values(body).returning('id').executeTakeFirst();
      return row?.id ?? assert.fail();
    });
    const log = { warn: () => {} };
    const now = () => clock.now;
    trace = new Trace({ database, keptDays: 30, keepsSubjects: true, node: 'mx', log, now });
  });

  /** Writes what one transaction did, a minute after the one before. */
  async function happened(...events: TraceEvent[]): Promise<void> {
    clock.now += MINUTE;
    await api.database.write((tx) => trace.write(tx, events));
  }

  async function deliver(mailId: string, more: Partial<NewRow<'deliveries'>>): Promise<number> {
    return api.database.write(async (tx) => {
      const { id } = await tx
        .insertInto('deliveries')
        .values({
          kind: 'send',
          domain_id: domainId,
          destination: 'far.test',
          body_id: bodyId,
          public_id: randomUUID(),
          status: 'queued',
          next_attempt_at: Date.now() + HOUR,
          mail_id: mailId,
          created_at: clock.now,
          updated_at: clock.now,
          ...more,
        })
        .returning('id')
        .executeTakeFirstOrThrow();
      await tx.insertInto('delivery_payloads').values({ delivery_id: id, payload: '{}' }).execute();
      return id;
    });
  }

  async function list(query = ''): Promise<Listed[]> {
    const { status, body } = await api.call('GET', `/v2/operator/messages?${query}`);
    assert.equal(status, 200, JSON.stringify(body));
    return body.items;
  }

  async function show(id: string) {
    const { status, body } = await api.call('GET', `/v2/operator/messages/${id}`);
    assert.equal(status, 200, JSON.stringify(body));
    return body;
  }

  const received = (mailId: string, recipient: string, sender = 'bob@far.test'): TraceEvent => ({
    mailId,
    event: 'received',
    sender,
    recipient,
    messageId: `<${mailId}@far.test>`,
    subject: 'Hello',
    size: 2_048,
    client: '192.0.2.1',
    status: '250',
  });

  async function send(addresses: string[], more: Partial<NewRow<'deliveries'>>) {
    const mailId = randomUUID();
    const deliveryId = await deliver(mailId, more);
    const submitted = { mailId, event: 'submitted', sender: 'ada@acme.test', deliveryId };
    await happened(...addresses.map((recipient) => ({ ...submitted, recipient })));
    const attempt = (recipient: string, status: string, detail?: string): TraceEvent => ({
      mailId,
      event: 'send_attempt',
      recipient,
      deliveryId,
      status,
      ...(detail !== undefined && { detail }),
    });
    return { mailId, deliveryId, attempt };
  }

  test('each state of a message is told, found by its filter, and listed once', async () => {
    const told: Record<string, string> = {};
    const note = (status: string, id: string) => {
      told[status] = id;
    };
    const stored = newMailId(clock.now);
    await happened(received(stored, 'ada@acme.test'), {
      mailId: stored,
      event: 'stored',
      recipient: 'ada@acme.test',
      detail: 'INBOX, UID 7',
    });
    note('delivered', stored);
    const waiting = await send(['w@far.test'], { next_attempt_at: Date.now() - MINUTE });
    note('waiting', waiting.mailId);
    note('scheduled', (await send(['s@far.test'], {})).mailId);
    const error = JSON.stringify({ status: 451, text: '4.7.1 Greylisted' });
    const late = await send(['d@far.test'], { attempts: 2, last_error: error });
    await happened(late.attempt('d@far.test', 'deferred', '451 4.7.1 Greylisted'));
    note('deferred', late.mailId);
    const held = await send(['h@far.test'], { status: 'held', held_by: 'operator', attempts: 1 });
    await happened({
      mailId: held.mailId,
      event: 'held',
      recipient: 'h@far.test',
      deliveryId: held.deliveryId,
    });
    note('held', held.mailId);
    const ended = { status: 'failed', finished_at: Date.now() } as const;
    const bounced = await send(['b@far.test'], ended);
    await happened(bounced.attempt('b@far.test', 'failed', '550 5.1.1 No such user'));
    await happened({
      mailId: bounced.mailId,
      event: 'bounced',
      recipient: 'b@far.test',
      deliveryId: bounced.deliveryId,
    });
    note('bounced', bounced.mailId);
    const failed = await send(['f@far.test'], ended);
    await happened(failed.attempt('f@far.test', 'expired', '421 busy'));
    note('failed', failed.mailId);
    const dropped = await send(['x@far.test'], ended);
    const order = { mailId: dropped.mailId, recipient: 'x@far.test' };
    await happened({ ...order, event: 'dropped', deliveryId: dropped.deliveryId });
    await happened({ ...order, event: 'bounced', deliveryId: dropped.deliveryId });
    note('dropped', dropped.mailId);
    const cancelled = await send(['c@far.test'], {});
    await api.database.write((tx) =>
      tx.deleteFrom('deliveries').where('id', '=', cancelled.deliveryId).execute(),
    );
    await happened({ mailId: cancelled.mailId, event: 'cancelled', recipient: 'c@far.test' });
    note('cancelled', cancelled.mailId);
    for (const [event, status] of [
      ['refused', '550 5.1.1'],
      ['deferred', '452 4.2.2'],
    ] as const) {
      const mailId = newMailId(clock.now);
      const about = { mailId, event, status, sender: 'bob@far.test', detail: 'why' };
      await happened({ ...about, recipient: 'nobody@acme.test' });
      note(event === 'refused' ? 'refused' : 'deferred_by_us', mailId);
    }
    const partly = await send(['one@far.test', 'two@far.test'], { attempts: 1, last_error: error });
    await happened(
      partly.attempt('one@far.test', 'delivered'),
      partly.attempt('two@far.test', 'deferred', '451 4.2.2 Full'),
    );
    note('partly', partly.mailId);

    const all = await list();
    const states = Object.fromEntries(all.map(({ id, status }) => [id, status]));
    for (const [status, id] of Object.entries(told)) assert.equal(states[id], status, status);
    assert.equal(all.length, Object.keys(told).length, 'each once');
    assert.deepEqual(
      all.map(({ at }) => at),
      all.map(({ at }) => at).toSorted((a, b) => (String(a) < String(b) ? 1 : -1)),
      'the newest first',
    );
    for (const [status, id] of Object.entries(told)) {
      const found = await list(`status=${status}`);
      const others = ['delivered', 'deferred'].includes(status) ? [told.partly] : [];
      assert.deepEqual(found.map((one) => one.id).toSorted(), [id, ...others].toSorted(), status);
    }
    const problems = await list('status=deferred,held,bounced,failed');
    const expected = ['deferred', 'held', 'bounced', 'failed', 'partly'].map((one) => told[one]);
    assert.deepEqual(problems.map(({ id }) => id).toSorted(), expected.toSorted());
    assert.equal(all.find(({ id }) => id === told.delivered)?.size, 2_048);
    const item = all.find(({ id }) => id === told.partly);
    assert.deepEqual(
      [item?.counts, item?.recipients, item?.recipient_count, item?.reason, item?.direction],
      [{ delivered: 1, deferred: 1 }, ['one@far.test', 'two@far.test'], 2, '451 4.2.2 Full', 'out'],
    );

    // One page each, whatever way the messages are found.
    for (const query of [
      '',
      'status=deferred,held,bounced,failed',
      'domain=acme.test',
      'not_status=held',
    ]) {
      const seen: string[] = [];
      let cursor = '';
      do {
        const path = `/v2/operator/messages?limit=1&${query}${cursor}`;
        const { status, body } = await api.call('GET', path);
        assert.equal(status, 200, JSON.stringify(body));
        seen.push(...body.items.map(({ id }: Listed) => id));
        cursor = body.cursor ? `&cursor=${encodeURIComponent(body.cursor)}` : '';
      } while (cursor);
      const whole = await list(query);
      assert.deepEqual(
        seen,
        whole.map(({ id }) => id),
        query,
      );
    }
  });

  test('the filters', async () => {
    await api.accounts.create({ userId: 'ann', domain: 'acme.test', localPart: 'eve' });
    const mailId = newMailId(clock.now);
    const begun = clock.now + MINUTE;
    await happened(received(mailId, 'eve@acme.test', 'mallory@evil.test'));
    const noSender = newMailId(clock.now);
    await happened({ ...received(noSender, 'eve+tag@acme.test', ''), client: '198.51.100.1' });
    const since = new Date(begun).toISOString();
    const until = new Date(begun + 1).toISOString();
    const of = async (query: string) => (await list(query)).map(({ id }) => id);
    for (const query of [
      'recipient=Eve@acme.test',
      'sender=mallory@evil.test',
      'address=mallory@evil.test',
      'address=eve@acme.test',
      'account=eve@acme.test&address=mallory@evil.test',
      `message_id=${encodeURIComponent(`<${mailId}@far.test>`)}`,
      `message_id=${mailId}@far.test`,
      `since=${since}&until=${until}`,
      `domain=ACME.test&since=${since}&until=${until}`,
      `subject=hell&since=${since}&client=192.0.2.1`,
      `since=${since}&not_client=198.51.100.1`,
      `since=${since}&not_sender=`,
      `since=${since}&node=mx&direction=in&not_recipient=eve%2Btag@acme.test`,
    ]) {
      assert.deepEqual(await of(query), [mailId], query);
    }
    assert.deepEqual(await of(`sender=&since=${since}`), [noSender]);
    const day = since.slice(0, 10);
    const nextDay = new Date(begun + 24 * HOUR).toISOString().slice(0, 10);
    const ofEve = 'address=mallory@evil.test';
    assert.deepEqual(await of(`${ofEve}&since=${day}&until=${nextDay}`), [mailId]);
    assert.deepEqual(await of(`${ofEve}&since=${nextDay}`), []);
    assert.deepEqual(await of(`${ofEve}&until=${day}`), []);
    assert.deepEqual(await of('domain=other.test'), []);
    assert.deepEqual(await of('account=eve@acme.test&address=nobody@evil.test'), []);
    assert.deepEqual(await of(`subject=else&since=${since}`), []);
    assert.deepEqual(await of(`reason=${encodeURIComponent('NO SUCH')}&direction=out`), [
      ...(await of('status=bounced')),
    ]);
    for (const [query = '', field] of [
      ['status=lost', 'status'],
      ['not_status=lost', 'not_status'],
      ['not_direction=up', 'not_direction'],
      // A leap second, which no Date has.
      ['since=2016-12-31T23:59:60Z', 'since'],
      ['cursor=x', 'cursor'],
      [`cursor=${Buffer.from('[1]').toString('base64url')}`, 'cursor'],
    ]) {
      const { status, body } = await api.call('GET', `/v2/operator/messages?${query}`);
      assert.deepEqual([status, body.errors?.[0]?.field], [400, field], query);
    }
    const { body } = await api.call('GET', '/v2/operator/messages?account=nobody@acme.test');
    assert.equal(body.code, 'account_not_found');
  });

  test('one message says of each recipient what became of it, and what can be done', async () => {
    const lastError = JSON.stringify({ status: 452, text: '4.2.2 Mailbox full' });
    const { mailId, deliveryId, attempt } = await send(['one@far.test', 'two@far.test'], {
      attempts: 1,
      last_error: lastError,
    });
    await happened(
      attempt('one@far.test', 'delivered'),
      attempt('two@far.test', 'deferred', '452 4.2.2 Mailbox full'),
    );
    const shown = await show(mailId);
    assert.deepEqual(
      shown.recipients.map(({ at: _, ...recipient }: Record<string, unknown>) => recipient),
      [
        { address: 'one@far.test', status: 'delivered', delivery_ids: [] },
        {
          address: 'two@far.test',
          status: 'deferred',
          reason: '452 4.2.2 Mailbox full',
          explanation: 'The mailbox is full.',
          delivery_ids: [deliveryId],
        },
      ],
    );
    const [delivery] = shown.deliveries;
    assert.deepEqual(
      [delivery.id, delivery.status, delivery.attempts, delivery.actions, delivery.domain],
      [deliveryId, 'queued', 1, ['retry', 'hold', 'drop'], 'acme.test'],
    );
    assert.equal(shown.next_attempt_at, delivery.next_attempt_at);
    assert.deepEqual(
      shown.events.map(({ event }: Record<string, string>) => event),
      ['submitted', 'submitted', 'send_attempt', 'send_attempt'],
    );
    assert.equal((await show(String(deliveryId))).id, mailId, 'by the id of its delivery');
    // What the message offers, the queue does.
    const act = async (action: string) => {
      const body = { ids: [deliveryId], ...(action === 'retry' && { status: 'held' }) };
      const { status, body: done } = await api.call('POST', `/v2/operator/queue/${action}`, body);
      assert.deepEqual([status, done.changed], [200, 1], action);
      const { recipients, deliveries } = await show(mailId);
      return [recipients[1].status, deliveries[0].actions];
    };
    assert.deepEqual(await act('hold'), ['held', ['retry', 'release', 'drop']]);
    assert.deepEqual(await act('release'), ['deferred', ['retry', 'hold', 'drop']]);
    assert.deepEqual(await act('hold'), ['held', ['retry', 'release', 'drop']]);
    assert.deepEqual(await act('retry'), ['waiting', ['hold', 'drop']]);
    assert.deepEqual((await act('drop'))[0], 'dropped');
    const { status, body } = await api.call('GET', `/v2/operator/messages/${randomUUID()}`);
    assert.deepEqual([status, body.code], [404, 'message_not_found']);
  });

  test('a mailbox that has the message does not hide a webhook that waits for it', async () => {
    const mailId = newMailId(clock.now);
    const to = ['ann+x@acme.test', 'cy@acme.test'];
    const kind = { kind: 'webhook', destination: 'https://hook.test' };
    const deliveryId = await deliver(mailId, { ...kind, attempts: 1, recipient: to.join(', ') });
    const webhook = { mailId, deliveryId };
    await happened(
      ...to.map((recipient) => received(mailId, recipient)),
      { mailId, event: 'stored', recipient: 'ann@acme.test', detail: 'INBOX, UID 1' },
      { ...webhook, event: 'queued', recipient: to.join(', '), detail: 'webhook to hook.test' },
    );
    const failed = { event: 'webhook_attempt', status: 'deferred', detail: '500 Oops' };
    await happened({ ...webhook, ...failed, recipient: to.join(', ') });
    const { status, recipients } = await show(mailId);
    assert.equal(status, 'deferred');
    assert.deepEqual(
      recipients.map((one: Record<string, string>) => [one.address, one.status, one.reason]),
      to.map((address) => [address, 'deferred', '500 Oops']),
    );
  });

  test('a message with very many recipients is one row', async () => {
    const mailId = newMailId(clock.now);
    const recipients = Array.from({ length: 400 }, (_, index) => `many${index}@acme.test`);
    await happened(...recipients.map((recipient) => received(mailId, recipient, 'many@far.test')));
    for (const query of ['sender=many@far.test', 'domain=acme.test&sender=many@far.test']) {
      const found = await list(query);
      assert.deepEqual(
        found.map(({ id, recipient_count }) => [id, recipient_count]),
        [[mailId, 400]],
      );
    }
    assert.equal((await list('limit=200')).filter(({ id }) => id === mailId).length, 1);
  });
});

test('replies are explained by their enhanced code', () => {
  assert.equal(explainReply('550 5.1.1 No such user'), 'There is no such mailbox.');
  assert.match(explainReply('451 4.7.1 Greylisted, come back') ?? '', /greylisting/);
  assert.equal(explainReply('500 Internal Server Error of 10.1.1.5'), undefined);
  assert.equal(explainReply('it said 5.1.1'), 'There is no such mailbox.');
});
