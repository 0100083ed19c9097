/**
 * Several nodes on one PostgreSQL, as processes: they start at once on an empty database, with clocks 20 s apart,
 * some are not like the others, and two are restarted under load behind HAProxy, with the configuration of
 * deploy/several-nodes/.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { createTransport } from 'nodemailer';
import { Client } from 'pg';
import { WebSocket } from 'ws';
import { ConfigError } from '../../src/run/config/config.ts';
import { atEnd } from '../support/at-end.ts';
import { type DnsServer, startDnsServer } from '../support/dns-server.ts';
import { freePort } from '../support/free-port.ts';
import { listening, type Process, ROOT, run, start, startHere, stop } from '../support/process.ts';
import { openSocket } from '../support/web-socket.ts';
import { startBalancer } from './balancer.ts';
import { startPgbouncer } from './pgbouncer.ts';
import { findPostgres, type RunningServer, startPostgres } from './postgres.ts';
import { startRedis, type TestRedis } from './redis.ts';
import { makeBucket } from './s3.ts';

const PROGRAM = new URL('../../postroom', import.meta.url).pathname;
const KEY = 'key-of-the-test-of-nodes';
const PASSWORD = 'a good password';
/** Two checks of HAProxy and a second between them; a busy machine answers each after some seconds. */
const DRAIN_SECONDS = 10;
const ADDRESS = 'ann@acme.test';

let postgres: RunningServer;
let redis: TestRedis;
let bucket: string;
let dns: DnsServer;
let database: Client;

interface Node {
  readonly environment: Record<string, string>;
  readonly url: string;
  readonly smtpPort: number;
  process: Process;
}

before(async () => {
  postgres = await startPostgres(findPostgres() ?? '');
  redis = await startRedis();
  bucket = await makeBucket();
  dns = await startDnsServer();
  database = new Client({ connectionString: postgres.url });
  await database.connect();
});
after(async () => {
  await database.end();
  await redis.stop();
  await postgres.stop();
});

async function environmentOf(changed: Record<string, string>): Promise<Record<string, string>> {
  return {
    DATA_DIR: await mkdtemp(join(ROOT, 'node-')),
    S3_URL: bucket,
    PORT: String(await freePort()),
    SMTP_PORT: String(await freePort()),
    DATABASE_URL: postgres.url,
    REDIS_URL: redis.url,
    MAIL_HOSTNAME: 'mx.nodes.test',
    API_KEYS: KEY,
    RATE_LIMIT_PER_MINUTE: '0',
    DNS_SERVERS: dns.address,
    DRAIN_SECONDS: String(DRAIN_SECONDS),
    OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8',
    TRUST_PROXY: '127.0.0.1',
    ...changed,
  };
}

async function startNode(changed: Record<string, string> = {}): Promise<Node> {
  const environment = await environmentOf(changed);
  const url = `http://127.0.0.1:${environment.PORT}`;
  return { environment, url, smtpPort: Number(environment.SMTP_PORT), process: start(environment) };
}

