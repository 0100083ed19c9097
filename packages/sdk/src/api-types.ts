// Made from docs/openapi.json by `npm run openapi`: do not edit.

/** What went wrong (RFC 9457), with a stable code. */
export interface Problem {
  /** Where the code is explained, below the address of the server. */
  type: string;
  /** The same for every occurrence of the code. */
  title: string;
  /** The status of the answer. */
  status: number;
  /** What was wrong this time. */
  detail: string;
  /** Stable, for programs. */
  code: 'invalid_request' | 'search_too_long' | 'nothing_to_search' | 'too_many_words' | 'too_many_prefixes' | 'prefix_too_short' | 'unauthorized' | 'account_inactive' | 'csrf_token_invalid' | 'send_disabled' | 'key_restricted' | 'link_invalid' | 'route_not_found' | 'domain_not_found' | 'account_not_found' | 'dns_record_not_found' | 'mailbox_not_found' | 'message_not_found' | 'delivery_not_found' | 'send_not_found' | 'app_password_not_found' | 'key_not_found' | 'session_not_found' | 'block_not_found' | 'event_hook_not_found' | 'suppression_not_found' | 'part_not_found' | 'method_not_allowed' | 'not_acceptable' | 'domain_exists' | 'mailbox_exists' | 'mailbox_has_children' | 'mailbox_protected' | 'uidvalidity_changed' | 'address_exists' | 'domain_not_active' | 'domain_not_ready' | 'delivery_released' | 'already_sent' | 'idempotency_key_in_use' | 'idempotency_key_reused' | 'cursor_expired' | 'body_too_large' | 'unsupported_media_type' | 'range_not_satisfiable' | 'mail_server_refused' | 'upgrade_required' | 'rate_limited' | 'send_limit' | 'internal' | 'unavailable' | 'body_unavailable' | 'not_set_up' | 'domain_suspended' | 'relay_denied' | 'address_invalid' | 'message_too_large' | 'sender_rejected' | 'recipient_suppressed' | 'sender_blocked' | 'spam_rejected' | 'sender_unclear' | 'spam_deferred' | 'srs_invalid' | 'mailbox_refused' | 'mailbox_full' | 'message_looping' | 'quota_exceeded' | 'storage_full' | 'too_many_connections' | 'too_many_recipients';
  /** The fields that are wrong, by their names in the request. */
  errors?: {
    field: string;
    message: string;
  }[];
  /** Of `cursor_expired`: the cursor from which reading can go on. */
  oldest?: string;
  /** As in `x-request-id`, to find it in the log. */
  request_id: string;
}

export interface CreateDomainBody {
  /** Domain name; capitals and IDN are fine. */
  domain: string;
  /** The user of your product who owns everything in this call. */
  user_id: string;
  /** Stored and returned, for your own use. */
  organization_id?: string;
}

/** A claim of a user on a domain name. */
export interface Domain {
  /** Given by the server. */
  id: number;
  /** Domain name; capitals and IDN are fine. */
  domain: string;
  status: 'pending' | 'active';
  /** As it was given at the claim. */
  organization_id?: string;
  created_at: string;
  /** When it last became active. */
  verified_at?: string;
}

/** A record that the zone of the domain must have. */
export interface DnsRecord {
  /** Given by the server. */
  id: number;
  record_type: 'MX' | 'TXT';
  /** Relative to the domain, `@` for the domain itself. */
  host: string;
  /** What to publish; the priority of an MX record is beside it. */
  expected_value: string;
  /** Of MX records. */
  priority?: number;
  purpose: 'mx' | 'spf' | 'dmarc' | 'dkim';
  /** `disabled` by hand alone. */
  status: 'pending' | 'verified' | 'failed' | 'disabled';
  /** What DNS answered last (`no record` for nothing), or the value that was set by hand. */
  observed_value?: string;
  /** The result of the last check, and what to do about it. */
  detail?: string;
  last_checked_at?: string;
  /** What the last look found: `ok`, `missed` (nothing, or something else: `observed_value` says what), or `unanswered` (DNS could not be asked, so nothing changed). Absent before the first look, and after the record was set by hand. */
  last_check?: 'ok' | 'missed' | 'unanswered';
  /** How many answers in a row did not have the record. A `verified` record with misses is missing now; it becomes `failed` with the third. */
  misses: number;
  /** When the first of these answers came. */
  failing_since?: string;
  /** Of a DKIM record while the key is changed: `next` signs once it is verified, `old` does not sign any more. */
  key_state?: 'next' | 'old';
  /** Of an `old` DKIM record: it has to stay in DNS until then. */
  removable_at?: string;
}

/** What happens to mail for the domain. Fields of other modes are left out. */
export interface Route {
  /** Domain name; capitals and IDN are fine. */
  domain: string;
  forward_mode: 'store' | 'webhook' | 'webhook_then_store' | 'forward_email';
  /** Of the webhook modes. */
  webhook_url?: string;
  /** Of the webhook modes, if it is set: shown as it was set. */
  webhook_secret?: string;
  /** The old `webhook_secret`, for 24 hours after a change: both sign. */
  webhook_secret_previous?: string;
  /** Of `forward_email`. */
  forward_to_email?: string;
}

export interface MailExchanger {
  /** The mail exchanger of this service. */
  host: string;
  priority: number;
}

/** A domain with all that belongs to it. */
export interface DomainDetails {
  domain: Domain;
  dns: DnsRecord[];
  route: Route;
  mx: MailExchanger;
}

export interface CreateDomainAnswer {
  message: string;
  domain: DomainDetails;
}

export interface ListDomainsAnswer {
  items: Domain[];
  /** The limit that was used. */
  limit: number;
  /** The offset that was used. */
  offset: number;
  /** How many items all pages have. Left out above 10,000, and where counting would cost something. */
  total?: number;
}

export interface ListDnsRecordsAnswer {
  domain: Domain;
  dns: DnsRecord[];
}

export interface DeleteDomainBody {
  /** Domain name; capitals and IDN are fine. */
  domain: string;
  /** The user of your product who owns everything in this call. */
  user_id: string;
}

export interface DeleteDomainAnswer {
  ok: boolean;
  /** Domain name; capitals and IDN are fine. */
  deleted: string;
}

export interface SetRouteBody {
  /** The user of your product who owns everything in this call. */
  user_id: string;
  forward_mode: 'store' | 'webhook' | 'webhook_then_store' | 'forward_email';
  /** Required for the webhook modes; http or https. */
  webhook_url?: string;
  /** Signs deliveries by Standard Webhooks; `whsec_<base64>` is decoded. */
  webhook_secret?: string;
  /** Required for `forward_email`. */
  forward_to_email?: string;
}

export interface MarkDnsRecordBody {
  /** The user of your product who owns everything in this call. */
  user_id: string;
  /** Given by the server. */
  id: number;
  /** `disabled` by hand alone. */
  status: 'pending' | 'verified' | 'failed' | 'disabled';
  /** The `observed_value` to show. */
  observed_value?: string;
}

export interface VerifyDomainBody {
  /** The user of your product who owns everything in this call. */
  user_id: string;
}

export interface RotateDkimBody {
  /** The user of your product who owns everything in this call. */
  user_id: string;
}

export interface CreateAccountBody {
  /** Domain name; capitals and IDN are fine. */
  domain: string;
  /** The part before the @. */
  local_part: string;
  display_name?: string;
  /** The user of your product who owns everything in this call. */
  user_id: string;
  /** At least 8 characters; generated when left out. */
  password?: string;
}

/** A mailbox account of a user on one of its domains. */
export interface EmailAccount {
  /** Given by the server. */
  id: number;
  /** The user of your product who owns everything in this call. */
  user_id: string;
  /** Domain name; capitals and IDN are fine. */
  domain: string;
  local_part: string;
  /** `local_part@domain`. */
  address: string;
  display_name: string;
  status: 'active' | 'suspended';
  /** Whether it is its user's oldest account. */
  is_default: boolean;
  created_at: string;
}

/** An account whose password was just set. */
export interface AccountWithPassword {
  account: EmailAccount;
  /** Shown only here. */
  password: string;
  note: string;
}

export interface ListDomainAccountsAnswer {
  domain: Domain;
  items: EmailAccount[];
  /** The limit that was used. */
  limit: number;
  /** The offset that was used. */
  offset: number;
  /** How many items all pages have. Left out above 10,000, and where counting would cost something. */
  total?: number;
}

export interface ListAccountsAnswer {
  items: EmailAccount[];
  /** The limit that was used. */
  limit: number;
  /** The offset that was used. */
  offset: number;
  /** How many items all pages have. Left out above 10,000, and where counting would cost something. */
  total?: number;
}

export interface GetAccountAnswer {
  account: EmailAccount;
}

export interface UpdateAccountBody {
  /** The user of your product who owns everything in this call. */
  user_id: string;
  display_name?: string;
  status?: 'active' | 'suspended';
}

export interface UpdateAccountAnswer {
  account: EmailAccount;
}

export interface DeleteAccountBody {
  /** Given by the server. */
  id: number;
  /** The user of your product who owns everything in this call. */
  user_id: string;
}

export interface DeleteAccountAnswer {
  ok: boolean;
  deleted: {
    /** Given by the server. */
    id: number;
    address: string;
  };
}

export interface ResetPasswordBody {
  /** The user of your product who owns everything in this call. */
  user_id: string;
  /** At least 8 characters; generated when left out. */
  password?: string;
}

export interface IssueTokenBody {
  /** The user of your product who owns everything in this call. */
  user_id: string;
}

/** Opens one mailbox account until it expires. */
export interface Token {
  /** JWT, for `Authorization: Bearer`. */
  token: string;
  /** Seconds. */
  expires_in: number;
}

/** A password of a mail program, without the password. */
export interface AppPassword {
  /** Given by the server. */
  id: number;
  /** For people; several may have the same. */
  name: string;
  created_at: string;
  /** Accurate to a minute; absent where it was never used. */
  last_used_at?: string;
  /** What it was used for then. */
  last_used_by?: 'imap' | 'submission';
}

export interface ListAppPasswordsAnswer {
  items: AppPassword[];
}

export interface CreateAppPasswordBody {
  /** The user of your product who owns everything in this call. */
  user_id: string;
  /** For people; several may have the same. */
  name: string;
}

/** An app password that was just made. */
export interface NewAppPassword {
  app_password: AppPassword;
  /** Shown only here. Dashes and capitals do not matter. */
  password: string;
  note: string;
}

export interface DeleteAppPasswordBody {
  /** The user of your product who owns everything in this call. */
  user_id: string;
}

export interface DeleteAppPasswordAnswer {
  ok: boolean;
  deleted: AppPassword;
}

/** Ids, and what an envelope shows; by `type`. */
export interface EventData {
  account_id?: number;
  /** Of the account. */
  address?: string;
  domain?: string;
  mailbox?: string;
  /** Absent on a mail server. */
  uid?: number;
  /** The id in the trace, in Received and in webhooks. */
  mail_id?: string;
  from?: string;
  subject?: string;
  message_id?: string;
  /** Bytes. */
  size?: number;
  /** As `POST /mail/send` answered it. */
  send_id?: string;
  /** How many. */
  recipients?: number;
  send_at?: string;
  recipient?: string;
  delivery_id?: number;
  /** Of the delivery. */
  kind?: string;
  destination?: string;
  /** Why, for people. */
  detail?: string;
}

export interface Event {
  /** The place of the event: pass it as `after`. No other event has it. */
  cursor: string;
  type: 'message.received' | 'message.sent' | 'send.delivered' | 'send.deferred' | 'send.bounced' | 'domain.active' | 'domain.failing' | 'domain.pending' | 'domain.deleted' | 'account.created' | 'account.suspended' | 'account.resumed' | 'account.deleted' | 'delivery.failed';
  timestamp: string;
  data: EventData;
}

export interface ListEventsAnswer {
  items: Event[];
  /** Pass it as `after` of the next request. */
  cursor: string;
  /** Whether the next request is answered at once. */
  has_more: boolean;
}

export interface DeliveryError {
  /** HTTP status or SMTP reply code. */
  status?: number;
  /** First 500 bytes of what the receiver said, or why the delivery is held. */
  text: string;
}

export interface StoredLocation {
  address: string;
  mailbox: string;
  uid: number;
}

/** A message for a receiver outside, with its attempts. */
export interface Delivery {
  /** Given by the server. */
  id: number;
  /** The id that the receiver gets. */
  webhook_id: string;
  /** `send`: mail that an account sent. `mailbox`: mail that your mail server has not accepted yet. `copy`: a change that sent mail makes in a mailbox there. `event`: an event for the event hook of a user; it has no domain. */
  kind: 'webhook' | 'forward' | 'bounce' | 'send' | 'mailbox' | 'copy' | 'event';
  /** Origin of the webhook, domain of the mail, or address of the mailbox. */
  destination: string;
  /** A `held` delivery is kept, and not attempted until it is released or tried again; last_error says why. */
  status: 'queued' | 'held' | 'delivered' | 'failed';
  /** Since it was queued or last tried by hand. */
  attempts: number;
  last_error?: DeliveryError;
  next_attempt_at?: string;
  created_at: string;
  updated_at: string;
  finished_at?: string;
  /** Of the message. */
  message_id?: string;
  /** Of the message. */
  subject?: string;
  /** Where the message was also stored; absent on a mail server. */
  stored?: StoredLocation[];
}

export interface ListDeliveriesAnswer {
  items: Delivery[];
  /** The limit that was used. */
  limit: number;
  /** The offset that was used. */
  offset: number;
  /** How many items all pages have. Left out above 10,000, and where counting would cost something. */
  total?: number;
}

export interface RetryDeliveryBody {
  /** The user of your product who owns everything in this call. */
  user_id: string;
}

export interface RetryDeliveryAnswer {
  delivery: Delivery;
}

/** An address that bounced for good. */
export interface Suppression {
  /** Given by the server. */
  id: number;
  address: string;
  /** What the mail server of the address said. */
  detail: string;
  created_at: string;
}

export interface ListSuppressionsAnswer {
  items: Suppression[];
  /** The limit that was used. */
  limit: number;
  /** The offset that was used. */
  offset: number;
  /** How many items all pages have. Left out above 10,000, and where counting would cost something. */
  total?: number;
}

export interface DeleteSuppressionBody {
  /** The user of your product who owns everything in this call. */
  user_id: string;
  address: string;
}

export interface DeleteSuppressionAnswer {
  ok: boolean;
  deleted: string;
}

/** Where the events of a user are posted. */
export interface EventHook {
  /** The user of your product who owns everything in this call. */
  user_id: string;
  /** http or https. */
  url: string;
  /** Only these types; all when left out. */
  types?: ('message.received' | 'message.sent' | 'send.delivered' | 'send.deferred' | 'send.bounced' | 'domain.active' | 'domain.failing' | 'domain.pending' | 'domain.deleted' | 'account.created' | 'account.suspended' | 'account.resumed' | 'account.deleted' | 'delivery.failed')[];
  /** Absent for keys that only read. */
  secret?: string;
  /** The old `secret`, for 24 hours after a change: both sign. */
  secret_previous?: string;
  created_at: string;
  /** Events that were not taken yet; 1000 stands for as many or more. */
  waiting: number;
  last_error?: DeliveryError;
  /** When events were found to be pruned before they could be posted. */
  missed_at?: string;
}

