/** The WebSocket: one at a time, opened again whenever it is lost. */
import type {
  HeartbeatEvent,
  HelloEvent,
  MailboxChangedEvent,
  MailboxesChangedEvent,
} from '../api-types.ts';
import type { TrafficEvent } from './client.ts';
import { type Platform, pauseAfter, type Socket } from './platform.ts';

export type LiveEvent = HelloEvent | MailboxChangedEvent | MailboxesChangedEvent | HeartbeatEvent;

/** Tells those who look on what goes over the wire. */
export type TellTraffic = (
  direction: TrafficEvent['direction'],
  title: string,
  body?: unknown,
) => void;

export interface LiveOptions {
  readonly platform: Platform;
  readonly baseUrl: string;
  readonly token: () => Promise<string>;
  readonly heard: (event: LiveEvent) => void;
  /** It is lost; comes back by itself. `code` is 0 where it never opened or was silent. */
  readonly lost: (code: number, wasLive: boolean) => void;
  readonly tell: TellTraffic;
}

/** The token ended; the account is suspended or deleted. */
export const TOKEN_ENDED = 4401;
export const ACCOUNT_ENDED = 4403;
/** A connection without a hello by then is given up. */
const HELLO_MS = 15_000;

export class Live {
  readonly #options: LiveOptions;
  #socket: Socket | undefined;
  #cancelTimer: () => void = () => undefined;
  #failures = 0;
  #running = false;
  /** Counts the attempts, so that a late token opens no second socket. */
  #attempt = 0;
  /** So long nothing may come: two heartbeats. */
  #patience = 0;
  isLive = false;

  constructor(options: LiveOptions) {
    this.#options = options;
  }

  get isPossible(): boolean {
    return this.#options.platform.connect !== undefined;
  }

  start(): void {
    this.#running = this.isPossible;
    if (this.#running) void this.#connect();
  }

  stop(): void {
    this.#running = false;
    this.#drop();
  }

  /** At once: the network may be back, or another one. */
  reconnect(): void {
    if (!this.#running) return;
    this.#failures = 0;
    this.#drop();
    void this.#connect();
  }

  async #connect(): Promise<void> {
    const { platform, baseUrl, token, tell } = this.#options;
    const attempt = ++this.#attempt;
    let socket: Socket | undefined;
    try {
      // A browser sets no headers here, and what is in a URL ends up in logs: the token is a subprotocol.
      const protocols = ['postroom', `bearer.${await token()}`];
      if (attempt !== this.#attempt) return;
      socket = platform.connect?.(`${baseUrl.replace(/^http/, 'ws')}/ws`, protocols);
    } catch {
      // There is no token, or the browser allows no connection to this address.
      if (attempt === this.#attempt) this.#lose(0);
    }
    if (!socket) return;
    this.#socket = socket;
    tell('sent', 'GET /ws');
    this.#listen(HELLO_MS);
    socket.onmessage = ({ data }) => this.#hear(String(data));
    socket.onclose = ({ code }) => {
      tell('received', `closed ${code}`);
      this.#lose(code);
    };
  }

  #hear(text: string): void {
    let event: LiveEvent;
    try {
      event = JSON.parse(text) as LiveEvent;
    } catch {
      return;
    }
    this.#options.tell('received', event.type, event);
    if (event.type === 'hello') {
      this.#failures = 0;
      this.isLive = true;
      this.#patience = 2000 * event.heartbeatSeconds;
    }
    if (!this.isLive) return;
    this.#listen(this.#patience);
    this.#options.heard(event);
  }

  /** Where no heartbeat comes, the network is gone without a word. @param ms so long nothing may come */
  #listen(ms: number): void {
    this.#cancelTimer();
    this.#cancelTimer = this.#options.platform.after(ms, () => this.#lose(0));
  }

  #lose(code: number): void {
    const { platform, lost } = this.#options;
    const wasLive = this.isLive;
    this.#drop();
    const attempt = this.#attempt;
    const wait = pauseAfter(this.#failures++, platform);
    lost(code, wasLive);
    // Whoever was told may have stopped it, or begun anew.
    if (!this.#running || attempt !== this.#attempt) return;
    this.#cancelTimer = platform.after(wait, () => void this.#connect());
  }

  #drop(): void {
    this.#attempt++;
    this.#cancelTimer();
    this.isLive = false;
    const socket = this.#socket;
    this.#socket = undefined;
    if (!socket) return;
    socket.onmessage = null;
    socket.onclose = null;
    socket.close();
  }
}