// biome-ignore lint/suspicious/noExplicitAny: whatever JSON came
async function call(url: string, method: string, path: string, body?: object): Promise<any> {
  const response = await fetch(url + path, {
    method,
    headers: { 'x-api-key': KEY, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}

/** A domain whose records are marked by hand. */
async function makeDomain(url: string, domain: string, route: object = {}): Promise<void> {
  const made = await call(url, 'POST', '/v2/domain', { user_id: 'u', domain });
  for (const { id } of made.domain.dns) {
    const mark = { user_id: 'u', id, status: 'verified' };
    await call(url, 'POST', `/v2/domains/${domain}/dns/mark`, mark);
  }
  const forward_mode = 'store';
  await call(url, 'PUT', `/v2/domains/${domain}/route`, { user_id: 'u', forward_mode, ...route });
}

async function send(port: number, to: string, subject: string): Promise<void> {
  const transport = createTransport({ host: '127.0.0.1', port, ignoreTLS: true });
  try {
    await transport.sendMail({ from: 'bob@remote.test', to, subject, text: 'hello' });
  } finally {
    transport.close();
  }
}

/** What moves the clock that a process sees. */
async function clockOff(ms: number): Promise<Record<string, string>> {
  const file = join(ROOT, `clock${ms}.mjs`);
  const code = `
    const Real = Date;
    const now = () => Real.now() + ${ms};
    globalThis.Date = class extends Real {
      constructor(...given) {
        super(...(given.length === 0 ? [now()] : given));
      }
      static now = now;
    };`;
  await writeFile(file, code);
  return { NODE_OPTIONS: `--import=${file}` };
}

let nodes: Node[] = [];

test('three nodes that start at once on an empty database agree on everything', async () => {
  const clocks = [{}, await clockOff(7_200_000), await clockOff(-20_000)];
  nodes = await Promise.all(clocks.map((clock) => startNode(clock)));
  await Promise.all(nodes.map((node) => listening(node.process)));
  for (const { url } of nodes) assert.equal((await fetch(`${url}/readyz`)).status, 200);
  const [first, second, third] = nodes;
  assert.ok(first && second && third);
  await makeDomain(first.url, 'acme.test');
  const [local_part, domain] = ADDRESS.split('@');
  const account = { user_id: 'u', domain, local_part, password: PASSWORD, display_name: 'Ann' };
  await call(second.url, 'POST', '/v2/email-accounts/create', account);
  const login = { address: ADDRESS, password: PASSWORD };
  const { token } = await call(third.url, 'POST', '/mail/token', login);
  const lists = nodes.map(async ({ url }) => {
    const answer = await fetch(`${url}/mail/mailboxes`, {
      headers: { authorization: `Bearer ${token}` },
    });
    assert.equal(answer.status, 200);
    return answer.json();
  });
  const [list, ...others] = await Promise.all(lists);
  for (const other of others) assert.deepEqual(other, list);
});

test('nodes with clocks hours apart date mail equally, and accept the tokens of each other', async () => {
  const said = nodes.map(
    ({ process }) => /clock of this machine is (?:20|7200) s (\w+)/.exec(process.output())?.[1],
  );
  assert.deepEqual(said, [undefined, 'ahead', 'behind']);
  const known = nodes.map(async ({ url, environment }) => {
    const { items } = await call(url, 'GET', '/v2/operator/attention');
    const names = items.map(({ name }: { name: string }) => name);
    const { output } = await run([PROGRAM, 'doctor'], environment, 'pipe').ended();
    return [names.includes('clocks_differ'), /^warning +database .* clock of/m.test(output)];
  });
  const pairs = await Promise.all(known);
  assert.deepEqual(pairs, [
    [false, false],
    [true, true],
    [true, true],
  ]);
  const from = Date.now();
  const subjects: string[] = [];
  for (const [at, { smtpPort }] of [...nodes, ...nodes].entries()) {
    const subject = `dated ${at}`;
    await send(smtpPort, ADDRESS, subject);
    subjects.push(subject);
  }
  const to = Date.now();
  const login = { address: ADDRESS, password: PASSWORD };
  for (const { url } of nodes) {
    const { token } = await call(url, 'POST', '/mail/token', login);
    const answers = nodes.map(async (node) => {
      const answer = await fetch(`${node.url}/mail/sync`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ fields: ['envelope', 'internalDate'] }),
      });
      assert.equal(answer.status, 200);
      const { changes } = (await answer.json()) as {
        changes: { added: { envelope: { subject: string }; internalDate: string }[] };
      };
      assert.deepEqual(
        changes.added.map(({ envelope }) => envelope.subject),
        subjects,
      );
      // A second for what a busy machine does to a node's look at the database's clock.
      for (const { internalDate } of changes.added) {
        const date = Date.parse(internalDate);
        assert.ok(date > from - 1_000 && date < to + 1_000, `${internalDate}, sent from ${from}`);
      }
    });
    await Promise.all(answers);
  }
});

test('where the clock says that a token has expired, its socket stays open', async () => {
  const [, ahead] = nodes;
  assert.ok(ahead);
  const login = { address: ADDRESS, password: PASSWORD };
  const { token } = await call(ahead.url, 'POST', '/mail/token', login);
  const socket = await openSocket(ahead, token);
  // Sockets are looked through every second.
  assert.equal(await Promise.race([socket.closed, pause(2_500, 'open')]), 'open');
  socket.close();
});

test('a node that differs from the running ones is refused with one line', async () => {
  const refused: [Record<string, string>, RegExp][] = [
    [
      { MAIL_HOSTNAME: 'mx.other.test' },
      /^MAIL_HOSTNAME: expected "mx\.nodes\.test" that the node/,
    ],
    [{ REDIS_URL: '' }, /^REDIS_URL: expected one Redis for all nodes/],
    [{ JWT_ISSUER: 'https://id.test' }, /^JWT_ISSUER: expected "" that the node/],
    [
      { S3_URL: '' },
      /^S3_URL: expected "\S+" that the node that runs on \S+ \(process \d+\) has, got ""/,
    ],
  ];
  for (const [changed, line] of refused) await refuseStart(await environmentOf(changed), line);
});

