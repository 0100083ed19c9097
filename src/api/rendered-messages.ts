/**
 * Answers with whole messages, kept as JSON for a while: when a message arrives, every device of its
 * reader fetches it, and writing 20 KB of mail as JSON takes longer than all else of the request.
 */
import { LRUCache } from 'lru-cache';
import type { Message } from '../mailstore/mailstore.ts';

export class RenderedMessages {
  /** JSON without its opening brace, by content id. */
  readonly #kept: LRUCache<string, Buffer>;

  /** @param max octets kept */
  constructor(max: number) {
    this.#kept = new LRUCache({ maxSize: max, sizeCalculation: (rest) => rest.length });
  }

  /**
   * The JSON of a message.
   *
   * @param read gives all of its members but `uid` and `flags`
   */
  async write(message: Message, read: () => Promise<object>): Promise<Buffer> {
    const { uid, flags, contentId } = message;
    const kept = contentId === undefined ? undefined : this.#kept.get(contentId);
    const rest = kept ?? Buffer.from(JSON.stringify(await read()).slice(1));
    if (contentId !== undefined && !kept) this.#kept.set(contentId, rest);
    const start = Buffer.from(`{"uid":${uid},"flags":${JSON.stringify(flags)},`);
    return Buffer.concat([start, rest]);
  }
}
