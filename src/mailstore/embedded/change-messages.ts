/** Appending, flagging, moving and expunging: each one transaction with one MODSEQ a mailbox. */
import type { Bodies } from '../../bodies/bodies.ts';
import type { MailboxChange } from '../../changes/changes.ts';
import {
  type Database,
  type NewRow,
  PreparedQuery,
  type Queries,
} from '../../database/database.ts';
import { invalidField } from '../../errors/errors.ts';
import { changeFlags, flagsFromText, flagsToText, normalizeFlags } from '../flags.ts';
import { canonicalMailboxName } from '../mailbox-names.ts';
import type {
  Alongside,
  Appended,
  AppendTarget,
  FlagChange,
  KeptMessage,
  MailUser,
  Moved,
  StagedMessage,
} from '../store.ts';
import {
  advanceModseq,
  type Mailboxes,
  type MailboxRow,
  mailboxChange,
  UidAdvance,
} from './mailboxes.ts';

/** UIDs in one statement: both engines bound the number of parameters. */
const UIDS_AT_A_TIME = 500;

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
  readonly #uids: UidAdvance;
  readonly #insertMessage: ReturnType<typeof prepareInsert>;

  constructor({ database, bodies, mailboxes, now }: MessageWriterOptions) {
    this.#uids = new UidAdvance(database.read);
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
      const { firstUid: uid, modseq } = await this.#uids.next(tx, mailbox.id, 1);
      await this.#insertMessage.all(tx, {
        ...shared,
        mailbox_id: mailbox.id,
        uid,
        created_modseq: modseq,
        modseq,
        flags: flagsToText(normalizeFlags(target.flags ?? [])),
        internal_date: target.internalDate ?? this.#now(),
      });
      const change = mailboxChange(target.user, mailbox, modseq);
      appended.push({ user: target.user, uid, change });
    }
    return appended;
  }

  async setFlags(
    user: MailUser,
    name: string,
    uids: readonly number[],
    { add = [], remove = [] }: FlagChange,
  ): Promise<MailboxChange | undefined> {
    normalizeFlags([...add, ...remove]);
    const mailbox = await this.#mailboxes.find(user, name);
    return this.#database.write(async (tx) => {
      await lockMailbox(tx, mailbox.id);
      let modseq: number | undefined;
      for (const { uid, flags } of await selectMessages(tx, mailbox.id, uids)) {
        const changed = flagsToText(changeFlags(flagsFromText(flags), add, remove));
        if (changed === flags) continue;
        modseq ??= await advanceModseq(tx, mailbox.id);
        await tx
          .updateTable('messages')
          .set({ flags: changed, modseq })
          .where('mailbox_id', '=', mailbox.id)
          .where('uid', '=', uid)
          .execute();
      }
      return modseq === undefined ? undefined : mailboxChange(user, mailbox, modseq);
    });
  }

  async move(
    user: MailUser,
    name: string,
    uids: readonly number[],
    targetName: string,
  ): Promise<Moved> {
    if (canonicalMailboxName(name) === canonicalMailboxName(targetName)) {
      throw invalidField('target', 'must be another mailbox');
    }
    const source = await this.#mailboxes.find(user, name);
    const target = await this.#mailboxes.find(user, targetName);
    return this.#database.write(async (tx) => {
      for (const id of [source.id, target.id].sort((a, b) => a - b)) await lockMailbox(tx, id);
      const messages = await selectMessages(tx, source.id, uids);
      if (messages.length === 0) return { uids: new Map(), changes: [] };
      const { firstUid, modseq } = await this.#uids.next(tx, target.id, messages.length);
      const moved = new Map<number, number>();
      for (const [index, message] of messages.entries()) {
        const uid = firstUid + index;
        moved.set(message.uid, uid);
        await tx
          .insertInto('messages')
          .values({ ...message, mailbox_id: target.id, uid, created_modseq: modseq, modseq })
          .execute();
      }
      const removal = await this.#bury(tx, source.id, messages);
      return {
        uids: moved,
        changes: [mailboxChange(user, source, removal), mailboxChange(user, target, modseq)],
      };
    });
  }

  async expunge(
    user: MailUser,
    name: string,
    uids: readonly number[],
  ): Promise<MailboxChange | undefined> {
    const mailbox = await this.#mailboxes.find(user, name);
    const done = await this.#database.write(async (tx) => {
      await lockMailbox(tx, mailbox.id);
      const messages = await selectMessages(tx, mailbox.id, uids);
      if (messages.length === 0) return undefined;
      const modseq = await this.#bury(tx, mailbox.id, messages);
      const files: string[] = [];
      for (const some of chunks(messages)) {
        const ids = [...new Set(some.map(({ body_id }) => body_id))];
        files.push(...(await this.#bodies.release(tx, ids)));
      }
      return { modseq, files };
    });
    if (!done) return undefined;
    // After the commit: a crash before it must find the file; one after it leaves it to the sweep.
    await this.#bodies.removeFiles(done.files);
    return mailboxChange(user, mailbox, done.modseq);
  }

  /** Takes messages out of a mailbox and leaves their tombstones; answers the MODSEQ of it. */
  async #bury(
    tx: Queries,
    mailboxId: number,
    messages: readonly { uid: number; created_modseq: number }[],
  ): Promise<number> {
    const modseq = await advanceModseq(tx, mailboxId);
    const expunged_at = this.#now();
    for (const some of chunks(messages)) {
      await tx
        .deleteFrom('messages')
        .where('mailbox_id', '=', mailboxId)
        .where(
          'uid',
          'in',
          some.map(({ uid }) => uid),
        )
        .execute();
      await tx
        .insertInto('tombstones')
        .values(
          some.map(({ uid, created_modseq }) => ({
            mailbox_id: mailboxId,
            uid,
            created_modseq,
            modseq,
            expunged_at,
          })),
        )
        .execute();
    }
    return modseq;
  }
}

/** Holds the mailbox's row until the commit: what is read next cannot change in between. */
async function lockMailbox(tx: Queries, id: number): Promise<void> {
  await tx
    .updateTable('mailboxes')
    .set((eb) => ({ highestmodseq: eb.ref('highestmodseq') }))
    .where('id', '=', id)
    .execute();
}

/** The messages among `uids` that are there, each once. */
async function selectMessages(tx: Queries, mailboxId: number, uids: readonly number[]) {
  const messages = [];
  for (const some of chunks([...new Set(uids)].sort((a, b) => a - b))) {
    const rows = await tx
      .selectFrom('messages')
      .selectAll()
      .where('mailbox_id', '=', mailboxId)
      .where('uid', 'in', some)
      .orderBy('uid')
      .execute();
    messages.push(...rows);
  }
  return messages;
}

function* chunks<T>(items: readonly T[]): Generator<T[]> {
  for (let at = 0; at < items.length; at += UIDS_AT_A_TIME) {
    yield items.slice(at, at + UIDS_AT_A_TIME);
  }
}
