/**
 * The sender's mailboxes on a mail server that the operator runs. The mail server does not take part in our
 * transactions, so the order of the steps decides.
 *
 * Crashes:
 * - The copy is added to Sent first (APPEND); then the transaction accepts the message. A message whose copy cannot be
 *   kept is not accepted. A crash in between leaves a copy of a message that was never sent; the client got no answer.
 *   Nothing was queued, so nothing is sent twice. A client that repeats the request with its `Idempotency-Key` gets
 *   the same Message-ID: the copy is found by it, and not added again.
 * - `\Answered`, the removal of a draft and that of a cancelled copy come after the commit. The transaction queues
 *   each as a delivery of kind `copy`, which is withdrawn when the change succeeds at once. If the mail server
 *   fails, or the process dies, the queue repeats it. A repetition changes nothing more.
 */
import { type Static, Type } from 'typebox';
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { Mailstore, MailUser } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database, Queries } from '../../platform/database/database.ts';
import { isRefusal, Refusal, when } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { findSendingAccount } from '../../tenants/accounts/accounts.ts';
import { mailDelays, mailDestination } from '../outbound/outbound.ts';
import { type AttemptOutcome, payloadFormat, type Queue } from '../queue/queue.ts';
import {
  type AfterCommit,
  type Copies,
  FLAGS,
  type Keeping,
  type KeptMessage,
  NAMES,
  type PinnedLocation,
  passOverMissing,
  type SentMessage,
} from './copies.ts';

export interface ServerCopiesOptions {
  /** The mail server's, with every change published. */
  readonly mailstore: Pick<
    Mailstore,
    'listMailboxes' | 'sync' | 'createMailbox' | 'appendMessage' | 'expunge' | 'setFlags'
  >;
  readonly database: Database;
  readonly bodies: Pick<Bodies, 'read' | 'release' | 'removeFiles'>;
  readonly queue: Pick<Queue, 'enqueue' | 'withdraw' | 'wake' | 'work'>;
  readonly log: { warn(fields: object, message: string): void };
  readonly now?: () => EpochMs;
}

const COPY = 'copy';

/** A change in the sender's mailboxes, as rows of the queue name it. */
const change = Type.Object({
  user: Type.Object({ accountId: Type.Integer(), address: Type.String() }),
  place: Type.Object({
    mailbox: Type.String(),
    uid: Type.Integer(),
    uidvalidity: Type.String(),
  }),
  what: Type.Enum(['answered', 'removed']),
});
type Change = Static<typeof change>;
const changes = payloadFormat(1, change);

const undone = {
  answered: 'a message could not be marked as answered',
  removed: 'a message could not be removed',
};

/** A change that is not done by then is repeated: the process may have died. */
const REPEATED_AFTER_MS = 60_000;
/** With fewer than eight the lanes could not keep a slot for another user. */
const CHANGES_AT_A_TIME = 10;

