/**
 * Mail that accounts send and that stays here: for recipients hosted here, and reports about sent mail. Interfaces
 * between `sending/` and `delivery/`: `delivery/local-delivery.ts` delivers such mail, `sending/reports.ts` reads reports.
 */
import type { StagedBody } from '../../mailboxes/bodies/bodies.ts';
import type { Advanced, PlainMessage } from '../../mailboxes/mailstore/mailstore.ts';
import type { Queries } from '../../platform/database/database.ts';
import type { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { ParsedMessage } from '../../protocols/message/message.ts';
import type { EventData } from '../../tenants/events/events.ts';
import type { Counted } from '../../tenants/usage/usage.ts';

/** A message for recipients of one domain that is hosted here. */
export interface LocalMail {
  /** The id in its Received field, which no other message has. */
  readonly id: string;
  /** Envelope sender. */
  readonly from: string;
  readonly recipients: readonly string[];
  /** When it was accepted. */
  readonly acceptedAt: EpochMs;
  /** Octets. */
  readonly size: number;
  /** Reads the message from its start. */
  readonly open: () => AsyncIterable<Uint8Array>;
}

/** A message that is staged and not yet delivered. */
export interface PreparedLocal {
  /** Recipients who do not get it. */
  readonly refused: ReadonlyMap<string, Refusal>;
  /** Where one statement can deliver it, in place of {@link commit}. */
  readonly plain?: PlainLocal | undefined;
  /** What it counts for its recipients, once it is delivered; the caller writes it, with what he counts himself. */
  readonly counted: readonly Counted[];
  /**
   * Locks the accounts whose quotas limit it, and that of the sender where it has a quota: for a caller whose transaction
   * locks other rows before {@link commit}.
   */
  hold(tx: Queries, senderId: number): Promise<void>;
  /**
   * Delivers it to all the others.
   *
   * @throws MailboxClosed where one of them can take it no more
   */
  commit(tx: Queries): Promise<DeliveredLocal>;
  /** Removes what was staged, where it is not delivered. */
  discard(): Promise<void>;
}

/** A message for one mailbox of ours. */
export interface PlainLocal {
  readonly message: PlainMessage;
  readonly body: StagedBody;
  /** What its event tells. */
  readonly received: EventData;
  /** What the trace says of it. @param uid stands for its UID */
  stored(uid: string): DeliveredEvent;
  /** Publishes the change, after the commit. */
  afterCommit(mailbox: Advanced): void;
}

/** What the caller does with a message that is delivered. */
export interface DeliveredLocal {
  /** What he writes in the trace, in the same transaction. */
  readonly traced: readonly DeliveredEvent[];
  afterCommit(): void;
}

/** An event of the trace, in its terms. */
export interface DeliveredEvent {
  readonly mailId: string;
  readonly event: string;
  readonly recipient?: string | null | undefined;
  readonly deliveryId?: number | undefined;
  readonly webhookId?: string | undefined;
  readonly detail?: string | undefined;
}

/** A mailbox became full, or its account was deleted, after the message was prepared. The next attempt finds which. */
export class MailboxClosed extends Error {
  override readonly name = 'MailboxClosed';

  constructor() {
    super('a mailbox closed while mail was delivered to it');
  }
}

/** Delivers mail to recipients hosted here, in the caller's transaction. */
export interface LocalMailDelivery {
  /** Resolves each recipient, and stages the message. */
  prepare(mail: LocalMail): Promise<PreparedLocal>;
  /**
   * Puts a message of our own into an account's INBOX, whatever the route of its domain.
   *
   * @param about id of the message that it reports on, for that message's trace
   * @returns what to do after the commit
   */
  report(
    tx: Queries,
    user: { readonly accountId: number; readonly address: string },
    source: Buffer,
    about: string,
  ): Promise<() => void>;
}

/** A recipient whose mail server took a message, and reported later that it was not delivered. */
export interface LateBounce {
  /** The account that sent the message. */
  readonly accountId: number;
  /** Id of the message. */
  readonly mailId: string;
  readonly recipient: string;
  readonly deliveryId: number;
  /** For people. */
  readonly detail: string;
}

/** What a report changed. */
export interface NotedReport {
  readonly bounces: readonly LateBounce[];
  /** The same, by account. */
  readonly counted: readonly Counted[];
}

/** Notes what a report says about messages of these accounts, in the transaction that stores the report. */
export type NoteReport = (tx: Queries, accountIds: readonly number[]) => Promise<NotedReport>;

/**
 * Reads a report from outside about messages that accounts sent (RFC 3464).
 *
 * @param parsed a message from the null sender
 * @param open reads a range of its source
 * @returns undefined where it is not a report
 */
export type ReadReport = (
  parsed: ParsedMessage,
  open: (range: { readonly start: number; readonly end: number }) => AsyncIterable<Uint8Array>,
) => Promise<NoteReport | undefined>;
