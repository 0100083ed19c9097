/**
 * Carries out what accounts sent: attempts each delivery, and writes what became of its recipients in the
 * transaction that writes the outcome.
 */
import { randomUUID } from 'node:crypto';
import { findSendingAccount } from '../accounts/accounts.ts';
import type { Bodies } from '../bodies/bodies.ts';
import type { MailboxChange } from '../changes/changes.ts';
import type { Database, Queries } from '../database/database.ts';
import { type DkimKey, type Domains, findSendingObstacle } from '../domains/domains.ts';
import { describeMessage, type EmbeddedMailstore } from '../mailstore/mailstore.ts';
import { MessageParser, readHeader } from '../message/message.ts';
import {
  buildDsn,
  formatDate,
  type MessageSender,
  mailDelays,
  prepareSubmission,
  type RecipientStatus as ReportedRecipient,
  type SendError,
  type SendOutcome,
} from '../outbound/outbound.ts';
import type { Attempted, Job, Outcome, Queue, Settled } from '../queue/queue.ts';
import { SEND, type SendPayload, sendPayloads } from './kind.ts';
import { readRecipients, type SendRecipient, writeStatuses } from './send-rows.ts';

export interface CarryOutSendsOptions {
  readonly database: Database;
  readonly queue: Queue;
  readonly bodies: Bodies;
  readonly domains: Pick<Domains, 'findDkimKey'>;
  readonly mailstore: Pick<EmbeddedMailstore, 'append'>;
  readonly publish: (change: MailboxChange) => void;
  readonly sender: MessageSender;
  /** Our host name. */
  readonly hostname: string;
  readonly log: { error(what: object, text: string): void };
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** Sessions at a time, beside those of forwarding and bounces. */
const SESSIONS = { perDestination: 16, inAll: 224 };

/** Starts the worker; `queue.stop` ends it. */
export function carryOutSends(options: CarryOutSendsOptions): void {
  const courier = new SendCourier(options);
  options.queue.work<SendPayload, Prepared>({
    kind: SEND,
    payloads: sendPayloads,
    concurrency: SESSIONS.inAll,
    perDestination: SESSIONS.perDestination,
    delays: mailDelays,
    attempt: (job, signal) => courier.attempt(job, signal),
    onOutcome: (...ended) => courier.afterAttempt(...ended),
  });
}

/** What came of an attempt for each recipient, and what is written with it. */
interface Prepared {
  readonly results: readonly Result[];
  /** For the account's INBOX, where somebody does not get the message. */
  readonly dsn: Buffer | undefined;
}

interface Result {
  readonly address: string;
  readonly outcome: SendOutcome;
}

const INTERNAL: SendError = { enhancedStatus: '4.3.0', text: 'internal error' };

class SendCourier {
  readonly #options: CarryOutSendsOptions;
  readonly #now: () => number;

  constructor(options: CarryOutSendsOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  async attempt(job: Job<SendPayload>, signal: AbortSignal): Promise<Attempted<Prepared>> {
    const recipients = await this.#findDue(job);
    const results = await this.#sendAll(job, recipients, signal).catch((error: unknown) => {
      // After five days the sender is to be told, whatever it is that keeps us from sending.
      if (!job.isLast) throw error;
      this.#options.log.error({ err: error, id: job.id }, 'the last attempt to send threw');
      return allOf(recipients, 'temporary', INTERNAL);
    });
    const outcome = outcomeOf(results);
    const undelivered = job.isReplay ? [] : endedWithout(job, results);
    const dsn = undelivered.length > 0 ? await this.#writeDsn(job, undelivered) : undefined;
    return { ...outcome, prepared: { results, dsn } };
  }

  async afterAttempt(
    tx: Queries,
    { id: deliveryId, payload }: Job<SendPayload>,
    { status }: Settled,
    prepared: Prepared | undefined,
  ): Promise<(() => void) | undefined> {
    if (!prepared) return undefined;
    const { results, dsn } = prepared;
    const recipients = results.map((result) => recipientOf(result, status === 'failed'));
    await writeStatuses(tx, { sendId: payload.sendId, deliveryId }, recipients);
    return dsn && this.#storeDsn(tx, payload, dsn);
  }

  /** Recipients whose turn it is: in a replay by hand those who did not get it, or else all. */
  async #findDue({ id, payload, isReplay }: Job<SendPayload>): Promise<string[]> {
    const rows = await readRecipients(this.#options.database.read, payload.sendId);
    const own = rows.filter((row) => row.delivery_id === id);
    const due = own.filter(({ status }) =>
      isReplay ? status !== 'delivered' : status === 'queued' || status === 'deferred',
    );
    return (due.length > 0 || !isReplay ? due : own).map(({ address }) => address);
  }

