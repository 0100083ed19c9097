/**
 * Mail and syncs that go on while something is done to what nodes need. Senders hold connections to each node and
 * to the balancer. One app asks for its mail all the time, through the balancer. Others, one at each node, wait until
 * they are told. What was answered 250 is there exactly once afterwards, what was not at most once, and every app
 * has what the mailbox has.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { createTransport } from 'nodemailer';
import type { TestClient } from '../support/service.ts';
import { type AppAccount, type AppClient, Follower, KnownInbox } from './follower.ts';

/** At each node, and at the balancer. */
const SENDERS = 2;
/** Between two messages of a sender, two syncs of the app, and two looks of a test, in milliseconds. */
const PAUSE_MS = 20;
/** Before somebody comes again who was refused: outages last, and others use this machine. */
const AGAIN_MS = 200;
/** After which a server that says nothing fails the test, and does not hold up its end. */
const NO_ANSWER_MS = 60_000;
/** Within which every app has what the mailbox has. */
const IN_STEP_MS = 60_000;

/** For what may take long on a busy machine, and less than a test: its end would not say what was waited for. */
export const LONG_MS = 120_000;

/** Waits until there is something. */
export async function untilFound<T>(what: string, find: () => Promise<T | undefined>): Promise<T> {
  const found: T[] = [];
  const look = async () => {
    const one = await find();
    if (one !== undefined) found.push(one);
    return found.length > 0;
  };
  await until(what, look, LONG_MS);
  return found[0] ?? assert.fail(what);
}

/** Waits until something is so. @param withinMs fails after that */
export async function until(what: string, isSo: () => unknown, withinMs = 30_000): Promise<void> {
  const from = performance.now();
  while (!(await isSo())) {
    const waited = performance.now() - from;
    assert.ok(waited < withinMs, `${what}: not within ${withinMs} ms`);
    await pause(PAUSE_MS);
  }
}

/** Where the load goes; read anew for each connection, so that it may move. */
type LoadClient = AppClient & Pick<TestClient, 'smtpPort' | 'localAddress'>;

interface LoadOptions {
  /** Whether nodes end meanwhile: connections may break then, and take so many messages. */
  readonly nodesEnd?: { readonly perConnection: number };
  /** What the message of that number says. */
  readonly textOf?: (number: number) => string;
}

export class MailLoad {
  readonly #client: LoadClient;
  readonly #account: AppAccount & { readonly address: string };
  readonly #options: LoadOptions;
  readonly #accepted = new Set<string>();
  /** How many of them each node took, and the balancer. */
  readonly #acceptedBy = new Map<LoadClient, number>();
  readonly #unexpected: string[] = [];
  readonly #inbox = new KnownInbox();
  readonly #followers: readonly Follower[];
  readonly #name = randomUUID();
  #subjects = 0;
  #isOver = false;
  #running: Promise<unknown>;
  /** How many syncs of the app have begun, and how many of them have ended. */
  readonly #syncs = { begun: 0, ended: 0 };
  /** Messages answered 451 or 452, or not at all, and syncs answered 503, or not at all. */
  readonly counts = { refused: 0, unavailable: 0 };

