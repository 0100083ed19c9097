/**
 * Our own mailboxes: they take a message in the transaction that accepts it, or that ends its delivery; on PostgreSQL a
 * plain one in one statement.
 */

import { type RawBuilder, sql } from 'kysely';
import { type Bodies, bodyColumns } from '../../mailboxes/bodies/bodies.ts';
import { type Changes, mailboxChange } from '../../mailboxes/changes/changes.ts';
import {
  type Advanced,
  advanceByName,
  describeStored,
  type EmbeddedMailstore,
  type PlainMessage,
  plainColumns,
  type Quotas,
  quotaExceeded,
} from '../../mailboxes/mailstore/mailstore.ts';
import { ownTerms, searchQueueColumns } from '../../mailboxes/search/search.ts';
import {
  type Database,
  insertFrom,
  type NewRow,
  PreparedQuery,
  type Queries,
} from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import {
  type EventType,
  eventData,
  insertAccountEvent,
  writeEvents,
} from '../../tenants/events/events.ts';
import {
  type Addition,
  additionAfter,
  additionOf,
  countAccountDay,
  countAccountHour,
} from '../../tenants/usage/usage.ts';
import type { NotedReport } from '../outbound/outbound.ts';
import type { Job } from '../queue/queue.ts';
import { type Trace, traceColumns } from '../trace/trace.ts';
import type { MailboxPayload } from './kinds.ts';
import {
  type MailboxAttempt,
  type MailboxStorage,
  type MailboxTarget,
  type MailToStore,
  mailToStore,
  NOTHING_STORED,
  type PreparedStoring,
  type StoredMail,
  type StoringOptions,
} from './mailbox-storage.ts';
import type { AcceptedMail, QueuedMail } from './queue-mail.ts';
import { receivedData, receivedEvent, receivedEvents, storedIn, usageOf } from './record-mail.ts';
import type { DeliveryPlan, ResolvedRecipient } from './resolve-recipient.ts';

export interface OwnMailboxesOptions {
  readonly mailstore: Pick<EmbeddedMailstore, 'quotas' | 'line'> & {
    readonly writer: Pick<EmbeddedMailstore['writer'], 'append' | 'plain'>;
  };
  readonly bodies: Pick<Bodies, 'get' | 'read'>;
  /** Publishes a change once it is committed. */
  readonly changes: Pick<Changes, 'publish'>;
  readonly now?: () => EpochMs;
}

export class OwnMailboxes implements MailboxStorage {
  readonly quotas: Quotas;
  readonly #options: OwnMailboxesOptions;

  constructor(options: OwnMailboxesOptions) {
    this.#options = options;
    this.quotas = options.mailstore.quotas;
  }

  async prepare(
    mail: MailToStore,
    targets: readonly MailboxTarget[],
    { limited = new Set() }: StoringOptions,
  ): Promise<PreparedStoring> {
    if (targets.length === 0) return NOTHING;
    const { mailstore, changes, now = Date.now } = this.#options;
    const { id, describe } = mail;
    // The texts are in memory before the transaction: no other write waits for a file.
    const texts = await describe();
    const [target, ...others] = targets;
    const message =
      target && others.length + limited.size === 0
        ? mailstore.writer.plain(texts, target)
        : undefined;
    const afterCommit = (mailbox: Advanced) => {
      if (target) changes.publish(mailboxChange(target.user, mailbox, mailbox.highestmodseq));
    };
    const accountIds = targets.map(({ user }) => user.accountId);
    return {
      inLine: (write) => mailstore.line.run(accountIds, write),
      plain: message && target && { message, texts, target, afterCommit },
      commit: async (tx, keepBody) => {
        const full = await this.quotas.findFull(tx, [...limited], texts.size);
        const refused = new Map([...full].map((accountId) => [accountId, quotaExceeded()]));
        const fitting = targets.filter(({ user }) => !full.has(user.accountId));
        const appended =
          fitting.length === 0
            ? []
            : await mailstore.writer.append(tx, { ...texts, bodyId: await keepBody() }, fitting);
        for (const { user } of fitting) {
          // The account was deleted after it was resolved.
          if (!appended.some((one) => one.user === user)) refused.set(user.accountId, gone());
        }
        const events = appended.map(({ user, uid, change: { mailbox } }) =>
          receivedEvent(mail, user, texts, { mailbox, uid }),
        );
        await writeEvents(tx, events, now());
        return {
          refused,
          traced: appended.map(({ user, uid, change: { mailbox } }) =>
            storedIn(id, user, { mailbox, uid }),
          ),
          locations: appended.map(({ user: { address }, uid, change: { mailbox } }) => {
            return { address, mailbox, uid };
          }),
          namesBody: appended.length > 0,
          afterCommit() {
            for (const { change } of appended) changes.publish(change);
          },
        };
      },
    };
  }

