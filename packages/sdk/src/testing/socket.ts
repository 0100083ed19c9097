/** The WebSocket that an app gets in place of the global one. */
import type { FakeAccount } from './account.ts';

/** What a socket asks of its server. */
export interface SocketServer {
  /** The account of a token, or undefined where the server refuses the upgrade. */
  admit(token: string): FakeAccount | undefined;
  greet(account: FakeAccount): object;
  opened(socket: FakeWebSocket): void;
  ended(socket: FakeWebSocket): void;
}

type Handler = ((event: Event) => void) | null;

export class FakeWebSocket extends EventTarget {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSING = 2;
  static readonly CLOSED = 3;
  readonly url: string;
  readonly protocol: string = 'postroom';
  readyState: number = FakeWebSocket.CONNECTING;
  onopen: Handler = null;
  onmessage: Handler = null;
  onclose: Handler = null;
  onerror: Handler = null;
  readonly #server: SocketServer;
  #account: FakeAccount | undefined;

  constructor(server: SocketServer, url: string | URL, protocols: string | readonly string[] = []) {
    super();
    this.#server = server;
    this.url = String(url);
    const offered = [protocols].flat().find((name) => name.startsWith('bearer.'));
    // As in a browser: nothing happens before the caller has set its handlers.
    queueMicrotask(() => this.#connect(offered?.slice('bearer.'.length) ?? ''));
  }

  get account(): FakeAccount | undefined {
    return this.#account;
  }

  /** Clients only listen. */
  send(_data: unknown): void {
    if (this.readyState === FakeWebSocket.CONNECTING) {
      throw new DOMException('still connecting', 'InvalidStateError');
    }
  }

  close(code = 1005, reason = ''): void {
    if (this.readyState >= FakeWebSocket.CLOSING) return;
    this.readyState = FakeWebSocket.CLOSING;
    queueMicrotask(() => this.end(code, reason));
  }

  /** The connection ends. @param code 1006 where it broke without a word */
  end(code: number, reason = ''): void {
    if (this.readyState === FakeWebSocket.CLOSED) return;
    this.readyState = FakeWebSocket.CLOSED;
    this.#server.ended(this);
    if (code === 1006) this.#dispatch('error', {});
    this.#dispatch('close', { code, reason, wasClean: code !== 1006 });
  }

  tell(message: object): void {
    const data = JSON.stringify(message);
    queueMicrotask(() => {
      if (this.readyState === FakeWebSocket.OPEN) this.#dispatch('message', { data });
    });
  }

  #connect(token: string): void {
    if (this.readyState !== FakeWebSocket.CONNECTING) return;
    this.#account = this.#server.admit(token);
    if (!this.#account) {
      this.end(1006);
      return;
    }
    this.readyState = FakeWebSocket.OPEN;
    this.#server.opened(this);
    this.#dispatch('open', {});
    this.tell(this.#server.greet(this.#account));
  }

  #dispatch(type: 'open' | 'message' | 'close' | 'error', members: object): void {
    const event = Object.assign(new Event(type), members);
    this[`on${type}`]?.(event);
    this.dispatchEvent(event);
  }
}
