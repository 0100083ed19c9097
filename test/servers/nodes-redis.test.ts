/**
 * Several nodes on one PostgreSQL and one Redis: what one of them does, the others tell and count. Redis is
 * killed, silenced and filled meanwhile.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { promisify } from 'node:util';
import { createClient } from '@redis/client';
import { pino } from 'pino';
import { generate } from 'selfsigned';
import { checkRedis } from '../../src/run/cli/check-stores.ts';
import type { SharedTiming } from '../../src/run/compose/shared.ts';
import { readConfig } from '../../src/run/config/config.ts';
import { atEnd } from '../support/at-end.ts';
import { openTestDatabase } from '../support/databases.ts';
import { freePort } from '../support/free-port.ts';
import { ImapLines } from '../support/imap-lines.ts';
import {
  startTestService,
  type TestAccount,
  type TestClient,
  type TestService,
  WEBHOOK_SECRET,
} from '../support/service.ts';
import { openSocket, type TestSocket } from '../support/web-socket.ts';
import { Follower } from './follower.ts';
import { until } from './mail-load.ts';
import { TcpProxy } from './proxy.ts';
import { READY } from './readiness.ts';
import { startRedis, type TestRedis } from './redis.ts';
import { RunningNodes } from './running-nodes.ts';
import { makeBucket } from './s3.ts';

const run = promisify(execFile);

/** Longer than a node takes to find Redis gone or back, and short beside the look of every minute. */
const SOON_MS = 20_000;
/** For what is counted: a machine that is busy with other tests must not be taken for a Redis that is away. */
const PATIENCE = { answerMs: 10_000 };

/** Nodes whose Redis is behind a proxy. */
async function startNodes(environment: Record<string, string> = {}, timing: SharedTiming = {}) {
  const redis = await startRedis();
  atEnd(() => redis.stop());
  const link = await TcpProxy.start(redis.port);
  atEnd(async () => link.stop());
  const stores = { REDIS_URL: `redis://127.0.0.1:${link.port}`, S3_URL: await makeBucket() };
  // Nor must it be taken for a database that is away: both nodes and their clients share a thread.
  const env = { ...stores, DATABASE_TIMEOUT_SECONDS: '60', ...environment };
  const start = async (own: Record<string, string>) => {
    const ports = { IMAP_PORT: String(await freePort()) };
    return startTestService('postgres', { ...env, ...ports, ...own }, undefined, timing);
  };
  const a = await start({});
  const b = await start({ DATABASE_URL: a.databaseLocation });
  return { redis, a, b };
}

/** Waits for a message for which something holds. */
async function untilTold(socket: TestSocket, holds: (message: { type: string }) => boolean) {
  const late = pause(SOON_MS, undefined, { ref: false }).then(() => {
    throw new Error('the socket was not told');
  });
  for (;;) {
    const message = await Promise.race([socket.next(), late]);
    if (holds(message)) return message;
  }
}

async function greeted(node: TestClient, { token }: TestAccount): Promise<TestSocket> {
  const socket = await openSocket(node, token);
  await untilTold(socket, ({ type }) => type === 'hello');
  return socket;
}

const mailTo = ({ address }: TestAccount, subject = 'Hello') => ({
  from: 'bob@sender.test',
  to: address,
  subject,
  text: 'Hello',
});

const isChange = ({ type }: { type: string }) => type === 'mailbox_changed';

/** What a sync of the inbox answers as its token. */
async function tokenOf(node: TestClient, { token }: TestAccount): Promise<string> {
  const { body } = await node.mail(token, 'POST', '/mail/sync', { mailbox: 'INBOX' });
  return body.token;
}

const redis = await startRedis();
atEnd(() => redis.stop());
const link = await TcpProxy.start(redis.port);
atEnd(async () => link.stop());
const { location } = await openTestDatabase('postgres');
const shared = {
  REDIS_URL: `redis://127.0.0.1:${link.port}`,
  DATABASE_URL: location,
  S3_URL: await makeBucket(),
};
const nodes = await RunningNodes.start(shared);
const [a, b] = nodes.each;