export interface GetEventHookAnswer {
  hook: EventHook;
}

export interface SetEventHookBody {
  /** The user of your product who owns everything in this call. */
  user_id: string;
  /** http or https. */
  url: string;
  /** Only these types; all when left out. */
  types?: ('message.received' | 'message.sent' | 'send.delivered' | 'send.deferred' | 'send.bounced' | 'domain.active' | 'domain.failing' | 'domain.pending' | 'domain.deleted' | 'account.created' | 'account.suspended' | 'account.resumed' | 'account.deleted' | 'delivery.failed')[];
  /** Signs what is posted, by Standard Webhooks; `whsec_<base64>` is decoded. When left out, the one before stays, or one is made. */
  secret?: string;
}

export interface SetEventHookAnswer {
  hook: EventHook;
}

export interface DeleteEventHookBody {
  /** The user of your product who owns everything in this call. */
  user_id: string;
}

export interface DeleteEventHookAnswer {
  ok: boolean;
  /** http or https. */
  deleted: string;
}

/** A server that mail programs connect to. */
export interface ProgramServer {
  host: string;
  port: number;
  /** Whether a connection begins with TLS, or with STARTTLS. */
  security: 'tls' | 'starttls';
}

/** A record that helps mail programs; mail needs none. */
export interface SrvRecord {
  record_type: 'SRV';
  /** Relative to the domain. */
  host: string;
  /** Priority, weight, port and target (RFC 2782); the target `.` says that there is no such service. */
  value: string;
}

export interface GetClientSettingsAnswer {
  /** Domain name; capitals and IDN are fine. */
  domain: string;
  imap: ProgramServer[];
  smtp: ProgramServer[];
  /** What the user name is. */
  username: string;
  srv: SrvRecord[];
}

/** A domain of any user, as operators see it. */
export interface OperatedDomain {
  /** Given by the server. */
  id: number;
  /** Domain name; capitals and IDN are fine. */
  domain: string;
  status: 'pending' | 'active';
  /** As it was given at the claim. */
  organization_id?: string;
  created_at: string;
  /** When it last became active. */
  verified_at?: string;
  /** The user of your product who owns everything in this call. */
  user_id: string;
  /** Whether an operator suspended it. */
  suspended: boolean;
  suspended_at?: string;
  /** As the operator wrote it. */
  suspend_reason?: string;
  forward_mode: 'store' | 'webhook' | 'webhook_then_store' | 'forward_email';
  /** Replaced by `forward_mode`; goes away after 0.4. */
  route: string;
  accounts: number;
  /** When it became `pending` again: its mail is deferred for 5 days, then refused. */
  lapsed_at?: string;
  /** Whether mail for it is taken and finds the way: it is active, not suspended, and its MX record has not failed. */
  can_receive: boolean;
  /** Whether its accounts can send: it is active, and its DKIM record is verified. A suspension is not counted. */
  can_send: boolean;
  /** Since when `can_send` is what it is; absent where no change was seen yet. */
  can_send_since?: string;
  /** Purposes of the records that are `failed`. */
  records_failed: ('mx' | 'spf' | 'dmarc' | 'dkim')[];
  /** When the first of them was missed for the first time. */
  records_failed_since?: string;
  /** Purposes of the records that are still `verified`, but were not there at the last look. */
  records_missing: ('mx' | 'spf' | 'dmarc' | 'dkim')[];
  /** When DNS is asked about its records the next time. */
  next_check_at: string;
  /** Messages for its accounts, or for no account, in the last 24 hours. */
  received_24h: number;
  /** Recipients of mail that it sent or forwarded in the last 24 hours. */
  sent_24h: number;
  /** Recipients who did not get its sent or forwarded mail, in the last 24 hours. */
  bounced_24h: number;
  /** Deliveries of its mail, of any kind, that wait or are held. */
  waiting: number;
  /** In the mailboxes of its accounts. Left out in lists of domains with thousands of accounts, and where a mail server has the mailboxes. */
  messages?: number;
  /** Of these messages, in bytes. */
  bytes?: number;
}

export interface ListAllDomainsAnswer {
  items: OperatedDomain[];
  /** The limit that was used. */
  limit: number;
  /** For the next page; absent on the last one. */
  cursor?: string;
}

export interface DkimState {
  /** Where its key is published, relative to the domain. */
  host: string;
  /** `disabled` by hand alone. */
  status: 'pending' | 'verified' | 'failed' | 'disabled';
}

/** The result of the last check. */
export interface DomainChecks {
  last_checked_at?: string;
  /** Purposes of the records that are pending or failed. */
  not_verified: ('mx' | 'spf' | 'dmarc' | 'dkim')[];
}

/** What is deleted together with a domain. */
export interface DomainContents {
  accounts: number;
  messages: number;
  bytes: number;
  /** Deliveries that have not ended. */
  deliveries: number;
}

/** A domain with its DNS records and its counts. */
export interface OperatedDomainDetails {
  /** Given by the server. */
  id: number;
  /** Domain name; capitals and IDN are fine. */
  domain: string;
  status: 'pending' | 'active';
  /** As it was given at the claim. */
  organization_id?: string;
  created_at: string;
  /** When it last became active. */
  verified_at?: string;
  /** The user of your product who owns everything in this call. */
  user_id: string;
  /** Whether an operator suspended it. */
  suspended: boolean;
  suspended_at?: string;
  /** As the operator wrote it. */
  suspend_reason?: string;
  forward_mode: 'store' | 'webhook' | 'webhook_then_store' | 'forward_email';
  /** Replaced by `forward_mode`; goes away after 0.4. */
  route: string;
  accounts: number;
  /** When it became `pending` again: its mail is deferred for 5 days, then refused. */
  lapsed_at?: string;
  /** Whether mail for it is taken and finds the way: it is active, not suspended, and its MX record has not failed. */
  can_receive: boolean;
  /** Whether its accounts can send: it is active, and its DKIM record is verified. A suspension is not counted. */
  can_send: boolean;
  /** Since when `can_send` is what it is; absent where no change was seen yet. */
  can_send_since?: string;
  /** Purposes of the records that are `failed`. */
  records_failed: ('mx' | 'spf' | 'dmarc' | 'dkim')[];
  /** When the first of them was missed for the first time. */
  records_failed_since?: string;
  /** Purposes of the records that are still `verified`, but were not there at the last look. */
  records_missing: ('mx' | 'spf' | 'dmarc' | 'dkim')[];
  /** When DNS is asked about its records the next time. */
  next_check_at: string;
  /** Messages for its accounts, or for no account, in the last 24 hours. */
  received_24h: number;
  /** Recipients of mail that it sent or forwarded in the last 24 hours. */
  sent_24h: number;
  /** Recipients who did not get its sent or forwarded mail, in the last 24 hours. */
  bounced_24h: number;
  /** Deliveries of its mail, of any kind, that wait or are held. */
  waiting: number;
  /** In the mailboxes of its accounts. Left out in lists of domains with thousands of accounts, and where a mail server has the mailboxes. */
  messages?: number;
  /** Of these messages, in bytes. */
  bytes?: number;
  dns: DnsRecord[];
  /** Replaced by `dns`; goes away after 0.4. */
  records: DnsRecord[];
  dkim: DkimState;
  checks: DomainChecks;
  would_remove: DomainContents;
}

/** An account of any user, as operators see it. */
export interface OperatedAccount {
  /** Given by the server. */
  id: number;
  /** The user of your product who owns everything in this call. */
  user_id: string;
  /** Domain name; capitals and IDN are fine. */
  domain: string;
  local_part: string;
  /** `local_part@domain`. */
  address: string;
  display_name: string;
  status: 'active' | 'suspended';
  /** Whether it is its user's oldest account. */
  is_default: boolean;
  created_at: string;
  /** In its mailboxes. Left out where a mail server has them. */
  messages?: number;
  /** Of these messages, in bytes. */
  bytes?: number;
  /** Bytes that its mailboxes may hold: its own quota or the default; 0 for no limit. */
  quota_bytes: number;
  /** Recipients of mail that it sent in the last 24 hours. */
  sent_24h: number;
  /** Messages that it got in the last 24 hours. */
  received_24h: number;
  /** Recipients who did not get its mail: given up in the last 24 hours, or reported by a bounce from outside. */
  bounced_24h: number;
  /** Recipients that it could not write to in the last 24 hours, because of `SEND_RECIPIENTS_PER_DAY`. */
  refused_24h: number;
  /** Deliveries of its mail that wait, or are held. */
  waiting: number;
  /** The last login with its password, accurate to a day. Absent if there was none in half a year. */
  last_login_at?: string;
  /** Replaced by `id`; goes away after 0.4. */
  account_id: number;
  /** Replaced by `address`; goes away after 0.4. */
  email: string;
  /** Replaced by `status`; goes away after 0.4. */
  suspended: boolean;
}

export interface ListAllAccountsAnswer {
  items: OperatedAccount[];
  /** The limit that was used. */
  limit: number;
  /** For the next page; absent on the last one. */
  cursor?: string;
}

/** Mail of an account in an hour or a day. */
export interface AccountSpan {
  /** When it begins. */
  at: string;
  /** Recipients of its mail. */
  sent: number;
  received: number;
  bounced: number;
  refused: number;
}

export interface AccountReceiver {
  domain: string;
  recipients: number;
  bounced: number;
}

export interface WaitingReason {
  status: 'queued' | 'held';
  destination: string;
  last_error?: DeliveryError;
  count: number;
  /** When the oldest of them was queued. */
  oldest_at: string;
}

export interface SignIn {
  /** An IPv4 address, or an IPv6 /64. */
  client: string;
  /** Accurate to a day. */
  at: string;
}

/** An account, and what it does. */
export interface OperatedAccountDetails {
  /** Given by the server. */
  id: number;
  /** The user of your product who owns everything in this call. */
  user_id: string;
  /** Domain name; capitals and IDN are fine. */
  domain: string;
  local_part: string;
  /** `local_part@domain`. */
  address: string;
  display_name: string;
  status: 'active' | 'suspended';
  /** Whether it is its user's oldest account. */
  is_default: boolean;
  created_at: string;
  /** In its mailboxes. Left out where a mail server has them. */
  messages?: number;
  /** Of these messages, in bytes. */
  bytes?: number;
  /** Bytes that its mailboxes may hold: its own quota or the default; 0 for no limit. */
  quota_bytes: number;
  /** Recipients of mail that it sent in the last 24 hours. */
  sent_24h: number;
  /** Messages that it got in the last 24 hours. */
  received_24h: number;
  /** Recipients who did not get its mail: given up in the last 24 hours, or reported by a bounce from outside. */
  bounced_24h: number;
  /** Recipients that it could not write to in the last 24 hours, because of `SEND_RECIPIENTS_PER_DAY`. */
  refused_24h: number;
  /** Deliveries of its mail that wait, or are held. */
  waiting: number;
  /** The last login with its password, accurate to a day. Absent if there was none in half a year. */
  last_login_at?: string;
  /** Replaced by `id`; goes away after 0.4. */
  account_id: number;
  /** Replaced by `address`; goes away after 0.4. */
  email: string;
  /** Replaced by `status`; goes away after 0.4. */
  suspended: boolean;
  /** The last 24 hours, the oldest first. */
  hours: AccountSpan[];
  /** The last 8 days (UTC), the oldest first. */
  days: AccountSpan[];
  /** The mail domains that it wrote to most in 7 days, of its newest 5,000 recipients. */
  receivers: AccountReceiver[];
  /** Why its mail waits: the most frequent receivers and answers. */
  waiting_reasons: WaitingReason[];
  /** The clients that signed in with its password last. */
  sign_ins: SignIn[];
}

export interface SuspendDomainBody {
  /** Domain name; capitals and IDN are fine. */
  domain: string;
  /** The user of your product who owns everything in this call. */
  user_id?: string;
  reason?: string;
}

export interface ResumeDomainBody {
  /** Domain name; capitals and IDN are fine. */
  domain: string;
  /** The user of your product who owns everything in this call. */
  user_id?: string;
}

export interface DeleteAnyDomainBody {
  /** Domain name; capitals and IDN are fine. */
  domain: string;
  /** The user of your product who owns everything in this call. */
  user_id?: string;
  /** The name of the domain, once more. */
  confirm?: string;
}

export interface DeleteAnyDomainAnswer {
  would_remove?: DomainContents;
  /** Domain name; capitals and IDN are fine. */
  deleted?: string;
  removed?: DomainContents;
}

export interface SuspendAnyAccountBody {
  /** Given by the server. */
  id?: number;
  /** Replaced by `id`; goes away after 0.4. */
  account_id?: number;
  /** Drop what it sent and what still waits: no bounce is sent, and its owner sees `bounced`. Otherwise its mail goes on. What is being attempted right now is not dropped. */
  drop_waiting?: boolean;
}

/** An account after its suspension. */
export interface SuspendedAccount {
  /** Given by the server. */
  id: number;
  /** The user of your product who owns everything in this call. */
  user_id: string;
  /** Domain name; capitals and IDN are fine. */
  domain: string;
  local_part: string;
  /** `local_part@domain`. */
  address: string;
  display_name: string;
  status: 'active' | 'suspended';
  /** Whether it is its user's oldest account. */
  is_default: boolean;
  created_at: string;
  /** In its mailboxes. Left out where a mail server has them. */
  messages?: number;
  /** Of these messages, in bytes. */
  bytes?: number;
  /** Bytes that its mailboxes may hold: its own quota or the default; 0 for no limit. */
  quota_bytes: number;
  /** Recipients of mail that it sent in the last 24 hours. */
  sent_24h: number;
  /** Messages that it got in the last 24 hours. */
  received_24h: number;
  /** Recipients who did not get its mail: given up in the last 24 hours, or reported by a bounce from outside. */
  bounced_24h: number;
  /** Recipients that it could not write to in the last 24 hours, because of `SEND_RECIPIENTS_PER_DAY`. */
  refused_24h: number;
  /** Deliveries of its mail that wait, or are held. */
  waiting: number;
  /** The last login with its password, accurate to a day. Absent if there was none in half a year. */
  last_login_at?: string;
  /** Replaced by `id`; goes away after 0.4. */
  account_id: number;
  /** Replaced by `address`; goes away after 0.4. */
  email: string;
  /** Replaced by `status`; goes away after 0.4. */
  suspended: boolean;
  /** How many deliveries were dropped. */
  dropped?: number;
}

export interface ResumeAnyAccountBody {
  /** Given by the server. */
  id?: number;
  /** Replaced by `id`; goes away after 0.4. */
  account_id?: number;
}

/** A process of the service. */
export interface Node {
  /** Id of this run of the process. */
  id: string;
  host: string;
  pid: number;
  version: string;
  started_at: string;
  /** The last heartbeat. */
  seen_at: string;
  /** False if it was killed, or lost the database. */
  running: boolean;
}

export interface ListNodesAnswer {
  items: Node[];
  /** The limit that was used. */
  limit: number;
}

/** A key of the configuration, with the value in force. */
export interface Setting {
  key: string;
  /** Absent if it is hidden, or has no value. */
  value?: string;
  /** Whether it was set; else its default holds. */
  set: boolean;
  /** Whether it is secret, or may hold a secret. */
  hidden: boolean;
}

