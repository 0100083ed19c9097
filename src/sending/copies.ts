/**
 * The mailboxes of whoever sends: the copy in Sent, drafts, and the message that is answered.
 *
 * In our own mailboxes all of it is part of the transaction that accepts the message, or that cancels it;
 * on a mail server it comes before or after (`server-copies.ts`).
 */
import type { Bodies, StagedBody, StoredBody } from '../bodies/bodies.ts';
import type { MailboxChange } from '../changes/changes.ts';
import type { Queries } from '../database/database.ts';
import { Refusal } from '../errors/errors.ts';
import type { EmbeddedMailstore, MailUser, MessageTexts } from '../mailstore/mailstore.ts';

/** Where a message is. */
export interface Place {
  readonly mailbox: string;
  readonly uid: number;
  /** Left out: whatever the mailbox has now. */
  readonly uidvalidity?: string;
}

/** A message that is to be kept. */
export interface KeptMessage {
  readonly use: '\\Sent' | '\\Drafts';
  readonly texts: MessageTexts;
  readonly body: StoredBody | StagedBody;
  /**
   * Its Message-ID, where an earlier request may have kept the same message and died: on a mail server it
   * is looked for then.
   */
  readonly messageId?: string | undefined;
}

/** A message that is being kept. */
export interface Keeping {
  /** Keeps it, in the transaction that has its body. */
  commit(tx: Queries, bodyId: number): Promise<KeptCopy>;
  /** Takes it back where the transaction did not come about. */
  undo(): Promise<void>;
}

export interface KeptCopy {
  readonly place: Required<Place>;
  readonly afterCommit: AfterCommit;
}

/** What is to be done once the transaction is committed; it never fails. */
export type AfterCommit = () => Promise<void> | void;

export interface Copies {
  /** @throws Refusal for the account or the mailbox that takes nothing */
  keep(user: MailUser, message: KeptMessage): Promise<Keeping>;
  /** Takes a message away, where it is still there. */
  remove(tx: Queries, user: MailUser, place: Place): Promise<AfterCommit>;
  /** Sets `\Answered` on a message, where it is still there (RFC 3501 section 2.3.2). */
  setAnswered(tx: Queries, user: MailUser, place: Place): Promise<AfterCommit>;
}

export interface EmbeddedCopiesOptions {
  readonly mailstore: Pick<EmbeddedMailstore, 'append' | 'expungeIn' | 'setFlagsIn'>;
  readonly bodies: Pick<Bodies, 'removeFiles'>;
  readonly publish: (change: MailboxChange) => void;
  readonly log: { warn(fields: object, message: string): void };
}

export const NAMES = { '\\Sent': 'Sent', '\\Drafts': 'Drafts' };
export const FLAGS = { '\\Sent': ['\\Seen'], '\\Drafts': ['\\Draft', '\\Seen'] };

/** In our own mailboxes. */
export class EmbeddedCopies implements Copies {
  readonly #options: EmbeddedCopiesOptions;

  constructor(options: EmbeddedCopiesOptions) {
    this.#options = options;
  }

  async keep(user: MailUser, { use, texts }: KeptMessage): Promise<Keeping> {
    const { mailstore, publish } = this.#options;
    const target = { user, mailbox: NAMES[use], flags: FLAGS[use] };
    return {
      async commit(tx, bodyId) {
        const [kept] = await mailstore.append(tx, { ...texts, bodyId }, [target]);
        if (!kept) throw new Refusal('account_not_found', `there is no account ${user.address}`);
        const { uid, change } = kept;
        const { mailbox, uidvalidity } = change;
        return { place: { mailbox, uid, uidvalidity }, afterCommit: () => publish(change) };
      },
      undo: async () => {},
    };
  }

  async remove(tx: Queries, user: MailUser, place: Place): Promise<AfterCommit> {
    const { mailstore, bodies, publish, log } = this.#options;
    const set = { ...place, uids: [place.uid] };
    const removed = await mailstore.expungeIn(tx, user, set).catch(passOverMissing);
    if (!removed) return () => {};
    return () => {
      for (const change of removed.changes) publish(change);
      bodies.removeFiles(removed.files).catch((err: unknown) => {
        log.warn({ err }, 'a file of a removed message stays on the disk until the next sweep');
      });
    };
  }

  async setAnswered(tx: Queries, user: MailUser, place: Place): Promise<AfterCommit> {
    const { mailstore, publish } = this.#options;
    const set = { ...place, uids: [place.uid] };
    const change = { add: ['\\Answered'] };
    const flagged = await mailstore.setFlagsIn(tx, user, set, change).catch(passOverMissing);
    return () => {
      for (const change of flagged?.changes ?? []) publish(change);
    };
  }
}

/** The user may have moved or removed it meanwhile: that keeps no mail from being sent. */
function passOverMissing(error: unknown): undefined {
  const passedOver = ['mailbox_not_found', 'uidvalidity_changed'];
  if (error instanceof Refusal && passedOver.includes(error.code)) return undefined;
  throw error;
}
