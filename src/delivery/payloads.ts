/**
 * What is queued of a message: payloads of the kinds of delivery, written when the message is
 * accepted, so that a route that changes later changes nothing of it. The message itself is the body
 * that the delivery names.
 */
import { type Static, Type } from 'typebox';
import { mailOrigin, mailUser } from '../mailstore/mailstore.ts';
import { payloadFormat } from '../queue/queue.ts';

/** Who is to be told where a message cannot be delivered; absent where nobody may be. */
const bounceable = {
  bounceTo: Type.Optional(Type.String()),
  /** When the message was accepted, milliseconds since 1970. */
  receivedAt: Type.Integer(),
};

/** An account whose mailbox is to have the message. */
const recipient = Type.Object({
  ...mailUser.properties,
  /** The address that the sender wrote to; the account's when left out. */
  recipient: Type.Optional(Type.String()),
});

const webhook = Type.Object({
  ...bounceable,
  /** Name of the domain. */
  domain: Type.String(),
  mode: Type.Enum(['webhook', 'webhook_then_store']),
  url: Type.String(),
  secret: Type.Optional(Type.String()),
  /** What is posted, byte for byte. */
  body: Type.String(),
  /** Accounts among the recipients: `webhook_then_store` stores for them, `webhook` at last. */
  users: Type.Array(recipient),
  /** Forward-paths that are nobody's mailbox. */
  strangers: Type.Array(Type.String()),
  /** Where the accounts get it. */
  mailbox: Type.Enum(['INBOX', 'Junk']),
  origin: mailOrigin,
});

const forward = Type.Object({
  ...bounceable,
  /** Forward-paths that the message came to; it is marked with the first. */
  recipients: Type.Array(Type.String()),
  /** The forwarding domain. */
  domain: Type.String(),
  /** Envelope sender, rewritten. */
  from: Type.String(),
  to: Type.String(),
  verdict: Type.Object({
    policy: Type.Enum(['none', 'quarantine', 'reject']),
    dkimAligned: Type.Boolean(),
    aligned: Type.Optional(Type.Boolean()),
  }),
  /** Whether it came by SMTPUTF8 (RFC 6531). */
  smtpUtf8: Type.Boolean(),
});

const bounce = Type.Object({
  to: Type.String(),
  domain: Type.String(),
  smtpUtf8: Type.Boolean(),
});

export type Recipient = Static<typeof recipient>;
/** Kind `webhook`. */
export type WebhookPayload = Static<typeof webhook>;
/** Kind `forward`. */
export type ForwardPayload = Static<typeof forward>;
/** Kind `bounce`: a message from the null sender; where it cannot be delivered, that is the end. */
export type BouncePayload = Static<typeof bounce>;

export const webhookPayloads = payloadFormat(1, webhook);
export const forwardPayloads = payloadFormat(1, forward);
export const bouncePayloads = payloadFormat(1, bounce);

export const WEBHOOK = 'webhook';
export const FORWARD = 'forward';
export const BOUNCE = 'bounce';

/** The domain that mail to an address goes to: what the queue treats as one receiver. */
export function mailDestination(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1).toLowerCase();
}
