/**
 * Brings inbound mail to the mailboxes of a mail server: by LMTP (RFC 2033) into INBOX, by IMAP into
 * other mailboxes. Keeps nothing of it here but what the server did not take: a row of the queue of
 * kind `mailbox` for each such recipient, with the body that it names.
 *
 * Crashes:
 * - Before the server answers the message's end, nothing was accepted; the sender has it still.
 * - After that and before our own answer, the sender has it as well and sends it again: a duplicate,
 *   the one that SMTP has wherever mail is passed on (RFC 1047). Where nothing is to be written here,
 *   there is no more in between than the answer; else one transaction.
 * - What is queued is attempted at least once. Wherever an earlier attempt may have come through (the
 *   process died, the connection broke after the message's end), the mailbox is looked through first
 *   for the id in our Received field.
 */
import { findAccountStates, findAccounts } from '../../accounts/accounts.ts';
import type { Bodies } from '../../bodies/bodies.ts';
import type { Database, Queries } from '../../database/database.ts';
import type {
  Alongside,
  Appended,
  AppendTarget,
  KeptMessage,
  MailOrigin,
  MailUser,
  StagedMessage,
} from '../../mailstore/mailstore.ts';
import {
  enqueueForMailbox,
  type InboundDelivery,
  type MailboxPayload,
  type MailboxResult,
} from '../../mailstore/mailstore.ts';
import type { Job, NewDelivery, Queue } from '../../queue/queue.ts';
import { type FailedResult, failed, refusalOf, refusalOfAll } from './outcome.ts';
import { type Addressed, type Source, Transport, type TransportOptions } from './transport.ts';

export interface InboundOptions extends TransportOptions {
  readonly database: Database;
  readonly bodies: Bodies;
  readonly queue: Pick<Queue, 'enqueue' | 'wake'>;
  /**
   * Whether the mailbox has the message with this id in a Received field already. Without it, what
   * may have come through is sent again.
   *
   * @throws whatever keeps it from being told
   */
  readonly isDelivered?: (user: MailUser, mailbox: string, receivedId: string) => Promise<boolean>;
  /** Tells the account's apps of new mail. It is not waited for, and may fail. */
  readonly announce?: (user: MailUser, mailbox: string) => Promise<void> | void;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** The first attempt of what was just tried; the same as the queue's own first delay. */
const RETRY_MS = 60_000;
/**
 * So soon after it was queued, nobody else can have begun a first attempt and be done with it: a
 * worker that stops has 5 s for it, the lease of one that dies runs longer.
 */
const FIRST_FOR_SURE_MS = 5_000;
/** Attempts that are put off while the mailbox cannot be looked through. */
const PUT_OFF_MAX = 4;

interface Left {
  readonly target: AppendTarget;
  readonly failure: FailedResult;
}

class MailServerDelivery implements InboundDelivery {
  readonly #options: InboundOptions;
  readonly #transport: Transport;
  readonly #now: () => number;
  readonly #startedAt: number;

  constructor(options: InboundOptions) {
    this.#options = options;
    this.#transport = new Transport(options);
    this.#now = options.now ?? Date.now;
    this.#startedAt = this.#now();
  }

  async append(
    message: StagedMessage,
    targets: readonly AppendTarget[],
    alongside?: Alongside,
  ): Promise<Appended[]> {
    const { bodies, queue } = this.#options;
    const origin = await message.transit?.origin();
    const { size } = message.body;
    const source = { open: () => bodies.read(message.body), size, origin };
    const left = await this.#deliver(source, targets);
    const refuse = message.transit?.refuse;
    for (const { target, failure } of left) refuse?.(target, refusalOf(failure, addressOf(target)));
    const isTaken = left.length < targets.length || refuse !== undefined;
    const rows = await this.#write(message, origin, refuse ? [] : left, isTaken, alongside);
    if (rows) queue.wake(rows);
    else await bodies.discard(message.body);
    return [];
  }

  async appendWithin(
    tx: Queries,
    { bodyId, origin }: KeptMessage,
    targets: readonly AppendTarget[],
  ): Promise<Appended[]> {
    const payloads = targets.map((target) => ({ ...payloadOf(target), ...(origin && { origin }) }));
    await this.#enqueue(tx, payloads, { bodyId });
    return [];
  }

  async attempt(job: Job, payload: MailboxPayload, signal: AbortSignal): Promise<MailboxResult> {
    const { database, bodies } = this.#options;
    const { user, mailbox, refused, origin } = payload;
    if (refused && job.isFirst) return { result: 'permanent', error: refused };
    const states = await findAccountStates(database.read, [user.accountId]);
    const state = states.get(user.accountId);
    if (!state) return { ...failed('permanent', '5.1.1', 'the account was deleted'), isGone: true };
    // The server knows addresses alone: the domain may be another claim's by now, with an account of
    // the same address, whose mail this is not. Bounced at the end, or delivered when it is back.
    const holders = await findAccounts(database, [user.address]);
    if (holders.get(user.address) !== user.accountId) {
      return failed('temporary', '4.2.1', 'the address is not of this account at present');
    }
    const known = await this.#lookFor(job, payload);
    if (known) return known;
    const body = await bodies.find(job.bodyId);
    if (!body) throw new Error(`delivery ${job.id} has no body`);
    const source = { open: () => bodies.read(body), size: body.size, origin };
    const [left] = await this.#deliver(source, [{ ...payload, user, mailbox }], signal);
    if (!left) return { result: 'delivered' };
    const { failure } = left;
    // Nothing of a suspended account's mail gets lost while it may be opened again.
    const isClosed = state.status === 'suspended' && failure.result === 'permanent';
    return isClosed ? { ...failure, result: 'temporary' } : failure;
  }