/** The start of a node is refused with this line, and no other. */
async function refuseStart(environment: Record<string, string>, line: RegExp): Promise<void> {
  await assert.rejects(startHere(environment), (error: unknown) => {
    assert.ok(error instanceof ConfigError, String(error));
    assert.equal(error.lines.length, 1, error.lines.join('\n'));
    assert.match(error.lines[0] ?? '', line);
    return true;
  });
}

/** Of a node that shares nothing with others but the database. */
const single = (databaseUrl: string) => ({
  DATABASE_URL: databaseUrl,
  REDIS_URL: '',
  S3_URL: '',
  // No balancer has to notice its end.
  DRAIN_SECONDS: '0',
});

test('a node that was killed has its successor at once; through PgBouncer its heartbeat runs out', async () => {
  await database.query('create database single');
  const direct = postgres.url.replace(/postgres$/, 'single');
  const pooler = await startPgbouncer(postgres.port, new URL(postgres.url).username);
  atEnd(() => pooler.stop());
  const pooled = direct.replace(`:${postgres.port}/`, `:${pooler.port}/`);
  const startAndKill = async (url: string) => {
    const node = await startNode(single(url));
    await listening(node.process);
    const another = await environmentOf(single(direct));
    await refuseStart(another, /^REDIS_URL: expected one Redis for all nodes/);
    node.process.child.kill('SIGKILL');
    await node.process.ended();
  };
  const startAndStop = async (url: string) => {
    const node = await startHere(await environmentOf(single(url)));
    await node.stop();
  };
  await startAndKill(direct);
  await startAndStop(direct);
  await startAndKill(pooled);
  await pause(20_000);
  await startAndStop(pooled);
});

/** Does the same again and again, 20 ms apart, until it is told to stop; answers how often. */
async function repeat(signal: AbortSignal, work: () => Promise<unknown>): Promise<number> {
  for (let times = 0; ; times++) {
    if (signal.aborted) return times;
    await work();
    await pause(20);
  }
}

test('nodes are restarted one after the other, and no request is lost', async () => {
  // Two others, with clocks that are right, and as the balancer wants them.
  await Promise.all(nodes.map(({ process }) => stop(process)));
  const behindBalancer = { SMTP_PROXY_NETWORKS: '127.0.0.0/8' };
  nodes = await Promise.all([startNode(behindBalancer), startNode(behindBalancer)]);
  await Promise.all(nodes.map(({ process }) => listening(process)));
  const ports = nodes.map(({ url, smtpPort }) => ({
    http: Number(new URL(url).port),
    smtp: smtpPort,
  }));
  const balancer = await startBalancer(ports);
  atEnd(() => balancer.stop());
  const http = `http://127.0.0.1:${balancer.http}`;
  const login = { address: ADDRESS, password: PASSWORD };
  const { token } = await call(http, 'POST', '/mail/token', login);
  const over = new AbortController();
  const closes: number[] = [];
  const socket = async () => {
    const client = new WebSocket(`${http.replace('http', 'ws')}/ws`, {
      headers: { authorization: `Bearer ${token}` },
    });
    await once(client, 'open');
    over.signal.addEventListener('abort', () => client.close());
    if (over.signal.aborted) client.close();
    const [code] = await once(client, 'close');
    closes.push(Number(code));
  };
  let sent = 0;
  const mail = async () => {
    sent++;
    await send(balancer.smtp, ADDRESS, `under load ${sent}`);
  };
  const list = () => call(http, 'GET', '/v2/email-accounts?user_id=u');
  const load = [list, list, list, list, mail, mail, socket, socket, socket, socket];
  const running = Promise.all(load.map((work) => repeat(over.signal, work)));
  // A request that fails must end the test, not the process.
  running.catch(() => over.abort());
  for (const node of nodes) {
    node.process.child.kill('SIGTERM');
    assert.equal((await node.process.ended()).code, 0);
    node.process = start(node.environment);
    await listening(node.process);
    await balancer.untilAllUp();
  }
  over.abort();
  const times = await running;
  assert.ok(Math.min(...times) > 1, times.join(', '));
  // 1005: those that we ended.
  const byNodes = closes.filter((code) => code !== 1005);
  assert.ok(byNodes.length > 0 && byNodes.every((code) => code === 1001), closes.join(', '));
  const { rows } = await database.query(
    "select count(distinct envelope)::int as sent from messages where envelope like '%under load%'",
  );
  assert.equal(rows[0].sent, sent);
});
