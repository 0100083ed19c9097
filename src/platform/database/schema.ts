/**
 * The row types of every table, for Kysely. The comment above a table names the capability that owns it; all queries
 * on the table are in that folder. `migrations.ts` creates the tables.
 *
 * Portable by choice: instants are integers (milliseconds since 1970, UTC), truth values are 0 or 1,
 * structured values are JSON text, so that one set of queries serves SQLite and PostgreSQL.
 */
import type { Generated, Insertable, Selectable } from 'kysely';
import type { EventHookTable, EventTable } from './schema-events.ts';
import type { AppPasswordTable, RememberedLoginTable, SignInTable } from './schema-logins.ts';
import type { ImapTextTable, MailboxTable, SubscriptionTable } from './schema-mailboxes.ts';

/** `domains/`: one user's claim on a domain name. */
interface DomainTable {
  id: Generated<number>;
  user_id: string;
  organization_id: string | null;
  /** Lower case, IDNA-encoded. */
  name: string;
  status: 'pending' | 'active';
  dkim_selector: string;
  /** PKCS #8 PEM. */
  dkim_private_key: string;
  created_at: number;
  /** When the claim last became active. */
  verified_at: number | null;
  /** When an active claim last became pending again. */
  lapsed_at: number | null;
  /** When DNS is checked for the records the next time. */
  next_check_at: Generated<number>;
  /** Until when one node checks the claim; in the past: no node does. */
  lease_until: Generated<number>;
  /** When a check was last started by hand. */
  verify_called_at: number | null;
  /** When an operator suspended it; null where it is not suspended. */
  suspended_at: Generated<number | null>;
  /** The reason, as the operator wrote it. */
  suspend_reason: Generated<string | null>;
  /**
   * Whether it could send when it was evaluated last, 1 or 0; null before its first evaluation since 0.4.0. Only tells
   * when this changes: sending asks the records (`domains/sending.ts`).
   */
  could_send: Generated<number | null>;
  /** Since when; null where the change was not seen. */
  could_send_since: Generated<number | null>;
}

/** `domains/`: the records that the zone of a claim must have. */
interface DnsRecordTable {
  id: Generated<number>;
  domain_id: number;
  purpose: 'mx' | 'spf' | 'dmarc' | 'dkim';
  record_type: 'MX' | 'TXT';
  /** Relative to the domain, `@` for the domain itself. */
  host: string;
  expected_value: string;
  /** MX preference; null for TXT. */
  priority: number | null;
  status: 'pending' | 'verified' | 'failed' | 'disabled';
  observed_value: string | null;
  /** One sentence with the result of the last check. */
  detail: string | null;
  last_checked_at: number | null;
  /** Answers in a row without the expected record. */
  misses: Generated<number>;
  /** When the first of them came. */
  failing_since: number | null;
  /** What the last look found; null where none was since 0.4.0, or the record was set by hand after it. */
  last_check: Generated<'ok' | 'missed' | 'unanswered' | null>;
  /** 1 where the status was set by hand: automatic checks leave the record alone. */
  marked: number;
  /** Of a DKIM record: its key signs once it is verified (next), or no longer (old). Null: it signs. */
  key_state: Generated<'next' | 'old' | null>;
  /** Since when it has this state. */
  key_since: Generated<number | null>;
  /** PKCS #8 PEM of a key that is next or old; the current one is in `domains`. */
  dkim_private_key: Generated<string | null>;
}

/** `domains/`: what happens to mail of a domain; one row for each claim. */
interface RouteTable {
  domain_id: number;
  forward_mode: 'store' | 'webhook' | 'webhook_then_store' | 'forward_email';
  webhook_url: string | null;
  webhook_secret: string | null;
  webhook_secret_previous: string | null;
  webhook_secret_until: number | null;
  forward_to_email: string | null;
}

/** `domains/`: a deleted claim, whose accounts and deliveries are being removed. */
interface DeletedDomainTable {
  id: number;
  deleted_at: number;
}

/** `accounts/`: a deleted account, whose mailboxes are still to be removed. */
interface DeletedAccountTable {
  id: number;
  deleted_at: number;
}