  /** @param t the test, with which it ends @param nodes each by itself, and through the balancer */
  constructor(
    t: TestContext,
    nodes: { readonly each: readonly LoadClient[]; readonly balanced: LoadClient },
    account: AppAccount & { readonly address: string },
    options: LoadOptions = {},
  ) {
    t.after(() => this.#end());
    this.#client = nodes.balanced;
    this.#account = account;
    this.#options = options;
    this.#followers = nodes.each.map((node) => new Follower(node, account));
    for (const client of [...nodes.each, nodes.balanced]) this.#acceptedBy.set(client, 0);
    const senders = [...this.#acceptedBy.keys()].flatMap((client) =>
      Array.from({ length: SENDERS }, () => this.#repeat(() => this.#send(client))),
    );
    this.#running = Promise.all([...senders, this.#repeat(() => this.#sync())]);
    // The check tells of it.
    this.#running.catch(() => {});
  }

  get accepted(): number {
    return this.#accepted.size;
  }

  /** How often an app was told to begin anew. */
  get resets(): number {
    return this.#inboxes.reduce((sum, { resets }) => sum + resets, 0);
  }

  /** Waits until each node takes mail that comes from now on. */
  async flows(): Promise<void> {
    const before = new Map(this.#acceptedBy);
    // As many as senders may have been answered before.
    const flows = () => [...before].every(([client, count]) => this.#of(client) > count + SENDERS);
    await until('each node takes mail', flows);
  }

  #of(client: LoadClient): number {
    return this.#acceptedBy.get(client) ?? 0;
  }

  /** Waits until the app has no sync under way that began before now. */
  async syncsEnd(): Promise<void> {
    const { begun } = this.#syncs;
    await until('the app syncs', () => this.#syncs.ended >= begun);
  }

  /** Waits until mail is refused from now on. */
  async isRefused(): Promise<void> {
    const before = this.counts.refused;
    await until('mail is refused', () => this.counts.refused > before);
  }

  /** A sync of another app, which asks when it likes, and again where it is told to come later. */
  async sync(request: object = {}) {
    let answer = await this.#ask(request);
    await until('a sync is answered', async () => {
      if (answer.status === 503) answer = await this.#ask(request);
      return answer.status !== 503;
    });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body;
  }

  /** Ends the load, and looks for every message. @param options.mayLose what was answered 250 may be gone */
  async check({ mayLose = false } = {}): Promise<void> {
    this.#isOver = true;
    await this.#running;
    const rows = await this.#readAll();
    const found = new Map<string, number>();
    for (const { envelope } of rows) {
      found.set(envelope.subject, (found.get(envelope.subject) ?? 0) + 1);
    }
    const twice = [...found].filter(([, count]) => count > 1);
    assert.deepEqual(twice, [], 'a message is there twice');
    const lost = [...this.#accepted].filter((subject) => !found.has(subject));
    if (!mayLose) assert.deepEqual(lost, [], 'a message that was answered 250 is not there');
    const uids = new Set(rows.map(({ uid }) => uid));
    const isInStep = async () => {
      await this.#sync();
      return this.#inboxes.every((inbox) => inbox.uids.symmetricDifference(uids).size === 0);
    };
    await until('every app has what the mailbox has', isInStep, IN_STEP_MS);
    await this.#end();
    for (const { unexpected } of this.#followers) this.#unexpected.push(...unexpected);
    assert.deepEqual(this.#unexpected, []);
  }

  get #inboxes(): KnownInbox[] {
    return [this.#inbox, ...this.#followers.map(({ inbox }) => inbox)];
  }

  async #end(): Promise<void> {
    this.#isOver = true;
    for (const follower of this.#followers) follower.stop();
    await Promise.allSettled([this.#running]);
  }

  /** @param task tells whether it was served */
  async #repeat(task: () => Promise<boolean>): Promise<void> {
    while (!this.#isOver) {
      const isServed = await task();
      await pause(isServed ? PAUSE_MS : AGAIN_MS);
    }
  }

  async #send(client: LoadClient): Promise<boolean> {
    const { smtpPort: port, localAddress } = client;
    const { nodesEnd, textOf } = this.#options;
    const most = nodesEnd?.perConnection ?? Number.POSITIVE_INFINITY;
    const transport = createTransport({
      host: '127.0.0.1',
      port,
      ignoreTLS: true,
      pool: true,
      maxMessages: Number.POSITIVE_INFINITY,
      // A message that got no answer is not sent again.
      maxRequeues: 0,
      socketTimeout: NO_ANSWER_MS,
      ...(localAddress !== undefined && { localAddress }),
    });
    let sent = 0;
    try {
      for (; sent < most && !this.#isOver; sent++) {
        const number = this.#subjects++;
        const subject = `${this.#name} ${number}`;
        const text = textOf?.(number) ?? subject;
        const to = this.#account.address;
        await transport.sendMail({ from: 'bob@far.test', to, subject, text });
        this.#accepted.add(subject);
        this.#acceptedBy.set(client, this.#of(client) + 1);
        // Some of the senders are in the middle of one at any time; with no pause nodes would take minutes to start.
        await pause(PAUSE_MS);
      }
      return true;
    } catch (error) {
      this.counts.refused++;
      // While no node is ready, the balancer ends new connections.
      const mayEnd = localAddress === undefined && sent === 0;
      const isExpected = isDeferred(error) || (mayEnd && isClosed(error));
      if (!isExpected && !(nodesEnd && isEnd(error))) {
        this.#unexpected.push(`SMTP: ${String(error)}`);
      }
      return false;
    } finally {
      transport.close();
    }
  }

  async #sync(): Promise<boolean> {
    this.#syncs.begun++;
    const asked = this.#inbox.sync(this.#client, this.#account);
    const { status, body } = await asked.catch((error: unknown) => {
      if (this.#options.nodesEnd) return { status: 503, body: undefined };
      throw error;
    });
    this.#syncs.ended++;
    if (status === 503) this.counts.unavailable++;
    else if (status !== 200) this.#unexpected.push(`sync: ${status} ${JSON.stringify(body)}`);
    return status === 200;
  }

  async #readAll(): Promise<{ uid: number; envelope: { subject: string } }[]> {
    const rows = [];
    let body = await this.sync({ fields: ['envelope'] });
    for (;;) {
      rows.push(...body.changes.added);
      if (!body.hasMore) return rows;
      const { token, uidvalidity } = body;
      body = await this.sync({ token, uidvalidity, fields: ['envelope'] });
    }
  }

  #ask(request: object) {
    const body = { mailbox: 'INBOX', ...request };
    return this.#client.mail(this.#account.token, 'POST', '/mail/sync', body);
  }
}

function isDeferred(error: unknown): boolean {
  return (
    error instanceof Error &&
    'responseCode' in error &&
    [451, 452].includes(Number(error.responseCode))
  );
}

/** A node that ends says 421 (RFC 5321 section 3.8), or nothing any more. */
function isEnd(error: unknown): boolean {
  if (!(error instanceof Error)) return true;
  if ('code' in error && error.code === 'ETIMEDOUT') return false;
  const code = 'responseCode' in error ? error.responseCode : undefined;
  return code === undefined || code === 421;
}

function isClosed(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ECONNECTION';
}
