/**
 * The mailboxes of the sender: the copy in Sent, drafts, and the answered message.
 *
 * In our own mailboxes all of it is part of the transaction that accepts or cancels the message; on a mail server it
 * happens before or after (`server-copies.ts`).
 */
import type { Bodies, StagedBody, StoredBody } from '../../mailboxes/bodies/bodies.ts';
import { type Changes, mailboxChange } from '../../mailboxes/changes/changes.ts';
import {
  type Advanced,
  canonicalLevels,
  type EmbeddedMailstore,
  type Mailstore,
  type MailUser,
  type MessageTexts,
  type PlainMessage,
} from '../../mailboxes/mailstore/mailstore.ts';
import type { Queries } from '../../platform/database/database.ts';
import { invalidField, isRefusal, Refusal, when } from '../../platform/errors/errors.ts';

/** Where a message is, as an app names it. */
export interface MessageLocation {
  readonly mailbox: string;
  readonly uid: number;
  /** Left out: the current one of the mailbox. */
  readonly uidvalidity?: string;
}

/** Identifies one message for good: a mailbox that is created again gives its UIDs to other messages. */
export type PinnedLocation = Required<MessageLocation>;

export interface KeptMessage {
  readonly use: '\\Sent' | '\\Drafts';
  readonly texts: MessageTexts;
  readonly body: StoredBody | StagedBody;
  /**
   * Its Message-ID, where an earlier request may have kept the same message and died: then it is searched on a mail
   * server.
   */
  readonly messageId?: string | undefined;
  /** Also where there is no room. */
  readonly always?: boolean;
}

/** A copy in a mailbox of ours. */
export interface PlainCopy {
  readonly message: PlainMessage;
  /** Publishes the change, after the commit. */
  afterCommit(mailbox: Advanced): void;
}

/** A message that is being kept. */
export interface Keeping {
  /** Where one statement can keep it for an account without a quota, in place of {@link commit}. */
  readonly plain?: PlainCopy | undefined;
  /** Keeps it, in the transaction that has its body. */
  commit(tx: Queries, bodyId: number): Promise<KeptCopy>;
  /** Removes it where the transaction failed. */
  undo(): Promise<void>;
}

export interface KeptCopy {
  readonly location: PinnedLocation;
  readonly afterCommit: AfterCommit;
}

/** The sent message, whose mailboxes are changed. */
export interface SentMessage {
  readonly domainId: number;
  readonly bodyId: number;
}

/** Work to do after the commit; it never fails. */
export type AfterCommit = () => Promise<void> | void;

export interface Copies {
  /** @throws Refusal where the account or the mailbox does not accept it */
  keep(user: MailUser, message: KeptMessage): Promise<Keeping>;
  /** Removes a message, if it still exists. */
  remove(
    tx: Queries,
    user: MailUser,
    location: PinnedLocation,
    sent: SentMessage,
  ): Promise<AfterCommit>;
  /** Sets `\Answered` on a message, if it still exists (RFC 3501 section 2.3.2). */
  setAnswered(
    tx: Queries,
    user: MailUser,
    location: PinnedLocation,
    sent: SentMessage,
  ): Promise<AfterCommit>;
  /**
   * Runs a transaction that writes to mailboxes of these accounts, in its turn.
   *
   * @param accountIds also more than once
   * @throws Refusal unavailable where too many others write for too long; then nothing was written
   */
  inLine<T>(accountIds: readonly number[], write: () => Promise<T>): Promise<T>;
  /** Starts to repeat what a mail server did not do at once. */
  start(): void;
}

export interface EmbeddedCopiesOptions {
  readonly mailstore: Pick<EmbeddedMailstore, 'writer' | 'editor' | 'quotas' | 'line'>;
  readonly bodies: Pick<Bodies, 'removeFiles'>;
  readonly changes: Pick<Changes, 'publish'>;
  readonly log: { warn(fields: object, message: string): void };
}

/** The location of a copy that is not kept. */
export const NOWHERE: PinnedLocation = { mailbox: '', uid: 0, uidvalidity: '' };

/** Mail programs put a copy into Sent themselves: a second one would be in the way. */
export const NO_COPY: Keeping = {
  commit: async () => ({ location: NOWHERE, afterCommit: () => {} }),
  undo: async () => {},
};

export const NAMES = { '\\Sent': 'Sent', '\\Drafts': 'Drafts' };
export const FLAGS = { '\\Sent': ['\\Seen'], '\\Drafts': ['\\Draft', '\\Seen'] };

/** In our own mailboxes. */
export class EmbeddedCopies implements Copies {
  readonly #options: EmbeddedCopiesOptions;

  constructor(options: EmbeddedCopiesOptions) {
    this.#options = options;
  }

