/**
 * Carries out what accounts sent: attempts each delivery, and writes the status of its recipients in the transaction
 * that writes the outcome.
 */
import { randomUUID } from 'node:crypto';
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { Database, Queries } from '../../platform/database/database.ts';
import { answerOf, type Refusal } from '../../platform/errors/errors.ts';
import { formatDate, readHeader } from '../../protocols/message/message.ts';
import { findSendingAccount } from '../../tenants/accounts/accounts.ts';
import { type DkimKey, type Domains, findSendingObstacle } from '../../tenants/domains/domains.ts';
import {
  buildDsn,
  type LocalMailDelivery,
  type MessageSender,
  mailDelays,
  mailDestination,
  type PreparedLocal,
  type PreparedMessage,
  prepareSubmission,
  type RecipientStatus as ReportedRecipient,
  type SendError,
  type SendOutcome,
} from '../outbound/outbound.ts';
import {
  type Attempted,
  type Job,
  type Outcome,
  type Place,
  Postponed,
  type Queue,
  type Settled,
} from '../queue/queue.ts';
import type { Trace } from '../trace/trace.ts';
import type { AfterCommit, Copies } from './copies.ts';
import {
  dropRecipients,
  readRecipients,
  SEND,
  type SendPayload,
  type SendRecipient,
  sendPayloads,
  takeDraft,
  writeStatuses,
} from './send-rows.ts';
import { findSuppressed, isAddressGone, type Suppression, suppress } from './suppressions.ts';

export interface CarryOutSendsOptions {
  readonly database: Database;
  readonly queue: Queue;
  readonly bodies: Bodies;
  readonly domains: Pick<Domains, 'findActive' | 'findDkimKey'>;
  /** Delivers to recipients who are hosted here. */
  readonly local: LocalMailDelivery;
  /** The mailboxes of the sender. */
  readonly copies: Copies;
  readonly sender: Pick<MessageSender, 'sendMessage'>;
  /** Our host name. */
  readonly hostname: string;
  readonly log: { error(what: object, text: string): void };
  readonly trace?: Pick<Trace, 'write'> | undefined;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** Sessions at a time, in addition to those of forwarding and bounces. */
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
    attempt: (...begun) => courier.attempt(...begun),
    onOutcome: (...ended) => courier.afterAttempt(...ended),
    onDropped: (tx, ids) => dropRecipients(tx, ids),
  });
  options.copies.start();
}

/** The result of an attempt for each recipient, and what is written with it. */
interface Prepared {
  readonly results: readonly Result[];
  /** For recipients hosted here. */
  readonly local: PreparedLocal | undefined;
  /** For the account's INBOX, where a recipient does not get the message. */
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

