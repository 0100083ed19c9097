/**
 * Carries out what accounts sent: attempts each delivery, and writes the status of its recipients in the transaction
 * that writes the outcome.
 *
 * A delivery is for all recipients of one destination, and each has a status of its own. An attempt tries those that are
 * `queued`; where none is, those that are `deferred`. A recipient that could not be tried together with the others is
 * put off: it is `queued` (again), and the next attempt comes at once and does not count. So a round of attempts tries
 * each waiting recipient once, and the schedule goes on when nobody is `queued` any more.
 *
 * Crashes: an attempt makes one transfer, and its results are written before anything else is tried. If the process is
 * killed between the two, these recipients get the message again, as from any mail server.
 */
import { randomUUID } from 'node:crypto';
import type { Queries } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { readHeader } from '../../protocols/message/message.ts';
import { findSendingAccount } from '../../tenants/accounts/accounts.ts';
import { type DkimKey, findSendingObstacle } from '../../tenants/domains/domains.ts';
import { writeEvents } from '../../tenants/events/events.ts';
import type { Usage } from '../../tenants/usage/usage.ts';
import {
  buildDsn,
  type MessageSender,
  mailDelays,
  type PreparedLocal,
  type PreparedMessage,
  type SendError,
  type SendOutcome,
} from '../outbound/outbound.ts';
import {
  type Attempted,
  type Job,
  Postponed,
  type Queue,
  type Settled,
  type Slot,
} from '../queue/queue.ts';
import type { TraceEvent } from '../trace/trace.ts';
import type { AcceptOptions } from './accept.ts';
import type { AfterCommit } from './copies.ts';
import {
  accountsOf,
  areHere,
  type DeliverHereOptions,
  deliveredHere,
  prepareSent,
} from './deliver-here.ts';
import {
  allOf,
  changedOf,
  endedWithout,
  findDue,
  isHostAway,
  isPutOff,
  outcomeOf,
  PUT_OFF,
  type Result,
  refusedHere,
  refuseSuppressed,
  reportOf,
  sendEvent,
  statusOf,
  type ToldRecipient,
} from './send-results.ts';
import {
  DROPPED,
  dropRecipients,
  readDeliveryRecipients,
  readWaiting,
  SEND,
  type SendPayload,
  type SendRecipient,
  sendPayloads,
  takeDraft,
  writeStatuses,
} from './send-rows.ts';
import { findSuppressed, isAddressGone, suppress } from './suppressions.ts';

export interface CarryOutSendsOptions
  extends DeliverHereOptions,
    Pick<AcceptOptions, 'database' | 'bodies' | 'copies' | 'trace'> {
  readonly queue: Queue;
  readonly bodies: AcceptOptions['bodies'];
  readonly sender: Pick<MessageSender, 'sendToAll'>;
  /** Counts bounces, and what recipients here get. */
  readonly usage: Pick<Usage, 'count'>;
  readonly log: { error(what: object, text: string): void };
  readonly now?: () => EpochMs;
}

/** Sessions at a time, in addition to those of forwarding and bounces. */
const SESSIONS = { perDestination: 16, inAll: 224 };

/** Starts the worker; `queue.stop` ends it. */
export function carryOutSends(options: CarryOutSendsOptions): void {
  const attempts = new SendAttempts(options);
  options.queue.work<SendPayload, Prepared>({
    kind: SEND,
    payloads: sendPayloads,
    concurrency: SESSIONS.inAll,
    perDestination: SESSIONS.perDestination,
    delays: mailDelays,
    // An event for each recipient.
    tellsEnds: true,
    attempt: (...begun) => attempts.attempt(...begun),
    onOutcome: (...ended) => attempts.afterAttempt(...ended),
    onDropped: (tx, ids) => attempts.afterDrop(tx, ids),
    recipientsOf: readWaiting,
  });
  options.copies.start();
}

/**
 * From this attempt on each recipient is tried alone: a host may defer the whole message because of one of them. By then
 * the message is nearly an hour old.
 */
const ALONE_FROM = 5;

/** The result of an attempt for each recipient that it tried, and what is written with it. */
interface Prepared {
  readonly results: readonly Result[];
  /** The new statuses, of recipients who were put off as well. */
  readonly statuses: readonly SendRecipient[];
  /** Those of them that are news. */
  readonly changed: readonly ToldRecipient[];
  /** For recipients hosted here. */
  readonly local: PreparedLocal | undefined;
  /** For the account's INBOX, where a recipient does not get the message. */
  readonly dsn: Buffer | undefined;
}

const BARE_REPORT =
  'what a report to a sender needs cannot be read: it goes unsigned, without the header of the message';

