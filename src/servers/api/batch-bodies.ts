/**
 * Reads the bodies of batches into memory. Only a complete body's signature shows whether its sender may send it at
 * all, so strangers can make us hold bytes. The held bytes are limited for each client and in all. Strangers share a
 * part of the limit, and known senders (clients that sent a batch with a valid signature before) have the rest to
 * themselves.
 *
 * When the strangers' share is full, the oldest of their unfinished bodies is dropped for the new one. So a mail
 * server that is not known yet gets through beside strangers who hold bodies open: its batch is complete long before
 * a whole share has come in after it.
 */
import type { Readable } from 'node:stream';
import { LRUCache } from 'lru-cache';
import { Refusal } from '../../platform/errors/errors.ts';
import { entries } from '../../platform/memory/memory.ts';
import { ClientShares } from '../../platform/net/net.ts';

/** The most bytes held at once. */
interface HeldBytesLimits {
  readonly perBody: number;
  readonly perClient: number;
  /** Of all clients that are not known. */
  readonly strangers: number;
  readonly inAll: number;
}

/** A body that counts until it is released. */
export interface HeldBody {
  readonly bytes: Buffer;
  /** Subtracts it from the count; once. */
  release(): void;
}

/** The most known senders; the one that was away the longest is forgotten first. */
const KNOWN_MAX = 10_000;

type GiveUp = (refusal: Refusal) => void;

export class BatchBodies {
  readonly #limits: HeldBytesLimits;
  readonly #shares: ClientShares;
  readonly #known = new LRUCache<string, true>(entries(KNOWN_MAX));
  /** Unfinished bodies of strangers, oldest first. */
  readonly #unfinished = new Set<GiveUp>();
  #ofStrangers = 0;

  constructor(limits: HeldBytesLimits) {
    this.#limits = limits;
    this.#shares = new ClientShares(limits.inAll);
  }

  /** Bytes held now. */
  get held(): number {
    return this.#shares.taken;
  }

  /** Notes that a client sent a batch with a valid signature. */
  know(client: string): void {
    this.#known.set(client, true);
  }

  /**
   * Reads a body to its end.
   *
   * @param client as `clientKey` names it
   * @throws Refusal body_too_large; unavailable where too many bytes are held already
   */
  read(client: string, source: Readable): Promise<HeldBody> {
    const isStranger = this.#known.get(client) === undefined;
    const chunks: Buffer[] = [];
    let size = 0;
    const release = () => {
      this.#shares.give(client, size);
      if (isStranger) this.#ofStrangers -= size;
      size = 0;
      chunks.length = 0;
    };
    return new Promise((resolve, reject) => {
      const giveUp: GiveUp = (refusal) => {
        this.#unfinished.delete(giveUp);
        release();
        // The answer is sent on the same connection: the rest of the body is read and dropped.
        source.off('data', onData).off('end', onEnd).resume();
        reject(refusal);
      };
      const onData = (chunk: Buffer) => {
        const { perBody, perClient } = this.#limits;
        if (size + chunk.length > perBody) {
          giveUp(new Refusal('body_too_large', `a batch has at most ${perBody} bytes`));
        } else if (!this.#shares.take(client, chunk.length, perClient)) {
          giveUp(tooManyBatches());
        } else {
          chunks.push(chunk);
          size += chunk.length;
          if (isStranger) this.#countStranger(chunk.length);
        }
      };
      const onEnd = () => {
        this.#unfinished.delete(giveUp);
        const bytes = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, size);
        chunks.length = 0;
        resolve({ bytes, release });
      };
      if (isStranger) this.#unfinished.add(giveUp);
      source.on('data', onData).on('end', onEnd);
      // The client hung up: the operator need not fix anything.
      source.once('error', (cause) =>
        giveUp(new Refusal('invalid_request', 'the body ended too early', { cause })),
      );
    });
  }

  #countStranger(bytes: number): void {
    this.#ofStrangers += bytes;
    for (const giveUp of this.#unfinished) {
      if (this.#ofStrangers <= this.#limits.strangers) return;
      giveUp(tooManyBatches());
    }
  }
}

function tooManyBatches(): Refusal {
  return new Refusal('unavailable', 'too many batches are being read');
}
