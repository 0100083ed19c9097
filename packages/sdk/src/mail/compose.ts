/** Mail of the user as the API takes it, whether it is sent or a draft. */
import type { Copy } from './copy.ts';
import { findFile, follow, locate, locateLeft } from './named.ts';
import { toError } from './operation.ts';
import type { OperationRow } from './rows.ts';

/** The type of bytes that nothing is known of. */
export const BINARY = 'application/octet-stream';

/** The body of `POST /mail/send` or `POST /mail/drafts`, with the names of blobs in place of the bytes of files. */
export function writeMail(operation: OperationRow, copy: Copy): Record<string, unknown> {
  const { kind, mail, undoSeconds } = operation;
  const { draft, inReplyTo, attachments, sendAt, ...rest } = mail ?? {};
  const files = attachments?.map((file) => {
    const { from, blob, size: _, before: __, ...attachment } = findFile(file, copy);
    return from
      ? { ...attachment, ...locate(follow(from, copy), copy), part: from.part }
      : { ...attachment, blob };
  });
  return {
    ...rest,
    // What it answers may be gone; the mail goes all the same.
    draft: draft && locateLeft(draft, copy),
    inReplyTo: inReplyTo && locateLeft(follow(inReplyTo, copy), copy),
    attachments: files,
    // A draft goes at no time. 0 is left out: the server takes no delay beside `sendAt`.
    ...(kind === 'send' && { sendAt, delaySeconds: undoSeconds || undefined }),
  };
}

/** Puts the bytes of its files into it, which are not stored twice. */
export async function withFiles(
  body: Readonly<Record<string, unknown>>,
  { kind }: OperationRow,
  copy: Copy,
): Promise<Record<string, unknown>> {
  const attachments = (body.attachments ?? []) as readonly Record<string, unknown>[];
  const filled = attachments.map(async ({ blob, ...attachment }) => {
    if (typeof blob !== 'string') return attachment;
    const bytes = await copy.bytes(blob);
    if (bytes) return { ...attachment, content: toBase64(bytes) };
    // It was lost with the store that had it: mail waits, since the next start may find it. Of a draft it is told.
    throw kind === 'send'
      ? new Error('the file is gone')
      : toError({ status: 404, code: 'message_not_found', detail: 'the file is gone' });
  });
  return { ...body, attachments: await Promise.all(filled) };
}

export function toBase64(bytes: Uint8Array): string {
  let text = '';
  // A call takes only so many arguments.
  for (let at = 0; at < bytes.length; at += 8192) {
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return btoa(text);
}