/** `accounts/` */
interface AccountTable {
  id: Generated<number>;
  /** Of `domains`, or of `deleted_domains`: then the account counts as deleted. */
  domain_id: number;
  /** The owner, the same as the domain's: every query can be scoped without a join. */
  user_id: string;
  /** The claim's name, which never changes: an account is read without its domain. */
  domain_name: string;
  /** Lower case. */
  local_part: string;
  display_name: string;
  status: 'active' | 'suspended';
  /** argon2id in PHC string format. */
  password_hash: string;
  /** Increases with each password reset; tokens carry it. */
  credential_version: number;
  created_at: number;
  /**
   * Tokens of the address are valid only from this time on, where it had another account before; else 0
   * (`accounts/delete-accounts.ts`).
   */
  tokens_from: Generated<number>;
  /** Octets that its mailboxes may hold, 0 for no limit; null: the operator's default. */
  quota_bytes: Generated<number | null>;
}

/** `accounts/`: addresses whose account was deleted. */
interface RetiredAddressTable {
  address: string;
  retired_at: number;
}

/** `mailstore/`: a message in a mailbox. */
interface MessageTable {
  mailbox_id: number;
  uid: number;
  /** MODSEQ with which the message came in. */
  created_modseq: number;
  /** MODSEQ of the last change. */
  modseq: number;
  /** IMAP flags separated by a space, sorted. */
  flags: string;
  size: number;
  internal_date: number;
  body_id: number;
  /** JSON of the Envelope. */
  envelope: string;
  /** JSON of the MessagePart tree with byte offsets. */
  structure: string;
  /** The first words, on one line. This and the following are null in rows of before 0.3.0. */
  preview: string | null;
  /** 1 where there are attachments. */
  has_attachment: number | null;
  /** The same for all messages of a conversation. */
  thread_id: number | null;
  /** Hash of account and Message-ID; also null where a message has none. */
  message_key: number | null;
  /** When it came into this mailbox; null in rows of before 0.3.0. */
  saved_at: number | null;
}

/** `mailstore/`: a removed message. */
interface TombstoneTable {
  mailbox_id: number;
  uid: number;
  created_modseq: number;
  /** MODSEQ of the removal. */
  modseq: number;
  expunged_at: number;
}

/** `bodies/`: the source of a message, in the row or in a file. */
interface BodyTable {
  id: Generated<number>;
  size: number;
  content: Uint8Array | null;
  file: string | null;
}

/** `mailstore/`: UIDVALIDITY values that were given so far. */
interface CounterTable {
  name: string;
  value: number;
}

/** `event-hook/`: events accepted in the last day. */
interface MailserverEventTable {
  event_id: string;
  received_at: number;
}

/** `database/`: generated secrets where several nodes share a database. */
interface SettingTable {
  name: string;
  value: string;
}

/** `queue/`: one message on its way to one destination; small, since every attempt rewrites it. */
interface DeliveryTable {
  id: Generated<number>;
  /** The kind of worker, such as `webhook`. */
  kind: string;
  domain_id: number;
  /** What counts as one receiver: an origin, a mail domain. Holds no secret. */
  destination: string;
  /** Who has his share of the places for it: `queue/lanes.ts`; empty in rows of before 0.4.0. */
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
  /** Of the message, cut; this and the following are null in rows of before 0.3.0. */
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
  /** From whom the message is: its reverse-path in lower case, `''` for the null sender; null in rows of before 0.4.0. */
  mail_from: Generated<string | null>;
  /** Why the last attempt failed, in words that many deliveries share (`reasonOf`); null where none failed. */
  reason: Generated<string | null>;
  /** Where a webhook is posted, in full; null for other kinds, and in rows of before 0.4.0. */
  url: Generated<string | null>;
}

/** `queue/`: what an attempt needs to know, written once. */
interface DeliveryPayloadTable {
  delivery_id: number;
  /** JSON that only the kind's own code reads. */
  payload: string;
}

/** `trace/`: what one transaction did with a message, for one recipient. */
interface TraceTable {
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
  /** JSON of the events that followed in the same transaction; null where there are none, and in rows of before 0.4.0. */
  more: Generated<string | null>;
  /**
   * The domain whose mail it is: the sender's of what an account sent, else the recipient's. This and the next two only in the
   * rows that begin a message, which have a sender; null in rows of before 0.4.0.
   */
  domain: Generated<string | null>;
  /** Of the header, cut; only with TRACE_SUBJECTS. */
  subject: Generated<string | null>;
  /** Octets of its source, as it came or was sent; null where it was refused before that was known. */
  size: Generated<number | null>;
}

