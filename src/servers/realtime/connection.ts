/**
 * One connected client: which messages it gets, and when its connection ends.
 *
 * There may be thousands, so a connection has no timer of its own, and keeps nothing of its request.
 */
import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type {
  AccessChange,
  AccountChange,
  Changes,
  MailboxChange,
} from '../../mailboxes/changes/changes.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { AccountAccess, MailAccess } from '../../tenants/accounts/accounts.ts';

/** The codes and reasons of a close (RFC 6455 section 7.4; 4000 to 4999 are free for applications). */
export const closings = {
  shutdown: { code: 1001, reason: 'the server stops' },
  binary: { code: 1003, reason: 'binary messages are not accepted' },
  flood: { code: 1008, reason: 'too many messages' },
  failed: { code: 1011, reason: 'something failed on our side' },
  behind: { code: 1013, reason: 'too far behind, connect again' },
  unavailable: { code: 1013, reason: 'not available right now' },
  unauthorized: { code: 4401, reason: 'the token is not valid any more' },
  expired: { code: 4401, reason: 'the token is expired' },
  inactive: { code: 4403, reason: 'the account is not active' },
} as const;

type Closing = (typeof closings)[keyof typeof closings];

/** Heartbeats that may pass without a pong, or without the buffer becoming empty. */
const BEATS_MISSED_MAX = 2;
/** Messages, pings and pongs that a client may send from one heartbeat to the next; it has to send one pong. */
const HEARD_MAX = 100;
/** The most mailboxes whose change waits for a slow client; above this it has to connect again. */
const HELD_MAX = 1_000;

const AS_TEXT = { binary: false };
/** Beside each ping, for browsers, which hide pings: one to which none comes any more has lost the network. */
const HEARTBEAT = encode({ type: 'heartbeat' });

export class Connection {
  readonly id = randomUUID();
  readonly user: MailAccess;
  /** Of the heartbeat, since it came. */
  ticks = 0;
  readonly #socket: WebSocket;
  readonly #stream: Duplex;
  /**
   * Changes that cannot be sent now, the latest of each mailbox: hello comes first, and a client that reads too slowly
   * gets no more than its buffer holds. Undefined when everything is sent at once.
   */
  #held: Map<string, Buffer> | undefined = new Map();
  #congested = false;
  #ending = false;
  #pongsMissed = 0;
  /** What came since the last heartbeat. */
  #heard = 0;
  #beatsCongested = 0;

  /** @param stream that the socket writes to */
  constructor(user: MailAccess, socket: WebSocket, stream: Duplex) {
    this.user = user;
    this.#socket = socket;
    this.#stream = stream;
  }

