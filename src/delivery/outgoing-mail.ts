/**
 * What is queued of a message: payloads of the kinds of delivery, written when the message is
 * accepted, so that a route that changes later changes nothing of it.
 */
import type { MailOrigin, MailUser } from '../mailstore/mailstore.ts';
import type { ParsedMessage } from '../message/message.ts';
import type { SenderVerdict } from '../outbound/outbound.ts';

/** Who is to be told where a message cannot be delivered; absent where nobody may be. */
interface Bounceable {
  readonly bounceTo?: string;
  /** When the message was accepted, milliseconds since 1970. */
  readonly receivedAt: number;
}

/** An account whose mailbox is to have the message. */
export interface Recipient extends MailUser {
  /** The address that the sender wrote to; the account's when left out. */
  readonly recipient?: string;
}

/** Kind `webhook`. */
export interface WebhookPayload extends Bounceable {
  /** Name of the domain. */
  readonly domain: string;
  readonly mode: 'webhook' | 'webhook_then_store';
  /** The delivery of kind `store` that stores the message if the first attempt comes too late. */
  readonly storeId?: number;
  readonly url: string;
  readonly secret?: string;
  /** What is posted, byte for byte. */
  readonly body: string;
  /** Accounts among the recipients: `webhook_then_store` stores for them, `webhook` at last. */
  readonly users: readonly Recipient[];
  /** Forward-paths that are nobody's mailbox. */
  readonly strangers: readonly string[];
  /** Where the accounts get it. */
  readonly mailbox: 'INBOX' | 'Junk';
  readonly parsed: ParsedMessage;
  readonly origin?: MailOrigin;
}

/** Kind `forward`. */
export interface ForwardPayload extends Bounceable {
  /** Forward-paths that the message came to; it is marked with the first. */
  readonly recipients: readonly string[];
  /** The forwarding domain. */
  readonly domain: string;
  /** Envelope sender, rewritten. */
  readonly from: string;
  readonly to: string;
  readonly verdict: SenderVerdict;
  /** Whether it came by SMTPUTF8 (RFC 6531). */
  readonly smtpUtf8: boolean;
}

/** Kind `bounce`: a message from the null sender; where it cannot be delivered, that is the end. */
export interface BouncePayload {
  readonly to: string;
  readonly domain: string;
  readonly smtpUtf8: boolean;
}

/** Kind `store`: what `webhook_then_store` puts into mailboxes when its first attempt is late. */
export interface StorePayload {
  readonly users: readonly Recipient[];
  readonly mailbox: string;
  readonly parsed: ParsedMessage;
  readonly origin?: MailOrigin;
  readonly receivedAt: number;
}

export const STORE = 'store';
export const WEBHOOK = 'webhook';
export const FORWARD = 'forward';
export const BOUNCE = 'bounce';

/** The domain that mail to an address goes to: what the queue treats as one receiver. */
export function mailDestination(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1).toLowerCase();
}