suite('what happens on one node', () => {
  test('mail, flags and events of a mail server reach a socket on another', async () => {
    const ann = await a.makeAccount('ann');
    const socket = await greeted(b, ann);
    await a.send(mailTo(ann));
    const { token } = await untilTold(socket, isChange);
    assert.equal(token, await tokenOf(b, ann));

    await a.mail(ann.token, 'POST', '/mail/flags', {
      mailbox: 'INBOX',
      uids: [1],
      add: ['\\Seen'],
    });
    const flagged = await untilTold(socket, isChange);
    assert.equal(flagged.token, await tokenOf(b, ann));

    const event = {
      event_id: 'e1',
      user: ann.address,
      event_type: 'MailboxesChanged',
      mailbox: 'Sent',
      uidvalidity: '7',
      highestmodseq: '99',
    };
    const body = JSON.stringify(event);
    const signature = createHmac('sha256', WEBHOOK_SECRET).update(body).digest('hex');
    const answer = await fetch(`${a.url}/hooks/mailserver`, {
      method: 'POST',
      headers: { 'x-mailserver-signature': signature, 'content-type': 'application/x-ndjson' },
      body,
    });
    assert.equal(answer.status, 200, await answer.text());
    const told = await untilTold(socket, isChange);
    assert.deepEqual([told.mailbox, told.token], ['Sent', '99']);
    socket.close();
  });

  test('mail programs of all nodes are seen on each; sessions and app passwords end from another', async () => {
    const { redis, a, b } = await startNodes({}, PATIENCE);
    const ann = await a.makeAccount('ann');
    const path = `/v2/email-accounts/${ann.id}/app-passwords`;
    const made = await a.v2('POST', path, { user_id: ann.userId, name: 'Phone' });
    const logIn = async (node: TestService, password: string) => {
      const client = await ImapLines.connect(node.addresses.imap?.port ?? 0);
      await client.ok(`LOGIN ${ann.address} "${password}"`);
      return client;
    };
    const phone = await logIn(a, made.body.password);
    const laptop = await logIn(a, ann.password);
    const tablet = await logIn(b, made.body.password);
    const list = async (node: TestService) => {
      const { body } = await node.v2('GET', `/v2/operator/imap-sessions?account_id=${ann.id}`);
      return body;
    };
    const [byA, byB] = [await list(a), await list(b)];
    assert.deepEqual([byA.complete, byA.items.length], [true, 3]);
    assert.deepEqual(
      byB.items.map(({ id }: { id: string }) => id),
      byA.items.map(({ id }: { id: string }) => id),
    );
    const own = byB.items.find((one: { app_password_id?: number }) => !one.app_password_id);
    assert.equal((await b.v2('POST', `/v2/operator/imap-sessions/${own.id}/end`, {})).status, 200);
    assert.match(await laptop.next(), /^\* BYE The session was ended/);
    const { id } = made.body.app_password;
    await b.v2('POST', `${path}/${id}/delete`, { user_id: ann.userId });
    for (const client of [phone, tablet]) {
      assert.match(await client.next(), /^\* BYE The app password was revoked/);
    }
    const kept = await logIn(b, ann.password);
    await redis.stop();
    const alone = await list(a);
    assert.deepEqual([alone.complete, alone.items], [false, []]);
    assert.equal((await list(b)).items.length, 1);
    kept.close();
  });

  test('a suspended, deleted or reset account loses its sockets on every node', async () => {
    const ways: Record<string, (account: TestAccount) => Promise<unknown>> = {
      suspend: ({ id, userId }) =>
        a.v2('PUT', `/v2/email-accounts/${id}`, { user_id: userId, status: 'suspended' }),
      delete: ({ id, userId }) =>
        a.v2('POST', '/v2/email-accounts/delete', { user_id: userId, id }),
      reset: ({ id, userId }) =>
        a.v2('POST', `/v2/email-accounts/${id}/password/reset`, { user_id: userId }),
      domain: ({ domain, userId }) =>
        a.v2('POST', '/v2/domains/delete', { user_id: userId, domain }),
    };
    const codes: Record<string, number> = {};
    for (const [way, act] of Object.entries(ways)) {
      const account = await a.makeAccount('ann');
      const socket = await greeted(b, account);
      await act(account);
      codes[way] = await Promise.race([socket.closed, pause(SOON_MS, 0, { ref: false })]);
    }
    assert.deepEqual(codes, { suspend: 4403, delete: 4403, reset: 4401, domain: 4403 });
  });

  test('texts in its channel that are not changes do no harm', async () => {
    const ann = await a.makeAccount('ann');
    const socket = await greeted(b, ann);
    const client = createClient({ url: redis.url });
    await client.connect();
    const [channel = ''] = await client.pubSubChannels('postroom:*:changes');
    const hostile = [
      '',
      'null',
      '[]',
      '{"node":1}',
      '{"node":"x","changes":[null,{"kind":"access"}]}',
    ];
    for (const text of [...hostile, 'x'.repeat(9_000_000)]) await client.publish(channel, text);
    client.destroy();
    await a.send(mailTo(ann));
    await untilTold(socket, isChange);
    socket.close();
  });
});

