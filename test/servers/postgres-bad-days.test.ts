/** What a bad day of PostgreSQL does to mail and apps: nothing but 451 and 503 for as long as it lasts. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { atEnd } from '../support/databases.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';
import { MailLoad, until } from './mail-load.ts';
import { startPgbouncer } from './pgbouncer.ts';
import { findPostgres, startPostgres } from './postgres.ts';
import { TcpProxy } from './proxy.ts';

/** Of one statement; the connection is given up a second later. */
const TIMEOUT_MS = 1_000;
const NOTICED_MS = TIMEOUT_MS + 1_000;

const postgres = await startPostgres(findPostgres() ?? '', ['max_connections=30']);
atEnd(() => postgres.stop());
const proxy = await TcpProxy.start(postgres.port);
atEnd(async () => proxy.stop());

let service: TestService;
let account: TestAccount;

before(async () => {
  const admin = await asAdmin();
  await admin.query('create role postroom login');
  await admin.query('create database mail owner postroom');
  await admin.end();
  service = await startTestService('postgres', {
    DATABASE_URL: `postgres://postroom@127.0.0.1:${proxy.port}/mail`,
    DATABASE_TIMEOUT_SECONDS: String(TIMEOUT_MS / 1000),
    DATABASE_POOL_SIZE: '10',
  });
  account = await service.makeAccount();
});

async function asAdmin(database = 'postgres'): Promise<Client> {
  const client = new Client({ connectionString: postgres.url.replace(/postgres$/, database) });
  // It ends with the server.
  client.on('error', () => {});
  await client.connect();
  return client;
}

test('killed and started again', async (t) => {
  const load = new MailLoad(t, service, account);
  await load.flows();
  await postgres.kill();
  await until('mail is refused', () => load.counts.refused > 0);
  assert.equal(await load.isReady(), false);
  await postgres.start();
  await load.flows();
  await load.check();
});

test('stopped in the middle of everything', async (t) => {
  const load = new MailLoad(t, service, account);
  await load.flows();
  postgres.signal('SIGSTOP');
  await until('mail is refused', () => load.counts.refused > 0, NOTICED_MS + 8_000);
  // The first may be refused before the service has noticed.
  await until('readyz says so', async () => !(await load.isReady()));
  await pause(NOTICED_MS);
  postgres.signal('SIGCONT');
  await load.flows();
  await load.check();
});

test('connections that something between makes silent', async (t) => {
  const load = new MailLoad(t, service, account);
  await load.flows();
  assert.ok(proxy.silence() > 0);
  const waited = await load.flows();
  assert.ok(waited < 10_000, `mail was taken again after ${waited} ms`);
  await load.check();
});

test('every connection taken by others', async (t) => {
  const load = new MailLoad(t, service, account);
  await load.flows();
  const others: Client[] = [];
  const admin = await asAdmin();
  try {
    await until('others have all connections', async () => {
      await admin.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = 'mail'`,
      );
      others.push(...(await Promise.all(Array.from({ length: 10 }, asOther))).flat());
      return others.length >= 26;
    });
    await until('mail is refused', () => load.counts.refused > 0);
    await until('the service says so', async () => !(await load.isReady()));
  } finally {
    await Promise.all([admin, ...others].map((client) => client.end()));
  }
  await load.flows();
  await load.check();
});

/** One more connection of somebody else; none where there is none left. */
async function asOther(): Promise<Client[]> {
  const client = new Client({ connectionString: postgres.url.replace('test@', 'postroom@') });
  client.on('error', () => {});
  return client.connect().then(
    () => [client],
    () => [],
  );
}

test('a table locked by somebody else', async (t) => {
  const load = new MailLoad(t, service, account);
  await load.flows();
  const admin = await asAdmin('mail');
  await admin.query('begin; lock table messages in access exclusive mode');
  await until('mail is refused', () => load.counts.refused > 0, NOTICED_MS + 8_000);
  await admin.query('rollback');
  await admin.end();
  await load.flows();
  await load.check();
});

test('PgBouncer in transaction mode', async (t) => {
  const pooler = await startPgbouncer(postgres.port, 'postroom');
  const admin = await asAdmin();
  await admin.query('create database pooled owner postroom');
  await admin.end();
  const pooled = await startTestService('postgres', {
    DATABASE_URL: `postgres://postroom@127.0.0.1:${pooler.port}/pooled`,
    DATABASE_TIMEOUT_SECONDS: String(TIMEOUT_MS / 1000),
  });
  const load = new MailLoad(t, pooled, await pooled.makeAccount());
  await load.flows();
  // Its connections to the server end, ours to it do not.
  await postgres.kill();
  await until('mail is refused', () => load.counts.refused > 0);
  await postgres.start();
  await load.flows();
  await load.check();
  await pooled.stop();
  await pooler.stop();
});