  async keep(user: MailUser, { use, texts, always }: KeptMessage): Promise<Keeping> {
    const { changes } = this.#options;
    const { writer, quotas } = this.#options.mailstore;
    const target = { user, mailbox: NAMES[use], flags: FLAGS[use] };
    const message = quotas.isLimited(null) ? undefined : writer.plain(texts, target);
    const afterCommit = (mailbox: Advanced) =>
      changes.publish(mailboxChange(user, mailbox, mailbox.highestmodseq));
    return {
      plain: message && { message, afterCommit },
      async commit(tx, bodyId) {
        if (!always) await quotas.refuseFull(tx, user.accountId, texts.size);
        const [kept] = await writer.append(tx, { ...texts, bodyId }, [target]);
        if (!kept) throw new Refusal('account_not_found', `there is no account ${user.address}`);
        const { uid, change } = kept;
        const { mailbox, uidvalidity } = change;
        return {
          location: { mailbox, uid, uidvalidity },
          afterCommit: () => changes.publish(change),
        };
      },
      undo: async () => {},
    };
  }

  inLine<T>(accountIds: readonly number[], write: () => Promise<T>): Promise<T> {
    return this.#options.mailstore.line.run([...new Set(accountIds)], write);
  }

  /** Nothing to repeat: all of it is in the transactions. */
  start(): void {}

  async remove(tx: Queries, user: MailUser, location: PinnedLocation): Promise<AfterCommit> {
    const { mailstore, bodies, changes, log } = this.#options;
    const set = { ...location, uids: [location.uid] };
    const removed = await mailstore.editor.expungeIn(tx, user, set).catch(passOverMissing);
    if (!removed) return () => {};
    return () => {
      for (const change of removed.changes) changes.publish(change);
      bodies.removeFiles(removed.files).catch((err: unknown) => {
        log.warn(
          { err },
          'the file of a removed message could not be deleted: it stays on the disk until the next sweep',
        );
      });
    };
  }

  async setAnswered(tx: Queries, user: MailUser, location: PinnedLocation): Promise<AfterCommit> {
    const { mailstore, changes } = this.#options;
    const set = { ...location, uids: [location.uid] };
    const change = { add: ['\\Answered'] };
    const flagged = await mailstore.editor.setFlagsIn(tx, user, set, change).catch(passOverMissing);
    return () => {
      for (const change of flagged?.changes ?? []) changes.publish(change);
    };
  }
}

/** The user may have moved or removed it meanwhile: that must not stop the mail. */
export const passOverMissing = when(
  isRefusal('mailbox_not_found', 'uidvalidity_changed'),
  undefined,
);

type Reader = Pick<Mailstore, 'listMailboxes' | 'fetchMessage'>;

/**
 * Adds the current UIDVALIDITY of the mailbox.
 *
 * @throws Refusal mailbox_not_found; uidvalidity_changed where the app named another one
 */
export async function pinLocation(
  mailstore: Pick<Reader, 'listMailboxes'>,
  user: MailUser,
  location: MessageLocation,
): Promise<PinnedLocation & { readonly isDrafts: boolean }> {
  const name = canonicalLevels(location.mailbox);
  const mailboxes = await mailstore.listMailboxes(user);
  const found = mailboxes.find(({ mailbox }) => canonicalLevels(mailbox) === name);
  if (!found) throw new Refusal('mailbox_not_found', `there is no mailbox "${name}"`);
  const { mailbox, uidvalidity, specialUse } = found;
  if ((location.uidvalidity ?? uidvalidity) !== uidvalidity) {
    throw new Refusal('uidvalidity_changed', `${mailbox} has UIDVALIDITY ${uidvalidity} now`);
  }
  return { mailbox, uid: location.uid, uidvalidity, isDrafts: specialUse === '\\Drafts' };
}

/**
 * Finds a draft, which is removed when its mail is sent: no other message may be named as one.
 *
 * @returns undefined where it does not exist; the user may have removed it meanwhile
 * @throws Refusal invalid_request (`draft`) for a message that is not a draft; uidvalidity_changed
 */
export async function findDraft(
  mailstore: Reader,
  user: MailUser,
  location: MessageLocation,
): Promise<PinnedLocation | undefined> {
  try {
    // Pinned first: if the mailbox is created again before the message is read, the pin has the old value.
    const { isDrafts, ...draft } = await pinLocation(mailstore, user, location);
    const { flags } = await mailstore.fetchMessage(user, draft.mailbox, draft.uid);
    if (isDrafts || flags.includes('\\Draft')) return draft;
  } catch (error) {
    return when(isRefusal('mailbox_not_found', 'message_not_found'), undefined)(error);
  }
  throw invalidField('draft', 'must have the flag \\Draft, or be in the mailbox of drafts');
}