suite('while Redis is down', () => {
  /** Acts while Redis is out of order, and sees what sockets hear once it is back. */
  async function passThrough(
    breakIt: () => void | Promise<void>,
    mendIt: () => void | Promise<void>,
  ) {
    const ann = await a.makeAccount('ann');
    const ben = await a.addAccount(ann, 'ben');
    const [here, there, ofBen] = await Promise.all([
      greeted(a, ann),
      greeted(b, ann),
      greeted(b, ben),
    ]);
    const followers = nodes.each.map((node) => new Follower(node, ann));
    await nodes.readiness.untilReady();
    await breakIt();
    let token = '';
    // All of it while Redis is out of order: what waited for it would wait for ever.
    await nodes.readiness.saysOnly(READY, async () => {
      await a.send(mailTo(ann));
      await untilTold(here, isChange);
      await a.mail(ann.token, 'POST', '/mail/flags', {
        mailbox: 'INBOX',
        uids: [1],
        add: ['\\Seen'],
      });
      token = await tokenOf(b, ann);
      const suspended = { user_id: ben.userId, status: 'suspended' };
      await a.v2('PUT', `/v2/email-accounts/${ben.id}`, suspended);
      await mendIt();
    });
    await untilTold(
      there,
      (message) => isChange(message) && 'token' in message && message.token === token,
    );
    assert.equal(await ofBen.closed, 4403);
    here.close();
    there.close();
    const uids = new Set((await a.look(ann)).get('INBOX')?.keys());
    assert.ok(uids.size > 0);
    const isInStep = () =>
      followers.every(({ inbox }) => inbox.uids.symmetricDifference(uids).size === 0);
    await until('every app has what the mailbox has', isInStep, 60_000);
    for (const follower of followers) {
      follower.stop();
      assert.deepEqual(follower.unexpected, []);
    }
  }

  test('killed: missed changes are published after its return', () =>
    passThrough(
      () => redis.kill(),
      () => redis.restart(),
    ));

  test('full: events need no memory', () =>
    passThrough(
      () => limitMemory(redis, 1),
      () => limitMemory(redis, 0),
    ));

  test('silent for long: nodes find changes of others by regular reads, and at once after its return', async () => {
    // As a minute is beside silence of hours.
    const c = await startTestService('postgres', shared, undefined, { lookEveryMs: 200 });
    const ann = await a.makeAccount('ann');
    const ofLook = await greeted(c, ann);
    await passThrough(
      () => link.silenceAll(),
      async () => {
        // Longer than a ping may take, so that the nodes give up their connections, and some tries after it.
        for (let times = 0; times < 4; times++) {
          await pause(1_000);
          await a.send(mailTo(ann));
          await untilTold(ofLook, isChange);
        }
        link.speak();
      },
    );
    ofLook.close();
    await c.stop();
  });

  test('nodes can still be stopped', async () => {
    link.silenceAll();
    await nodes.end();
    link.speak();
  });
});