const INTERNAL: SendError = { enhancedStatus: '4.3.0', text: 'internal error' };

class SendAttempts {
  readonly #options: CarryOutSendsOptions;
  readonly #now: () => number;

  constructor(options: CarryOutSendsOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  async attempt(
    job: Job<SendPayload>,
    signal: AbortSignal,
    slot: Slot,
  ): Promise<Attempted<Prepared>> {
    const rows = await readDeliveryRecipients(this.#options.database.read, {
      sendId: job.payload.sendId,
      deliveryId: job.id,
    });
    const recipients = findDue(job, rows);
    // Mail of a deleted account is dropped.
    if (recipients.length === 0) return { result: 'permanent', error: GONE };
    const sent = await this.#sendAll(job, recipients, signal, slot).catch(
      (error: unknown): Sent => {
        // After five days the sender gets a bounce, also where the reason is a local error.
        if (!job.isLast || error instanceof Postponed) throw error;
        this.#options.log.error(
          { err: error, id: job.id, mailId: job.mailId },
          'the last attempt to send a message failed unexpectedly: it counts as a temporary failure',
        );
        return { results: allOf(recipients, 'temporary', INTERNAL) };
      },
    );
    const { local } = sent;
    const results = sent.results.filter((result) => !isPutOff(result));
    const statuses = sent.results.map((result) => statusOf(result, job.isLast));
    // Nobody is told about mail of the null sender (RFC 5321 section 4.5.5): a read receipt, such as of RFC 8098.
    const isSilent = job.isReplay || sent.isGone || job.payload.from === '';
    const undelivered = isSilent ? [] : endedWithout(job, results);
    const dsn = undelivered.length > 0 ? await this.#writeDsn(job, undelivered) : undefined;
    const accountIds = [job.payload.account.accountId, ...accountsOf(local)];
    return {
      ...outcomeOf(results, rows, statuses),
      // All others write no mailbox but that of a draft.
      ...((local || dsn) && { inLine: (write) => this.#options.copies.inLine(accountIds, write) }),
      prepared: { results, statuses, changed: changedOf(statuses, rows), local, dsn },
    };
  }

  async afterAttempt(
    tx: Queries,
    { id: deliveryId, domainId, bodyId, payload, isReplay }: Job<SendPayload>,
    _: Settled,
    prepared: Prepared | undefined,
  ): Promise<(() => void) | undefined> {
    if (!prepared) return undefined;
    const { results, statuses, changed, local, dsn } = prepared;
    const { copies, local: localMail, usage } = this.#options;
    const { sendId, account } = payload;
    const { accountId } = account;
    await writeStatuses(tx, { sendId, deliveryId }, statuses);
    const bounced = statuses.filter((one) => one.status === 'bounced');
    const traced: TraceEvent[] = bounced.map(({ address: recipient, detail }) => ({
      mailId: payload.id,
      event: 'bounced',
      recipient,
      deliveryId,
      detail,
    }));
    const events = changed.map((one) => sendEvent(accountId, payload.id, one));
    await writeEvents(tx, events, this.#now());
    if (!local) await this.#suppress(tx, domainId, results);
    const done: AfterCommit[] = [];
    if (local) {
      const delivered = await local.commit(tx);
      traced.push(...delivered.traced);
      done.push(delivered.afterCommit);
    }
    await this.#options.trace?.write(tx, traced);
    // The mail is sent, so its draft is removed.
    const draft = await takeDraft(tx, sendId);
    if (draft) done.push(await copies.remove(tx, account, draft, { domainId, bodyId }));
    if (dsn) done.push(await localMail.report(tx, account, dsn, payload.id));
    const counted = [...(local?.counted ?? [])];
    // A replay begins with those who bounced before.
    if (bounced.length > 0 && !isReplay) counted.push({ accountId, bounced: bounced.length });
    // After the mailboxes, as for incoming mail: transactions lock rows in one order.
    if (counted.length > 0) await usage.count(tx, counted);
    return () => {
      for (const one of done) void one();
    };
  }

  /** The queue notes the order, for the delivery as a whole. */
  async afterDrop(tx: Queries, deliveryIds: readonly number[]): Promise<void> {
    const dropped = await dropRecipients(tx, deliveryIds);
    const events = dropped.flatMap(({ address: recipient, deliveryId, mailId }) =>
      mailId === null ? [] : { mailId, event: 'bounced', recipient, deliveryId, detail: DROPPED },
    );
    await this.#options.trace?.write(tx, events);
    const told = dropped.flatMap(({ accountId, mailId, address }) => {
      if (accountId === null || mailId === null) return [];
      return [sendEvent(accountId, mailId, { address, status: 'bounced', detail: DROPPED })];
    });
    await writeEvents(tx, told, this.#now());
  }

  /** Accounts can no longer write to an address that does not exist. */
  async #suppress(tx: Queries, domainId: number, results: readonly Result[]): Promise<void> {
    const createdAt = this.#now();
    for (const result of results) {
      const { address, outcome } = result;
      if (outcome.result !== 'permanent' || !isAddressGone(outcome.error)) continue;
      const { detail = '' } = statusOf(result, true);
      await suppress(tx, domainId, { address, detail, createdAt });
    }
  }

  async #sendAll(
    job: Job<SendPayload>,
    recipients: readonly string[],
    signal: AbortSignal,
    slot: Slot,
  ): Promise<Sent> {
    const { database, bodies } = this.#options;
    const { account, domain } = job.payload;
    const found = await findSendingAccount(database.read, account.accountId);
    if (!found) return { results: allOf(recipients, 'permanent', GONE), isGone: true };
    if (found.status !== 'active') return { results: allOf(recipients, 'temporary', SUSPENDED) };
    const obstacle = await findSendingObstacle(database.read, job.domainId);
    if (obstacle) {
      const text = `${domain} ${obstacle}`;
      return { results: allOf(recipients, 'temporary', { enhancedStatus: '4.7.1', text }) };
    }
    const body = await bodies.get(job.bodyId);
    const outgoing = { ...job.payload, domainId: job.domainId };
    const message = await prepareSent(this.#options, outgoing, body, this.#now());
    // One delivery is for one domain. Whether it is hosted here may have changed since.
    return (await areHere(this.#options, recipients))
      ? this.#deliverHere(job, recipients, message)
      : this.#sendOut(job, recipients, { ...message, slot }, signal);
  }

  async #deliverHere(
    { payload: { id, from, acceptedAt } }: Job<SendPayload>,
    recipients: readonly string[],
    { open, size }: PreparedMessage,
  ): Promise<Sent> {
    const prepared = await this.#options.local.prepare({
      id,
      from,
      recipients,
      acceptedAt,
      size,
      open,
    });
    const results = recipients.map((address): Result => {
      const refusal = prepared.refused.get(address);
      const outcome: SendOutcome = refusal ? refusedHere(refusal) : deliveredHere(this.#options);
      return { address, outcome };
    });
    return { results, local: prepared };
  }

  async #sendOut(
    { payload: { from, domain, via }, domainId, attempt, isLast }: Job<SendPayload>,
    recipients: readonly string[],
    { size, eightBit, utf8Header, open, slot }: PreparedMessage & { readonly slot: Slot },
    signal: AbortSignal,
  ): Promise<Sent> {
    const { database, sender } = this.#options;
    const suppressed = await findSuppressed(database.read, domainId, recipients);
    const writable = recipients.filter((address) => !suppressed.has(address));
    // The last attempt is for all, so that one report names those who do not get it.
    const to = attempt < ALONE_FROM || isLast ? writable : writable.slice(0, 1);
    // A program that did not ask for SMTPUTF8 wrote UTF-8 as programs did before it, and every host takes that.
    const smtpUtf8 = utf8Header && (via === undefined || via.startsWith('UTF8'));
    const envelope = { from, to, size, eightBit, smtpUtf8, open, slot };
    const outcomes = to.length > 0 ? await sender.sendToAll(envelope, signal) : [];
    const sent = new Map(to.map((address, at) => [address, outcomes[at]]));
    const [first = PUT_OFF] = outcomes;
    // A host that cannot be reached is not tried for each of them.
    const others = isHostAway(first) ? first : PUT_OFF;
    const results = recipients.map((address): Result => {
      const known = suppressed.get(address);
      const outcome = known ? refuseSuppressed(known, domain) : (sent.get(address) ?? others);
      return { address, outcome };
    });
    return { results };
  }

  /** RFC 3464: a report in the account's own INBOX about recipients who did not get the message. */
  async #writeDsn(job: Job<SendPayload>, results: readonly Result[]): Promise<Buffer> {
    const { hostname, domains, bodies, log } = this.#options;
    const { domain, account, acceptedAt } = job.payload;
    const now = this.#now();
    const read = async () => {
      const body = await bodies.find(job.bodyId);
      const header = body && (await readHeader(bodies.read(body)));
      const dkimKey: DkimKey | undefined = await domains.findDkimKey(job.domainId);
      return { header, dkimKey };
    };
    // Others may just have got the message: an attempt that failed here would send it to them again.
    const { header, dkimKey } = await read().catch((err: unknown) => {
      log.error({ err, id: job.id, mailId: job.mailId }, BARE_REPORT);
      return { header: undefined, dkimKey: undefined };
    });
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