export interface ListSettingsAnswer {
  items: Setting[];
  /** The limit that was used. */
  limit: number;
}

export interface ChangeLogLevelBody {
  /** As LOG_LEVEL: lines of this level and more severe ones are written. */
  level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
}

export interface ChangeLogLevelAnswer {
  /** As LOG_LEVEL: lines of this level and more severe ones are written. */
  level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
}

/** A console where somebody is signed in. */
export interface ConsoleSession {
  /** For the header `x-csrf-token` of requests that change something. */
  csrf_token: string;
  expires_at: string;
}

export interface EndConsoleSessionAnswer {
  ok: boolean;
}

export interface OpenConsoleSessionBody {
  api_key: string;
}

/** Something that an operator or a product changed. */
export interface AuditEntry {
  id: number;
  at: string;
  /** The name and number of the API key; for a key of the settings the first 8 hex digits of its SHA-256; `program` for the command line. */
  actor: string;
  /** What was done. */
  action: string;
  /** What it was done to. */
  target: string;
  /** How many accounts, messages or deliveries were changed. */
  counts?: Record<string, number>;
  /** As in `x-request-id` and the log. */
  request_id?: string;
  /** The host that did it. */
  node: string;
}

export interface ListAuditAnswer {
  items: AuditEntry[];
  /** The limit that was used. */
  limit: number;
  /** For the next page; absent on the last one. */
  cursor?: string;
}

/** What was received, sent and stored on one day. */
export interface UsageDay {
  /** In UTC. */
  day: string;
  user_id: string;
  domain?: string;
  /** Absent for mail that no account gets. */
  account_id?: number;
  address?: string;
  /** Messages that came in, once for each account. */
  messages_in: number;
  /** Their bytes. */
  bytes_in: number;
  /** Messages that were sent or forwarded, once for each recipient. */
  messages_out: number;
  /** Their bytes. */
  bytes_out: number;
  /** Bytes in the mailboxes when they were last measured on that day. */
  stored_bytes: number;
  /** Replaced by `address`; goes away after 0.4. */
  email?: string;
}

export interface ListUsageAnswer {
  items: UsageDay[];
  /** The limit that was used. */
  limit: number;
  /** For the next page; absent on the last one. */
  cursor?: string;
}

export interface SetQuotaBody {
  /** Given by the server. */
  id?: number;
  /** Replaced by `id`; goes away after 0.4. */
  account_id?: number;
  quota_bytes?: number;
}

export interface SetQuotaAnswer {
  /** Given by the server. */
  id: number;
  address: string;
  quota_bytes?: number;
  /** Replaced by `id`; goes away after 0.4. */
  account_id: number;
  /** Replaced by `address`; goes away after 0.4. */
  email: string;
}

/** What all nodes counted in five minutes, or in an hour. */
export interface OverviewPoint {
  at: string;
  /** Messages that came in by SMTP or LMTP and were accepted. */
  received: number;
  /** Their recipients. */
  delivered: number;
  /** Recipients, messages and connections that were refused for good, by reason. */
  refused: Record<string, number>;
  /** Recipients, messages and connections that were deferred. */
  deferred: number;
  /** The same by reason. */
  deferrals: Record<string, number>;
  /** Deliveries of mail that accounts sent, which their receivers took; `sent_24h` of an account counts what it gave. */
  sent: number;
  /** Messages that were forwarded. */
  forwarded: number;
  /** Webhooks that their receivers accepted. */
  webhooks: number;
  /** Attempts of webhooks by outcome. */
  webhook_attempts: Record<string, number>;
  /** Deliveries of sent and forwarded mail that were given up. */
  bounced: number;
  /** Bounces that other servers took for it. */
  bounces_sent: number;
  /** 95 of 100 messages were stored within so many milliseconds, after they were read and checked. */
  smtp_p95_ms?: number;
  /** 95 of 100 requests were answered within so many milliseconds. */
  http_p95_ms?: number;
  /** Bytes in all mailboxes, measured every five minutes. */
  stored_bytes?: number;
  /** Deliveries that have not ended, by state. */
  queue?: Record<string, number>;
}

export interface GetOverviewAnswer {
  now: {
    /** Bytes in all mailboxes, measured every five minutes. */
    stored_bytes?: number;
    /** Deliveries that have not ended, by state, counted now or some seconds ago. */
    queue?: Record<string, number>;
    /** Age of the oldest one that is queued. */
    oldest_seconds?: number;
  };
  /** The same number of hours before; absent where not all of them are kept. */
  before?: {
    /** As in a point. */
    received: number;
    /** For all reasons. */
    refused: number;
    /** For all reasons. */
    deferred: number;
    /** As in a point. */
    sent: number;
    /** As in a point. */
    bounced: number;
  };
  /** The oldest first. */
  series: OverviewPoint[];
}

/** Something that needs an operator. */
export interface Finding {
  /** Name of the check. */
  name: string;
  /** `critical`: mail is late or not taken now; `warning`: it soon may be; `note`: good to know. */
  level: 'critical' | 'warning' | 'note';
  /** What, how many, and what follows. */
  text: string;
  /** What to do about it. */
  advice: string;
  /** How many. */
  count: number;
  since?: string;
  /** Where the console shows it, below `/console`. */
  link: string;
}

export interface GetAttentionAnswer {
  checked_at: string;
  /** What the menu of the console shows; left out where it could not be counted. */
  counts: {
    /** Deliveries that are queued or held. */
    waiting?: number;
    /** Active domains that cannot send. */
    cannot_send?: number;
  };
  /** The most urgent first. */
  items: Finding[];
  /** All checks, with what each came to. */
  checks: ({
    /** Name of the check. */
    name: string;
    /** `critical`: mail is late or not taken now; `warning`: it soon may be; `note`: good to know. */
    level: 'critical' | 'warning' | 'note';
    /** `unknown`: the check failed or took too long, so it says nothing. */
    state: 'ok' | 'found' | 'unknown';
  })[];
}

/** A message, for all its recipients. */
export interface OperatedMessage {
  /** As in the answer to the client that brought it, its Received field and the log. */
  id: string;
  at: string;
  /** out: an account sent it. */
  direction: 'in' | 'out';
  /** waiting: not tried yet; scheduled: not before its time; deferred: is tried again; held: until an operator releases it; bounced: the sender was told; failed: nobody was told; refused, deferred_by_us: we answered 5xx, 4xx; dropped: by an operator; cancelled: by the account; partly: the recipients differ, see `counts`. */
  status: 'failed' | 'bounced' | 'dropped' | 'held' | 'deferred' | 'waiting' | 'scheduled' | 'refused' | 'deferred_by_us' | 'cancelled' | 'delivered' | 'partly';
  /** How many recipients are in each state. */
  counts: {
    failed?: number;
    bounced?: number;
    dropped?: number;
    held?: number;
    deferred?: number;
    waiting?: number;
    scheduled?: number;
    refused?: number;
    deferred_by_us?: number;
    cancelled?: number;
    delivered?: number;
  };
  /** Empty for a bounce. */
  sender?: string;
  /** The domain whose mail it is. */
  domain?: string;
  message_id?: string;
  /** Only with TRACE_SUBJECTS. */
  subject?: string;
  /** Bytes of its source. Absent where it was refused before it came, and for mail from before 0.4.0. */
  size?: number;
  /** Address of the client that brought it. */
  client?: string;
  /** The host that took it. */
  node?: string;
  next_attempt_at?: string;
  /** What was answered last about a recipient who does not have it. */
  reason?: string;
  /** The first 3. */
  recipients: string[];
  recipient_count: number;
}

export interface ListMessagesAnswer {
  items: OperatedMessage[];
  /** The limit that was used. */
  limit: number;
  /** For the next page; absent on the last one. */
  cursor?: string;
}

/** What became of the message for one recipient. */
export interface MessageRecipient {
  address?: string;
  /** waiting: not tried yet; scheduled: not before its time; deferred: is tried again; held: until an operator releases it; bounced: the sender was told; failed: nobody was told; refused, deferred_by_us: we answered 5xx, 4xx; dropped: by an operator; cancelled: by the account; partly: the recipients differ, see `counts`. */
  status: 'failed' | 'bounced' | 'dropped' | 'held' | 'deferred' | 'waiting' | 'scheduled' | 'refused' | 'deferred_by_us' | 'cancelled' | 'delivered' | 'partly';
  /** When something happened to it last. */
  at: string;
  /** What was answered last, or where the message is. */
  reason?: string;
  /** The same in plain words, by the enhanced status code (RFC 3463). */
  explanation?: string;
  /** Whether mail to it bounced for good, so that accounts of the domain cannot write to it any more. */
  suppressed?: boolean;
  /** Its deliveries that wait, are held or failed. */
  delivery_ids: number[];
}

/** A delivery of the message to one place outside. */
export interface MessageDelivery {
  /** For `ids` of `POST /v2/operator/queue/retry` and the like. */
  id: number;
  /** The id that the receiver gets. */
  webhook_id: string;
  kind: string;
  destination: string;
  domain: string;
  status: 'queued' | 'held' | 'failed' | 'delivered';
  held_by?: string;
  attempts: number;
  next_attempt_at?: string;
  /** About when it is given up, if all attempts fail. */
  last_attempt_at?: string;
  last_error?: DeliveryError;
  /** What can be done with it now. */
  actions: ('retry' | 'hold' | 'release' | 'drop')[];
}

/** One thing that happened to a message. */
export interface TraceItem {
  /** The id in the answer to the client that brought the message; the same in its Received field and the log. */
  id: string;
  at: string;
  event: 'received' | 'submitted' | 'refused' | 'deferred' | 'stored' | 'queued' | 'webhook_attempt' | 'forward_attempt' | 'send_attempt' | 'bounce_attempt' | 'mailbox_attempt' | 'copy_attempt' | 'bounced' | 'cancelled' | 'retried' | 'held' | 'released' | 'dropped' | 'reported';
  /** Empty for a bounce. */
  sender?: string;
  recipient?: string;
  message_id?: string;
  delivery_id?: number;
  /** The id that the receiver gets. */
  webhook_id?: string;
  /** The SMTP reply; for an attempt: delivered, deferred, failed, expired (the last attempt) or held. */
  status?: string;
  /** A text for people. */
  detail?: string;
  /** The host that did it. */
  node: string;
  /** Address of the client that brought it. */
  client?: string;
}

/** A message with all that happened to it. */
export interface OperatedMessageDetails {
  /** As in the answer to the client that brought it, its Received field and the log. */
  id: string;
  at: string;
  /** out: an account sent it. */
  direction: 'in' | 'out';
  /** waiting: not tried yet; scheduled: not before its time; deferred: is tried again; held: until an operator releases it; bounced: the sender was told; failed: nobody was told; refused, deferred_by_us: we answered 5xx, 4xx; dropped: by an operator; cancelled: by the account; partly: the recipients differ, see `counts`. */
  status: 'failed' | 'bounced' | 'dropped' | 'held' | 'deferred' | 'waiting' | 'scheduled' | 'refused' | 'deferred_by_us' | 'cancelled' | 'delivered' | 'partly';
  /** How many recipients are in each state. */
  counts: {
    failed?: number;
    bounced?: number;
    dropped?: number;
    held?: number;
    deferred?: number;
    waiting?: number;
    scheduled?: number;
    refused?: number;
    deferred_by_us?: number;
    cancelled?: number;
    delivered?: number;
  };
  /** Empty for a bounce. */
  sender?: string;
  /** The domain whose mail it is. */
  domain?: string;
  message_id?: string;
  /** Only with TRACE_SUBJECTS. */
  subject?: string;
  /** Bytes of its source. Absent where it was refused before it came, and for mail from before 0.4.0. */
  size?: number;
  /** Address of the client that brought it. */
  client?: string;
  /** The host that took it. */
  node?: string;
  next_attempt_at?: string;
  /** What was answered last about a recipient who does not have it. */
  reason?: string;
  recipients: MessageRecipient[];
  deliveries: MessageDelivery[];
  /** All that happened to it, the oldest first. */
  events: TraceItem[];
}

export interface ListTraceAnswer {
  items: TraceItem[];
  /** The limit that was used. */
  limit: number;
  /** For the next page; absent on the last one. */
  cursor?: string;
}

export interface ReadTraceAnswer {
  items: TraceItem[];
}

/** Deliveries of a domain to one receiver. */
export interface QueueGroup {
  destination: string;
  domain: string;
  /** `send`: mail that an account sent. `mailbox`: mail that your mail server has not accepted yet. `copy`: a change that sent mail makes in a mailbox there. `event`: an event for the event hook of a user; it has no domain. */
  kind: 'webhook' | 'forward' | 'bounce' | 'send' | 'mailbox' | 'copy' | 'event';
  /** 10,000 stands for as many or more. */
  counts: {
    /** Deliveries that wait for their next attempt. */
    queued: number;
    /** Deliveries that are held. */
    held: number;
    /** Deliveries that failed in the last 30 days. */
    failed: number;
    /** Replaced by `queued`; goes away after 0.4. */
    pending: number;
  };
  oldest_due_at?: string;
  /** How long the next delivery has been due. */
  overdue_seconds?: number;
  last_error?: DeliveryError;
}

export interface ListQueueAnswer {
  items: QueueGroup[];
  /** The limit that was used. */
  limit: number;
  /** For the next page; absent on the last one. */
  cursor?: string;
}

/** A delivery that waits, is held or failed. */
export interface OpenDelivery {
  id: number;
  webhook_id: string;
  /** Id of the message, as in the trace. */
  mail_id?: string;
  destination: string;
  /** Where a webhook is posted, in full. Deliveries from before 0.4.0 do not have it. */
  url?: string;
  domain: string;
  /** `send`: mail that an account sent. `mailbox`: mail that your mail server has not accepted yet. `copy`: a change that sent mail makes in a mailbox there. `event`: an event for the event hook of a user; it has no domain. */
  kind: 'webhook' | 'forward' | 'bounce' | 'send' | 'mailbox' | 'copy' | 'event';
  /** `queued` waits for its next attempt; `held` waits until it is released or tried again; `failed` has ended. */
  status: 'queued' | 'held' | 'failed';
  /** operator, or suspension of its domain; absent if it cannot be attempted */
  held_by?: 'operator' | 'suspension';
  attempts: number;
  created_at: string;
  next_attempt_at?: string;
  /** From whom the message is; empty for a bounce. */
  sender?: string;
  recipient?: string;
  subject?: string;
  message_id?: string;
  last_error?: DeliveryError;
  /** Replaced by `status`; goes away after 0.4. */
  state: 'pending' | 'held' | 'failed';
  /** Replaced by `next_attempt_at`; goes away after 0.4. */
  due_at?: string;
}

export interface ListQueueDeliveriesAnswer {
  items: OpenDelivery[];
  /** The limit that was used. */
  limit: number;
  /** For the next page; absent on the last one. */
  cursor?: string;
}

