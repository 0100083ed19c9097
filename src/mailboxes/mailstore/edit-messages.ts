/** Flags, moves, copies and expunges messages: each in one transaction with one MODSEQ for each mailbox. */
import { setImmediate as turn } from 'node:timers/promises';
import {
  chunks,
  type Database,
  type InTransaction,
  isAmong,
  PreparedQuery,
  type Queries,
} from '../../platform/database/database.ts';
import type { Bodies } from '../bodies/bodies.ts';
import { mailboxChange } from '../changes/changes.ts';
import { MailboxAdvance } from './append-messages.ts';
import type { WriteLine } from './mail-user.ts';
import { keepKeywords, type Mailboxes, requireSame, stateOf } from './mailboxes.ts';
import type { Quotas } from './quotas.ts';
import { forgetInSearch } from './search-source.ts';
import type {
  Expunged,
  Flagged,
  FlagStore,
  MailboxRow,
  MailUser,
  MessageSet,
  Relocated,
} from './store.ts';
import {
  canonicalLevels,
  changeFlags,
  flagsFromText,
  flagsToText,
  normalizeFlags,
} from './syntax.ts';

/** Messages in one insert: envelopes and structures may be long. */
const MESSAGES_AT_A_TIME = 100;

export interface MessageEditorOptions {
  readonly database: Database;
  readonly bodies: Bodies;
  readonly line: WriteLine;
  readonly mailboxes: Mailboxes;
  readonly quotas: Quotas;
  readonly now: () => number;
}

/** The part of a message that the counters of a mailbox count. */
interface Counted {
  readonly flags: string;
  readonly size: number;
}

export class MessageEditor {
  readonly #options: MessageEditorOptions;
  readonly #advance: MailboxAdvance;

  constructor(options: MessageEditorOptions) {
    this.#options = options;
    this.#advance = new MailboxAdvance(options.database);
  }

  async setFlags(
    user: MailUser,
    set: MessageSet,
    change: FlagStore,
    within?: InTransaction<Flagged>,
  ): Promise<Flagged> {
    normalizeFlags(change.add ?? [], 'add');
    normalizeFlags(change.remove ?? [], 'remove');
    normalizeFlags(change.replace ?? []);
    await this.#options.mailboxes.find(user, set.mailbox);
    return this.#write(user, (tx) => this.setFlagsIn(tx, user, set, change), within);
  }

