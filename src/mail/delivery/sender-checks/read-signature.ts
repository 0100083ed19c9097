/**
 * The tags of a signature (RFC 6376 section 3.5), what can be judged without its key, and the keys in DNS.
 */
import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto';
import { promisify } from 'node:util';
import type { EpochMs } from '../../../platform/time/time.ts';
import {
  type Canonicalization,
  type HeaderField,
  parseTagList,
  rawValue,
  type TagList,
  toDnsName,
} from '../../../protocols/message/message.ts';
import type { DkimResult } from './verdicts.ts';

/** A result, and why. */
export interface SignatureOutcome {
  readonly result: DkimResult;
  readonly comment: string;
}

export interface Signature {
  readonly field: HeaderField;
  /** Lower case, IDNA-encoded; `''` where it could not be read. */
  readonly domain: string;
  readonly selector: string;
  /** The DNS name of its key. */
  readonly keyName: string;
  readonly type: 'rsa' | 'ed25519';
  readonly headerCanon: Canonicalization;
  readonly bodyCanon: Canonicalization;
  /** Names of the signed fields in lower case; a name occurs as often as it is signed. */
  readonly signedFields: readonly string[];
  /** Base64. */
  readonly bodyHash: string;
  readonly signature: string;
  /** Octets of the canonical body that are signed (l=). */
  readonly bodyLength: number | undefined;
  /** Whether it signs for a domain below `domain` (i=). */
  readonly isForSubdomain: boolean;
  /** Why it is not verified; undefined where it can be. */
  readonly refusal: SignatureOutcome | undefined;
}

/** Octets of the longest signature field that is read. */
const MAX_FIELD = 16 * 1024;

const ALGORITHMS = new Map<string, Signature['type']>([
  ['rsa-sha256', 'rsa'],
  ['ed25519-sha256', 'ed25519'],
]);

function isCanonicalization(text: string): text is Canonicalization {
  return text === 'simple' || text === 'relaxed';
}

/** RFC 6376 section 3.5 allows 76 digits; no body is so long. */
function readNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,76}$/.test(text) ? Number(text) : undefined;
}

/** A domain name from the message (RFC 8616 section 3 allows UTF-8 there); `''` where it is not one. */
function toName(text: string): string {
  return toDnsName(Buffer.from(text, 'latin1').toString()) ?? '';
}

/** Tags that a signature must have, and tags that are numbers (RFC 6376 section 3.5). */
const REQUIRED = ['a', 'b', 'bh', 'd', 'h', 's'];
const NUMBERS = ['l', 't', 'x'];

const isReadable = ({ text }: HeaderField) => text.length <= MAX_FIELD;

/** The tags of a signature; none of one that is too long. */
export function readTags(field: HeaderField): TagList {
  return parseTagList(isReadable(field) ? rawValue(field) : '');
}

/** A tag without white space; `''` where it is not there. */
export function tagOf({ tags }: TagList, name: string): string {
  return tags.get(name)?.replace(/[ \t\r\n]/g, '') ?? '';
}

/** Whose signature it says to be: `''` where that is no name. */
export function signingDomain(list: TagList): string {
  return toName(tagOf(list, 'd'));
}

/** The DNS name of its key, `''` where that is none. As one name: a selector alone, such as Gmail's, may be a number, as IPv4. */
export function keyNameOf(list: TagList, domain: string): string {
  return toName(`${tagOf(list, 's')}._domainkey.${domain}`);
}

/**
 * Reads a DKIM-Signature, or an ARC-Message-Signature, which differs only in `v` and `i` (RFC 8617
 * section 4.1.2).
 */
export function readSignature(
  field: HeaderField,
  kind: 'dkim' | 'arc',
  now: EpochMs,
  list: TagList = readTags(field),
): Signature {
  const tag = (name: string) => tagOf(list, name);
  const domain = signingDomain(list);
  const keyName = keyNameOf(list, domain);
  const identity = kind === 'dkim' ? toName(tag('i').replace(/^.*@/, '')) || domain : domain;
  const [headerCanon = '', bodyCanon = 'simple'] = (tag('c') || 'simple').toLowerCase().split('/');
  const signature = {
    field,
    domain,
    selector: tag('s'),
    keyName,
    type: ALGORITHMS.get(tag('a').toLowerCase()) ?? 'rsa',
    headerCanon: isCanonicalization(headerCanon) ? headerCanon : 'simple',
    bodyCanon: isCanonicalization(bodyCanon) ? bodyCanon : 'simple',
    signedFields: tag('h').toLowerCase().split(':').filter(Boolean),
    bodyHash: tag('bh'),
    signature: tag('b'),
    bodyLength: readNumber(tag('l')),
    isForSubdomain: identity !== domain,
  } as const;
  const expires = readNumber(tag('x')) ?? Number.POSITIVE_INFINITY;
  const rules: [isBroken: boolean, comment: string, result?: DkimResult][] = [
    [!isReadable(field), 'signature too long', 'policy'],
    [list.broken !== undefined || list.repeated !== undefined, 'syntax error'],
    [REQUIRED.some((name) => tag(name) === ''), 'missing tag'],
    [domain === '' || keyName === '', 'invalid domain or selector'],
    [kind === 'dkim' && tag('v') !== '1', 'unknown version'],
    // RFC 8301 section 3.1.
    [tag('a').toLowerCase() === 'rsa-sha1', 'rsa-sha1', 'policy'],
    [!ALGORITHMS.has(tag('a').toLowerCase()), 'unknown algorithm'],
    [
      !isCanonicalization(headerCanon) || !isCanonicalization(bodyCanon),
      'unknown canonicalization',
    ],
    [!signature.signedFields.includes('from'), 'From not signed'],
    [tag('q') !== '' && !/(?:^|:)dns\/txt(?::|$)/i.test(tag('q')), 'unknown query method'],
    [
      NUMBERS.some((name) => tag(name) !== '' && readNumber(tag(name)) === undefined),
      'syntax error',
    ],
    [identity !== domain && !identity.endsWith(`.${domain}`), 'domain mismatch'],
    [expires < (readNumber(tag('t')) ?? 0), 'invalid expiration'],
    [expires * 1_000 < now, 'expired'],
  ];
  const broken = rules.find(([isBroken]) => isBroken);
  const refusal = broken && { comment: broken[1], result: broken[2] ?? 'neutral' };
  return { ...signature, refusal };
}