/** What waits for one receiver, or failed at it. */
export interface QueueReceiver {
  destination: string;
  kinds: string[];
  counts: {
    /** Wait for their next attempt. */
    queued: number;
    /** Are held. */
    held: number;
    /** Failed; 0 unless `status` asks for them. */
    failed: number;
  };
  oldest_at?: string;
  next_attempt_at?: string;
  /** How long the next one has been due. */
  overdue_seconds?: number;
  failed_at?: string;
  /** Of the last failed attempt, without the addresses, ids and waiting times in it, so that many deliveries have the same. */
  reason?: string;
  /** How many have this reason, which is the most frequent. */
  reason_count?: number;
  /** Those with most of it first, at most 20. */
  domains: string[];
  /** How many there are. */
  domain_count: number;
  /** Of a delivery to it in the last 30 days. */
  last_success_at?: string;
}

export interface ListQueueReceiversAnswer {
  items: QueueReceiver[];
  /** The limit that was used. */
  limit: number;
  /** For the next page; absent on the last one. */
  cursor?: string;
  /** Receivers in all; absent on a page behind the last one. */
  total?: number;
}

/** The 20 most frequent of each part. */
export interface QueueSummary {
  counts: {
    /** Wait for their next attempt. */
    queued: number;
    /** Are held. */
    held: number;
    /** Failed; 0 unless `status` asks for them. */
    failed: number;
  };
  oldest_at?: string;
  next_attempt_at?: string;
  /** Were not tried yet. */
  untried: number;
  reasons: {
    /** Of the last failed attempt, without the addresses, ids and waiting times in it, so that many deliveries have the same. */
    reason: string;
    counts: {
      /** Wait for their next attempt. */
      queued: number;
      /** Are held. */
      held: number;
      /** Failed; 0 unless `status` asks for them. */
      failed: number;
    };
    oldest_at?: string;
    next_attempt_at?: string;
  }[];
  domains: {
    domain: string;
    counts: {
      /** Wait for their next attempt. */
      queued: number;
      /** Are held. */
      held: number;
      /** Failed; 0 unless `status` asks for them. */
      failed: number;
    };
    oldest_at?: string;
    next_attempt_at?: string;
  }[];
  senders: {
    /** Empty for bounces; absent for deliveries from before 0.4.0. */
    sender?: string;
    counts: {
      /** Wait for their next attempt. */
      queued: number;
      /** Are held. */
      held: number;
      /** Failed; 0 unless `status` asks for them. */
      failed: number;
    };
    oldest_at?: string;
    next_attempt_at?: string;
  }[];
}

export interface RetryQueueBody {
  /** Origin of a webhook, domain of mail, or address of a mailbox. */
  destination?: string;
  domain?: string;
  /** As in the list of deliveries of a domain. */
  kind?: 'webhook' | 'forward' | 'bounce' | 'send' | 'mailbox' | 'copy' | 'event';
  /** `waiting` is `queued` and `held` together. */
  status?: 'waiting' | 'queued' | 'held' | 'failed';
  /** Replaced by `status`; goes away after 0.4. */
  state?: 'pending' | 'held' | 'failed';
  /** A part of the receiver's name. */
  q?: string;
  /** From whom the message is: its reverse-path, empty for bounces. Deliveries from before 0.4.0 do not have it. */
  sender?: string;
  /** A part of the reason of the last failed attempt, as the lists name it. */
  reason?: string;
  /** Only those that were queued at least so many seconds ago. */
  older_than?: number;
  /** Only those whose next attempt is due within so many seconds. */
  due_within?: number;
  /** Address of an account: what it sends, and what waits for its mailbox on a mail server. Deliveries from before 0.4.0 do not have it. */
  account?: string;
  ids?: number[];
  /** The most that are changed: with 1, one is tried. */
  limit?: number;
  /** `next` of the answer before, unchanged, with the same filters. */
  next?: string;
  /** Only count the deliveries that match, by status, domain and reason. */
  dry_run?: boolean;
}

export interface RetryQueueAnswer {
  /** How many match. */
  matched: number;
  /** 0 in a dry run. */
  changed: number;
  /** There may be more: call again with `next`. */
  more?: boolean;
  /** Where the next call continues. The numbers of each call are its own. */
  next?: string;
  /** How many fit the filters and stay as they are, by the reason. */
  skipped?: {
    /** An attempt is under way. */
    under_way?: number;
    /** They changed after the order was given. */
    changed_since?: number;
    /** They are due and tried anyway, or wait for the time that their sender set. */
    due?: number;
    /** Their message is not kept any more (`DELIVERY_BODY_HOURS`). */
    not_kept?: number;
    /** The suspension of their domain holds them, which only its end releases. */
    held_otherwise?: number;
  };
  /** What matches, in a dry run: the 20 most frequent of each. */
  parts?: {
    statuses: {
      status: string;
      count: number;
    }[];
    domains: {
      domain: string;
      count: number;
    }[];
    reasons: {
      /** Absent: they were not tried yet. */
      reason?: string;
      count: number;
    }[];
  };
}

export interface HoldQueueBody {
  /** Origin of a webhook, domain of mail, or address of a mailbox. */
  destination?: string;
  domain?: string;
  /** As in the list of deliveries of a domain. */
  kind?: 'webhook' | 'forward' | 'bounce' | 'send' | 'mailbox' | 'copy' | 'event';
  /** `waiting` is `queued` and `held` together. */
  status?: 'waiting' | 'queued' | 'held' | 'failed';
  /** Replaced by `status`; goes away after 0.4. */
  state?: 'pending' | 'held' | 'failed';
  /** A part of the receiver's name. */
  q?: string;
  /** From whom the message is: its reverse-path, empty for bounces. Deliveries from before 0.4.0 do not have it. */
  sender?: string;
  /** A part of the reason of the last failed attempt, as the lists name it. */
  reason?: string;
  /** Only those that were queued at least so many seconds ago. */
  older_than?: number;
  /** Only those whose next attempt is due within so many seconds. */
  due_within?: number;
  /** Address of an account: what it sends, and what waits for its mailbox on a mail server. Deliveries from before 0.4.0 do not have it. */
  account?: string;
  ids?: number[];
  /** The most that are changed: with 1, one is tried. */
  limit?: number;
  /** `next` of the answer before, unchanged, with the same filters. */
  next?: string;
  /** Only count the deliveries that match, by status, domain and reason. */
  dry_run?: boolean;
}

export interface HoldQueueAnswer {
  /** How many match. */
  matched: number;
  /** 0 in a dry run. */
  changed: number;
  /** There may be more: call again with `next`. */
  more?: boolean;
  /** Where the next call continues. The numbers of each call are its own. */
  next?: string;
  /** How many fit the filters and stay as they are, by the reason. */
  skipped?: {
    /** An attempt is under way. */
    under_way?: number;
    /** They changed after the order was given. */
    changed_since?: number;
    /** They are due and tried anyway, or wait for the time that their sender set. */
    due?: number;
    /** Their message is not kept any more (`DELIVERY_BODY_HOURS`). */
    not_kept?: number;
    /** The suspension of their domain holds them, which only its end releases. */
    held_otherwise?: number;
  };
  /** What matches, in a dry run: the 20 most frequent of each. */
  parts?: {
    statuses: {
      status: string;
      count: number;
    }[];
    domains: {
      domain: string;
      count: number;
    }[];
    reasons: {
      /** Absent: they were not tried yet. */
      reason?: string;
      count: number;
    }[];
  };
}

export interface ReleaseQueueBody {
  /** Origin of a webhook, domain of mail, or address of a mailbox. */
  destination?: string;
  domain?: string;
  /** As in the list of deliveries of a domain. */
  kind?: 'webhook' | 'forward' | 'bounce' | 'send' | 'mailbox' | 'copy' | 'event';
  /** `waiting` is `queued` and `held` together. */
  status?: 'waiting' | 'queued' | 'held' | 'failed';
  /** Replaced by `status`; goes away after 0.4. */
  state?: 'pending' | 'held' | 'failed';
  /** A part of the receiver's name. */
  q?: string;
  /** From whom the message is: its reverse-path, empty for bounces. Deliveries from before 0.4.0 do not have it. */
  sender?: string;
  /** A part of the reason of the last failed attempt, as the lists name it. */
  reason?: string;
  /** Only those that were queued at least so many seconds ago. */
  older_than?: number;
  /** Only those whose next attempt is due within so many seconds. */
  due_within?: number;
  /** Address of an account: what it sends, and what waits for its mailbox on a mail server. Deliveries from before 0.4.0 do not have it. */
  account?: string;
  ids?: number[];
  /** The most that are changed: with 1, one is tried. */
  limit?: number;
  /** `next` of the answer before, unchanged, with the same filters. */
  next?: string;
  /** Only count the deliveries that match, by status, domain and reason. */
  dry_run?: boolean;
}

export interface ReleaseQueueAnswer {
  /** How many match. */
  matched: number;
  /** 0 in a dry run. */
  changed: number;
  /** There may be more: call again with `next`. */
  more?: boolean;
  /** Where the next call continues. The numbers of each call are its own. */
  next?: string;
  /** How many fit the filters and stay as they are, by the reason. */
  skipped?: {
    /** An attempt is under way. */
    under_way?: number;
    /** They changed after the order was given. */
    changed_since?: number;
    /** They are due and tried anyway, or wait for the time that their sender set. */
    due?: number;
    /** Their message is not kept any more (`DELIVERY_BODY_HOURS`). */
    not_kept?: number;
    /** The suspension of their domain holds them, which only its end releases. */
    held_otherwise?: number;
  };
  /** What matches, in a dry run: the 20 most frequent of each. */
  parts?: {
    statuses: {
      status: string;
      count: number;
    }[];
    domains: {
      domain: string;
      count: number;
    }[];
    reasons: {
      /** Absent: they were not tried yet. */
      reason?: string;
      count: number;
    }[];
  };
}

export interface DropQueueBody {
  /** Origin of a webhook, domain of mail, or address of a mailbox. */
  destination?: string;
  domain?: string;
  /** As in the list of deliveries of a domain. */
  kind?: 'webhook' | 'forward' | 'bounce' | 'send' | 'mailbox' | 'copy' | 'event';
  /** `waiting` is `queued` and `held` together. */
  status?: 'waiting' | 'queued' | 'held' | 'failed';
  /** Replaced by `status`; goes away after 0.4. */
  state?: 'pending' | 'held' | 'failed';
  /** A part of the receiver's name. */
  q?: string;
  /** From whom the message is: its reverse-path, empty for bounces. Deliveries from before 0.4.0 do not have it. */
  sender?: string;
  /** A part of the reason of the last failed attempt, as the lists name it. */
  reason?: string;
  /** Only those that were queued at least so many seconds ago. */
  older_than?: number;
  /** Only those whose next attempt is due within so many seconds. */
  due_within?: number;
  /** Address of an account: what it sends, and what waits for its mailbox on a mail server. Deliveries from before 0.4.0 do not have it. */
  account?: string;
  ids?: number[];
  /** The most that are changed: with 1, one is tried. */
  limit?: number;
  /** `next` of the answer before, unchanged, with the same filters. */
  next?: string;
  /** Only count the deliveries that match, by status, domain and reason. */
  dry_run?: boolean;
}

export interface DropQueueAnswer {
  /** How many match. */
  matched: number;
  /** 0 in a dry run. */
  changed: number;
  /** There may be more: call again with `next`. */
  more?: boolean;
  /** Where the next call continues. The numbers of each call are its own. */
  next?: string;
  /** How many fit the filters and stay as they are, by the reason. */
  skipped?: {
    /** An attempt is under way. */
    under_way?: number;
    /** They changed after the order was given. */
    changed_since?: number;
    /** They are due and tried anyway, or wait for the time that their sender set. */
    due?: number;
    /** Their message is not kept any more (`DELIVERY_BODY_HOURS`). */
    not_kept?: number;
    /** The suspension of their domain holds them, which only its end releases. */
    held_otherwise?: number;
  };
  /** What matches, in a dry run: the 20 most frequent of each. */
  parts?: {
    statuses: {
      status: string;
      count: number;
    }[];
    domains: {
      domain: string;
      count: number;
    }[];
    reasons: {
      /** Absent: they were not tried yet. */
      reason?: string;
      count: number;
    }[];
  };
}

/** A sender whose mail is refused. */
export interface Block {
  /** Given by the server. */
  id: number;
  /** `address`: a sender, in any case. `domain`: all senders of the domain and of its subdomains. `network`: all mail of these clients, bounces too. */
  kind: 'address' | 'domain' | 'network';
  /** In lower case, IDNA-encoded; a network as `192.0.2.0/24`. */
  value: string;
  /** Your note, such as the reason. */
  note?: string;
  created_at: string;
}

export interface ListBlocksAnswer {
  items: Block[];
  /** The limit that was used. */
  limit: number;
  /** For the next page; absent on the last one. */
  cursor?: string;
}

export interface AddBlockBody {
  /** `address`: a sender, in any case. `domain`: all senders of the domain and of its subdomains. `network`: all mail of these clients, bounces too. */
  kind: 'address' | 'domain' | 'network';
  /** The address, the domain, or the network (an IP address alone is one). */
  value: string;
  /** Your note, such as the reason. */
  note?: string;
}

export interface DeleteBlockBody {
  /** Given by the server. */
  id: number;
}

/** An API key that an operator made, without its secret. */
export interface ApiKey {
  /** Given by the server. */
  id: number;
  /** For people; the audit log has it. Several keys may have the same. */
  name: string;
  /** `operator`: all of /v2. `product`: all of it but /v2/operator. */
  scope: 'operator' | 'product';
  /** Of a product key: the only user whose things it sees and changes. */
  user_id?: string;
  /** Of a product key: it sees and changes only domains that were claimed with this `organization_id`, and their accounts. */
  organization_id?: string;
  /** Whether it only reads: then every method but GET is refused. */
  read_only: boolean;
  /** Only an `active` key opens anything. */
  status: 'active' | 'expired' | 'revoked';
  created_at: string;
  /** Who made it, as in the audit log. */
  created_by: string;
  /** From then on it opens nothing. */
  expires_at?: string;
  /** Since then it opens nothing. */
  revoked_at?: string;
  /** Accurate to a minute; absent where it was never used. */
  last_used_at?: string;
}

export interface ListKeysAnswer {
  items: ApiKey[];
  /** The limit that was used. */
  limit: number;
  /** For the next page; absent on the last one. */
  cursor?: string;
}

export interface CreateKeyBody {
  /** For people; the audit log has it. Several keys may have the same. */
  name: string;
  /** `operator`: all of /v2. `product`: all of it but /v2/operator. */
  scope: 'operator' | 'product';
  /** Of a product key: the only user whose things it sees and changes. */
  user_id?: string;
  /** Of a product key: it sees and changes only domains that were claimed with this `organization_id`, and their accounts. */
  organization_id?: string;
  /** Whether it only reads: then every method but GET is refused. */
  read_only?: boolean;
  /** From then on it opens nothing; a date means its midnight in UTC. Without it, the key has no end. */
  expires_at?: string;
}

export interface CreateKeyAnswer {
  key: ApiKey;
  /** For the header `x-api-key`. Shown only here. */
  api_key: string;
}

export interface RevokeKeyBody {
  /** Given by the server. */
  id: number;
}

