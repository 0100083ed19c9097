/** Mail that an account submits by SMTP, after its login (RFC 6409). */
import { enterTurnOf } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { DAY_MS, type EpochMs } from '../../platform/time/time.ts';
import {
  findAccess,
  findAppPasswordsThere,
  type MailAccess,
  type SendingAccount,
} from '../../tenants/accounts/accounts.ts';
import { isSendable } from './compose-message.ts';
import { isOwnAddress } from './read-request.ts';
import type { Accepted, RequestKey } from './send-rows.ts';
import { findSuppressed } from './suppressions.ts';

/** A message that comes in by SMTP. */
export interface SubmittedEnvelope {
  /** `''` for the null sender. */
  readonly from: string;
  /** At least one. */
  readonly to: readonly string[];
  /** The keyword of its Received field (RFC 3848). */
  readonly via: string;
}

/** The connection that it comes by. */
interface SubmittedFrom {
  /** The keyword of its Received field (RFC 3848). */
  readonly protocol: string;
  readonly remoteAddress: string;
  readonly sessionId: string;
}

export interface SubmissionLog {
  info(fields: object, message: string): void;
}

export interface SubmitterOptions {
  readonly database: Database;
  readonly now: () => EpochMs;
  readonly checkRoom: (octets: number) => Promise<Refusal | undefined>;
  readonly log: SubmissionLog;
  /** @throws Refusal send_disabled, domain_not_ready, account_not_found */
  readonly findSender: () => Promise<SendingAccount>;
  readonly submit: (
    envelope: SubmittedEnvelope,
    source: AsyncIterable<Uint8Array>,
  ) => Promise<Accepted>;
}

/** What `delivery/` is for mail from outside: here for one account. */
export class AccountSubmitter {
  readonly accountId: number;
  readonly userId: string;
  readonly #access: MailAccess;
  readonly #options: SubmitterOptions;
  /** As it was found for the sender of this message. */
  #sender: SendingAccount | undefined;

  constructor(access: MailAccess, options: SubmitterOptions) {
    this.accountId = access.accountId;
    this.userId = access.userId;
    this.#access = access;
    this.#options = options;
  }

  checkRoom(octets: number): Promise<Refusal | undefined> {
    return this.#options.checkRoom(octets);
  }

  /** Whether the account may send as this reverse-path: its address, that with a +tag, or `''`. Else the refusal. */
  async checkSender(from: string): Promise<Refusal | undefined> {
    const { address } = this.#access;
    const closed = await this.#findClosed();
    if (closed) return closed;
    this.#sender = await this.#options.findSender();
    if (from === '' || isOwnAddress(from, address)) return undefined;
    return new Refusal('sender_rejected', `You may send as ${address} alone, or that with a +tag`);
  }

  /** Refuses an address that mail bounced from: its bounce would come later. */
  async checkRecipient(recipient: string): Promise<Refusal | undefined> {
    if (!isSendable(recipient)) {
      return new Refusal('address_invalid', `Mail cannot be sent to ${recipient}`);
    }
    const { domainId, domain } = this.#sender ?? (await this.#options.findSender());
    const listed = await findSuppressed(this.#options.database.read, domainId, [recipient]);
    const found = listed.get(recipient);
    if (!found) return undefined;
    const text = `${recipient} is on the suppression list of ${domain}: ${found.detail}`;
    return new Refusal('recipient_suppressed', text);
  }

  /** @throws Refusal for the message */
  async receive(
    { from, to, arrival }: Omit<SubmittedEnvelope, 'via'> & { readonly arrival: SubmittedFrom },
    source: AsyncIterable<Uint8Array>,
  ) {
    try {
      const { protocol, remoteAddress, sessionId } = arrival;
      const envelope = { from, to, via: protocol };
      const { id } = await this.#options.submit(envelope, this.#untilClosed(source));
      const account = this.#access.address;
      const about = { mailId: id, sessionId, remoteAddress, protocol, account, from };
      this.#options.log.info({ ...about, recipients: to.length }, 'message submitted');
      return to.map((recipient) => ({ recipient, result: 'delivered' as const, id }));
    } catch (error) {
      throw error instanceof Refusal ? ofMessage(error) : error;
    }
  }

  /** The message, in turns of its account; at its end it is refused where the account may send no more: it may have taken long to come. */
  async *#untilClosed(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of source) {
      const waits = enterTurnOf(this.#access);
      if (waits) await waits;
      yield piece;
    }
    const closed = await this.#findClosed();
    if (closed) throw closed;
  }

  async #findClosed(): Promise<Refusal | undefined> {
    if (await this.#isOpen()) return undefined;
    const why = 'was suspended or deleted, or its password or token is valid no more';
    return new Refusal('account_inactive', `The account ${why}: log in again`);
  }

  /** A login lasts as long as a connection: what happened to its account since then counts. */
  async #isOpen(): Promise<boolean> {
    const { database, now } = this.#options;
    const { accountId, credentialVersion, appPasswordId: id, expiresAt } = this.#access;
    const access = (await findAccess(database.read, [accountId])).get(accountId);
    if (access?.status !== 'active' || access.credentialVersion > credentialVersion) return false;
    if (id !== undefined && !(await findAppPasswordsThere(database.read, [id])).has(id))
      return false;
    return now() < expiresAt;
  }
}

/** Fields that say who a message is from: SMTP has a code for a false one. */
const AUTHORS = new Set(['from', 'sender']);

function ofMessage(refusal: Refusal): Refusal {
  const field = refusal.errors?.[0]?.field ?? '';
  if (refusal.code !== 'invalid_request' || !AUTHORS.has(field)) return refusal;
  return new Refusal('sender_rejected', refusal.message);
}

/** For how long the same message of an account is taken for the same: its program did not get our 250, and repeats it. */
const REPEATED_MS = DAY_MS;

/**
 * @param hash of envelope and octets; of messages without a Message-ID of their own two may well be meant
 * @returns a key that no `Idempotency-Key` is like: those have no space
 */
export function submissionKey(hash: string, now: EpochMs): RequestKey {
  return { key: `smtp ${hash}`, hash, since: now - REPEATED_MS };
}
