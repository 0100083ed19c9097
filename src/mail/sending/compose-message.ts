/**
 * Writes a message (RFC 5322, MIME) from what an app gave. nodemailer's composer does the MIME; this file decides what
 * the header may contain, since everything in it is the app's text.
 */
import type { Readable } from 'node:stream';
import { encodeWord } from 'nodemailer/lib/mime-funcs';
import type MimeNode from 'nodemailer/lib/mime-node';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import { decodeWords, hasHidden, parseAddress } from '../../protocols/message/message.ts';
import { isWritablePath } from '../../protocols/smtp-client/smtp-client.ts';

/** Loaded at the first message, since it would take each start 0.1 s; kept, since each `import` takes time again. */
let library: Promise<typeof import('nodemailer/lib/mail-composer')> | undefined;

/** A person in a header field. */
export interface Correspondent {
  readonly name?: string;
  readonly address: string;
}

/** A file of a message; its bytes are read when the message is written. */
export interface ComposedAttachment {
  readonly filename?: string;
  readonly contentType: string;
  /** Without angle brackets; what HTML refers to as `cid:` (RFC 2392). */
  readonly contentId?: string;
  readonly inline?: boolean;
  readonly open: () => Readable;
}

export interface Composition {
  readonly from: Correspondent;
  readonly to: readonly Correspondent[];
  readonly cc: readonly Correspondent[];
  readonly bcc: readonly Correspondent[];
  readonly replyTo: readonly Correspondent[];
  readonly subject: string;
  readonly text?: string;
  readonly html?: string;
  readonly attachments: readonly ComposedAttachment[];
  /** Further fields, by name. */
  readonly headers: Readonly<Record<string, string>>;
  /** Message-IDs with angle brackets. */
  readonly inReplyTo?: string;
  readonly references?: readonly string[];
  /** With angle brackets; unique. */
  readonly messageId: string;
  readonly date: Date;
}

/** Recipients of one message, all fields together. */
export const RECIPIENTS_MAX = 100;
/** The most characters of a name, a subject, a further field. */
const NAME_MAX = 255;
const SUBJECT_MAX = 4_000;
/** RFC 2047 section 2: an encoded word has at most 75 characters, and a line with one at most 76. */
const ENCODED_MAX = 52;
const HEADER_MAX = 4_000;
/**
 * The most characters of the subject, the names and the addresses together, which need not be right in a draft: the composer
 * folds and encodes a field in one go, and would hold everybody for seconds with one of many megabytes.
 */
const HEADER_TEXT_MAX = 128 * 1024;
/** A line is folded only at white space, and has at most 998 octets (RFC 5322 section 2.1.1), a field name included. */
const UNFOLDABLE = /\S{900}/;
const HEADERS_MAX = 50;

/** RFC 5322 section 2.2: printable ASCII but the colon. */
const FIELD_NAME = /^[!-9;-~]{1,76}$/;
/** Line ends would begin another field; readers show other control characters in different ways. */
const CONTROL = /[\u0000-\u0008\u000a-\u001f\u007f\u0080-\u009f\u2028\u2029]/;
/** Any space except that of ASCII, which a quoted local part may have. */
const STRANGE_SPACE = /(?! )\p{Zs}/u;
/** Characters that show a text in another order than it is written (UAX 9 section 2.2); no language needs them. */
const OVERRIDE = /[\u202d\u202e]/;
export const NOT_HIDDEN =
  'must not hold invisible characters, or ones that turn the order of others';
