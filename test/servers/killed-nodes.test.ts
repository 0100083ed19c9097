/**
 * Nodes behind HAProxy are killed in the middle of everything: mail, apps with WebSockets, webhooks, and a DNS check.
 * Nothing that was answered 250 is lost, and every app is in step again. A webhook comes again, under its id, only
 * where the killed node had leased it.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { atEnd } from '../support/at-end.ts';
import { openTestDatabase } from '../support/databases.ts';
import { startDnsServer } from '../support/dns-server.ts';
import type { TestClient } from '../support/service.ts';
import { MailLoad, until } from './mail-load.ts';
import { READY, Readiness } from './readiness.ts';
import { startRedis } from './redis.ts';
import { RunningNodes } from './running-nodes.ts';

/** Between two webhooks that are sent to a node, in milliseconds. */
const PAUSE_MS = 50;
/** Webhooks that a node attempts when it is killed. */
const CUT_SHORT = 3;
/** Within which every delivery ends: the lease of a killed node first runs out, in milliseconds. */
const END_MS = 60_000;

const { database, location } = await openTestDatabase('postgres');
const redis = await startRedis();
atEnd(() => redis.stop());
const dns = await startDnsServer();

/** A receiver of webhooks, and the mail that is on its way to it. */
class Hooks {
  readonly #t: TestContext;
  readonly #server = createServer((request, response) => void this.#answer(request, response));
  readonly #accepted = new Set<string>();
  /** The ids of the attempts at each message, by subject. */
  readonly #attempts = new Map<string, string[]>();
  /** Attempts that are not answered. */
  #held: { readonly id: string; readonly response: ServerResponse }[] = [];
  /** Subjects whose first attempts are held. One that comes after the kill is answered like any other. */
  readonly #holding = new Set<string>();
  readonly #answered = new Set<string>();
  /** Of deliveries that a killed node had leased: they may have come before, and come again. */
  readonly #mayRepeat = new Set<string>();
  readonly #sending: Promise<void>[] = [];
  /** The node that is killed, or starts: what is sent to it may fail. */
  #down: TestClient | undefined;
  #isOver = false;

  constructor(t: TestContext) {
    this.#t = t;
    t.after(() => {
      this.#isOver = true;
      this.#server.closeAllConnections();
      this.#server.close();
    });
  }

  async open(nodes: RunningNodes): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const { port } = this.#server.address() as AddressInfo;
    const domain = 'hooked.test';
    // Past the balancer, which takes a node out that is slow to answer on a busy machine.
    const [node] = nodes.each;
    const made = await node.v2('POST', '/v2/domain', { user_id: 'u', domain });
    for (const { id } of made.body.domain.dns) {
      const mark = { user_id: 'u', id, status: 'verified' };
      await node.v2('POST', `/v2/domains/${domain}/dns/mark`, mark);
    }
    const route = { forward_mode: 'webhook', webhook_url: `http://127.0.0.1:${port}/hook` };
    const set = { user_id: 'u', ...route };
    const { status } = await node.v2('PUT', `/v2/domains/${domain}/route`, set);
    assert.equal(status, 200);
    this.#sending.push(...nodes.each.map((one, at) => this.#keepSending(one, `to node ${at}`)));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // What a killed node had not sent to its end counts for nothing.
    const sent = await json(request).catch(() => undefined);
    if (sent === undefined) return;
    const { subject } = (sent as { data: { subject: string } }).data;
    const id = String(request.headers['webhook-id']);
    const ids = this.#attempts.get(subject) ?? [];
    this.#attempts.set(subject, [...ids, id]);
    if (this.#holding.has(subject) && ids.length === 0) this.#held.push({ id, response });
    else this.#end(id, response);
  }

