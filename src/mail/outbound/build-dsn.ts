/**
 * Delivery status notifications (RFC 3464): a text for people, the status of each recipient for programs, and the
 * header of the message for both. Where an address or the header is UTF-8, the types of RFC 6533 are used.
 */
import { isUtf8 } from 'node:buffer';
import type { EpochMs } from '../../platform/time/time.ts';
import {
  canonicalAddress,
  fieldValue,
  formatDate,
  type Header,
  type HeaderField,
  oneLine,
  parseAddress,
  readEnvelope,
} from '../../protocols/message/message.ts';
import { isInternationalized } from '../../protocols/smtp-client/smtp-client.ts';
import type { DkimKey } from '../../tenants/domains/domains.ts';
import type { SendError } from './outcome.ts';
import { type PreparedMessage, prepareOwn, toWire } from './prepare-forward.ts';

export interface RecipientStatus {
  /**
   * The address that the sender wrote to. The address that it was forwarded to is not revealed (RFC 3464 section
   * 4.2).
   */
  readonly recipient: string;
  /** Where it was forwarded to: removed from the far end's reply. */
  readonly forwardedTo?: string | undefined;
  readonly error: SendError;
  readonly lastAttempt?: EpochMs;
}

export interface DsnOptions {
  /** Our host name: the reporting MTA. */
  readonly hostname: string;
  /** The domain that the message came to: the DSN is from its postmaster and signed with its key. */
  readonly domain: string;
  /** Absent: not signed. */
  readonly dkimKey?: DkimKey | undefined;
  /** Original envelope sender; {@link mayBounce} has allowed it. */
  readonly sender: string;
  readonly recipients: readonly RecipientStatus[];
  /** Header of the original message. */
  readonly header: Header;
  /** When it came in. */
  readonly arrived: EpochMs;
  /** Unique for each DSN: letters, digits and hyphens. */
  readonly id: string;
  readonly now: EpochMs;
}

/** A DSN, to be sent from the null sender. */
export interface Dsn extends PreparedMessage {
  readonly from: '';
  readonly to: string;
  /** Whether its header needs SMTPUTF8, since it has the sender's address. */
  readonly smtpUtf8: boolean;
}

/** The most octets of the original header that are returned. */
const HEADER_SHOWN = 16 * 1024;
/** RFC 5322 section 2.1.1. */
const LINE_MAX = 998;
/** Octets of an address in a field: more than any that SMTP takes. */
const ADDRESS_MAX = 900;
const RECIPIENTS_MAX = 100;
/** A host name or an IP address, and nothing else that DNS or a setting may hold. */
const HOST = /^[\w.:-]{1,255}$/;

/** Writes a DSN for a delivery that failed for good (action `failed`). */
export async function buildDsn(options: DsnOptions): Promise<Dsn> {
  const { domain, dkimKey, sender, now } = options;
  const source = Buffer.from(formatDsn(options), 'latin1');
  const prepared = await prepareOwn(source, { domain, dkimKey, now });
  return {
    ...prepared,
    from: '',
    to: sender,
    smtpUtf8: prepared.utf8Header,
  };
}

/** One character per byte. */
function formatDsn(options: DsnOptions): string {
  const { domain, sender, header, id, now } = options;
  const boundary = `=_${id}`;
  const subject = `Undelivered mail returned to sender`;
  const messageId = originalId(header);
  const status = reportFields(options);
  const returned = returnedHeader(header);
  const lines = [
    `From: "Mail delivery" <postmaster@${domain}>`,
    `To: <${bytesOf(canonicalAddress(sender))}>`,
    `Subject: ${subject}`,
    `Date: ${formatDate(now)}`,
    `Message-ID: <${id}@${domain}>`,
    ...(messageId === undefined ? [] : [`In-Reply-To: ${messageId}`, `References: ${messageId}`]),
    // RFC 3834 section 5; RFC 3464 section 2: the content type says that it is a DSN.
    'Auto-Submitted: auto-replied',
    'MIME-Version: 1.0',
    `Content-Type: multipart/report; report-type=delivery-status;\r\n boundary="${boundary}"`,
    '',
    `--${boundary}`,
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: 8bit',
    '',
    ...explain(options),
    '',
    `--${boundary}`,
    ...partHeader(status.join(), 'message/delivery-status', 'message/global-delivery-status'),
    ...status,
    `--${boundary}`,
    ...partHeader(returned, 'text/rfc822-headers', 'message/global-headers'),
    returned,
    `--${boundary}--`,
    '',
  ];
  return lines.join('\r\n');
}

/** The type of a part: ASCII's, or UTF-8's (RFC 6533 section 5). A header may be neither. */
function partHeader(content: string, ascii: string, utf8: string): string[] {
  const isAscii = !isInternationalized(content);
  const type = !isAscii && isUtf8(Buffer.from(content, 'latin1')) ? utf8 : ascii;
  return [`Content-Type: ${type}`, ...(isAscii ? [] : ['Content-Transfer-Encoding: 8bit']), ''];
}

function explain({ hostname, recipients, header }: DsnOptions): string[] {
  const { subject } = readEnvelope(header.fields);
  const about = subject === '' ? [] : [bytesOf(`Subject: ${oneLine(subject)}`), ''];
  return [
    `This is the mail server ${hostname}. Your message could not be delivered to the`,
    'recipients below, and no further attempt will be made.',
    '',
    ...about,
    ...recipients
      .slice(0, RECIPIENTS_MAX)
      .flatMap((status) => [
        `<${bytesOf(status.recipient)}>`,
        cut(`    ${bytesOf(diagnosticOf(status))}`, LINE_MAX),
        '',
      ]),
  ];
}

