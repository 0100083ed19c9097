/** Shapes of the operator's API (`/v2/operator`), as the screens read them. */

/** A page of a list; `cursor` is there while more follows. */
export interface Page<Item> {
  readonly items: readonly Item[];
  readonly limit: number;
  readonly cursor?: string;
  /** How many there are on all pages, where counting costs nothing. */
  readonly total?: number;
}

export interface Session {
  readonly csrf_token: string;
  readonly expires_at: string;
}

export interface DnsRecord {
  readonly id: number;
  readonly record_type: string;
  readonly host: string;
  readonly expected_value: string;
  readonly purpose: string;
  readonly status: string;
  readonly observed_value?: string;
  readonly priority?: number;
  readonly detail?: string;
  /** Answers in a row without the record: a verified one with misses is missing now. */
  readonly misses: number;
  readonly failing_since?: string;
  /** Of a DKIM record while keys are changed: `next` or `old`. */
  readonly key_state?: string;
}

export interface Route {
  readonly forward_mode: string;
  readonly webhook_url?: string;
  readonly forward_to_email?: string;
}

export interface DomainItem {
  readonly domain: string;
  readonly user_id: string;
  readonly status: string;
  readonly suspended: boolean;
  readonly suspended_at?: string;
  readonly suspend_reason?: string;
  /** What happens to its mail, such as `store`. */
  readonly forward_mode: string;
  readonly accounts: number;
  readonly created_at: string;
  readonly verified_at?: string;
  readonly can_receive: boolean;
  /** By the rule of sending; a suspension is not counted. */
  readonly can_send: boolean;
  readonly can_send_since?: string;
  /** Purposes of records. */
  readonly records_failed: readonly string[];
  readonly records_failed_since?: string;
  readonly records_missing: readonly string[];
  readonly next_check_at: string;
  readonly received_24h: number;
  readonly sent_24h: number;
  readonly bounced_24h: number;
  readonly waiting: number;
  /** Both are left out where they cannot be counted, as on a mail server. */
  readonly messages?: number;
  readonly bytes?: number;
}

/** What a deletion removes. */
export interface Removal {
  readonly accounts: number;
  readonly messages: number;
  readonly bytes: number;
  readonly deliveries: number;
}

/** A domain as `/v2/domains/:domain/info` has it. */
export interface DomainInfo {
  readonly domain: { readonly domain: string; readonly status: string };
  readonly dns: readonly DnsRecord[];
  readonly route: Route;
}

export interface DomainPage extends DomainItem {
  readonly dns: readonly DnsRecord[];
  readonly checks: { readonly last_checked_at?: string };
  readonly would_remove: Removal;
}

export interface SuppressionItem {
  readonly address: string;
  readonly detail: string;
  readonly created_at: string;
}

export interface AccountItem {
  readonly id: number;
  readonly address: string;
  readonly domain: string;
  readonly user_id: string;
  readonly status: string;
  readonly messages?: number;
  readonly bytes?: number;
  readonly quota_bytes?: number;
  readonly sent_24h: number;
  readonly received_24h: number;
  readonly bounced_24h: number;
  readonly refused_24h: number;
  readonly waiting: number;
  readonly created_at: string;
  readonly last_login_at?: string;
}

/** The mail of an account in an hour or a day. */
export interface AccountSpan {
  readonly at: string;
  readonly sent: number;
  readonly received: number;
  readonly bounced: number;
  readonly refused: number;
}

export interface AccountPage extends AccountItem {
  readonly hours: readonly AccountSpan[];
  readonly days: readonly AccountSpan[];
  readonly receivers: readonly {
    readonly domain: string;
    readonly recipients: number;
    readonly bounced: number;
  }[];
  readonly waiting_reasons: readonly {
    readonly status: string;
    readonly destination: string;
    readonly last_error?: DeliveryError;
    readonly count: number;
    readonly oldest_at: string;
  }[];
  readonly sign_ins: readonly { readonly client: string; readonly at: string }[];
}

/** What a receiver answered, or why there was no answer. */
export interface DeliveryError {
  /** HTTP status or SMTP reply code. */
  readonly status?: number;
  readonly text: string;
}

/** What is counted of the queue, and since when. */
export interface QueueLine {
  readonly counts: { readonly queued: number; readonly held: number; readonly failed: number };
  readonly oldest_at?: string;
  readonly next_attempt_at?: string;
}

export interface QueueReceiver extends QueueLine {
  readonly destination: string;
  readonly kinds: readonly string[];
  readonly overdue_seconds?: number;
  readonly failed_at?: string;
  readonly reason?: string;
  readonly reason_count?: number;
  readonly domains: readonly string[];
  readonly domain_count: number;
  readonly last_success_at?: string;
}

export interface QueueSummary extends QueueLine {
  readonly untried: number;
  readonly reasons: readonly (QueueLine & { readonly reason: string })[];
  readonly domains: readonly (QueueLine & { readonly domain: string })[];
  readonly senders: readonly (QueueLine & { readonly sender?: string })[];
}

export interface QueueDelivery {
  readonly id: number;
  readonly destination: string;
  readonly domain: string;
  readonly kind: string;
  readonly status: string;
  readonly attempts: number;
  readonly created_at: string;
  readonly next_attempt_at?: string;
  /** Who holds it: an operator, or the suspension of its domain. */
  readonly held_by?: string;
  readonly recipient?: string;
  /** Empty for bounces. */
  readonly sender?: string;
  /** Where a webhook is posted, in full. */
  readonly url?: string;
  readonly subject?: string;
  readonly last_error?: DeliveryError;
}

export interface TraceItem {
  readonly id: string;
  readonly at: string;
  readonly event: string;
  readonly sender?: string;
  readonly recipient?: string;
  readonly message_id?: string;
  readonly delivery_id?: number;
  readonly webhook_id?: string;
  readonly status?: string;
  readonly detail?: string;
  readonly node?: string;
  readonly client?: string;
}

