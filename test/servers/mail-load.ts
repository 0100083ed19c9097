/**
 * Mail and syncs that go on while something is done to what the service needs: SMTP senders with a
 * connection each, and an app that applies the answers of sync. What was answered 250 is there exactly once
 * afterwards, what was not at most once, and the app has what the mailbox has.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { createTransport } from 'nodemailer';
import type { TestAccount, TestService } from '../support/service.ts';

const SENDERS = 6;
/** Between two syncs of the app, and two looks of a test, in milliseconds. */
const PAUSE_MS = 20;

/** Waits until something is so. @param withinMs fails after that */
export async function until(what: string, isSo: () => unknown, withinMs = 30_000): Promise<number> {
  const from = performance.now();
  while (!(await isSo())) {
    const waited = performance.now() - from;
    assert.ok(waited < withinMs, `${what}: not within ${withinMs} ms`);
    await pause(PAUSE_MS);
  }
  return performance.now() - from;
}

/** What a sync answers. */
interface Synced {
  readonly token: string;
  readonly uidvalidity: string;
  readonly reset?: boolean;
  readonly changes: { readonly added: { uid: number }[]; readonly removed: { uid: number }[] };
}

export class MailLoad {
  readonly #service: TestService;
  readonly #account: TestAccount;
  readonly #accepted = new Set<string>();
  readonly #uids = new Set<number>();
  readonly #unexpected: string[] = [];
  #token: { token: string; uidvalidity: string } | undefined;
  readonly #name = randomUUID();
  #subjects = 0;
  #isOver = false;
  #running: Promise<unknown>;
  /** Messages answered 451 or not at all, syncs answered 503, and syncs that began anew. */
  readonly counts = { refused: 0, unavailable: 0, resets: 0 };

  /** @param t the test, with which it ends */
  constructor(t: TestContext, service: TestService, account: TestAccount) {
    t.after(() => this.#end());
    this.#service = service;
    this.#account = account;
    const senders = Array.from({ length: SENDERS }, () => this.#repeat(() => this.#send()));
    this.#running = Promise.all([...senders, this.#repeat(() => this.#sync())]);
  }

  get accepted(): number {
    return this.#accepted.size;
  }

  /** Waits until mail is taken again. @returns after how many milliseconds */
  async flows(withinMs?: number): Promise<number> {
    const before = this.accepted;
    return until('mail is taken', () => this.accepted > before + SENDERS, withinMs);
  }

  /** Whether `/readyz` says that the service can do its work. */
  async isReady(): Promise<boolean> {
    return (await fetch(`${this.#service.url}/readyz`)).ok;
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
    await this.#end();
    assert.deepEqual(this.#unexpected, []);
    await until('the service is ready', () => this.isReady());
    this.#apply(await this.sync({ ...this.#token }));
    const found = new Map<string, number>();
    const uids = new Set<number>();
    const rows = await this.#readAll();
    for (const { uid, envelope } of rows) {
      uids.add(uid);
      found.set(envelope.subject, (found.get(envelope.subject) ?? 0) + 1);
    }
    const twice = [...found].filter(([, count]) => count > 1);
    assert.deepEqual(twice, [], 'a message is there twice');
    const lost = [...this.#accepted].filter((subject) => !found.has(subject));
    if (!mayLose) assert.deepEqual(lost, [], 'a message that was answered 250 is not there');
    assert.deepEqual(
      [...this.#uids].toSorted(),
      [...uids].toSorted(),
      'the app has other messages',
    );
  }

  async #end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  async #repeat(task: () => Promise<void>): Promise<void> {
    while (!this.#isOver) {
      await task();
      await pause(PAUSE_MS);
    }
  }

  async #send(): Promise<void> {
    const port = this.#service.smtpPort;
    const transport = createTransport({ host: '127.0.0.1', port, ignoreTLS: true, pool: true });
    try {
      while (!this.#isOver) {
        const subject = `${this.#name} ${this.#subjects++}`;
        const message = { from: 'bob@far.test', to: this.#account.address, subject, text: subject };
        await transport.sendMail(message);
        this.#accepted.add(subject);
      }
    } catch (error) {
      this.#noteRefusal(error);
    } finally {
      transport.close();
    }
  }

  #noteRefusal(error: unknown): void {
    this.counts.refused++;
    const code = error instanceof Error && 'responseCode' in error ? error.responseCode : undefined;
    if (code !== 451) this.#unexpected.push(`SMTP: ${String(error)}`);
  }

  async #sync(): Promise<void> {
    const { status, body } = await this.#ask({ ...this.#token });
    if (status === 503) {
      this.counts.unavailable++;
      return;
    }
    if (status !== 200) {
      this.#unexpected.push(`sync: ${status} ${JSON.stringify(body)}`);
      return;
    }
    this.#apply(body);
  }

  /** Changes what the app has by the answer of a sync. */
  #apply({ token, uidvalidity, changes, reset }: Synced): void {
    if (reset) {
      this.counts.resets++;
      this.#uids.clear();
    }
    for (const { uid } of changes.added) this.#uids.add(uid);
    for (const { uid } of changes.removed) this.#uids.delete(uid);
    this.#token = { token, uidvalidity };
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
    return this.#service.mail(this.#account.token, 'POST', '/mail/sync', body);
  }
}
