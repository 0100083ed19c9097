/**
 * Accepts a mail server's batches of events: checks the signature, reads the lines, leaves out events that came
 * before, finds the accounts, and publishes the changes.
 *
 * Owns `mailserver_events`, a row for each event of the last day (`known-events.ts`).
 *
 * An event is published only after the commit that remembers it. If the process dies in between, the event is known
 * but was not published, and a repetition changes nothing. No app misses it: the process's sockets have ended, and
 * `hello` shows an app that connects again the state of each mailbox. If the database fails in the commit, it is
 * unknown whether the event is remembered: it is published all the same, since an event is a hint that may come
 * twice but must not be lost.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { Changes } from '../changes/changes.ts';
import { EventLines, type MailserverEvent, type RejectedLine } from './event-lines.ts';
import { KnownEvents } from './known-events.ts';

interface MailserverEventsOptions {
  /** The UTF-8 bytes of each are an HMAC key; a batch is signed with one of them. */
  readonly secrets: readonly string[];
  readonly database: Database;
  readonly changes: Pick<Changes, 'publish'>;
  /** Account ids by address as given, without addresses that have no account. */
  findAccounts(addresses: readonly string[]): Promise<ReadonlyMap<string, number>>;
  readonly now?: () => EpochMs;
}

interface BatchOutcome {
  readonly ok: true;
  /** Events that need no repetition, known ones included. */
  readonly accepted: number;
  /** The first of the other lines; left out where there are none. */
  readonly rejected?: readonly RejectedLine[];
}

/** The most rejected lines that an answer lists. */
const LISTED_MAX = 1_000;
/** The most of these that a refusal of the whole batch lists. */
const ERRORS_MAX = 100;

const SIGNATURE = /^[\da-f]{64}$/i;

/** Whether a text can be a signature: hex, in either case, of 32 bytes. */
export function isSignature(text: unknown): text is string {
  return typeof text === 'string' && SIGNATURE.test(text);
}

export class MailserverEvents {
  readonly #options: MailserverEventsOptions;
  readonly #known: KnownEvents;

  constructor(options: MailserverEventsOptions) {
    this.#options = options;
    this.#known = new KnownEvents(options.database, options.now ?? Date.now);
  }

  /** Whether the signature is the hex HMAC-SHA256 of the body's bytes by one of the keys; in constant time. */
  verify(body: Uint8Array, signature: string): boolean {
    if (!isSignature(signature)) return false;
    const given = Buffer.from(signature, 'hex');
    return this.#options.secrets.some((secret) => {
      const expected = createHmac('sha256', secret).update(body).digest();
      return timingSafeEqual(expected, given);
    });
  }

  /**
   * Accepts the events of a batch with a valid signature: each new one is remembered, then published. A large batch is
   * split into slices, one transaction each, with turns of the event loop in between.
   *
   * @throws Refusal invalid_request where no line is an event
   */
  async take(body: Buffer): Promise<BatchOutcome> {
    const lines = new EventLines(body);
    const rejected: RejectedLine[] = [];
    const reject = (more: readonly RejectedLine[]) => {
      if (rejected.length < LISTED_MAX)
        rejected.push(...more.slice(0, LISTED_MAX - rejected.length));
    };
    let events = 0;
    let accepted = 0;
    for (let slice = lines.next(); slice; slice = lines.next()) {
      reject(slice.rejected);
      events += slice.events.length;
      if (slice.events.length > 0) {
        const { taken, strangers } = await this.#takeSlice(slice.events);
        accepted += taken;
        reject(strangers);
      }
      if (lines.hasMore) await turn();
    }
    if (events === 0) throw noEvents(rejected);
    if (rejected.length === 0) return { ok: true, accepted };
    return { ok: true, accepted, rejected: rejected.sort((a, b) => a.line - b.line) };
  }

  async #takeSlice(events: readonly MailserverEvent[]) {
    const users = new Set<string>();
    for (const { user } of events) users.add(user);
    const accounts = await this.#options.findAccounts([...users]);
    const strangers: RejectedLine[] = [];
    const known = events.filter(({ line, eventId, user }) => {
      if (accounts.has(user)) return true;
      const reason = 'user is not the address of an account';
      strangers.push({ line, event_id: eventId, reason });
      return false;
    });
    if (known.length > 0) {
      const { fresh, failure } = await this.#known.add(known.map(({ eventId }) => eventId));
      const untold = new Set(fresh);
      for (const event of known) {
        const accountId = accounts.get(event.user);
        // Of repetitions in one slice, the first is published.
        if (accountId !== undefined && untold.delete(event.eventId)) this.#tell(accountId, event);
      }
      if (failure !== undefined) throw failure;
    }
    return { taken: known.length, strangers };
  }

  #tell(accountId: number, event: MailserverEvent): void {
    const { mailbox, uidvalidity, highestmodseq, eventType } = event;
    this.#options.changes.publish({
      kind: 'mailbox',
      accountId,
      // RFC 3501 section 5.1: INBOX is one mailbox in any case.
      mailbox: mailbox.length === 5 && mailbox.toUpperCase() === 'INBOX' ? 'INBOX' : mailbox,
      uidvalidity,
      token: highestmodseq,
      eventType,
    });
  }
}

function noEvents(rejected: readonly RejectedLine[]): Refusal {
  return new Refusal('invalid_request', 'no line of the body is an event', {
    errors: rejected
      .slice(0, ERRORS_MAX)
      .map(({ line, reason }) => ({ field: `line ${line}`, message: reason })),
  });
}
