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