  #end(id: string, response: ServerResponse): void {
    response.writeHead(204).end();
    this.#answered.add(id);
  }

  async #send(node: TestClient, subject: string): Promise<void> {
    await node.send({ from: 'bob@far.test', to: 'ann@hooked.test', subject, text: subject });
    this.#accepted.add(subject);
  }

  async #keepSending(node: TestClient, name: string): Promise<void> {
    for (let number = 0; !this.#isOver; number++) {
      const wasDown = this.#down === node;
      await this.#send(node, `${number} ${name}`).catch((error: unknown) => {
        // The other node takes mail at all times.
        if (!wasDown && this.#down !== node) throw error;
      });
      await pause(PAUSE_MS);
    }
  }

  /** Kills a node with attempts in its hands that are not answered. @param id of the node */
  async cutShort(node: TestClient, id: string, kill: () => Promise<void>): Promise<void> {
    const held = async () => {
      const leased = await leasedBy(id);
      return this.#held.filter((one) => leased.has(one.id));
    };
    let sent = 0;
    await until('the node attempts some of them', async () => {
      if ((await held()).length >= CUT_SHORT) return true;
      // The other node was faster with those before.
      if (this.#held.length === sent) {
        const subject = `cut short ${sent++} at ${node.url}`;
        this.#holding.add(subject);
        await this.#send(node, subject);
      }
      return false;
    });
    this.#down = node;
    await kill();
    // While the leases hold: then the other node takes them over.
    for (const leased of await leasedBy(id)) this.#mayRepeat.add(leased);
    const cut = await held();
    await until('attempts break off', () => cut.every(({ response }) => response.destroyed));
    this.#holding.clear();
    for (const one of this.#held) if (!one.response.destroyed) this.#end(one.id, one.response);
    this.#held = [];
  }

  isUpAgain(): void {
    this.#down = undefined;
  }

  /** Every message that was answered 250 came, under one id, and once except where the node had been killed. */
  async check(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#sending);
    const hasCome = (subject: string) =>
      this.#attempts.get(subject)?.some((id) => this.#answered.has(id));
    await until('every webhook came', () => [...this.#accepted].every(hasCome), END_MS);
    const deliveries = database.read.selectFrom('deliveries').select(['public_id', 'attempts']);
    // An attempt is written down after its answer.
    const open = deliveries.where('status', '=', 'queued');
    await until('every delivery ends', async () => !(await open.executeTakeFirst()), END_MS);
    const rows = await deliveries.execute();
    // On a busy machine an attempt may fail because nothing answers in time: that is written down.
    const made = new Map(rows.map(({ public_id, attempts }) => [public_id, attempts]));
    const wrong = [...this.#attempts].filter(([, ids]) => {
      const [id = '', ...others] = new Set(ids);
      return others.length > 0 || (ids.length > (made.get(id) ?? 0) && !this.#mayRepeat.has(id));
    });
    assert.deepEqual(wrong, [], 'a message came under two ids, or again');
    this.#t.diagnostic(`${this.#attempts.size} webhooks, ${this.#mayRepeat.size} leased at a kill`);
  }
}

/** The open deliveries that a node has leased, also where it is dead. */
async function leasedBy(nodeId: string): Promise<Set<string>> {
  const leased = database.read.selectFrom('deliveries').where('lease_owner', '=', nodeId);
  const rows = await leased.where('status', '=', 'queued').select('public_id').execute();
  return new Set(rows.map(({ public_id }) => public_id));
}

/** The id of the node whose process that is. */
async function idOf(pid: number | undefined): Promise<string> {
  const rows = database.read
    .selectFrom('nodes')
    .where('pid', '=', pid ?? 0)
    .select('id');
  return (await rows.executeTakeFirstOrThrow()).id;
}

/** A domain whose records nobody has published; each check of it ends with when the next one is due. */
class CheckedDomain {
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
  }

  /** Claims it, and waits until a node has checked it. */
  async claim(node: TestClient): Promise<void> {
    await node.v2('POST', '/v2/domain', { user_id: 'u', domain: this.#name });
    await until('its first check is over', async () => (await this.#nextCheck()) > Date.now());
  }

  /** Has it checked by a node, until DNS is asked and says nothing. */
  async checkBy(node: TestClient): Promise<void> {
    const asked = () => dns.asked.filter(({ name }) => name.endsWith(this.#name)).length;
    const before = asked();
    dns.faults = (name) => (name.endsWith(this.#name) ? 'silent' : undefined);
    // The answer never comes: the node is killed.
    node.v2('POST', `/v2/domains/${this.#name}/verify`, { user_id: 'u' }).catch(() => {});
    await until('the check begins', () => asked() > before);
  }

  /** Lets the lead of the killed node run out where it led, and waits until another node has checked it. */
  async isCheckedByAnother(killed: string): Promise<void> {
    dns.faults = () => undefined;
    await database.write(async (tx) => {
      const lead = tx.updateTable('leases').set({ until: 0 }).where('name', '=', 'verification');
      await lead.where('owner', '=', killed).execute();
      const due = tx.updateTable('domains').set({ next_check_at: 0 });
      await due.where('name', '=', this.#name).execute();
    });
    await until('another node checks', async () => (await this.#nextCheck()) > 0);
  }

  async #nextCheck(): Promise<number> {
    const { next_check_at } = await database.read
      .selectFrom('domains')
      .select('next_check_at')
      .where('name', '=', this.#name)
      .executeTakeFirstOrThrow();
    return next_check_at;
  }
}

/** Kills a node in the middle of everything; the other one continues, and that one joins it again. */
async function killInTheMiddle(
  { nodes, load, hooks }: { nodes: RunningNodes; load: MailLoad; hooks: Hooks },
  at: 0 | 1,
): Promise<void> {
  const node = nodes.each[at];
  const domain = new CheckedDomain(`checked${at}.test`);
  await domain.claim(node);
  await load.flows();
  const other = new Readiness([nodes.each[1 - at]?.url ?? '']);
  const id = await idOf(nodes.pidOf(at));
  try {
    await other.saysOnly(READY, async () => {
      await hooks.cutShort(node, id, async () => {
        await domain.checkBy(node);
        await nodes.kill(at);
      });
      await domain.isCheckedByAnother(id);
      await nodes.restart(at);
    });
  } finally {
    other.stop();
  }
  hooks.isUpAgain();
  await load.flows();
}

test('a killed node loses nothing, the other continues, and the killed one joins again', async (t) => {
  const nodes = await RunningNodes.start({
    DATABASE_URL: location,
    REDIS_URL: redis.url,
    DNS_SERVERS: dns.address,
    OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8',
  });
  const first = await database.read.selectFrom('nodes').select('id').execute();
  const hooks = new Hooks(t);
  const account = await nodes.balanced.makeAccount();
  const load = new MailLoad(t, nodes, account, { nodesEnd: { perConnection: 20 } });
  await hooks.open(nodes);
  await killInTheMiddle({ nodes, load, hooks }, 0);
  await killInTheMiddle({ nodes, load, hooks }, 1);
  await load.check();
  await hooks.check();
  // Both of the first are gone.
  await until('another node does the maintenance', async () => {
    const ids = first.map(({ id }) => id);
    const leases = database.read.selectFrom('leases').where('name', '=', 'maintenance');
    return leases.where('owner', 'not in', ids).select('owner').executeTakeFirst();
  });
  await nodes.end();
});
