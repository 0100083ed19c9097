/** The JSON of a webhook: the description of a message for a route's URL, cut to its size limit. */
import { Buffer } from 'node:buffer';
import type { EpochMs } from '../../platform/time/time.ts';
import {
  listAttachments,
  type Mailbox,
  type OpenSource,
  type ParsedMessage,
  readInlineText,
} from '../../protocols/message/message.ts';

/** The results of the sender checks; null where they were not made. */
export interface AuthVerdicts {
  readonly spf: string | null;
  readonly dkim: string | null;
  readonly dmarc: string | null;
}

export interface WebhookMessage {
  readonly domain: string;
  /** The SMTP envelope: `to` has recipients of this domain only, never those of another tenant. */
  readonly envelope: { readonly from: string; readonly to: readonly string[] };
  readonly parsed: Pick<ParsedMessage, 'envelope' | 'structure'>;
  readonly auth: AuthVerdicts;
  /** See {@link signLink}. */
  readonly rawUrl: string;
  readonly partUrl: (part: string) => string;
  /** The mailbox that stores the message as well, after the first attempt; null where it is not stored. */
  readonly mailbox: string | null;
  /** The id in the answer to the client that brought the message. */
  readonly mailId: string;
  /** When the message was accepted. */
  readonly receivedAt: EpochMs;
}

/** The most bytes of a body. */
const BODY_MAX = 1_000_000;
/** The most bytes of JSON for each field; text and html share the rest. */
const SUBJECT_MAX = 8_000;
const MESSAGE_ID_MAX = 4_000;
const SENDER_MAX = 4_000;
const RECIPIENTS_MAX = 200_000;
const ADDRESSES_MAX = 60_000;
const ATTACHMENTS_MAX = 150_000;
/** Room for the flags that report what was cut. */
const FLAGS_MAX = 200;

/**
 * Builds the body of a webhook from a message that is stored or about to be: JSON, always less than 1 MB in UTF-8.
 * What does not fit is cut, and the body says so: `text_truncated`, `html_truncated`, `attachments_truncated`,
 * `addresses_truncated`.
 *
 * `text` holds the text/plain and `html` the text/html parts that are not attachments, null where
 * there are none; every other part is listed in `attachments`. Lines end in LF.
 *
 * @param open reads a range of the source
 */
export async function buildWebhookBody(message: WebhookMessage, open: OpenSource): Promise<string> {
  const { structure } = message.parsed;
  const text = await readInlineText(structure, 'text/plain', BODY_MAX, open);
  const html = await readInlineText(structure, 'text/html', BODY_MAX, open);
  const { head, tail } = describe(message);
  const rest = BODY_MAX - FLAGS_MAX - jsonSize({ ...head, ...tail });
  const textSize = jsonSize(text.text);
  const htmlSize = jsonSize(html.text);
  // Each gets half, and what the other does not use.
  const half = Math.floor(rest / 2);
  const textFits = cutToJson(text.text, Math.max(half, rest - htmlSize));
  const htmlFits = cutToJson(html.text, Math.max(half, rest - Math.min(textSize, half)));
  const body = JSON.stringify({
    type: 'message.received',
    timestamp: new Date(message.receivedAt).toISOString(),
    data: {
      ...head,
      text: textFits.text,
      ...(text.truncated || textFits.cut ? { text_truncated: true } : {}),
      html: htmlFits.text,
      ...(html.truncated || htmlFits.cut ? { html_truncated: true } : {}),
      ...tail,
    },
  });
  if (Buffer.byteLength(body) >= BODY_MAX) throw new Error('a webhook body is too large');
  return body;
}

/** Everything except text and html, within its limits. */
function describe(message: WebhookMessage) {
  const { domain, envelope, parsed, auth, rawUrl, partUrl, mailbox } = message;
  const header = parsed.envelope;
  const recipients = fitToJson(envelope.to, RECIPIENTS_MAX);
  const from = fitToJson(mailboxes(header.from), ADDRESSES_MAX);
  const to = fitToJson(mailboxes(header.to), ADDRESSES_MAX);
  const cc = fitToJson(mailboxes(header.cc), ADDRESSES_MAX);
  const attachments = fitToJson(
    listAttachments(parsed.structure).map(({ filename, contentType, size, part }) => {
      const url = partUrl(part);
      return { filename: filename ?? null, content_type: contentType, size, part, url };
    }),
    ATTACHMENTS_MAX,
  );
  const addressesCut = [recipients, from, to, cc].some(({ cut }) => cut);
  const head = {
    domain,
    envelope: { from: cutToJson(envelope.from, SENDER_MAX).text, to: recipients.items },
    subject: cutToJson(header.subject, SUBJECT_MAX).text,
    from: from.items,
    to: to.items,
    cc: cc.items,
    ...(addressesCut ? { addresses_truncated: true } : {}),
    date: header.date ?? null,
    message_id: cutToJson(header.messageId ?? null, MESSAGE_ID_MAX).text,
  };
  const tail = {
    attachments: attachments.items,
    ...(attachments.cut ? { attachments_truncated: true } : {}),
    auth: { spf: auth.spf, dkim: auth.dkim, dmarc: auth.dmarc },
    raw_url: rawUrl,
    mail_id: message.mailId,
    mailbox,
  };
  return { head, tail };
}

function mailboxes(list: readonly Mailbox[] | undefined): Mailbox[] {
  return (list ?? []).map(({ name, address }) => ({ name, address }));
}

/* Makes values fit into a number of bytes of JSON in UTF-8. */

/** Bytes of a value as JSON. */
export function jsonSize(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** Bytes that one UTF-16 code unit takes in JSON (RFC 8259 section 7); half a pair takes half. */
function unitSize(unit: number): number {
  // " and \
  if (unit === 0x22 || unit === 0x5c) return 2;
  if (unit < 0x20) return '\b\t\n\f\r'.includes(String.fromCharCode(unit)) ? 2 : 6;
  if (unit < 0x80) return 1;
  if (unit < 0x800) return 2;
  return unit >= 0xd800 && unit <= 0xdfff ? 2 : 3;
}

/**
 * The longest start of a text that fits into so many bytes as JSON, quotes included; characters are not split. Halves
 * of surrogate pairs become U+FFFD. Null stays null.
 */
export function cutToJson(
  given: string | null,
  most: number,
): { readonly text: string | null; readonly cut: boolean } {
  if (given === null) return { text: null, cut: false };
  const text = given.toWellFormed();
  // No code unit takes more than 6 bytes.
  if (text.length * 6 + 2 <= most || jsonSize(text) <= most) return { text, cut: false };
  let size = 2;
  let end = 0;
  for (; end < text.length; end++) {
    size += unitSize(text.charCodeAt(end));
    if (size > most) break;
  }
  return { text: text.slice(0, end).replace(/[\ud800-\udbff]$/, ''), cut: true };
}

/** The first of the items that together fit into so many bytes as a JSON array. */
export function fitToJson<T>(
  items: readonly T[],
  most: number,
): { readonly items: readonly T[]; readonly cut: boolean } {
  let size = 2;
  for (const [index, item] of items.entries()) {
    size += jsonSize(item) + 1;
    if (size > most) return { items: items.slice(0, index), cut: true };
  }
  return { items, cut: false };
}