/** `mail-server/`: the last known state of a mailbox whose server does not report removals. */
interface ShadowMailboxTable {
  id: Generated<number>;
  /** Negative where the shadow was dropped and its messages are being removed. */
  account_id: number;
  name: string;
  uidvalidity: string;
  uidnext: number;
  messages: number;
  /** Messages without `\Seen`. */
  unseen: number;
  /** Increases with each change that was seen; starts at the time the shadow was made, in ms. */
  modseq: number;
  /** Tokens older than this get a reset: tombstones were removed, or the shadow was made again. */
  oldest_modseq: number;
  /** HIGHESTMODSEQ of the server, where it has one but does not report removals. */
  server_modseq: string | null;
  /** The history of the database in which the last change was written (`Database.timeline`); 0: not known. */
  timeline: Generated<number>;
}

/** `mail-server/`: a message as it was last seen. */
interface ShadowMessageTable {
  shadow_id: number;
  uid: number;
  created_modseq: number;
  modseq: number;
  /** IMAP flags separated by a space, sorted. */
  flags: string;
}

/** `mail-server/`: a message that was seen and is removed. */
interface ShadowTombstoneTable extends Omit<TombstoneTable, 'mailbox_id'> {
  shadow_id: number;
}

/** `search/`: changes that the search index still has to make. */
interface SearchQueueTable {
  id: Generated<number>;
  account_id: number;
  /** 0 where the account itself was deleted. */
  body_id: number;
  /** 1 where the account has no message of this body any more. */
  gone: number;
}

/** `search/`: the search index, on PostgreSQL; `terms` is written by statements of its own. */
interface SearchDocumentTable {
  id: Generated<number>;
  account_id: number;
  body_id: number;
  /** INTERNALDATE, milliseconds since 1970. */
  date: number;
}

