/** Builds the mail store on the operator's mail server, where MAILSTORE_URL names one. */
import { readFileSync } from 'node:fs';
import {
  findFailure,
  ImapMailstore,
  type ImapServer,
  logIn,
  ServerDelivery,
} from '../../mailboxes/mail-server/mail-server.ts';
import type { MailUser } from '../../mailboxes/mailstore/mailstore.ts';
import { findSomeActive } from '../../tenants/accounts/accounts.ts';
import { type Config, ConfigError, type ImapMailstore as ImapSettings } from '../config/config.ts';
import type { Common } from './common.ts';

interface MailServerOptions
  extends Pick<
    Common,
    'config' | 'database' | 'bodies' | 'changes' | 'metrics' | 'logger' | 'now'
  > {
  /** Whether an account is the one that has its address now. */
  readonly isCurrent: (user: MailUser) => Promise<boolean>;
}

/** One account may be unknown to the mail server; if none of these can log in, the master's login is wrong. */
const ACCOUNTS_TRIED = 3;

/** Reads the mailboxes of a mail server, and delivers mail to it. */
export interface MailServerParts {
  readonly imap: ImapMailstore;
  readonly mailServer: ServerDelivery;
}

/**
 * Mail is delivered by LMTP to `LMTP_URL`; without it every message is added to its mailbox by IMAP APPEND, which
 * works with any server but bypasses its filters. The server may start later: connections are made when they are
 * needed.
 *
 * @returns undefined where the mail store is our own
 * @throws ConfigError where the file with the server's authority cannot be read
 */
export function buildMailServer(options: MailServerOptions): MailServerParts | undefined {
  const { config, database, bodies, changes, isCurrent, metrics, logger, now } = options;
  const { mailstore } = config;
  if (mailstore.kind === 'embedded') return undefined;
  const { connections, timeout, deliverTo } = mailstore;
  const imap = new ImapMailstore({
    server: serverOf(mailstore),
    database,
    bodies,
    isCurrent,
    someAccounts: () => findSomeActive(database.read, ACCOUNTS_TRIED),
    log: logger,
    now,
    onLogin: (result) => metrics.countMailServerLogin(result),
    onAccessEnd: (accountId, listener) =>
      changes.subscribe(accountId, (change) => {
        if (change.kind === 'access') listener();
      }),
    ...(connections !== undefined && { connections }),
    ...(timeout !== undefined && { timeoutMs: timeout * 1000 }),
  });
  const lmtp = deliverTo && { server: deliverTo, hostname: config.mailHostname };
  return { imap, mailServer: new ServerDelivery({ lmtp, imap, log: logger }) };
}

function serverOf(settings: ImapSettings): ImapServer {
  const { host, port, implicitTls, login, auth, separator, tls, ca } = settings;
  if (!login) throw new Error('an IMAP server has no login');
  return {
    host,
    port,
    tls: implicitTls ? 'implicit' : tls === 'off' ? 'off' : 'starttls',
    verifyCertificate: tls !== 'insecure',
    ...(ca !== undefined && { ca: readAuthority(ca) }),
    master: login,
    auth,
    separator,
  };
}

function readAuthority(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigError([`MAILSTORE_URL: expected ca to be a readable file, got "${path}"`], {
      cause: error,
    });
  }
}

/** For one login of a check, in milliseconds. */
const CHECK_MS = 5_000;

/**
 * Signs in to the mail server, for one of these accounts; where there are none, hears its greeting.
 *
 * @returns why it refuses that; undefined where it accepts it
 */
export async function logInToMailServer(
  { mailstore }: Config,
  addresses: readonly string[],
): Promise<string | undefined> {
  if (mailstore.kind === 'embedded') return undefined;
  const server = serverOf(mailstore);
  let said: string | undefined;
  if (addresses.length === 0) said = (await findFailure(server, CHECK_MS))?.message;
  for (const address of addresses) {
    try {
      (await logIn(server, address, CHECK_MS)).destroy();
      return undefined;
    } catch (error) {
      said = `${address}: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
  return said;
}
