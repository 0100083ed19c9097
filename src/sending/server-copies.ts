/**
 * The mailboxes of whoever sends, on a mail server that the operator runs. It knows nothing of our
 * transactions, so the order decides.
 *
 * Crashes:
 * - The copy is added to Sent first (APPEND); then the transaction accepts the message. A message whose
 *   copy cannot be kept is not accepted. Dying in between leaves a copy of a message that never went out;
 *   the client heard no answer. Nothing was queued, so nothing is sent twice. A client that asks again
 *   with its `Idempotency-Key` gets the same Message-ID: the copy is found by it, and not added again.
 * - `\Answered`, the removal of a draft and that of a cancelled copy come after the commit. Dying before
 *   them leaves a flag unset or a message that is not needed any more; the mail itself is not touched.
 */
import type { Bodies } from '../bodies/bodies.ts';
import type { Queries } from '../database/database.ts';
import { Refusal } from '../errors/errors.ts';
import type { Mailstore, MailUser } from '../mailstore/mailstore.ts';
import {
  type AfterCommit,
  type Copies,
  FLAGS,
  type Keeping,
  type KeptMessage,
  NAMES,
  type PinnedPlace,
} from './copies.ts';

export interface ServerCopiesOptions {
  /** The mail server's, with every change announced. */
  readonly mailstore: Pick<
    Mailstore,
    'listMailboxes' | 'sync' | 'createMailbox' | 'appendMessage' | 'expunge' | 'setFlags'
  >;
  readonly bodies: Pick<Bodies, 'read'>;
  readonly log: { warn(fields: object, message: string): void };
}

/** A client that heard no answer asks again soon: so many messages came since, at most. */
const LOOKED_THROUGH = 50;

export class ServerCopies implements Copies {
  readonly #options: ServerCopiesOptions;

  constructor(options: ServerCopiesOptions) {
    this.#options = options;
  }

  async keep(user: MailUser, { use, body, messageId }: KeptMessage): Promise<Keeping> {
    const { mailstore, bodies } = this.#options;
    const mailbox = await this.#findMailbox(user, use);
    const known = messageId === undefined ? undefined : await this.#find(user, mailbox, messageId);
    if (known) {
      const commit = async () => ({ place: known, afterCommit: () => {} });
      // It may be another request's, which is about to be accepted.
      return { commit, undo: async () => {} };
    }
    const request = { mailbox, flags: FLAGS[use], octets: body.size };
    const { uid, state } = await mailstore.appendMessage(user, request, bodies.read(body));
    const place = { mailbox: state.mailbox, uid, uidvalidity: state.uidvalidity };
    return {
      commit: async () => ({ place, afterCommit: () => {} }),
      undo: () => this.#expunge(user, place),
    };
  }

  async remove(_tx: Queries, user: MailUser, place: PinnedPlace): Promise<AfterCommit> {
    return () => this.#expunge(user, place);
  }

  async setAnswered(_tx: Queries, user: MailUser, place: PinnedPlace): Promise<AfterCommit> {
    const { mailstore } = this.#options;
    const set = { ...place, uids: [place.uid] };
    return () =>
      this.#try(user, 'a message is not marked as answered', () =>
        mailstore.setFlags(user, set, { add: ['\\Answered'] }),
      );
  }

  /** Looks for a message among the newest of a mailbox. */
  async #find(
    user: MailUser,
    mailbox: string,
    messageId: string,
  ): Promise<PinnedPlace | undefined> {
    const { mailstore } = this.#options;
    const request = { mailbox, fields: ['envelope'], newest: true, limit: LOOKED_THROUGH } as const;
    const { changes, uidvalidity } = await mailstore.sync(user, request);
    const found = changes.added.find(({ envelope }) => envelope?.messageId === messageId);
    return found && { mailbox, uid: found.uid, uidvalidity };
  }

  #expunge(user: MailUser, place: PinnedPlace): Promise<void> {
    const { mailstore } = this.#options;
    const set = { ...place, uids: [place.uid] };
    return this.#try(user, 'a draft or a copy that is not needed any more stays', () =>
      mailstore.expunge(user, set),
    );
  }

  async #try(user: MailUser, what: string, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (err) {
      this.#options.log.warn({ err, account: user.accountId }, `${what}: the mail server failed`);
    }
  }

  /** The mailbox of that use, whatever the server calls it (RFC 6154); made where there is none. */
  async #findMailbox(user: MailUser, use: KeptMessage['use']): Promise<string> {
    const { mailstore } = this.#options;
    const mailboxes = await mailstore.listMailboxes(user);
    const name = NAMES[use];
    const found =
      mailboxes.find(({ specialUse }) => specialUse === use) ??
      mailboxes.find(({ mailbox }) => mailbox === name);
    if (found) return found.mailbox;
    try {
      return (await mailstore.createMailbox(user, name)).state.mailbox;
    } catch (error) {
      if (error instanceof Refusal && error.code === 'mailbox_exists') return name;
      throw error;
    }
  }
}