const MEDIA_TYPE = /^[a-z\d!#$&^_.+-]{1,127}\/[a-z\d!#$&^_.+-]{1,127}$/i;

/** Fields of {@link Composition}: only the composer writes them. */
const OWN_FIELDS = new Set(
  'from sender to cc bcc reply-to subject date message-id in-reply-to references mime-version'.split(
    ' ',
  ),
);
/** Fields about how a message travels, where its errors go, and the results of checks. */
const TRACE_FIELDS = new Set(
  'return-path received delivered-to apparently-from errors-to dkim-signature authentication-results received-spf'.split(
    ' ',
  ),
);
const TRACE_PREFIX = /^(?:arc-|resent-|x-spam|x-rspamd?)/;

/** Whether only mail servers and their filters write a field: readers would trust it as theirs. */
export function isTraceField(name: string): boolean {
  return TRACE_FIELDS.has(name) || TRACE_PREFIX.test(name);
}

/**
 * Whether a message has a field once at most (RFC 5322 section 3.6, RFC 2045 section 3): of two, some readers show the
 * first, and others the last.
 */
export function isSingleField(name: string): boolean {
  return OWN_FIELDS.has(name) || name.startsWith('content-');
}

/**
 * Checks what an app gave, before anything is written.
 *
 * @throws Refusal `invalid_request` that names the field
 */
export function checkComposition(composition: Composition): void {
  checkCorrespondent('from', composition.from);
  for (const field of ['to', 'cc', 'bcc', 'replyTo'] as const) {
    for (const [index, one] of composition[field].entries()) {
      checkCorrespondent(`${field}.${index}`, one);
    }
  }
  const recipients = recipientsOf(composition).length;
  if (recipients === 0) throw invalidField('to', 'must name a recipient; so can cc and bcc');
  if (recipients > RECIPIENTS_MAX) {
    throw invalidField('to', `must have at most ${RECIPIENTS_MAX} recipients, with cc and bcc`);
  }
  checkLine('subject', composition.subject, SUBJECT_MAX);
  if (OVERRIDE.test(composition.subject)) {
    throw invalidField('subject', 'must not turn the order of its characters (U+202D, U+202E)');
  }
  checkDraft(composition);
}

/** Checks what a draft has to be right in: readers of a message that nobody got are the app's own. @throws as above */
export function checkDraft(composition: Composition): void {
  checkHeaderText(composition);
  const { headers, attachments } = composition;
  checkHeaders(headers);
  for (const [index, attachment] of attachments.entries())
    checkAttachment(`attachments.${index}`, attachment);
}

/**
 * Whether mail can be sent to or from an address: it is valid, has no hidden characters, and SMTP commands can contain
 * it.
 */
export function isSendable(address: string): boolean {
  if (hasHidden(address) || STRANGE_SPACE.test(address)) return false;
  return parseAddress(address) !== undefined && isWritablePath(address);
}

/** Whether readers can show a name as something else; some decode words even in quotes. */
export function isDeceptive(name: string): boolean {
  return hasHidden(name) || hasHidden(decodeWords(name));
}

function checkCorrespondent(field: string, { name, address }: Correspondent): void {
  if (!isSendable(address)) {
    const expected =
      'must be an e-mail address such as ada@example.com, without "<", ">" and invisible characters';
    throw invalidField(`${field}.address`, expected);
  }
  if (name === undefined) return;
  checkLine(`${field}.name`, name, NAME_MAX);
  if (isDeceptive(name)) throw invalidField(`${field}.name`, NOT_HIDDEN);
}

function checkLine(field: string, text: string, most: number): void {
  if (text.length > most) throw invalidField(field, `must have at most ${most} characters`);
  if (CONTROL.test(text)) throw invalidField(field, 'must be one line without control characters');
}

function checkHeaderText({ from, to, cc, bcc, replyTo, subject }: Composition): void {
  let length = subject.length;
  for (const { name = '', address } of [from, ...to, ...cc, ...bcc, ...replyTo])
    length += name.length + address.length;
  if (length <= HEADER_TEXT_MAX) return;
  const detail = `its subject, names and addresses have more than ${HEADER_TEXT_MAX} characters`;
  throw new Refusal('message_too_large', detail);
}

function checkHeaders(headers: Readonly<Record<string, string>>): void {
  const entries = Object.entries(headers);
  if (entries.length > HEADERS_MAX) {
    throw invalidField('headers', `must have at most ${HEADERS_MAX} fields`);
  }
  for (const [name, value] of entries) {
    const field = `headers.${name.slice(0, NAME_MAX)}`;
    if (!FIELD_NAME.test(name)) {
      throw invalidField(field, 'must be a field name: printable ASCII without spaces and colons');
    }
    const lower = name.toLowerCase();
    if (isTraceField(lower)) {
      throw invalidField(field, 'is written by mail servers; leave it out');
    }
    if (isSingleField(lower)) {
      throw invalidField(field, 'is written by Postroom; use the member of the request instead');
    }
    checkLine(field, value, HEADER_MAX);
  }
}

function checkAttachment(field: string, attachment: ComposedAttachment): void {
  const { filename, contentType, contentId } = attachment;
  if (filename !== undefined) checkLine(`${field}.filename`, filename, NAME_MAX);
  if (!MEDIA_TYPE.test(contentType)) {
    throw invalidField(`${field}.contentType`, 'must be a media type such as text/csv');
  }
  // Only the composer writes the structure of the message.
  if (/^(?:multipart|message)\//i.test(contentType)) {
    throw invalidField(`${field}.contentType`, 'must not be multipart or message');
  }
  // Also what RFC 5322 section 3.6.4 quotes: mail that is forwarded has such ones.
  if (contentId !== undefined && !/^[!-;=?-~]{1,200}$/.test(contentId)) {
    throw invalidField(`${field}.contentId`, 'must be a Content-ID without angle brackets');
  }
}

/** All recipients, each once, in the order of the fields. */
export function recipientsOf({ to, cc, bcc }: Pick<Composition, 'to' | 'cc' | 'bcc'>): string[] {
  const seen = new Map<string, string>();
  for (const { address } of [...to, ...cc, ...bcc]) {
    const parsed = parseAddress(address);
    if (!parsed) continue;
    // Only the receiver may ignore the case of the local part (RFC 5321 section 2.4).
    seen.set(`${parsed.local}@${parsed.domain}`, address);
  }
  return [...seen.values()];
}

/** A message as it is written. */
export interface Composed {
  /** With CRLF line ends, including Bcc, which is removed when it is sent. */
  readonly source: Readable;
  /** Part numbers of the attachments, in their order. */
  readonly parts: readonly string[];
}

/** Writes a message that {@link checkComposition} has accepted. */
export async function composeMessage(composition: Composition): Promise<Composed> {
  library ??= import('nodemailer/lib/mail-composer');
  const { default: MailComposer } = await library;
  const { from, to, cc, bcc, replyTo, subject, text, html, attachments } = composition;
  const { headers, inReplyTo, references, messageId, date } = composition;
  const files = attachments.map(({ open }) => open());
  const composer = new MailComposer({
    from: writeAddress(from),
    to: to.map(writeAddress),
    cc: cc.map(writeAddress),
    bcc: bcc.map(writeAddress),
    replyTo: replyTo.map(writeAddress),
    subject: writeSubject(subject),
    ...(text !== undefined && { text }),
    ...(html !== undefined && { html }),
    attachments: attachments.map(({ filename, contentType, contentId, inline }, index) => ({
      content: files[index],
      contentType,
      filename: filename ?? false,
      contentDisposition: inline === true ? 'inline' : 'attachment',
      ...(contentId !== undefined && { cid: contentId }),
    })),
    headers: Object.entries(headers).map(([key, value]) => ({
      key,
      value: UNFOLDABLE.test(value) ? encodeText(value) : value,
    })),
    ...(inReplyTo !== undefined && { inReplyTo }),
    ...(references !== undefined && references.length > 0 && { references: [...references] }),
    messageId,
    date,
    newline: 'windows',
    // A composition must never read our files or URLs.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const message = composer.compile();
  message.keepBcc = true;
  const numbers = new Map(numberLeaves(message));
  const parts = files.map((file) => numbers.get(file) ?? '');
  return { source: message.createReadStream(), parts };
}

/** The contents of a message by the numbers that IMAP gives them (RFC 9051 section 6.4.5). */
function* numberLeaves(
  { content, childNodes }: MimeNode,
  number = '',
): Generator<[unknown, string]> {
  if (childNodes.length === 0) yield [content, number || '1'];
  for (const [index, child] of childNodes.entries())
    yield* numberLeaves(child, `${number && `${number}.`}${index + 1}`);
}

/**
 * The composer would treat text that looks like an encoded word as one. Here it is text, so it has to be encoded to
 * arrive unchanged (RFC 2047 section 5).
 */
function writeSubject(subject: string): string {
  return subject.includes('=?') || UNFOLDABLE.test(subject) ? encodeText(subject) : subject;
}

/** Encoded words, between which a line is folded (RFC 2047 section 2). */
function encodeText(text: string): string {
  return encodeWord(text, 'B', ENCODED_MAX);
}

function writeAddress({ name, address }: Correspondent) {
  return { name: name ?? '', address };
}
