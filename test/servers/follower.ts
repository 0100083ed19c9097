/**
 * An app as it should be: its WebSocket tells it when to sync, it connects again where that ends, and comes again
 * where it is told to come later. It never asks without being told.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { WebSocket } from 'ws';
import type { Answer, TestAccount, TestClient } from '../support/service.ts';

/** Before it tries again what was refused or broken off, in milliseconds. */
const AGAIN_MS = 200;

export type AppClient = Pick<TestClient, 'url' | 'mail'>;
export type AppAccount = Pick<TestAccount, 'token'>;

/** What an app knows of an inbox by the answers of sync alone. */
export class KnownInbox {
  readonly uids = new Set<number>();
  /** How often it was told to begin anew. */
  resets = 0;
  #token: { token: string; uidvalidity: string } | undefined;

  /** Asks for what is new. @returns the answer, which it knows then if it is 200 */
  async sync(client: AppClient, account: AppAccount): Promise<Answer> {
    const request = { mailbox: 'INBOX', ...this.#token };
    const answer = await client.mail(account.token, 'POST', '/mail/sync', request);
    if (answer.status !== 200) return answer;
    const { token, uidvalidity, changes, reset } = answer.body;
    if (reset) {
      this.resets++;
      this.uids.clear();
    }
    for (const { uid } of changes.added) this.uids.add(uid);
    for (const { uid } of changes.removed) this.uids.delete(uid);
    this.#token = { token, uidvalidity };
    return answer;
  }
}

export class Follower {
  readonly inbox = new KnownInbox();
  /** Answers other than 200 and 503. */
  readonly unexpected: string[] = [];
  readonly #client: AppClient;
  readonly #account: AppAccount;
  readonly #over = new AbortController();
  #isTold = false;
  #isSyncing = false;

  constructor(client: AppClient, account: AppAccount) {
    this.#client = client;
    this.#account = account;
    void this.#listen();
  }

  stop(): void {
    this.#over.abort();
  }

  async #listen(): Promise<void> {
    const { signal } = this.#over;
    const headers = { authorization: `Bearer ${this.#account.token}` };
    while (!signal.aborted) {
      const socket = new WebSocket(`${this.#client.url.replace('http', 'ws')}/ws`, { headers });
      const end = () => socket.terminate();
      signal.addEventListener('abort', end, { once: true });
      // Its hello, and each change.
      socket.on('message', () => this.#tell());
      // Refused, or broken off: either way it closes. `events.once` would throw the error that comes before.
      socket.on('error', () => {});
      await new Promise((resolve) => socket.once('close', resolve));
      signal.removeEventListener('abort', end);
      await pause(AGAIN_MS, undefined, { ref: false });
    }
  }

  #tell(): void {
    this.#isTold = true;
    if (!this.#isSyncing) void this.#sync();
  }

  async #sync(): Promise<void> {
    this.#isSyncing = true;
    while (this.#isTold && !this.#over.signal.aborted) {
      this.#isTold = false;
      const answer = await this.inbox.sync(this.#client, this.#account).catch(() => undefined);
      if (answer?.status === 200 && !answer.body.hasMore) continue;
      this.#isTold = true;
      if (answer?.status === 200) continue;
      if (answer && answer.status !== 503) this.unexpected.push(`sync: ${answer.status}`);
      await pause(AGAIN_MS, undefined, { ref: false });
    }
    this.#isSyncing = false;
  }
}
