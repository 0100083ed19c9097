/** The row types of what happened, as those of `schema.ts`. */
import type { Generated } from 'kysely';

/** `events/`: what happened, for the backend of the user whose it is. Rows are never changed. */
export interface EventTable {
  id: Generated<number>;
  /** The transaction that wrote it, on PostgreSQL; 0 on SQLite, where ids are in the order of commits. */
  xid: Generated<number>;
  user_id: string;
  /** For which the domain was claimed. */
  organization_id: string | null;
  type: string;
  account_id: number | null;
  /** Of a message. */
  mailbox: string | null;
  uid: number | null;
  /** JSON of the other members of its `data`. */
  data: string;
  created_at: number;
}

/** `events/`: where the events of a user are posted as they happen. */
export interface EventHookTable {
  id: Generated<number>;
  user_id: string;
  url: string;
  /** Types of events, separated by commas; null: all. */
  types: string | null;
  secret: string;
  /** The secret before a change, and until when it also signs. */
  secret_previous: string | null;
  secret_until: number | null;
  /** The last event that was queued, or passed over. */
  cursor: string;
  /** When events were found to be gone before they were queued. */
  missed_at: number | null;
  created_at: number;
}
