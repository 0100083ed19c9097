/**
 * A node behind HAProxy is frozen, as by a paused machine, while it waits for PostgreSQL. Clients are held no longer than
 * 30 s, and later ones are answered by the other node. Then it goes on where it was, and says that it was frozen.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { atEnd } from '../support/at-end.ts';
import { openTestDatabase } from '../support/databases.ts';
import { until } from './mail-load.ts';
import { startRedis } from './redis.ts';
import { RunningNodes } from './running-nodes.ts';

/** `timeout server` of HAProxy, and what a busy machine adds. */
const HELD_MS = 30_000 + 5_000;
/** After which HAProxy sends it nothing more: two checks of 5 s with a second between them, and a busy machine. */
const NOTICED_MS = 15_000;
/** Requests at once. */
const REQUESTS = 4;
/**
 * What nodes give PostgreSQL, in seconds: less than the freeze lasts. A lock is waited for half as long, and on a busy machine
 * it takes its time until all wait for it.
 */
const TIMEOUT_SECONDS = '24';
/**
 * Whether reads and writes wait for the table of this test: syncs that come together wait on one connection. Other suites
 * have databases on the same server.
 */
const WAITING = `select count(distinct mode)::int as n from pg_locks where not granted and relation = 'mailboxes'::regclass
  and database = (select oid from pg_database where datname = current_database())`;

const { location } = await openTestDatabase('postgres');
const redis = await startRedis();
atEnd(() => redis.stop());

test('a frozen node holds nobody for longer than 30 s, and blames nobody else', async (t) => {
  const nodes = await RunningNodes.start({
    DATABASE_URL: location,
    DATABASE_TIMEOUT_SECONDS: TIMEOUT_SECONDS,
    REDIS_URL: redis.url,
  });
  const { balanced, each } = nodes;
  const account = await balanced.makeAccount();
  const to = account.address;
  const admin = new Client({ connectionString: location });
  await admin.connect();
  t.after(() => admin.end());
  const ask = (client = balanced) =>
    Promise.all(
      Array.from({ length: REQUESTS }, async () => {
        const from = performance.now();
        const { status } = await client.mail(account.token, 'POST', '/mail/sync', {});
        return { status, ms: performance.now() - from };
      }),
    );

  // The answers of these queries come while it is frozen, and PostgreSQL ends the transaction of the mail.
  await admin.query('begin; lock table mailboxes in access exclusive mode');
  const atNode = ask(each[0]);
  const mail = each[0].send({ from: 'bob@far.test', to, subject: 'frozen', text: 'x' });
  await until('the queries wait', async () => {
    const { rows } = await admin.query(WAITING);
    return rows[0].n === 2;
  });
  nodes.freeze(0);
  await admin.query('commit');
  const held = ask();
  await pause(NOTICED_MS);
  const later = await ask();
  const statuses = (await held).map(({ status }) => status).sort();
  await nodes.thaw(0);

  assert.deepEqual(statuses, [200, 200, 504, 504]);
  for (const { ms } of await held) assert.ok(ms < HELD_MS, `a request took ${ms} ms`);
  for (const { status, ms } of later)
    assert.ok(status === 200 && ms < 10_000, `${status}, ${ms} ms`);
  for (const { status } of await atNode) assert.equal(status, 200);
  await mail;
  await each[0].send({ from: 'bob@far.test', to, subject: 'thawed', text: 'x' });
  const { body } = await balanced.mail(account.token, 'POST', '/mail/sync', {
    fields: ['envelope'],
  });
  const subjects = body.changes.added.map(
    (one: { envelope: { subject: string } }) => one.envelope.subject,
  );
  assert.deepEqual(subjects, ['frozen', 'thawed']);
  const [log = ''] = await nodes.terminate();
  // On a busy machine a start may take its time, too.
  const at = log.search(/"seconds":[2-9]\d,"msg":"this process was frozen/);
  assert.ok(at >= 0, log);
  assert.doesNotMatch(log.slice(at), /gave no answer|connection lost|"level":[56]0/);
});
