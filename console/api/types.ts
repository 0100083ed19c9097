/** Shapes of the operator's API (`/v2/operator`), as the screens read them. */

/** A page of a list; `cursor` is there while more follows. */
export interface Page<Item> {
  readonly items: readonly Item[];
  readonly limit: number;
  readonly cursor?: string;
}

export interface Session {
  readonly csrf_token: string;
  readonly expires_at: string;
}

/** What a bulk action did; `more` where it stopped after its time and has to be called again. */
export interface BulkAnswer {
  readonly matched: number;
  readonly changed: number;
  readonly more?: boolean;
}

export interface DnsRecord {
  readonly id: number;
  readonly record_type: string;
  readonly host: string;
  readonly expected_value: string;
  readonly status: 'pending' | 'verified' | 'failed' | 'disabled';
  readonly observed_value?: string;
  readonly priority?: number;
  readonly detail?: string;
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
  readonly suspended_reason?: string;
  readonly route: Route | string;
  readonly accounts: number;
  readonly created_at: string;
  readonly verified_at?: string;
  readonly messages: number;
  readonly bytes: number;
}

/** What a deletion removes. */
export interface Removal {
  readonly accounts: number;
  readonly messages: number;
  readonly bytes: number;
  readonly deliveries: number;
}

export interface DomainPage extends DomainItem {
  readonly records: readonly DnsRecord[];
  readonly would_remove?: Removal;
}

export interface AccountItem {
  readonly account_id: number;
  readonly email: string;
  readonly domain: string;
  readonly user_id: string;
  readonly suspended: boolean;
  readonly messages: number;
  readonly bytes: number;
  readonly quota_bytes?: number;
  readonly created_at: string;
  readonly last_login_at?: string;
}

export interface QueueGroup {
  readonly destination: string;
  readonly domain: string;
  readonly kind: string;
  readonly counts: Readonly<Record<string, number>>;
  readonly oldest_due_at?: string;
  readonly overdue_seconds?: number;
  readonly last_error?: string;
}

export interface QueueDelivery {
  readonly id: string;
  readonly destination: string;
  readonly domain: string;
  readonly kind: string;
  readonly state: string;
  readonly attempts: number;
  readonly created_at: string;
  readonly due_at?: string;
  readonly sender?: string;
  readonly recipient?: string;
  readonly subject?: string;
  readonly last_error?: string;
}

export interface TraceItem {
  readonly id: string;
  readonly at: string;
  readonly event: string;
  readonly sender?: string;
  readonly recipient?: string;
  readonly message_id?: string;
  readonly delivery_id?: string;
  readonly webhook_id?: string;
  readonly status?: string;
  readonly detail?: string;
  readonly node?: string;
  readonly client?: string;
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
  readonly bounced: number;
  readonly smtp_p95_ms?: number;
  readonly http_p95_ms?: number;
  readonly stored_bytes?: number;
  readonly queue?: Readonly<Record<string, number>>;
}

export interface Overview {
  readonly now: Readonly<Record<string, unknown>>;
  readonly series: readonly OverviewPoint[];
}

export interface BlockItem {
  readonly id: number;
  readonly kind: 'address' | 'domain' | 'network';
  readonly value: string;
  readonly note?: string;
  readonly created_at: string;
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

export type NodeItem = Readonly<Record<string, unknown>>;
export type Settings = Readonly<Record<string, unknown>>;
