import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { suite, test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore } from '../../../test/support/mail.ts';
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { findAccounts } from '../../tenants/accounts/account-rows.ts';
import { InProcessChanges, type MailboxChange } from '../changes/changes.ts';
import { MailserverEvents, rememberEvents } from './event-hook.ts';

const HOUR_MS = 3_600_000;

/** One line of a batch. */
function eventLine(changed: object = {}): string {
  return JSON.stringify({
    event_id: 'evt-1',
    user: 'ann@d1.test',
    event_type: 'MailboxesChanged',
    mailbox: 'INBOX',
    uidvalidity: '7',
    highestmodseq: '42',
    ...changed,
  });
}

const batchOf = (...lines: string[]) => Buffer.from(lines.map((text) => `${text}\n`).join(''));

suite('the signature', () => {
  const secret = 'the secret of the mail server';
  const body = Buffer.from('{"event_id":"ü"}\r\n');
  const good = createHmac('sha256', secret).update(body).digest('hex');
  const events = openEvents({} as Database, secret);
  for (const [title, signature, expected] of [
    ['in lower case', good, true],
    ['in upper case', good.toUpperCase(), true],
    [
      'by the other value of the secret',
      createHmac('sha256', 'the secret before').update(body).digest('hex'),
      true,
    ],
    ['of another body', createHmac('sha256', secret).update('x').digest('hex'), false],
    ['by another secret', createHmac('sha256', 'x').update(body).digest('hex'), false],
    ['by another hash', createHmac('sha512', secret).update(body).digest('hex'), false],
    ['cut off', good.slice(0, -1), false],
    ['too long', `${good}00`, false],
    ['with a prefix', `sha256=${good}`, false],
    ['in base64', createHmac('sha256', secret).update(body).digest('base64'), false],
    ['with a newline', `${good}\n`, false],
    ['twice', `${good}, ${good}`, false],
    ['empty', '', false],
    ['of letters that are not hex', 'g'.repeat(64), false],
  ] as const) {
    test(title, () => assert.equal(events.verify(body, signature), expected));
  }
});

function openEvents(
  database: Database,
  secret = 'secret',
  now: () => number = Date.now,
  changes = new InProcessChanges(),
): MailserverEvents {
  return new MailserverEvents({
    secrets: ['the secret before', secret],
    database,
    changes,
    findAccounts: (addresses) => findAccounts(database, addresses),
    now,
  });
}

