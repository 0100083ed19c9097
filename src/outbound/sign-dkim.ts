/**
 * DKIM signatures (RFC 6376), relaxed/relaxed, RSA-SHA256 (RFC 8301 section 3.1).
 */
import { sign } from 'node:crypto';
import { promisify } from 'node:util';
import type { DkimKey } from '../domains/domains.ts';
import { type HeaderField, signedText } from '../message/message.ts';

const signAsync = promisify(sign);

/** Fields that say what a message is (RFC 6376 section 5.4.1), From aside. */
const SIGNED = [
  ...['reply-to', 'subject', 'date', 'to', 'cc', 'message-id', 'in-reply-to', 'references'],
  ...['sender', 'mime-version', 'content-type', 'content-transfer-encoding', 'content-id'],
  ...['auto-submitted', 'list-id', 'list-unsubscribe', 'list-unsubscribe-post'],
];

/** Base64 digits in a line of the signature. */
const LINE_DIGITS = 72;

export interface Signing {
  readonly key: DkimKey;
  /** The domain that answers for the message. */
  readonly domain: string;
  /** Of the body as it is sent, base64. */
  readonly bodyHash: string;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/**
 * Signs a message, From twice over: a signature that names a field once more than the message has
 * it fails when somebody adds one (RFC 6376 section 8.15).
 *
 * @returns the DKIM-Signature field, or undefined for a message that has not exactly one From: no
 *   signature holds without it (RFC 6376 section 5.4), and with two nobody could say what it means
 */
export async function signDkim(
  fields: readonly HeaderField[],
  { key, domain, bodyHash, now }: Signing,
): Promise<HeaderField | undefined> {
  if (fields.filter(({ name }) => name === 'from').length !== 1) return undefined;
  const present = new Set(fields.map((field) => field.name));
  const names = ['from', 'from', ...SIGNED.filter((name) => present.has(name))];
  const unsigned =
    `DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=${domain}; s=${key.selector};\r\n` +
    ` t=${Math.floor(now / 1000)}; h=${names.join(':\r\n  ')};\r\n bh=${bodyHash};\r\n b=`;
  const covered = signedText(fields, names, unsigned, 'relaxed');
  const signature = await signAsync('sha256', Buffer.from(covered, 'latin1'), key.privateKey);
  return { name: 'dkim-signature', text: unsigned + fold(signature.toString('base64')) };
}

function fold(base64: string): string {
  const lines = base64.match(new RegExp(`.{1,${LINE_DIGITS}}`, 'g')) ?? [];
  return lines.join('\r\n  ');
}
