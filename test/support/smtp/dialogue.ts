/**
 * Runs SMTP dialogues as a mail admin writes them down, against a real listener:
 *
 *     # a comment
 *     @ recipientsMax 2            an option of the listener, as JSON
 *     C: EHLO client.test          the client sends a line; lines in a row go out in one write
 *     C~ half a line               the client sends this, without a CRLF
 *     C. .                         the client sends a line, each octet in a write of its own
 *     S: 250 2.1.0 *               the server answers this line; * is any text
 *     S! closes                    the server ends the connection
 *     ! starttls                   both sides change to TLS
 *     ! hangs up                   the client resets the connection
 *     D: ESMTP <a@b> <c@d> "text\r\n"   delivery accepted this: keyword, sender, recipients, content
 *
 * `\r`, `\n`, `\t`, `\0`, `\\` and `\xHH` in what the client sends stand for these octets, other text
 * is UTF-8. A dialogue ends when its lines do; anything more from the server is a failure.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, TLSSocket } from 'node:tls';
import type { RecordingDelivery } from './recording-delivery.ts';

export interface Peer {
  readonly port: number;
  readonly delivery: RecordingDelivery;
}

interface Step {
  readonly number: number;
  readonly kind: string;
  readonly text: string;
}

/** Milliseconds to wait for the server before the dialogue fails. */
const PATIENCE = 20_000;

/** Options that the dialogue asks of its listener. */
export function dialogueOptions(script: string): Record<string, unknown> {
  const options: Record<string, unknown> = {};
  for (const { kind, text } of steps(script)) {
    const [, name, value] = kind === '@' ? (/^(\w+) (.+)$/.exec(text) ?? []) : [];
    if (name !== undefined && value !== undefined) options[name] = JSON.parse(value);
  }
  return options;
}

/** Plays the client's part and checks the server's. */
export async function runDialogue(script: string, peer: Peer): Promise<void> {
  const client = await DialogueClient.connect(peer.port);
  try {
    for (const step of steps(script)) {
      try {
        await play(step, client, peer);
      } catch (error) {
        throw new Error(`line ${step.number}: ${step.kind} ${step.text}`, { cause: error });
      }
    }
    client.flush();
    assert.deepEqual(client.unread(), [], 'the server said more');
  } finally {
    client.destroy();
  }
}

async function play({ kind, text }: Step, client: DialogueClient, peer: Peer): Promise<void> {
  if (kind === '@') return;
  if (kind === 'C:') client.queue(`${text}\\r\\n`);
  else if (kind === 'C~') client.queue(text);
  else {
    client.flush();
    if (kind === 'C.') await client.drip(`${text}\\r\\n`);
    else if (kind === 'S:') assertReply(await client.line(), text);
    else if (kind === 'S!') assert.equal(await client.line(), undefined, 'the server said more');
    else if (kind === 'D:') assertLike(await peer.delivery.next(), text);
    else if (text === 'starttls') await client.startTls();
    else if (text === 'hangs up') client.destroy();
    else throw new Error(`There is no step "${kind} ${text}"`);
  }
}

function steps(script: string): Step[] {
  return script.split('\n').flatMap((line, index) => {
    if (line === '' || line.startsWith('#')) return [];
    const [, kind, text] = /^(C[:~.]|S[:!]|D:|!|@) (.*)$/.exec(line) ?? [];
    if (kind === undefined || text === undefined) throw new Error(`line ${index + 1}: ${line}`);
    return [{ number: index + 1, kind, text }];
  });
}

/** Also checks that an enhanced status code is of the reply's class (RFC 3463). */
function assertReply(line: string | undefined, pattern: string): void {
  assertLike(line, pattern);
  const [, code, status] = /^(\d)\d\d[ -](\d)\.\d+\.\d+ /.exec(line ?? '') ?? [];
  assert.equal(status, code, String(line));
}