/** A message, for all its recipients. */
export interface MessageItem {
  readonly id: string;
  readonly at: string;
  readonly direction: 'in' | 'out';
  readonly status: string;
  readonly counts: Readonly<Record<string, number>>;
  readonly sender?: string;
  readonly domain?: string;
  readonly message_id?: string;
  readonly subject?: string;
  readonly size?: number;
  readonly client?: string;
  readonly node?: string;
  readonly next_attempt_at?: string;
  readonly reason?: string;
  /** The first of them. */
  readonly recipients: readonly string[];
  readonly recipient_count: number;
}

export interface MessageRecipient {
  readonly address?: string;
  readonly status: string;
  readonly at: string;
  readonly reason?: string;
  readonly explanation?: string;
  /** Whether its sender's domain does not write to it any more. */
  readonly suppressed?: boolean;
  readonly delivery_ids: readonly number[];
}

export interface MessageDelivery {
  readonly id: number;
  readonly kind: string;
  readonly destination: string;
  readonly status: string;
  readonly attempts: number;
  readonly next_attempt_at?: string;
  readonly last_attempt_at?: string;
  readonly last_error?: DeliveryError;
  readonly actions: readonly ('retry' | 'hold' | 'release' | 'drop')[];
}

export interface MessageDetails extends Omit<MessageItem, 'recipients' | 'recipient_count'> {
  readonly recipients: readonly MessageRecipient[];
  readonly deliveries: readonly MessageDelivery[];
  readonly events: readonly TraceItem[];
}

export interface UsageItem {
  readonly day: string;
  readonly domain?: string;
  readonly email?: string;
  readonly user_id?: string;
  readonly messages_in: number;
  readonly bytes_in: number;
  readonly messages_out: number;
  readonly bytes_out: number;
  readonly stored_bytes?: number;
}

export interface OverviewPoint {
  readonly at: string;
  readonly received: number;
  readonly delivered: number;
  readonly refused: Readonly<Record<string, number>>;
  readonly deferred: number;
  readonly sent: number;
  readonly forwarded: number;
  readonly webhooks: number;
  /** Sent and forwarded mail that was given up. */
  readonly bounced: number;
  readonly smtp_p95_ms?: number;
  readonly http_p95_ms?: number;
  readonly stored_bytes?: number;
  readonly queue?: Readonly<Record<string, number>>;
}

export interface Overview {
  /** The newest of what is measured now and then. */
  readonly now: {
    readonly stored_bytes?: number;
    readonly queue?: Readonly<Record<string, number>>;
    /** Age of the oldest delivery that is queued. */
    readonly oldest_seconds?: number;
  };
  /** The same number of hours before, as far as they are kept. */
  readonly before?: Readonly<Record<'received' | 'refused' | 'sent' | 'bounced', number>>;
  readonly series: readonly OverviewPoint[];
}

export interface BlockItem {
  readonly id: number;
  readonly kind: 'address' | 'domain' | 'network';
  readonly value: string;
  readonly note?: string;
  readonly created_at: string;
}

/** An API key, without its secret. */
export interface KeyItem {
  readonly id: number;
  readonly name: string;
  readonly scope: 'operator' | 'product';
  readonly user_id?: string;
  readonly organization_id?: string;
  readonly read_only: boolean;
  readonly status: 'active' | 'expired' | 'revoked';
  readonly created_at: string;
  readonly created_by: string;
  readonly expires_at?: string;
  readonly revoked_at?: string;
  readonly last_used_at?: string;
}

/** A password of a mail program. */
export interface AppPasswordItem {
  readonly id: number;
  readonly name: string;
  readonly created_at: string;
  readonly last_used_at?: string;
  readonly last_used_by?: 'imap' | 'submission';
}

/** What a mail program has open. */
export interface ImapSessionItem {
  readonly id: string;
  readonly account_id: number;
  readonly client: string;
  readonly secure: boolean;
  readonly program?: string;
  readonly app_password_id?: number;
  readonly mailbox?: string;
  readonly since: string;
  readonly last_command: string;
  readonly last_command_at: string;
  readonly bytes_out: number;
}

export interface MadeKey {
  readonly key: KeyItem;
  /** Only in this answer. */
  readonly api_key: string;
}

export interface AuditItem {
  readonly id: number | string;
  readonly at: string;
  readonly actor: string;
  readonly action: string;
  readonly target?: string;
  readonly counts?: Readonly<Record<string, number>>;
  readonly request_id?: string;
  readonly node?: string;
}

export interface NodeItem {
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly started_at: string;
  readonly seen_at: string;
  /** False where it was killed, or lost the database. */
  readonly running: boolean;
}

export interface SettingItem {
  readonly key: string;
  /** Absent where it is hidden, or has no value. */
  readonly value?: string;
  /** Whether it was set; else its default holds. */
  readonly set: boolean;
  /** Whether it is secret, or may hold a secret. */
  readonly hidden: boolean;
}

/** Something that needs an operator. */
export interface Finding {
  readonly name: string;
  readonly level: 'critical' | 'warning' | 'note';
  readonly text: string;
  /** What to do; a node of an older version gives none. */
  readonly advice?: string;
  readonly count: number;
  readonly since?: string;
  /** Path of the screen that shows it. */
  readonly link: string;
}

export interface Attention {
  readonly checked_at: string;
  /** What the menu shows. */
  readonly counts: { readonly waiting?: number; readonly cannot_send?: number };
  readonly items: readonly Finding[];
  readonly checks: readonly {
    readonly name: string;
    readonly level: string;
    readonly state: 'ok' | 'found' | 'unknown';
  }[];
}
