/**
 * A listening realtime channel and its clients, for tests over real sockets.
 */

import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { pino } from 'pino';
import { type ClientOptions, WebSocket } from 'ws';
import { InProcessChanges, type MailboxChange } from '../../../src/mailboxes/changes/changes.ts';
import { Refusal } from '../../../src/platform/errors/errors.ts';
import { Realtime, type RealtimeOptions } from '../../../src/servers/realtime/realtime.ts';
import type { MailAccess } from '../../../src/tenants/accounts/accounts.ts';
import { atEnd } from '../at-end.ts';

export interface RunningRealtime {
  readonly realtime: Realtime;
  readonly changes: InProcessChanges;
  readonly port: number;
  /** Errors and warnings that were logged, one parsed line each. */
  readonly logLines: Record<string, unknown>[];
}

/** In these tests `token-7` is a valid token of account 7. */
export async function readTestToken(token: string): Promise<MailAccess> {
  const id = /^token-(\d+)$/.exec(token)?.[1];
  if (id === undefined) throw new Refusal('unauthorized', 'the token is not valid');
  return {
    accountId: Number(id),
    address: `user${id}@acme.test`,
    userId: 'user-1',
    credentialVersion: 1,
    expiresAt: Date.now() + 3_600_000,
  };
}

/** Starts a channel; it is closed when the test file ends. */
export async function startRealtime(
  options: Partial<RealtimeOptions> = {},
): Promise<RunningRealtime> {
  const changes = new InProcessChanges();
  const logLines: Record<string, unknown>[] = [];
  const realtime = new Realtime({
    authenticate: readTestToken,
    listMailboxes: async () => [{ mailbox: 'INBOX', uidvalidity: '7', token: '1' }],
    changes,
    admit: () => ({ allowed: true }),
    logger: pino({ level: 'warn' }, { write: (line) => logLines.push(JSON.parse(line)) }),
    ...options,
    limits: { closeSeconds: 0.2, ...options.limits },
  });
  const server = createServer((_request, response) => response.end('plain'));
  server.on('upgrade', (...upgrade) => realtime.handleUpgrade(...upgrade));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  atEnd(async () => {
    await realtime.close();
    server.close();
    server.closeAllConnections();
  });
  // The server listens on TCP, so that its address is no string.
  const { port } = server.address() as AddressInfo;
  return { realtime, changes, port, logLines };
}

/** A change in a mailbox of an account. */
export function change(accountId: number, parts: Partial<MailboxChange> = {}): MailboxChange {
  return {
    kind: 'mailbox',
    accountId,
    mailbox: 'INBOX',
    uidvalidity: '7',
    token: '2',
    eventType: 'MailboxesChanged',
    ...parts,
  };
}

/** A client that keeps every message but heartbeats until the test reads it. */
export class TestClient {
  readonly socket: WebSocket;
  /** How the connection ended. */
  readonly closed: Promise<{ code: number; reason: string }>;
  heartbeats = 0;
  readonly #messages: unknown[] = [];
  #wake = () => {};

  constructor(
    port: number,
    token: string | undefined,
    options: ClientOptions = {},
    protocols: string[] = [],
  ) {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    this.socket = new WebSocket(`ws://127.0.0.1:${port}/ws`, protocols, { headers, ...options });
    this.socket.on('error', () => {});
    this.socket.on('message', (text) => {
      const message = JSON.parse(String(text));
      if (message.type === 'heartbeat') this.heartbeats++;
      else this.#messages.push(message);
      this.#wake();
    });
    this.closed = new Promise((resolve) => {
      this.socket.on('close', (code, reason) => {
        resolve({ code, reason: String(reason) });
        this.#wake();
      });
    });
  }

  /** The next message; rejects when the connection ends before one comes. */
  async next(): Promise<unknown> {
    while (this.#messages.length === 0) {
      if (this.socket.readyState === WebSocket.CLOSED) throw new Error('the connection is closed');
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#messages.shift();
  }
}

/** Connects and waits for hello. */
export async function connectClient(
  port: number,
  token: string,
  options: ClientOptions = {},
): Promise<TestClient> {
  const client = new TestClient(port, token, options);
  await client.next();
  return client;
}

/** A client without the library: the handshake is done, the test does the rest. */
export async function connectRaw(
  port: number,
  token: string,
  first: Uint8Array = new Uint8Array(),
) {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  const lines = ['GET /ws HTTP/1.1', `Authorization: Bearer ${token}`, ...handshakeLines, '', ''];
  socket.write(Buffer.concat([Buffer.from(lines.join('\r\n')), first]));
  await once(socket, 'readable');
  return socket;
}

const handshakeLines = [
  'Host: localhost',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
];

/** A frame as clients send it, masked with zeros (RFC 6455 section 5.2); at most 125 bytes. */
export function frame(opcode: number, payload: Uint8Array = new Uint8Array()): Buffer {
  return Buffer.from([0x80 | opcode, 0x80 | payload.length, 0, 0, 0, 0, ...payload]);
}

/** Everything a raw client gets until the server ends the connection. */
export async function readToEnd(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  if (!socket.closed) await once(socket, 'close');
  return Buffer.concat(chunks);
}

export interface UpgradeAnswer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: Record<string, unknown>;
}

/** Requests an upgrade and reads the plain answer. */
export async function askForUpgrade(
  port: number,
  headers: Record<string, string> = {},
  { method = 'GET', path = '/ws' } = {},
): Promise<UpgradeAnswer> {
  const asking = request({
    port,
    host: '127.0.0.1',
    method,
    path,
    headers: {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
      ...headers,
    },
  });
  asking.end();
  const [response]: IncomingMessage[] = await once(asking, 'response');
  if (!response) throw new Error('no response');
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    body: JSON.parse(text),
  };
}