  /**
   * Sends the first message, then the changes that came meanwhile. A client that was away sees at once which of its
   * mailboxes are out of date.
   */
  greet(now: EpochMs, heartbeatSeconds: number, mailboxes: readonly MailboxTip[]): void {
    if (this.#ending) return;
    const held = this.#held;
    this.#held = undefined;
    const hello = {
      type: 'hello',
      user: this.user.address,
      connectionId: this.id,
      serverTime: new Date(now).toISOString(),
      heartbeatSeconds,
      mailboxes: mailboxes.map(({ mailbox, mailboxId, uidvalidity, token }) => ({
        mailbox,
        ...(mailboxId !== undefined && { mailboxId }),
        uidvalidity,
        token,
      })),
    };
    this.#send(encode(hello));
    this.#sendHeld(held);
  }

  /** Sends a change, or holds it until it can be sent. */
  sendChange(mailbox: string, message: Buffer): void {
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

  cut(): void {
    this.#ending = true;
    this.#socket.terminate();
  }

  /** Sends a ping, and to browsers a heartbeat; ends the connection of a client that does not answer pings or does not read. */
  beat(): void {
    this.#heard = 0;
    if (this.#ending) return;
    if (this.#pongsMissed >= BEATS_MISSED_MAX || this.#beatsCongested >= BEATS_MISSED_MAX) {
      this.cut();
      return;
    }
    // Counted separately from pongs: RFC 6455 section 5.5.3 allows pongs without a ping.
    if (this.#congested) this.#beatsCongested++;
    this.#pongsMissed++;
    this.#socket.ping();
    // Only browsers need the subprotocols.
    if (this.#socket.protocol !== '' && !this.#held) this.#send(HEARTBEAT);
  }

  /** A message, a ping or a pong came. A client that sends too many is cut off: it could send them faster than they are read. */
  heard(): void {
    if (++this.#heard <= HEARD_MAX) return;
    this.end(closings.flood);
    this.cut();
  }

  /** A pong came. */
  answered(): void {
    this.#pongsMissed = 0;
  }

  #send(message: Buffer): void {
    this.#socket.send(message, AS_TEXT);
    // Then the client's window, the kernel's buffer, and 64 KiB of ours are full.
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
    this.#sendHeld(held);
  }

  /** The buffer may fill up again meanwhile; `sendChange` checks that for each one. */
  #sendHeld(held: Map<string, Buffer> | undefined): void {
    for (const [mailbox, message] of held ?? []) this.sendChange(mailbox, message);
  }
}

/** The close for each reason why an account loses its access. */
const closingFor = {
  suspended: closings.inactive,
  deleted: closings.inactive,
  password_reset: closings.unauthorized,
} satisfies Record<AccessChange['reason'], unknown>;

/** The connections of one account, on one subscription: a change is encoded once for all of them. */
export class AccountFeed {
  /** Open ones, and those that are closing. */
  readonly connections = new Set<Connection>();
  readonly #unsubscribe: () => void;
  /** The state of each mailbox that was last sent, from the first hello on. */
  #sent: Map<string, string> | undefined;
  /** Mailboxes whose change was sent since the resync began. */
  readonly #sentMeanwhile = new Set<string>();

  constructor(accountId: number, changes: Pick<Changes, 'subscribe'>) {
    this.#unsubscribe = changes.subscribe(accountId, (change) => this.#pass(change));
  }

  stop(): void {
    this.#unsubscribe();
  }

  /** Remembers the states of the first hello, for {@link AccountFeed.sendMissed}. */
  remember(tips: readonly MailboxTip[]): void {
    this.#sent ??= new Map(tips.map((tip) => [tip.mailbox, stateOf(tip)]));
  }

  /** Called before the state of the account is read. @returns the account */
  beginResync(): MailAccess | undefined {
    this.#sentMeanwhile.clear();
    const [first] = this.connections;
    return first?.user;
  }

  /** @param access undefined where the account was deleted */
  endUnlessAllowed(access: AccountAccess | undefined): void {
    for (const connection of this.connections) {
      if (access?.status !== 'active') connection.end(closings.inactive);
      // A version newer than the one that was read may have come meanwhile.
      else if (connection.user.credentialVersion < access.credentialVersion) {
        connection.end(closings.unauthorized);
      }
    }
  }

  /** Sends every mailbox whose state differs from the last one sent. */
  sendMissed(tips: readonly MailboxTip[]): void {
    const sent = this.#sent;
    if (!sent) return;
    const names = new Set(tips.map(({ mailbox }) => mailbox));
    const isSameList = names.size === sent.size && tips.every(({ mailbox }) => sent.has(mailbox));
    for (const mailbox of sent.keys()) if (!names.has(mailbox)) sent.delete(mailbox);
    for (const tip of tips) {
      if (sent.get(tip.mailbox) === stateOf(tip) || this.#sentMeanwhile.has(tip.mailbox)) continue;
      const { mailbox, uidvalidity, token } = tip;
      sent.set(mailbox, stateOf(tip));
      const eventType = 'MailboxesChanged';
      this.#sendToAll(mailbox, encodeChange({ mailbox, uidvalidity, token, eventType }));
    }
    if (!isSameList) this.#sendToAll(THE_LIST, encode({ type: 'mailboxes_changed' }));
  }

  #pass(change: AccountChange): void {
    if (change.kind === 'access') {
      for (const connection of this.connections) connection.end(closingFor[change.reason]);
    } else if (change.kind === 'mailboxes') {
      this.#sendToAll(THE_LIST, encode({ type: 'mailboxes_changed' }));
    } else if (change.kind === 'mailbox') {
      if (this.#sent) {
        this.#sent.set(change.mailbox, stateOf(change));
        this.#sentMeanwhile.add(change.mailbox);
      }
      this.#sendToAll(change.mailbox, encodeChange(change));
    }
  }

  #sendToAll(about: string, message: Buffer): void {
    for (const connection of this.connections) connection.sendChange(about, message);
  }
}

/** Stands for the list: no mailbox has an empty name. Of several changes of the list one is sent, as for mailboxes. */
const THE_LIST = '';

function stateOf({ uidvalidity, token }: Pick<MailboxTip, 'uidvalidity' | 'token'>): string {
  return `${uidvalidity} ${token}`;
}

/*
 * The messages that clients get: the JSON of contract section 6, as UTF-8.
 */

/** The state of a mailbox: the token is the one that a sync would return now. */
export interface MailboxTip {
  readonly mailbox: string;
  /** Kept over a rename; absent on a mail server. */
  readonly mailboxId?: string;
  readonly uidvalidity: string;
  readonly token: string;
}

/** The message that a mailbox has changed. */
function encodeChange({
  mailbox,
  uidvalidity,
  token,
  eventType,
}: Omit<MailboxChange, 'kind' | 'accountId'>): Buffer {
  return encode({ type: 'mailbox_changed', mailbox, uidvalidity, token, eventType });
}

function encode(message: object): Buffer {
  return Buffer.from(JSON.stringify(message));
}

/**
 * All connections, on one timer of about a second. Each is pinged some ticks after it came, so that the heartbeat of
 * thousands is no burst, and is ended once its token has expired: a token may be valid for years, which a timer of its own
 * could not count (2^31 ms at most).
 */
export class Heartbeat {
  readonly #connections = new Set<Connection>();
  readonly #ticks: number;
  readonly #tickMs: number;
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;

  /** @param seconds between two pings of the same connection */
  constructor(seconds: number, now: () => number) {
    this.#ticks = Math.max(1, Math.floor(seconds));
    this.#tickMs = (seconds / this.#ticks) * 1000;
    this.#now = now;
  }

  get size(): number {
    return this.#connections.size;
  }

  add(connection: Connection): void {
    this.#connections.add(connection);
    // The timer must not keep the process running; the server's socket does.
    this.#timer ??= setInterval(() => this.#tick(), this.#tickMs).unref();
  }

  remove(connection: Connection): void {
    this.#connections.delete(connection);
    if (this.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  [Symbol.iterator](): Iterator<Connection> {
    return this.#connections.values();
  }

  #tick(): void {
    const now = this.#now();
    for (const connection of this.#connections) {
      if (connection.user.expiresAt <= now) connection.end(closings.expired);
      else if (++connection.ticks % this.#ticks === 0) connection.beat();
    }
  }
}
