import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore, type TestMailstore } from '../../../test/support/mail.ts';
import { activateDomain, openTenants } from '../../../test/support/tenants.ts';
import type { MailUser } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database } from '../../platform/database/database.ts';
import { type Accounts, setQuota } from '../../tenants/accounts/accounts.ts';
import { Usage } from '../../tenants/usage/usage.ts';
import { LocalDelivery, OwnMailboxes } from '../delivery/delivery.ts';
import { type LocalMailDelivery, MailboxClosed, SenderRewriting } from '../outbound/outbound.ts';
import { Queue, systemClock } from '../queue/queue.ts';
import { Trace } from '../trace/trace.ts';
import { EmbeddedCopies } from './copies.ts';
import { Sending } from './send.ts';

const now = () => Date.UTC(2026, 0, 1, 12);
const tables = [
  'bodies',
  'messages',
  'search_queue',
  'sends',
  'deliveries',
  'delivery_payloads',
  'send_recipients',
  'trace',
  'events',
] as const;
const counters = ['mailboxes', 'usage_days', 'usage_hours'] as const;
/** What differs from one message to the next. */
const own = /^(?:id|xid|uid|(?:created_)?modseq|thread_id|message_key|(?:body|send|delivery)_id)$/;
const silent = { info() {}, warn() {}, error() {} };

type Rows = Record<string, Record<string, unknown>[]>;