/** `sending/`: a message that an account sent. */
interface SendTable {
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
interface SendRecipientTable {
  id: Generated<number>;
  send_id: number;
  delivery_id: number;
  address: string;
  status: 'queued' | 'delivered' | 'deferred' | 'bounced' | 'cancelled';
  /** For people: what the far end answered. */
  detail: string | null;
}

/** `accounts/`: a request with an `Idempotency-Key`, and its answer. */
interface IdempotencyKeyTable {
  id: Generated<number>;
  /** Null for a request below /v2. */
  account_id: number | null;
  /** Whose request below /v2 it is: SHA-256 of the name of the API key and the `user_id`, in hex. */
  scope: Generated<string | null>;
  key: string;
  /** SHA-256 of the request, in hex; with a scope its HMAC, since the request may have a password. Null while it is under way. */
  request_hash: string | null;
  /** HTTP status of the answer. */
  status: number | null;
  /**
   * JSON; with a scope encrypted, since it may have a password. Null while the request is under way, or where the process
   * died in it.
   */
  answer: string | null;
  started_at: number;
}

/** `sending/`: addresses that a domain's accounts can no longer write to. */
interface SuppressionTable {
  id: Generated<number>;
  domain_id: number;
  /** Its domain in lower case. */
  address: string;
  /** For people: why. */
  detail: string;
  created_at: number;
}

/** `nodes/`: a process that has the database open, on PostgreSQL. */
interface NodeTable {
  /** UUID of this run. */
  id: string;
  /** This and `pid` are for people. */
  host: string;
  /**
   * `lock` where the process holds its lock, else empty. Nodes of 0.3.0 write their machine here, and hold no lock; they
   * take ours for one of another machine.
   */
  machine: string;
  pid: number;
  version: string;
  /** 1 where it receives the changes of other nodes. */
  has_events: number;
  /** JSON of the settings that must be equal on all nodes, secrets as digests. */
  settings: string;
  /** By the database's clock, like `seen_at`. */
  started_at: number;
  seen_at: number;
  /** The level that its log is to change to; null after it has done so. */
  log_level: Generated<'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent' | null>;
}

/** `nodes/`: work that one node does for all, on PostgreSQL. */
interface LeaseTable {
  name: string;
  /** Id of the node. */
  owner: string;
  /** By the database's clock. */
  until: number;
}

/** `audit/`: who changed what. */
interface AuditTable {
  id: Generated<number>;
  at: number;
  /** The first 8 hex digits of the SHA-256 of the API key, or `program`. */
  actor: string;
  /** Such as `domain.delete`. */
  action: string;
  /** The name, for people, of what was changed. */
  target: string;
  /** JSON of numbers by name. */
  counts: string | null;
  request_id: string | null;
  /** Host of the node. */
  node: string;
}

/** `blocks/`: senders whose mail is refused. Rows are never changed. */
interface BlockTable {
  id: Generated<number>;
  kind: 'address' | 'domain' | 'network';
  /** In the one form that lookups use. */
  value: string;
  note: string | null;
  created_at: number;
}

/** `keys/`: API keys with a name and a scope. Those that were revoked stay, for the audit log. */
interface ApiKeyTable {
  id: Generated<number>;
  /** For people; several keys may have the same. */
  name: string;
  /** SHA-256 of the key, in hex. */
  secret_hash: string;
  scope: 'operator' | 'product';
  /** The only user that a product key is for; null for all. */
  user_id: string | null;
  /** The only organization that a product key is for; null for all. */
  organization_id: string | null;
  read_only: 0 | 1;
  created_at: number;
  /** As in the audit log. */
  created_by: string;
  /** From then on it opens nothing; null: it has no end. */
  expires_at: number | null;
  revoked_at: Generated<number | null>;
  /** Accurate to a minute. */
  last_used_at: Generated<number | null>;
}

/** `operator/`: sessions of the console. */
interface ConsoleSessionTable {
  /** SHA-256 of the cookie, in hex. */
  secret_hash: string;
  /**
   * SHA-256 of the cookie and the API key: without the cookie it reveals nothing about the key. Empty for a key of
   * `api_keys`.
   */
  key_proof: string;
  /** Of `api_keys`; null for a key of the settings. */
  key_id: Generated<number | null>;
  /** As in the audit log. */
  actor: string;
  expires_at: number;
}

/** `usage/`: mail that an account received and sent on one day. */
interface UsageDayTable {
  /** Midnight in UTC. */
  day: number;
  /** Names at that time, readable also after account, domain or user were deleted. */
  domain: string;
  user_id: string;
  /** 0 for mail of the domain that is for no account. */
  account_id: number;
  /** Empty for mail that is for no account. */
  email: string;
  messages_in: Generated<number>;
  bytes_in: Generated<number>;
  messages_out: Generated<number>;
  bytes_out: Generated<number>;
  /** Octets in its mailboxes at the last measurement of that day. */
  stored_bytes: Generated<number>;
}

/** `usage/`: mail of one hour; kept for 8 days. */
interface UsageHourTable
  extends Pick<UsageDayTable, 'account_id' | 'messages_in' | 'messages_out'> {
  /** When it begins. */
  hour: number;
  domain_id: number;
  /** Recipients of mail that it sent or forwarded who did not get it. */
  bounced: Generated<number>;
  /** Recipients that its requests to send named beyond its limit. */
  refused: Generated<number>;
}

/** `usage/`: what all nodes counted in five minutes and in an hour, by name. */
interface TrafficTable {
  /** Milliseconds. */
  span: number;
  /** When it begins. */
  at: number;
  name: string;
  value: number;
}

export interface Schema {
  domains: DomainTable;
  dns_records: DnsRecordTable;
  routes: RouteTable;
  deleted_domains: DeletedDomainTable;
  accounts: AccountTable;
  sign_ins: SignInTable;
  remembered_logins: RememberedLoginTable;
  app_passwords: AppPasswordTable;
  deleted_accounts: DeletedAccountTable;
  retired_addresses: RetiredAddressTable;
  mailboxes: MailboxTable;
  messages: MessageTable;
  tombstones: TombstoneTable;
  subscriptions: SubscriptionTable;
  imap_texts: ImapTextTable;
  bodies: BodyTable;
  counters: CounterTable;
  mailserver_events: MailserverEventTable;
  search_documents: SearchDocumentTable;
  search_queue: SearchQueueTable;
  settings: SettingTable;
  deliveries: DeliveryTable;
  delivery_payloads: DeliveryPayloadTable;
  sends: SendTable;
  send_recipients: SendRecipientTable;
  idempotency_keys: IdempotencyKeyTable;
  suppressions: SuppressionTable;
  trace: TraceTable;
  shadow_mailboxes: ShadowMailboxTable;
  shadow_messages: ShadowMessageTable;
  shadow_tombstones: ShadowTombstoneTable;
  nodes: NodeTable;
  leases: LeaseTable;
  events: EventTable;
  event_hooks: EventHookTable;
  audit: AuditTable;
  blocks: BlockTable;
  api_keys: ApiKeyTable;
  console_sessions: ConsoleSessionTable;
  usage_days: UsageDayTable;
  usage_hours: UsageHourTable;
  traffic: TrafficTable;
}

/** A row of a table as it is read. */
export type Row<Table extends keyof Schema> = Selectable<Schema[Table]>;

/** A row of a table as it is inserted. */
export type NewRow<Table extends keyof Schema> = Insertable<Schema[Table]>;