/** The field without the value of its tag `b`, white space around it included (RFC 6376 section 3.7). */
export function withoutSignature(text: string): string {
  const colon = text.indexOf(':') + 1;
  const parts = text.slice(colon).split(';');
  const emptied = parts.map((part) => /^[ \t\r\n]*b[ \t\r\n]*=/.exec(part)?.[0] ?? part);
  return text.slice(0, colon) + emptied.join(';');
}

/* Keys to verify signatures with, as published in DNS (RFC 6376 section 3.6.1, RFC 8463). */

export interface SigningKey {
  readonly key: KeyObject;
  readonly type: 'rsa' | 'ed25519';
  /** Whether it verifies a signature in so little time that no other thread is given the work. */
  readonly isQuick: boolean;
  /** Whether it may sign only for its own domain, not for those below it (t=s). */
  readonly isStrict: boolean;
}

/** Why there is no key to use. */
export interface KeyProblem {
  readonly problem: string;
  /** The key is too short to trust. */
  readonly isWeak?: boolean;
  /** DNS did not answer. */
  readonly isTemporary?: boolean;
}

export type FoundKey = SigningKey | KeyProblem;

/** RFC 8301 section 3.2: shorter keys must not be trusted; much longer ones are slow to verify. */
const RSA_BITS = { min: 1024, max: 8192 };
/**
 * A signature by a key of at most so many bits, of at most so many octets, is verified at once, in some 40 us. To give it to
 * another thread and back takes half of that, and what messages hold while they wait becomes old for the garbage collector.
 */
const AT_ONCE = { bits: 2048, octets: 16 * 1024 };
/** Public exponents above this make each verification slow; nearly all keys have 65537. */
const EXPONENT_MAX = 2n ** 32n;
/** The record has the bare Ed25519 key, without the structure that OpenSSL reads (RFC 8463 section 4). */
const ED25519_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

/** Reads a key record; the key is for signatures with SHA-256. */
export function readSigningKey(record: string): FoundKey {
  const { tags, first, repeated } = parseTagList(record);
  const words = (name: string) =>
    tags
      .get(name)
      ?.replace(/[ \t\r\n]/g, '')
      .split(':');
  const value = tags.get('p')?.replace(/[ \t\r\n]/g, '');
  if (repeated !== undefined || value === undefined) return { problem: 'invalid key record' };
  if (tags.has('v') && (first !== 'v' || tags.get('v') !== 'DKIM1')) {
    return { problem: 'unknown key version' };
  }
  if (value === '') return { problem: 'key revoked' };
  if (words('h')?.includes('sha256') === false) return { problem: 'key not for sha256' };
  const services = words('s') ?? ['*'];
  if (!services.some((service) => service === '*' || service === 'email')) {
    return { problem: 'key not for email' };
  }
  const type = tags.get('k') ?? 'rsa';
  if (type !== 'rsa' && type !== 'ed25519') return { problem: 'unknown key type' };
  const key = parseKey(Buffer.from(value, 'base64'), type);
  if (!key) return { problem: 'invalid public key' };
  const { modulusLength: bits = RSA_BITS.min, publicExponent = 0n } =
    key.asymmetricKeyDetails ?? {};
  if (bits < RSA_BITS.min) return { problem: 'weak key', isWeak: true };
  if (bits > RSA_BITS.max || publicExponent > EXPONENT_MAX) return { problem: 'key too long' };
  const isQuick = type === 'rsa' && bits <= AT_ONCE.bits;
  return { key, type, isQuick, isStrict: words('t')?.includes('s') ?? false };
}

function parseKey(bytes: Buffer, type: SigningKey['type']): KeyObject | undefined {
  if (type === 'ed25519' && bytes.length !== 32) return undefined;
  const der = type === 'ed25519' ? Buffer.concat([ED25519_PREFIX, bytes]) : bytes;
  // RFC 6376 section 3.6.1 specifies the bare RSAPublicKey; nearly everybody publishes the other form.
  for (const form of ['spki', 'pkcs1'] as const) {
    try {
      const key = createPublicKey({ key: der, format: 'der', type: form });
      return key.asymmetricKeyType === type ? key : undefined;
    } catch {
      // Not of this form.
    }
  }
  return undefined;
}

const verifyAsync = promisify(verify);

/**
 * Whether a signature verifies (RFC 6376 section 6.1.3 step 4, RFC 8463 section 3).
 *
 * @param text one character per byte
 * @param signature base64
 */
export async function isGoodSignature(
  { key, type, isQuick }: SigningKey,
  text: string,
  signature: string,
): Promise<boolean> {
  const bytes = Buffer.from(text, 'latin1');
  const given = Buffer.from(signature, 'base64');
  if (isQuick && bytes.length <= AT_ONCE.octets) return verify('sha256', bytes, key, given);
  return type === 'rsa'
    ? verifyAsync('sha256', bytes, key, given)
    : verifyAsync(null, createHash('sha256').update(bytes).digest(), key, given);
}
