/** Opens an account's mailboxes with the master's password. */
import { Connection } from './connection.ts';
import { ImapFailure } from './failure.ts';
import type { ImapLogin, ServerAddress } from './open-link.ts';

export interface ImapServer extends ServerAddress {
  /** The login that opens any account. */
  readonly master: { readonly user: string; readonly password: string };
  /**
   * How it opens an account: `master`: user name `account*master`; `plain`: SASL PLAIN with the account as
   * authorization identity (RFC 4616).
   */
  readonly auth: 'master' | 'plain';
  /** Between account and master, with `master`. */
  readonly separator: string;
}

/** @throws ImapFailure */
export function logIn(server: ImapServer, address: string, timeoutMs: number): Promise<Connection> {
  return openAs(server, address, (login) => Connection.open({ server, login, timeoutMs }));
}

/**
 * Opens an account with the logins that its address allows, in turn.
 *
 * @throws ImapFailure of the last one
 */
export async function openAs<T>(
  { master, auth, separator }: ImapServer,
  address: string,
  open: (login: ImapLogin) => Promise<T>,
): Promise<T> {
  const pass = master.password;
  const asPlain = () => open({ user: master.user, pass, authzid: address });
  const asMaster = () => open({ user: `${address}${separator}${master.user}`, pass });
  if (auth === 'plain') return asPlain();
  if (!address.includes(separator)) return asMaster();
  // Dovecot reads what follows the first separator as the master; SASL PLAIN does not have this problem.
  return asPlain().catch((error: unknown) => {
    if (error instanceof ImapFailure && error.kind === 'login_refused') return asMaster();
    throw error;
  });
}
