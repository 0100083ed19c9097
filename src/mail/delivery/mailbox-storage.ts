/**
 * Where messages for accounts are stored, behind one interface: in our own mailboxes (`own-mailboxes.ts`), or in those
 * of a mail server that the operator runs (`server-mailboxes.ts`). Ours take part in the transaction that accepts a
 * message. A mail server does not: it is asked before the transaction, or by the queue after it. Nobody else in this
 * folder asks which of the two it is.
 */
import type { StagedBody, StoredBody } from '../../mailboxes/bodies/bodies.ts';
import type {
  Advanced,
  AppendTarget,
  MailboxFailure,
  MessageTexts,
  PlainMessage,
  Quotas,
} from '../../mailboxes/mailstore/mailstore.ts';
import type { Queries } from '../../platform/database/database.ts';
import type { Refusal } from '../../platform/errors/errors.ts';
import type { Job, StoredLocation } from '../queue/queue.ts';
import type { TraceEvent } from '../trace/trace.ts';
import type { MailboxPayload, MailOrigin } from './kinds.ts';

/** An account's mailbox, and the address that the sender wrote to. */
export interface MailboxTarget extends AppendTarget {
  readonly recipient: string;
}

export interface MailToStore {
  /** The id of the message in the trace. */
  readonly id: string;
  /** Reverse-path, `''` for the null sender. */
  readonly from: string;
  readonly body: StagedBody | StoredBody;
  /** Reads what a mailbox keeps beside the source. */
  readonly describe: () => Promise<MessageTexts>;
  /** Finds where it came from, for a delivery that has to be queued. */
  readonly origin: () => Promise<MailOrigin>;
}

/** A message whose origin is known. */
export function mailToStore(
  origin: MailOrigin,
  body: MailToStore['body'],
  describe: MailToStore['describe'],
): MailToStore {
  return { id: origin.id, from: origin.from, body, describe, origin: async () => origin };
}

export interface StoringOptions {
  /**
   * Who waits for an answer: each recipient (LMTP); the sender, one answer for the whole message (SMTP); nobody, since
   * the message was accepted before.
   */
  readonly answers: 'each' | 'one' | 'none';
  /** Whether the mailboxes are all that the message is for: then a sender can be asked to send it again. */
  readonly isAlone?: boolean;
  /** Accounts whose quota limits this message. */
  readonly limited?: ReadonlySet<number>;
}

/** A message that can be stored in a transaction. */
export interface PreparedStoring {
  /** The result, where the mailboxes have answered already and the transaction only records it. */
  readonly done?: StoredMail | undefined;
  /** Where one statement can store it, in place of {@link commit}. */
  readonly plain?: PlainStoring | undefined;
  /**
   * Stores the message.
   *
   * @param keepBody stores its source in this transaction, once, and returns the id; called only where it is needed
   */
  commit(tx: Queries, keepBody: () => Promise<number>): Promise<StoredMail>;
  /** Where the transaction waits for others of its mailboxes; left out where nothing is to be waited for. */
  readonly inLine?: (<T>(write: () => Promise<T>) => Promise<T>) | undefined;
}

/** A message for one mailbox of ours that is alone in its transaction. */
export interface PlainStoring {
  readonly message: PlainMessage;
  readonly texts: MessageTexts;
  readonly target: MailboxTarget;
  /** Publishes the change, after the commit. */
  afterCommit(mailbox: Advanced): void;
}

export interface StoredMail {
  /** Why mailboxes do not take the message, by account. */
  readonly refused: ReadonlyMap<number, Refusal>;
  readonly traced: readonly TraceEvent[];
  /** Where the copies are, as far as it is known. */
  readonly locations?: readonly StoredLocation[];
  /** Whether a mailbox or a delivery names the body now. */
  readonly namesBody: boolean;
  /** Publishes the changes, and wakes the queue. */
  afterCommit(): void;
}

/** Nothing is stored, or what was to be stored is stored already. */
export const NOTHING_STORED: StoredMail = {
  refused: new Map(),
  traced: [],
  namesBody: false,
  afterCommit() {},
};

export type MailboxAttempt =
  | {
      readonly result: 'delivered';
      /** What is still to be stored, in the transaction that ends the delivery. */
      readonly storing?: PreparedStoring;
    }
  | {
      readonly result: 'temporary' | 'permanent';
      readonly error: MailboxFailure;
      /** The account was deleted: nobody gets a bounce. */
      readonly isGone?: true;
    };

export interface MailboxStorage {
  /** The quotas of accounts; undefined where the mailboxes have quotas of their own. */
  readonly quotas: Quotas | undefined;
  /**
   * Prepares to store a message: all that takes time, before the transaction.
   *
   * @throws Refusal where no mailbox takes it, nothing else is to be done with it, and its sender waits for the answer
   */
  prepare(
    mail: MailToStore,
    targets: readonly MailboxTarget[],
    options: StoringOptions,
  ): Promise<PreparedStoring>;
  /** Makes an attempt for a delivery of kind `mailbox`. */
  attempt(job: Job<MailboxPayload>, signal: AbortSignal): Promise<MailboxAttempt>;
}