/** A session of a mail program. */
export interface ImapSession {
  id: string;
  /** Given by the server. */
  account_id: number;
  /** Of the account. */
  address: string;
  /** IP address of the client. */
  client: string;
  /** Whether it is by TLS. */
  secure: boolean;
  /** What the client says that it is; absent where it says nothing. */
  program?: string;
  /** The app password that opened it. */
  app_password_id?: number;
  /** The mailbox that is selected. */
  mailbox?: string;
  /** The login. */
  since: string;
  /** It may still run; `other` where it does not exist. */
  last_command: string;
  /** When that began. */
  last_command_at: string;
  /** What the client sent. */
  bytes_in: number;
  /** What it got. */
  bytes_out: number;
  /** Host of its node. */
  node: string;
}

export interface ListImapSessionsAnswer {
  items: ImapSession[];
  /** Whether all nodes have answered. */
  complete: boolean;
  /** The limit that was used. */
  limit: number;
  /** For the next page; absent on the last one. */
  cursor?: string;
}

export interface LoginBody {
  address: string;
  password: string;
  /** Sets a cookie. It expires when it was not used for 30 days. */
  remember?: boolean;
}

export interface ForgetLoginAnswer {
  ok: true;
}

export interface SyncMailboxBody {
  /** Mailbox name; INBOX when left out. */
  mailbox?: string;
  /** As the last sync returned it. */
  uidvalidity?: string;
  /** As the last sync returned it. */
  token?: string;
  /** The most changes in one answer. */
  limit?: number;
  /** What each added message carries besides its uid. */
  fields?: ('envelope' | 'flags' | 'size' | 'internalDate' | 'bodyStructure' | 'preview' | 'threadId' | 'emailId' | 'hasAttachment')[];
  /** Whether the pages of a first sync begin with the oldest or the newest messages; the oldest when left out. */
  order?: 'oldest' | 'newest';
}

export interface Address {
  name?: string;
  address?: string;
}

/** The header fields that a list of messages shows. */
export interface Envelope {
  /** RFC 3339 */
  date?: string;
  subject: string;
  /** Names and addresses. */
  from?: Address[];
  /** Names and addresses. */
  sender?: Address[];
  /** Names and addresses. */
  replyTo?: Address[];
  /** Names and addresses. */
  to?: Address[];
  /** Names and addresses. */
  cc?: Address[];
  /** Names and addresses. */
  bcc?: Address[];
  inReplyTo?: string;
  messageId?: string;
}

/** A part of a message, with the parts in it (RFC 3501 section 7.4.2). */
export interface BodyStructure {
  /** IMAP part number (RFC 3501 section 6.4.5) */
  part?: string;
  /** Media type, in lower case. */
  type: string;
  parameters?: Record<string, string>;
  /** Content-Transfer-Encoding. */
  encoding?: string;
  /** Bytes, as encoded. */
  size?: number;
  id?: string;
  disposition?: string;
  dispositionParameters?: Record<string, string>;
  childNodes?: BodyStructure[];
}

/** A new message, with the fields that were asked for. */
export interface AddedMessage {
  /** UID of the message in its mailbox. */
  uid: number;
  envelope?: Envelope;
  flags?: string[];
  /** Bytes of the source. */
  size?: number;
  /** When the message arrived, RFC 3339. */
  internalDate?: string;
  bodyStructure?: BodyStructure;
  /** Of the last change; with `flags`. */
  modseq?: string;
  /** The first words, on one line. */
  preview?: string;
  /** The same for all messages of a conversation, in every mailbox of the account. */
  threadId?: string;
  /** Names these bytes, also after the message is moved (RFC 8474); absent if a mail server has none. */
  emailId?: string;
  /** Whether anything is attached; pictures that the HTML shows (multipart/related, with a Content-ID) do not count. */
  hasAttachment?: boolean;
}

export interface UpdatedMessage {
  /** UID of the message in its mailbox. */
  uid: number;
  modseq: string;
  flags: string[];
}

export interface RemovedMessage {
  /** UID of the message in its mailbox. */
  uid: number;
}

/** What changed in a mailbox. */
export interface Sync {
  /** The mailbox that was synced. */
  mailbox: string;
  /** Pass it with the next sync, together with the token. */
  uidvalidity: string;
  /** Pass it with the next sync. */
  token: string;
  changes: {
    added: AddedMessage[];
    updated: UpdatedMessage[];
    removed: RemovedMessage[];
  };
  /** The client first drops its copy of this mailbox. */
  reset?: boolean;
  /** Call again with this token for the rest. */
  hasMore?: boolean;
}

/** A message with its source. */
export interface Message {
  uid: number;
  envelope: Envelope;
  flags: string[];
  /** The source; see rfc822Encoding. */
  rfc822: string;
  /** How characters of rfc822 become the bytes of the source again. */
  rfc822Encoding: 'utf-8' | 'latin1';
  bodyStructure: BodyStructure;
  /** Bytes of the source. */
  size: number;
  /** When the message arrived, RFC 3339. */
  internalDate: string;
}

export interface Mailbox {
  /** Name of the mailbox. */
  mailbox: string;
  uidvalidity: string;
  /** What a sync returns now. */
  token: string;
  /** Stays the same when the mailbox is renamed. */
  mailboxId?: string;
  /** RFC 6154 attribute. */
  specialUse?: string;
  /** Messages in it. */
  messages: number;
  /** How many of them lack `\Seen`. */
  unseen: number;
}

export interface ListMailboxesAnswer {
  mailboxes: Mailbox[];
}

export interface CreateMailboxBody {
  /** Name of the new mailbox. */
  mailbox: string;
}

/** The state of a mailbox. */
export interface MailboxState {
  /** Name of the mailbox. */
  mailbox: string;
  uidvalidity: string;
  /** What a sync returns now. */
  token: string;
}

export interface RenameMailboxBody {
  /** Its name now. */
  mailbox: string;
  /** Its new name. */
  to: string;
}

export interface DeleteMailboxBody {
  /** Name of the mailbox. */
  mailbox: string;
}

export interface DeleteMailboxAnswer {
  ok: true;
  deleted: string;
}

export interface ChangeFlagsBody {
  /** The mailbox that has the messages. */
  mailbox: string;
  /** The messages. One that does not exist is not an error, and is not in the answer. */
  uids: number[];
  /** As the last sync returned it; the call is refused if it has changed. */
  uidvalidity?: string;
  /** The state of the last sync. The answer then also has what a sync from there returns. */
  since?: {
    /** As the last sync returned it; the call is refused if it has changed. */
    uidvalidity?: string;
    token?: string;
  };
  /** What each added message carries besides its uid. */
  fields?: ('envelope' | 'flags' | 'size' | 'internalDate' | 'bodyStructure' | 'preview' | 'threadId' | 'emailId' | 'hasAttachment')[];
  /** Flags to add. */
  add?: string[];
  /** Flags to remove. */
  remove?: string[];
}

export interface ChangeFlagsAnswer {
  /** Name of the mailbox. */
  mailbox: string;
  uidvalidity: string;
  /** What a sync returns now. */
  token: string;
  updated: UpdatedMessage[];
  sync?: Sync;
}

export interface MoveMessagesBody {
  /** The mailbox that has the messages. */
  mailbox: string;
  /** The messages. One that does not exist is not an error, and is not in the answer. */
  uids: number[];
  /** As the last sync returned it; the call is refused if it has changed. */
  uidvalidity?: string;
  /** The state of the last sync. The answer then also has what a sync from there returns. */
  since?: {
    /** As the last sync returned it; the call is refused if it has changed. */
    uidvalidity?: string;
    token?: string;
  };
  /** What each added message carries besides its uid. */
  fields?: ('envelope' | 'flags' | 'size' | 'internalDate' | 'bodyStructure' | 'preview' | 'threadId' | 'emailId' | 'hasAttachment')[];
  /** The mailbox that gets them. */
  to: string;
}

export interface RelocatedMessage {
  /** UID of the message in its mailbox. */
  uid: number;
  /** UID of the message in its mailbox. */
  toUid: number;
}

export interface MoveMessagesAnswer {
  mailbox: string;
  to: string;
  /** Of `to`. */
  uidvalidity: string;
  moved: RelocatedMessage[];
  sync?: Sync;
}

export interface CopyMessagesBody {
  /** The mailbox that has the messages. */
  mailbox: string;
  /** The messages. One that does not exist is not an error, and is not in the answer. */
  uids: number[];
  /** As the last sync returned it; the call is refused if it has changed. */
  uidvalidity?: string;
  /** The state of the last sync. The answer then also has what a sync from there returns. */
  since?: {
    /** As the last sync returned it; the call is refused if it has changed. */
    uidvalidity?: string;
    token?: string;
  };
  /** What each added message carries besides its uid. */
  fields?: ('envelope' | 'flags' | 'size' | 'internalDate' | 'bodyStructure' | 'preview' | 'threadId' | 'emailId' | 'hasAttachment')[];
  /** The mailbox that gets them. */
  to: string;
}

export interface CopyMessagesAnswer {
  mailbox: string;
  to: string;
  /** Of `to`. */
  uidvalidity: string;
  copied: RelocatedMessage[];
  sync?: Sync;
}

export interface DeleteMessagesBody {
  /** The mailbox that has the messages. */
  mailbox: string;
  /** The messages. One that does not exist is not an error, and is not in the answer. */
  uids: number[];
  /** As the last sync returned it; the call is refused if it has changed. */
  uidvalidity?: string;
  /** The state of the last sync. The answer then also has what a sync from there returns. */
  since?: {
    /** As the last sync returned it; the call is refused if it has changed. */
    uidvalidity?: string;
    token?: string;
  };
  /** What each added message carries besides its uid. */
  fields?: ('envelope' | 'flags' | 'size' | 'internalDate' | 'bodyStructure' | 'preview' | 'threadId' | 'emailId' | 'hasAttachment')[];
}

export interface DeleteMessagesAnswer {
  /** Name of the mailbox. */
  mailbox: string;
  uidvalidity: string;
  /** What a sync returns now. */
  token: string;
  removed: RemovedMessage[];
  sync?: Sync;
}

/** Where a message was stored. */
export interface StoredMessage {
  /** Name of the mailbox. */
  mailbox: string;
  uidvalidity: string;
  /** UID of the message in its mailbox. */
  uid: number;
}

export interface Attachment {
  /** For /mail/attachment. */
  part: string;
  filename?: string;
  contentType: string;
  /** Bytes, transfer encoding removed. */
  size: number;
  /** The id that the HTML names as `cid:`. */
  contentId?: string;
  /** Meant to be shown within the message. */
  inline: boolean;
}

/** The results of the sender checks when the message arrived; absent if it was not checked here. */
export interface SenderResults {
  /** As in RFC 8601. */
  spf: string;
  /** As in RFC 8601. */
  dkim: string;
  /** As in RFC 8601. */
  dmarc: string;
}

export interface Content {
  /** UID of the message in its mailbox. */
  uid: number;
  flags: string[];
  envelope: Envelope;
  /** When the message arrived, RFC 3339. */
  internalDate: string;
  /** Bytes of the source. */
  size: number;
  /** The first words, on one line. */
  preview: string;
  /** The same for all messages of a conversation, in every mailbox of the account. */
  threadId: string;
  /** The text/plain parts; absent where there are none. */
  text?: string;
  /** There is more text in the source. */
  textTruncated?: boolean;
  /** The text/html parts as they were sent: make them safe to show. */
  html?: string;
  /** There is more HTML in the source. */
  htmlTruncated?: boolean;
  attachments: Attachment[];
  auth?: SenderResults;
}

export interface ReadMessagesBody {
  /** The mailbox that has the messages. */
  mailbox: string;
  uids: number[];
  /** What each message carries besides its uid; all when left out. */
  fields?: ('flags' | 'envelope' | 'internalDate' | 'size' | 'preview' | 'threadId' | 'text' | 'html' | 'attachments' | 'auth')[];
}

export interface PartialContent {
  /** UID of the message in its mailbox. */
  uid?: number;
  flags?: string[];
  envelope?: Envelope;
  /** When the message arrived, RFC 3339. */
  internalDate?: string;
  /** Bytes of the source. */
  size?: number;
  /** The first words, on one line. */
  preview?: string;
  /** The same for all messages of a conversation, in every mailbox of the account. */
  threadId?: string;
  /** The text/plain parts; absent where there are none. */
  text?: string;
  /** There is more text in the source. */
  textTruncated?: boolean;
  /** The text/html parts as they were sent: make them safe to show. */
  html?: string;
  /** There is more HTML in the source. */
  htmlTruncated?: boolean;
  attachments?: Attachment[];
  auth?: SenderResults;
}

export interface ReadMessagesAnswer {
  messages: PartialContent[];
  /** The answer was cut: ask again for the UIDs that are left. */
  hasMore?: boolean;
}

export interface SearchMessagesBody {
  /** Where to search; all mailboxes when left out. */
  mailbox?: string;
  /** Words anywhere: subject, names, addresses, text, file names. `inv*` is a prefix. */
  text?: string;
  /** Words of the names and addresses in From. */
  from?: string;
  /** Words of the names and addresses in To, Cc and Bcc. */
  to?: string;
  /** Words of the subject. */
  subject?: string;
  /** Words of the text and of the names of attachments. */
  body?: string;
  /** Arrived at this date or time (RFC 3339) or later. */
  since?: string;
  /** Arrived before this date or time. */
  before?: string;
  /** More bytes than this. */
  larger?: number;
  /** Fewer bytes than this. */
  smaller?: number;
  /** All of these flags. */
  flags?: string[];
  /** None of these flags. */
  notFlags?: string[];
  /** With attachments, or without. */
  hasAttachment?: boolean;
  /** The most matches in one answer; 50 when left out. */
  limit?: number;
  /** Of the answer before. */
  cursor?: string;
}

export interface SearchMatch {
  mailbox: string;
  /** UID of the message in its mailbox. */
  uid: number;
  envelope: Envelope;
  flags: string[];
  /** When the message arrived, RFC 3339. */
  internalDate: string;
  /** The first words, on one line. */
  preview: string;
  /** The same for all messages of a conversation, in every mailbox of the account. */
  threadId: string;
}

export interface SearchMessagesAnswer {
  /** Newest first. */
  matches: SearchMatch[];
  /** Leads to the next page; absent on the last one. */
  cursor?: string;
  /** Some of the newest mail is not in the index yet. */
  indexing?: boolean;
}

export interface Correspondent {
  name?: string;
  address: string;
}

export interface SaveDraftBody {
  /** The account, with a name or a +tag of its choice; the account when left out. */
  from?: {
    name?: string;
    address: string;
  };
  /** Recipients. */
  to?: Correspondent[];
  /** Recipients of copies. */
  cc?: Correspondent[];
  /** Recipients whom nobody else sees; the copy in Sent names them. */
  bcc?: Correspondent[];
  /** The addresses for answers. */
  replyTo?: Correspondent[];
  subject?: string;
  text?: string;
  html?: string;
  attachments?: {
    filename?: string;
    /** Media type; application/octet-stream when left out. */
    contentType?: string;
    /** The bytes, as base64. */
    content?: string;
    /** In place of `content`, with `uid` and `part`: a part of another message of the account. */
    mailbox?: string;
    /** UID of the message in its mailbox. */
    uid?: number;
    /** As the last sync returned it; the call is refused if it has changed. */
    uidvalidity?: string;
    /** IMAP part number. */
    part?: string;
    /** The id that the HTML names as `cid:`. */
    contentId?: string;
    /** Meant to be shown within the message. */
    inline?: boolean;
  }[];
  /** Further header fields by name, such as List-Unsubscribe. */
  headers?: Record<string, string>;
  /** The message that is answered. Postroom writes In-Reply-To and References from it. */
  inReplyTo?: {
    /** Its mailbox. */
    mailbox: string;
    /** UID of the message in its mailbox. */
    uid: number;
    /** As the last sync returned it; the call is refused if it has changed. */
    uidvalidity?: string;
  };
  /** The draft that this one takes the place of: it is removed. It has the flag `\Draft`, or is in the mailbox of drafts. */
  draft?: {
    /** Its mailbox. */
    mailbox: string;
    /** UID of the message in its mailbox. */
    uid: number;
    /** As the last sync returned it; the call is refused if it has changed. */
    uidvalidity?: string;
  };
}