  close(): void {
    this.#transport.close();
  }

  /** @returns the targets that did not get it */
  async #deliver(
    source: Source,
    targets: readonly AppendTarget[],
    signal?: AbortSignal,
  ): Promise<Left[]> {
    const results = await this.#transport.deliver(source, targets, signal);
    const left: Left[] = [];
    for (const { target, result } of results) {
      if (result.result === 'delivered') this.#announce(target);
      else left.push({ target, failure: result });
    }
    for (const [text, some] of Object.entries(
      Object.groupBy(left, (one) => one.failure.error.text),
    )) {
      const error = some?.[0]?.failure.error;
      this.#options.log.warn(
        { text, status: error?.status, recipients: some?.length },
        'the mail server did not take a message',
      );
    }
    return left;
  }

  #announce({ user, mailbox }: Addressed): void {
    const { announce, log } = this.#options;
    const failedToTell = (error: unknown) => log.warn({ err: error }, 'new mail is not announced');
    try {
      Promise.resolve(announce?.(user, mailbox)).catch(failedToTell);
    } catch (error) {
      failedToTell(error);
    }
  }

  /**
   * One transaction: what goes along with the message, and what is left of it.
   *
   * @returns undefined where nothing was written that refers to the body
   * @throws Refusal where nobody took the message and nothing else is done with it
   */
  #write(
    { body }: StagedMessage,
    origin: MailOrigin | undefined,
    left: readonly Left[],
    isTaken: boolean,
    alongside: Alongside | undefined,
  ): Promise<NewDelivery[] | undefined> {
    const { database, bodies } = this.#options;
    return database.write(async (tx) => {
      let bodyId: number | undefined;
      const keepBody = async () => {
        bodyId ??= await bodies.commit(tx, body);
        return bodyId;
      };
      await alongside?.(tx, keepBody);
      if (left.length > 0) {
        if (bodyId === undefined && !isTaken) {
          throw refusalOfAll(
            left.map(({ target, failure }) => ({ failure, address: addressOf(target) })),
          );
        }
        const payloads = left.map(({ target, failure }) => ({
          ...payloadOf(target),
          ...(origin && { origin }),
          ...(failure.result === 'permanent' && { refused: failure.error }),
        }));
        return this.#enqueue(tx, payloads, { bodyId: await keepBody(), wasTried: true });
      }
      return bodyId === undefined ? undefined : [];
    });
  }

  /** Targets whose account is gone are passed over. */
  async #enqueue(
    tx: Queries,
    payloads: readonly MailboxPayload[],
    { bodyId, wasTried = false }: { readonly bodyId: number; readonly wasTried?: boolean },
  ): Promise<NewDelivery[]> {
    const ids = payloads.map(({ user }) => user.accountId);
    const states = await findAccountStates(tx, ids);
    const rows: NewDelivery[] = [];
    for (const payload of payloads) {
      const state = states.get(payload.user.accountId);
      if (!state) continue;
      const waits = wasTried && !payload.refused;
      rows.push(
        await enqueueForMailbox(this.#options.queue, tx, payload, {
          domainId: state.domainId,
          bodyId,
          ...(waits && { notBefore: this.#now() + RETRY_MS }),
        }),
      );
    }
    return rows;
  }

  /** What is known of a delivery that an earlier attempt may have made; undefined: it is to be made. */
  async #lookFor(
    job: Job,
    { user, mailbox, origin }: MailboxPayload,
  ): Promise<MailboxResult | undefined> {
    const { isDelivered, log } = this.#options;
    if (!isDelivered || !origin || this.#isFirstForSure(job)) return undefined;
    try {
      return (await isDelivered(user, mailbox, origin.id)) ? { result: 'delivered' } : undefined;
    } catch (error) {
      log.warn({ err: error, id: job.id }, 'a mailbox cannot be looked through');
      // Better twice than not at all, or days late.
      if (job.isLast || job.attempt > PUT_OFF_MAX) return undefined;
      return failed(
        'temporary',
        '4.3.0',
        'it cannot be told whether an earlier attempt came through',
      );
    }
  }

  #isFirstForSure({ isFirst, createdAt }: Job): boolean {
    if (!isFirst || createdAt < this.#startedAt) return false;
    return this.#now() - createdAt < FIRST_FOR_SURE_MS;
  }
}

function addressOf({ recipient, user }: AppendTarget): string {
  return recipient ?? user.address;
}

function payloadOf(target: AppendTarget) {
  const { user, mailbox, flags, internalDate } = target;
  return {
    user,
    mailbox,
    recipient: addressOf(target),
    ...(flags && { flags: [...flags] }),
    ...(internalDate !== undefined && { internalDate }),
  };
}

/** Delivery to a mail server for the whole service. */
export function createInboundDelivery(options: InboundOptions): InboundDelivery {
  return new MailServerDelivery(options);
}
