/** A real HTTP receiver of batches, whose answers the test controls. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { MailboxEvent } from '../../../src/mailboxes/notifier/merge-lines.ts';
import { freePort } from '../free-port.ts';

export const SECRET = 'secret-of-the-notifier-tests';

export interface Batch {
  readonly events: readonly MailboxEvent[];
  /** Milliseconds of a clock that never goes back. */
  readonly at: number;
}

type Answer = (response: ServerResponse, batch: Batch) => void;

export const accept: Answer = (response, { events }) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ ok: true, accepted: events.length }));
};

/** Answers with a status and a body. */
export function say(status: number, body = '', headers: Record<string, string> = {}): Answer {
  return (response) => void response.writeHead(status, headers).end(body);
}

/** Ends the connection without an answer. */
export const hangUp: Answer = (response) => void response.socket?.destroy();

export class BatchReceiver {
  readonly batches: Batch[] = [];
  /** The answers to come; when there are none left, batches are accepted. */
  readonly answers: Answer[] = [];
  readonly #server: Server;
  readonly #waiting: (() => void)[] = [];

  private constructor() {
    this.#server = createServer((request, response) => void this.#take(request, response));
  }

  static async start(given = 0): Promise<BatchReceiver> {
    const receiver = new BatchReceiver();
    // One that nobody else is given: it may be stopped for a while and has to come back.
    const port = given || (await freePort());
    receiver.#server.listen(port, '127.0.0.1');
    await once(receiver.#server, 'listening');
    return receiver;
  }

  get url(): string {
    const address = this.#server.address();
    assert.ok(typeof address === 'object' && address);
    return `http://127.0.0.1:${address.port}/hooks/mailserver`;
  }

  /** The posted mailboxes in order, of all batches or from a later one on. */
  mailboxes(from = 0): string[] {
    return this.batches.slice(from).flatMap(({ events }) => events.map(({ mailbox }) => mailbox));
  }

  /** Waits for this number of batches. */
  async until(count: number): Promise<void> {
    while (this.batches.length < count) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** Waits until a mailbox was posted. */
  async untilTold(mailbox: string): Promise<void> {
    while (!this.mailboxes().includes(mailbox)) await this.until(this.batches.length + 1);
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const expected = createHmac('sha256', SECRET).update(body).digest('hex');
    assert.equal(request.headers['x-mailserver-signature'], expected);
    const lines = body.toString('utf8').trimEnd().split('\n');
    const batch = { events: lines.map((line) => JSON.parse(line)), at: performance.now() };
    this.batches.push(batch);
    (this.answers.shift() ?? accept)(response, batch);
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