/** Where a draft was stored. */
export interface SavedDraft {
  /** Name of the mailbox. */
  mailbox: string;
  uidvalidity: string;
  /** UID of the message in its mailbox. */
  uid: number;
  /** Part numbers of its attachments, in the order of the request: the next save names them in place of their bytes. */
  parts: string[];
}

export interface CancelSendBody {
  /** The id of the sent message. */
  id: string;
}

export interface CancelSendAnswer {
  ok: boolean;
  /** Where the message is now: its old draft, or a new one if there was none. */
  draft: {
    mailbox: string;
    /** UID of the message in its mailbox. */
    uid: number;
    uidvalidity?: string;
  };
}

export interface ReadSendsBody {
  ids: string[];
  /** Also messages that a recipient still waits for, whichever app or mail program sent them: the newest, at most 100. */
  waiting?: boolean;
}

/** A message that an account sent. */
export interface Send {
  /** The id of the sent message. */
  id: string;
  messageId: string;
  /** `queued`: not tried yet; `deferred`: it failed and is tried again; `delivered`: the mail server of the recipient accepted it; `bounced`: it failed for good. */
  status: 'queued' | 'delivered' | 'deferred' | 'bounced' | 'cancelled';
  /** RFC 3339 */
  sendAt?: string;
  /** Where it is in Sent; left out where a mail program submitted it, or it was cancelled. */
  copy?: {
    mailbox: string;
    /** UID of the message in its mailbox. */
    uid: number;
    uidvalidity: string;
  };
  recipients: ({
    address: string;
    /** `queued`: not tried yet; `deferred`: it failed and is tried again; `delivered`: the mail server of the recipient accepted it; `bounced`: it failed for good. */
    status: 'queued' | 'delivered' | 'deferred' | 'bounced' | 'cancelled';
    /** The answer of the recipient's mail server. */
    detail?: string;
  })[];
}

export interface ReadSendsAnswer {
  sends: Send[];
}

export interface SendMessageBody {
  /** The account, with a name or a +tag of its choice; the account when left out. */
  from?: {
    name?: string;
    address: string;
  };
  /** Recipients. To, Cc and Bcc together have 1 to 100. */
  to?: Correspondent[];
  /** Recipients of copies. */
  cc?: Correspondent[];
  /** Recipients whom nobody else sees; the copy in Sent names them. */
  bcc?: Correspondent[];
  /** The addresses for answers. */
  replyTo?: Correspondent[];
  subject?: string;
  text?: string;
  html?: string;
  attachments?: {
    filename?: string;
    /** Media type; application/octet-stream when left out. */
    contentType?: string;
    /** The bytes, as base64. */
    content?: string;
    /** In place of `content`, with `uid` and `part`: a part of another message of the account. */
    mailbox?: string;
    /** UID of the message in its mailbox. */
    uid?: number;
    /** As the last sync returned it; the call is refused if it has changed. */
    uidvalidity?: string;
    /** IMAP part number. */
    part?: string;
    /** The id that the HTML names as `cid:`. */
    contentId?: string;
    /** Meant to be shown within the message. */
    inline?: boolean;
  }[];
  /** Further header fields by name, such as List-Unsubscribe. */
  headers?: Record<string, string>;
  /** The message that is answered. Postroom writes In-Reply-To and References from it, and sets its `\Answered`. */
  inReplyTo?: {
    /** Its mailbox. */
    mailbox: string;
    /** UID of the message in its mailbox. */
    uid: number;
    /** As the last sync returned it; the call is refused if it has changed. */
    uidvalidity?: string;
  };
  /** The draft that is sent: it is removed once the mail is sent. It has the flag `\Draft`, or is in the mailbox of drafts. */
  draft?: {
    /** Its mailbox. */
    mailbox: string;
    /** UID of the message in its mailbox. */
    uid: number;
    /** As the last sync returned it; the call is refused if it has changed. */
    uidvalidity?: string;
  };
  /** When the message goes out (RFC 3339), within a year; at once when left out. */
  sendAt?: string;
  /** The message goes out so many seconds later, and can be cancelled until then; in place of sendAt. */
  delaySeconds?: number;
}

export interface SendMessageAnswer {
  /** The id of the sent message. */
  id: string;
  messageId: string;
  /** Where the copy is. */
  mailbox: string;
  /** UID of the message in its mailbox. */
  uid: number;
  uidvalidity: string;
  status: string;
}

export interface RejectedEvent {
  /** Counted from 1. */
  line: number;
  /** Absent if the line has none. */
  event_id?: string;
  /** What is wrong with it. */
  reason: string;
}

export interface EventsOutcome {
  ok: boolean;
  /** Events that need not be sent again, repeats of known ones included. */
  accepted: number;
  /** The first 1000 of the other lines; left out when there is none. */
  rejected?: RejectedEvent[];
}

export interface MailboxTip {
  mailbox: string;
  uidvalidity: string;
  /** What a sync would return now. */
  token: string;
  /** Stays the same when the mailbox is renamed; absent on a mail server. */
  mailboxId?: string;
}

/** The first message, with the state of every mailbox. */
export interface HelloEvent {
  type: 'hello';
  /** The account's address. */
  user: string;
  connectionId: string;
  serverTime: string;
  /** Seconds between two pings. */
  heartbeatSeconds: number;
  mailboxes: MailboxTip[];
}

/** A mailbox changed. A hint: sync with the token of your own last sync. */
export interface MailboxChangedEvent {
  type: 'mailbox_changed';
  mailbox: string;
  uidvalidity: string;
  /** What a sync would return now. */
  token: string;
  eventType: string;
}

/** Mailboxes were made, renamed or deleted: list them again. */
export interface MailboxesChangedEvent {
  type: 'mailboxes_changed';
}

/** The connection is there: it comes with each ping, to clients that connected by the subprotocols, since browsers hide pings. */
export interface HeartbeatEvent {
  type: 'heartbeat';
}

export interface Health {
  status: string;
}

export interface Readiness {
  status: 'ready' | 'degraded';
  /** The parts that some work waits for. */
  detail?: string;
}

/** Sender and recipients in SMTP; only recipients of this domain. */
export interface SmtpEnvelope {
  from: string;
  to: string[];
}

export interface WebhookAddress {
  name: string;
  address: string;
}

export interface WebhookAttachment {
  filename: string | null;
  content_type: string;
  /** Bytes, transfer encoding removed. */
  size: number;
  /** Part number, as in IMAP. */
  part: string;
  /** Link to the bytes of this part, for 7 days. */
  url: string;
}

export interface SenderChecks {
  /** Result of SPF; null if it was not checked. */
  spf: string | null;
  /** Result of DKIM; null if it was not checked. */
  dkim: string | null;
  /** Result of DMARC; null if it was not checked. */
  dmarc: string | null;
}

export interface ReceivedMessage {
  domain: string;
  envelope: SmtpEnvelope;
  subject: string | null;
  /** The header From. */
  from: WebhookAddress[];
  /** The header To. */
  to: WebhookAddress[];
  /** The header Cc. */
  cc: WebhookAddress[];
  /** True if the addresses were cut to fit. */
  addresses_truncated?: boolean;
  /** The header Date. */
  date: string | null;
  message_id: string | null;
  /** The text/plain parts. */
  text: string | null;
  /** True if the text was cut to fit. */
  text_truncated?: boolean;
  /** The text/html parts, as they were sent. */
  html: string | null;
  /** True if the HTML was cut to fit. */
  html_truncated?: boolean;
  attachments: WebhookAttachment[];
  /** True if the list of attachments was cut to fit. */
  attachments_truncated?: boolean;
  auth: SenderChecks;
  /** Link to the source, for 7 days. */
  raw_url: string;
  /** The id in the answer to the client that brought the message; the same in the log, Received and trace. */
  mail_id: string;
  /** Where the message is also stored; null if only the webhook gets it. */
  mailbox: string | null;
}

/** A message came in for a domain. */
export interface MessageReceived {
  type: 'message.received';
  timestamp: string;
  data: ReceivedMessage;
}

