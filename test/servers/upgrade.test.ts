/**
 * From earlier releases, and the last commit with another schema, to this one: on PostgreSQL under load, node by node and with the steps of
 * docs/guides/several-nodes.md; and on a data folder, of a service that was stopped or killed under load.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { before, type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createTransport } from 'nodemailer';
import { newestSchema } from '../../src/platform/database/database.ts';
import { atEnd } from '../support/at-end.ts';
import { freePort } from '../support/free-port.ts';
import { environment, listening, MAIN, type Process, run, stop } from '../support/process.ts';
import { callJson, type TestAccount, type TestClient } from '../support/service.ts';
import { type NodePorts, startBalancer } from './balancer.ts';
import { EARLIER, type Earlier, unpackEarlier } from './earlier-releases.ts';
import { MailLoad, until } from './mail-load.ts';
import { findPostgres, startPostgres } from './postgres.ts';
import { startRedis } from './redis.ts';
import { makeBucket } from './s3.ts';

const PROGRAM = fileURLToPath(new URL('../../src/postroom.js', import.meta.url));
const KEY = 'key-of-the-test-of-upgrades';
const PASSWORD = 'a good password';
/** Larger than what lies in the database: a file. */
const LARGE = 'a line of a large message\r\n'.repeat(4_000);
/** Every so many messages are large. */
const LARGE_EVERY = 10;
/** Between two messages of one sender, in milliseconds. */
const PAUSE_MS = 20;
/** A lease may run out where a machine stalls; then a delivery is made again, under the same id. */
const REPEATS_AT_MOST = 5;

const programs = new Map<Earlier, string>();
before(async () => {
  for (const name of Object.keys(EARLIER) as Earlier[]) {
    programs.set(name, await unpackEarlier(name));
  }
});

type Environment = Record<string, string>;

const startOld = (name: Earlier, own: Environment): Process =>
  run([process.execPath, programs.get(name) ?? ''], own, 'pipe');
const startNew = (own: Environment): Process => run([process.execPath, MAIN], own, 'pipe');

/** What both releases get. */
const common = {
  API_KEYS: KEY,
  RATE_LIMIT_PER_MINUTE: '0',
  // Nothing listens there.
  DNS_SERVERS: '127.0.0.1:9',
  OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8',
  MAIL_HOSTNAME: 'mx.upgrade.test',
};

type Account = Pick<TestAccount, 'address' | 'token'>;

/** The way in, for the apps and senders of a test. It moves from one node to others. */
class Door implements Pick<TestClient, 'url' | 'smtpPort' | 'mail'> {
  /** Connections go to each in turn. */
  #ways: readonly NodePorts[];
  #turn = 0;

  constructor(...ways: NodePorts[]) {
    this.#ways = ways;
  }

  lead(...ways: NodePorts[]): void {
    this.#ways = ways;
  }

