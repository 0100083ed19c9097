/**
 * Prepares a message for forwarding: adds header fields, rewrites From where needed, makes all line ends CRLF, and
 * signs with the forwarding domain's key. The body is not changed; it is read twice: once for its hash, which comes
 * before it, and once to be sent.
 */
import { isAscii, isUtf8 } from 'node:buffer';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import {
  asBuffer,
  BodyHash,
  canonicalAddress,
  fieldValue,
  findAuthors,
  type Header,
  type HeaderField,
  LineEnds,
  rawValue,
  readEnvelope,
  readHeader,
} from '../../protocols/message/message.ts';
import type { DkimKey } from '../../tenants/domains/domains.ts';
import { needsRewriting, rewriteFrom, type SenderVerdict } from './rewrite-from.ts';
import { sealArc, signDkim } from './sign-message.ts';

/** A message as it is sent. */
export interface PreparedMessage {
  /** Octets as `open` gives them. */
  readonly size: number;
  /** Whether the body or the header has octets above 127 (8BITMIME, RFC 6152). */
  readonly eightBit: boolean;
  /** Whether the header has UTF-8 beyond ASCII. Then it needs SMTPUTF8 if it came by SMTPUTF8 (RFC 6531 section 3.1). */
  readonly utf8Header: boolean;
  /** Reads the message; may be called again. */
  open(): AsyncIterable<Uint8Array>;
}

export interface ForwardOptions {
  /** Opens the source as it was received. */
  readonly open: () => AsyncIterable<Uint8Array>;
  /** The address at the forwarding domain that the message came to. */
  readonly address: string;
  /** The forwarding domain, lower case, IDNA-encoded. */
  readonly domain: string;
  /** Absent: not signed. */
  readonly dkimKey?: DkimKey | undefined;
  readonly verdict: SenderVerdict;
  readonly now: EpochMs;
}

export interface PreparedForward extends PreparedMessage {
  readonly fromRewritten: boolean;
}

/** The result of reading a body. */
interface MeasuredBody {
  readonly size: number;
  readonly hash: string;
  readonly eightBit: boolean;
}

/**
 * Prepares a message for one attempt; a later attempt prepares it again, so that its signature is fresh.
 *
 * Added in front: an ARC set (RFC 8617) of mail that was checked, `DKIM-Signature`, and `Delivered-To`, by which {@link findLoop} recognizes the message when it
 * comes back. `Return-Path` is removed (RFC 5321 section 4.4). `Received` was added when the message came in.
 *
 * @throws Refusal message_too_large for a header that is longer than the limit of the reader; any error of the
 *   source
 */
export async function prepareForward(options: ForwardOptions): Promise<PreparedForward> {
  const { open, domain } = options;
  const address = canonicalAddress(options.address);
  const header = await readHeader(open());
  if (!header.isWhole)
    throw new Refusal('message_too_large', 'the header is too long to be passed on');
  const kept = header.fields
    .filter(({ name }) => name !== '' && name !== 'return-path')
    .map(({ name, text }) => ({ name, text: toWire(text) }));
  const from = kept.filter(({ name }) => name === 'from').map(rawValue);
  const fromRewritten = needsRewriting(findAuthors(from), domain, options.verdict);
  const shown = readEnvelope(header.fields).from ?? [];
  const fields = fromRewritten ? rewriteFrom(kept, shown, address, domain) : kept;
  const mark = { name: 'delivered-to', text: `Delivered-To: ${bytesOf(address)}` };
  const prepared = await prepare([mark, ...fields], header, options, findResults(kept, options));
  return { ...prepared, fromRewritten };
}

/** What is put into an ARC set: what we found when the message came. */
interface Results {
  readonly value: string;
  readonly cv: 'none' | 'pass';
}

/** Our own results: above our Received. Others have no place there, and mail by LMTP has none. */
function findResults(
  fields: readonly HeaderField[],
  { verdict: { arc } }: ForwardOptions,
): Results | undefined {
  const received = fields.findIndex(({ name }) => name === 'received');
  const own = fields.slice(0, received + 1).find(({ name }) => name === 'authentication-results');
  return own && arc !== undefined && arc !== 'fail' ? { value: rawValue(own), cv: arc } : undefined;
}

/** Signs and measures a message with these fields and the body of the source. */
async function prepare(
  fields: readonly HeaderField[],
  { size: bodyStart }: Header,
  { open, domain, dkimKey: key, now }: Pick<ForwardOptions, 'open' | 'domain' | 'dkimKey' | 'now'>,
  results?: Results,
): Promise<PreparedMessage> {
  const body = await measure(readBody(open(), bodyStart));
  const signing = key && { key, domain, bodyHash: body.hash, now };
  const signature = signing && (await signDkim(fields, signing));
  const signed = signature ? [signature, ...fields] : fields;
  // As the last, so that it covers our DKIM-Signature (RFC 8617 section 5.1).
  const isSealed = signature && signing && results;
  const set = isSealed ? await sealArc(signed, results.value, results.cv, signing) : [];
  const head = formatHeader([...set, ...signed]);
  const isAsciiHeader = isAscii(head);
  return {
    size: head.length + body.size,
    eightBit: body.eightBit || !isAsciiHeader,
    // SMTPUTF8 is for UTF-8 alone (RFC 6532 section 3.1), not for other charsets of old programs.
    utf8Header: !isAsciiHeader && isUtf8(head),
    async *open() {
      yield head;
      yield* readBody(open(), bodyStart);
    },
  };
}

