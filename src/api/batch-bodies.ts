/**
 * Reads the bodies of batches into memory. Only when a body is complete does its signature tell
 * whether its sender may send it at all, so that strangers can make us hold bytes. What is held is
 * bounded for each client and for all. Strangers share a part of it, and known senders (clients that
 * sent a batch with a good signature before) have the rest to themselves.
 *
 * Where the strangers' share is full, the oldest of their unfinished bodies is given up for the new
 * one. So a mail server that is not known yet gets in beside strangers who hold bodies open: its
 * batch is complete long before as much as the share has come in after it.
 */
import type { Readable } from 'node:stream';
import { LRUCache } from 'lru-cache';
import { Refusal } from '../errors/errors.ts';
import { ClientShares } from '../net/net.ts';

/** Bytes held at once, at most. */
interface HeldBytesLimits {
  readonly perBody: number;
  readonly perClient: number;
  /** Of all clients that are not known. */
  readonly strangers: number;
  readonly inAll: number;
}

/** A body that is counted until it is released. */
export interface HeldBody {
  readonly bytes: Buffer;
  /** Takes it off the count; once. */
  release(): void;
}

/** Known senders that are remembered; the one that was away the longest is forgotten first. */
const KNOWN_MAX = 10_000;

type GiveUp = (refusal: Refusal) => void;

export class BatchBodies {
  readonly #limits: HeldBytesLimits;
  readonly #shares: ClientShares;
  readonly #known = new LRUCache<string, true>({ max: KNOWN_MAX });
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

  /** Notes that a client sent a batch with a good signature. */
  know(client: string): void {
    this.#known.set(client, true);
  }

  /**
   * Reads a body to its end.
   *
   * @param client as `clientKey` names it
   * @throws Refusal body_too_large; unavailable where too much is held already
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
        // The answer goes out on the same connection: what still comes is read and dropped.
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
      // The client hung up: nothing that an operator has to mend.
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
