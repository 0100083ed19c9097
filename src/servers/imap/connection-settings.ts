/** What a connection is given, and the words with which it ends. */
import type { SecureContext } from 'node:tls';
import type { Changes } from '../../mailboxes/changes/changes.ts';
import type { AccountAccess, AccountShares, MailAccess } from '../../tenants/accounts/accounts.ts';
import type { Ended } from './run-command.ts';
import type { ImapServices } from './session.ts';

export interface ConnectionSettings extends ImapServices {
  readonly hostname: string;
  readonly changes: Pick<Changes, 'subscribe'>;
  readonly secureContext: () => SecureContext;
  /** Of all listeners of the process. */
  readonly longCommands: AccountShares;
  /** Takes a slot for one more connection of the account; undefined where it has none left. */
  readonly admit: (user: MailAccess) => Promise<(() => void) | undefined>;
  readonly onCommand?: ((ended: Ended) => void) | undefined;
  /** Called with octets that came from the client, and with those that it got. */
  readonly onOctets?: ((direction: 'received' | 'sent', octets: number) => void) | undefined;
}

/** In milliseconds. */
export const timeouts = {
  /** For a login. */
  stranger: 60_000,
  /** How long a client may be silent after its login. */
  idle: 30 * 60_000 + 37_000,
  /** How long a client, or the mail server that it is passed on to, may not read what was sent. */
  blocked: 5 * 60_000,
  /** For all messages of one APPEND. */
  messages: 60 * 60_000,
  /** The same before any of them came: each octet that comes adds a millisecond, since 1 kB/s is fast enough. */
  slow: 60_000,
};

/** Why a session that was open may not go on. */
export const LOST = 'The account was suspended or deleted, or its password was changed';
export const REVOKED = 'The app password was revoked';
export const ENDED = 'The session was ended by the operator of the server';

/**
 * Why a session may not go on whose account is as follows; undefined where it may.
 *
 * @param access undefined where the account does not exist
 * @param appPasswords those that still open an account
 */
export function reasonToEnd(
  { credentialVersion, appPasswordId }: MailAccess,
  access: AccountAccess | undefined,
  appPasswords: ReadonlySet<number>,
): string | undefined {
  if (access?.status !== 'active' || credentialVersion < access.credentialVersion) return LOST;
  const isRevoked = appPasswordId !== undefined && !appPasswords.has(appPasswordId);
  return isRevoked ? REVOKED : undefined;
}
