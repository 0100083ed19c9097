/**
 * Reads bodies of up to 16 MiB from callers who may turn out to be strangers only when the body is
 * here: what such bodies hold in memory is bounded, for each client and for all together.
 */
import type { Readable } from 'node:stream';
import { Refusal } from '../errors/errors.ts';

/** Bytes held at once. */
export interface HeldBytesLimits {
  readonly perBody: number;
  readonly perClient: number;
  readonly inAll: number;
}

/** A body that is counted until it is released. */
export interface HeldBody {
  readonly bytes: Buffer;
  /** Takes it off the count; once. */
  release(): void;
}

export class BodyReader {
  readonly #limits: HeldBytesLimits;
  readonly #byClient = new Map<string, number>();
  #inAll = 0;

  constructor(limits: HeldBytesLimits) {
    this.#limits = limits;
  }

  /** Bytes held now. */
  get held(): number {
    return this.#inAll;
  }

  /**
   * Reads a body to its end.
   *
   * @throws Refusal body_too_large; unavailable where too much is held already
   */
  read(client: string, source: Readable): Promise<HeldBody> {
    const chunks: Buffer[] = [];
    let size = 0;
    const release = () => {
      this.#count(client, -size);
      size = 0;
      chunks.length = 0;
    };
    return new Promise((resolve, reject) => {
      const fail = (error: Error) => {
        release();
        // The answer goes out on the same connection: what still comes is read and dropped.
        source.off('data', onData).off('end', onEnd).resume();
        reject(error);
      };
      const onData = (chunk: Buffer) => {
        size += chunk.length;
        this.#count(client, chunk.length);
        const refusal = this.#judge(client, size);
        if (refusal) fail(refusal);
        else chunks.push(chunk);
      };
      const onEnd = () => {
        const bytes = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, size);
        chunks.length = 0;
        resolve({ bytes, release });
      };
      source.on('data', onData).on('end', onEnd);
      // The client hung up: nothing that an operator has to mend.
      source.once('error', (cause) =>
        fail(new Refusal('invalid_request', 'the body broke off', { cause })),
      );
    });
  }

  #judge(client: string, size: number): Refusal | undefined {
    const { perBody, perClient, inAll } = this.#limits;
    if (size > perBody) {
      return new Refusal('body_too_large', `a batch has at most ${perBody} bytes`);
    }
    if ((this.#byClient.get(client) ?? 0) > perClient || this.#inAll > inAll) {
      return new Refusal('unavailable', 'too many batches are being read');
    }
    return undefined;
  }

  #count(client: string, bytes: number): void {
    this.#inAll += bytes;
    const held = (this.#byClient.get(client) ?? 0) + bytes;
    if (held === 0) this.#byClient.delete(client);
    else this.#byClient.set(client, held);
  }
}
