/** Opens an account's mailboxes with the master's password. */

import { Wire } from '../../../platform/net/net.ts';
import { Connection } from './connection.ts';
import { ImapFailure } from './failure.ts';
import { type ImapLogin, type LinkOptions, openLink, type ServerAddress } from './open-link.ts';

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

/*
 * An account that is opened for a mail program and then left to it: what either side sends is passed on as it comes.
 */

export interface RawConnection {
  readonly wire: Wire;
  /** What the server may do for the account, as it said after the login. */
  readonly capabilities: string;
  /** What it sent after that. */
  readonly early: Buffer;
  /** Ends it at once. */
  destroy(): void;
}

/** @throws ImapFailure */
export async function openRaw(options: Required<LinkOptions>): Promise<RawConnection> {
  const link = await openLink(options);
  // RFC 8437: the program could leave its account, and guess passwords of others as often as it likes.
  if (link.has('UNAUTHENTICATE')) {
    const failure = new ImapFailure('may_leave', { command: 'LOGIN' });
    link.fail(failure);
    throw failure;
  }
  const capabilities = link.capabilities.join(' ');
  const { socket, early } = link.leave();
  return { wire: new Wire(socket), capabilities, early, destroy: () => socket.destroy() };
}
