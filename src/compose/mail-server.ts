/** Builds the mail store on the operator's mail server, where MAILSTORE_URL names one. */
import { readFileSync } from 'node:fs';
import type { Logger } from 'pino';
import type { Bodies } from '../bodies/bodies.ts';
import type { Changes } from '../changes/changes.ts';
import { type Config, ConfigError, type ImapMailstore as ImapSettings } from '../config/config.ts';
import type { Database } from '../database/database.ts';
import { ImapMailstore, type ImapServer } from '../mail-server/mail-server.ts';
import type { InboundDelivery, MailUser } from '../mailstore/mailstore.ts';
import type { Queue } from '../queue/queue.ts';
import { buildInboundDelivery } from './inbound-delivery.ts';

export interface MailServerOptions {
  readonly config: Config;
  readonly database: Database;
  readonly changes: Changes;
  readonly bodies: Bodies;
  readonly queue: Queue;
  /** Whether an account is the one that its address means now. */
  readonly isCurrent: (user: MailUser) => Promise<boolean>;
  readonly logger: Logger;
}

/** What reads the mailboxes of a mail server, and what brings mail to it. */
export interface MailServer {
  readonly imap: ImapMailstore | undefined;
  readonly mailServer: InboundDelivery | undefined;
}

/**
 * The server need not be there yet: it is connected to when it is needed.
 *
 * @returns nothing where the mail store is our own
 * @throws ConfigError where the file with the server's authority cannot be read
 */
export function buildMailServer(options: MailServerOptions): MailServer {
  const { config, database, changes, isCurrent, logger } = options;
  const { mailstore } = config;
  if (mailstore.kind === 'embedded') return { imap: undefined, mailServer: undefined };
  const { connections, timeout } = mailstore;
  // Each needs the other: what is not delivered by LMTP is added by IMAP.
  const imap: ImapMailstore = new ImapMailstore({
    server: serverOf(mailstore),
    database,
    inbound: {
      append: (...message) => inbound().append(...message),
      appendWithin: (...message) => inbound().appendWithin(...message),
    },
    isCurrent,
    log: logger,
    onAccessEnd: (accountId, listener) =>
      changes.subscribe(accountId, (change) => {
        if (change.kind === 'access') listener();
      }),
    ...(connections !== undefined && { connections }),
    ...(timeout !== undefined && { timeoutMs: timeout * 1000 }),
  });
  const mailServer = buildInboundDelivery({
    ...options,
    imap: {
      appendByImap: (user, mailbox, message) => imap.appendByImap(user, mailbox, message),
      isDelivered: (user, mailbox, id) => imap.isDelivered(user, mailbox, id),
      announce: async (user, mailbox) => changes.publish(await imap.changeOf(user, mailbox)),
    },
  });
  const inbound = (): InboundDelivery => {
    if (!mailServer) throw new Error('nothing delivers to the mail server');
    return mailServer;
  };
  return { imap, mailServer };
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
