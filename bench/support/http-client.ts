/**
 * A plain HTTP/1.1 client on raw sockets: keep-alive, one request at a time on a connection, and as
 * little work per answer as can be, so that one process outruns any server it measures.
 */
import { connect, type Socket } from 'node:net';

export interface HttpTarget {
  readonly port: number;
  readonly connections: number;
}

export interface HttpAnswer {
  readonly status: number;
  /** Octets of the body. */
  readonly length: number;
}

/** Room for one read of a socket; every connection reads into the same, since nothing is kept. */
const READ_BUFFER = Buffer.alloc(256 * 1024);
const HEAD_MAX = 16 * 1024;

/** One connection; `onAnswer` is called when the whole body has come. */
class HttpConnection {
  readonly #socket: Socket;
  readonly #onAnswer: (answer: HttpAnswer) => void;
  readonly opened: Promise<void>;
  /** Start of an answer whose head is not whole yet. */
  #head = '';
  #status = 0;
  #length = 0;
  /** Octets of the body to come; -1 while the head is awaited. */
  #missing = -1;

  constructor(port: number, onAnswer: (answer: HttpAnswer) => void, onError: (e: Error) => void) {
    this.#onAnswer = onAnswer;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.opened = promise;
    this.#socket = connect({
      port,
      host: '127.0.0.1',
      noDelay: true,
      onread: {
        buffer: READ_BUFFER,
        callback: (bytes) => {
          this.#read(bytes);
          return true;
        },
      },
    });
    this.#socket.once('connect', resolve).once('error', onError);
    this.#socket.once('end', () => onError(new Error('the server closed a connection')));
  }

  send(request: Buffer): void {
    this.#socket.write(request);
  }

  close(): void {
    this.#socket.removeAllListeners('end').destroy();
  }

  #read(bytes: number): void {
    if (this.#missing > 0) {
      this.#body(bytes);
      return;
    }
    const end = READ_BUFFER.subarray(0, bytes).indexOf('\r\n\r\n');
    this.#head += READ_BUFFER.toString('latin1', 0, end === -1 ? Math.min(bytes, HEAD_MAX) : end);
    if (end === -1) return;
    const head = this.#head.toLowerCase();
    this.#head = '';
    const at = head.indexOf('\r\ncontent-length:');
    if (at === -1) throw new Error(`an answer has no content-length: ${head}`);
    this.#status = Number(head.slice(9, 12));
    this.#length = Number.parseInt(head.slice(at + 17, at + 30), 10);
    this.#missing = this.#length;
    this.#body(bytes - end - 4);
  }

  #body(bytes: number): void {
    this.#missing -= bytes;
    if (this.#missing > 0) return;
    this.#missing = -1;
    this.#onAnswer({ status: this.#status, length: this.#length });
  }
}

export interface Played {
  readonly answers: number;
  /** Octets of all bodies. */
  readonly bytes: number;
  readonly seconds: number;
  /** Share of one core that the generator used: near 1 it is what was measured. */
  readonly busy: number;
}

/**
 * Sends requests, the next on a connection when the last was answered, until there are no more.
 * Fails at the first answer that is no success.
 *
 * @param next the next request, or undefined when no more are to be sent
 */
export async function playRequests(
  { port, connections }: HttpTarget,
  next: () => Buffer | undefined,
): Promise<Played> {
  const { promise: done, resolve, reject } = Promise.withResolvers<void>();
  let answers = 0;
  let bytes = 0;
  let open = connections;
  const onAnswer = (connection: () => HttpConnection) => (answer: HttpAnswer) => {
    if (answer.status < 200 || answer.status > 299) {
      reject(new Error(`an answer has status ${answer.status}`));
      return;
    }
    answers++;
    bytes += answer.length;
    const request = next();
    if (request) connection().send(request);
    else if (--open === 0) resolve();
  };
  const all = Array.from({ length: connections }, () => {
    const connection: HttpConnection = new HttpConnection(
      port,
      onAnswer(() => connection),
      reject,
    );
    return connection;
  });
  await Promise.race([Promise.all(all.map(({ opened }) => opened)), done]);
  const from = performance.now();
  const cpu = process.cpuUsage();
  for (const connection of all) {
    const request = next();
    if (request) connection.send(request);
    else if (--open === 0) resolve();
  }
  try {
    await done;
  } finally {
    for (const connection of all) connection.close();
  }
  const seconds = (performance.now() - from) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return { answers, bytes, seconds, busy: (user + system) / 1e6 / seconds };
}

/** One HTTP/1.1 request as it goes over the wire. */
export function writeRequest(
  method: 'GET' | 'POST',
  path: string,
  headers: Readonly<Record<string, string>> = {},
  body = '',
): string {
  const fields = Object.entries({
    host: 'localhost',
    ...headers,
    ...(body !== '' && { 'content-length': String(Buffer.byteLength(body)) }),
  });
  const head = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return `${method} ${path} HTTP/1.1\r\n${head}\r\n${body}`;
}
