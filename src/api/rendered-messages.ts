/**
 * Answers with whole messages, kept as JSON for a while: when a message arrives, every device of its
 * reader fetches it, and writing 20 KB of mail as JSON takes longer than all else of the request.
 */
import type { Message } from '../mailstore/mailstore.ts';

export class RenderedMessages {
  readonly #max: number;
  /** JSON without its opening brace, by content id; the one used longest ago is the first. */
  readonly #kept = new Map<string, Buffer>();
  #bytes = 0;

  /** @param max octets kept */
  constructor(max: number) {
    this.#max = max;
  }

  /**
   * The JSON of a message.
   *
   * @param read gives all of its members but `uid` and `flags`
   */
  async write(message: Message, read: () => Promise<object>): Promise<Buffer> {
    const { uid, flags, contentId } = message;
    const kept = contentId === undefined ? undefined : this.#take(contentId);
    const rest = kept ?? Buffer.from(JSON.stringify(await read()).slice(1));
    if (contentId !== undefined) this.#keep(contentId, rest);
    const start = Buffer.from(`{"uid":${uid},"flags":${JSON.stringify(flags)},`);
    return Buffer.concat([start, rest]);
  }

  #take(contentId: string): Buffer | undefined {
    const kept = this.#kept.get(contentId);
    if (!kept) return undefined;
    this.#kept.delete(contentId);
    this.#bytes -= kept.length;
    return kept;
  }

  #keep(contentId: string, rest: Buffer): void {
    // Another request may have read the same message meanwhile.
    this.#take(contentId);
    this.#kept.set(contentId, rest);
    this.#bytes += rest.length;
    for (const [oldest] of this.#kept) {
      if (this.#bytes <= this.#max) break;
      this.#take(oldest);
    }
  }
}
