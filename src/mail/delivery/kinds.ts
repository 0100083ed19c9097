/**
 * The kinds of delivery that are queued for a message: their payloads, and when they are attempted. A
 * payload is written when the message is accepted, so a later change of the route does not affect it. The
 * message itself is the body that the delivery names.
 */
import { type Static, Type } from 'typebox';
import { mailDelays } from '../outbound/outbound.ts';
import { payloadFormat } from '../queue/queue.ts';

/** Where a message came from. */
const origin = Type.Object({
  /** Reverse-path without angle brackets; `''` is the null sender. */
  from: Type.String(),
  /** The id in its Received field, which no other message has. */
  id: Type.String(),
  /** Who gets a bounce where it cannot be delivered; absent where nobody may get one. */
  bounceTo: Type.Optional(Type.String()),
  /** When it was accepted, milliseconds since 1970. */
  receivedAt: Type.Integer(),
});

const user = Type.Object({ accountId: Type.Integer(), address: Type.String() });

const webhook = Type.Object({
  origin,
  /** Name of the domain. */
  domain: Type.String(),
  mode: Type.Enum(['webhook', 'webhook_then_store']),
  url: Type.String(),
  secret: Type.Optional(Type.String()),
  /** What is posted, byte for byte. */
  body: Type.String(),
  /**
   * Accounts among the recipients, and the addresses that the sender wrote to: `webhook_then_store` stores
   * for them, `webhook` does so after the last attempt.
   */
  users: Type.Array(Type.Object({ ...user.properties, recipient: Type.String() })),
  /** Forward-paths that no account has. */
  strangers: Type.Array(Type.String()),
  mailbox: Type.Enum(['INBOX', 'Junk']),
});

const forward = Type.Object({
  origin,
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
    arc: Type.Optional(Type.Enum(['none', 'pass', 'fail'])),
  }),
  /** Whether it came by SMTPUTF8 (RFC 6531). */
  smtpUtf8: Type.Boolean(),
});

const bounce = Type.Object({
  to: Type.String(),
  domain: Type.String(),
  smtpUtf8: Type.Boolean(),
});

const mailbox = Type.Object({
  origin,
  user,
  mailbox: Type.String(),
  /** The address that the sender wrote to. */
  recipient: Type.String(),
  /** A MailboxFailure: the mail server has already refused it for good; the sender gets a bounce. */
  refused: Type.Optional(
    Type.Object({
      status: Type.Optional(Type.Integer()),
      enhancedStatus: Type.String(),
      text: Type.String(),
    }),
  ),
});

export type MailOrigin = Static<typeof origin>;
export type WebhookPayload = Static<typeof webhook>;
export type ForwardPayload = Static<typeof forward>;
/** Kind `bounce`: a message from the null sender. If it cannot be delivered, nothing more is sent. */
export type BouncePayload = Static<typeof bounce>;
/** Kind `mailbox`: for one mailbox of a mail server. */
export type MailboxPayload = Static<typeof mailbox>;

export const webhookPayloads = payloadFormat(1, webhook);
export const forwardPayloads = payloadFormat(1, forward);
export const bouncePayloads = payloadFormat(1, bounce);
export const mailboxPayloads = payloadFormat(1, mailbox);

export const WEBHOOK = 'webhook';
export const FORWARD = 'forward';
export const BOUNCE = 'bounce';
export const MAILBOX = 'mailbox';

/** What failed when the message came in is retried after this time, as after the first attempt of a delivery. */
export const FIRST_RETRY_MS = (mailDelays[0] ?? 0) * 1_000;

/**
 * How long the mailbox of a `webhook_then_store` route waits for the first attempt, which takes at most 15 s:
 * behind a long queue for a dead receiver even the first attempt is late.
 */
export const STORE_AFTER_MS = 16_000;
