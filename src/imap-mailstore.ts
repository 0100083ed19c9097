/** Builds the mail store on the operator's IMAP server, where MAILSTORE_URL names one. */
import { readFileSync } from 'node:fs';
import type { Logger } from 'pino';
import type { Changes } from './changes/changes.ts';
import { type Config, ConfigError, type ImapMailstore as ImapSettings } from './config/config.ts';
import type { Database } from './database/database.ts';
import { Refusal } from './errors/errors.ts';
import { ImapMailstore, type ImapOptions, type ImapServer } from './mailstore/mailstore.ts';

export interface ImapMailstoreOptions {
  readonly config: Config;
  readonly database: Database;
  readonly changes: Changes;
  readonly logger: Logger;
}

/**
 * The server need not be there yet: it is connected to when it is needed.
 *
 * @returns undefined where the mail store is our own
 * @throws ConfigError where the file with the server's authority cannot be read
 */
export function buildImapMailstore(options: ImapMailstoreOptions): ImapMailstore | undefined {
  const { config, database, changes, logger } = options;
  const { mailstore } = config;
  if (mailstore.kind === 'embedded') return undefined;
  const { connections, timeout } = mailstore;
  return new ImapMailstore({
    server: serverOf(mailstore),
    database,
    inbound: noDelivery,
    log: logger,
    onAccessEnd: (accountId, listener) =>
      changes.subscribe(accountId, (change) => {
        if (change.kind === 'access') listener();
      }),
    ...(connections !== undefined && { connections }),
    ...(timeout !== undefined && { timeoutMs: timeout * 1000 }),
  });
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

/** Stands where mail is not yet brought to the server. */
const noDelivery: ImapOptions['inbound'] = {
  append: () => Promise.reject(unavailable()),
  appendWithin: () => Promise.reject(unavailable()),
};

function unavailable(): Refusal {
  return new Refusal('unavailable', 'mail cannot be delivered to the mail server');
}