onEachEngine('one statement for the usual message', (engine) => {
  let store: TestMailstore;
  let accounts: Accounts;
  /** Those of one statement where they can, those of the transaction, and one whose accounts may send little. */
  let usual: Sending;
  let general: Sending;
  let limited: Sending;
  let untraced: Sending;
  let closing: Sending;
  /** Transactions; each case begins with none. */
  let writes = 0;
  const atOnce = engine === 'postgres' ? 0 : 1;

  before(async () => {
    store = await openTestMailstore(engine, now);
    const { database, bodies, mailstore } = store;
    const tenants = openTenants(database, { now });
    ({ accounts } = tenants);
    const changes = { publish: () => {} };
    const log = silent;
    const write: Database['write'] = (work) => {
      writes++;
      return database.write(work);
    };
    const { atOnce: _, ...transactions } = database;
    const sending = (
      of: Database,
      given: {
        keptDays?: number;
        most?: number;
        local?: (it: LocalMailDelivery) => LocalMailDelivery;
      },
    ) => {
      const { keptDays = 30, most = 0, local = (it) => it } = given;
      const shared = {
        database: of,
        bodies,
        ...tenants,
        mailstore,
        changes,
        log,
        now,
        queue: new Queue({ database: of, log, clock: { ...systemClock, now } }),
        trace: new Trace({ database, keptDays, node: 'n', log, now }),
        usage: new Usage({ database, now }),
      };
      const here = new LocalDelivery({
        ...shared,
        storage: new OwnMailboxes({ mailstore, bodies, changes, now }),
        senders: new SenderRewriting({ key: ['k'.repeat(32)] }),
        linkSecret: ['l'.repeat(32)],
        publicUrl: () => 'http://mx.test',
        hostname: 'mx.test',
      });
      return new Sending({
        ...shared,
        local: local(here),
        copies: new EmbeddedCopies(shared),
        hostname: 'mx.test',
        recipientsPerDay: most,
        enabled: true,
        maxMessageBytes: 1_000_000,
      });
    };
    usual = sending({ ...database, write }, {});
    untraced = sending({ ...database, write }, { keptDays: 0 });
    limited = sending({ ...database, write }, { most: 203 });
    general = sending({ ...transactions, write }, {});
    closing = sending(
      { ...transactions, write },
      {
        local: (it) => ({
          report: (...given) => it.report(...given),
          prepare: async (mail) => ({
            ...(await it.prepare(mail)),
            commit: () => Promise.reject(new MailboxClosed()),
          }),
        }),
      },
    );
    await activateDomain(tenants.domains, 'u', 'acme.test');
  });

  async function create(localPart: string): Promise<MailUser> {
    const password = 'a good password';
    const made = { userId: 'u', domain: 'acme.test', localPart, password };
    const { id: accountId, address } = (await accounts.create(made)).account;
    const user = { accountId, address };
    await store.mailstore.listMailboxes(user);
    return user;
  }

  const request = (to: MailUser) => ({
    to: [{ address: to.address }],
    subject: 'UID #',
    text: '"sendId":0 "delivery_id":-1 UID #',
  });

  async function readAll(): Promise<Rows> {
    const rows = [...tables, ...counters].map(async (table) => {
      const all = await store.database.read.selectFrom(table).selectAll().execute();
      const inOrder = all.toSorted((a, b) => placeOf(a) - placeOf(b));
      return [table, inOrder as Record<string, unknown>[]] as const;
    });
    return Object.fromEntries(await Promise.all(rows));
  }

  /** New rows, without what differs from one message to the next. */
  const added = (earlier: Rows, later: Rows) =>
    tables.flatMap((table) =>
      (later[table] ?? [])
        .slice(earlier[table]?.length)
        .map((row) =>
          JSON.stringify([
            table,
            ...Object.entries(row).map(([name, value]) => [name, plain(name, value)]),
          ]),
        )
        // News of both mailboxes for the search are in any order.
        .toSorted(),
    );

  /** How the counters grew. */
  const grown = (earlier: Rows, later: Rows) =>
    counters.map((table) =>
      later[table]?.map((row, at) =>
        Object.entries(row).map(([name, value]) => {
          const was = earlier[table]?.[at]?.[name];
          return typeof value === 'number' ? [name, value - Number(was)] : [name, value];
        }),
      ),
    );

  test('writes the rows that the transaction writes, column by column', async () => {
    const [ann, ben] = [await create('ann'), await create('ben')];
    await general.send(ann, request(ben));
    const first = await readAll();
    await general.send(ann, request(ben));
    const second = await readAll();
    writes = 0;
    const accepted = await usual.send(ann, request(ben));
    assert.equal(writes, atOnce);
    const third = await readAll();
    const byStatement = added(second, third);
    assert.equal(byStatement.length, 14);
    assert.deepEqual(byStatement, added(first, second));
    assert.deepEqual(grown(second, third), grown(first, second));
    const last = (table: (typeof tables)[number]) => third[table]?.at(-1) ?? {};
    assert.equal(accepted.id, last('sends').public_id);
    assert.deepEqual([accepted.mailbox, accepted.uid], ['Sent', 3]);
    assert.equal(accepted.uidvalidity, last('sends').uidvalidity);
    assert.equal(JSON.parse(String(last('delivery_payloads').payload)).sendId, last('sends').id);
    assert.equal(last('send_recipients').delivery_id, last('deliveries').id);
    const [attempted, stored] = JSON.parse(String(last('trace').more));
    assert.equal(attempted.delivery_id, last('deliveries').id);
    assert.equal(stored.detail, 'INBOX, UID 3');
  });

  test('is for the usual mail alone, and all other mail is sent as before', async () => {
    const [cal, dan] = [await create('cal'), await create('dan')];
    const messages = async () => (await readAll()).messages?.length ?? 0;
    const tagged = { accountId: dan.accountId, address: 'dan+tag@acme.test' };
    const cases: [string, number, () => Promise<unknown>][] = [
      ['the usual', atOnce, () => usual.send(cal, request(dan))],
      ['back', atOnce, () => usual.send(dan, request(cal))],
      ['without a trace', atOnce, () => untraced.send(cal, request(dan))],
      ['with a key', 1, () => usual.send(cal, request(dan), 'key')],
      ['to a tag', 1, () => usual.send(cal, request(tagged))],
      ['to oneself', 1, () => usual.send(cal, request(cal))],
      ['a mailbox that closed meanwhile', 2, () => closing.send(cal, request(dan))],
    ];
    for (const [what, expected, send] of cases) {
      writes = 0;
      const before = await messages();
      await send();
      assert.equal(writes, expected, what);
      // What did not fit is left to the queue, which does not run here.
      assert.equal(await messages(), before + (expected === 2 ? 1 : 2), what);
    }
  });

  test('waits, as the transaction does, for its turn of both accounts, so that many hold few connections', async (t) => {
    const [gil, hal] = [await create('gil'), await create('hal')];
    const { line } = store.mailstore;
    const run = line.run.bind(line);
    const turns: (readonly number[])[] = [];
    t.mock.method(line, 'run', (accountIds: readonly number[], write: () => Promise<unknown>) => {
      turns.push(accountIds);
      writes = 0;
      return run(accountIds, async () => {
        const written = await write();
        assert.ok(writes === atOnce || writes === 1);
        return written;
      });
    });
    const both = [gil.accountId, hal.accountId];
    await usual.send(gil, request(hal));
    const later = { ...request(hal), delaySeconds: 60 };
    const { id } = await general.send(gil, later);
    await general.cancel(gil, id);
    await usual.send(hal, request(hal), 'key');
    assert.deepEqual(turns, [both, [gil.accountId], [gil.accountId], [hal.accountId]]);
  });

  test('leaves to the transaction an account close to its limit, and quotas', async () => {
    const [eve, fay] = [await create('eve'), await create('fay')];
    for (const expected of [atOnce, atOnce, atOnce, 1]) {
      writes = 0;
      await limited.send(eve, request(fay));
      assert.equal(writes, expected);
    }
    await store.database.write((tx) => setQuota(tx, eve.accountId, 1_000_000));
    for (const [from, to] of [
      [eve, fay],
      [fay, eve],
    ] as const) {
      writes = 0;
      await usual.send(from, request(to));
      assert.equal(writes, 1);
    }
  });

  test('writes nothing where one of the mailboxes is missing', async () => {
    for (const [name, at] of [
      ['Sent', 0],
      ['INBOX', 1],
    ] as const) {
      const [from, to] = [await create(`gil${at}`), await create(`hal${at}`)];
      const { accountId } = at === 0 ? from : to;
      await store.database.write((tx) =>
        tx
          .deleteFrom('mailboxes')
          .where('account_id', '=', accountId)
          .$if(name === 'Sent', (query) => query.where('name', '=', name))
          .execute(),
      );
      const before = await readAll();
      writes = 0;
      await usual.send(from, request(to));
      assert.equal(writes, 1, 'the transaction makes it');
      const after = await readAll();
      for (const table of ['messages', 'bodies'] as const) {
        assert.equal((after[table]?.length ?? 0) - (before[table]?.length ?? 0), 2);
      }
    }
  });

  test('two accounts that write to each other at once get each message once', async () => {
    const [ida, joe] = [await create('ida'), await create('joe')];
    const before = await readAll();
    await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        at % 2 ? usual.send(ida, request(joe)) : usual.send(joe, request(ida)),
      ),
    );
    const after = await readAll();
    assert.equal((after.messages?.length ?? 0) - (before.messages?.length ?? 0), 40);
    const boxes = after.mailboxes?.filter(
      ({ account_id, messages }) =>
        [ida.accountId, joe.accountId].includes(Number(account_id)) && Number(messages) > 0,
    );
    assert.deepEqual(
      boxes?.map(({ messages, uidnext }) => [messages, uidnext]),
      Array.from({ length: 4 }, () => [10, 11]),
    );
  });
});

function plain(name: string, value: unknown): unknown {
  if (own.test(name)) return typeof value;
  if (value instanceof Uint8Array) return value.length;
  if (typeof value !== 'string') return value;
  return value
    .replaceAll(/[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/g, 'uuid')
    .replaceAll(/UID \d+|"(?:delivery_id|sendId)":\d+/g, 'number');
}

/** Where a row was written, among those of its table. */
function placeOf(row: object): number {
  if ('id' in row) return Number(row.id);
  if ('delivery_id' in row) return Number(row.delivery_id);
  if ('mailbox_id' in row && 'uid' in row) return Number(row.mailbox_id) * 1e6 + Number(row.uid);
  return 'account_id' in row ? Number(row.account_id) : 0;
}
