/** Mail of the user as the API takes it: a send as JSON, a draft as a message (RFC 5322, MIME). */
import type { SendMessageBody } from '../api-types.ts';
import type { Copy } from './copy.ts';
import { findNamed, locate, locateLeft } from './named.ts';
import { toError } from './operation.ts';
import type { OperationRow, StoredAttachment, StoredError } from './rows.ts';
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

type People = SendMessageBody['to'];

/** The source of a draft; the same each time it is written. */
export async function writeDraft(
  { mail = {}, id, shown }: OperationRow,
  copy: Copy,
  server: MailServer,
): Promise<Blob> {
  const { from, to, cc, bcc, replyTo, subject = '', text, html, attachments = [] } = mail;
  const answered = (await findNamed(mail.inReplyTo, copy))?.envelope.messageId;
  const date = shown?.[0]?.internalDate ?? '';
  const fields = [
    ...people('From', from ? [from] : [{ address: copy.address }]),
    ...people('To', to),
    ...people('Cc', cc),
    ...people('Bcc', bcc),
    ...people('Reply-To', replyTo),
    `Subject: ${encodeWords(subject)}`,
    `Date: ${new Date(date).toUTCString().replace('GMT', '+0000')}`,
    ...(answered ? [`In-Reply-To: ${oneLine(answered)}`, `References: ${oneLine(answered)}`] : []),
    'MIME-Version: 1.0',
  ];
  const bodies = [
    ...(html === undefined || text !== undefined ? [textPart('plain', text ?? '')] : []),
    ...(html === undefined ? [] : [textPart('html', html)]),
  ];
  const body = bodies.length === 1 ? (bodies[0] ?? []) : multipart('alternative', `${id}a`, bodies);
  const files = [];
  for (const file of attachments) files.push(filePart(file, await readFile(file, copy, server)));
  const whole = files.length === 0 ? body : multipart('mixed', `${id}m`, [body, ...files]);
  return new Blob([[...fields, ...whole, ''].join('\r\n')], { type: 'message/rfc822' });
}

function multipart(
  kind: string,
  boundary: string,
  parts: readonly (readonly string[])[],
): string[] {
  const inside = parts.flatMap((part) => [`--=_${boundary}`, ...part]);
  return [
    `Content-Type: multipart/${kind}; boundary="=_${boundary}"`,
    '',
    ...inside,
    `--=_${boundary}--`,
  ];
}

function textPart(kind: string, text: string): string[] {
  const bytes = new TextEncoder().encode(text.replace(/\r?\n/g, '\r\n'));
  return [`Content-Type: text/${kind}; charset=utf-8`, ...inBase64(bytes)];
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
  if (!located) throw toError(GONE);
  const { mailbox, uid } = located;
  const query = { mailbox, uid, part: from.part };
  const part = await server.call('GET /mail/attachment', { query });
  return new Uint8Array(await part.arrayBuffer());
}

/** As the server says it. */
const GONE: StoredError = {
  status: 404,
  code: 'message_not_found',
  detail: 'the file is gone',
};

function filePart(file: StoredAttachment, bytes: Uint8Array): string[] {
  const { contentType = '', filename = 'file', contentId, inline } = file;
  // RFC 2231: a name of any characters.
  const name = encodeURIComponent(filename).replace(/['()*!]/g, escapeByte);
  return [
    `Content-Type: ${/^[\w.+-]+\/[\w.+-]+$/.test(contentType) ? contentType : 'application/octet-stream'}`,
    `Content-Disposition: ${inline ? 'inline' : 'attachment'}; filename*=utf-8''${name}`,
    ...(contentId ? [`Content-ID: <${oneLine(contentId).replace(/[<>\s]/g, '')}>`] : []),
    ...inBase64(bytes),
  ];
}

function inBase64(bytes: Uint8Array): string[] {
  return [
    'Content-Transfer-Encoding: base64',
    '',
    toBase64(bytes).replace(/.{76}(?=.)/g, '$&\r\n'),
  ];
}

function people(name: string, addresses: People): string[] {
  const written = (addresses ?? []).map(({ name: person, address }) =>
    // A comma in a name without quotes would make two names of it.
    person ? `${encodeWords(person, /^[\w ]{1,60}$/)} <${oneLine(address)}>` : oneLine(address),
  );
  return written.length === 0 ? [] : [`${name}: ${written.join(',\r\n ')}`];
}

/** Text of a header field in encoded words (RFC 2047), each at most 75 characters. */
function encodeWords(text: string, plainText = /^[\w .,:!'-]{0,60}$/): string {
  const plain = oneLine(text);
  if (plainText.test(plain)) return plain;
  // Ten characters are at most 40 bytes of UTF-8, so no word splits a character.
  const pieces = plain.match(/.{1,10}/gsu) ?? [];
  return pieces
    .map((piece) => `=?utf-8?B?${toBase64(new TextEncoder().encode(piece))}?=`)
    .join('\r\n ');
}

const oneLine = (text: string) => text.replace(/\p{Cc}+/gu, ' ').trim();

const escapeByte = (character: string) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`;

export function toBase64(bytes: Uint8Array): string {
  let text = '';
  // A call takes only so many arguments.
  for (let at = 0; at < bytes.length; at += 8192) {
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return btoa(text);
}
