/** Appends messages within the caller's transaction: one MODSEQ for each mailbox. */
import {
  type Database,
  type NewRow,
  PreparedQuery,
  type Queries,
} from '../../platform/database/database.ts';
import { prepareEnqueue } from '../search/search.ts';
import { MailboxAdvance, type Mailboxes, mailboxChange } from './mailboxes.ts';
import type { OpaqueIds } from './opaque-ids.ts';
import type { Appended, AppendTarget, MessageTexts } from './store.ts';
import { canonicalMailboxName, flagsToText, normalizeFlags } from './syntax.ts';
import { findThread } from './threads.ts';

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

/** Compiled once: it runs for every recipient of a message. */
function prepareInsert(queries: Queries) {
  return new PreparedQuery((value: NewRow<'messages'>) =>
    queries.insertInto('messages').values({
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
    }),
  );
}

export class MessageWriter {
  readonly #mailboxes: Mailboxes;
  readonly #ids: OpaqueIds;
  readonly #now: () => number;
  readonly #advance: MailboxAdvance;
  readonly #insertMessage: ReturnType<typeof prepareInsert>;
  readonly #enqueueSearch: ReturnType<typeof prepareEnqueue>;

  constructor({ database, mailboxes, ids, now }: MessageWriterOptions) {
    this.#advance = new MailboxAdvance(database);
    this.#insertMessage = prepareInsert(database.read);
    this.#enqueueSearch = prepareEnqueue(database.read);
    this.#mailboxes = mailboxes;
    this.#ids = ids;
    this.#now = now;
  }

  /** See {@link EmbeddedMailstore.append}. */
  async append(
    tx: Queries,
    { bodyId, size, envelope, structure, preview, hasAttachment, thread }: AppendedMessage,
    targets: readonly AppendTarget[],
  ): Promise<Appended[]> {
    const now = this.#now();
    const otherName = () => this.#ids.nameBody(bodyId);
    const appended: Appended[] = [];
    // All writers use the same order, so two messages to the same two mailboxes cannot deadlock.
    for (const target of targets.toSorted((a, b) => a.user.accountId - b.user.accountId)) {
      const { user } = target;
      const flags = normalizeFlags(target.flags ?? []);
      const advanced = await this.#advanceOf(tx, target, {
        isSeen: flags.includes('\\Seen'),
        size,
      });
      if (!advanced) continue;
      const { mailbox, uid, modseq } = advanced;
      await this.#insertMessage.all(tx, {
        size,
        envelope,
        structure,
        preview,
        has_attachment: hasAttachment ? 1 : 0,
        ...(await findThread(tx, user.accountId, thread, otherName)),
        body_id: bodyId,
        mailbox_id: mailbox.id,
        uid,
        created_modseq: modseq,
        modseq,
        flags: flagsToText(flags),
        internal_date: target.internalDate ?? now,
        saved_at: now,
      });
      appended.push({ user, uid, change: mailboxChange(user, mailbox, modseq) });
    }
    const accounts = new Set(appended.map(({ user }) => user.accountId));
    for (const accountId of accounts) await this.#enqueueSearch.all(tx, { accountId, bodyId });
    return appended;
  }

  /** Advances the counters of a target's mailbox, and creates the mailbox if it is missing. */
  async #advanceOf(
    tx: Queries,
    { user, mailbox }: AppendTarget,
    { isSeen, size }: { readonly isSeen: boolean; readonly size: number },
  ) {
    const { accountId } = user;
    const name = canonicalMailboxName(mailbox);
    const steps = { messages: 1, unseen: isSeen ? 0 : 1, octets: size };
    const next = () => this.#advance.nextOf(tx, { accountId, name, ...steps });
    return (await next()) ?? ((await this.#mailboxes.makeDefaults(tx, user)) ? next() : undefined);
  }
}
