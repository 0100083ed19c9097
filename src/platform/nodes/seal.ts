/**
 * Encrypts texts with a secret that all nodes have: those that a client keeps for us, and those that must not be stored
 * in clear.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';

/** The values of a secret: the first signs and encrypts, all verify and decrypt. */
export type SigningKeys = readonly [string, ...string[]];

const CIPHER = 'aes-256-gcm';
/** NIST SP 800-38D section 8.2.2: random. */
const IV_OCTETS = 12;
const TAG_OCTETS = 16;

export class Seal {
  readonly #secret: SigningKeys;
  /** By the value of the secret. */
  readonly #keys: ReadonlyMap<string, Buffer>;

  /**
   * @param secret where it has several values, the first seals, and all of them open
   * @param use what is sealed: each use has keys of its own
   */
  constructor(secret: SigningKeys, use: string) {
    this.#secret = secret;
    this.#keys = new Map(
      secret.map((value) => [value, createHmac('sha256', value).update(use).digest()]),
    );
  }

  /** Encrypts a text; it cannot be changed without notice either. */
  seal(text: string): string {
    const key = this.#keys.get(this.#secret[0]);
    if (!key) throw new Error('the secret that seals is not among those that open');
    const iv = randomBytes(IV_OCTETS);
    const cipher = createCipheriv(CIPHER, key, iv);
    const sealed = [iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()];
    return Buffer.concat(sealed).toString('base64url');
  }

  /** @returns undefined for a text that {@link Seal.seal} did not make */
  open(sealed: string): string | undefined {
    const bytes = Buffer.from(sealed, 'base64url');
    if (bytes.length < IV_OCTETS + TAG_OCTETS) return undefined;
    for (const key of this.#keys.values()) {
      const text = decrypt(bytes, key);
      if (text !== undefined) return text;
    }
    return undefined;
  }
}

function decrypt(bytes: Buffer, key: Buffer): string | undefined {
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, IV_OCTETS), {
    authTagLength: TAG_OCTETS,
  });
  decipher.setAuthTag(bytes.subarray(-TAG_OCTETS));
  const text = decipher.update(bytes.subarray(IV_OCTETS, -TAG_OCTETS));
  try {
    return Buffer.concat([text, decipher.final()]).toString('utf8');
  } catch {
    return undefined;
  }
}
