/**
 * Accepts a message from an account: checks it, writes it, keeps a copy in Sent and queues it for its recipients.
 *
 * Crashes:
 * - Before the commit nothing was accepted: the client gets no 202. The sweep removes the file of a large body.
 * - Copy and queue rows are one transaction: after it the message is sent, whatever happens.
 * - After the commit and before the answer the client does not know the result. With an `Idempotency-Key` it asks
 *   again and gets the same answer: the key is a column of the row that the transaction wrote.
 */
import { createHash, hash, randomUUID } from 'node:crypto';
import { throwOrRefuse } from '../../mailboxes/bodies/bodies.ts';
import {
  type Mailstore,
  type MailUser,
  type StagedMessage,
  stageMessage,
} from '../../mailboxes/mailstore/mailstore.ts';
import type { InTransaction, Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import {
  findSendingAccount,
  type MailAccess,
  type SendingAccount,
} from '../../tenants/accounts/accounts.ts';
import { findSendingObstacle } from '../../tenants/domains/domains.ts';
import type { Trace } from '../trace/trace.ts';
import { type AcceptOptions, accept } from './accept.ts';
import { type CancelOptions, cancelSend } from './cancel.ts';
import { checkDraft, composeMessage, recipientsOf } from './compose-message.ts';
import { findDraft, type PinnedLocation, pinLocation } from './copies.ts';
import type { WrittenMessage } from './new-send.ts';
import { OneStatement } from './one-statement.ts';
import {
  type ComposeRequest,
  type DraftRequest,
  type OnRead,
  readRequest,
  readSendAt,
  type SendTimes,
} from './read-request.ts';
import { readSource } from './read-source.ts';
import { type SavedDraft, saveDraft } from './save-draft.ts';
import {
  type Accepted,
  findAccepted,
  findSend,
  findSends,
  type RequestKey,
  readStatuses,
  type SendName,
  type SendStatus,
  sendNotFound,
} from './send-rows.ts';
import {
  AccountSubmitter,
  type SubmissionLog,
  type SubmittedEnvelope,
  submissionKey,
} from './submission.ts';
import { findWaiting } from './waiting-sends.ts';

export interface SendingOptions
  extends Omit<AcceptOptions, 'now' | 'queue' | 'oneStatement' | 'trace'> {
  readonly queue: AcceptOptions['queue'] & CancelOptions['queue'];
  /** Reads the answered message and attachments. */
  readonly mailstore: Pick<Mailstore, 'listMailboxes' | 'fetchMessage' | 'fetchPart'>;
  readonly trace?: Pick<Trace, 'isOn' | 'write' | 'rowsOf'> | undefined;
  /** Whether accounts may send. */
  readonly enabled: boolean;
  /** The most octets of a message. */
  readonly maxMessageBytes: number;
  readonly log: SubmissionLog;
  readonly now?: () => EpochMs;
}

export class Sending {
  readonly #options: SendingOptions & Pick<AcceptOptions, 'now' | 'oneStatement'>;

  constructor(options: SendingOptions) {
    const oneStatement = new OneStatement(options);
    this.#options = { ...options, now: options.now ?? Date.now, oneStatement };
  }

  /**
   * Accepts a message that Postroom writes. When it returns, the message is durable.
   *
   * @param key `Idempotency-Key` of the request
   * @throws Refusal invalid_request, send_disabled, domain_not_ready, message_too_large,
   *   idempotency_key_reused, send_limit, mailbox_not_found, message_not_found, part_not_found,
   *   uidvalidity_changed, storage_full; what `onRead` throws
   */
  async send(
    user: MailUser,
    request: ComposeRequest,
    key?: string,
    onRead?: OnRead,
  ): Promise<Accepted> {
    const { database, mailstore, now } = this.#options;
    const named = key === undefined ? undefined : { key, hash: hashOf(request) };
    const known = named && (await findAccepted(database.read, user.accountId, named));
    if (known) return known;
    const account = await this.#findSender(database.read, user);
    const sendAt = readSendAt(request, now());
    const messageId = newMessageId(account, named);
    const own = { messageId, date: new Date(sendAt ?? now()) };
    const { inReplyTo, draft } = request;
    const answered = inReplyTo && (await pinLocation(mailstore, user, inReplyTo));
    const composition = await readRequest(request, { mailstore, user, account, own, onRead });
    const written = draft && (await findDraft(mailstore, user, draft));
    const { source } = await composeMessage(composition);
    const staged = await this.#stage(source);
    return this.#accept({
      user,
      account,
      staged,
      messageId,
      sendAt,
      key: named,
      isRepeatable: named !== undefined,
      from: composition.from.address,
      recipients: recipientsOf(composition),
      inReplyTo: answered,
      draft: written,
    });
  }

  /**
   * Accepts a message that the app wrote (RFC 5322): it is sent to the addresses in To, Cc and Bcc.
   *
   * @param source octets of the message
   * @throws as {@link Sending.send}; any error of the source
   */
  async sendSource(
    user: MailUser,
    source: AsyncIterable<Uint8Array>,
    times: SendTimes,
    key?: string,
  ): Promise<Accepted> {
    const { database, bodies, now } = this.#options;
    const hash = createHash('sha256').update(JSON.stringify(times));
    const staged = await this.#stage(hashed(source, hash));
    const named = key === undefined ? undefined : { key, hash: hash.digest('hex') };
    let message: WrittenMessage;
    try {
      // Checked first: an accepted request gets its answer again, whatever has changed since.
      const known = named && (await findAccepted(database.read, user.accountId, named));
      if (known) {
        await bodies.discard(staged.body);
        return known;
      }
      const account = await this.#findSender(database.read, user);
      const sendAt = readSendAt(times, now());
      const messageId = newMessageId(account, named);
      const own = { messageId, date: new Date(sendAt ?? now()) };
      const read = await readSource(staged, (body) => bodies.read(body), account, own);
      const isRepeatable = named !== undefined && read.messageId === messageId;
      const nothing = { inReplyTo: undefined, draft: undefined };
      message = { user, account, ...read, sendAt, key: named, isRepeatable, ...nothing };
    } catch (error) {
      await bodies.discard(staged.body);
      throw error;
    }
    return this.#accept(message);
  }

  /**
   * Stores a message that is not sent yet; see {@link saveDraft}.
   *
   * @param key as of {@link Sending.send}: a mail server is asked whether it has the draft of an attempt that died
   */
  async saveDraft(
    user: MailUser,
    request: DraftRequest,
    key?: string,
    within?: InTransaction<SavedDraft>,
    onRead?: OnRead,
  ): Promise<SavedDraft> {
    const { database, bodies, mailstore, now } = this.#options;
    const named = key === undefined ? undefined : { key, hash: hashOf(request) };
    const account = await findSendingAccount(database.read, user.accountId);
    if (!account) throw accountNotFound(user);
    const own = { messageId: newMessageId(account, named), date: new Date(now()) };
    const { draft } = request;
    const context = { mailstore, user, account, own, onRead };
    const composition = await readRequest(request, context, checkDraft);
    const replaced = draft && (await findDraft(mailstore, user, draft));
    const { source, parts } = await composeMessage(composition);
    const staged = await this.#stage(source);
    const messageId = named && own.messageId;
    try {
      const { domainId } = account;
      const draft = { user, domainId, staged, messageId, replaced, parts };
      return await saveDraft(this.#options, draft, within);
    } catch (error) {
      // After any other error the commit may have happened: the sweep decides then.
      if (error instanceof Refusal) await bodies.discard(staged.body);
      return throwOrRefuse(error);
    }
  }

  /** Takes mail of an account that logged in by SMTP. */
  submitter(access: MailAccess): AccountSubmitter {
    const { database, bodies, now, log } = this.#options;
    return new AccountSubmitter(access, {
      database,
      now,
      log,
      checkRoom: (octets) => bodies.checkRoom(octets),
      findSender: () => this.#findSender(database.read, access),
      submit: (envelope, source) => this.#submit(access, envelope, source),
    });
  }

  /** As {@link Sending.sendSource}, with the recipients of the envelope, and without a copy in Sent. */
  async #submit(
    user: MailUser,
    { from, to, via }: SubmittedEnvelope,
    source: AsyncIterable<Uint8Array>,
  ): Promise<Accepted> {
    const { database, bodies, now } = this.#options;
    const hash = createHash('sha256').update(JSON.stringify([from, to.toSorted()]));
    const staged = await this.#stage(hashed(source, hash));
    let message: WrittenMessage;
    try {
      const account = await this.#findSender(database.read, user);
      const at = now();
      const own = { messageId: newMessageId(account), date: new Date(at) };
      const open = (body: StagedMessage['body']) => bodies.read(body);
      const read = await readSource(staged, open, account, own, to);
      const key =
        read.messageId === own.messageId ? undefined : submissionKey(hash.digest('hex'), at);
      const nothing = { sendAt: undefined, inReplyTo: undefined, draft: undefined };
      message = { user, account, ...read, from, via, key, isRepeatable: false, ...nothing };
    } catch (error) {
      await bodies.discard(staged.body);
      throw error;
    }
    return this.#accept(message);
  }

  /** The status of a message. @throws Refusal send_not_found */
  async find(user: MailUser, by: SendName): Promise<SendStatus> {
    const { read } = this.#options.database;
    const row = await findSend(read, user.accountId, by);
    const [status] = await readStatuses(read, row ? [row] : []);
    if (!status) throw sendNotFound(by);
    return status;
  }

  /**
   * The statuses of messages by their ids, in this order, without those that the account did not send.
   *
   * @param waiting whether others follow that a recipient still waits for, whichever app sent them
   */
  async findAll(user: MailUser, ids: readonly string[], waiting: boolean): Promise<SendStatus[]> {
    const { read } = this.#options.database;
    const named = await findSends(read, user.accountId, ids);
    const others = waiting ? await findWaiting(read, user.accountId) : [];
    const rows = new Map([...named, ...others].map((row) => [row.id, row]));
    return readStatuses(read, [...rows.values()]);
  }

  /** See {@link cancelSend}. */
  cancel(user: MailUser, id: string): Promise<PinnedLocation> {
    return cancelSend(this.#options, user, id);
  }

  async #findSender(queries: Queries, { accountId, address }: MailUser): Promise<SendingAccount> {
    if (!this.#options.enabled) {
      throw new Refusal('send_disabled', 'the operator of this server has switched sending off');
    }
    const account = await findSendingAccount(queries, accountId);
    if (!account) throw accountNotFound({ address });
    const obstacle = await findSendingObstacle(queries, account.domainId);
    if (obstacle) throw new Refusal('domain_not_ready', `${account.domain} ${obstacle}`);
    return account;
  }

  #stage(source: AsyncIterable<Uint8Array>): Promise<StagedMessage> {
    const { bodies, maxMessageBytes } = this.#options;
    return stageMessage(bodies, bounded(source, maxMessageBytes)).catch(throwOrRefuse);
  }

  async #accept(message: WrittenMessage): Promise<Accepted> {
    try {
      return await accept(this.#options, message);
    } catch (error) {
      // After any other error the commit may have happened: the sweep decides then.
      if (error instanceof Refusal) await this.#options.bodies.discard(message.staged.body);
      return throwOrRefuse(error);
    }
  }
}

const hashOf = (request: DraftRequest) => hash('sha256', JSON.stringify(request));

function accountNotFound({ address }: Pick<MailUser, 'address'>): Refusal {
  return new Refusal('account_not_found', `there is no account ${address}`);
}

/** A unique Message-ID; the same for a request that is repeated with its key. */
function newMessageId({ address, domain }: SendingAccount, named?: RequestKey): string {
  if (!named) return `<${randomUUID()}@${domain}>`;
  const request = JSON.stringify([address, named.key, named.hash]);
  return `<${hash('sha256', request).slice(0, 32)}@${domain}>`;
}

async function* hashed(
  source: AsyncIterable<Uint8Array>,
  hash: { update(bytes: Uint8Array): unknown },
): AsyncGenerator<Uint8Array> {
  for await (const chunk of source) {
    hash.update(chunk);
    yield chunk;
  }
}

async function* bounded(
  source: AsyncIterable<Uint8Array>,
  most: number,
): AsyncGenerator<Uint8Array> {
  let size = 0;
  for await (const chunk of source) {
    size += chunk.length;
    if (size > most) {
      throw new Refusal('message_too_large', `the message has more than ${most} octets`);
    }
    yield chunk;
  }
}
