/** Keys that signatures are verified with, as DNS has them (RFC 6376 section 3.6.1, RFC 8463). */
import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto';
import { promisify } from 'node:util';
import { parseTagList } from '../../message/message.ts';

export interface SigningKey {
  readonly key: KeyObject;
  readonly type: 'rsa' | 'ed25519';
  /** Whether it is for signatures of its own domain alone, not of those below it (t=s). */
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

/** RFC 8301 section 3.2: shorter keys must not be trusted; far longer ones take long. */
const RSA_BITS = { min: 1024, max: 8192 };
/** Public exponents above this make each verification slow; nearly all keys have 65537. */
const EXPONENT_MAX = 2n ** 32n;
/** An Ed25519 key stands in the record without the structure that OpenSSL reads (RFC 8463 section 4). */
const ED25519_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

/** Reads a record, whose key is to verify a signature by SHA-256. */
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
  return { key, type, isStrict: words('t')?.includes('s') ?? false };
}

function parseKey(bytes: Buffer, type: SigningKey['type']): KeyObject | undefined {
  if (type === 'ed25519' && bytes.length !== 32) return undefined;
  const der = type === 'ed25519' ? Buffer.concat([ED25519_PREFIX, bytes]) : bytes;
  // RFC 6376 section 3.6.1 has the bare RSAPublicKey; nearly everybody publishes the other form.
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
 * Whether a signature is good (RFC 6376 section 6.1.3 step 4, RFC 8463 section 3).
 *
 * @param text one character per byte
 * @param signature base64
 */
export function isGoodSignature(
  { key, type }: SigningKey,
  text: string,
  signature: string,
): Promise<boolean> {
  const bytes = Buffer.from(text, 'latin1');
  const given = Buffer.from(signature, 'base64');
  return type === 'rsa'
    ? verifyAsync('sha256', bytes, key, given)
    : verifyAsync(null, createHash('sha256').update(bytes).digest(), key, given);
}