suite('limits over all nodes', () => {
  test('requests, connections and sockets are counted together, and alone where Redis is full', async () => {
    const limits = {
      RATE_LIMIT_PER_MINUTE: '40',
      SMTP_MAX_PER_IP: '3',
      SMTP_TRUSTED_NETWORKS: 'none',
    };
    const nodes = await startNodes(limits, PATIENCE);
    const allowed = await countRequests([nodes.a, nodes.b], 60);
    assert.equal(allowed, 40);
    assert.deepEqual(await connectAll([nodes.a, nodes.b], 5), { greeted: 3, refused: 2 });
    await limitMemory(nodes.redis, 1);
    // Each counts alone now, from its own beginning.
    assert.equal(await countRequests([nodes.a], 60), 40);
  });

  test('attempts at a receiver, sockets of an account and failed logins are counted together', async () => {
    const nodes = await startNodes({ OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8' }, PATIENCE);
    const ann = await nodes.a.makeAccount('ann');
    await countSockets(nodes, ann);
    await countLogins(nodes, ann);
    await countAttempts(nodes, ann);
  });

  test('sessions of mail programs are counted together for an account, and alone where Redis is away', async () => {
    const { redis, a, b } = await startNodes({}, PATIENCE);
    const ann = await a.makeAccount('ann');
    const clients: ImapLines[] = [];
    const logIn = async (node: TestService) => {
      const client = await ImapLines.connect(node.addresses.imap?.port ?? 0);
      const answer = (await client.command(`LOGIN ${ann.address} "${ann.password}"`)).shift() ?? '';
      if (answer.startsWith('OK ')) clients.push(client);
      else assert.match(answer, /^\* BYE \[LIMIT\]/);
    };
    for (let i = 0; i < 66; i++) await logIn(i % 2 === 0 ? a : b);
    assert.equal(clients.length, 64);
    // A place that is given back on one node is there on the other.
    clients.shift()?.close();
    await eventually(async () => {
      await logIn(b);
      return clients.length === 64;
    });
    await redis.kill();
    await logIn(a);
    await logIn(b);
    assert.equal(clients.length, 66);
    for (const client of clients) client.close();
  });

  test('slots of a killed node are free again after its lease', async () => {
    const redis = await startRedis();
    atEnd(() => redis.stop());
    const { CountingState, Redis, RedisSlots } = await import('../../src/platform/redis/redis.ts');
    const log = { info: () => {}, warn: () => {} };
    const server = {
      host: '127.0.0.1',
      port: redis.port,
      tls: false,
      database: 0,
      user: undefined,
      password: undefined,
    };
    const open = async (node: string) => {
      const own = new Redis({ server, log, ...PATIENCE });
      await own.start();
      atEnd(() => own.stop());
      const state = new CountingState(log);
      return new RedisSlots({ redis: own, prefix: 'test:', node, state, leaseMs: 5_000 });
    };
    const [killed, other, third] = [await open('killed'), await open('other'), await open('third')];
    assert.equal(await killed.take('ann', 3, 3), 3);
    assert.equal(await other.take('ann', 2, 3), 0);
    // It is never renewed.
    await pause(5_100);
    assert.equal(await other.take('ann', 2, 3), 2);
    other.start();
    // Longer than a lease.
    await pause(7_000);
    assert.equal(await third.take('ann', 3, 3), 1);
    await other.stop();
    assert.equal(await third.take('ann', 3, 3), 2);
  });
});

type Nodes = Pick<Awaited<ReturnType<typeof startNodes>>, 'a' | 'b'>;

async function countSockets({ a: one, b: other }: Nodes, ann: TestAccount): Promise<void> {
  const opened = await Promise.allSettled(
    Array.from({ length: 24 }, (_, at) => openSocket(at % 2 === 0 ? one : other, ann.token)),
  );
  const sockets = opened.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  assert.equal(sockets.length, 20);
  // A place that is given back is there for both.
  sockets[0]?.close();
  await sockets[0]?.closed;
  await eventually(async () => {
    const again = await openSocket(other, ann.token).catch(() => undefined);
    if (again) sockets.push(again);
    return again !== undefined;
  });
  for (const socket of sockets) socket.close();
}

async function countLogins({ a: one, b: other }: Nodes, ann: TestAccount): Promise<void> {
  const login = { address: ann.address, password: 'a wrong password' };
  const statuses = [];
  for (let tries = 0; tries < 14; tries++) {
    const node = tries % 2 === 0 ? one : other;
    statuses.push((await node.mail('', 'POST', '/mail/token', login)).status);
  }
  // Ten, and the one of this minute.
  assert.deepEqual(statuses, [...Array(11).fill(401), ...Array(3).fill(429)]);
}

/** A slow receiver has as many requests as one node may send it, and no more, also where two have mail for it. */
async function countAttempts({ a: one, b: other }: Nodes, ann: TestAccount): Promise<void> {
  const most = 32;
  const mails = 2 * most + 8;
  /** Requests that wait for an answer; one that a node gave up is none of them. */
  const held = new Set<ServerResponse>();
  const received = new Set<string>();
  let isSlow = true;
  const receiver = createServer((request, response) => {
    request.resume();
    received.add(String(request.headers['webhook-id']));
    response.once('close', () => held.delete(response));
    if (isSlow) held.add(response);
    else response.end();
  });
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  atEnd(async () => {
    receiver.closeAllConnections();
    receiver.close();
  });
  const { port } = receiver.address() as AddressInfo;
  const route = { forward_mode: 'webhook', webhook_url: `http://127.0.0.1:${port}/hook` };
  const { userId: user_id, domain } = ann;
  const set = await one.v2('PUT', `/v2/domains/${domain}/route`, { user_id, ...route });
  assert.equal(set.status, 200, JSON.stringify(set.body));
  const sends = Array.from({ length: mails }, (_, at) =>
    (at % 2 === 0 ? one : other).send(mailTo(ann)),
  );
  await Promise.all(sends);
  await eventually(async () => held.size >= most);
  // Each node looks every second whether there are slots again.
  await pause(2_500);
  assert.equal(held.size, most);
  isSlow = false;
  for (const response of held) response.end();
  await eventually(async () => received.size === mails);
}

async function eventually(isSo: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 60_000;
  while (!(await isSo())) {
    assert.ok(performance.now() < end, 'not in time');
    await pause(50);
  }
}

/** How many of so many requests, on one node after the other, are not refused. */
async function countRequests(nodes: readonly TestService[], requests: number): Promise<number> {
  let allowed = 0;
  for (let i = 0; i < requests; i++) {
    const { status } = await fetch(`${nodes[i % nodes.length]?.url}/nothing-here`);
    if (status === 429) continue;
    assert.equal(status, 404);
    allowed++;
  }
  return allowed;
}

/** What so many connections, on one node after the other, are greeted with. */
async function connectAll(nodes: readonly TestService[], connections: number) {
  const counts = { greeted: 0, refused: 0 };
  const sockets = [];
  for (let i = 0; i < connections; i++) {
    const socket = connect(nodes[i % nodes.length]?.smtpPort ?? 0, '127.0.0.1');
    sockets.push(socket);
    const greeting = await new Promise<string>((resolve, reject) => {
      socket.once('data', (bytes) => resolve(String(bytes)));
      socket.once('error', reject);
    });
    if (greeting.startsWith('220')) counts.greeted++;
    if (greeting.startsWith('421')) counts.refused++;
  }
  for (const socket of sockets) socket.destroy();
  return counts;
}

/** @param bytes 1 leaves no memory for any new key, 0 is no limit */
async function limitMemory({ url }: TestRedis, bytes: number): Promise<void> {
  const client = createClient({ url });
  await client.connect();
  await client.configSet('maxmemory', String(bytes));
  client.destroy();
}

test('doctor says whether Redis answers, refuses, is full or a replica, and never a password', async () => {
  const [server, old] = await Promise.all([
    startRedis('--requirepass', 'right'),
    // As a server before version 6, which repeats the password in its answer.
    startRedis('--requirepass', 'right', '--rename-command', 'HELLO', ''),
  ]);
  for (const each of [server, old]) atEnd(() => each.stop());
  const look = async (port: number, password: string) => {
    const own = { host: '127.0.0.1', port, tls: false, database: 0, user: undefined };
    const verdict = await checkRedis({ ...own, password });
    assert.doesNotMatch(JSON.stringify(verdict), /right|wrong/);
    return `${verdict.result}: ${verdict.detail}`;
  };
  const place = `127\\.0\\.0\\.1:${server.port}`;
  const answers = `${place} answers, version [0-9.]+`;
  assert.match(await look(server.port, 'right'), new RegExp(`^ok: ${answers}$`));
  assert.match(
    await look(server.port, 'wrong'),
    new RegExp(`^failed: ${place} cannot be used: WRONGPASS `),
  );
  assert.match(await look(old.port, 'right'), /^failed: .* cannot be used: .*HELLO/);
  const stranger = createServer();
  await once(stranger.listen(0, '127.0.0.1'), 'listening');
  atEnd(() => void stranger.close());
  const { port } = stranger.address() as AddressInfo;
  assert.match(await look(port, 'right'), /^failed: .* cannot be used: a server that is no Redis$/);
  const client = createClient({ url: server.url, password: 'right' });
  await client.connect();
  await client.configSet('maxmemory', '1');
  assert.match(await look(server.port, 'right'), new RegExp(`^warning: ${answers}, .* full$`));
  await client.configSet('maxmemory', '0');
  await client.replicaOf('127.0.0.1', 9);
  assert.match(await look(server.port, 'right'), new RegExp(`^failed: ${answers}, .* replica`));
  client.destroy();
  await server.kill();
  assert.match(
    await look(server.port, 'right'),
    new RegExp(`^failed: ${place} does not answer \\(ECONNREFUSED\\)$`),
  );
});

test('a login that Redis refuses since its restart is told once, and no refusal before it', async () => {
  const { Redis } = await import('../../src/platform/redis/redis.ts');
  const first = await startRedis();
  atEnd(() => first.stop());
  const { redis: server } = readConfig({ REDIS_URL: first.url }, '/');
  assert.ok(server);
  const said: string[] = [];
  const write = (line: string) => void said.push(JSON.parse(line).msg.replace(/:.*/s, ''));
  const redis = new Redis({ server, log: pino({}, { write }) });
  await redis.start();
  atEnd(() => redis.stop());
  const tell = (password: string) =>
    run('/usr/bin/redis-cli', ['-p', `${first.port}`, 'config', 'set', 'requirepass', password]);
  await first.kill();
  await until('it is away', () => said.length === 1);
  await first.restart();
  await until('it is back', () => said.length === 2);
  await tell('other');
  // Who is connected stays so; after this it has to log in.
  await run('/usr/bin/redis-cli', [
    ...['-p', `${first.port}`, '-a', 'other', '--no-auth-warning'],
    ...['client', 'kill', 'type', 'normal'],
  ]);
  await until('it refuses', () => said.length === 4);
  // It tries for some seconds more.
  await pause(2_000);
  assert.deepEqual(said, [
    'there is no connection to Redis',
    'the connection to Redis is back',
    'there is no connection to Redis',
    'Redis refuses the login of this node',
  ]);
});

suite('nodes with different values of REDIS_URL', () => {
  test('a Redis that is restarted twice, and forgets who uses it, is no other one', async () => {
    const server = await startRedis();
    atEnd(() => server.stop());
    const { Redis, SeenNodes } = await import('../../src/platform/redis/redis.ts');
    const { redis: place } = readConfig({ REDIS_URL: server.url }, '/');
    assert.ok(place);
    const said: string[] = [];
    const note = (what: object) => void ('node' in what && said.push(String(what.node)));
    const redis = new Redis({ server: place, log: { info: note, warn: note }, ...PATIENCE });
    const listOthers = async () => [{ id: 'b', host: 'host-b' }];
    const node = new SeenNodes({
      ...{ redis, prefix: 'seen:', node: 'a', listOthers, keptMs: 600_000 },
      log: { info: note, warn: note },
    });
    // As a node does; the other one has not connected yet.
    let looks = 0;
    redis.onConnected(() => void node.look().then(() => looks++));
    await redis.start();
    atEnd(() => redis.stop());
    for (let restarts = 0; restarts < 3; restarts++) {
      await until('it has looked', () => looks === restarts + 1);
      await server.kill();
      await until('it is away', () => !redis.answers);
      await server.restart();
    }
    assert.deepEqual(said, []);
    await until('it has looked again', () => looks === 4);
    await node.look();
    assert.deepEqual(said, ['host-b']);
  });

  test('a node that uses another Redis is reported once, and once more when it uses the same', async () => {
    const [here, elsewhere] = await Promise.all([startRedis(), startRedis()]);
    for (const server of [here, elsewhere]) atEnd(() => server.stop());
    const { Redis, SeenNodes } = await import('../../src/platform/redis/redis.ts');
    const all = ['a', 'b', 'c'].map((id) => ({ id, host: `host-${id}` }));
    const said: string[] = [];
    const open = async ({ url }: TestRedis, own: string) => {
      const { redis: server } = readConfig({ REDIS_URL: url }, '/');
      assert.ok(server);
      const note = (kind: string) => (what: object) => {
        if ('node' in what) said.push(`${kind} on ${own}: ${what.node}`);
      };
      const log = { info: note('info'), warn: note('warn') };
      const redis = new Redis({ server, log, ...PATIENCE });
      await redis.start();
      atEnd(() => redis.stop());
      const listOthers = async () => all.filter(({ id }) => id !== own);
      const options = { redis, prefix: 'seen:', node: own, listOthers, keptMs: 600_000, log };
      return new SeenNodes(options);
    };
    const [a, b] = [await open(here, 'a'), await open(here, 'b')];
    const lost = await open(elsewhere, 'c');
    for (let round = 0; round < 3; round++) for (const node of [a, b, lost]) await node.look();
    assert.deepEqual(said.splice(0), [
      'warn on a: host-c',
      'warn on b: host-c',
      'warn on c: host-a',
      'warn on c: host-b',
    ]);
    const found = await open(here, 'c');
    for (const node of [found, a, b]) await node.look();
    assert.deepEqual(said, ['info on a: host-c', 'info on b: host-c']);
  });
});

suite('Redis over TLS', () => {
  test('is used only where its certificate is trusted', async () => {
    const { cert, private: key } = await generate([{ name: 'commonName', value: 'localhost' }], {
      keyType: 'rsa',
      keySize: 2048,
      algorithm: 'sha256',
      extensions: [
        { name: 'basicConstraints', cA: true, critical: true },
        { name: 'subjectAltName', altNames: [{ type: 2, value: 'localhost' }] },
      ],
    });
    const folder = await mkdtemp(join(tmpdir(), 'postroom-redis-'));
    atEnd(() => rm(folder, { recursive: true, force: true }));
    const paths = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
    await writeFile(paths.cert, cert);
    await writeFile(paths.key, key);
    const port = await freePort();
    const files = ['--tls-cert-file', paths.cert, '--tls-key-file', paths.key];
    const trust = ['--tls-ca-cert-file', paths.cert, '--tls-auth-clients', 'no'];
    const secure = await startRedis('--port', '0', '--tls-port', `${port}`, ...files, ...trust);
    atEnd(() => secure.stop());

    const { Redis } = await import('../../src/platform/redis/redis.ts');
    const { redis: server } = readConfig({ REDIS_URL: `rediss://localhost:${port}/1` }, folder);
    assert.ok(server);
    const failures: unknown[] = [];
    const log = { info: () => {}, warn: (what: { err?: unknown }) => failures.push(what.err) };
    const open = async (onText: (text: string) => void) => {
      const client = new Redis({ server, log });
      client.subscribe('texts', onText);
      await client.start();
      atEnd(() => client.stop());
      return client;
    };
    const strange = await open(() => {});
    assert.equal(strange.answers, false);
    assert.match(String(failures[0]), /self-signed certificate/);
    await strange.stop();

    setDefaultCACertificates([...getCACertificates('default'), cert]);
    const { promise: told, resolve } = Promise.withResolvers<string>();
    await open(resolve);
    const sender = await open(() => {});
    assert.equal(await sender.ask((client) => client.publish('texts', 'over TLS')), 2);
    assert.equal(await told, 'over TLS');
  });
});