/** RFC 3464 section 2.2 and 2.3; in UTF-8 only where an address needs it (RFC 6533 section 5). */
function reportFields({ hostname, recipients: all, arrived }: DsnOptions): string[] {
  const recipients = all.slice(0, RECIPIENTS_MAX);
  const addresses = recipients.map(({ recipient }) => canonicalAddress(recipient));
  const isAscii = !addresses.some(isInternationalized);
  return [
    `Reporting-MTA: dns; ${hostname}`,
    `Arrival-Date: ${formatDate(arrived)}`,
    '',
    ...recipients.flatMap((status) => {
      const type = status.error.status === undefined ? 'x-postroom' : 'smtp';
      const said = diagnosticOf(status);
      // Without an address in UTF-8 the part is ASCII (RFC 3464 section 2.1).
      const diagnostic = isAscii ? said.replace(/[^ -~]/gu, '?') : bytesOf(said);
      return [
        `Final-Recipient: ${typedAddress(status.recipient)}`,
        'Action: failed',
        `Status: ${status.error.enhancedStatus}`,
        ...remoteMta(status),
        cut(`Diagnostic-Code: ${type}; ${diagnostic}`, LINE_MAX),
        ...(status.lastAttempt === undefined
          ? []
          : [`Last-Attempt-Date: ${formatDate(status.lastAttempt)}`]),
        '',
      ];
    }),
  ];
}

/** An address with its type (RFC 3464 section 2.1.2; RFC 6533 section 3). */
function typedAddress(text: string): string {
  const address = canonicalAddress(text).replace(/\p{Cc}/gu, '');
  const type = isInternationalized(address) ? 'utf-8' : 'rfc822';
  return cut(`${type}; ${bytesOf(address)}`, ADDRESS_MAX);
}

/**
 * The host whose reply it was (RFC 3464 section 2.3.5). Not where mail was forwarded: it would tell the sender where
 * to.
 */
function remoteMta({ error: { host = '', status }, forwardedTo }: RecipientStatus): string[] {
  const isTold = status !== undefined && forwardedTo === undefined && HOST.test(host);
  return isTold ? [`Remote-MTA: dns; ${host}`] : [];
}

/** What went wrong, without the address that must not be revealed (RFC 3464 section 4.2). */
function diagnosticOf({ error, forwardedTo, recipient }: RecipientStatus): string {
  const { status, enhancedStatus, text } = error;
  const whole = status === undefined ? text : `${status} ${enhancedStatus} ${text}`;
  if (forwardedTo === undefined) return oneLine(whole);
  // A text of our own names hosts of the domain that it was forwarded to.
  if (status === undefined) return 'The message could not be passed on.';
  return oneLine(hide(whole, forwardedTo, recipient));
}

/** Replaces every spelling of an address, in any case. */
function hide(text: string, address: string, shown: string): string {
  return [address, canonicalAddress(address)].reduce(
    (left, secret) => left.replaceAll(new RegExp(RegExp.escape(secret), 'giu'), () => shown),
    text,
  );
}

/** The header as it came, limited: whole lines, none longer than SMTP allows. */
function returnedHeader({ fields }: Header): string {
  const kept: string[] = [];
  let length = 0;
  for (const { text } of fields) {
    const lines = toWire(text)
      .split('\r\n')
      .map((line) => cut(line, LINE_MAX));
    length += lines.reduce((sum, line) => sum + line.length + 2, 0);
    if (length > HEADER_SHOWN) break;
    kept.push(...lines);
  }
  return [...kept, ''].join('\r\n');
}

/** The Message-ID, if it is valid: it goes into our own header. */
function originalId({ fields }: Header): string | undefined {
  const field = fields.find(({ name }) => name === 'message-id');
  return field && /^<[!-;=?-~]{1,900}>$/.exec(fieldValue(field))?.[0];
}

function bytesOf(text: string): string {
  return Buffer.from(text).toString('latin1');
}

/** Never within a character of UTF-8, of which the line has one character per byte. */
function cut(line: string, length: number): string {
  if (line.length <= length) return line;
  let end = length;
  while (end > length - 3 && /[\x80-\xbf]/.test(line.charAt(end))) end--;
  return line.slice(0, end);
}

/* Whether a DSN is sent for a message that could not be delivered. */

export interface BounceQuestion {
  /** Envelope sender without angle brackets, `''` for the null sender. */
  readonly sender: string;
  /** SPF's result for the envelope sender when the message came in (RFC 7208 section 2.6). */
  readonly spf: string;
  readonly header: Header;
}

/**
 * Whether a DSN may answer a message. Never to the null sender (RFC 5321 section 6.1, RFC 3464 section 2), so that two
 * servers do not bounce at each other; nor to senders that are used in its place against the rules: MAILER-DAEMON, a
 * DSN with a sender, an automatic reply (RFC 3834 section 2). Nor to a sender that SPF says is forged: that person did
 * not write the message.
 *
 * Lists and generated mail (`auto-generated`) get a DSN: their VERP addresses are made for it.
 */
export function mayBounce({ sender, spf, header }: BounceQuestion): boolean {
  const address = parseAddress(sender);
  if (!address || address.local.toLowerCase() === 'mailer-daemon') return false;
  return spf.toLowerCase() !== 'fail' && !header.fields.some(isAutomaticAnswer);
}

function isAutomaticAnswer(field: HeaderField): boolean {
  if (field.name === 'auto-submitted')
    return /^auto-(?:replied|notified)\b/i.test(fieldValue(field));
  // RFC 6522 section 3: a report of any kind.
  return field.name === 'content-type' && /^multipart\/report\b/i.test(fieldValue(field));
}
