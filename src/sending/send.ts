/**
 * Takes a message from an account: checks it, writes it, keeps a copy in Sent and queues it for its
 * recipients.
 *
 * Crashes:
 * - Before the commit nothing was accepted: the client hears no 202. A large body's file is left for
 *   the sweep.
 * - Copy and queue rows are one transaction: after it the message goes out, whatever happens.
 * - After the commit and before the answer the client does not know. With an `Idempotency-Key` it asks
 *   again and gets the same answer: the key is a column of the row that the transaction wrote.
 */
import { createHash, randomUUID } from 'node:crypto';
import { findSendingAccount, type SendingAccount } from '../accounts/accounts.ts';
import type { Bodies } from '../bodies/bodies.ts';
import type { MailboxChange } from '../changes/changes.ts';
import { type Database, isStorageFull, type Queries } from '../database/database.ts';
import { type Domains, findSendingObstacle } from '../domains/domains.ts';
import { Refusal } from '../errors/errors.ts';
import {
  describeMessage,
  type EmbeddedMailstore,
  type MailServer,
  type MailUser,
  type StagedMessage,
  stageMessage,
} from '../mailstore/mailstore.ts';
import { mailDestination } from '../outbound/outbound.ts';
import type { NewDelivery, Queue } from '../queue/queue.ts';
import { composeMessage, recipientsOf } from './compose-message.ts';
import { SEND, sendPayloads } from './kind.ts';
import { type ComposeRequest, compositionOf } from './read-request.ts';
import { type Accepted, acceptedOf, findSend, readStatus, type SendStatus } from './send-rows.ts';

export interface SendingOptions {
  readonly database: Database;
  readonly bodies: Bodies;
  readonly domains: Pick<Domains, 'findActive'>;
  readonly mailstore: Pick<EmbeddedMailstore, 'append'>;
  /** Where the mailboxes are a mail server's. */
  readonly mailServer?: MailServer | undefined;
  readonly queue: Pick<Queue, 'enqueue' | 'wake'>;
  /** Publishes a change once it is committed. */
  readonly publish: (change: MailboxChange) => void;
  /** Octets of a message at most. */
  readonly maxMessageBytes: number;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** A message that is written and not yet accepted. */
interface Written {
  readonly account: SendingAccount;
  readonly staged: StagedMessage;
  readonly messageId: string;
  /** Envelope sender. */
  readonly from: string;
  readonly recipients: readonly string[];
  /** Names the request where the client wants to repeat it safely. */
  readonly key: RequestKey | undefined;
}

/** `Idempotency-Key` and what it stands for. */
interface RequestKey {
  readonly key: string;
  /** SHA-256 of the request, in hex. */
  readonly hash: string;
}

const SENT = 'Sent';

export class Sending {
  readonly #options: SendingOptions;
  readonly #now: () => number;

  constructor(options: SendingOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /**
   * Takes a message. When it answers, the message is durable.
   *
   * @param key `Idempotency-Key` of the request
   * @throws Refusal invalid_request, domain_not_ready, message_too_large, idempotency_key_reused,
   *   storage_full
   */
  async send(user: MailUser, request: ComposeRequest, key?: string): Promise<Accepted> {
    const { database, mailServer } = this.#options;
    const { read } = database;
    if (mailServer) {
      throw new Refusal('unavailable', 'accounts on a mail server cannot send by this call yet');
    }
    const named = key === undefined ? undefined : { key, hash: hashOf(request) };
    const known = named && (await findAccepted(read, user, named));
    if (known) return known;
    const account = await this.#findSender(read, user);
    const messageId = `<${randomUUID()}@${account.domain}>`;
    const composition = compositionOf(request, account, { messageId, date: new Date(this.#now()) });
    const staged = await this.#stage(composeMessage(composition));
    const recipients = recipientsOf(composition);
    const from = composition.from.address;
    try {
      return await this.#accept(user, {
        account,
        staged,
        messageId,
        from,
        recipients,
        key: named,
      });
    } catch (error) {
      // After any other failure the commit may have happened: the sweep at start decides then.
      if (error instanceof Refusal) await this.#options.bodies.discard(staged.body);
      return sayWhenFull(error);
    }
  }

  /** What became of a message. @throws Refusal send_not_found */
  async find(
    user: MailUser,
    by: { readonly id: string } | { readonly key: string },
  ): Promise<SendStatus> {
    const { read } = this.#options.database;
    const row = await findSend(read, user.accountId, by);
    if (row) return readStatus(read, row);
    const [[name = '', value = ''] = []] = Object.entries(by);
    throw new Refusal('send_not_found', `the account sent no message with the ${name} "${value}"`);
  }

  async #findSender(queries: Queries, { accountId, address }: MailUser): Promise<SendingAccount> {
    const account = await findSendingAccount(queries, accountId);
    if (!account) throw new Refusal('account_not_found', `there is no account ${address}`);
    const obstacle = await findSendingObstacle(queries, account.domainId);
    if (obstacle) throw new Refusal('domain_not_ready', `${account.domain} ${obstacle}`);
    return account;
  }

  #stage(source: AsyncIterable<Uint8Array>): Promise<StagedMessage> {
    const { bodies, maxMessageBytes } = this.#options;
    return stageMessage(bodies, bounded(source, maxMessageBytes)).catch(sayWhenFull);
  }