/** What each operation takes, and what it answers. */
export interface Operations {
  /** Claim a domain */
  createDomain: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: CreateDomainBody;
    answer: CreateDomainAnswer;
  };
  /** List a user's domains */
  listDomains: {
    path: Record<never, never>;
    query: {
      /** The user of your product who owns everything in this call. */
      user_id: string;
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The number of items to skip; 0 when left out. */
      offset?: number;
      /** Only items that come after this id, the last one of the page before. Unlike with `offset`, items that are added or removed meanwhile do not shift the pages. */
      after?: number;
      /** Whether the oldest or the newest items come first; the oldest when left out. */
      order?: 'oldest' | 'newest';
    };
    body: undefined;
    answer: ListDomainsAnswer;
  };
  /** Read a domain */
  getDomain: {
    path: {
      /** Domain name; capitals and IDN are fine. */
      domain: string;
    };
    query: {
      /** The user of your product who owns everything in this call. */
      user_id: string;
    };
    body: undefined;
    answer: DomainDetails;
  };
  /** List a domain's DNS records */
  listDnsRecords: {
    path: {
      /** Domain name; capitals and IDN are fine. */
      domain: string;
    };
    query: {
      /** The user of your product who owns everything in this call. */
      user_id: string;
      /** `json` when left out. */
      format?: 'json' | 'zone';
    };
    body: undefined;
    answer: ListDnsRecordsAnswer;
  };
  /** Delete a domain */
  deleteDomain: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: DeleteDomainBody;
    answer: DeleteDomainAnswer;
  };
  /** Set how a domain's mail is handled */
  setRoute: {
    path: {
      /** Domain name; capitals and IDN are fine. */
      domain: string;
    };
    query: Record<never, never>;
    body: SetRouteBody;
    answer: DomainDetails;
  };
  /** Set a DNS record by hand */
  markDnsRecord: {
    path: {
      /** Domain name; capitals and IDN are fine. */
      domain: string;
    };
    query: Record<never, never>;
    body: MarkDnsRecordBody;
    answer: DomainDetails;
  };
  /** Check a domain's DNS records now */
  verifyDomain: {
    path: {
      /** Domain name; capitals and IDN are fine. */
      domain: string;
    };
    query: Record<never, never>;
    body: VerifyDomainBody;
    answer: DomainDetails;
  };
  /** Change a domain's DKIM key */
  rotateDkim: {
    path: {
      /** Domain name; capitals and IDN are fine. */
      domain: string;
    };
    query: Record<never, never>;
    body: RotateDkimBody;
    answer: DomainDetails;
  };
  /** Create an account */
  createAccount: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: CreateAccountBody;
    answer: AccountWithPassword;
  };
  /** List a domain's accounts */
  listDomainAccounts: {
    path: {
      /** Domain name; capitals and IDN are fine. */
      domain: string;
    };
    query: {
      /** The user of your product who owns everything in this call. */
      user_id: string;
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The number of items to skip; 0 when left out. */
      offset?: number;
      /** Only items that come after this id, the last one of the page before. Unlike with `offset`, items that are added or removed meanwhile do not shift the pages. */
      after?: number;
      /** Whether the oldest or the newest items come first; the oldest when left out. */
      order?: 'oldest' | 'newest';
    };
    body: undefined;
    answer: ListDomainAccountsAnswer;
  };
  /** List a user's accounts */
  listAccounts: {
    path: Record<never, never>;
    query: {
      /** The user of your product who owns everything in this call. */
      user_id: string;
      /** Domain name; capitals and IDN are fine. */
      domain?: string;
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The number of items to skip; 0 when left out. */
      offset?: number;
      /** Only items that come after this id, the last one of the page before. Unlike with `offset`, items that are added or removed meanwhile do not shift the pages. */
      after?: number;
      /** Whether the oldest or the newest items come first; the oldest when left out. */
      order?: 'oldest' | 'newest';
    };
    body: undefined;
    answer: ListAccountsAnswer;
  };
  /** Read an account */
  getAccount: {
    path: {
      /** Given by the server. */
      id: number;
    };
    query: {
      /** The user of your product who owns everything in this call. */
      user_id: string;
    };
    body: undefined;
    answer: GetAccountAnswer;
  };
  /** Update an account */
  updateAccount: {
    path: {
      /** Given by the server. */
      id: number;
    };
    query: Record<never, never>;
    body: UpdateAccountBody;
    answer: UpdateAccountAnswer;
  };
  /** Delete an account */
  deleteAccount: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: DeleteAccountBody;
    answer: DeleteAccountAnswer;
  };
  /** Reset an account's password */
  resetPassword: {
    path: {
      /** Given by the server. */
      id: number;
    };
    query: Record<never, never>;
    body: ResetPasswordBody;
    answer: AccountWithPassword;
  };
  /** Issue a token for an account */
  issueToken: {
    path: {
      /** Given by the server. */
      id: number;
    };
    query: Record<never, never>;
    body: IssueTokenBody;
    answer: Token;
  };
  /** List an account's app passwords */
  listAppPasswords: {
    path: {
      /** Given by the server. */
      id: number;
    };
    query: {
      /** The user of your product who owns everything in this call. */
      user_id: string;
    };
    body: undefined;
    answer: ListAppPasswordsAnswer;
  };
  /** Make an app password */
  createAppPassword: {
    path: {
      /** Given by the server. */
      id: number;
    };
    query: Record<never, never>;
    body: CreateAppPasswordBody;
    answer: NewAppPassword;
  };
  /** Revoke an app password */
  deleteAppPassword: {
    path: {
      /** Given by the server. */
      id: number;
      /** Given by the server. */
      passwordId: number;
    };
    query: Record<never, never>;
    body: DeleteAppPasswordBody;
    answer: DeleteAppPasswordAnswer;
  };
  /** Follow what happens to a user */
  listEvents: {
    path: Record<never, never>;
    query: {
      /** The user of your product who owns everything in this call. */
      user_id: string;
      /** Only events after this cursor; `0` for all that are kept. When left out, what happens from now on. */
      after?: string;
      /** Only these types, separated by commas. */
      types?: string;
      /** 100 when left out. */
      limit?: number;
      /** Seconds to wait for an event where there is none; 25 when left out. */
      wait?: number;
    };
    body: undefined;
    answer: ListEventsAnswer;
  };
  /** List deliveries */
  listDeliveries: {
    path: {
      /** Domain name; capitals and IDN are fine. */
      domain: string;
    };
    query: {
      /** The user of your product who owns everything in this call. */
      user_id: string;
      /** A `held` delivery is kept, and not attempted until it is released or tried again; last_error says why. */
      status?: 'queued' | 'held' | 'delivered' | 'failed';
      /** Only the delivery with this header `webhook-id`. */
      webhook_id?: string;
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The number of items to skip; 0 when left out. */
      offset?: number;
      /** Only items that come after this id, the last one of the page before. Unlike with `offset`, items that are added or removed meanwhile do not shift the pages. */
      after?: number;
      /** Whether the oldest or the newest items come first; the oldest when left out. */
      order?: 'oldest' | 'newest';
    };
    body: undefined;
    answer: ListDeliveriesAnswer;
  };
  /** Try a delivery again */
  retryDelivery: {
    path: {
      /** Domain name; capitals and IDN are fine. */
      domain: string;
      /** Given by the server. */
      id: number;
    };
    query: Record<never, never>;
    body: RetryDeliveryBody;
    answer: RetryDeliveryAnswer;
  };
  /** List suppressed addresses */
  listSuppressions: {
    path: {
      /** Domain name; capitals and IDN are fine. */
      domain: string;
    };
    query: {
      /** The user of your product who owns everything in this call. */
      user_id: string;
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The number of items to skip; 0 when left out. */
      offset?: number;
      /** Only items that come after this id, the last one of the page before. Unlike with `offset`, items that are added or removed meanwhile do not shift the pages. */
      after?: number;
      /** Whether the oldest or the newest items come first; the oldest when left out. */
      order?: 'oldest' | 'newest';
    };
    body: undefined;
    answer: ListSuppressionsAnswer;
  };
  /** Allow mail to this address again */
  deleteSuppression: {
    path: {
      /** Domain name; capitals and IDN are fine. */
      domain: string;
    };
    query: Record<never, never>;
    body: DeleteSuppressionBody;
    answer: DeleteSuppressionAnswer;
  };
  /** Show where events are posted */
  getEventHook: {
    path: Record<never, never>;
    query: {
      /** The user of your product who owns everything in this call. */
      user_id: string;
    };
    body: undefined;
    answer: GetEventHookAnswer;
  };
  /** Post events to a URL */
  setEventHook: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: SetEventHookBody;
    answer: SetEventHookAnswer;
  };
  /** Post no more events */
  deleteEventHook: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: DeleteEventHookBody;
    answer: DeleteEventHookAnswer;
  };
  /** Read the settings of mail programs */
  getClientSettings: {
    path: {
      /** Domain name; capitals and IDN are fine. */
      domain: string;
    };
    query: {
      /** The user of your product who owns everything in this call. */
      user_id: string;
    };
    body: undefined;
    answer: GetClientSettingsAnswer;
  };
  /** Get the profile of an account for Apple devices */
  getMobileconfig: {
    path: {
      /** Given by the server. */
      id: number;
    };
    query: {
      /** The user of your product who owns everything in this call. */
      user_id: string;
    };
    body: undefined;
    answer: Uint8Array;
  };
  /** List the domains of all users */
  listAllDomains: {
    path: Record<never, never>;
    query: {
      status?: 'pending' | 'active' | 'suspended';
      /** The user of your product who owns everything in this call. */
      user_id?: string;
      /** Only domains that can send, or only those that cannot, pending ones too. */
      can_send?: 'true' | 'false';
      /** Only domains that can receive, or only those that cannot. */
      can_receive?: 'true' | 'false';
      forward_mode?: 'store' | 'webhook' | 'webhook_then_store' | 'forward_email';
      /** Only domains with this record `failed`. */
      records_failed?: 'any' | 'mx' | 'spf' | 'dmarc' | 'dkim';
      /** Beginning of the name; the list is then in the order of names. */
      q?: string;
      /** By name, after those in trouble: active ones that cannot send or have a failed record, and those that were active and lost their records. Suspended ones are not among these. */
      sort?: 'trouble';
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The cursor of the page before, unchanged. */
      cursor?: string;
    };
    body: undefined;
    answer: ListAllDomainsAnswer;
  };
  /** Read a domain of any user */
  getAnyDomain: {
    path: {
      /** Domain name; capitals and IDN are fine. */
      domain: string;
    };
    query: {
      /** The user of your product who owns everything in this call. */
      user_id?: string;
    };
    body: undefined;
    answer: OperatedDomainDetails;
  };
  /** List the accounts of all users */
  listAllAccounts: {
    path: Record<never, never>;
    query: {
      /** Domain name; capitals and IDN are fine. */
      domain?: string;
      /** The user of your product who owns everything in this call. */
      user_id?: string;
      /** Beginning of the address; without `sort` the list is in the order of addresses. */
      q?: string;
      /** By address, or by a number, which `-` puts the largest of first; `quota_used` is the part of its quota that an account uses. A cursor belongs to one order. */
      sort?: 'address' | 'sent_24h' | '-sent_24h' | 'received_24h' | '-received_24h' | 'bounced_24h' | '-bounced_24h' | 'refused_24h' | '-refused_24h' | 'waiting' | '-waiting' | 'bytes' | '-bytes' | 'quota_used' | '-quota_used' | 'last_login_at' | '-last_login_at';
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The cursor of the page before, unchanged. */
      cursor?: string;
    };
    body: undefined;
    answer: ListAllAccountsAnswer;
  };
  /** Read an account of any user */
  getAnyAccount: {
    path: {
      /** Given by the server. */
      id: number;
    };
    query: Record<never, never>;
    body: undefined;
    answer: OperatedAccountDetails;
  };
  /** Suspend a domain */
  suspendDomain: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: SuspendDomainBody;
    answer: OperatedDomain;
  };
  /** Resume a domain */
  resumeDomain: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: ResumeDomainBody;
    answer: OperatedDomain;
  };
  /** Delete a domain of any user */
  deleteAnyDomain: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: DeleteAnyDomainBody;
    answer: DeleteAnyDomainAnswer;
  };
  /** Suspend an account of any user */
  suspendAnyAccount: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: SuspendAnyAccountBody;
    answer: SuspendedAccount;
  };
  /** Resume an account of any user */
  resumeAnyAccount: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: ResumeAnyAccountBody;
    answer: OperatedAccount;
  };
  /** List the nodes */
  listNodes: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: ListNodesAnswer;
  };
  /** List the settings in force */
  listSettings: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: ListSettingsAnswer;
  };
  /** Change the level of the log */
  changeLogLevel: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: ChangeLogLevelBody;
    answer: ChangeLogLevelAnswer;
  };
  /** Read the console's session */
  getConsoleSession: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: ConsoleSession;
  };
  /** Sign out of the console */
  endConsoleSession: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: EndConsoleSessionAnswer;
  };
  /** Sign in to the console */
  openConsoleSession: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: OpenConsoleSessionBody;
    answer: ConsoleSession;
  };
  /** List what was changed */
  listAudit: {
    path: Record<never, never>;
    query: {
      /** Only what was done to this, as `target` of an entry names it. */
      target?: string;
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The cursor of the page before, unchanged. */
      cursor?: string;
    };
    body: undefined;
    answer: ListAuditAnswer;
  };
  /** List usage by day */
  listUsage: {
    path: Record<never, never>;
    query: {
      /** The first day; 30 days ago when left out. */
      from?: string;
      /** The last day; today when left out. */
      to?: string;
      /** What each item is about; a domain when left out. */
      by?: 'domain' | 'account' | 'user';
      /** Only of this domain. */
      domain?: string;
      /** Only of this user. */
      user_id?: string;
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The cursor of the page before, unchanged. */
      cursor?: string;
    };
    body: undefined;
    answer: ListUsageAnswer;
  };
  /** Set an account's quota */
  setQuota: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: SetQuotaBody;
    answer: SetQuotaAnswer;
  };
  /** Read what the service did */
  getOverview: {
    path: Record<never, never>;
    query: {
      /** The last so many hours; 24 when left out. */
      hours?: number;
    };
    body: undefined;
    answer: GetOverviewAnswer;
  };
  /** Read what needs somebody now */
  getAttention: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: GetAttentionAnswer;
  };
  /** List messages */
  listMessages: {
    path: Record<never, never>;
    query: {
      /** An address. */
      recipient?: string;
      /** An address; empty for bounces. */
      sender?: string;
      /** The recipient or the sender. */
      address?: string;
      /** The sender's domain of what accounts send, else the recipient's. */
      domain?: string;
      /** Of its header. */
      message_id?: string;
      /** One or more of the values of `status`, separated by commas. A message has the state of any of its recipients. */
      status?: string;
      direction?: 'in' | 'out';
      /** Address of the client that brought it. */
      client?: string;
      /** The host that took it. */
      node?: string;
      /** Part of the subject; found only with TRACE_SUBJECTS. */
      subject?: string;
      /** Part of the newest answer about a recipient. */
      reason?: string;
      /** Address of an account: what it sent and got. With `address`: what it exchanged with that one. */
      account?: string;
      /** At this date or time (RFC 3339), or later; a date is its midnight in UTC. */
      since?: string;
      /** Before this date or time. */
      until?: string;
      /** Leaves out what `recipient` finds. */
      not_recipient?: string;
      /** Leaves out what `sender` finds. */
      not_sender?: string;
      /** Leaves out what `address` finds. */
      not_address?: string;
      /** Leaves out what `domain` finds. */
      not_domain?: string;
      /** Leaves out what `message_id` finds. */
      not_message_id?: string;
      /** Leaves out what `status` finds. */
      not_status?: string;
      /** Leaves out what `direction` finds. */
      not_direction?: string;
      /** Leaves out what `client` finds. */
      not_client?: string;
      /** Leaves out what `node` finds. */
      not_node?: string;
      /** Leaves out what `subject` finds. */
      not_subject?: string;
      /** Leaves out what `reason` finds. */
      not_reason?: string;
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The cursor of the page before, unchanged. */
      cursor?: string;
    };
    body: undefined;
    answer: ListMessagesAnswer;
  };
  /** Read a message */
  readMessage: {
    path: {
      /** Postroom's id of the message, the id of one of its deliveries, or a `webhook-id`. */
      id: string;
    };
    query: Record<never, never>;
    body: undefined;
    answer: OperatedMessageDetails;
  };
  /** Find messages */
  listTrace: {
    path: Record<never, never>;
    query: {
      recipient?: string;
      /** Empty for bounces. */
      sender?: string;
      message_id?: string;
      /** Postroom's id of the message, the id of one of its deliveries, or a `webhook-id`. */
      id?: string;
      /** At this date or time (RFC 3339), or later; a date is its midnight in UTC. */
      since?: string;
      /** Before this date or time. */
      until?: string;
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The cursor of the page before, unchanged. */
      cursor?: string;
    };
    body: undefined;
    answer: ListTraceAnswer;
  };
  /** Read what became of a message */
  readTrace: {
    path: {
      /** Postroom's id of the message, the id of one of its deliveries, or a `webhook-id`. */
      id: string;
    };
    query: Record<never, never>;
    body: undefined;
    answer: ReadTraceAnswer;
  };
  /** Count the deliveries that wait */
  listQueue: {
    path: Record<never, never>;
    query: {
      /** Origin of a webhook, domain of mail, or address of a mailbox. */
      destination?: string;
      domain?: string;
      /** As in the list of deliveries of a domain. */
      kind?: 'webhook' | 'forward' | 'bounce' | 'send' | 'mailbox' | 'copy' | 'event';
      /** `queued` waits for its next attempt; `held` waits until it is released or tried again; `failed` has ended. */
      status?: 'queued' | 'held' | 'failed';
      /** Replaced by `status`; goes away after 0.4. */
      state?: 'pending' | 'held' | 'failed';
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The cursor of the page before, unchanged. */
      cursor?: string;
    };
    body: undefined;
    answer: ListQueueAnswer;
  };
  /** List single deliveries that wait */
  listQueueDeliveries: {
    path: Record<never, never>;
    query: {
      /** Origin of a webhook, domain of mail, or address of a mailbox. */
      destination?: string;
      domain?: string;
      /** As in the list of deliveries of a domain. */
      kind?: 'webhook' | 'forward' | 'bounce' | 'send' | 'mailbox' | 'copy' | 'event';
      /** `waiting` is `queued` and `held` together. */
      status?: 'waiting' | 'queued' | 'held' | 'failed';
      /** Replaced by `status`; goes away after 0.4. */
      state?: 'pending' | 'held' | 'failed';
      /** A part of the receiver's name. */
      q?: string;
      /** From whom the message is: its reverse-path, empty for bounces. Deliveries from before 0.4.0 do not have it. */
      sender?: string;
      /** A part of the reason of the last failed attempt, as the lists name it. */
      reason?: string;
      /** Only those that were queued at least so many seconds ago. */
      older_than?: number;
      /** Only those whose next attempt is due within so many seconds. */
      due_within?: number;
      /** Address of an account: what it sends, and what waits for its mailbox on a mail server. Deliveries from before 0.4.0 do not have it. */
      account?: string;
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The cursor of the page before, unchanged. */
      cursor?: string;
    };
    body: undefined;
    answer: ListQueueDeliveriesAnswer;
  };
  /** List receivers with what waits for them */
  listQueueReceivers: {
    path: Record<never, never>;
    query: {
      /** Origin of a webhook, domain of mail, or address of a mailbox. */
      destination?: string;
      domain?: string;
      /** As in the list of deliveries of a domain. */
      kind?: 'webhook' | 'forward' | 'bounce' | 'send' | 'mailbox' | 'copy' | 'event';
      /** `waiting` is `queued` and `held` together. */
      status?: 'waiting' | 'queued' | 'held' | 'failed';
      /** Replaced by `status`; goes away after 0.4. */
      state?: 'pending' | 'held' | 'failed';
      /** A part of the receiver's name. */
      q?: string;
      /** From whom the message is: its reverse-path, empty for bounces. Deliveries from before 0.4.0 do not have it. */
      sender?: string;
      /** A part of the reason of the last failed attempt, as the lists name it. */
      reason?: string;
      /** Only those that were queued at least so many seconds ago. */
      older_than?: number;
      /** Only those whose next attempt is due within so many seconds. */
      due_within?: number;
      /** Address of an account: what it sends, and what waits for its mailbox on a mail server. Deliveries from before 0.4.0 do not have it. */
      account?: string;
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The cursor of the page before, unchanged. */
      cursor?: string;
    };
    body: undefined;
    answer: ListQueueReceiversAnswer;
  };
  /** Count a part of the queue */
  summarizeQueue: {
    path: Record<never, never>;
    query: {
      /** Origin of a webhook, domain of mail, or address of a mailbox. */
      destination?: string;
      domain?: string;
      /** As in the list of deliveries of a domain. */
      kind?: 'webhook' | 'forward' | 'bounce' | 'send' | 'mailbox' | 'copy' | 'event';
      /** `waiting` is `queued` and `held` together. */
      status?: 'waiting' | 'queued' | 'held' | 'failed';
      /** Replaced by `status`; goes away after 0.4. */
      state?: 'pending' | 'held' | 'failed';
      /** A part of the receiver's name. */
      q?: string;
      /** From whom the message is: its reverse-path, empty for bounces. Deliveries from before 0.4.0 do not have it. */
      sender?: string;
      /** A part of the reason of the last failed attempt, as the lists name it. */
      reason?: string;
      /** Only those that were queued at least so many seconds ago. */
      older_than?: number;
      /** Only those whose next attempt is due within so many seconds. */
      due_within?: number;
      /** Address of an account: what it sends, and what waits for its mailbox on a mail server. Deliveries from before 0.4.0 do not have it. */
      account?: string;
    };
    body: undefined;
    answer: QueueSummary;
  };
  /** Try deliveries again */
  retryQueue: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: RetryQueueBody;
    answer: RetryQueueAnswer;
  };
  /** Hold deliveries back */
  holdQueue: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: HoldQueueBody;
    answer: HoldQueueAnswer;
  };
  /** Release deliveries */
  releaseQueue: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: ReleaseQueueBody;
    answer: ReleaseQueueAnswer;
  };
  /** Drop deliveries */
  dropQueue: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: DropQueueBody;
    answer: DropQueueAnswer;
  };
  /** List the blocked senders */
  listBlocks: {
    path: Record<never, never>;
    query: {
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The cursor of the page before, unchanged. */
      cursor?: string;
    };
    body: undefined;
    answer: ListBlocksAnswer;
  };
  /** Block a sender */
  addBlock: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: AddBlockBody;
    answer: Block;
  };
  /** Accept the mail of a sender again */
  deleteBlock: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: DeleteBlockBody;
    answer: Block;
  };
  /** List the API keys */
  listKeys: {
    path: Record<never, never>;
    query: {
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The cursor of the page before, unchanged. */
      cursor?: string;
    };
    body: undefined;
    answer: ListKeysAnswer;
  };
  /** Make an API key */
  createKey: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: CreateKeyBody;
    answer: CreateKeyAnswer;
  };
  /** Revoke an API key */
  revokeKey: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: RevokeKeyBody;
    answer: ApiKey;
  };
  /** List the sessions of mail programs */
  listImapSessions: {
    path: Record<never, never>;
    query: {
      /** Given by the server. */
      account_id?: number;
      /** The most items of a page; 50 when left out. */
      limit?: number;
      /** The cursor of the page before, unchanged. */
      cursor?: string;
    };
    body: undefined;
    answer: ListImapSessionsAnswer;
  };
  /** End the session of a mail program */
  endImapSession: {
    path: {
      id: string;
    };
    query: Record<never, never>;
    body: undefined;
    answer: ImapSession;
  };
  /** Log in to a mailbox */
  login: {
    path: Record<never, never>;
    query: {
      /** Which of the ten logins that a browser remembers; 0 when left out. */
      slot?: number;
    };
    body: LoginBody;
    answer: Token;
  };
  /** Renew a token without the password */
  renewToken: {
    path: Record<never, never>;
    query: {
      /** Which of the ten logins that a browser remembers; 0 when left out. */
      slot?: number;
    };
    body: undefined;
    answer: Token;
  };
  /** Forget a login */
  forgetLogin: {
    path: Record<never, never>;
    query: {
      /** Which of the ten logins that a browser remembers; 0 when left out. */
      slot?: number;
    };
    body: undefined;
    answer: ForgetLoginAnswer;
  };
  /** Sync a mailbox */
  syncMailbox: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: SyncMailboxBody;
    answer: Sync;
  };
  /** Fetch a message */
  fetchMessage: {
    path: Record<never, never>;
    query: {
      /** Mailbox name; INBOX when left out. */
      mailbox?: string;
      /** As in a sync. */
      uid: number;
    };
    body: undefined;
    answer: Message;
  };
  /** List mailboxes */
  listMailboxes: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: undefined;
    answer: ListMailboxesAnswer;
  };
  /** Make a mailbox */
  createMailbox: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: CreateMailboxBody;
    answer: MailboxState;
  };
  /** Rename a mailbox */
  renameMailbox: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: RenameMailboxBody;
    answer: MailboxState;
  };
  /** Delete a mailbox with its messages */
  deleteMailbox: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: DeleteMailboxBody;
    answer: DeleteMailboxAnswer;
  };
  /** Change flags */
  changeFlags: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: ChangeFlagsBody;
    answer: ChangeFlagsAnswer;
  };
  /** Move messages */
  moveMessages: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: MoveMessagesBody;
    answer: MoveMessagesAnswer;
  };
  /** Copy messages */
  copyMessages: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: CopyMessagesBody;
    answer: CopyMessagesAnswer;
  };
  /** Delete messages for good */
  deleteMessages: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: DeleteMessagesBody;
    answer: DeleteMessagesAnswer;
  };
  /** Put a message into a mailbox */
  appendMessage: {
    path: Record<never, never>;
    query: {
      /** The mailbox that gets the message. */
      mailbox: string;
      /** Its flags: the parameter repeated, or separated by spaces. */
      flags?: string | string[];
      /** When the message arrived (RFC 3339), as an import keeps it; by default now. A mail server keeps whole seconds. */
      internalDate?: string;
    };
    body: Uint8Array;
    answer: StoredMessage;
  };
  /** Read a message without MIME */
  readContent: {
    path: Record<never, never>;
    query: {
      /** Mailbox name; INBOX when left out. */
      mailbox?: string;
      /** As in a sync. */
      uid: number;
    };
    body: undefined;
    answer: Content;
  };
  /** Read several messages */
  readMessages: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: ReadMessagesBody;
    answer: ReadMessagesAnswer;
  };
  /** Search messages */
  searchMessages: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: SearchMessagesBody;
    answer: SearchMessagesAnswer;
  };
  /** Fetch one MIME part */
  fetchAttachment: {
    path: Record<never, never>;
    query: {
      /** Mailbox name; INBOX when left out. */
      mailbox?: string;
      /** As in a sync. */
      uid: number;
      /** Part number as in IMAP, such as 2 or 1.2 (RFC 3501 section 6.4.5). */
      part: string;
    };
    body: undefined;
    answer: Uint8Array;
  };
  /** Save a draft */
  saveDraft: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: SaveDraftBody;
    answer: SavedDraft;
  };
  /** Cancel a message */
  cancelSend: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: CancelSendBody;
    answer: CancelSendAnswer;
  };
  /** Read the status of several sent messages */
  readSends: {
    path: Record<never, never>;
    query: Record<never, never>;
    body: ReadSendsBody;
    answer: ReadSendsAnswer;
  };
  /** Read the status of a sent message */
  readSend: {
    path: {
      /** The id of the sent message. */
      id: string;
    };
    query: Record<never, never>;
    body: undefined;
    answer: Send;
  };
  /** Find a message by its key */
  findSend: {
    path: Record<never, never>;
    query: {
      key: string;
    };
    body: undefined;
    answer: Send;
  };
  /** Find a message by its Message-ID */
  findSendByMessageId: {
    path: Record<never, never>;
    query: {
      messageId: string;
    };
    body: undefined;
    answer: Send;
  };
  /** Send a message */
  sendMessage: {
    path: Record<never, never>;
    query: {
      /** When the message goes out (RFC 3339), within a year; at once when left out. */
      sendAt?: string;
      /** The message goes out so many seconds later, and can be cancelled until then; in place of sendAt. */
      delaySeconds?: number;
    };
    body: SendMessageBody;
    answer: SendMessageAnswer;
  };
}

