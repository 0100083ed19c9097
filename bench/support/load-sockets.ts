/**
 * Worker: thousands of WebSocket clients on raw sockets, which count the messages that they get and
 * do nothing else, so that what is measured is the server.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { answerTasks } from './worker.ts';

export type SocketsTask =
  | {
      /** Opens one more connection for each token, or so many without any. */
      readonly do: 'open';
      readonly port: number;
      readonly tokens: readonly (string | undefined)[];
      /** Messages that each gets before it counts as open. */
      readonly greetings: number;
    }
  | {
      /** Sends an HTTP request; answers milliseconds until each connection got one more message. */
      readonly do: 'trigger';
      readonly port: number;
      readonly request: string;
    };

const OPENED_AT_ONCE = 50;
const FRAME_HEAD = 2;

const PING = 9;
/** Masked, and empty as the service's pings are. */
const PONG = Buffer.from([0x8a, 0x80, 0, 0, 0, 0]);

/** Counts the messages of a stream of unmasked frames (RFC 6455 section 5.2). */
class FrameCounter {
  readonly #onPing: () => void;
  #rest: Buffer = Buffer.alloc(0);

  constructor(onPing: () => void) {
    this.#onPing = onPing;
  }

  /** Messages that end in these bytes. */
  count(bytes: Buffer): number {
    let data = this.#rest.length > 0 ? Buffer.concat([this.#rest, bytes]) : bytes;
    let messages = 0;
    for (;;) {
      const end = frameEnd(data);
      if (end === undefined || end > data.length) break;
      const opcode = (data[0] ?? 0) & 0x0f;
      if (opcode === 1) messages++;
      if (opcode === PING) this.#onPing();
      data = data.subarray(end);
    }
    this.#rest = data.length > 0 ? Buffer.from(data) : data;
    return messages;
  }
}

function frameEnd(data: Buffer): number | undefined {
  if (data.length < FRAME_HEAD) return undefined;
  const short = (data[1] ?? 0) & 0x7f;
  if (short < 126) return FRAME_HEAD + short;
  if (short === 127) throw new Error('a frame is huge');
  return data.length < 4 ? undefined : 4 + data.readUInt16BE(2);
}

const sockets: Socket[] = [];
let awaited = 0;
let allCame: (() => void) | undefined;

async function open(port: number, token: string | undefined, greetings: number): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1' });
  await once(socket, 'connect');
  const key = randomBytes(16).toString('base64');
  const authorization = token === undefined ? '' : `Authorization: Bearer ${token}\r\n`;
  socket.write(
    `GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
      `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n${authorization}\r\n`,
  );
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const counter = new FrameCounter(() => socket.write(PONG));
  let head: string | undefined = '';
  let greeted = 0;
  const take = (messages: number) => {
    if (greeted < greetings) {
      greeted += messages;
      if (greeted >= greetings) resolve();
    } else if (messages > 0) {
      awaited -= messages;
      if (awaited === 0) allCame?.();
    }
  };
  socket.on('data', (bytes: Buffer) => {
    if (head === undefined) {
      take(counter.count(bytes));
      return;
    }
    head += bytes.toString('latin1');
    const end = head.indexOf('\r\n\r\n');
    if (end === -1) return;
    if (!head.startsWith('HTTP/1.1 101')) reject(new Error(head));
    const rest = Buffer.from(head.slice(end + 4), 'latin1');
    head = undefined;
    if (greetings === 0) resolve();
    take(counter.count(rest));
  });
  socket.once('close', () => reject(new Error('a connection was closed')));
  socket.on('error', reject);
  await promise;
  sockets.push(socket);
}

async function trigger(port: number, request: string): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  awaited = sockets.length;
  allCame = resolve;
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  socket.once('data', (bytes: Buffer) => {
    const head = bytes.toString('latin1');
    if (!head.startsWith('HTTP/1.1 200')) reject(new Error(head));
  });
  const from = performance.now();
  socket.write(request);
  await promise;
  const took = performance.now() - from;
  socket.destroy();
  return took;
}

answerTasks(async (task: SocketsTask): Promise<number> => {
  if (task.do === 'trigger') return trigger(task.port, task.request);
  const { port, tokens, greetings } = task;
  for (let at = 0; at < tokens.length; at += OPENED_AT_ONCE) {
    const group = tokens.slice(at, at + OPENED_AT_ONCE);
    await Promise.all(group.map((token) => open(port, token, greetings)));
  }
  return sockets.length;
});
