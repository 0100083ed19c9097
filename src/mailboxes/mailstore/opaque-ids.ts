/**
 * What an account sees in place of numbers that count through the whole service: from two of these it could
 * learn how much mail all the others get.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';

const CIPHER = 'aes-256-gcm';
/** NIST SP 800-38D section 8.2.2: random. */
const IV_OCTETS = 12;
const TAG_OCTETS = 16;
/** Octets of the HMAC in a name: enough that no two bodies ever have the same. */
const NAME_OCTETS = 16;

export class OpaqueIds {
  readonly #nameKey: Buffer;
  readonly #sealKey: Buffer;

  /** @param secret the same on each node, and after each start */
  constructor(secret: string) {
    const keyFor = (use: string) => createHmac('sha256', secret).update(use).digest();
    this.#nameKey = keyFor('names of bodies');
    this.#sealKey = keyFor('sealed texts');
  }

  /** Names the bytes of a message: always the same, an ObjectID (RFC 8474 section 4). */
  nameBody(bodyId: number): string {
    const mac = createHmac('sha256', this.#nameKey).update(String(bodyId)).digest();
    return `e${mac.toString('base64url', 0, NAME_OCTETS)}`;
  }

  /** Encrypts a text that a client keeps for us. */
  seal(text: string): string {
    const iv = randomBytes(IV_OCTETS);
    const cipher = createCipheriv(CIPHER, this.#sealKey, iv);
    const sealed = [iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()];
    return Buffer.concat(sealed).toString('base64url');
  }

  /** @returns undefined for a text that {@link OpaqueIds.seal} did not make */
  open(sealed: string): string | undefined {
    const bytes = Buffer.from(sealed, 'base64url');
    if (bytes.length < IV_OCTETS + TAG_OCTETS) return undefined;
    const decipher = createDecipheriv(CIPHER, this.#sealKey, bytes.subarray(0, IV_OCTETS), {
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
}