/** What the calls of an app answer, by method and path. */
export interface MailAnswers {
  'POST /mail/token': Token;
  'POST /mail/token/renew': Token;
  'POST /mail/token/forget': ForgetLoginAnswer;
  'POST /mail/sync': Sync;
  'GET /mail/message': Message;
  'GET /mail/mailboxes': ListMailboxesAnswer;
  'POST /mail/mailboxes/create': MailboxState;
  'POST /mail/mailboxes/rename': MailboxState;
  'POST /mail/mailboxes/delete': DeleteMailboxAnswer;
  'POST /mail/flags': ChangeFlagsAnswer;
  'POST /mail/move': MoveMessagesAnswer;
  'POST /mail/copy': CopyMessagesAnswer;
  'POST /mail/delete': DeleteMessagesAnswer;
  'POST /mail/append': StoredMessage;
  'GET /mail/content': Content;
  'POST /mail/messages': ReadMessagesAnswer;
  'POST /mail/search': SearchMessagesAnswer;
  'GET /mail/attachment': Uint8Array;
  'POST /mail/drafts': SavedDraft;
  'POST /mail/sends/cancel': CancelSendAnswer;
  'POST /mail/sends/read': ReadSendsAnswer;
  'GET /mail/sends/{id}': Send;
  'GET /mail/sends': Send;
  'GET /mail/sends/by-message-id': Send;
  'POST /mail/send': SendMessageAnswer;
}

/** Operations of a product and its operators. */
export type OperationId =
  | 'createDomain'
  | 'listDomains'
  | 'getDomain'
  | 'listDnsRecords'
  | 'deleteDomain'
  | 'setRoute'
  | 'markDnsRecord'
  | 'verifyDomain'
  | 'rotateDkim'
  | 'createAccount'
  | 'listDomainAccounts'
  | 'listAccounts'
  | 'getAccount'
  | 'updateAccount'
  | 'deleteAccount'
  | 'resetPassword'
  | 'issueToken'
  | 'listAppPasswords'
  | 'createAppPassword'
  | 'deleteAppPassword'
  | 'listEvents'
  | 'listDeliveries'
  | 'retryDelivery'
  | 'listSuppressions'
  | 'deleteSuppression'
  | 'getEventHook'
  | 'setEventHook'
  | 'deleteEventHook'
  | 'getClientSettings'
  | 'getMobileconfig'
  | 'listAllDomains'
  | 'getAnyDomain'
  | 'listAllAccounts'
  | 'getAnyAccount'
  | 'suspendDomain'
  | 'resumeDomain'
  | 'deleteAnyDomain'
  | 'suspendAnyAccount'
  | 'resumeAnyAccount'
  | 'listNodes'
  | 'listSettings'
  | 'changeLogLevel'
  | 'getConsoleSession'
  | 'endConsoleSession'
  | 'openConsoleSession'
  | 'listAudit'
  | 'listUsage'
  | 'setQuota'
  | 'getOverview'
  | 'getAttention'
  | 'listMessages'
  | 'readMessage'
  | 'listTrace'
  | 'readTrace'
  | 'listQueue'
  | 'listQueueDeliveries'
  | 'listQueueReceivers'
  | 'summarizeQueue'
  | 'retryQueue'
  | 'holdQueue'
  | 'releaseQueue'
  | 'dropQueue'
  | 'listBlocks'
  | 'addBlock'
  | 'deleteBlock'
  | 'listKeys'
  | 'createKey'
  | 'revokeKey'
  | 'listImapSessions'
  | 'endImapSession'
;

/** Method and path of each of them; with `key` where it takes an Idempotency-Key. */
export const ROUTES: Readonly<Record<OperationId, string>> = {
  createDomain: 'POST /v2/domain key',
  listDomains: 'GET /v2/domains',
  getDomain: 'GET /v2/domains/{domain}/info',
  listDnsRecords: 'GET /v2/domains/{domain}/dns',
  deleteDomain: 'POST /v2/domains/delete key',
  setRoute: 'PUT /v2/domains/{domain}/route',
  markDnsRecord: 'POST /v2/domains/{domain}/dns/mark key',
  verifyDomain: 'POST /v2/domains/{domain}/verify',
  rotateDkim: 'POST /v2/domains/{domain}/dkim/rotate key',
  createAccount: 'POST /v2/email-accounts/create key',
  listDomainAccounts: 'GET /v2/domains/{domain}/email-accounts',
  listAccounts: 'GET /v2/email-accounts',
  getAccount: 'GET /v2/email-accounts/{id}',
  updateAccount: 'PUT /v2/email-accounts/{id}',
  deleteAccount: 'POST /v2/email-accounts/delete key',
  resetPassword: 'POST /v2/email-accounts/{id}/password/reset key',
  issueToken: 'POST /v2/email-accounts/{id}/token',
  listAppPasswords: 'GET /v2/email-accounts/{id}/app-passwords',
  createAppPassword: 'POST /v2/email-accounts/{id}/app-passwords key',
  deleteAppPassword: 'POST /v2/email-accounts/{id}/app-passwords/{passwordId}/delete key',
  listEvents: 'GET /v2/events',
  listDeliveries: 'GET /v2/domains/{domain}/deliveries',
  retryDelivery: 'POST /v2/domains/{domain}/deliveries/{id}/retry key',
  listSuppressions: 'GET /v2/domains/{domain}/suppressions',
  deleteSuppression: 'POST /v2/domains/{domain}/suppressions/delete key',
  getEventHook: 'GET /v2/event-hooks',
  setEventHook: 'PUT /v2/event-hooks',
  deleteEventHook: 'POST /v2/event-hooks/delete key',
  getClientSettings: 'GET /v2/domains/{domain}/client-settings',
  getMobileconfig: 'GET /v2/email-accounts/{id}/mobileconfig',
  listAllDomains: 'GET /v2/operator/domains',
  getAnyDomain: 'GET /v2/operator/domains/{domain}',
  listAllAccounts: 'GET /v2/operator/accounts',
  getAnyAccount: 'GET /v2/operator/accounts/{id}',
  suspendDomain: 'POST /v2/operator/domains/suspend',
  resumeDomain: 'POST /v2/operator/domains/resume',
  deleteAnyDomain: 'POST /v2/operator/domains/delete',
  suspendAnyAccount: 'POST /v2/operator/accounts/suspend',
  resumeAnyAccount: 'POST /v2/operator/accounts/resume',
  listNodes: 'GET /v2/operator/nodes',
  listSettings: 'GET /v2/operator/settings',
  changeLogLevel: 'POST /v2/operator/log-level',
  getConsoleSession: 'GET /v2/operator/console/session',
  endConsoleSession: 'DELETE /v2/operator/console/session',
  openConsoleSession: 'POST /v2/operator/console/session',
  listAudit: 'GET /v2/operator/audit',
  listUsage: 'GET /v2/operator/usage',
  setQuota: 'POST /v2/operator/accounts/quota',
  getOverview: 'GET /v2/operator/overview',
  getAttention: 'GET /v2/operator/attention',
  listMessages: 'GET /v2/operator/messages',
  readMessage: 'GET /v2/operator/messages/{id}',
  listTrace: 'GET /v2/operator/trace',
  readTrace: 'GET /v2/operator/trace/{id}',
  listQueue: 'GET /v2/operator/queue',
  listQueueDeliveries: 'GET /v2/operator/queue/deliveries',
  listQueueReceivers: 'GET /v2/operator/queue/receivers',
  summarizeQueue: 'GET /v2/operator/queue/summary',
  retryQueue: 'POST /v2/operator/queue/retry',
  holdQueue: 'POST /v2/operator/queue/hold',
  releaseQueue: 'POST /v2/operator/queue/release',
  dropQueue: 'POST /v2/operator/queue/drop',
  listBlocks: 'GET /v2/operator/blocks',
  addBlock: 'POST /v2/operator/blocks',
  deleteBlock: 'POST /v2/operator/blocks/delete',
  listKeys: 'GET /v2/operator/keys',
  createKey: 'POST /v2/operator/keys',
  revokeKey: 'POST /v2/operator/keys/revoke',
  listImapSessions: 'GET /v2/operator/imap-sessions',
  endImapSession: 'POST /v2/operator/imap-sessions/{id}/end',
};