  #write<T>(
    { accountId }: MailUser,
    work: (tx: Queries) => Promise<T>,
    within: InTransaction<T> | undefined,
  ): Promise<T> {
    return this.#options.line.run([accountId], () =>
      this.#options.database.write(async (tx) => {
        const made = await work(tx);
        await within?.(tx, made);
        return made;
      }),
    );
  }

  /** The same within the caller's transaction. */
  async setFlagsIn(
    tx: Queries,
    user: MailUser,
    set: MessageSet,
    { add = [], remove = [], replace, unchangedSince }: FlagStore,
  ): Promise<Flagged> {
    const mailbox = await this.#lock(tx, user, set);
    const wanted = {
      add: await keepKeywords(tx, mailbox.id, normalizeFlags(replace ?? add)),
      remove: normalizeFlags(remove),
    };
    const found = await toFlag.all(tx, selected(mailbox.id, set.uids));
    const messages = found.filter(({ modseq }) => modseq <= (unchangedSince ?? modseq));
    const others = found.filter(({ modseq }) => modseq > (unchangedSince ?? modseq));
    const modified = unchangedSince === undefined ? {} : { modified: others.map(({ uid }) => uid) };
    const before = new Map(messages.map(({ uid, modseq }) => [uid, modseq]));
    const changed = messages.flatMap(({ uid, flags }) => {
      const kept = replace ? [] : flagsFromText(flags);
      const after = flagsToText(changeFlags(kept, wanted.add, wanted.remove));
      return after === flags ? [] : [{ uid, before: flags, after }];
    });
    if (changed.length === 0)
      return {
        state: stateOf(mailbox),
        updated: messages.map(asUpdated),
        changes: [],
        before,
        ...modified,
      };
    const unseen = changed.reduce(
      (sum, one) => sum + unseenOf(one.after) - unseenOf(one.before),
      0,
    );
    const none = { uids: 0, messages: 0, octets: 0 };
    const { modseq } = await this.#advance.next(tx, { ...none, mailboxId: mailbox.id, unseen });
    for (const [flags, some] of Map.groupBy(changed, ({ after }) => after)) {
      const named = selected(
        mailbox.id,
        some.map(({ uid }) => uid),
      );
      await flag.all(tx, { ...named, flags, modseq });
    }
    const after = new Map(changed.map((one) => [one.uid, { flags: one.after, modseq }]));
    return {
      state: stateOf({ ...mailbox, highestmodseq: modseq }),
      updated: messages.map((one) => asUpdated({ ...one, ...after.get(one.uid) })),
      changes: [mailboxChange(user, mailbox, modseq)],
      before,
      ...modified,
    };
  }

  /** Into the mailbox itself, too: the messages get new UIDs, as IMAP allows it (RFC 6851 section 4.4). */
  async relocate(
    user: MailUser,
    verb: 'move' | 'copy',
    set: MessageSet,
    to: string,
    within?: InTransaction<Relocated>,
  ): Promise<Relocated> {
    await this.#options.mailboxes.find(user, set.mailbox);
    await this.#options.mailboxes.find(user, to);
    const isMove = verb === 'move';
    return this.#write(user, (tx) => this.#relocateIn(tx, user, set, to, isMove), within);
  }

  async #relocateIn(
    tx: Queries,
    user: MailUser,
    set: MessageSet,
    to: string,
    moving: boolean,
  ): Promise<Relocated> {
    if (!moving) await this.#options.quotas.hold(tx, [user.accountId]);
    const [source, target] = await this.lockBoth(tx, user, set, to);
    const messages = await readMoved(tx, source.id, set.uids);
    if (messages.length === 0) return { state: stateOf(target), uids: new Map(), changes: [] };
    const counts = countOf(messages);
    const flags = new Set(messages.flatMap((one) => flagsFromText(one.flags)));
    if (!moving) await this.#options.quotas.refuseFull(tx, user.accountId, counts.octets);
    const { firstUid, modseq } = await this.#advance.next(tx, {
      mailboxId: target.id,
      uids: messages.length,
      ...counts,
    });
    await keepKeywords(tx, target.id, [...flags]);
    const uids = new Map(messages.map(({ uid }, index) => [uid, firstUid + index]));
    const own = {
      mailbox_id: target.id,
      created_modseq: modseq,
      modseq,
      saved_at: this.#options.now(),
    };
    const rows = messages.map((one) => ({ ...one, ...own, uid: uids.get(one.uid) ?? 0 }));
    for (const some of chunks(rows, MESSAGES_AT_A_TIME)) {
      // Who only reads has his turn: five thousand took all of a tenth of a second. Who writes waits in any case.
      if (rows.length > MESSAGES_AT_A_TIME) await turn();
      await tx.insertInto('messages').values(some).execute();
    }
    const change = mailboxChange(user, target, modseq);
    const state = stateOf({ ...target, highestmodseq: modseq });
    if (!moving) return { state, uids, changes: [change] };
    const removal = await this.#insertTombstones(tx, source.id, messages);
    const moved = mailboxChange(user, source, removal);
    return { state, uids, changes: source.id === target.id ? [moved] : [moved, change] };
  }

  async expunge(
    user: MailUser,
    set: MessageSet,
    within?: InTransaction<Expunged>,
  ): Promise<Expunged> {
    await this.#options.mailboxes.find(user, set.mailbox);
    const { files, ...expunged } = await this.#write(
      user,
      (tx) => this.expungeIn(tx, user, set),
      within,
    );
    // After the commit: before it, a crash must leave the file; after it, the sweep removes the file.
    await this.#options.bodies.removeFiles(files);
    return expunged;
  }

  /**
   * The same within the caller's transaction.
   *
   * @returns also the files to remove after the commit, by `Bodies.removeFiles`
   */
  async expungeIn(
    tx: Queries,
    user: MailUser,
    set: MessageSet,
  ): Promise<Expunged & { readonly files: readonly string[] }> {
    const mailbox = await this.#lock(tx, user, set);
    const messages = await toExpunge.all(tx, selected(mailbox.id, set.uids));
    const removed = messages.map(({ uid }) => uid);
    if (messages.length === 0) return { state: stateOf(mailbox), removed, changes: [], files: [] };
    const modseq = await this.#insertTombstones(tx, mailbox.id, messages);
    const ids = new Set(messages.map(({ body_id }) => body_id));
    const files: string[] = [];
    for (const some of chunks([...ids])) {
      files.push(...(await this.#options.bodies.release(tx, some)));
    }
    // After the release: it waits for a transaction that removes another copy of the same body.
    await forgetInSearch(tx, user.accountId, [...ids]);
    const state = stateOf({ ...mailbox, highestmodseq: modseq });
    return { state, removed, changes: [mailboxChange(user, mailbox, modseq)], files };
  }

  async #lock(tx: Queries, user: MailUser, set: MessageSet): Promise<MailboxRow> {
    return requireSame(await this.#options.mailboxes.lock(tx, user, set.mailbox), set);
  }

  /** All writers use the same order, so two moves between the same two mailboxes cannot deadlock. */
  async lockBoth(
    tx: Queries,
    user: MailUser,
    set: MessageSet,
    to: string,
  ): Promise<[MailboxRow, MailboxRow]> {
    if (canonicalLevels(set.mailbox) <= canonicalLevels(to)) {
      const source = await this.#lock(tx, user, set);
      return [source, await this.#options.mailboxes.lock(tx, user, to)];
    }
    const target = await this.#options.mailboxes.lock(tx, user, to);
    return [await this.#lock(tx, user, set), target];
  }

  /** Removes messages from a mailbox and writes their tombstones; returns the MODSEQ of the removal. */
  async #insertTombstones(
    tx: Queries,
    mailboxId: number,
    messages: readonly (Counted & { readonly uid: number; readonly created_modseq: number })[],
  ): Promise<number> {
    const gone = countOf(messages);
    const { modseq } = await this.#advance.next(tx, {
      mailboxId,
      uids: 0,
      messages: -gone.messages,
      unseen: -gone.unseen,
      octets: -gone.octets,
    });
    const own = { mailbox_id: mailboxId, modseq, expunged_at: this.#options.now() };
    const uids = JSON.stringify(messages.map(({ uid }) => uid));
    await tx
      .deleteFrom('messages')
      .where('mailbox_id', '=', mailboxId)
      .where(isAmong(tx, 'uid', uids))
      .execute();
    for (const some of chunks(messages)) {
      const tombstones = some.map(({ uid, created_modseq }) => ({ ...own, uid, created_modseq }));
      await tx.insertInto('tombstones').values(tombstones).execute();
    }
    return modseq;
  }
}

function unseenOf(flags: string): number {
  return flagsFromText(flags).includes('\\Seen') ? 0 : 1;
}

function countOf(messages: readonly Counted[]) {
  return {
    messages: messages.length,
    unseen: messages.reduce((sum, { flags }) => sum + unseenOf(flags), 0),
    octets: messages.reduce((sum, { size }) => sum + size, 0),
  };
}

function asUpdated({ uid, modseq, flags }: { uid: number; modseq: number; flags: string }) {
  return { uid, modseq: String(modseq), flags: flagsFromText(flags) };
}

/** Every column that a moved or copied message keeps. */
const allColumns = [
  'uid',
  'created_modseq',
  'flags',
  'size',
  'internal_date',
  'body_id',
  'envelope',
  'structure',
  'preview',
  'has_attachment',
  'thread_id',
  'message_key',
] as const;

type MessageColumn = (typeof allColumns)[number] | 'modseq';

interface Selected {
  readonly mailboxId: number;
  /** UIDs, as JSON. */
  readonly uids: string;
}

function selected(mailboxId: number, uids: readonly number[]): Selected {
  return { mailboxId, uids: JSON.stringify(uids) };
}

/** The messages among `uids` that exist, each once, by UID. */
function prepareSelect<Column extends MessageColumn>(columns: readonly Column[]) {
  return new PreparedQuery((value: Selected, queries) =>
    queries
      .selectFrom('messages')
      .select(columns)
      .where('mailbox_id', '=', value.mailboxId)
      .where(isAmong(queries, 'uid', value.uids))
      .orderBy('uid'),
  );
}

/** Messages that are moved or copied, by UID; others have their turn in between. */
async function readMoved(tx: Queries, mailboxId: number, uids: readonly number[]) {
  const messages = [];
  for (const some of chunks([...new Set(uids)].sort((a, b) => a - b))) {
    if (messages.length > 0) await turn();
    for (const one of await toMove.all(tx, selected(mailboxId, some))) messages.push(one);
  }
  return messages;
}

const toFlag = prepareSelect(['uid', 'flags', 'modseq']);
const toMove = prepareSelect(allColumns);
const toExpunge = prepareSelect(['uid', 'created_modseq', 'flags', 'size', 'body_id']);
const flag = new PreparedQuery((value: Selected & { flags: string; modseq: number }, queries) =>
  queries
    .updateTable('messages')
    .set({ flags: value.flags, modseq: value.modseq })
    .where('mailbox_id', '=', value.mailboxId)
    .where(isAmong(queries, 'uid', value.uids)),
);
