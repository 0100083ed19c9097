/**
 * Signatures of outgoing mail: DKIM (RFC 6376), and the ARC set of forwarded mail (RFC 8617). All are relaxed/relaxed,
 * RSA-SHA256 (RFC 8301 section 3.1).
 */
import { createPrivateKey, type KeyObject, sign } from 'node:crypto';
import { promisify } from 'node:util';
import { LRUCache } from 'lru-cache';
import type { EpochMs } from '../../platform/time/time.ts';
import {
  ARC_SETS_MAX,
  canonicalField,
  type HeaderField,
  readArcSets,
  signedText,
} from '../../protocols/message/message.ts';
import type { DkimKey } from '../../tenants/domains/domains.ts';

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
export async function signDkim(
  fields: readonly HeaderField[],
  signing: Signing,
): Promise<HeaderField | undefined> {
  if (fields.filter(({ name }) => name === 'from').length !== 1) return undefined;
  return signFields(fields, namesToSign(fields), 'DKIM-Signature: v=1;', signing);
}

/** Signs fields and body. @param opening of the field: its name and first tag */
async function signFields(
  fields: readonly HeaderField[],
  names: readonly string[],
  opening: string,
  { key, domain, bodyHash, now }: Signing,
): Promise<HeaderField> {
  const unsigned =
    `${opening} a=rsa-sha256; c=relaxed/relaxed; d=${domain}; s=${key.selector};\r\n` +
    ` t=${seconds(now)}; h=${names.join(':\r\n  ')};\r\n bh=${bodyHash};\r\n b=`;
  return complete(unsigned, signedText(fields, names, unsigned, 'relaxed'), key);
}

function seconds(now: EpochMs): number {
  return Math.floor(now / 1000);
}

/** Writes the signature of a text behind the tag `b` of its field. */
async function complete(unsigned: string, covered: string, key: DkimKey): Promise<HeaderField> {
  const signature = await signAsync('sha256', Buffer.from(covered, 'latin1'), readKey(key));
  const name = unsigned.slice(0, unsigned.indexOf(':')).toLowerCase();
  return { name, text: unsigned + fold(signature.toString('base64')) };
}

/* ARC: what we found when the message came, under our seal, for hosts that it is forwarded to. */

/**
 * Adds a set to a message (RFC 8617 section 5.1).
 *
 * @param fields as they are sent, with our DKIM-Signature
 * @param results the value of the Authentication-Results that we added when it came
 * @param cv what we found of the chain so far; a broken one cannot be mended, and is not to be sealed by this
 * @returns the fields of the set, the newest first; none where the chain is too long, or not what `cv` says
 */
export async function sealArc(
  fields: readonly HeaderField[],
  results: string,
  cv: 'none' | 'pass',
  signing: Signing,
): Promise<HeaderField[]> {
  const sets = readArcSets(fields);
  const instance = (sets?.length ?? 0) + 1;
  if (!sets || instance > ARC_SETS_MAX || (cv === 'none') !== (sets.length === 0)) return [];
  const { domain, key, now } = signing;
  const found = {
    name: 'arc-authentication-results',
    text: `ARC-Authentication-Results: i=${instance};${results}`,
  };
  const signatures = fields.filter(({ name }) => name === 'dkim-signature').map(({ name }) => name);
  const names = [...namesToSign(fields), ...signatures];
  const opening = `ARC-Message-Signature: i=${instance};`;
  const signature = await signFields(fields, names, opening, signing);
  const unsigned =
    `ARC-Seal: i=${instance}; a=rsa-sha256; cv=${cv}; d=${domain}; s=${key.selector};\r\n` +
    ` t=${seconds(now)};\r\n b=`;
  const covered = [...sets.flat(), found, signature].map(({ text }) => text);
  const text = [...covered, unsigned].map((field) => canonicalField(field, 'relaxed'));
  return [await complete(unsigned, text.join('\r\n'), key), signature, found];
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
