/** A new body that is written in pieces of some size, however small those are that come. */
import { GrowingBuffer } from './body-rows.ts';
import type { NewBody } from './body-store.ts';

/** Of a client that sends single bytes, each would be a call to the file system. */
const PIECE = 16 * 1024;

export class PieceWriter implements NewBody {
  readonly name: string;
  readonly #body: NewBody;
  readonly #held = new GrowingBuffer();

  constructor(body: NewBody) {
    this.name = body.name;
    this.#body = body;
  }

  async write(chunk: Uint8Array): Promise<void> {
    if (this.#held.size === 0 && chunk.length >= PIECE) return this.#body.write(chunk);
    this.#held.add(chunk);
    if (this.#held.size >= PIECE) await this.#body.write(this.#held.take());
  }

  async finish(): Promise<void> {
    if (this.#held.size > 0) await this.#body.write(this.#held.take());
    await this.#body.finish();
  }

  abandon(): Promise<void> {
    return this.#body.abandon();
  }
}
