/** Appends messages within the caller's transaction: one MODSEQ for each mailbox. */
import { type RawBuilder, sql } from 'kysely';
import {
  type Database,
  type NewRow,
  PreparedQuery,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { mailboxChange } from '../changes/changes.ts';
import { enqueueAdded } from '../search/search.ts';
import { hasKeyword, keepKeywords, type Mailboxes, mailboxColumns } from './mailboxes.ts';
import type { OpaqueIds } from './opaque-ids.ts';
import { findThread, plainThread, type ThreadColumns } from './stage-message.ts';
import type { Appended, AppendTarget, MailboxRow, MessageTexts } from './store.ts';
import { canonicalLevels, flagsToText } from './syntax.ts';

/** A message to be appended; its body is stored already. */
export interface AppendedMessage extends MessageTexts {
  readonly bodyId: number;
}

export interface MessageWriterOptions {
  readonly database: Database;
  readonly mailboxes: Mailboxes;
  readonly ids: OpaqueIds;
  readonly now: () => number;
}

/** The columns of a new row. */
function messageColumns(value: NewRow<'messages'>) {
  return {
    mailbox_id: value.mailbox_id,
    uid: value.uid,
    created_modseq: value.created_modseq,
    modseq: value.modseq,
    flags: value.flags,
    size: value.size,
    internal_date: value.internal_date,
    body_id: value.body_id,
    envelope: value.envelope,
    structure: value.structure,
    preview: value.preview,
    has_attachment: value.has_attachment,
    thread_id: value.thread_id,
    message_key: value.message_key,
    saved_at: value.saved_at,
  };
}

/** Compiled once: it runs for every recipient of a message. */
const insertMessage = new PreparedQuery((value: NewRow<'messages'>, queries) =>
  queries.insertInto('messages').values(messageColumns(value)),
);

/** A row but for what its mailbox and its body give it. */
export type Unplaced = Omit<
  NewRow<'messages'>,
  'mailbox_id' | 'uid' | 'created_modseq' | 'modseq' | 'body_id'
>;

/** The values of a statement that advances a mailbox and stores a message in it. */
export type PlainMessage = Unplaced & NamedAdvance;

/** The columns of its row, by the names of what the statement reads its mailbox and its body from. */
export function plainColumns(value: PlainMessage, mailbox: string, body: string) {
  const modseq = sql.ref(`${mailbox}.highestmodseq`);
  return {
    ...messageColumns(value as PlainMessage & NewRow<'messages'>),
    mailbox_id: sql.ref(`${mailbox}.id`),
    body_id: sql.ref(`${body}.id`),
    uid: sql`${sql.table(mailbox)}.uidnext - 1`,
    created_modseq: modseq,
    modseq,
  };
}

function unplaced(
  { size, envelope, structure, preview, hasAttachment }: MessageTexts,
  thread: ThreadColumns,
  { flags = [], internalDate }: AppendTarget,
  now: number,
): Unplaced {
  return {
    size,
    envelope,
    structure,
    preview,
    has_attachment: hasAttachment ? 1 : 0,
    ...thread,
    flags: flagsToText(flags),
    internal_date: internalDate ?? now,
    saved_at: now,
  };
}

function stepsOf({ size }: MessageTexts, { flags = [] }: AppendTarget) {
  return { messages: 1, unseen: flags.includes('\\Seen') ? 0 : 1, octets: size };
}

export class MessageWriter {
  readonly #mailboxes: Mailboxes;
  readonly #ids: OpaqueIds;
  readonly #now: () => number;
  readonly #advance: MailboxAdvance;
  readonly #hasStatement: boolean;

  constructor({ database, mailboxes, ids, now }: MessageWriterOptions) {
    this.#advance = new MailboxAdvance(database);
    this.#hasStatement = database.atOnce !== undefined;
    this.#mailboxes = mailboxes;
    this.#ids = ids;
    this.#now = now;
  }

  /**
   * What a single statement needs to add a message to a mailbox that is there, in place of {@link append}: undefined
   * where the thread of the message has to be looked up, it has keywords, or the database has no such statements.
   */
  plain(texts: MessageTexts, target: AppendTarget): PlainMessage | undefined {
    if (!this.#hasStatement) return undefined;
    const { user, mailbox } = target;
    const thread = plainThread(user.accountId, texts.thread);
    if (!thread || hasKeyword(target.flags ?? [])) return undefined;
    return {
      ...unplaced(texts, thread, target, this.#now()),
      ...stepsOf(texts, target),
      uids: 1,
      accountId: user.accountId,
      name: canonicalLevels(mailbox),
    };
  }

  /**
   * Adds one message to every target, in the transaction of the caller, who publishes the changes after the
   * commit. Targets whose account was deleted are skipped.
   *
   * @param message its texts, and the body that the transaction has stored
   */
  async append(
    tx: Queries,
    message: AppendedMessage,
    targets: readonly AppendTarget[],
  ): Promise<Appended[]> {
    const { bodyId, thread } = message;
    const now = this.#now();
    const otherName = () => this.#ids.nameBody(bodyId);
    const appended: Appended[] = [];
    // All writers use the same order, so two messages to the same two mailboxes cannot deadlock.
    for (const target of targets.toSorted((a, b) => a.user.accountId - b.user.accountId)) {
      const { user } = target;
      const advanced = await this.#advanceOf(tx, target, stepsOf(message, target));
      if (!advanced) continue;
      const { mailbox, uid, modseq } = advanced;
      const columns = await findThread(tx, user.accountId, thread, otherName);
      const placed = {
        body_id: bodyId,
        mailbox_id: mailbox.id,
        uid,
        created_modseq: modseq,
        modseq,
      };
      const flags = target.flags && (await keepKeywords(tx, mailbox.id, target.flags));
      const own = unplaced(message, columns, flags ? { ...target, flags } : target, now);
      await insertMessage.all(tx, { ...own, ...placed });
      appended.push({ user, uid, change: mailboxChange(user, mailbox, modseq) });
    }
    const accounts = new Set(appended.map(({ user }) => user.accountId));
    for (const accountId of accounts) await enqueueAdded.all(tx, { accountId, bodyId });
    return appended;
  }

  /** Advances the counters of a target's mailbox, and creates the mailbox if it is missing. */
  async #advanceOf(
    tx: Queries,
    { user, mailbox }: AppendTarget,
    steps: ReturnType<typeof stepsOf>,
  ) {
    const { accountId } = user;
    const name = canonicalLevels(mailbox);
    const next = () => this.#advance.nextOf(tx, { accountId, name, ...steps });
    return (await next()) ?? ((await this.#mailboxes.makeDefaults(tx, user)) ? next() : undefined);
  }
}

/* Advances the counters of a mailbox: its next UIDs and MODSEQ, and what it holds. */

/** By how much to advance the counters of a mailbox. */
interface Steps {
  /** New UIDs. */
  readonly uids: number;
  readonly messages: number;
  readonly unseen: number;
  readonly octets: number;
}

export interface Advance extends Steps {
  readonly mailboxId: number;
}

/** The same for a mailbox that is known only by its name. */
interface NamedAdvance extends Steps {
  readonly accountId: number;
  readonly name: string;
}

/**
 * MODSEQs of one history of the server. A failover may lose the last changes, which apps have seen. The first change
 * after it gets the first MODSEQ of the next span, so that no lost MODSEQ is ever given again: {@link isSurviving}
 * tells them apart.
 */
const SPAN = 2 ** 32;
/** UIDs that are skipped at the same time: apps may have kept messages under the lost ones. */
const UIDS_PASSED = 65_536;

/** Whether the state that a token stands for was not lost in a failover. */
export function isSurviving(mailbox: MailboxRow, modseq: number): boolean {
  const { highestmodseq, fork_modseq } = mailbox;
  const span = Math.floor(modseq / SPAN);
  if (span === Math.floor(highestmodseq / SPAN)) return true;
  return span === Math.floor(fork_modseq / SPAN) && modseq <= fork_modseq;
}

/** The counters of a mailbox, advanced in its current history or moved to a new one. */
function forkAware(timeline: RawBuilder<number>, uids: number) {
  const isSameHistory = sql`timeline in (0, ${timeline})`;
  return {
    timeline,
    fork_modseq: sql<number>`case when ${isSameHistory} then fork_modseq else highestmodseq end`,
    highestmodseq: sql<number>`case when ${isSameHistory} then highestmodseq + 1
      else (highestmodseq / ${sql.lit(SPAN)} + 1) * ${sql.lit(SPAN)} end`,
    uidnext: sql<number>`uidnext + ${uids}::bigint + case when ${isSameHistory} then 0 else ${sql.lit(UIDS_PASSED)} end`,
  };
}

function advanceQuery(
  { read, timeline }: Pick<Database, 'read' | 'timeline'>,
  { uids, messages, unseen, octets }: Steps,
) {
  return read
    .updateTable('mailboxes')
    .set((eb) => ({
      uidnext: eb('uidnext', '+', uids),
      highestmodseq: eb('highestmodseq', '+', sql.lit(1)),
      messages: eb('messages', '+', messages),
      unseen: eb('unseen', '+', unseen),
      octets: eb('octets', '+', octets),
      ...(timeline && forkAware(timeline, uids)),
    }))
    .returning(['uidnext', ...mailboxColumns]);
}

/** A mailbox after the step. */
export type Advanced = MailboxRow & Pick<Row<'mailboxes'>, 'uidnext'>;

/** Advances the mailbox that an account has under a name. */
export function advanceByName(database: Pick<Database, 'read' | 'timeline'>, value: NamedAdvance) {
  return advanceQuery(database, value)
    .where('account_id', '=', value.accountId)
    .where('name', '=', value.name);
}

/** Locks mailboxes in the order of all transactions, as a part of a statement. @param from what else is selected from */
export function lockByName(
  boxes: readonly { readonly accountId: unknown; readonly name: unknown }[],
  from: string,
): RawBuilder<unknown> {
  const named = boxes.map(
    ({ accountId, name }) => sql`(account_id = ${accountId} and name = ${name})`,
  );
  return sql`select mailboxes.id from mailboxes, ${sql.raw(from)}
    where ${sql.join(named, sql` or `)} order by account_id for no key update of mailboxes`;
}

/**
 * Advances the counters of a mailbox: gives the next MODSEQ, and the next UIDs. The row stays locked until the
 * commit, so that a client can never see N+1 before N: it would never get N (RFC 7162 section 3.1).
 */
export class MailboxAdvance {
  readonly #byId: PreparedQuery<Advance, Advanced>;
  readonly #byName: PreparedQuery<NamedAdvance, Advanced>;

  constructor(database: Pick<Database, 'read' | 'timeline'>) {
    this.#byId = new PreparedQuery((value) =>
      advanceQuery(database, value)
        .where('id', '=', value.mailboxId)
        // A deleted mailbox accepts nothing more.
        .where('account_id', '>', 0),
    );
    this.#byName = new PreparedQuery((value) => advanceByName(database, value));
  }

  /** @throws Refusal mailbox_not_found where the mailbox was deleted just now */
  async next(tx: Queries, advance: Advance): Promise<{ firstUid: number; modseq: number }> {
    const row = await this.#byId.first(tx, advance);
    if (!row) throw new Refusal('mailbox_not_found', 'the mailbox was deleted');
    return { firstUid: row.uidnext - advance.uids, modseq: row.highestmodseq };
  }

  /** The same for one UID; undefined where the account has no such mailbox. */
  async nextOf(tx: Queries, advance: Omit<NamedAdvance, 'uids'>) {
    const row = await this.#byName.first(tx, { ...advance, uids: 1 });
    return row && { mailbox: row, uid: row.uidnext - 1, modseq: row.highestmodseq };
  }
}
