/** Accounts as operators see them: what they send and get, in which order, and why their mail waits. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type RunningApi, startApi } from '../../../test/support/api/start-api.ts';
import { onEachEngine } from '../../../test/support/databases.ts';
import { senderOf } from '../../mail/queue/queue.ts';
import { Usage } from '../../tenants/usage/usage.ts';
import { MEASURES } from './account-order.ts';

const HOUR = 3_600_000;
const NOW = Date.UTC(2026, 4, 3, 12, 59, 59, 999);

onEachEngine('accounts of all users', (engine) => {
  let api: RunningApi;
  /** What the next looks at the clock show; after them it stands. */
  let coming: number[] = [];
  let now = NOW;
  /** Ids by local part, in the order in which they were made. */
  const ids: Record<string, number> = {};
  let domainId: number;
  let bodyId: number;
  const idOf = (name: string) => ids[name] ?? assert.fail(name);

  before(async () => {
    api = await startApi(
      engine,
      {},
      {
        now: () => {
          now = coming.shift() ?? now;
          return now;
        },
      },
    );
    await api.activateDomain('ann', 'acme.test');
    await api.activateDomain('bob', 'other.test');
    const make = async (userId: string, domain: string, localPart: string) => {
      const made = { userId, domain, localPart, password: 'a good password' };
      ids[localPart] = (await api.accounts.create(made)).account.id;
    };
    for (const name of ['ada', 'ben', 'cal']) await make('ann', 'acme.test', name);
    await make('bob', 'other.test', 'zoe');
    domainId = (await api.domains.find('ann', 'acme.test')).id;
    const usage = new Usage({ database: api.database, now: () => NOW });
    await api.database.write(async (tx) => {
      const [ada, ben, zoe] = ['ada', 'ben', 'zoe'].map(idOf);
      assert.ok(ada && ben && zoe);
      await usage.count(tx, [{ accountId: ada, messagesIn: 4 }]);
      await usage.count(tx, [{ accountId: ada, messagesOut: 10 }], NOW - 3 * HOUR);
      await usage.count(tx, [{ accountId: ada, messagesOut: 100 }], NOW - 25 * HOUR);
      await usage.count(tx, [{ accountId: ben, messagesOut: 20 }]);
      await usage.count(tx, [{ accountId: zoe, messagesOut: 5 }]);
      await usage.count(tx, [{ accountId: zoe, bounced: 2 }]);
      await usage.count(tx, [{ accountId: zoe, refused: 9 }]);
      await usage.count(tx, [{ domainId, messagesIn: 1, messagesOut: 1 }]);
    });
    await api.database.write(async (tx) => {
      const mailbox = { name: 'INBOX', special_use: null, uidvalidity: 1, messages: 1, unseen: 0 };
      const some = [
        { ...mailbox, account_id: idOf('ada'), octets: 900 },
        { ...mailbox, account_id: idOf('cal'), octets: 80 },
      ];
      await tx.insertInto('mailboxes').values(some).execute();
      const quotas = { ada: 10_000, cal: 100 };
      for (const [name, quota_bytes] of Object.entries(quotas)) {
        await tx
          .updateTable('accounts')
          .set({ quota_bytes })
          .where('id', '=', idOf(name))
          .execute();
      }
      const signIns = [
        { account_id: idOf('cal'), client: '192.0.2.1', signed_in_at: 5_000 },
        { account_id: idOf('cal'), client: '192.0.2.2', signed_in_at: 9_000 },
        { account_id: idOf('ben'), client: '192.0.2.1', signed_in_at: 7_000 },
      ];
      await tx.insertInto('sign_ins').values(signIns).execute();
      const body = await tx
        .insertInto('bodies')
        .values({ size: 1, content: Buffer.from('x'), file: null })
        .returning('id')
        .executeTakeFirstOrThrow();
      bodyId = body.id;
      await addWaiting('cal', 'queued', '451 busy', 3);
      await addWaiting('cal', 'held', undefined, 1);
      await addWaiting('ben', 'queued', '451 busy', 1);

      async function addWaiting(
        name: string,
        status: 'queued' | 'held',
        error: string | undefined,
        count: number,
      ) {
        const [code, text] = error?.split(' ') ?? [];
        const rows = Array.from({ length: count }, (_, at) => ({
          kind: 'send',
          domain_id: domainId,
          destination: 'far.test',
          sender: senderOf({ userId: 'ann', domainId, accountId: idOf(name) }),
          body_id: bodyId,
          public_id: `${name}${status}${at}`,
          status,
          next_attempt_at: NOW + HOUR,
          last_error: error === undefined ? null : JSON.stringify({ status: Number(code), text }),
          created_at: 1_000 * (at + 1),
          updated_at: 1_000,
        }));
        await tx.insertInto('deliveries').values(rows).execute();
      }
    });
  });

  const list = async (query: string) => {
    const { status, body } = await api.call('GET', `/v2/operator/accounts${query}`);
    assert.equal(status, 200, JSON.stringify(body));
    return body;
  };
  const namesOf = async (query: string) =>
    (await list(query)).items
      .map(({ address }: { address: string }) => address.split('@')[0])
      .join(' ');

  test('have what they sent, got and bounced in 24 hours, and what waits', async () => {
    const { items } = await list('');
    const brief = items.map((one: Record<string, unknown>) => [
      one.address,
      one.sent_24h,
      one.received_24h,
      one.bounced_24h,
      one.refused_24h,
      one.waiting,
    ]);
    assert.deepEqual(brief, [
      ['zoe@other.test', 5, 0, 2, 9, 0],
      ['cal@acme.test', 0, 0, 0, 0, 4],
      ['ben@acme.test', 20, 0, 0, 0, 1],
      ['ada@acme.test', 10, 4, 0, 0, 0],
    ]);
  });

  test('are sorted by each of these numbers, of equal ones the newest first', async () => {
    const orders = {
      '-sent_24h': 'ben ada zoe cal',
      sent_24h: 'cal zoe ada ben',
      '-received_24h': 'ada zoe cal ben',
      '-bounced_24h': 'zoe cal ben ada',
      '-refused_24h': 'zoe cal ben ada',
      '-waiting': 'cal ben zoe ada',
      '-bytes': 'ada cal zoe ben',
      '-quota_used': 'cal ada zoe ben',
      '-last_login_at': 'cal ben zoe ada',
      address: 'ada ben cal zoe',
    };
    for (const [sort, expected] of Object.entries(orders)) {
      assert.equal(await namesOf(`?sort=${sort}`), expected, sort);
    }
    for (const name of MEASURES) assert.ok(`-${name}` in orders, name);
    assert.equal(await namesOf('?sort=-sent_24h&domain=acme.test'), 'ben ada cal');
    assert.equal(await namesOf('?sort=-waiting&user_id=bob'), 'zoe');
    assert.equal(await namesOf('?sort=-sent_24h&q=a'), 'ada');
    const { status, body } = await api.call('GET', '/v2/operator/accounts?sort=-email');
    assert.deepEqual([status, body.errors?.[0]?.field], [400, 'sort']);
  });

  test('have numbers of one instant, also where an hour begins while they are read', async () => {
    // In the next hour, what ada sent is over; in that of the day after, all is.
    for (const end of [NOW + 21 * HOUR, NOW + 24 * HOUR]) {
      for (let looks = 0; looks < 8; looks++) {
        const soon = () => [...Array.from({ length: looks }, () => end - HOUR), end];
        coming = soon();
        const { items } = await list('?sort=-sent_24h');
        const sent = items.map((one: { sent_24h: number }) => one.sent_24h);
        const sorted = sent.toSorted((one: number, other: number) => other - one);
        assert.deepEqual(sent, sorted);
        coming = soon();
        const { body } = await api.call('GET', `/v2/operator/accounts/${idOf('ada')}`);
        const sum = body.hours.reduce((all: number, one: { sent: number }) => all + one.sent, 0);
        assert.equal(body.sent_24h, sum);
      }
    }
    coming = [NOW];
  });

  test('are paged in every order', async () => {
    for (const sort of ['', '&sort=address', '&sort=-sent_24h', '&sort=waiting', '&q=a']) {
      const all = (await list(`?limit=200${sort}`)).items;
      const paged: unknown[] = [];
      let cursor = '';
      do {
        const page = await list(`?limit=1${sort}${cursor && `&cursor=${cursor}`}`);
        paged.push(...page.items);
        cursor = page.cursor ?? '';
      } while (cursor);
      assert.deepEqual(paged, all, sort);
    }
    const { cursor } = await list('?limit=1&sort=address');
    const mixed = await api.call('GET', `/v2/operator/accounts?sort=-waiting&cursor=${cursor}`);
    assert.deepEqual([mixed.status, mixed.body.errors?.[0]?.field], [400, 'cursor']);
  });

  test('one has its hours and days, receivers, reasons and sign-ins', async () => {
    const read = (id: number) => api.call('GET', `/v2/operator/accounts/${id}`);
    const ada = (await read(idOf('ada'))).body;
    assert.equal(ada.hours.length, 24);
    assert.equal(ada.days.length, 8);
    const sum = (spans: { sent: number }[]) => spans.reduce((sum, { sent }) => sum + sent, 0);
    assert.deepEqual([sum(ada.hours), sum(ada.days)], [10, 110]);
    assert.deepEqual([ada.hours.at(-1).received, ada.hours.at(-4).sent], [4, 10]);

    await api.database.write(async (tx) => {
      const send = await tx
        .insertInto('sends')
        .values({
          public_id: 's',
          account_id: idOf('cal'),
          domain_id: domainId,
          message_id: '<1@acme.test>',
          body_id: bodyId,
          mailbox: 'Sent',
          uid: 1,
          uidvalidity: '1',
          recipients: 3,
          created_at: NOW,
        })
        .returning('id')
        .executeTakeFirstOrThrow();
      const to = (address: string, status: 'delivered' | 'bounced') => ({
        send_id: send.id,
        delivery_id: 1,
        address,
        status,
      });
      const rows = [
        to('a@x.test', 'bounced'),
        to('b@y.test', 'delivered'),
        to('c@y.test', 'bounced'),
      ];
      await tx.insertInto('send_recipients').values(rows).execute();
    });
    const cal = (await read(idOf('cal'))).body;
    assert.deepEqual(cal.receivers, [
      { domain: 'y.test', recipients: 2, bounced: 1 },
      { domain: 'x.test', recipients: 1, bounced: 1 },
    ]);
    const oldest_at = new Date(1_000).toISOString();
    const reason = { destination: 'far.test', oldest_at };
    assert.deepEqual(cal.waiting_reasons, [
      { ...reason, status: 'queued', last_error: { status: 451, text: 'busy' }, count: 3 },
      { ...reason, status: 'held', count: 1 },
    ]);
    assert.deepEqual(
      cal.sign_ins.map(({ client }: { client: string }) => client),
      ['192.0.2.2', '192.0.2.1'],
    );
    for (const id of [999_999, 2 ** 64]) {
      const unknown = await read(id);
      assert.deepEqual([unknown.status, unknown.body.code], [404, 'account_not_found']);
    }
  });

  test('their domains have the sums, with mail for no account', async () => {
    const { body } = await api.call('GET', '/v2/operator/domains?q=acme');
    const [{ sent_24h, received_24h, bounced_24h }] = body.items;
    assert.deepEqual([sent_24h, received_24h, bounced_24h], [31, 5, 0]);
  });
});
