import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import {
  listTrace,
  newMailId,
  pageQuery,
  REFUSALS,
  readEvents,
  Trace,
  type TraceItem,
  type TraceRequest,
  wayQuery,
} from './trace.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

onEachEngine('the trace', (engine) => {
  async function open(keptDays = 30) {
    const { database } = await openTestDatabase(engine);
    const logged: object[] = [];
    const clock = { now: Date.UTC(2026, 0, 1) };
    const trace = new Trace({
      database,
      keptDays,
      node: 'a',
      now: () => clock.now,
      log: { warn: (fields) => logged.push(fields) },
    });
    const list = async (request: Partial<TraceRequest> = {}) =>
      (await listTrace(database.read, { limit: 50, ...request })).items;
    return { database, trace, clock, logged, list };
  }

  const received = (mailId: string, more: object = {}) => ({
    mailId,
    event: 'received',
    sender: 'Bob@Far.test',
    recipient: 'Ann@acme.test',
    messageId: `<${mailId}@far.test>`,
    client: '192.0.2.1',
    ...more,
  });

  test('rows are written with the transaction that they describe, or not at all', async () => {
    const { database, trace, list } = await open();
    await database.write((tx) =>
      trace.write(tx, [received('one'), { mailId: 'one', event: 'stored' }]),
    );
    const undone = database.write(async (tx) => {
      await trace.write(tx, [received('two')]);
      throw new Error('undone');
    });
    await assert.rejects(undone, /undone/);
    const found = await list();
    assert.deepEqual(
      found.map(({ mail_id, event }) => [mail_id, event]),
      [
        ['one', 'stored'],
        ['one', 'received'],
      ],
    );
    const { id: _, ...row } = found[1] ?? assert.fail();
    assert.deepEqual(row, {
      at: Date.UTC(2026, 0, 1),
      mail_id: 'one',
      event: 'received',
      node: 'a',
      sender: 'bob@far.test',
      recipient: 'ann@acme.test',
      message_id: '<one@far.test>',
      delivery_id: null,
      webhook_id: null,
      status: null,
      detail: null,
      domain: 'acme.test',
      subject: null,
      size: null,
      client: '192.0.2.1',
    });
  });

  test('mail is found by each of its ids and addresses, and by several of them', async () => {
    const { database, trace, clock, list } = await open();
    const many = Array.from({ length: 1_200 }, (_, index) =>
      received(`m${index}`, { sender: 'x@y' }),
    );
    await database.write((tx) => trace.write(tx, [received('first'), ...many]));
    clock.now += HOUR;
    await database.write((tx) =>
      trace.write(tx, [received('last', { recipient: 'cy@acme.test' })]),
    );
    const ids = async (request: Partial<TraceRequest>) =>
      (await list(request)).map(({ mail_id }) => mail_id);
    assert.deepEqual(await ids({ mailId: 'FIRST' }), ['first']);
    assert.deepEqual(await ids({ messageId: '<first@far.test>' }), ['first']);
    assert.deepEqual(await ids({ messageId: 'first@far.test' }), ['first']);
    assert.deepEqual(await ids({ sender: 'BOB@far.test' }), ['last', 'first']);
    assert.deepEqual(await ids({ sender: 'bob@far.test', recipient: 'ann@acme.test' }), ['first']);
    assert.deepEqual(await ids({ since: clock.now }), ['last']);
    const until = { recipient: 'ann@acme.test', until: clock.now, limit: 2 };
    assert.deepEqual(await ids(until), ['m1199', 'm1198']);
    assert.deepEqual(await ids({ recipient: 'nobody@acme.test' }), []);
  });

  test('pages continue where the last one ended, and every row comes once', async () => {
    const { database, trace } = await open();
    const events = Array.from({ length: 7 }, (_, index) => received(`m${index}`));
    await database.write((tx) => trace.write(tx, events));
    const seen: string[] = [];
    let before: TraceRequest['before'];
    do {
      const page = await listTrace(database.read, { limit: 3, before, recipient: 'ann@acme.test' });
      seen.push(...page.items.map(({ mail_id }) => mail_id));
      before = page.next;
    } while (before);
    assert.deepEqual(seen, ['m6', 'm5', 'm4', 'm3', 'm2', 'm1', 'm0']);
    const line = (await readEvents(database.read, ['m3'])).get('m3') ?? [];
    assert.deepEqual(
      line.map(({ event }) => event),
      ['received'],
    );
  });

  test('what one transaction did with a message for a recipient is one row, and is read as it was written', async () => {
    const { database, trace, list } = await open();
    const stored = { mailId: 'one', event: 'stored', detail: 'INBOX, UID 7' };
    const cy = { recipient: 'cy@acme.test' };
    const queued = { mailId: 'one', event: 'queued', deliveryId: 3, webhookId: 'w', ...cy };
    await database.write((tx) =>
      trace.write(tx, [
        received('one'),
        received('one', cy),
        { ...stored, recipient: 'ann@ACME.test' },
        queued,
        { ...stored, recipient: 'other@acme.test' },
      ]),
    );
    await database.write((tx) => trace.write(tx, [{ ...stored, ...cy, event: 'later' }]));
    const { count } = await database.read
      .selectFrom('trace')
      .select((eb) => eb.fn.countAll().as('count'))
      .executeTakeFirstOrThrow();
    assert.equal(Number(count), 4);
    const brief = (items: readonly TraceItem[]) =>
      items.map(({ event, recipient }) => `${event} ${recipient}`);
    const line = (await readEvents(database.read, ['one'])).get('one') ?? [];
    const all = [
      'received ann@acme.test',
      'stored ann@acme.test',
      'received cy@acme.test',
      'queued cy@acme.test',
      'stored other@acme.test',
      'later cy@acme.test',
    ];
    assert.deepEqual(brief(line), all);
    assert.deepEqual(brief(await list()), all.toReversed());
    const { id: _, ...second } = line[1] ?? assert.fail();
    assert.deepEqual(second, {
      at: Date.UTC(2026, 0, 1),
      mail_id: 'one',
      event: 'stored',
      node: 'a',
      sender: null,
      recipient: 'ann@acme.test',
      message_id: null,
      delivery_id: null,
      webhook_id: null,
      status: null,
      detail: 'INBOX, UID 7',
      client: null,
      domain: 'acme.test',
      subject: null,
      size: null,
    });
    assert.deepEqual([line[3]?.delivery_id, line[3]?.webhook_id], [3, 'w']);
    const found = await list({ sender: 'bob@far.test', ...cy });
    assert.deepEqual(brief(found), ['received cy@acme.test']);
    for (const request of [{}, { mailId: 'one' }]) {
      const seen: string[] = [];
      let before: TraceRequest['before'];
      do {
        const page = await listTrace(database.read, { limit: 1, before, ...request });
        seen.push(...brief(page.items));
        before = page.next;
      } while (before);
      assert.deepEqual(seen, all.toReversed());
    }
  });

  test('a span is found by ids, which are in the order of time', async () => {
    const { database, trace, clock, list } = await open();
    const start = clock.now;
    for (let index = 0; index < 50; index++) {
      clock.now = start + index * HOUR;
      await database.write((tx) => trace.write(tx, [received(`m${index}`)]));
    }
    // One that was removed, and one whose clock is late.
    await database.write((tx) => tx.deleteFrom('trace').where('mail_id', '=', 'm20').execute());
    clock.now = start + 49 * HOUR - 60_000;
    await database.write((tx) => trace.write(tx, [received('late')]));
    const ids = async (request: Partial<TraceRequest>) =>
      (await list(request)).map(({ mail_id }) => mail_id);
    const hour = (index: number) => start + index * HOUR;
    assert.deepEqual(await ids({ since: hour(18), until: hour(22) }), ['m21', 'm19', 'm18']);
    assert.deepEqual(await ids({ since: hour(48) }), ['late', 'm49', 'm48']);
    assert.deepEqual(await ids({ since: hour(49) }), ['m49']);
    assert.deepEqual(await ids({ until: hour(2) }), ['m1', 'm0']);
    assert.deepEqual(await ids({ since: hour(60) }), []);
    assert.deepEqual(await ids({ until: hour(0) }), []);
    await database.write((tx) => tx.deleteFrom('trace').execute());
    assert.deepEqual(await ids({ since: hour(1), until: hour(2) }), []);
  });

  test('each filter is looked up in its index, without sorting', async () => {
    const { database, trace } = await open();
    const events = Array.from({ length: 3_000 }, (_, index) =>
      received(`m${index}`, { sender: `s${index}@far.test`, recipient: `r${index}@acme.test` }),
    );
    await database.write((tx) => trace.write(tx, events));
    const before = { at: Date.UTC(2026, 0, 2), id: 2_000 };
    for (const [index, filter] of [
      ['trace_by_mail', ['mail_id', 'm7']],
      ['trace_by_message_id', ['message_id', '<m7@far.test>']],
      ['trace_by_sender', ['sender', 's7@far.test']],
      ['trace_by_recipient', ['recipient', 'r7@acme.test']],
      [engine === 'sqlite' ? 'INTEGER PRIMARY KEY' : 'trace_pkey', undefined],
    ] as const) {
      const request = { since: 0, until: before.at, before, limit: 50 };
      const plan = await database.write(async (tx) => {
        const query = pageQuery(tx, request, filter);
        if (engine === 'sqlite')
          return JSON.stringify(await query.explain(undefined, sql`query plan`));
        // With the few rows of a test, reading and sorting all of them would be as good.
        await sql`set local enable_bitmapscan = off`.execute(tx);
        await sql`analyze trace`.execute(tx);
        return JSON.stringify(await query.explain());
      });
      assert.match(plan, new RegExp(`\\b${index}\\b`), plan);
      assert.doesNotMatch(plan, /TEMP B-TREE|\bSort\b|Seq Scan|SCAN trace\b/, plan);
    }
  });

  test('each way to find messages is looked up in its index, without sorting', async () => {
    const { database, trace } = await open();
    const events = Array.from({ length: 3_000 }, (_, index) =>
      received(`m${index}`, {
        event: index % 50 === 0 ? 'refused' : 'received',
        sender: `s${index}@far.test`,
        recipient: `r${index}@d${index}.test`,
      }),
    );
    // Attempts are no beginning of a message: the index leaves them out.
    const attempts = events.map(({ mailId, recipient }) => ({
      mailId,
      event: 'webhook_attempt',
      status: 'deferred',
      recipient,
    }));
    await database.write((tx) => trace.write(tx, events));
    await database.write((tx) => trace.write(tx, attempts));
    const after = { at: Date.UTC(2026, 0, 2), id: 2_000 };
    for (const [index, way] of [
      ['trace_openings', { by: 'time' }],
      ['trace_by_domain', { by: 'domain', value: 'd7.test' }],
      ['trace_by_event', { by: 'event', value: 'refused' }],
      ['trace_by_sender', { by: 'sender', value: 's7@far.test' }],
      ['trace_by_recipient', { by: 'recipient', value: 'r7@d7.test' }],
      ['trace_by_message_id', { by: 'message_id', value: '<m7@far.test>' }],
    ] as const) {
      const span = { since: 0, until: after.at };
      const plan = await database.write(async (tx) => {
        const query = wayQuery(tx, way, { span, after, limit: 50 });
        if (engine === 'sqlite') {
          return JSON.stringify(await query.explain(undefined, sql`query plan`));
        }
        // With the few rows of a test, reading and sorting all of them would be as good.
        await sql`set local enable_bitmapscan = off`.execute(tx);
        await sql`analyze trace`.execute(tx);
        return JSON.stringify(await query.explain());
      });
      assert.match(plan, new RegExp(`\\b${index}\\b`), plan);
      assert.doesNotMatch(plan, /TEMP B-TREE|\bSort\b|Seq Scan|SCAN trace\b/, plan);
    }
    const { rows } = await sql<{ domain: string | null }>`
      select distinct domain from trace where mail_id = 'm7'`.execute(database.read);
    assert.deepEqual(rows.map(({ domain }) => domain).toSorted(), ['d7.test', null]);
  });

  test('whose mail it is, and its subject where that is asked for', async () => {
    const { database } = await open();
    const about = { keptDays: 30, node: 'a', log: { warn() {} }, now: Date.now, database };
    const mail = { subject: 'Größe', messageId: '<1@x>' };
    for (const keepsSubjects of [false, true]) {
      const trace = new Trace({ ...about, keepsSubjects });
      const events = [
        { ...mail, event: 'submitted', sender: 'ann@Acme.test', recipient: 'bob@far.test' },
        { ...mail, event: 'received', sender: 'bob@far.test', recipient: '"a@b"@bücher.test' },
        { ...mail, event: 'refused', sender: '', recipient: undefined },
        { event: 'stored', recipient: 'ann@acme.test' },
      ].map((event) => ({ ...event, mailId: `m${keepsSubjects}` }));
      await database.write((tx) => trace.write(tx, events));
      const rows = await database.read
        .selectFrom('trace')
        .select(['domain', 'subject'])
        .where('mail_id', '=', `m${keepsSubjects}`)
        .orderBy('id')
        .execute();
      const subject = keepsSubjects ? 'Größe' : null;
      assert.deepEqual(rows, [
        { domain: 'acme.test', subject },
        { domain: 'xn--bcher-kva.test', subject },
        { domain: null, subject },
        { domain: null, subject: null },
      ]);
    }
  });

  test('a stranger whose mail is refused all day does not fill the disk, and does not hide others', async () => {
    const { trace, clock, logged, list } = await open();
    for (let count = 0; count < 2 * REFUSALS.perClient; count++) {
      trace.refused('a', { mailId: `a${count}`, event: 'refused', client: 'a' });
    }
    trace.refused('b', { mailId: 'b', event: 'refused', client: 'b' });
    await trace.flush();
    const found = await list({ limit: 1_000 });
    assert.equal(found.filter(({ client }) => client === 'a').length, REFUSALS.perClient);
    assert.equal(found.filter(({ client }) => client === 'b').length, 1);
    for (let count = 0; count < 2 * REFUSALS.inAll; count++) {
      trace.refused(`c${count}`, { mailId: 'c', event: 'refused', client: 'c' });
    }
    await trace.flush();
    assert.equal((await list({ limit: 10_000 })).length, REFUSALS.inAll);
    assert.deepEqual(logged, []);
    clock.now += HOUR;
    trace.refused('a', { mailId: 'later', event: 'refused' });
    await trace.flush();
    assert.equal((await list({ mailId: 'later' })).length, 1);
    const passedOver = REFUSALS.perClient + REFUSALS.inAll + REFUSALS.perClient + 1;
    assert.deepEqual(logged, [{ passedOver, ...REFUSALS }]);
  });

  test('old rows are removed in steps, and none is written where the trace is off', async () => {
    const { database, trace, clock, list } = await open(2);
    await database.write((tx) => trace.write(tx, [received('old')]));
    clock.now += 2 * DAY;
    await database.write((tx) => trace.write(tx, [received('new')]));
    assert.equal(await database.write((tx) => trace.prune(tx)), 0);
    clock.now += 1;
    assert.equal(await database.write((tx) => trace.prune(tx)), 1);
    assert.equal(await database.write((tx) => trace.prune(tx)), 0);
    assert.deepEqual(
      (await list()).map(({ mail_id }) => mail_id),
      ['new'],
    );
    const off = await open(0);
    await off.database.write((tx) => off.trace.write(tx, [received('one')]));
    off.trace.refused('a', received('two'));
    off.trace.later([received('three')]);
    await off.trace.flush();
    assert.deepEqual(await off.list(), []);
  });

  test('text from outside is kept as far as the database can store it', async () => {
    const { database, trace, list } = await open();
    const hostile = { sender: 'a\0b@x', detail: `\ud800${'é'.repeat(600)}`, messageId: '<\0>' };
    await database.write((tx) => trace.write(tx, [received('one', hostile)]));
    const [row] = await list();
    assert.deepEqual([row?.sender, row?.message_id], ['ab@x', '<>']);
    assert.equal(row?.detail, `\ufffd${'é'.repeat(499)}`);
  });
});

test('an id of a message is a UUID that begins with the time', () => {
  const at = Date.UTC(2026, 0, 1);
  const id = newMailId(at);
  assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.ok(id < newMailId(at + 1));
  assert.notEqual(id, newMailId(at));
  assert.equal(Number.parseInt(id.replace('-', '').slice(0, 12), 16), at);
});
