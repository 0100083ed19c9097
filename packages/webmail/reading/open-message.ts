/** A message that was read, with what is shown of it. */

import type { MailboxHandle, MailMessage, ReadMessage } from '../../sdk/src/mail/client.ts';
import { readMailto } from '../compose/mailto.ts';
import { type Account, write } from '../state/parts.ts';
import { readPictures, type SortedFiles, sortFiles } from './files.ts';

export interface OpenMessage extends SortedFiles {
  readonly mailbox: MailboxHandle;
  readonly read: ReadMessage;
  /** `data:` URLs by Content-ID. */
  readonly images: Readonly<Record<string, string>>;
  /** Somebody pressed an address: a `mailto:` URL. */
  writeTo(url: string): void;
}

/** What is opened beside a message. */
export interface BesideProps {
  readonly open: OpenMessage;
  readonly close: () => void;
}

export async function openMessage(account: Account, message: MailMessage): Promise<OpenMessage> {
  const mailbox = account.client.mailbox(message.mailbox);
  const read = await mailbox.read(message.id);
  const files = sortFiles(read);
  return {
    ...files,
    get mailbox() {
      return account.client.mailbox(message.mailbox);
    },
    read,
    images: await readPictures(mailbox, read, files.pictures),
    writeTo: (url) => write({ kind: 'new', account, ...readMailto(url) }),
  };
}
