/** The second IMAP client of the suites on mail servers. */
import { setTimeout as sleep } from 'node:timers/promises';
import { ImapFlow } from 'imapflow';
import { startCourier } from './courier.ts';
import { startCyrus } from './cyrus.ts';
import { startDovecot } from './dovecot.ts';
import type { MailServer } from './mail-server.ts';

/** What Dovecot announces with the extensions left out that change how a sync is done. */
const announcing = (...more: string[]) => `imap_capability = IMAP4rev1 UIDPLUS ${more.join(' ')}`;

/** The servers of the suites; Dovecot also as those of which no package is at hand. */
export const servers: Readonly<Record<string, () => Promise<MailServer>>> = {
  dovecot: () => startDovecot(),
  cyrus: () => startCyrus(),
  courier: () => startCourier(),
  // As Gmail is.
  'a server without QRESYNC': () =>
    startDovecot({ settings: announcing('ENABLE', 'CONDSTORE', 'SPECIAL-USE', 'MOVE') }),
  // The least there is.
  'a server without CONDSTORE': async () => ({
    ...(await startDovecot({ settings: announcing() })),
    modseq: false,
  }),
};

/** MAILSTORE_URL of a server of the test run. */
export function mailstoreUrl({ mailstoreUrl: url, name }: MailServer): string {
  return `${url}?tls=off${name === 'cyrus' ? '&auth=plain' : ''}`;
}

/** LMTP_URL of a server; without one, mail is added by APPEND. */
export function deliveryUrl({ lmtpUrl }: MailServer): { LMTP_URL?: string } {
  return lmtpUrl === undefined ? {} : { LMTP_URL: lmtpUrl };
}

/** Logs in as an account that was just made. */
export async function connectAs(server: MailServer, address: string): Promise<ImapFlow> {
  for (let attempt = 0; ; attempt++) {
    const client = new ImapFlow({
      host: server.host,
      port: server.imapPort,
      secure: false,
      doSTARTTLS: false,
      auth: server.loginAs(address),
      logger: false,
      disableAutoIdle: true,
    });
    client.on('error', () => undefined);
    try {
      await client.connect();
      return client;
    } catch (error) {
      // Dovecot looks at most once a second whether its file of accounts has changed.
      if (attempt === 30) throw error;
      await sleep(100);
    }
  }
}

/** Deletes a mailbox. Cyrus refuses to delete two of one name within a second. */
export async function deleteMailbox(client: ImapFlow, path: string): Promise<void> {
  for (;;) {
    try {
      await client.mailboxDelete(path);
      return;
    } catch (error) {
      const isTooSoon =
        error instanceof Error &&
        'responseText' in error &&
        /already exists/.test(String(error.responseText));
      if (!isTooSoon) throw error;
      await sleep(100);
    }
  }
}
