/**
 * What an account sees in place of numbers that count through the whole service: from two of these it could
 * learn how much mail all the others get.
 */
import { createHmac } from 'node:crypto';
import { Seal } from '../../platform/nodes/nodes.ts';

/** Octets of the HMAC in a name: enough that no two bodies ever have the same. */
const NAME_OCTETS = 16;

export class OpaqueIds {
  readonly #nameKey: Buffer;
  readonly #seal: Seal;

  /** @param secret the same on each node, and after each start */
  constructor(secret: string) {
    this.#nameKey = createHmac('sha256', secret).update('names of bodies').digest();
    this.#seal = new Seal([secret], 'sealed texts');
  }

  /** Names the bytes of a message: always the same, an ObjectID (RFC 8474 section 4). */
  nameBody(bodyId: number): string {
    const mac = createHmac('sha256', this.#nameKey).update(String(bodyId)).digest();
    return `e${mac.toString('base64url', 0, NAME_OCTETS)}`;
  }

  /** Encrypts a text that a client keeps for us. */
  seal(text: string): string {
    return this.#seal.seal(text);
  }

  /** @returns undefined for a text that {@link OpaqueIds.seal} did not make */
  open(sealed: string): string | undefined {
    return this.#seal.open(sealed);
  }
}
