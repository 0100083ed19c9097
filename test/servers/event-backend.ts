/**
 * The backend of a product, with the SDK: a process that follows a user's events and writes each into a file, where it goes
 * on after it was killed; and the receiver of his event hook. What both have must be what the service told.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { Postroom } from '../../packages/sdk/src/index.ts';
import { verifyEvent } from '../../packages/sdk/src/webhooks.ts';
import { bareEnvironment } from '../support/process.ts';
import { cursorsIn } from './event-backend-process.ts';
import { until } from './mail-load.ts';

/** How long the backend and the receiver may take to have the last event, in milliseconds. */
const CATCHES_UP_MS = 60_000;

const PROCESS = fileURLToPath(new URL('event-backend-process.ts', import.meta.url));

interface BackendOptions {
  /** Of the service. */
  readonly url: string;
  readonly apiKey: string;
  readonly userId: string;
  /** Where the cursors are written, one in a line. */
  readonly file: string;
}

export class EventBackend {
  readonly #options: BackendOptions;
  readonly #user;
  readonly #posted = new Map<string, string>();
  /** Requests that were not signed, or had two forms of one event. */
  readonly #wrong: string[] = [];
  readonly #receiver;
  readonly #secret = 'a secret of both sides';
  #process: ChildProcess | undefined;

  constructor(options: BackendOptions) {
    this.#options = options;
    const { url: baseUrl, apiKey, userId, file } = options;
    this.#user = new Postroom({ baseUrl, apiKey }).user(userId);
    appendFileSync(file, '');
    this.#receiver = createServer((request, response) => void this.#take(request, response));
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // What a killed node had not sent to its end counts for nothing.
    const body = await buffer(request).catch(() => undefined);
    if (!body) return;
    try {
      const { id } = await verifyEvent(body, request.headers, this.#secret);
      const known = this.#posted.get(id) ?? String(body);
      if (known !== String(body)) this.#wrong.push(`two forms of ${id}`);
      this.#posted.set(id, known);
    } catch (error) {
      this.#wrong.push(String(error));
    }
    response.writeHead(204).end();
  }

  /** Sets the hook, and starts to follow; all events of the user come after that. */
  async start(): Promise<void> {
    await once(this.#receiver.listen(0, '127.0.0.1'), 'listening');
    const { port } = this.#receiver.address() as AddressInfo;
    await this.#user.eventHook.set({ url: `http://127.0.0.1:${port}/`, secret: this.#secret });
    this.restart();
  }

  /** Kills the process in the middle of what it does, and starts it again. */
  restart(): void {
    this.#process?.kill('SIGKILL');
    const { url, apiKey, userId, file } = this.#options;
    this.#process = spawn(process.execPath, [PROCESS, userId, file], {
      env: { ...bareEnvironment(), POSTROOM_URL: url, POSTROOM_API_KEY: apiKey },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
  }

  /** Cursors of the events that its process has, in their order. */
  get seen(): string[] {
    return cursorsIn(this.#options.file);
  }

  /** @throws where an event is missing, is there twice, or in another place */
  async check(): Promise<number> {
    const told: string[] = [];
    for (let after = '0'; ; ) {
      const { user_id } = { user_id: this.#options.userId };
      const { url: baseUrl, apiKey } = this.#options;
      const query = { user_id, after, limit: 1_000, wait: 0 };
      const page = await new Postroom({ baseUrl, apiKey }).call('listEvents', { query });
      told.push(...page.items.map(({ cursor }) => cursor));
      after = page.cursor;
      if (!page.has_more) break;
    }
    const hasAll = () =>
      this.seen.length >= told.length && told.every((cursor) => this.#posted.has(cursor));
    await until('the backend has every event', hasAll, CATCHES_UP_MS).catch(() => {});
    assert.deepEqual(this.seen, told);
    assert.deepEqual([...this.#posted.keys()].toSorted(), told.toSorted());
    assert.deepEqual(this.#wrong, []);
    return told.length;
  }

  stop(): void {
    this.#process?.kill('SIGKILL');
    this.#receiver.close();
    this.#receiver.closeAllConnections();
  }
}