  async attempt(
    job: Job<SendPayload>,
    signal: AbortSignal,
    place: Place,
  ): Promise<Attempted<Prepared>> {
    const recipients = await this.#findDue(job);
    // Mail of a deleted account is dropped.
    if (recipients.length === 0) return { result: 'permanent', error: GONE };
    const sent = await this.#sendAll(job, recipients, signal, place).catch(
      (error: unknown): Sent => {
        // After five days the sender gets a bounce, also where the reason is a local error.
        if (!job.isLast || error instanceof Postponed) throw error;
        this.#options.log.error(
          { err: error, id: job.id, mailId: job.mailId },
          'the last attempt to send a message failed unexpectedly: it counts as a temporary failure',
        );
        return allOf(recipients, 'temporary', INTERNAL);
      },
    );
    const { results, local } = sent;
    const outcome = outcomeOf(results);
    const undelivered = job.isReplay || sent.isGone ? [] : endedWithout(job, results);
    const dsn = undelivered.length > 0 ? await this.#writeDsn(job, undelivered) : undefined;
    return { ...outcome, prepared: { results, local, dsn } };
  }

  async afterAttempt(
    tx: Queries,
    { id: deliveryId, domainId, bodyId, payload }: Job<SendPayload>,
    { status }: Settled,
    prepared: Prepared | undefined,
  ): Promise<(() => void) | undefined> {
    if (!prepared) return undefined;
    const { results, local, dsn } = prepared;
    const { copies, local: localMail } = this.#options;
    const { sendId, account } = payload;
    const recipients = results.map((result) => recipientOf(result, status === 'failed'));
    await writeStatuses(tx, { sendId, deliveryId }, recipients);
    const bounced = recipients.filter((one) => one.status === 'bounced');
    await this.#options.trace?.write(
      tx,
      bounced.map(({ address: recipient, detail }) => ({
        mailId: payload.id,
        event: 'bounced',
        recipient,
        deliveryId,
        detail,
      })),
    );
    if (!local) await this.#suppress(tx, domainId, results);
    const done: AfterCommit[] = [];
    if (local) done.push(await local.commit(tx));
    // The mail is sent, so its draft is removed.
    const draft = await takeDraft(tx, sendId);
    if (draft) done.push(await copies.remove(tx, account, draft, { domainId, bodyId }));
    if (dsn) done.push(await localMail.report(tx, account, dsn, payload.id));
    return () => {
      for (const one of done) void one();
    };
  }

  /** Accounts can no longer write to an address that does not exist. */
  async #suppress(tx: Queries, domainId: number, results: readonly Result[]): Promise<void> {
    const createdAt = this.#now();
    for (const result of results) {
      const { address, outcome } = result;
      if (outcome.result !== 'permanent' || !isAddressGone(outcome.error)) continue;
      const { detail = '' } = recipientOf(result, true);
      await suppress(tx, domainId, { address, detail, createdAt });
    }
  }

  /** Recipients to attempt: in a replay by hand those who did not get the message, otherwise all. */
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
    place: Place,
  ): Promise<Sent> {
    const { database, bodies, domains } = this.#options;
    const { account, domain } = job.payload;
    const found = await findSendingAccount(database.read, account.accountId);
    if (!found) return { ...allOf(recipients, 'permanent', GONE), isGone: true };
    if (found.status !== 'active') return allOf(recipients, 'temporary', SUSPENDED);
    const obstacle = await findSendingObstacle(database.read, job.domainId);
    if (obstacle) {
      const text = `${domain} ${obstacle}`;
      return allOf(recipients, 'temporary', { enhancedStatus: '4.7.1', text });
    }
    const body = await bodies.get(job.bodyId);
    const message = await prepareSubmission({
      open: () => bodies.read(body),
      received: this.#received(job.payload),
      domain,
      dkimKey: await domains.findDkimKey(job.domainId),
      now: this.#now(),
    });
    const [first = ''] = recipients;
    // One delivery is for one domain. Whether it is hosted here may have changed since.
    return (await domains.findActive(mailDestination(first)))
      ? this.#deliverHere(job, recipients, message)
      : this.#sendOut(job, recipients, { ...message, place }, signal);
  }

  async #deliverHere(
    { payload: { id, from, acceptedAt } }: Job<SendPayload>,
    recipients: readonly string[],
    { open, size }: PreparedMessage,
  ): Promise<Sent> {
    const { hostname, local } = this.#options;
    const prepared = await local.prepare({ id, from, recipients, acceptedAt, size, open });
    const results = recipients.map((address): Result => {
      const refusal = prepared.refused.get(address);
      const outcome: SendOutcome = refusal
        ? refusedHere(refusal)
        : { result: 'delivered', host: hostname, detail: 'delivered here' };
      return { address, outcome };
    });
    return { results, local: prepared };
  }

  async #sendOut(
    { payload: { from, domain }, domainId }: Job<SendPayload>,
    recipients: readonly string[],
    {
      size,
      eightBit,
      eightBitHeader: smtpUtf8,
      open,
      place,
    }: PreparedMessage & {
      readonly place: Place;
    },
    signal: AbortSignal,
  ): Promise<Sent> {
    const { database, sender } = this.#options;
    const suppressed = await findSuppressed(database.read, domainId, recipients);
    const results: Result[] = [];
    for (const to of recipients) {
      const known = suppressed.get(to);
      if (known) {
        results.push({ address: to, outcome: refuseSuppressed(known, domain) });
        continue;
      }
      const envelope = { from, to, size, eightBit, smtpUtf8, open, place };
      results.push({ address: to, outcome: await sender.sendMessage(envelope, signal) });
    }
    return { results };
  }

  /** RFC 5321 section 4.4; the address of the app's user is private. */
  #received({ id, acceptedAt }: SendPayload): string {
    const { hostname } = this.#options;
    return `Received: by ${hostname} with HTTP id ${id};\r\n ${formatDate(acceptedAt)}`;
  }

  /** RFC 3464: a report in the account's own INBOX about recipients who did not get the message. */
  async #writeDsn(job: Job<SendPayload>, results: readonly Result[]): Promise<Buffer> {
    const { hostname, domains, bodies } = this.#options;
    const { domain, account, acceptedAt } = job.payload;
    const now = this.#now();
    const body = await bodies.find(job.bodyId);
    const header = body && (await readHeader(bodies.read(body)));
    const dkimKey: DkimKey | undefined = await domains.findDkimKey(job.domainId);
    const dsn = await buildDsn({
      hostname,
      domain,
      dkimKey,
      now,
      sender: account.address,
      recipients: results.flatMap((result) => reportOf(result, now)),
      header: header ?? { fields: [], size: 0, isWhole: true },
      arrived: acceptedAt,
      id: randomUUID(),
    });
    return Buffer.concat(await Array.fromAsync(dsn.open()));
  }
}

/** The result of an attempt. */
interface Sent {
  readonly results: readonly Result[];
  readonly local?: PreparedLocal;
  /** The account was deleted: nobody gets a report then. */
  readonly isGone?: true;
}

const GONE: SendError = { enhancedStatus: '5.7.1', text: 'the account was deleted' };
const SUSPENDED: SendError = { enhancedStatus: '4.7.1', text: 'the account is suspended' };

function allOf(
  recipients: readonly string[],
  result: 'temporary' | 'permanent',
  error: SendError,
): Sent {
  return { results: recipients.map((address) => ({ address, outcome: { result, error } })) };
}

/** RFC 3463: 5.7.1 is our own refusal, not the far end's. */
function refuseSuppressed({ detail, createdAt }: Suppression, domain: string): SendOutcome {
  const since = new Date(createdAt).toISOString().slice(0, 10);
  const text = `on the suppression list of ${domain} since ${since}: ${detail}`;
  return { result: 'permanent', error: { enhancedStatus: '5.7.1', text } };
}

function refusedHere({ code, message: text }: Refusal): SendOutcome {
  const { code: status, enhanced: enhancedStatus } = answerOf(code).smtp;
  const result = status < 500 ? 'temporary' : 'permanent';
  return { result, error: { status, enhancedStatus, text } };
}

/** The delivery continues as long as one of its recipients may get the message. */
function outcomeOf(results: readonly Result[]): Outcome {
  const failed = results.flatMap(({ outcome }) =>
    outcome.result === 'delivered' ? [] : [outcome],
  );
  const telling = failed.find(({ result }) => result === 'temporary') ?? failed[0];
  if (!telling) return { result: 'delivered' };
  const { status, text } = telling.error;
  return { result: telling.result, error: { text, ...(status !== undefined && { status }) } };
}

/** Recipients who will not get the message, by the result of this attempt. */
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
