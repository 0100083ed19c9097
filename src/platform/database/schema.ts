/**
 * The row types of every table, for Kysely; those of a group are in `schema-*.ts`. The comment above a table names the
 * capability that owns it; all queries on the table are in that folder. `migrations/` creates the tables.
 *
 * Portable by choice: instants are integers (milliseconds since 1970, UTC), truth values are 0 or 1,
 * structured values are JSON text, so that one set of queries serves SQLite and PostgreSQL.
 */
import type { Generated, Insertable, Selectable } from 'kysely';
import type { EventHookTable, EventTable } from './schema-events.ts';
import type {
  BlockTable,
  DeliveryPayloadTable,
  DeliveryTable,
  SendRecipientTable,
  SendTable,
  SuppressionTable,
  TraceTable,
} from './schema-mail.ts';
import type {
  BodyTable,
  CounterTable,
  ImapHeaderTable,
  ImapNumberTable,
  ImapTextTable,
  MailboxTable,
  MailserverEventTable,
  MessageTable,
  SearchDocumentTable,
  SearchQueueTable,
  SearchUnreadTable,
  ShadowMailboxTable,
  ShadowMessageTable,
  ShadowTombstoneTable,
  SubscriptionTable,
  TombstoneTable,
} from './schema-mailboxes.ts';
import type {
  ApiKeyTable,
  AppPasswordTable,
  AuditTable,
  ConsoleSessionTable,
  DeletedDomainTable,
  DnsRecordTable,
  DomainTable,
  RememberedLoginTable,
  RouteTable,
  SignInTable,
  TrafficTable,
  UsageDayTable,
  UsageHourTable,
} from './schema-tenants.ts';

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
  /** Bytes that its mailboxes may hold, 0 for no limit; null: the operator's default. */
  quota_bytes: Generated<number | null>;
}

/** `accounts/`: addresses whose account was deleted. */
interface RetiredAddressTable {
  address: string;
  retired_at: number;
}

/** `database/`: generated secrets where several nodes share a database. */
interface SettingTable {
  name: string;
  value: string;
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
  imap_headers: ImapHeaderTable;
  imap_numbers: ImapNumberTable;
  bodies: BodyTable;
  counters: CounterTable;
  mailserver_events: MailserverEventTable;
  search_documents: SearchDocumentTable;
  search_queue: SearchQueueTable;
  search_unread: SearchUnreadTable;
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
