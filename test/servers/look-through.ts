/** What IMAP does for delivery, with a connection for each question: for suites on delivery alone. */
import { ImapFlow } from 'imapflow';
import type { ServerDeliveryOptions } from '../../src/mailboxes/mail-server/mail-server.ts';
import type { MailServer } from './mail-server.ts';

/** Where a mail server is, and how to log in as an account. */
export type Reachable = Pick<MailServer, 'host' | 'imapPort' | 'loginAs'>;

/** Works on one mailbox of an account. */
export async function inMailbox<T>(
  { host, imapPort: port, loginAs }: Reachable,
  address: string,
  mailbox: string,
  work: (client: ImapFlow) => Promise<T>,
): Promise<T> {
  const auth = loginAs(address);
  const client = new ImapFlow({ host, port, secure: false, auth, logger: false });
  client.on('error', () => {});
  await client.connect();
  try {
    await client.mailboxOpen(mailbox);
    return await work(client);
  } finally {
    await client.logout().catch(() => client.close());
  }
}

/** Sources of all messages in a mailbox. */
export function readSources(
  server: Reachable,
  address: string,
  mailbox = 'INBOX',
): Promise<string[]> {
  return inMailbox(server, address, mailbox, async (client) => {
    const sources: string[] = [];
    for await (const { source } of client.fetch('1:*', { source: true })) {
      sources.push(source?.toString('latin1') ?? '');
    }
    return sources;
  });
}

/** The IMAP side of delivery. */
export function imapSide(
  server: Reachable,
): Pick<ServerDeliveryOptions['imap'], 'hasReceived' | 'appendByImap'> {
  return {
    hasReceived: ({ address }, mailbox, id) =>
      inMailbox(server, address, mailbox, async (client) => {
        const found = await client.search({ header: { received: id } }, { uid: true });
        return Array.isArray(found) && found.length > 0;
      }),
    appendByImap: ({ address }, mailbox, { open, flags, internalDate }) =>
      inMailbox(server, address, 'INBOX', async (client) => {
        const source = Buffer.concat(await Array.fromAsync(open()));
        const at = internalDate === undefined ? undefined : new Date(internalDate);
        await client.append(mailbox, source, [...flags], at);
      }),
  };
}