/** A client without an answer repeats its request soon: at most so many messages have come since. */
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
      const commit = async () => ({ location: known, afterCommit: () => {} });
      // Not removed: it may belong to another request that is about to be accepted.
      return { commit, undo: async () => {} };
    }
    const request = { mailbox, flags: FLAGS[use], octets: body.size };
    const { uid, state } = await mailstore.appendMessage(user, request, bodies.read(body));
    const location = { mailbox: state.mailbox, uid, uidvalidity: state.uidvalidity };
    return {
      commit: async () => ({ location, afterCommit: () => {} }),
      undo: () => this.#takeBack(user, location),
    };
  }

  remove(
    tx: Queries,
    user: MailUser,
    location: PinnedLocation,
    sent: SentMessage,
  ): Promise<AfterCommit> {
    return this.#queue(tx, { user, place: location, what: 'removed' }, sent);
  }

  setAnswered(
    tx: Queries,
    user: MailUser,
    location: PinnedLocation,
    sent: SentMessage,
  ): Promise<AfterCommit> {
    return this.#queue(tx, { user, place: location, what: 'answered' }, sent);
  }

  /** Mailboxes of the server: no transaction waits for them. */
  inLine<T>(_accountIds: readonly number[], write: () => Promise<T>): Promise<T> {
    return write();
  }

  start(): void {
    this.#options.queue.work<Change, undefined>({
      kind: COPY,
      payloads: changes,
      concurrency: CHANGES_AT_A_TIME,
      delays: mailDelays,
      attempt: ({ payload }) => this.#attempt(payload),
    });
  }

  /** Queues a change, and tries it after the commit. */
  async #queue(
    tx: Queries,
    { user: { accountId, address }, place: { mailbox, uid, uidvalidity }, what }: Change,
    { domainId, bodyId }: SentMessage,
  ): Promise<AfterCommit> {
    const { database, bodies, queue, log, now = Date.now } = this.#options;
    const wanted = { user: { accountId, address }, place: { mailbox, uid, uidvalidity }, what };
    const { userId = '' } = (await findSendingAccount(tx, accountId)) ?? {};
    const delivery = {
      kind: COPY,
      userId,
      domainId,
      accountId,
      bodyId,
      destination: mailDestination(address),
      mailFrom: address,
      payload: changes.write(wanted),
      notBefore: now() + REPEATED_AFTER_MS,
    };
    const id = await queue.enqueue(tx, delivery);
    return async () => {
      try {
        await this.#make(wanted);
        const files = await database.write(async (after) =>
          (await queue.withdraw(after, id)) ? bodies.release(after, [bodyId]) : [],
        );
        await bodies.removeFiles(files);
      } catch (err) {
        log.warn({ err, account: accountId, mailbox, uid }, `${undone[what]}: it is tried again`);
        queue.wake([delivery]);
      }
    };
  }

  async #attempt(wanted: Change): Promise<AttemptOutcome> {
    const { database } = this.#options;
    // The message was deleted with its account.
    const account = await findSendingAccount(database.read, wanted.user.accountId);
    if (!account) return { result: 'delivered' };
    try {
      await this.#make(wanted);
      return { result: 'delivered' };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const text = `${undone[wanted.what]}: ${error.message}`;
      return { result: 'temporary', error: { text } };
    }
  }

  async #make({ user, place, what }: Change): Promise<void> {
    const { mailstore } = this.#options;
    const set = { ...place, uids: [place.uid] };
    const made =
      what === 'removed'
        ? mailstore.expunge(user, set)
        : mailstore.setFlags(user, set, { add: ['\\Answered'] });
    await made.catch(passOverMissing);
  }

  /** Searches a message among the newest of a mailbox. */
  async #find(
    user: MailUser,
    mailbox: string,
    messageId: string,
  ): Promise<PinnedLocation | undefined> {
    const { mailstore } = this.#options;
    const request = { mailbox, fields: ['envelope'], newest: true, limit: LOOKED_THROUGH } as const;
    const { changes, uidvalidity } = await mailstore.sync(user, request);
    const found = changes.added.find(({ envelope }) => envelope?.messageId === messageId);
    return found && { mailbox, uid: found.uid, uidvalidity };
  }

  /** Nothing was accepted, so nothing is queued either. */
  async #takeBack(user: MailUser, location: PinnedLocation): Promise<void> {
    try {
      await this.#make({ user, place: location, what: 'removed' });
    } catch (err) {
      this.#options.log.warn(
        { err, account: user.accountId },
        'a message was not accepted, and its copy could not be removed because the mail server failed: the copy stays in the mailbox',
      );
    }
  }

  /** The mailbox of that use, whatever its name on the server (RFC 6154); created where there is none. */
  async #findMailbox(user: MailUser, use: KeptMessage['use']): Promise<string> {
    const { mailstore } = this.#options;
    const mailboxes = await mailstore.listMailboxes(user);
    const name = NAMES[use];
    const found =
      mailboxes.find(({ specialUse }) => specialUse === use) ??
      mailboxes.find(({ mailbox }) => mailbox === name);
    if (found) return found.mailbox;
    const made = mailstore.createMailbox(user, name).then(({ state }) => state.mailbox);
    return made.catch(when(isRefusal('mailbox_exists'), name));
  }
}
