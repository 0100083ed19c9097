/** A mail program that speaks IMAP, as lean as it can be: what is measured is the server. */
import type { Socket } from 'node:net';

/** Reads answers as they come and keeps only their last octets: 80 MB are not the client's to hold. */
export class MailProgram {
  readonly #socket: Socket;
  #tail = '';
  #until: RegExp = /$^/;
  #done: () => void = () => {};

  /** @param socket to the server, which greets it */
  constructor(socket: Socket) {
    this.#socket = socket.setNoDelay(true);
    this.#socket.on('data', (chunk: Buffer) => {
      this.#tail = (this.#tail + chunk.subarray(-2_000).toString('latin1')).slice(-2_000);
      if (this.#until.test(this.#tail)) this.#done();
    });
  }

  /** Sends text, and waits for a line at the end of what comes. @returns milliseconds */
  async send(text: string | Buffer, until: RegExp): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#tail = '';
    this.#until = until;
    this.#done = resolve;
    const from = performance.now();
    if (text.length > 0) this.#socket.write(text);
    await promise;
    return performance.now() - from;
  }

  async command(text: string): Promise<number> {
    const took = await this.send(`t ${text}\r\n`, /(?:^|\r\n)t (?:OK|NO|BAD) [^\r\n]*\r\n$/);
    if (!/(?:^|\r\n)t OK /.test(this.#tail)) throw new Error(`${text}: ${this.#tail}`);
    return took;
  }

  append(messages: readonly Buffer[]): Promise<number> {
    const parts = messages.flatMap((one) => [Buffer.from(` {${one.length}+}\r\n`), one]);
    const all = Buffer.concat([Buffer.from('t APPEND INBOX'), ...parts, Buffer.from('\r\n')]);
    return this.send(all, /(?:^|\r\n)t OK [^\r\n]*\r\n$/);
  }

  close(): void {
    this.#socket.destroy();
  }
}

/** @param login LOGIN or AUTHENTICATE, with what it needs */
export async function openMailbox(socket: Socket, login: string): Promise<MailProgram> {
  const client = new MailProgram(socket);
  await client.send('', /^\* OK [^\r\n]*\r\n$/);
  await client.command(login);
  return client;
}

/** Logs in by a mailbox token. */
export function tokenLogin(token: string): string {
  const bearer = `n,,\x01auth=Bearer ${token}\x01\x01`;
  return `AUTHENTICATE OAUTHBEARER ${Buffer.from(bearer).toString('base64')}`;
}
