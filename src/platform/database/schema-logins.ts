/** The row types of what opens accounts, as those of `schema.ts`. */
import type { Generated } from 'kysely';

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
