/**
 * Accepts a mail server's batches of events: checks the signature, reads the lines, leaves out events that came
 * before, finds the accounts, and publishes the changes.
 *
 * Owns `mailserver_events`, a row for each event of the last day.
 *
 * An event is published only after the commit that remembers it. If the process dies in between, the event is known
 * but was not published, and a repetition changes nothing. No app misses it: the process's sockets have ended, and
 * `hello` shows an app that connects again the state of each mailbox. If the database fails in the commit, it is
 * unknown whether the event is remembered: it is published all the same, since an event is a hint that may come
 * twice but must not be lost.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { DAY_MS, type EpochMs } from '../../platform/time/time.ts';
import type { Changes } from '../changes/changes.ts';
import { EventLines, type MailserverEvent, type RejectedLine } from './event-lines.ts';

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

  constructor(options: MailserverEventsOptions) {
    this.#options = options;
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
    const { database, findAccounts, now = Date.now } = this.#options;
    const accounts = await findAccounts([...new Set(events.map(({ user }) => user))]);
    const strangers: RejectedLine[] = [];
    const known = events.filter(({ line, eventId, user }) => {
      if (accounts.has(user)) return true;
      const reason = 'user is not the address of an account';
      strangers.push({ line, event_id: eventId, reason });
      return false;
    });
    if (known.length > 0) {
      const ids = known.map(({ eventId }) => eventId);
      const { fresh, failure } = await rememberEvents(database, ids, now());
      for (const event of known) {
        const accountId = accounts.get(event.user);
        // Of repetitions in one slice, the first is published.
        if (accountId !== undefined && fresh.delete(event.eventId)) this.#tell(accountId, event);
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

/** Old rows removed for each new one, so that the table hardly grows beyond one day. */
const REMOVED_FOR_EACH = 2;

interface AddedEvents {
  /** Events that were not known before. */
  readonly fresh: Set<string>;
  /**
   * The error of a failed database. Then it is unknown whether the fresh events are remembered, since the connection
   * may have been lost after the commit.
   */
  readonly failure?: unknown;
}

/**
 * Remembers events for a day in the table `mailserver_events`, one row for each; repetitions among them are allowed. Older
 * rows are removed in the same transactions that add new ones.
 */
export async function rememberEvents(
  database: Database,
  eventIds: readonly string[],
  now: EpochMs,
): Promise<AddedEvents> {
  // Sorted, so that batches with the same events cannot deadlock.
  const ids = JSON.stringify([...new Set(eventIds)].sort());
  // The one place where the engines unpack an array differently.
  const each =
    database.engine === 'sqlite'
      ? sql`json_each(${ids})`
      : sql`jsonb_array_elements_text(${ids}::jsonb) as ids (value)`;
  let fresh = new Set<string>();
  try {
    await database.write(async (tx) => {
      // A write may run again.
      fresh = new Set();
      const { rows } = await sql<{ event_id: string }>`
        insert into mailserver_events (event_id, received_at)
        select value, cast(${now} as bigint) from ${each} where true
        on conflict (event_id) do update set received_at = excluded.received_at
          where mailserver_events.received_at <= ${now - DAY_MS}
        returning event_id`.execute(tx);
      const old = tx
        .selectFrom('mailserver_events')
        .select('event_id')
        .where('received_at', '<=', now - DAY_MS)
        .orderBy('received_at')
        .limit(REMOVED_FOR_EACH * eventIds.length)
        // Another node may be removing the same rows.
        .forUpdate()
        .skipLocked();
      await tx.deleteFrom('mailserver_events').where('event_id', 'in', old).execute();
      fresh = new Set(rows.map(({ event_id }) => event_id));
    });
    return { fresh };
  } catch (failure) {
    return { fresh, failure };
  }
}
