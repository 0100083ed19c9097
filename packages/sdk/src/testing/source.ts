/** Messages as bytes: written from their members, and read again. Enough of MIME for tests, not for mail of the world. */
import type { Address, Attachment, Envelope } from '../api-types.ts';
import { BINARY, toBase64 } from '../mail/compose.ts';

/** A message to write. */
export interface NewMail {
  readonly from?: Address;
  readonly to?: readonly Address[];
  readonly cc?: readonly Address[];
  readonly bcc?: readonly Address[];
  readonly subject?: string;
  readonly text?: string;
  readonly html?: string;
  readonly attachments?: readonly NewAttachment[];
  /** With angle brackets; one is made when left out. */
  readonly messageId?: string;
  /** Of earlier messages, with angle brackets, the answered one last. */
  readonly references?: readonly string[];
  /** Milliseconds since 1970. */
  readonly date?: number;
  /** Other fields of the header, such as `List-Unsubscribe`. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A file of a message that comes in. */
export interface NewAttachment {
  readonly filename?: string;
  readonly contentType?: string;
  readonly content: Uint8Array | string;
  readonly contentId?: string;
  readonly inline?: boolean;
}

/** A message, read. */
export interface ReadMail {
  readonly source: Uint8Array;
  readonly envelope: Envelope;
  /** Message-IDs of earlier messages, the first of the conversation first. */
  readonly references: readonly string[];
  readonly text?: string;
  readonly html?: string;
  readonly preview: string;
  readonly attachments: readonly Attachment[];
  /** Bytes of the parts, by number. */
  readonly parts: ReadonlyMap<string, Uint8Array>;
}

const utf8 = new TextEncoder();
const toBytes = (binary: string) => Uint8Array.from(binary, (one) => one.charCodeAt(0));
const toBinary = (bytes: Uint8Array) =>
  Array.from(bytes, (one) => String.fromCharCode(one)).join('');
const decode = (binary: string) => new TextDecoder().decode(toBytes(binary));

/** Writes a message, whose header is UTF-8 (RFC 6532). */
export function writeMail(mail: NewMail): Uint8Array {
  const { date, messageId, references = [], subject, text, html, attachments = [] } = mail;
  const header = {
    From: people(mail.from && [mail.from]),
    To: people(mail.to),
    Cc: people(mail.cc),
    Bcc: people(mail.bcc),
    Subject: subject,
    Date: date === undefined ? '' : new Date(date).toUTCString(),
    'Message-ID': messageId,
    'In-Reply-To': references.at(-1),
    References: references.join(' '),
    ...mail.headers,
  };
  const fields = Object.entries(header).flatMap(([name, value]) =>
    value ? `${name}: ${oneLine(value)}` : [],
  );
  const texts = [
    ...(html === undefined || text !== undefined ? [textPart('plain', text ?? '')] : []),
    ...(html === undefined ? [] : [textPart('html', html)]),
  ];
  const body = multipart('alternative', texts);
  const whole = multipart('mixed', [body, ...attachments.map(filePart)]);
  return utf8.encode([...fields, 'MIME-Version: 1.0', ...whole, ''].join('\r\n'));
}

const oneLine = (text: string) => text.replace(/\p{Cc}+/gu, ' ').trim();

function people(addresses: readonly Address[] = []): string {
  const written = addresses.map(({ name, address = '' }) =>
    name ? `"${name.replaceAll(/["\\]/g, '\\$&')}" <${address}>` : address,
  );
  return written.join(', ');
}

function multipart(kind: string, parts: readonly string[][]): string[] {
  const [first = []] = parts;
  if (parts.length === 1) return first;
  const boundary = `=_fake_${kind}`;
  return [
    `Content-Type: multipart/${kind}; boundary="${boundary}"`,
    '',
    ...parts.flatMap((part) => [`--${boundary}`, ...part]),
    `--${boundary}--`,
  ];
}

function textPart(kind: string, text: string): string[] {
  const bytes = utf8.encode(text.replace(/\r?\n/g, '\r\n'));
  return [`Content-Type: text/${kind}; charset=utf-8`, ...inBase64(bytes)];
}

function filePart(file: NewAttachment): string[] {
  const { content, contentType = BINARY, filename = 'file', contentId, inline } = file;
  // RFC 2231: a name of any characters.
  const name = encodeURIComponent(filename);
  return [
    `Content-Type: ${oneLine(contentType)}`,
    `Content-Disposition: ${inline ? 'inline' : 'attachment'}; filename*=utf-8''${name}`,
    ...(contentId ? [`Content-ID: <${oneLine(contentId)}>`] : []),
    ...inBase64(typeof content === 'string' ? utf8.encode(content) : content),
  ];
}

function inBase64(bytes: Uint8Array): string[] {
  const lines = toBase64(bytes).replace(/.{76}(?=.)/g, '$&\r\n');
  return ['Content-Transfer-Encoding: base64', '', lines];
}

interface Leaf extends Attachment {
  readonly isText: boolean;
  readonly bytes: string;
}

/** Reads a message whose text and encoded words (RFC 2047) are UTF-8, as they are or as base64. */
export function readMail(source: Uint8Array): ReadMail {
  const { fields, body } = splitHeader(toBinary(source));
  const leaves = readLeaves(fields, body, '');
  const textOf = (type: string) => leaves.find((leaf) => leaf.isText && leaf.contentType === type);
  const [plain, html] = [textOf('text/plain'), textOf('text/html')];
  const linesOf = ({ bytes }: Leaf) => decode(bytes).replaceAll('\r\n', '\n');
  const own = plain && toPreview(linesOf(plain).replaceAll(/^>.*$/gm, ''));
  const ids = (name: string) => fields.get(name)?.match(/<[^<>\s]+>/g) ?? [];
  return {
    source,
    envelope: readEnvelope(fields),
    references: [...new Set([...ids('references'), ...ids('in-reply-to')])],
    ...(plain && { text: linesOf(plain) }),
    ...(html && { html: linesOf(html) }),
    preview: own || (html ? toPreview(linesOf(html).replaceAll(/<[^>]*>/g, ' ')) : ''),
    attachments: leaves
      .filter((leaf) => leaf !== plain && leaf !== html)
      .map(({ isText, bytes, ...attachment }) => attachment),
    parts: new Map(leaves.map(({ part, bytes }) => [part, toBytes(bytes)])),
  };
}

const toPreview = (text: string) => text.replaceAll(/\s+/g, ' ').trim().slice(0, 200);

type Fields = ReadonlyMap<string, string>;

function splitHeader(text: string): { fields: Fields; body: string } {
  const [whole = '', header = ''] = /^((?:[^\r\n]+\r?\n)*)\r?\n?/.exec(text) ?? [];
  const fields = new Map<string, string>();
  for (const line of header.replaceAll(/\r?\n(?=[ \t])/g, '').split(/\r?\n/)) {
    const [, name = '', value = ''] = /^([^:]+):(.*)$/.exec(line) ?? [];
    if (!fields.has(name.toLowerCase())) fields.set(name.toLowerCase(), decode(value).trim());
  }
  return { fields, body: text.slice(whole.length) };
}

const ENCODED = /=\?utf-8\?b\?([^?]*)\?=(?:\s+(?==\?))?/gi;
const readWords = (text: string) =>
  text.replaceAll(ENCODED, (_, base64: string) => decode(atob(base64)));

/** The value of `type; name="value"` without its parameters, and one of these. */
const plainOf = (field = '') => (field.split(';', 1)[0] ?? '').trim().toLowerCase();
function parameterOf(field = '', name: string): string | undefined {
  const [, quoted, plain] =
    new RegExp(`;\\s*${name}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^;\\s]*))`, 'i').exec(field) ?? [];
  return quoted?.replaceAll(/\\(.)/g, '$1') ?? plain;
}

function readLeaves(fields: Fields, body: string, number: string): Leaf[] {
  const [written = 'text/plain', placed] = [
    fields.get('content-type'),
    fields.get('content-disposition'),
  ];
  const contentType = plainOf(written);
  const boundary = parameterOf(written, 'boundary');
  if (contentType.startsWith('multipart/') && boundary !== undefined) {
    const [, ...parts] = `\r\n${body}`.split(`\r\n--${boundary}`);
    return parts
      .filter((part) => !part.startsWith('--'))
      .flatMap((part, index) => {
        const child = splitHeader(part.replace(/^[ \t]*\r\n/, ''));
        return readLeaves(child.fields, child.body, `${number && `${number}.`}${index + 1}`);
      });
  }
  const isEncoded = plainOf(fields.get('content-transfer-encoding')) === 'base64';
  const bytes = isEncoded ? atob(body.replaceAll(/[^A-Za-z\d+/]/g, '')) : body;
  const encoded = parameterOf(placed, 'filename\\*')?.replace(/^utf-8''/i, '');
  const filename =
    encoded === undefined
      ? (parameterOf(placed, 'filename') ?? parameterOf(written, 'name'))
      : decodeURIComponent(encoded);
  const contentId = fields.get('content-id')?.replaceAll(/^<|>$/g, '');
  const inline = plainOf(placed) === 'inline' || (placed === undefined && contentId !== undefined);
  return [
    {
      part: number || '1',
      ...(filename !== undefined && { filename }),
      contentType,
      size: bytes.length,
      ...(contentId !== undefined && { contentId }),
      inline,
      isText: plainOf(placed) !== 'attachment' && filename === undefined,
      bytes,
    },
  ];
}

function readEnvelope(fields: Fields): Envelope {
  const date = Date.parse(fields.get('date') ?? '');
  const envelope: Envelope = { subject: readWords(fields.get('subject') ?? '') };
  if (!Number.isNaN(date)) envelope.date = new Date(date).toISOString();
  for (const key of ['from', 'sender', 'to', 'cc', 'bcc'] as const) {
    const list = fields.get(key)?.match(/(?:"(?:[^"\\]|\\.)*"|[^,"])+/g);
    if (list) envelope[key] = list.map(readAddress);
  }
  const [messageId, inReplyTo] = [fields.get('message-id'), fields.get('in-reply-to')];
  if (inReplyTo) envelope.inReplyTo = inReplyTo;
  if (messageId) envelope.messageId = messageId;
  return envelope;
}

function readAddress(text: string): Address {
  const [, written = '', address = text.trim()] = /^(.*?)<([^<>]*)>\s*$/s.exec(text.trim()) ?? [];
  const name = readWords(written.trim()).replaceAll(/^"|"$/g, '').replaceAll(/\\(.)/g, '$1');
  return { name, address };
}
