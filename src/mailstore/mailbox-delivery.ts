/** What is queued for one mailbox of a mail server: kind `mailbox`. */
import type { Queries } from '../database/database.ts';
import type { ParsedMessage } from '../message/message.ts';
import type { Job, NewDelivery, Queue } from '../queue/queue.ts';
import type { MailOrigin, Mailstore, MailUser } from './store.ts';

/** The kind of these deliveries. */
export const MAILBOX = 'mailbox';

/** Why a mailbox did not get a message. */
export interface MailboxFailure {
  /** Reply code (RFC 5321 section 4.2); absent where no reply says it. */
  readonly status?: number;
  /** RFC 3463: the mail server's, or ours where it gave none. */
  readonly enhancedStatus: string;
  /** One line of at most 500 characters. */
  readonly text: string;
}

export interface MailboxPayload {
  readonly user: MailUser;
  readonly mailbox: string;
  /** The address that the sender wrote to. */
  readonly recipient: string;
  readonly flags?: readonly string[];
  /** Milliseconds since 1970. */
  readonly internalDate?: number;
  readonly parsed: ParsedMessage;
  readonly origin?: MailOrigin | undefined;
  /** The mail server has refused it for good already: what is left is to tell the sender. */
  readonly refused?: MailboxFailure;
}

/** How an attempt for one mailbox ended. */
export type MailboxResult =
  | { readonly result: 'delivered' }
  | {
      readonly result: 'temporary' | 'permanent';
      readonly error: MailboxFailure;
      /** The account was deleted, and its mail with it: nobody is told. */
      readonly isGone?: true;
    };

/** The part of a mail store that takes mail in, and what the queue's worker needs of it. */
export interface InboundDelivery extends Pick<Mailstore, 'append' | 'appendWithin'> {
  /** Makes an attempt for a delivery of kind `mailbox`; see `WorkOptions.attempt`. */
  attempt(job: Job, payload: MailboxPayload, signal: AbortSignal): Promise<MailboxResult>;
  /** Ends the connections that are not in use. */
  close(): void;
}

/** Each mailbox is a receiver of its own: one over its quota holds up no other. */
export function mailboxDestination({ address }: MailUser): string {
  return address;
}

/** Queues a message for a mailbox, within the caller's transaction. */
export async function enqueueForMailbox(
  queue: Pick<Queue, 'enqueue'>,
  tx: Queries,
  payload: MailboxPayload,
  row: Pick<NewDelivery, 'domainId' | 'bodyId' | 'notBefore'>,
): Promise<NewDelivery> {
  const delivery = {
    ...row,
    kind: MAILBOX,
    destination: mailboxDestination(payload.user),
    payload: JSON.stringify(payload),
  };
  await queue.enqueue(tx, delivery);
  return delivery;
}