onEachEngine('mail server events', (engine) => {
  async function start() {
    const { database, makeUser } = await openTestMailstore(engine);
    const users = [await makeUser(), await makeUser()];
    const changes = new InProcessChanges();
    const told: MailboxChange[] = [];
    for (const { accountId } of users) {
      changes.subscribe(accountId, (change) => {
        if (change.kind === 'mailbox') told.push(change);
      });
    }
    let time = Date.now();
    const clock = { pass: (ms: number) => (time += ms) };
    const open = () => openEvents(database, 'secret', () => time, changes);
    const ids = users.map(({ accountId }) => accountId);
    return { database, told, clock, open, events: open(), ids };
  }

  test('each event is published once to its account', async () => {
    const { told, events, ids } = await start();
    const outcome = await events.take(
      batchOf(
        eventLine({ event_id: 'a' }),
        eventLine({ event_id: 'b', user: 'ANN@D2.test', mailbox: 'inbox', event_type: 'Other' }),
        eventLine({ event_id: 'a', highestmodseq: '43' }),
        eventLine({ event_id: 'c', mailbox: 'Sent', highestmodseq: '9223372036854775807' }),
      ),
    );
    assert.deepEqual(outcome, { ok: true, accepted: 4 });
    assert.deepEqual(told, [
      {
        kind: 'mailbox',
        accountId: ids[0],
        mailbox: 'INBOX',
        uidvalidity: '7',
        token: '42',
        eventType: 'MailboxesChanged',
      },
      {
        kind: 'mailbox',
        accountId: ids[1],
        mailbox: 'INBOX',
        uidvalidity: '7',
        token: '42',
        eventType: 'Other',
      },
      {
        kind: 'mailbox',
        accountId: ids[0],
        mailbox: 'Sent',
        uidvalidity: '7',
        token: '9223372036854775807',
        eventType: 'MailboxesChanged',
      },
    ]);
  });

  test('repetitions are accepted and not published, also after a restart', async () => {
    const { told, events, open } = await start();
    const batch = batchOf(eventLine({ event_id: 'a' }), eventLine({ event_id: 'x'.repeat(255) }));
    await events.take(batch);
    assert.deepEqual(await events.take(batch), { ok: true, accepted: 2 });
    const again = open();
    assert.deepEqual(await again.take(batch), { ok: true, accepted: 2 });
    assert.equal(told.length, 2);
    await again.take(
      batchOf(eventLine({ event_id: 'A' }), eventLine({ event_id: 'x'.repeat(254) })),
    );
    assert.equal(told.length, 4);
  });

  test('the same batch at the same time is published once', async () => {
    const { told, events, open } = await start();
    const lines = Array.from({ length: 50 }, (_, n) => eventLine({ event_id: `e${n}` }));
    const other = open();
    const outcomes = await Promise.all([
      events.take(batchOf(...lines)),
      other.take(batchOf(...lines.toReversed())),
      events.take(batchOf(...lines)),
      other.take(batchOf(...lines)),
    ]);
    assert.deepEqual(outcomes, Array(4).fill({ ok: true, accepted: 50 }));
    assert.equal(told.length, 50);
  });

  test('an event is known for a day', async () => {
    const { told, events, clock } = await start();
    const batch = batchOf(eventLine());
    await events.take(batch);
    clock.pass(24 * HOUR_MS - 1_000);
    await events.take(batch);
    assert.equal(told.length, 1);
    clock.pass(2_000);
    await events.take(batch);
    assert.equal(told.length, 2);
    clock.pass(24 * HOUR_MS - 3_000);
    await events.take(batch);
    assert.equal(told.length, 2);
  });

  test('events older than a day are removed as new ones come', async () => {
    const { database } = await openTestMailstore(engine);
    let time = 1_000_000_000_000;
    const remember = (ids: string[]) => rememberEvents(database, ids, time);
    const countRows = async () =>
      (await database.read.selectFrom('mailserver_events').select('event_id').execute()).length;
    await remember(Array.from({ length: 25 }, (_, n) => `old-${n}`));
    time += 25 * HOUR_MS;
    const counts: number[] = [];
    for (let n = 0; n < 4; n++) {
      await remember(Array.from({ length: 5 }, (_, m) => `new-${5 * n + m}`));
      counts.push(await countRows());
    }
    assert.deepEqual(counts, [20, 15, 15, 20]);
    const { fresh } = await remember(['new-1', 'old-7', 'old-7']);
    assert.deepEqual([...fresh], ['old-7']);
  });

  test('a failed write does not affect the others', async () => {
    const { database } = await openTestMailstore(engine);
    const remember = (ids: string[]) => rememberEvents(database, ids, Date.now());
    await remember(['before']);
    const results = await Promise.allSettled([
      remember(['a', 'both']),
      remember(['both', 'b', 'before']),
      database.write(async () => {
        throw new Error('not this one');
      }),
      remember(['b', 'c']),
    ]);
    const fresh = results.flatMap((result) =>
      result.status === 'fulfilled' && result.value ? [...result.value.fresh] : [],
    );
    assert.deepEqual(fresh.sort(), ['a', 'b', 'both', 'c']);
    const again = await remember(['a', 'b', 'c', 'both']);
    assert.equal(again.fresh.size, 0);
  });

  test('malformed lines and unknown users do not affect the others', async () => {
    const { database, told, events } = await start();
    const batch = batchOf(
      eventLine({ event_id: 'a', user: 'bob@d1.test' }),
      'nonsense',
      eventLine({ event_id: 'b' }),
      eventLine({ event_id: 'c', user: 'ann+tag@d1.test' }),
      eventLine({ event_id: 'd', user: 'ann@elsewhere.test' }),
      eventLine({ event_id: 'e', user: "' or 1=1 --" }),
      eventLine({ event_id: 'f', uidvalidity: 7 }),
    );
    const reason = 'user is not the address of an account';
    assert.deepEqual(await events.take(batch), {
      ok: true,
      accepted: 1,
      rejected: [
        { line: 1, event_id: 'a', reason },
        { line: 2, reason: 'is not JSON' },
        { line: 4, event_id: 'c', reason },
        { line: 5, event_id: 'd', reason },
        { line: 6, event_id: 'e', reason },
        {
          line: 7,
          event_id: 'f',
          reason: 'uidvalidity must be a string with a decimal number of at most 32 bits',
        },
      ],
    });
    assert.equal(told.length, 1);
    // Not remembered: they are published when they are sent again and the account exists.
    const rows = await database.read.selectFrom('mailserver_events').selectAll().execute();
    assert.equal(rows.length, 1);
  });

  test('the account is the one on the active claim', async () => {
    const { database, events, ids } = await start();
    await database.write((tx) =>
      tx.updateTable('domains').set({ status: 'pending' }).where('name', '=', 'd2.test').execute(),
    );
    const batch = batchOf(eventLine({ event_id: 'a', user: 'ann@d2.test' }), eventLine());
    const { accepted, rejected } = await events.take(batch);
    assert.equal(accepted, 1);
    assert.deepEqual(
      rejected?.map(({ line }) => line),
      [1],
    );
    assert.deepEqual(
      await findAccounts(database, [
        'ANN@d1.TEST',
        'ann@d2.test',
        'ann',
        '',
        '@d1.test',
        'ann@d1.test',
      ]),
      new Map([
        ['ANN@d1.TEST', ids[0]],
        ['ann@d1.test', ids[0]],
      ]),
    );
  });

  test('events of a suspended account are accepted', async () => {
    const { database, events } = await start();
    await database.write((tx) => tx.updateTable('accounts').set({ status: 'suspended' }).execute());
    assert.deepEqual(await events.take(batchOf(eventLine())), { ok: true, accepted: 1 });
  });

  test('a batch without an event is refused', async () => {
    const { events } = await start();
    for (const body of ['', '\n\r\n', '\ufeff']) {
      await assert.rejects(events.take(Buffer.from(body)), { code: 'invalid_request' });
    }
    const refusal: unknown = await events.take(batchOf('', '[]', 'x')).catch((error) => error);
    assert.ok(refusal instanceof Refusal);
    assert.deepEqual(refusal.errors, [
      { field: 'line 2', message: 'is not a JSON object' },
      { field: 'line 3', message: 'is not JSON' },
    ]);
    const many = await events.take(Buffer.from('x\n'.repeat(5_000))).catch((error) => error);
    assert.equal(many.errors.length, 100);
  });

  test('during a large batch other work gets a turn, and it lists its first thousand failures', async () => {
    const { told, events } = await start();
    let turns = 0;
    let done = false;
    const count = () => {
      turns++;
      if (!done) setImmediate(count);
    };
    setImmediate(count);
    const lines = Array.from({ length: 6_000 }, (_, n) =>
      n % 3 === 0 ? 'nonsense' : eventLine({ event_id: `evt-${n}`, highestmodseq: `${n}` }),
    );
    const { accepted, rejected } = await events.take(batchOf(...lines));
    done = true;
    assert.equal(accepted, 4_000);
    assert.equal(rejected?.length, 1_000);
    assert.deepEqual(
      rejected?.map(({ line }) => line),
      Array.from({ length: 1_000 }, (_, n) => 3 * n + 1),
    );
    assert.deepEqual(
      told.map(({ token }) => Number(token)),
      Array.from({ length: 6_000 }, (_, n) => n).filter((n) => n % 3 !== 0),
    );
    assert.ok(turns >= 5, `${turns} turns of the event loop`);
  });

  test('a failing database loses nothing: the batch can be sent again', async () => {
    const { database, told, events } = await start();
    const lines = Array.from({ length: 2_500 }, (_, n) => eventLine({ event_id: `evt-${n}` }));
    let writes = 0;
    const failing: Database = {
      ...database,
      write(work) {
        writes++;
        if (writes === 2) return Promise.reject(new Error('the disk is full'));
        return database.write(work);
      },
    };
    const changes = new InProcessChanges();
    changes.subscribe(1, (change) => {
      if (change.kind === 'mailbox') told.push(change);
    });
    const unlucky = openEvents(failing, 'secret', Date.now, changes);
    await assert.rejects(unlucky.take(batchOf(...lines)), /disk is full/);
    assert.equal(told.length, 1_000);
    assert.deepEqual(await events.take(batchOf(...lines)), { ok: true, accepted: 2_500 });
    assert.equal(told.length, 2_500);
  });

  test('an event is published also where the result of its commit is unknown', async () => {
    const { database, told, clock, ids } = await start();
    const [accountId = 0] = ids;
    // The connection breaks after the commit, or before it.
    for (const committed of [true, false]) {
      let failing = true;
      const unsteady: Database = {
        ...database,
        async write(work) {
          const result = await database.write(async (tx) => {
            const result = await work(tx);
            if (failing && !committed) throw new Error('the connection is lost');
            return result;
          });
          if (failing) throw new Error('the connection is lost');
          return result;
        },
      };
      const changes = new InProcessChanges();
      changes.subscribe(accountId, (change) => {
        if (change.kind === 'mailbox') told.push(change);
      });
      const events = openEvents(unsteady, 'secret', () => clock.pass(0), changes);
      const batch = batchOf(eventLine({ event_id: `a ${committed}` }));
      told.length = 0;
      await assert.rejects(events.take(batch), /connection is lost/);
      assert.equal(told.length, 1);
      failing = false;
      await events.take(batch);
      assert.equal(told.length, committed ? 1 : 2);
    }
  });
});
