/** What the log says of a database that goes away. */
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { beginAs } from '../../../test/support/older-schema.ts';
import { environment, listening, start, startHere } from '../../../test/support/process.ts';

onEachEngine('the log', (engine) => {
  if (engine === 'sqlite') return;

  test('connections that break together are told once, and that the database answers again', {
    timeout: 60_000,
  }, async () => {
    const { database, location } = await openTestDatabase(engine);
    const settings = { ...(await environment('breaks')), DNS_SERVERS: '127.0.0.1:9' };
    const service = await startHere({ ...settings, DATABASE_URL: location });
    const count = (line: string) => service.output().split(line).length - 1;
    // Of the service, one for each of what it asks at the same time.
    const ask = () => fetch(`http://127.0.0.1:${settings.PORT}/readyz`);
    await Promise.all(Array.from({ length: 20 }, ask));
    const { rows } = await sql<{ ended: boolean }>`
      select pg_terminate_backend(pid) as ended from pg_stat_activity
      where datname = current_database() and application_name = 'postroom' and pid <> pg_backend_pid()
        and state = 'idle'`.execute(database.read);
    assert.ok(rows.length > 2, `${rows.length} connections`);
    while (count('the database answers again') === 0) await pause(50);
    const told = count('a connection to the database broke');
    // A commit on one of them that has not broken yet ends the outage in between.
    assert.ok(told > 0 && told < rows.length / 2, `${told} lines for ${rows.length} connections`);
    assert.doesNotMatch(service.output(), /connectionParameters/);
    await service.stop();
  });

  test('an outage is one line at its begin, one where the server refuses us then, and one at its end, however many requests fail', {
    timeout: 60_000,
  }, async (t) => {
    const { location } = await openTestDatabase(engine);
    const url = new URL(location);
    const target = { host: url.hostname, port: Number(url.port || 5432) };
    const sockets = new Set<Socket>();
    let isAway = false;
    let isRefusing = false;
    let missed = 0;
    const says = 'SFATAL\0C28P01\0Mpassword authentication failed\0\0';
    const refusal = Buffer.from(`E....${says}`);
    refusal.writeInt32BE(refusal.length - 1, 1);
    const way = createServer((client) => {
      if (isRefusing) {
        client.on('error', () => {});
        client.once('data', () => client.end(refusal));
        return;
      }
      if (isAway) {
        missed++;
        return client.resetAndDestroy();
      }
      const server = connect(target);
      for (const socket of [client, server]) sockets.add(socket.on('error', () => {}));
      client.pipe(server).pipe(client);
    });
    await new Promise<void>((resolve) => way.listen(0, '127.0.0.1', resolve));
    t.after(() => way.close());
    url.host = `127.0.0.1:${(way.address() as AddressInfo).port}`;
    const key = 'key-of-the-test-of-outages';
    const settings = { ...(await environment('away')), DNS_SERVERS: '127.0.0.1:9', API_KEYS: key };
    const service = start({ ...settings, DATABASE_URL: url.href });
    await listening(service);
    const count = (line: string) => service.output().split(line).length - 1;
    const ask = async () =>
      (
        await fetch(`http://127.0.0.1:${settings.PORT}/v2/email-accounts?user_id=a`, {
          headers: { 'x-api-key': key },
        })
      ).status;
    assert.equal(await ask(), 200);
    isAway = true;
    for (const socket of sockets) socket.destroy();
    while (count('a connection to the database broke') === 0) await pause(10);
    const answers = await Promise.all(Array.from({ length: 10 }, ask));
    // Two parts ask each second, and the others within five.
    const before = missed;
    while (missed < before + 12) await pause(10);
    assert.deepEqual(new Set(answers), new Set([503]));
    // It comes back with another password.
    isRefusing = true;
    while (count('PostgreSQL answers, and refuses this node') === 0) assert.equal(await ask(), 503);
    for (let times = 0; times < 10; times++) assert.equal(await ask(), 503);
    isRefusing = false;
    isAway = false;
    while (count('the database answers again') === 0) await pause(10);
    assert.equal(await ask(), 200);
    const told = service.output().match(/"level":[45]0.*/g) ?? [];
    assert.equal(told.length, 2, told.join('\n'));
    assert.match(told[0] ?? '', /a connection to the database broke/);
    assert.match(told[1] ?? '', /"reason":"password authentication failed"/);
    service.child.kill('SIGTERM');
    assert.equal((await service.ended()).code, 0);
  });

  /** A start that meets this error as it makes tables. */
  async function startWith(text: string, state: string): Promise<unknown> {
    const { database, location } = await openTestDatabase(engine);
    await beginAs('0002', database, []);
    const raise = `raise exception '${text}' using errcode = '${state}'`;
    await database.write(async (tx) => {
      await sql`create function fail() returns event_trigger language plpgsql as
        $$ begin ${sql.raw(raise)}; end $$`.execute(tx);
      await sql`create event trigger fail on ddl_command_start when tag in ('CREATE TABLE')
        execute function fail()`.execute(tx);
    });
    return startHere({ ...(await environment('fails')), DATABASE_URL: location });
  }

  test('a start that finds no room on the disk of PostgreSQL says that, and what to do', async () => {
    // As PostgreSQL reports it (53100, disk_full).
    await assert.rejects(startWith('could not extend file', '53100'), {
      message:
        'DATABASE_URL: the disk of PostgreSQL is full ("could not extend file"): nothing is lost; make room there, then start again, and a migration goes on',
    });
  });

  test('a start as a user who may not use the tables says what to grant', async (t) => {
    const { database, location } = await openTestDatabase(engine);
    const role = `stranger_${process.pid}`;
    await sql`create role ${sql.id(role)} login`.execute(database.read);
    t.after(() => sql`drop role ${sql.id(role)}`.execute(database.read));
    const url = Object.assign(new URL(location), { username: role, password: '' });
    await assert.rejects(startHere({ ...(await environment('strange')), DATABASE_URL: url.href }), {
      message: /^DATABASE_URL: expected a user who may make tables .*grant CREATE on its schema$/,
    });
  });

  test('a start whose migration the server refuses does not say that the login was', async () => {
    await assert.rejects(startWith('compression method lz4 not supported', '0A000'), {
      message:
        'DATABASE_URL: the database could not be brought up to date ("compression method lz4 not supported"): nothing is lost, and the next start tries again',
    });
  });
});

test('a start says of a database that cannot be opened what to look at', async () => {
  const settings = await environment('no-file');
  await mkdir(join(settings.DATA_DIR, 'postroom.sqlite'), { recursive: true });
  await assert.rejects(startHere(settings), {
    message:
      /postroom\.sqlite: expected a file that Postroom can read and write, got "unable to open/,
  });
});
