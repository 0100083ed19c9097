/** A client that speaks IMAP line by line, for what no library would send. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

export class ImapLines {
  readonly socket: Socket;
  #text = '';
  #lines: string[] = [];
  #wake: () => void = () => {};
  /** Whether the server has closed the connection. */
  isClosed = false;
  #tags = 0;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => this.#take(chunk));
    socket.on('error', () => {});
    socket.on('close', () => {
      this.isClosed = true;
      this.#wake();
    });
  }

  /** Connects and reads the greeting. */
  static async connect(port: number, host = '127.0.0.1'): Promise<ImapLines> {
    const socket = connect(port, host);
    await once(socket, 'connect');
    const client = new ImapLines(socket);
    assert.match(await client.next(), /^\* OK /);
    return client;
  }

  /** Connects and logs in. */
  static async open(
    port: number,
    { address, password }: { readonly address: string; readonly password: string },
  ): Promise<ImapLines> {
    const client = await ImapLines.connect(port);
    await client.ok(`LOGIN ${address} "${password}"`);
    return client;
  }

  /** The next line; `''` where the server has closed the connection. */
  async next(): Promise<string> {
    while (this.#lines.length === 0 && !this.isClosed) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#lines.shift() ?? '';
  }

  send(text: string): void {
    this.socket.write(text, 'latin1');
  }

  /** Sends a command. @returns its untagged lines, and the tagged one at the end without its tag */
  async command(text: string): Promise<string[]> {
    const tag = `a${++this.#tags}`;
    this.send(`${tag} ${text}\r\n`);
    return this.#answer(tag);
  }

  async #answer(tag: string): Promise<string[]> {
    const lines: string[] = [];
    for (;;) {
      const line = await this.next();
      if (line === '') return [...lines, ''];
      if (line.startsWith(`${tag} `)) return [...lines, line.slice(tag.length + 1)];
      lines.push(line);
    }
  }

  /** Sends a command that must succeed. @returns its untagged lines */
  async ok(text: string): Promise<string[]> {
    const lines = await this.command(text);
    const last = lines.pop() ?? '';
    assert.match(last, /^OK/, `${text}: ${last}`);
    return lines;
  }

  close(): void {
    this.socket.destroy();
  }

  #take(chunk: string): void {
    this.#text += chunk;
    for (let end = this.#text.indexOf('\n'); end >= 0; end = this.#text.indexOf('\n')) {
      this.#lines.push(this.#text.slice(0, end).replace(/\r$/, ''));
      this.#text = this.#text.slice(end + 1);
    }
    this.#wake();
  }
}