export interface SubmissionOptions
  extends Pick<ForwardOptions, 'open' | 'domain' | 'dkimKey' | 'now'> {
  /** The Received field, without a line end at its end. */
  readonly received: string;
}

/**
 * Fields that the recipients must not see (RFC 5322 section 3.6.3), that the last host writes, and results of its own
 * checks that a message claims, which recipients here would trust as ours (RFC 8601 section 5).
 */
const NOT_SENT = new Set(['', 'bcc', 'resent-bcc', 'return-path', 'authentication-results']);

/**
 * Prepares a message of an account for one attempt: without Bcc, with one Message-ID and a Received field, signed with the key of the
 * account's domain.
 *
 * @throws Refusal message_too_large for a header that is longer than the limit of the reader; any error of the
 *   source
 */
export async function prepareSubmission(options: SubmissionOptions): Promise<PreparedMessage> {
  const header = await readHeader(options.open());
  if (!header.isWhole) throw new Refusal('message_too_large', 'the header is too long to be sent');
  // Ours is above one that is not valid.
  const ids = header.fields.filter(({ name }) => name === 'message-id').slice(1);
  const kept = header.fields
    .filter((field) => !NOT_SENT.has(field.name) && !ids.includes(field))
    .map(({ name, text }) => ({ name, text: toWire(text) }));
  return prepare([{ name: 'received', text: options.received }, ...kept], header, options);
}

/**
 * Signs a message that Postroom wrote.
 *
 * @param source complete, its lines ending in CRLF
 */
export function prepareOwn(
  source: Buffer,
  signing: Pick<ForwardOptions, 'domain' | 'dkimKey' | 'now'>,
): Promise<PreparedMessage> {
  const open = async function* () {
    yield source;
  };
  return readHeader(open()).then((header) => prepare(header.fields, header, { open, ...signing }));
}

/** A field with CRLF line ends: a bare CR becomes a space, since it would begin a line. */
export function toWire(text: string): string {
  return text.replace(/\r(?!\n)/g, ' ').replace(/\r?\n/g, '\r\n');
}

function formatHeader(fields: readonly HeaderField[]): Buffer {
  return Buffer.from(`${fields.map(({ text }) => `${text}\r\n`).join('')}\r\n`, 'latin1');
}

/** One character per byte, as header fields are kept, without characters that would end the line. */
function bytesOf(text: string): string {
  return Buffer.from(text.replace(/\p{Cc}/gu, '')).toString('latin1');
}

async function measure(body: AsyncIterable<Buffer>): Promise<MeasuredBody> {
  const hash = new BodyHash('relaxed');
  let size = 0;
  let eightBit = false;
  for await (const chunk of body) {
    hash.write(chunk);
    size += chunk.length;
    eightBit ||= !isAscii(chunk);
  }
  return { size, hash: hash.end().hash, eightBit };
}

/** The body from an offset in the source on, with CRLF line ends, the last one included. */
async function* readBody(source: AsyncIterable<Uint8Array>, start: number): AsyncGenerator<Buffer> {
  const lineEnds = new LineEnds();
  let skip = start;
  for await (const bytes of source) {
    const chunk = lineEnds.write(asBuffer(bytes).subarray(skip));
    skip = Math.max(0, skip - bytes.length);
    if (chunk.length > 0) yield chunk;
  }
  const last = lineEnds.end();
  if (last.length > 0) yield last;
}

/** RFC 5321 section 6.3: loops are found by a simple count of Received fields; at least 100 are allowed. */
const HOPS_MAX = 100;

/**
 * Why a message that came to an address is taken to be in a loop: the address has forwarded it before, or it has passed
 * too many hosts. Undefined where it is in none.
 *
 * @param header as it is stored, with our own Received field
 * @param address the address at the forwarding domain
 */
export function findLoop({ fields }: Header, address: string): string | undefined {
  const mark = canonicalAddress(address).toLowerCase();
  let hops = -1;
  for (const field of fields) {
    if (field.name === 'received' && ++hops > HOPS_MAX) {
      return `this message has passed more than ${HOPS_MAX} servers`;
    }
    if (field.name !== 'delivered-to') continue;
    // UTF-8 in addresses (RFC 6532 section 3.2) was read with one character per byte.
    const value = Buffer.from(fieldValue(field), 'latin1').toString().toLowerCase();
    if (value === mark || value === `<${mark}>`) {
      return 'this message was forwarded from here before';
    }
  }
  return undefined;
}
