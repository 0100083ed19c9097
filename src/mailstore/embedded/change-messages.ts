/** Appending: one transaction with one MODSEQ a mailbox. */
import type { Bodies } from '../../bodies/bodies.ts';
import {
  type Database,
  type NewRow,
  PreparedQuery,
  type Queries,
} from '../../database/database.ts';
import { enqueueSearch } from '../../search/search.ts';
import { flagsToText, normalizeFlags } from '../flags.ts';
import type { Alongside, Appended, AppendTarget, KeptMessage, StagedMessage } from '../store.ts';
import { MailboxAdvance, type Mailboxes, type MailboxRow, mailboxChange } from './mailboxes.ts';

interface Found {
  readonly target: AppendTarget;
  readonly mailbox: MailboxRow;
}

export interface MessageWriterOptions {
  readonly database: Database;
  readonly bodies: Bodies;
  readonly mailboxes: Mailboxes;
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
    }),
  );
}

export class MessageWriter {
  readonly #database: Database;
  readonly #bodies: Bodies;
  readonly #mailboxes: Mailboxes;
  readonly #now: () => number;
  readonly #advance: MailboxAdvance;
  readonly #insertMessage: ReturnType<typeof prepareInsert>;

  constructor({ database, bodies, mailboxes, now }: MessageWriterOptions) {
    this.#advance = new MailboxAdvance(database.read);
    this.#insertMessage = prepareInsert(database.read);
    this.#database = database;
    this.#bodies = bodies;
    this.#mailboxes = mailboxes;
    this.#now = now;
  }

  async append(
    { parsed, body }: StagedMessage,
    targets: readonly AppendTarget[],
    alongside?: Alongside,
  ): Promise<Appended[]> {
    const found: Found[] = [];
    for (const target of targets) {
      found.push({ target, mailbox: await this.#mailboxes.find(target.user, target.mailbox) });
    }
    return this.#database.write(async (tx) => {
      const bodyId = await this.#bodies.commit(tx, body);
      const appended = await this.#insertAll(tx, { parsed, bodyId }, found);
      await alongside?.(tx, async () => bodyId);
      return appended;
    });
  }

  async appendWithin(
    tx: Queries,
    message: KeptMessage,
    targets: readonly AppendTarget[],
  ): Promise<Appended[]> {
    const found: Found[] = [];
    for (const target of targets) {
      const mailbox = await this.#mailboxes.findOrMake(tx, target.user, target.mailbox);
      if (mailbox) found.push({ target, mailbox });
    }
    return this.#insertAll(tx, message, found);
  }

  async #insertAll(tx: Queries, message: KeptMessage, found: Found[]): Promise<Appended[]> {
    const appended: Appended[] = [];
    const { parsed, bodyId } = message;
    // Once for all recipients: hostile mail has an envelope and a structure of half a megabyte.
    const shared = {
      size: parsed.size,
      body_id: bodyId,
      envelope: JSON.stringify(parsed.envelope),
      structure: JSON.stringify(parsed.structure),
    };
    // One order for everybody: two messages to the same two mailboxes never wait for each other.
    for (const { target, mailbox } of found.toSorted((a, b) => a.mailbox.id - b.mailbox.id)) {
      const flags = normalizeFlags(target.flags ?? []);
      const { firstUid: uid, modseq } = await this.#advance.next(tx, {
        mailboxId: mailbox.id,
        uids: 1,
        messages: 1,
        unseen: flags.includes('\\Seen') ? 0 : 1,
        octets: parsed.size,
      });
      await this.#insertMessage.all(tx, {
        ...shared,
        mailbox_id: mailbox.id,
        uid,
        created_modseq: modseq,
        modseq,
        flags: flagsToText(flags),
        internal_date: target.internalDate ?? this.#now(),
      });
      const change = mailboxChange(target.user, mailbox, modseq);
      appended.push({ user: target.user, uid, change });
    }
    const accounts = new Set(appended.map(({ user }) => user.accountId));
    await enqueueSearch(
      tx,
      [...accounts].map((accountId) => ({ accountId, bodyId, gone: false })),
    );
    return appended;
  }
}