function assertLike(actual: string | undefined, pattern: string): void {
  const parts = pattern.split('*').map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  assert.match(actual ?? '(connection closed)', new RegExp(`^${parts.join('.*')}$`, 's'));
}

function octets(text: string): Buffer {
  const pieces = text.split(/(\\x[0-9a-f]{2}|\\[rnt0\\])/i).map((piece) => {
    if (/^\\x/i.test(piece)) return Buffer.from(piece.slice(2), 'hex');
    const escaped = { '\\r': '\r', '\\n': '\n', '\\t': '\t', '\\0': '\0', '\\\\': '\\' }[piece];
    return Buffer.from(escaped ?? piece);
  });
  return Buffer.concat(pieces);
}

/** A client that knows nothing of SMTP: bytes out, lines in. */
export class DialogueClient {
  #socket: Socket;
  #waiting: Buffer[] = [];
  #received = '';
  #closed = false;
  #wake: () => void = () => {};

  /** @param from the loopback address to connect from; any by default */
  static async connect(port: number, from?: string): Promise<DialogueClient> {
    const here = from === undefined ? {} : { localAddress: from };
    const socket = connect({ port, host: '127.0.0.1', noDelay: true, ...here });
    const client = new DialogueClient(socket);
    await once(socket, 'connect');
    return client;
  }

  constructor(socket: Socket) {
    this.#socket = socket;
    this.#listen(socket);
  }

  get socket(): Socket {
    return this.#socket;
  }

  /** Keeps escaped text for the next {@link flush}. */
  queue(text: string): void {
    this.#waiting.push(octets(text));
  }

  flush(): void {
    if (this.#waiting.length > 0) this.#socket.write(Buffer.concat(this.#waiting));
    this.#waiting = [];
  }

  send(text: string): void {
    this.#socket.write(text);
  }

  async drip(text: string): Promise<void> {
    for (const byte of octets(text)) {
      await new Promise((resolve) => this.#socket.write(Buffer.of(byte), resolve));
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** The next line without its CRLF; undefined when the server has closed. */
  async line(): Promise<string | undefined> {
    const timeout = setTimeout(() => this.#socket.destroy(), PATIENCE);
    try {
      for (;;) {
        const end = this.#received.indexOf('\r\n');
        if (end >= 0) {
          const line = this.#received.slice(0, end);
          this.#received = this.#received.slice(end + 2);
          return line;
        }
        if (this.#closed) return undefined;
        const { promise, resolve } = Promise.withResolvers<void>();
        this.#wake = resolve;
        await promise;
      }
    } finally {
      clearTimeout(timeout);
    }
  }

  /** A whole reply, its lines joined. */
  async reply(): Promise<string> {
    const lines: string[] = [];
    for (;;) {
      const line = await this.line();
      lines.push(line ?? '(closed)');
      if (line === undefined || line[3] !== '-') return lines.join('\n');
    }
  }

  /** Sends a command and waits for its reply. */
  ask(command: string): Promise<string> {
    this.send(`${command}\r\n`);
    return this.reply();
  }

  unread(): string[] {
    return this.#received.split('\r\n').filter((line) => line !== '');
  }

  /** @returns the certificate of the other side, DER */
  async startTls(): Promise<Buffer> {
    const plain = this.#socket;
    plain.removeAllListeners();
    const secure = connectTls({ socket: plain, rejectUnauthorized: false });
    this.#socket = secure;
    this.#listen(secure);
    await once(secure, 'secureConnect');
    return secure.getPeerCertificate().raw;
  }

  /** Closes the connection without QUIT; by a reset where there is no TLS. */
  destroy(): void {
    if (this.#socket instanceof TLSSocket) this.#socket.destroy();
    else this.#socket.resetAndDestroy();
  }

  #listen(socket: Socket): void {
    socket.setEncoding('utf8');
    socket.on('data', (text: string) => {
      this.#received += text;
      this.#wake();
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#closed = true;
      this.#wake();
    });
  }
}