  /** For deliveries that were queued for a mail server which is no longer used, and failed ones that an operator retries. */
  async attempt({ bodyId, payload }: Job<MailboxPayload>): Promise<MailboxAttempt> {
    const { bodies } = this.#options;
    const { user, recipient, mailbox, origin } = payload;
    const body = await bodies.get(bodyId);
    const mail = mailToStore(origin, body, () => describeStored(bodies, body));
    const target = { user, recipient, mailbox, internalDate: origin.receivedAt };
    return {
      result: 'delivered',
      storing: await this.prepare(mail, [target], { answers: 'none' }),
    };
  }
}

/** For a message without a mailbox here, which is only queued: nothing of it is read. */
const NOTHING: PreparedStoring = { commit: async () => NOTHING_STORED };

function gone(): Refusal {
  return new Refusal('account_not_found', 'there is no such account any more');
}

/*
 * The plain message in one statement, on PostgreSQL: for one mailbox of ours without a quota, with a Message-ID and no
 * references, of which nothing is queued, and which reports no bounce. Such a message pays one round trip in place of
 * eight. All other mail, and a mailbox that is not there yet, takes the transaction of `delivery.ts`.
 *
 * The rows are those of the transaction: each folder says which columns its rows have, for both. The mailbox advances
 * first and everything else reads from it, so locks are taken in the same order (mailbox, then usage), and nothing is
 * written where there is no such mailbox.
 *
 * Crashes: as with the transaction, all of it is there or nothing. A connection that is lost before the answer leaves
 * the sender without its 250: it sends again.
 */

/** What to do with a message whose recipients are resolved. */
export interface Routed {
  readonly recipients: readonly ResolvedRecipient[];
  readonly plan: DeliveryPlan;
  readonly storing: PreparedStoring;
  readonly queued: readonly QueuedMail[];
  readonly report: ((tx: Queries) => Promise<NotedReport>) | undefined;
}

/** What the transaction that accepts a message has done. */
export interface Accepted extends Pick<StoredMail, 'refused' | 'afterCommit'> {
  /** Whether something names the body now. */
  readonly keepsBody: boolean;
}

export interface OneStatementOptions {
  readonly database: Pick<Database, 'read' | 'timeline' | 'atOnce' | 'notices'>;
  readonly now?: () => EpochMs;
  readonly bodies: Pick<Bodies, 'rowOf'>;
  readonly trace?: Pick<Trace, 'isOn' | 'rowsOf'> | undefined;
}

const RECEIVED = 'message.received' satisfies EventType;

/** Stands in the trace for the UID, which is known only in the statement. */
const UID = '#';

/** The columns of all rows that the statement writes; of two rows that have `size`, it is the same. */
type Values = PlainMessage &
  NewRow<'bodies'> &
  NewRow<'trace'> &
  Omit<Addition, 'id'> & {
    /** The data of its event, as JSON, and the time of the event. */
    readonly told: string;
    readonly toldAt: EpochMs;
    /** What is indexed of it, and its date: null where it is still to be read. */
    readonly terms: string | null;
    readonly termsDate: EpochMs | null;
  };

/** The mailbox, and whose it is: nobody's where the domain was deleted meanwhile. The message is stored all the same. */
type Stored = Advanced & { readonly userId: string | null };