  get #next(): NodePorts {
    return this.#ways[this.#turn++ % this.#ways.length] ?? assert.fail('no way');
  }

  get url(): string {
    return `http://127.0.0.1:${this.#next.http}`;
  }

  get smtpPort(): number {
    return this.#next.smtp;
  }

  mail: TestClient['mail'] = (token, method, path, body) =>
    callJson(this.url + path, { authorization: `Bearer ${token}` }, method, body);

  async v2(method: string, path: string, body: object) {
    const answer = await callJson(this.url + path, { 'x-api-key': KEY }, method, body);
    assert.ok(answer.status < 300, `${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }
}

const portsOf = ({ PORT, SMTP_PORT }: Environment): NodePorts => ({
  http: Number(PORT),
  smtp: Number(SMTP_PORT),
});

async function makeDomain(door: Door, domain: string, route?: object): Promise<void> {
  const made = await door.v2('POST', '/v2/domain', { user_id: 'u', domain });
  for (const { id } of made.domain.dns) {
    const mark = { user_id: 'u', id, status: 'verified' };
    await door.v2('POST', `/v2/domains/${domain}/dns/mark`, mark);
  }
  if (route) await door.v2('PUT', `/v2/domains/${domain}/route`, { user_id: 'u', ...route });
}

async function makeAccount(door: Door): Promise<Account> {
  await makeDomain(door, 'acme.test');
  const names = { local_part: 'ann', domain: 'acme.test', display_name: 'Ann' };
  await door.v2('POST', '/v2/email-accounts/create', {
    user_id: 'u',
    ...names,
    password: PASSWORD,
  });
  const address = 'ann@acme.test';
  const { body } = await door.mail('', 'POST', '/mail/token', { address, password: PASSWORD });
  return { address, token: body.token };
}

async function send(door: Door, to: string, subject: string, text = subject): Promise<void> {
  const transport = createTransport({
    host: '127.0.0.1',
    port: door.smtpPort,
    ignoreTLS: true,
    socketTimeout: 60_000,
  });
  try {
    await transport.sendMail({ from: 'bob@far.test', to, subject, text });
  } finally {
    transport.close();
  }
}

/** A receiver of webhooks, and the mail that is on its way to it. */
class Hooks {
  readonly #server: Server;
  readonly #accepted: string[] = [];
  /** How often each was taken, by subject and id. */
  readonly #came = new Map<string, Map<string, number>>();
  /** Those that were refused, by their ids. */
  readonly refused = new Set<string>();
  /** Whether mail to `later.test` is refused for now. */
  isEarly = true;
  #isOver = false;
  #sending: Promise<void> | undefined;

  constructor(server: Server) {
    this.#server = server;
  }

  static async open(t: TestContext): Promise<Hooks> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const hooks = new Hooks(server);
    server.on('request', (request, response) => void hooks.#answer(request, response));
    t.after(async () => {
      await hooks.#end();
      server.closeAllConnections();
      server.close();
    });
    return hooks;
  }

  get route() {
    const { port } = this.#server.address() as AddressInfo;
    return { forward_mode: 'webhook', webhook_url: `http://127.0.0.1:${port}/hook` };
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // What a killed process had not sent to its end counts for nothing.
    const sent = await json(request).catch(() => undefined);
    if (sent === undefined) return;
    const { data } = sent as { data: { subject: string } };
    const isTaken = this.#take(String(request.headers['webhook-id']), data.subject);
    response.writeHead(isTaken ? 204 : 503).end();
  }

  #take(id: string, subject: string): boolean {
    if (this.isEarly && subject.startsWith('later')) {
      this.refused.add(id);
      return false;
    }
    const ids = this.#came.get(subject) ?? new Map<string, number>();
    ids.set(id, (ids.get(id) ?? 0) + 1);
    this.#came.set(subject, ids);
    return true;
  }

  async send(door: Door, to: string, subject: string): Promise<void> {
    await send(door, to, subject);
    this.#accepted.push(subject);
  }

  /** Sends until the check. What was not answered 250 may come or not: it is not sent again. */
  keepSending(door: Door): void {
    const work = async () => {
      for (let number = 0; !this.#isOver; number++) {
        await this.send(door, 'anybody@hooked.test', `hook ${number}`).catch(() => {});
        await pause(PAUSE_MS);
      }
    };
    this.#sending = work();
  }

  async #end(): Promise<void> {
    this.#isOver = true;
    await this.#sending;
  }

  /** Every message that was answered 250 came, under one id. */
  async check(): Promise<void> {
    await this.#end();
    await until('every webhook came', () => this.#accepted.every((one) => this.#came.has(one)));
    const came = [...this.#came].map(([subject, ids]) => ({ subject, ids: [...ids.keys()] }));
    assert.deepEqual(
      came.filter(({ ids }) => ids.length > 1),
      [],
      'a message came under two ids',
    );
    const times = [...this.#came.values()].flatMap((ids) => [...ids.values()]);
    const repeats = times.filter((count) => count > 1);
    assert.ok(repeats.length <= REPEATS_AT_MOST, `${repeats.length} of ${times.length} came again`);
  }

  /** Whether those that were refused have come, under the same ids. */
  get haveRefusedCome(): boolean {
    const came = new Set([...this.#came.values()].flatMap((ids) => [...ids.keys()]));
    return [...this.refused].every((id) => came.has(id));
  }
}

/** What goes on in a test, from before the upgrade until after it. */
interface Scene {
  readonly door: Door;
  readonly account: Account;
  readonly hooks: Hooks;
  readonly load: MailLoad;
}

/** Mail, webhooks, and an app, on the old release. */
async function begin(t: TestContext, door: Door): Promise<Scene> {
  const account = await makeAccount(door);
  const hooks = await Hooks.open(t);
  await makeDomain(door, 'hooked.test', hooks.route);
  await makeDomain(door, 'later.test', hooks.route);
  await send(door, account.address, 'a word to find', 'pomegranate');
  await send(door, account.address, 'a large message', LARGE);
  for (const number of [1, 2, 3]) await hooks.send(door, 'a@later.test', `later ${number}`);
  await until('the receiver refused them', () => hooks.refused.size === 3);
  const textOf = (number: number) => (number % LARGE_EVERY === 0 ? LARGE : `text ${number}`);
  const nodes = { each: [door], balanced: door };
  const load = new MailLoad(t, nodes, account, { nodesEnd: { perConnection: 20 }, textOf });
  hooks.keepSending(door);
  await load.flows();
  return { door, account, hooks, load };
}

/** Looks at everything, on the new release. */
async function finish({ door, account, hooks, load }: Scene): Promise<void> {
  await load.flows();
  // What the old release queued, and could not deliver.
  hooks.isEarly = false;
  await until('they come', async () => {
    // Again for one that was just being attempted.
    await door.v2('POST', '/v2/operator/queue/retry', { domain: 'later.test' });
    return hooks.haveRefusedCome;
  });
  await load.check();
  assert.equal(load.resets, 0);
  await hooks.check();
  await findOldMail(door, account);
}

/** What came before the upgrade is found by its words, and read as it was. */
async function findOldMail(door: Door, { address, token }: Account): Promise<void> {
  const find = async (request: object) =>
    (await door.mail(token, 'POST', '/mail/search', request)).body.matches;
  // A new release may fill the index again.
  await until('old mail is found', async () => {
    const found = [await find({ text: 'pomegranate' }), await find({ subject: 'a large message' })];
    return found.every((matches) => matches.length === 1);
  });
  const [{ mailbox, uid }] = await find({ subject: 'a large message' });
  const path = `/mail/content?mailbox=${mailbox}&uid=${uid}`;
  const read = await door.mail(token, 'GET', path);
  assert.equal(read.body.text.trim(), LARGE.replaceAll('\r\n', '\n').trim());
  const again = await door.mail('', 'POST', '/mail/token', { address, password: PASSWORD });
  assert.equal(again.status, 200);
}

/** What `/readyz` of a node says, again and again. */
class Readiness {
  readonly #url: string;
  #isOver = false;
  readonly #watching: Promise<void>;
  /** Each once, while it stays the same; 0 where nobody answers. */
  readonly said: number[] = [];

  constructor(t: TestContext, { http }: NodePorts) {
    this.#url = `http://127.0.0.1:${http}/readyz`;
    this.#watching = this.#watch();
    t.after(() => this.end());
  }

  async #watch(): Promise<void> {
    for (; !this.#isOver; await pause(50)) {
      const status = await fetch(this.#url).then(
        (answer) => answer.status,
        () => 0,
      );
      if (this.said.at(-1) !== status) this.said.push(status);
    }
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#watching;
  }
}

/** Nodes of the new release, behind a balancer. */
async function startNodes(t: TestContext, count: number, shared: Environment) {
  const nodes = await Promise.all(
    Array.from({ length: count }, async () => {
      const ports = { PORT: String(await freePort()), SMTP_PORT: String(await freePort()) };
      const own = { ...shared, ...ports };
      const readiness = new Readiness(t, portsOf(own));
      return { own, readiness, process: startNew(own) };
    }),
  );
  t.after(() => Promise.all(nodes.map(({ process }) => stop(process))));
  await Promise.all(nodes.map(({ process }) => listening(process)));
  const balancer = await startBalancer(nodes.map(({ own }) => portsOf(own)));
  t.after(() => balancer.stop());
  await balancer.untilAllUp();
  return { balancer, readiness: nodes.map((node) => node.readiness) };
}

for (const release of ['0.2.0', '0.3.0'] as const) {
  test(`${release} on PostgreSQL is replaced under load`, async (t) => {
    const postgres = await startPostgres(findPostgres() ?? '');
    atEnd(() => postgres.stop());
    const redis = await startRedis();
    atEnd(() => redis.stop());
    // 0.2.0 knows neither: it is replaced by one node, and several come after a move of the bodies.
    const shared = { REDIS_URL: redis.url, S3_URL: await makeBucket() };
    const own: Environment = {
      ...common,
      ...(await environment(`replaced-${release}`)),
      DATABASE_URL: postgres.url,
      ...(release !== '0.2.0' && shared),
    };
    const old = startOld(release, own);
    await listening(old);
    const door = new Door(portsOf(own));
    const readiness = new Readiness(t, portsOf(own));
    const scene = await begin(t, door);
    // The schema changes while the old release goes on.
    const migration = await run([process.execPath, PROGRAM, 'migrate'], own, 'pipe').ended();
    assert.equal(migration.code, 0, migration.output);
    await scene.load.flows();
    const { balancer, readiness: news } = await startNodes(t, release === '0.2.0' ? 1 : 2, {
      ...own,
      TRUST_PROXY: '127.0.0.1',
      SMTP_PROXY_NETWORKS: '127.0.0.1',
    });
    // Both take mail and requests for a while, then only the new ones.
    door.lead(portsOf(own), balancer);
    await scene.load.flows();
    await scene.load.flows();
    door.lead(balancer);
    // A request that reaches the old node as it closes its connections gets no answer.
    await scene.load.syncsEnd();
    assert.deepEqual(readiness.said, [200]);
    await stop(old);
    await finish(scene);
    for (const node of news) {
      await node.end();
      // Not ready while it started, and ready ever since.
      assert.equal(node.said.indexOf(200), node.said.length - 1, `${node.said}`);
    }
    await readiness.end();
    // No request went to a node that could not answer it.
    assert.equal(scene.load.counts.unavailable, 0);
    // Ready until it was told to stop, and never after.
    assert.equal(readiness.said.lastIndexOf(200), 0, `${readiness.said}`);
    assert.ok(readiness.said.length > 1);
    if (release !== '0.2.0') return;
    const { code, output } = await startOld(release, own).ended();
    assert.equal(code, 1, output);
    const version = newestSchema('postgres');
    assert.match(
      output,
      new RegExp(`^DATABASE_URL: this database is of version ${version}\\b`, 'm'),
    );
  });
}

/** How the earlier program ended, on a data folder. */
const ends: readonly [Earlier, 'SIGTERM' | 'SIGKILL'][] = [
  ['0.2.0', 'SIGTERM'],
  ['0.2.0', 'SIGKILL'],
  ['0.3.0', 'SIGTERM'],
  ['before the newest migration', 'SIGKILL'],
];

for (const [release, signal] of ends) {
  test(`a data folder of ${release} that ended by ${signal} under load goes on`, async (t) => {
    const own = { ...common, ...(await environment(`${release}-${signal}`.replaceAll(' ', '-'))) };
    const old = startOld(release, own);
    await listening(old);
    const scene = await begin(t, new Door(portsOf(own)));
    old.child.kill(signal);
    await old.ended();
    const now = startNew(own);
    t.after(() => stop(now));
    await listening(now);
    await finish(scene);
  });
}
