/** Prepares the IMAP listeners, for mailboxes in our own database or on the operator's mail server. */
import type { Logger } from 'pino';
import type { Changes } from '../../mailboxes/changes/changes.ts';
import type { ImapMailstore as MailServerStore } from '../../mailboxes/mail-server/mail-server.ts';
import {
  type EmbeddedMailstore,
  publishChanges,
  publishing,
} from '../../mailboxes/mailstore/mailstore.ts';
import type { Database } from '../../platform/database/database.ts';
import { type SharedSlots, testNetworks } from '../../platform/net/net.ts';
import {
  type Ended,
  type ImapListener,
  type ImapMailstore,
  type ImapOptions,
  ImapSlots,
  isExtension,
  type OpenSessions,
  startImap,
} from '../../servers/imap/imap.ts';
import type { Metrics } from '../../servers/metrics/metrics.ts';
import {
  findAccess,
  findAppPasswordsThere,
  type MailAccess,
  type Tokens,
} from '../../tenants/accounts/accounts.ts';
import { type Config, ConfigError } from '../config/config.ts';

export interface ImapParts {
  readonly embedded: EmbeddedMailstore;
  /** Where mailboxes are on a mail server. */
  readonly imap: MailServerStore | undefined;
  readonly tokens: Tokens;
  readonly changes: Changes;
  readonly database: Database;
  readonly metrics: Metrics;
  readonly imapSessions: OpenSessions;
  readonly slots: SharedSlots | undefined;
}

/** The embedded store, whose changes are published. */
function publishedStore({ embedded, changes }: ImapParts): ImapMailstore {
  const publish: Changes['publish'] = (change) => changes.publish(change);
  const published = publishing(publish);
  return {
    ...publishChanges(embedded, publish),
    imap: embedded.imap,
    async subscribe(user, name, isOn, isNew) {
      await embedded.imap.subscribe(user, name, isOn, isNew);
      changes.publish({ kind: 'subscriptions', accountId: user.accountId });
    },
    appendMessages: async (...of) => published(await embedded.appendMessages(...of)),
    replaceMessages: async (...of) => published(await embedded.replaceMessages(...of)),
    setFlags: async (...of) => published(await embedded.setFlags(...of)),
  };
}

/** Connections of mail programs to a mail server, which has limits of its own. */
const PROGRAMS = 500;

/**
 * @returns starts a listener on a port
 * @throws ConfigError where IMAP_DISABLE names what cannot be taken off
 */
export function prepareImap(
  config: Config,
  parts: ImapParts,
  tls: ImapOptions['tls'],
  logger: Logger,
): (on: Pick<ImapOptions, 'port' | 'isSecure'>) => Promise<ImapListener> {
  const { tokens, changes, metrics, database, imapSessions, imap: server } = parts;
  const { imap, mailstore } = config;
  if (server && imap.disabled.length > 0) {
    throw new ConfigError([
      'IMAP_DISABLE: expected none where MAILSTORE_URL names a mail server, which announces its own extensions',
    ]);
  }
  const unknown = imap.disabled.filter((name) => !isExtension(name));
  if (unknown.length > 0) {
    throw new ConfigError([
      `IMAP_DISABLE: expected extensions that are announced after a login, found ${unknown.join()}`,
    ]);
  }
  const shared = {
    mailstore: publishedStore(parts),
    logins: {
      withPassword: (address: string, password: string, ip: string) =>
        tokens.checkMailPassword({ address, password, ip }, 'imap'),
      withToken: (token: string) => tokens.authenticate(token),
    },
    changes,
    accessOf: (ids: readonly number[]) =>
      findAccess(database.read, ids, server ? 'current' : 'all'),
    appPasswordsThere: (ids: readonly number[]) => findAppPasswordsThere(database.read, ids),
    onCommand: ({ name, outcome }: Ended) => metrics.countImapCommand(name, outcome),
    onOctets: metrics.countImapOctets,
    onRefused: metrics.countImapRefusal,
    hostname: config.mailHostname,
    maxMessageBytes: config.limits.maxMessageBytes,
    host: imap.host,
    tls,
    disabled: new Set(imap.disabled),
    isBalancer: testNetworks(imap.proxyNetworks),
    slots: new ImapSlots(
      mailstore.kind === 'imap' ? (mailstore.programs ?? PROGRAMS) : undefined,
      parts.slots,
    ),
    ...(server && {
      openOnServer: (user: MailAccess, client: string, left: AbortSignal) =>
        server.openForProgram(user, client, left),
    }),
    sessions: imapSessions,
    logger: logger.child({ protocol: 'imap' }),
  };
  const listeners: ImapListener[] = [];
  return async (on) => {
    const listener = await startImap({ ...shared, ...on });
    listeners.push(listener);
    metrics.watchImap(() => ({
      connections: listeners.reduce((sum, one) => sum + one.served.size, 0),
      sessions: imapSessions.count(),
    }));
    return listener;
  };
}
