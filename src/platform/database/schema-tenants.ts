/** What users own and operators see: domains, API keys, the audit log, usage. */
import type { Generated } from 'kysely';

/** `domains/`: one user's claim on a domain name. */
export interface DomainTable {
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
  /** Not read any more. Nodes from before 0.4.0 write it. */
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
export interface DnsRecordTable {
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
export interface RouteTable {
  domain_id: number;
  forward_mode: 'store' | 'webhook' | 'webhook_then_store' | 'forward_email';
  webhook_url: string | null;
  webhook_secret: string | null;
  webhook_secret_previous: string | null;
  webhook_secret_until: number | null;
  forward_to_email: string | null;
}

/** `domains/`: a deleted claim, whose accounts and deliveries are being removed. */
export interface DeletedDomainTable {
  id: number;
  deleted_at: number;
}

/** `keys/`: API keys with a name and a scope. Those that were revoked stay, for the audit log. */
export interface ApiKeyTable {
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

/** `audit/`: who changed what. */
export interface AuditTable {
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

/** `operator/`: sessions of the console. */
export interface ConsoleSessionTable {
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
export interface UsageDayTable {
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
  /** Bytes in its mailboxes at the last measurement of that day. */
  stored_bytes: Generated<number>;
}

/** `usage/`: mail of one hour; kept for 8 days. */
export interface UsageHourTable
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
export interface TrafficTable {
  /** Milliseconds. */
  span: number;
  /** When it begins. */
  at: number;
  name: string;
  value: number;
}

/** `accounts/`: the clients (an IPv4 address, an IPv6 /64) that signed in to an account. */
export interface SignInTable {
  account_id: number;
  client: string;
  signed_in_at: number;
}

/** `accounts/`: logins that browsers remember. */
export interface RememberedLoginTable {
  series: string;
  account_id: number;
  /** Of the account at the login: a password reset ends it. */
  credential_version: number;
  /** How many texts the series has had. */
  generation: number;
  renewed_at: number;
}

/** `accounts/`: passwords of mail programs. */
export interface AppPasswordTable {
  id: Generated<number>;
  account_id: number;
  /** For people. */
  name: string;
  /** SHA-256 in hex of the password without its dashes. */
  secret_hash: string;
  created_at: number;
  /** Accurate to a minute. */
  last_used_at: number | null;
  last_used_by: 'imap' | 'submission' | null;
}