  async #sendAll(
    job: Job<SendPayload>,
    recipients: readonly string[],
    signal: AbortSignal,
  ): Promise<Result[]> {
    const { database, bodies, domains, sender } = this.#options;
    const { account, domain, from } = job.payload;
    const found = await findSendingAccount(database.read, account.accountId);
    if (!found) return allOf(recipients, 'permanent', GONE);
    if (found.status !== 'active') return allOf(recipients, 'temporary', SUSPENDED);
    const obstacle = await findSendingObstacle(database.read, job.domainId);
    if (obstacle) {
      const text = `${domain} ${obstacle}`;
      return allOf(recipients, 'temporary', { enhancedStatus: '4.7.1', text });
    }
    const body = await bodies.find(job.bodyId);
    if (!body) throw new Error(`delivery ${job.id} has no body`);
    const message = await prepareSubmission({
      open: () => bodies.read(body),
      received: this.#received(job.payload),
      domain,
      dkimKey: await domains.findDkimKey(job.domainId),
      now: this.#now(),
    });
    const { size, eightBit, eightBitHeader: smtpUtf8, open } = message;
    const results: Result[] = [];
    for (const to of recipients) {
      const envelope = { from, to, size, eightBit, smtpUtf8, open };
      results.push({ address: to, outcome: await sender.sendMessage(envelope, signal) });
    }
    return results;
  }

  /** RFC 5321 section 4.4; where the app was is nobody's business. */
  #received({ id, acceptedAt }: SendPayload): string {
    const { hostname } = this.#options;
    return `Received: by ${hostname} with HTTP id ${id};\r\n ${formatDate(acceptedAt)}`;
  }

  /** RFC 3464: says in the account's own INBOX who did not get the message. */
  async #writeDsn(job: Job<SendPayload>, results: readonly Result[]): Promise<Buffer> {
    const { hostname, domains, bodies } = this.#options;
    const { domain, account, acceptedAt } = job.payload;
    const now = this.#now();
    const body = await bodies.find(job.bodyId);
    const header = body && (await readHeader(bodies.read(body)));
    const dkimKey: DkimKey | undefined = await domains.findDkimKey(job.domainId);
    const dsn = await buildDsn({
      ...{ hostname, domain, dkimKey, now },
      sender: account.address,
      recipients: results.flatMap((result) => reportOf(result, now)),
      header: header ?? { fields: [], size: 0, isWhole: true },
      arrived: acceptedAt,
      id: randomUUID(),
    });
    return Buffer.concat(await Array.fromAsync(dsn.open()));
  }

  async #storeDsn(tx: Queries, { account }: SendPayload, source: Buffer): Promise<() => void> {
    const { bodies, mailstore, publish } = this.#options;
    const parser = new MessageParser();
    parser.write(source);
    const texts = describeMessage(parser.end());
    const bodyId = await bodies.commit(tx, { size: source.length, content: source });
    const target = { user: account, mailbox: 'INBOX', internalDate: this.#now() };
    const appended = await mailstore.append(tx, { ...texts, bodyId }, [target]);
    return () => {
      for (const { change } of appended) publish(change);
    };
  }
}

const GONE: SendError = { enhancedStatus: '5.7.1', text: 'the account was deleted' };
const SUSPENDED: SendError = { enhancedStatus: '4.7.1', text: 'the account is suspended' };

function allOf(
  recipients: readonly string[],
  result: 'temporary' | 'permanent',
  error: SendError,
): Result[] {
  return recipients.map((address) => ({ address, outcome: { result, error } }));
}

/** The delivery goes on as long as one of its recipients may get the message. */
function outcomeOf(results: readonly Result[]): Outcome {
  const failed = results.flatMap(({ outcome }) =>
    outcome.result === 'delivered' ? [] : [outcome],
  );
  const telling = failed.find(({ result }) => result === 'temporary') ?? failed[0];
  if (!telling) return { result: 'delivered' };
  const { status, text } = telling.error;
  return { result: telling.result, error: { text, ...(status !== undefined && { status }) } };
}

/** Recipients who will not get the message, as this attempt tells. */
function endedWithout({ isLast }: Job, results: readonly Result[]): Result[] {
  return results.filter(
    ({ outcome: { result } }) => result === 'permanent' || (result === 'temporary' && isLast),
  );
}

function recipientOf({ address, outcome }: Result, isOver: boolean): SendRecipient {
  if (outcome.result === 'delivered') {
    return { address, status: 'delivered', detail: `${outcome.host}: ${outcome.detail}` };
  }
  const { status, enhancedStatus, text, host } = outcome.error;
  const said = status === undefined ? text : `${status} ${enhancedStatus} ${text}`;
  const detail = host === undefined ? said : `${host}: ${said}`;
  const isBounced = isOver || outcome.result === 'permanent';
  return { address, status: isBounced ? 'bounced' : 'deferred', detail };
}

function reportOf({ address, outcome }: Result, now: number): ReportedRecipient[] {
  if (outcome.result === 'delivered') return [];
  const { error } = outcome;
  // After the last attempt a temporary failure is final (RFC 3464 section 2.3.4).
  const enhancedStatus = error.enhancedStatus.replace(/^4/, '5');
  return [{ recipient: address, error: { ...error, enhancedStatus }, lastAttempt: now }];
}
