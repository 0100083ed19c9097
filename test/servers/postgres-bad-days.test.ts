/**
 * What a bad day of PostgreSQL does to two nodes, their mail and their apps: nothing but 451 and 503 for as long as
 * it lasts.
 */

import assert from 'node:assert/strict';
import { before, type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { atEnd } from '../support/at-end.ts';
import type { TestAccount } from '../support/service.ts';
import { MailLoad, until } from './mail-load.ts';
import { startPgbouncer } from './pgbouncer.ts';
import { findPostgres, startPostgres } from './postgres.ts';
import { TcpProxy } from './proxy.ts';
import { startRedis } from './redis.ts';
import { RunningNodes } from './running-nodes.ts';
import { makeBucket } from './s3.ts';

/** Of one statement; the connection is given up a second later. */
const TIMEOUT_SECONDS = '1';
/** A restart of the server takes so long, or the move of its machine to another host. */
const LONG_MS = 30_000;
/** What `/readyz` says while the database does not answer. */
const NOT_READY = /^503 not ready: database$/;

/** Connections but those that PostgreSQL keeps for its administrators. */
const FOR_EVERYBODY = 27;

const postgres = await startPostgres(findPostgres() ?? '', [
  `max_connections=${FOR_EVERYBODY + 3}`,
]);
atEnd(() => postgres.stop());
const proxy = await TcpProxy.start(postgres.port);
atEnd(async () => proxy.stop());
const redis = await startRedis();
atEnd(() => redis.stop());

let account: TestAccount | undefined;
/** By the database that it belongs to. */
const buckets = new Map<string, string>();

before(async () => {
  const admin = await asAdmin();
  await admin.query('create role postroom login');
  await admin.query('create database mail owner postroom');
  await admin.end();
});

async function asAdmin(database = 'postgres'): Promise<Client> {
  const client = new Client({ connectionString: postgres.url.replace(/postgres$/, database) });
  // It ends with the server.
  client.on('error', () => {});
  await client.connect();
  return client;
}

async function bucketOf(database: string): Promise<string> {
  const bucket = buckets.get(database) ?? (await makeBucket());
  buckets.set(database, bucket);
  return bucket;
}

/** @param t with which they end; without it, with the file */
async function startOn(port: number, database: string, t?: TestContext): Promise<RunningNodes> {
  const environment = {
    DATABASE_URL: `postgres://postroom@127.0.0.1:${port}/${database}`,
    DATABASE_TIMEOUT_SECONDS: TIMEOUT_SECONDS,
    DATABASE_POOL_SIZE: '8',
    S3_URL: await bucketOf(database),
    REDIS_URL: redis.url,
  };
  const onEnd = t && ((cleanup: () => Promise<void>) => t.after(cleanup));
  return RunningNodes.start(environment, onEnd);
}

type Ground = { readonly nodes: RunningNodes; readonly load: MailLoad };

/** The nodes that live through all the days. */
let survivors: RunningNodes | undefined;

/** A day on which mail flows before and after something bad, and which both nodes survive. */
async function day(t: TestContext, something: (ground: Ground) => Promise<void>): Promise<void> {
  survivors ??= await startOn(proxy.port, 'mail');
  const nodes = survivors;
  account ??= await nodes.balanced.makeAccount();
  const load = new MailLoad(t, nodes, account);
  await load.flows();
  await something({ nodes, load });
  await load.flows();
  await load.check();
}

test('killed and started again', (t) =>
  day(t, async ({ nodes, load }) => {
    await postgres.kill();
    await nodes.readiness.saysOnly(NOT_READY, () => load.isRefused());
    await postgres.start();
  }));

test('shut down as its administrator does it, and started 30 s later', (t) =>
  day(t, async ({ nodes, load }) => {
    await postgres.shutDown();
    await nodes.readiness.saysOnly(NOT_READY, async () => {
      await load.isRefused();
      await pause(LONG_MS);
      await load.isRefused();
    });
    await postgres.start();
  }));

test('stopped in the middle of everything for 30 s', (t) =>
  day(t, async ({ nodes, load }) => {
    postgres.signal('SIGSTOP');
    await nodes.readiness.saysOnly(NOT_READY, async () => {
      await load.isRefused();
      await pause(LONG_MS);
      await load.isRefused();
    });
    postgres.signal('SIGCONT');
  }));

test('connections that something between makes silent', (t) =>
  day(t, async ({ load }) => {
    assert.ok(proxy.silence() > 0);
    await load.flows();
  }));

test('every connection taken by others', (t) =>
  day(t, async ({ nodes, load }) => {
    const others: Client[] = [];
    const admin = await asAdmin();
    try {
      // Nodes that ask all the time would be faster than others.
      await admin.query('alter database mail connection limit 0');
      // A node that is being refused has a connection for a moment, and one that was just let in is not listed yet.
      await until('others have all connections', async () => {
        await admin.query(
          `select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = 'mail'`,
        );
        // All that are left at once: one after the other a busy machine takes long for them.
        const left = FOR_EVERYBODY - 1 - others.length;
        others.push(...(await Promise.all(Array.from({ length: left }, asOther))).flat());
        return others.length === FOR_EVERYBODY - 1;
      });
      await admin.query('alter database mail connection limit -1');
      await nodes.readiness.saysOnly(NOT_READY, () => load.isRefused());
    } finally {
      await admin.query('alter database mail connection limit -1');
      await Promise.all([admin, ...others].map((client) => client.end()));
    }
  }));

/** One more connection of somebody else; none where there is none left. */
async function asOther(): Promise<Client[]> {
  const client = new Client({ connectionString: postgres.url.replace('test@', 'postroom@') });
  client.on('error', () => {});
  return client.connect().then(
    () => [client],
    () => [],
  );
}

test('a table locked by somebody else', (t) =>
  day(t, async ({ load }) => {
    const admin = await asAdmin('mail');
    await admin.query('begin; lock table messages in access exclusive mode');
    await load.isRefused();
    await admin.query('rollback');
    await admin.end();
  }));

test('a disk without room', (t) =>
  day(t, async ({ nodes, load }) => {
    const admin = await asAdmin('mail');
    // What PostgreSQL answers then, without a disk of its own to fill. Changes that need no room are committed meanwhile.
    await admin.query(`
      create function no_room() returns trigger language plpgsql as
        $$ begin raise exception 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$;
      create trigger no_room before insert on messages execute function no_room()`);
    await load.isRefused();
    await nodes.readiness.until(/^degraded: disk$/);
    await admin.query('drop function no_room cascade');
    await admin.end();
    await load.flows();
    await nodes.readiness.untilReady();
    // Once when it begins and once when it is over, whatever is refused and committed meanwhile.
    for (const at of [0, 1]) {
      const said = () =>
        nodes
          .output(at)
          .match(/the disk of PostgreSQL (?:is full|has space again)/g)
          ?.join();
      await until('it is said that there is space', () => said()?.endsWith('again') === true);
      assert.equal(said(), 'the disk of PostgreSQL is full,the disk of PostgreSQL has space again');
    }
  }));

test('both nodes end well after all these days', () => survivors?.end());

test('stopped, and the nodes are told to end meanwhile', async (t) => {
  t.after(() => postgres.signal('SIGCONT'));
  const nodes = await startOn(proxy.port, 'mail', t);
  account ??= await nodes.balanced.makeAccount();
  const load = new MailLoad(t, nodes, account, { nodesEnd: { perConnection: 20 } });
  await load.flows();
  postgres.signal('SIGSTOP');
  await load.isRefused();
  for (const output of await nodes.terminate()) {
    assert.match(output, /"msg":"(stopped|stopping takes too long: [^"]+)"\}\n$/);
  }
});

test('PgBouncer in transaction mode', async (t) => {
  const pooler = await startPgbouncer(postgres.port, 'postroom');
  const admin = await asAdmin();
  await admin.query('create database pooled owner postroom');
  await admin.end();
  const nodes = await startOn(pooler.port, 'pooled', t);
  const load = new MailLoad(t, nodes, await nodes.balanced.makeAccount());
  await load.flows();
  // Its connections to the server end, ours to it do not.
  await postgres.kill();
  await nodes.readiness.saysOnly(NOT_READY, () => load.isRefused());
  await postgres.start();
  await load.flows();
  await load.check();
  await nodes.end();
  await pooler.stop();
});
