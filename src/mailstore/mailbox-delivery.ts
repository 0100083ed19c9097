/** What is queued for one mailbox of a mail server: kind `mailbox`. */
import { type Static, Type } from 'typebox';
import type { Queries } from '../database/database.ts';
import { type Job, type NewDelivery, payloadFormat, type Queue } from '../queue/queue.ts';
import type { Mailstore, MailUser } from './store.ts';

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

/** A MailUser as it is queued. */
export const mailUser = Type.Object({ accountId: Type.Integer(), address: Type.String() });

/** A MailOrigin as it is queued. */
export const mailOrigin = Type.Object({
  from: Type.String(),
  id: Type.String(),
  bounceTo: Type.Optional(Type.String()),
  receivedAt: Type.Integer(),
});

const mailboxPayload = Type.Object({
  user: mailUser,
  mailbox: Type.String(),
  /** The address that the sender wrote to. */
  recipient: Type.String(),
  flags: Type.Optional(Type.Array(Type.String())),
  /** Milliseconds since 1970. */
  internalDate: Type.Optional(Type.Integer()),
  origin: Type.Optional(mailOrigin),
  /** A MailboxFailure: the mail server has refused it for good already; the sender is to be told. */
  refused: Type.Optional(
    Type.Object({
      status: Type.Optional(Type.Integer()),
      enhancedStatus: Type.String(),
      text: Type.String(),
    }),
  ),
});

export type MailboxPayload = Static<typeof mailboxPayload>;

export const mailboxPayloads = payloadFormat(1, mailboxPayload);

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
    payload: mailboxPayloads.write(payload),
  };
  await queue.enqueue(tx, delivery);
  return delivery;
}
