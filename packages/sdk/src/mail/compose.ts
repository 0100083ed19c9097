/** Mail of the user as the API takes it: a send as JSON, a draft as a message (RFC 5322, MIME). */
import type { Copy } from './copy.ts';
import { oneLine, people, type WrittenFile, words, writeMessage } from './mime.ts';
import { findNamed, locate, locateLeft } from './named.ts';
import { toError } from './operation.ts';
import type { OperationRow, StoredAttachment } from './rows.ts';
import type { MailServer } from './server.ts';

/** The body of `POST /mail/send`, with the names of blobs in place of the bytes of files. */
export function writeSend(operation: OperationRow, copy: Copy): Record<string, unknown> {
  const { mail, undoSeconds } = operation;
  const { draft, inReplyTo, attachments, ...rest } = mail ?? {};
  const files = attachments?.map(({ from, size: _, ...attachment }) =>
    from ? { ...attachment, ...locate(from, copy), part: from.part } : attachment,
  );
  return {
    ...rest,
    // What it answers may be gone; the mail goes all the same.
    draft: draft && locateLeft(draft, copy),
    inReplyTo: inReplyTo && locateLeft(inReplyTo, copy),
    attachments: files,
    // 0 is left out: the server takes no delay beside `sendAt`.
    delaySeconds: undoSeconds || undefined,
  };
}

/** The source of a draft; the same each time it is written. */
export async function writeDraft(
  { mail = {}, id, shown }: OperationRow,
  copy: Copy,
  server: MailServer,
): Promise<Blob> {
  const { from = { address: copy.address }, to, cc, bcc, replyTo, subject = '', text, html } = mail;
  const answered = (await findNamed(mail.inReplyTo, copy))?.envelope.messageId;
  const date = new Date(shown?.[0]?.internalDate ?? '');
  const fields = [
    ...people('From', [from]),
    ...people('To', to),
    ...people('Cc', cc),
    ...people('Bcc', bcc),
    ...people('Reply-To', replyTo),
    `Subject: ${words(subject)}`,
    `Date: ${date.toUTCString().replace('GMT', '+0000')}`,
    ...(answered ? [`In-Reply-To: ${oneLine(answered)}`, `References: ${oneLine(answered)}`] : []),
  ];
  const files: WrittenFile[] = [];
  for (const file of mail.attachments ?? [])
    files.push({ ...file, bytes: await readFile(file, copy, server) });
  const source = writeMessage(fields, { text, html, files, boundary: id });
  return new Blob([source], { type: 'message/rfc822' });
}

/** From the store; a part of another message is fetched, as a draft holds all of its files. */
async function readFile(
  { blob, from }: StoredAttachment,
  copy: Copy,
  server: MailServer,
): Promise<Uint8Array> {
  const bytes = await copy.bytes(blob);
  if (bytes) return bytes;
  const located = from && locateLeft(from, copy);
  // As the server says it.
  if (!located)
    throw toError({ status: 404, code: 'message_not_found', detail: 'the file is gone' });
  const { mailbox, uid } = located;
  const query = { mailbox, uid, part: from.part };
  const part = await server.call('GET /mail/attachment', { query });
  return new Uint8Array(await part.arrayBuffer());
}
