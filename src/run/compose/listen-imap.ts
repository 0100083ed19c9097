/** Prepares the IMAP listeners, for mailboxes in our own database or on the operator's mail server. */
import type { Logger } from 'pino';
import { publishChanges, publishing } from '../../mailboxes/mailstore/mailstore.ts';
import { testNetworks } from '../../platform/net/net.ts';
import {
  type Ended,
  type ImapListener,
  type ImapMailstore,
  type ImapOptions,
  ImapSlots,
  isExtension,
  startImap,
} from '../../servers/imap/imap.ts';
import {
  findAccess,
  findAppPasswordsThere,
  type MailAccess,
} from '../../tenants/accounts/accounts.ts';
import { type Config, SettingRefused } from '../config/config.ts';
import type { Parts } from './parts.ts';

/** The embedded store, whose changes are published. */
function publishedStore({ embedded, changes }: Parts): ImapMailstore {
  const publish: Parts['changes']['publish'] = (change) => changes.publish(change);
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

/** @throws SettingRefused where IMAP_DISABLE names what cannot be taken off */
export function refuseUnfitExtensions({ imap, mailstore }: Config): void {
  const expected = 'IMAP_DISABLE: expected ';
  if (mailstore.kind === 'imap' && imap.disabled.length > 0) {
    const why = 'none where MAILSTORE_URL names a mail server, which announces its own extensions';
    throw new SettingRefused([expected + why]);
  }
  const unknown = imap.disabled.filter((name) => !isExtension(name));
  if (unknown.length === 0) return;
  const why = `extensions that are announced after a login, such as QRESYNC, got ${unknown.join()}`;
  throw new SettingRefused([expected + why]);
}

/** @returns starts a listener on a port */
export function prepareImap(
  config: Config,
  parts: Parts,
  tls: ImapOptions['tls'],
  logger: Logger,
): (on: Pick<ImapOptions, 'port' | 'isSecure'>) => Promise<ImapListener> {
  const { tokens, changes, metrics, database, imapSessions, imap: server, now } = parts;
  const { imap, mailstore } = config;
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
    now,
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
