/** Mail on its way: deliveries, what accounts sent, what is refused, and the trace. */
import type { Generated } from 'kysely';

/** `queue/`: one message on its way to one destination; small, since every attempt rewrites it. */
export interface DeliveryTable {
  id: Generated<number>;
  /** The kind of worker, such as `webhook`. */
  kind: string;
  domain_id: number;
  /** What counts as one receiver: an origin, a mail domain. Holds no secret. */
  destination: string;
  /** Who has his share of the slots for it: `queue/lanes.ts`; empty in rows from before 0.4.0. */
  sender: Generated<string>;
  body_id: number;
  /** UUID of the delivery for receivers, the same in every attempt. */
  public_id: string;
  status: 'queued' | 'held' | 'delivered' | 'failed';
  /** Attempts that ended, since it was queued or last replayed. */
  attempts: Generated<number>;
  /** How often it was queued again after it had ended. */
  replays: Generated<number>;
  /** When the very first attempt ended. */
  attempted_at: number | null;
  /** While queued: when a worker may lease it; while leased: when the lease ends. */
  next_attempt_at: number;
  /** When the work that does not wait for a slow first attempt is due; null once it is done. */
  late_at: number | null;
  /** The worker that holds it now. */
  lease_owner: string | null;
  /** JSON of the DeliveryError. */
  last_error: string | null;
  created_at: number;
  updated_at: number;
  finished_at: number | null;
  /** Of the message, cut; this and the following are null in rows from before 0.3.0. */
  message_id: Generated<string | null>;
  subject: Generated<string | null>;
  /** JSON of where else the message was stored. */
  stored: Generated<string | null>;
  /** The id in the answer to the client that brought the message; also in the log, Received and trace. */
  mail_id: Generated<string | null>;
  /** The recipients, for operators: addresses, separated by a comma and cut. */
  recipient: Generated<string | null>;
  /** Who keeps it `held`; null where it cannot be attempted. */
  held_by: Generated<'operator' | 'suspension' | null>;
  /** From whom the message is: its reverse-path in lower case, `''` for the null sender; null in rows from before 0.4.0. */
  mail_from: Generated<string | null>;
  /** Why the last attempt failed, in words that many deliveries share (`reasonOf`); null where none failed. */
  reason: Generated<string | null>;
  /** Where a webhook is posted, in full; null for other kinds, and in rows from before 0.4.0. */
  url: Generated<string | null>;
}

/** `queue/`: what an attempt needs to know, written once. */
export interface DeliveryPayloadTable {
  delivery_id: number;
  /** JSON that only the kind's own code reads. */
  payload: string;
}

/** `trace/`: what one transaction did with a message, for one recipient. */
export interface TraceTable {
  id: Generated<number>;
  at: number;
  /** The id in the answer to the client that brought the message. */
  mail_id: string;
  event: string;
  /** Reverse-path in lower case, `''` for the null sender; only for incoming mail. */
  sender: string | null;
  /** In lower case. */
  recipient: string | null;
  /** Of the header, cut; only for incoming mail. */
  message_id: string | null;
  delivery_id: number | null;
  /** UUID of the delivery for the receiver. */
  webhook_id: string | null;
  status: string | null;
  /** For people. */
  detail: string | null;
  /** Host name of the node. */
  node: string;
  /** Address of the client that brought it. */
  client: string | null;
  /** JSON of the events that followed in the same transaction; null where there are none, and in rows from before 0.4.0. */
  more: Generated<string | null>;
  /**
   * The domain whose mail it is: the sender's of what an account sent, else the recipient's. This and the next two only in the
   * rows that begin a message, which have a sender; null in rows from before 0.4.0.
   */
  domain: Generated<string | null>;
  /** Of the header, cut; only with TRACE_SUBJECTS. */
  subject: Generated<string | null>;
  /** Bytes of its source, as it came or was sent; null where it was refused before that was known. */
  size: Generated<number | null>;
}

/** `sending/`: a message that an account sent. */
export interface SendTable {
  id: Generated<number>;
  /** UUID of the message for clients. */
  public_id: string;
  account_id: number;
  domain_id: number;
  /** With angle brackets. */
  message_id: string;
  /** Kept by the copy in Sent and by its deliveries, not by this row. */
  body_id: number;
  /** Where the copy is. */
  mailbox: string;
  uid: number;
  uidvalidity: string;
  /** How many recipients it has. */
  recipients: number;
  idempotency_key: string | null;
  /** SHA-256 of the request that has the key, in hex. */
  request_hash: string | null;
  /** JSON of the draft that is removed when the mail is sent: mailbox, uid, uidvalidity. */
  draft: string | null;
  /** It is not sent before this time. */
  send_at: number | null;
  created_at: number;
  cancelled_at: number | null;
}

/** `sending/`: the status of each recipient of a message. */
export interface SendRecipientTable {
  id: Generated<number>;
  send_id: number;
  delivery_id: number;
  address: string;
  status: 'queued' | 'delivered' | 'deferred' | 'bounced' | 'cancelled';
  /** For people: what the far end answered. */
  detail: string | null;
}

/** `sending/`: addresses that a domain's accounts can no longer write to. */
export interface SuppressionTable {
  id: Generated<number>;
  domain_id: number;
  /** Its domain in lower case. */
  address: string;
  /** For people: why. */
  detail: string;
  created_at: number;
}

/** `blocks/`: senders whose mail is refused. Rows are never changed. */
export interface BlockTable {
  id: Generated<number>;
  kind: 'address' | 'domain' | 'network';
  /** In the one form that lookups use. */
  value: string;
  note: string | null;
  created_at: number;
}
