/** Joins answers before they are sent, so that many short ones cost one write. */
import { Buffer } from 'node:buffer';
import type { Output, Part } from './write.ts';

/** Octets that are joined. */
const JOINED = 64 * 1024;
/** Pieces that are sent without a copy: more of them are small. */
const PIECES_MAX = 64;

/** Writes octets. Returns nothing, or what to wait for: the client has not read yet what was written before. */
type Write = (octets: string | Uint8Array | readonly Uint8Array[]) => Promise<void> | undefined;

/** Text is added without a promise: to wait for nothing costs more than to add it. */
export class Outgoing {
  readonly #write: Write;
  #text = '';
  #pieces: Uint8Array[] = [];
  #octets = 0;
  #last: Part = '\n';

  constructor(write: Write) {
    this.#write = write;
  }

  /** Whether what was added ends a line, so that another may follow. To look at each part would cost 5 % of a FETCH. */
  get isAtStart(): boolean {
    return typeof this.#last === 'string' && this.#last.endsWith('\n');
  }

  /** @returns what to wait for before more is added */
  add(output: Output): Promise<void> | undefined {
    if (typeof output !== 'string') return this.#addParts(partsOf(output));
    this.#last = output || this.#last;
    this.#text += output;
    return this.#octets + this.#text.length >= JOINED ? this.flush() : undefined;
  }

  async #addParts(parts: readonly Part[]): Promise<void> {
    this.#last = parts.at(-1) || this.#last;
    for (const part of parts) {
      if (typeof part === 'string') this.#text += part;
      else if (part instanceof Uint8Array) {
        if (this.#text !== '') this.#pieces.push(Buffer.from(this.#text, 'latin1'));
        this.#octets += this.#text.length + part.length;
        this.#text = '';
        this.#pieces.push(part);
      } else {
        await this.flush();
        const last = this.#last;
        // Where it fails, the client is within a literal.
        this.#last = '';
        for await (const piece of part.open()) await this.#write(piece);
        this.#last = last;
      }
      if (this.#octets + this.#text.length >= JOINED) await this.flush();
    }
  }

  /** @returns what to wait for before more is added */
  flush(): Promise<void> | undefined {
    const [text, pieces] = [this.#text, this.#pieces];
    this.#text = '';
    this.#pieces = [];
    this.#octets = 0;
    if (pieces.length === 0) return text === '' ? undefined : this.#write(text);
    if (text !== '') pieces.push(Buffer.from(text, 'latin1'));
    // Large pieces are sent from where they are; a copy of small ones costs less than the system's look at each.
    return this.#write(pieces.length <= PIECES_MAX ? pieces : Buffer.concat(pieces));
  }
}

function partsOf(output: Exclude<Output, string>): readonly Part[] {
  return !(Symbol.iterator in output) || output instanceof Uint8Array ? [output] : output;
}
