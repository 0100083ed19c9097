/**
 * Prepares a message for forwarding: adds header fields, rewrites From where needed, makes all line ends CRLF, and
 * signs with the forwarding domain's key. The body is not changed; it is read twice: once for its hash, which comes
 * before it, and once to be sent.
 */
import { isAscii, isUtf8 } from 'node:buffer';
import { createPrivateKey, type KeyObject, sign } from 'node:crypto';
import { promisify } from 'node:util';
import { LRUCache } from 'lru-cache';
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
  signedText,
} from '../../protocols/message/message.ts';
import type { DkimKey } from '../../tenants/domains/domains.ts';
import { needsRewriting, rewriteFrom, type SenderVerdict } from './rewrite-from.ts';

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
 * Added in front: `DKIM-Signature`, and `Delivered-To`, by which {@link findLoop} recognizes the message when it
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
  const prepared = await prepare([mark, ...fields], header, options);
  return { ...prepared, fromRewritten };
}

/** Signs and measures a message with these fields and the body of the source. */
async function prepare(
  fields: readonly HeaderField[],
  { size: bodyStart }: Header,
  { open, domain, dkimKey: key, now }: Pick<ForwardOptions, 'open' | 'domain' | 'dkimKey' | 'now'>,
): Promise<PreparedMessage> {
  const body = await measure(readBody(open(), bodyStart));
  const signature = key && (await signDkim(fields, { key, domain, bodyHash: body.hash, now }));
  const head = formatHeader(signature ? [signature, ...fields] : fields);
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
 * Prepares a message of an account for one attempt: without Bcc, with a Received field, signed with the key of the
 * account's domain.
 *
 * @throws Refusal message_too_large for a header that is longer than the limit of the reader; any error of the
 *   source
 */
export async function prepareSubmission(options: SubmissionOptions): Promise<PreparedMessage> {
  const header = await readHeader(options.open());
  if (!header.isWhole) throw new Refusal('message_too_large', 'the header is too long to be sent');
  const kept = header.fields
    .filter(({ name }) => !NOT_SENT.has(name))
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

/*
 * DKIM signatures (RFC 6376), relaxed/relaxed, RSA-SHA256 (RFC 8301 section 3.1).
 */

const signAsync = promisify(sign);

/** The fields to sign (RFC 6376 section 5.4.1). */
const SIGNED = [
  'from',
  'reply-to',
  'subject',
  'date',
  'to',
  'cc',
  'message-id',
  'in-reply-to',
  'references',
  'sender',
  'mime-version',
  'content-type',
  'content-transfer-encoding',
  'content-id',
  'auto-submitted',
  'list-id',
  'list-unsubscribe',
  'list-unsubscribe-post',
];

/** Fields that readers show, each of which a message has once: nobody may add another one. */
const SEALED = new Set(['from', 'reply-to', 'subject', 'date', 'to', 'cc', 'content-type']);

/** Base64 digits in a line of the signature. */
const LINE_DIGITS = 72;

export interface Signing {
  readonly key: DkimKey;
  /** The domain that answers for the message. */
  readonly domain: string;
  /** Of the body as it is sent, base64. */
  readonly bodyHash: string;
  readonly now: EpochMs;
}

/**
 * The names to sign: each as often as the message has it, and those that readers show once more, so that the
 * signature fails when somebody adds one (RFC 6376 section 8.15). Of a field that is not there none is named: a list
 * may add it.
 */
function namesToSign(fields: readonly HeaderField[]): string[] {
  return SIGNED.flatMap((name) => {
    const count = fields.filter((field) => field.name === name).length;
    const more = count > 0 && SEALED.has(name) ? 1 : 0;
    return Array.from({ length: count + more }, () => name);
  });
}

/**
 * Signs a message.
 *
 * @returns the DKIM-Signature field, or undefined for a message without exactly one From: without From a signature is
 *   invalid (RFC 6376 section 5.4), and with two its meaning would be unclear
 */
async function signDkim(
  fields: readonly HeaderField[],
  { key, domain, bodyHash, now }: Signing,
): Promise<HeaderField | undefined> {
  if (fields.filter(({ name }) => name === 'from').length !== 1) return undefined;
  const names = namesToSign(fields);
  const unsigned =
    `DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=${domain}; s=${key.selector};\r\n` +
    ` t=${Math.floor(now / 1000)}; h=${names.join(':\r\n  ')};\r\n bh=${bodyHash};\r\n b=`;
  const covered = signedText(fields, names, unsigned, 'relaxed');
  const signature = await signAsync('sha256', Buffer.from(covered, 'latin1'), readKey(key));
  return { name: 'dkim-signature', text: unsigned + fold(signature.toString('base64')) };
}

/** Private keys by their PEM text: to read one takes longer than to sign with it. A key takes some 5 KB. */
const readKeys = new LRUCache<string, KeyObject>({ max: 1_000 });

function readKey({ privateKey }: DkimKey): KeyObject {
  const kept = readKeys.get(privateKey);
  if (kept) return kept;
  const key = createPrivateKey(privateKey);
  readKeys.set(privateKey, key);
  return key;
}

function fold(base64: string): string {
  const lines = base64.match(new RegExp(`.{1,${LINE_DIGITS}}`, 'g')) ?? [];
  return lines.join('\r\n  ');
}