export class OneStatement {
  readonly #options: OneStatementOptions;
  readonly #query: PreparedQuery<Values, Stored>;

  constructor(options: OneStatementOptions) {
    this.#options = options;
    const { database, trace } = options;
    this.#query = new PreparedQuery((value) => statement(database, value, trace?.isOn === true));
  }

  /** Accepts a plain message; undefined where it is none, or has no mailbox yet: then nothing was written. */
  async accept(mail: AcceptedMail, routed: Routed): Promise<Accepted | undefined> {
    const { recipients, plan, storing, queued, report } = routed;
    const { database, bodies, trace, now = Date.now } = this.#options;
    const { plain } = storing;
    const [recipient] = recipients;
    const [counted] = usageOf(plan, mail.message.parsed.size, new Set());
    if (!database.atOnce || !plain || report || queued.length > 0) return undefined;
    if (recipients.length > 1 || !recipient || !counted) return undefined;
    const { message, texts, target, afterCommit } = plain;
    const stored = storedIn(mail.envelope.id, target.user, { mailbox: message.name, uid: UID });
    const rows = trace?.rowsOf([...receivedEvents(mail, [recipient.forwardPath]), stored]) ?? [];
    if (rows.length > 1) return undefined;
    const { id: _, ...amounts } = additionOf(counted, mail.receivedAt);
    // Where nothing is traced, no value of the trace is read.
    const told = eventData(receivedData(mail.envelope, target.user, texts));
    const kept = { ...rows[0], ...bodies.rowOf(mail.message.body), ...amounts, ...message };
    const values = { ...kept, told, toldAt: now(), ...queuedTerms(mail, message) };
    const mailbox = await this.#query.first(database.atOnce, values as Values);
    if (!mailbox) return undefined;
    return {
      refused: new Map(),
      keepsBody: true,
      afterCommit() {
        afterCommit(mailbox);
        if (mailbox.userId !== null) database.notices.tell([mailbox.userId]);
      },
    };
  }
}

function queuedTerms(
  { message: { terms } }: AcceptedMail,
  { accountId, internal_date }: PlainMessage,
): Pick<Values, 'terms' | 'termsDate'> {
  if (terms === undefined) return { terms: null, termsDate: null };
  return { terms: ownTerms(terms, accountId), termsDate: internal_date };
}

function statement(
  database: Pick<Database, 'read' | 'timeline'>,
  value: Values,
  isTraced: boolean,
): RawBuilder<Stored> {
  const uid = sql`advanced.uidnext - 1`;
  const message = plainColumns(value, 'advanced', 'body');
  // The sender's texts are in other columns: this one has only the name of the mailbox.
  const more = sql`replace(${value.more}, ${sql.lit(`UID ${UID}`)}, 'UID ' || ${uid})`;
  const traced = insertFrom(
    'trace',
    { ...traceColumns((column) => value[column]), more },
    'advanced',
  );
  const searchEntry = {
    ...searchQueueColumns({ accountId: value.accountId, bodyId: 0 }),
    body_id: sql`body.id`,
    terms: value.terms,
    date: value.termsDate,
  };
  const event = insertAccountEvent(
    {
      accountId: value.accountId,
      type: RECEIVED,
      mailbox: value.name,
      uid,
      data: value.told,
      at: value.toldAt,
    },
    sql`, advanced`,
  );
  const counted = additionAfter(value, value.accountId, 'advanced');
  return sql<Stored>`
    with advanced as (${advanceByName(database, value)}),
    body as (${insertFrom('bodies', bodyColumns(value), 'advanced')} returning id),
    message as (${insertFrom('messages', message, 'advanced, body')}),
    search_entry as (${insertFrom('search_queue', searchEntry, 'body')}),
    ${isTraced ? sql`traced as (${traced}),` : sql``}
    event as (${event}),
    counted as (${countAccountDay(counted)}),
    counted_hour as (${countAccountHour(counted)})
    select advanced.*, (select user_id from event) as "userId" from advanced`;
}
