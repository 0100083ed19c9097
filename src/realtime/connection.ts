/**
 * One connected client: what it is told, and when it is let go.
 *
 * There may be thousands, so a connection has no timer and no closure of its own, and keeps nothing
 * of the request that it came with.
 */
import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { WebSocket } from 'ws';
import type { MailAccess } from '../accounts/accounts.ts';
import type { AccessChange, Change, Changes } from '../changes/changes.ts';
import { encodeChange } from './messages.ts';

/** Why a connection ends (RFC 6455 section 7.4; 4000 to 4999 are ours to give). */
export const closings = {
  shutdown: { code: 1001, reason: 'the server stops' },
  binary: { code: 1003, reason: 'no binary messages are taken' },
  failed: { code: 1011, reason: 'something failed on our side' },
  behind: { code: 1013, reason: 'too far behind, connect again' },
  unavailable: { code: 1013, reason: 'not available right now' },
  unauthorized: { code: 4401, reason: 'the token is not good any more' },
  expired: { code: 4401, reason: 'the token is expired' },
  inactive: { code: 4403, reason: 'the account is not active' },
} as const;

type Closing = (typeof closings)[keyof typeof closings];

/** Heartbeats that may pass without a pong, or without a full buffer getting empty. */
const BEATS_MISSED_MAX = 2;
/** Mailboxes with a change that waits for a slow client; with more it is better off anew. */
const HELD_MAX = 1_000;

const AS_TEXT = { binary: false };

/** A socket that knows its connection, so that the listeners of all sockets are the same functions. */
export class ClientSocket extends WebSocket {
  connection: Connection | undefined;
}

export class Connection {
  readonly id = randomUUID();
  readonly user: MailAccess;
  /** Where the heartbeat keeps it. */
  slot = 0;
  readonly #socket: ClientSocket;
  readonly #stream: Duplex;
  /**
   * Changes that cannot go out now, the latest of each mailbox: hello comes first, and a client that
   * reads too slowly gets no more than its buffer holds. Undefined when everything goes out at once.
   */
  #held: Map<string, Buffer> | undefined = new Map();
  #congested = false;
  #ending = false;
  #pongsMissed = 0;
  #beatsCongested = 0;

  /** @param stream what the socket writes to */
  constructor(user: MailAccess, socket: ClientSocket, stream: Duplex) {
    this.user = user;
    this.#socket = socket;
    this.#stream = stream;
  }

  /** Sends the first message, then the changes that came meanwhile. */
  greet(hello: Buffer): void {
    if (this.#ending) return;
    const held = this.#held;
    this.#held = undefined;
    this.#send(hello);
    this.#tellAll(held);
  }

  /** Sends a change, or keeps it until it can be sent. */
  tell(mailbox: string, message: Buffer): void {
    if (this.#ending) return;
    if (!this.#held) {
      this.#send(message);
      return;
    }
    this.#held.set(mailbox, message);
    if (this.#held.size > HELD_MAX) this.end(closings.behind);
  }

  /** Starts the closing handshake; the library cuts the connection if the client does not answer. */
  end({ code, reason }: Closing): void {
    if (this.#ending) return;
    this.#ending = true;
    this.#held = undefined;
    this.#socket.close(code, reason);
  }

  /** Cuts the connection. */
  cut(): void {
    this.#ending = true;
    this.#socket.terminate();
  }

  /** Pings; lets go a client that answers no pings or reads nothing. */
  beat(): void {
    if (this.#ending) return;
    if (this.#pongsMissed >= BEATS_MISSED_MAX || this.#beatsCongested >= BEATS_MISSED_MAX) {
      this.cut();
      return;
    }
    // Counted beside the pongs: RFC 6455 section 5.5.3 allows pongs that nobody asked for.
    if (this.#congested) this.#beatsCongested++;
    this.#pongsMissed++;
    this.#socket.ping();
  }

  /** A pong came. */
  answered(): void {
    this.#pongsMissed = 0;
  }

  #send(message: Buffer): void {
    this.#socket.send(message, AS_TEXT);
    // Full: the client's window and the kernel's buffer are, and 64 KiB of ours.
    if (!this.#stream.writableNeedDrain || this.#congested) return;
    this.#congested = true;
    this.#held = new Map();
    this.#stream.once('drain', () => this.#drained());
  }

  #drained(): void {
    const held = this.#held;
    this.#held = undefined;
    this.#congested = false;
    this.#beatsCongested = 0;
    this.#tellAll(held);
  }

  /** On the way the buffer may fill up again: `tell` sees to it. */
  #tellAll(held: Map<string, Buffer> | undefined): void {
    for (const [mailbox, message] of held ?? []) this.tell(mailbox, message);
  }
}

/** How connections end when an account loses its access. */
const closingFor = {
  suspended: closings.inactive,
  deleted: closings.inactive,
  password_reset: closings.unauthorized,
} satisfies Record<AccessChange['reason'], unknown>;

/**
 * The connections of one account, on one subscription: a change is encoded once, however many
 * connections it goes to.
 */
export class AccountFeed {
  /** Open ones, and those whose closing handshake is under way. */
  readonly connections = new Set<Connection>();
  readonly #unsubscribe: () => void;

  constructor(accountId: number, changes: Pick<Changes, 'subscribe'>) {
    this.#unsubscribe = changes.subscribe(accountId, (change) => this.#pass(change));
  }

  stop(): void {
    this.#unsubscribe();
  }

  #pass(change: Change): void {
    if (change.kind === 'access') {
      for (const connection of this.connections) connection.end(closingFor[change.reason]);
      return;
    }
    const message = encodeChange(change);
    for (const connection of this.connections) connection.tell(change.mailbox, message);
  }
}
