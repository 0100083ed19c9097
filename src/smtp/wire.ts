/** A socket that is read and written in turn, in plaintext and then by TLS. */
import type { Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';

/** Milliseconds for a client to hang up after we did; one that does not would keep its socket. */
const LINGER = 5_000;

export class Wire {
  #socket: Socket;
  #isEnded = false;
  /** Goes on with what waits for the socket. */
  #wake: () => void = () => {};
  readonly #onEvent = (): void => this.#wake();
  #waitingSince: number | undefined;
  #waited = 0;

  /** @param socket with `allowHalfOpen`: a client may end its side and still want its replies */
  constructor(socket: Socket) {
    this.#socket = socket;
    this.#listen();
  }

  /** Whether the client is waited for, and not the other way round. */
  get isWaiting(): boolean {
    return this.#waitingSince !== undefined;
  }

  /** Milliseconds that the client was waited for, in all. */
  get waited(): number {
    const since = this.#waitingSince;
    return this.#waited + (since === undefined ? 0 : performance.now() - since);
  }

  /** Protocol and cipher (RFC 8446 section B.4), once bytes were read by TLS. */
  get tls(): string | undefined {
    const socket = this.#socket;
    if (!(socket instanceof TLSSocket)) return undefined;
    // A socket that has just been closed has forgotten its protocol.
    return `${socket.getProtocol() ?? 'TLS'} ${socket.getCipher()?.name ?? ''}`.trimEnd();
  }

  /** What the client sent, at least one octet; undefined where nothing comes any more. */
  async read(): Promise<Buffer | undefined> {
    for (;;) {
      if (this.#isEnded) return undefined;
      const bytes: Buffer | null = this.#socket.read();
      if (bytes) return bytes;
      if (this.#socket.readableEnded || this.#socket.destroyed) return undefined;
      await this.#change();
    }
  }

  /** Sends ASCII text. Waits where the client does not read what it was sent before. */
  async write(text: string): Promise<void> {
    if (this.#isEnded || !this.#socket.writable) return;
    this.#socket.write(text, 'latin1');
    while (this.#socket.writableNeedDrain && !this.#isEnded && !this.#socket.destroyed) {
      await this.#change();
    }
  }

  /**
   * Waits for so many milliseconds.
   *
   * @returns whether the client sent nothing meanwhile
   */
  async pause(milliseconds: number): Promise<boolean> {
    const timer = setTimeout(this.#onEvent, milliseconds);
    await this.#change();
    clearTimeout(timer);
    return this.#socket.readableLength === 0;
  }

  /** Takes what follows for TLS, as a server. A handshake that fails ends the connection. */
  startTls(secureContext: SecureContext): void {
    const plain = this.#socket;
    if (this.#isEnded || plain.destroyed) return;
    // What came in plaintext by now is no part of the handshake (RFC 3207 section 6).
    while (plain.read() !== null);
    for (const event of ['readable', 'end', 'drain']) plain.off(event, this.#onEvent);
    this.#socket = new TLSSocket(plain, { isServer: true, secureContext });
    // The reason is of no interest; `close` follows.
    this.#socket.on('error', () => {});
    this.#listen();
  }

  /** Ends our side with last words. What the client sends from now on is dropped. */
  end(lastWords: string): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const socket = this.#socket;
    socket.end(lastWords, 'latin1');
    // Only who reads on sees that the client ends its side, too.
    socket.off('readable', this.#onEvent);
    socket.resume();
    const cut = setTimeout(() => socket.destroy(), LINGER);
    socket.once('close', () => clearTimeout(cut));
    this.#wake();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #listen(): void {
    for (const event of ['readable', 'end', 'drain', 'close']) {
      this.#socket.on(event, this.#onEvent);
    }
  }

  async #change(): Promise<void> {
    this.#waitingSince = performance.now();
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#waited += performance.now() - this.#waitingSince;
    this.#waitingSince = undefined;
  }
}