  /** The copy in Sent and what goes out, in one transaction. */
  async #accept(user: MailUser, written: Written): Promise<Accepted> {
    const { database, bodies, mailstore, queue, publish } = this.#options;
    const { staged, account, key } = written;
    const texts = describeMessage(staged.parsed);
    const groups = await this.#groupRecipients(written.recipients);
    const now = this.#now();
    const result = await database.write(async (tx) => {
      // Locked: of two requests with one key, the second finds what the first has written.
      if (!(await findSendingAccount(tx, user.accountId, database.engine))) {
        throw new Refusal('account_not_found', `there is no account ${user.address}`);
      }
      const known = key && (await findAccepted(tx, user, key));
      if (known) return { known };
      const bodyId = await bodies.commit(tx, staged.body);
      const target = { user, mailbox: SENT, flags: ['\\Seen'], internalDate: now };
      const [copy] = await mailstore.append(tx, { ...texts, bodyId }, [target]);
      if (!copy) throw new Refusal('account_not_found', `there is no account ${user.address}`);
      const row = await tx
        .insertInto('sends')
        .values({
          public_id: randomUUID(),
          account_id: user.accountId,
          domain_id: account.domainId,
          message_id: written.messageId,
          body_id: bodyId,
          mailbox: copy.change.mailbox,
          uid: copy.uid,
          uidvalidity: copy.change.uidvalidity,
          recipients: written.recipients.length,
          idempotency_key: key?.key ?? null,
          request_hash: key?.hash ?? null,
          created_at: now,
        })
        .returningAll()
        .executeTakeFirstOrThrow();
      const payload = sendPayloads.write({
        sendId: row.id,
        account: { accountId: user.accountId, address: user.address },
        domain: account.domain,
        from: written.from,
        acceptedAt: now,
        id: row.public_id,
      });
      const deliveries: NewDelivery[] = [];
      for (const { destination, addresses } of groups) {
        const delivery = { kind: SEND, domainId: account.domainId, destination, bodyId, payload };
        const deliveryId = await queue.enqueue(tx, delivery);
        await insertRecipients(tx, row.id, deliveryId, addresses);
        deliveries.push(delivery);
      }
      return { row, copy, deliveries };
    });
    if ('known' in result) {
      await bodies.discard(staged.body);
      return result.known;
    }
    publish(result.copy.change);
    queue.wake(result.deliveries);
    return acceptedOf(result.row);
  }

  /**
   * Sorts recipients into deliveries. Each outside has one of its own; those of a domain hosted here share
   * one, since its route may bring the message of all of them to one place.
   */
  async #groupRecipients(recipients: readonly string[]): Promise<RecipientGroup[]> {
    const groups: RecipientGroup[] = [];
    const byDomain = Map.groupBy(recipients, mailDestination);
    for (const [destination, addresses] of byDomain) {
      if (await this.#options.domains.findActive(destination)) {
        groups.push({ destination, addresses });
      } else {
        groups.push(...addresses.map((address) => ({ destination, addresses: [address] })));
      }
    }
    return groups;
  }
}

/** Recipients of one delivery. */
interface RecipientGroup {
  readonly destination: string;
  readonly addresses: readonly string[];
}

async function insertRecipients(
  tx: Queries,
  sendId: number,
  deliveryId: number,
  addresses: readonly string[],
): Promise<void> {
  const own = { send_id: sendId, delivery_id: deliveryId, status: 'queued' as const };
  await tx
    .insertInto('send_recipients')
    .values(addresses.map((address) => ({ ...own, address })))
    .execute();
}

/** What the same request was answered before. @throws Refusal idempotency_key_reused */
async function findAccepted(
  queries: Queries,
  { accountId }: MailUser,
  { key, hash }: RequestKey,
): Promise<Accepted | undefined> {
  const row = await findSend(queries, accountId, { key });
  if (row && row.request_hash !== hash) {
    throw new Refusal('idempotency_key_reused', 'this Idempotency-Key came with another body');
  }
  return row && acceptedOf(row);
}

function hashOf(request: ComposeRequest): string {
  return createHash('sha256').update(JSON.stringify(request)).digest('hex');
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

function sayWhenFull(error: unknown): never {
  if (!isStorageFull(error)) throw error;
  throw new Refusal('storage_full', 'there is no space left for this message', { cause: error });
}
