/**
 * Cuts what a client sends into command lines and messages.
 *
 * Takes the place of the library's parser, which takes a bare LF for the end of a command line, runs
 * a line that the end of the connection cut short, removes dots after a bare LF from messages, and
 * answers an overlong line with 421. A command line ends with CRLF and with nothing else (RFC 5321
 * section 2.3.8).
 */
import { SMTPStream } from 'smtp-server/lib/smtp-stream.js';
import { DotTransparency } from '../net/net.ts';
import { IncomingMessage } from './incoming-message.ts';

const CR = 0x0d;
const LF = 0x0a;
const NOTHING = Buffer.alloc(0);

/**
 * Longest command line in octets, CRLF included. RFC 5321 section 4.5.3.1.4 asks for 512, the
 * parameters we offer and SMTPUTF8 add to that (RFC 1870, RFC 6531 section 3.4); the rest is slack.
 */
export const MAX_LINE_OCTETS = 2048;
/** Octets of one overlong line that are skipped; a client that goes on is not speaking SMTP. */
const MAX_SKIPPED_OCTETS = 64 * 1024;
/** Pipelined commands answered before other connections get their turn. */
const LINES_PER_TURN = 100;

/** What is wrong with a line before anybody looks at what it says. */
export type LineFault = 'too long' | 'bare LF' | 'endless';

type Callback = (error?: Error | null) => void;

export class LineParser extends SMTPStream {
  /**
   * Called for a line that is no command. `resume` goes on with the next line; without it the parser
   * stays where it is.
   */
  onfault: (fault: LineFault, resume: () => void) => void = () => {};
  /** While set, called for any input, which is then dropped: the client has to wait for us. */
  onearly: (() => void) | undefined;

  /** Called when all that came has been dealt with. */
  onidle: () => void = () => {};

  /** Bytes not looked at yet, or the start of an unfinished line. */
  #input: Buffer = NOTHING;
  /** Octets of the current line that were dropped because the line is too long. */
  #skipped = 0;
  #done: Callback | undefined;
  #message: IncomingMessage | undefined;
  #transparency = new DotTransparency();
  #running = false;
  #resumed = false;
  readonly #resume = (): void => this.#run();

  /** Whether more came behind what is dealt with now; {@link onidle} follows. */
  get pipelined(): boolean {
    return this.#input.length > 0;
  }

  /** Reads what follows as a message, until its end; then waits for {@link continue}. */
  startMessage(maxBytes: number): IncomingMessage {
    this.#message = new IncomingMessage(maxBytes);
    this.#transparency = new DotTransparency();
    return this.#message;
  }

  /** Reads commands again, after a message. */
  override continue(): void {
    this.#message = undefined;
    this.#run();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding | 'buffer', done: Callback): void {
    if (this.onearly !== undefined) {
      this.onearly();
      done();
      return;
    }
    this.#done = done;
    this.#input = this.#input.length === 0 ? chunk : Buffer.concat([this.#input, chunk]);
    this.#run();
  }

  /** The library runs what is left as a command; a line without its CRLF is none. */
  override _flushData(): void {
    this.#input = NOTHING;
  }

  /** Works until the input is used up or somebody has to call back. */
  #run(): void {
    // Handlers may resume before they return: a loop, not a recursion as deep as the input is long.
    if (this.#running) {
      this.#resumed = true;
      return;
    }
    this.#running = true;
    let usedUp = false;
    try {
      for (let steps = 0; !usedUp; steps++) {
        if (steps === LINES_PER_TURN) {
          setImmediate(this.#resume);
          break;
        }
        this.#resumed = false;
        usedUp = this.#step();
        if (!usedUp && !this.#resumed) break;
      }
    } finally {
      this.#running = false;
    }
    if (usedUp) this.#finishChunk();
  }

  #finishChunk(): void {
    const done = this.#done;
    this.#done = undefined;
    this.onidle();
    done?.();
  }

  /** @returns whether the input is used up */
  #step(): boolean {
    if (this.isClosed) {
      // Nothing that was pipelined behind the end of the connection, or in plaintext behind STARTTLS
      // (RFC 3207 section 6), may run.
      this.#input = NOTHING;
      return true;
    }
    return this.#message === undefined ? this.#readLine() : this.#readMessage(this.#message);
  }

  #readLine(): boolean {
    const end = this.#input.indexOf(LF);
    if (end < 0) return this.#keepUnfinished();
    const line = this.#input.subarray(0, end + 1);
    const tooLong = this.#skipped > 0 || line.length > MAX_LINE_OCTETS;
    this.#input = this.#input.subarray(end + 1);
    this.#skipped = 0;
    if (line.at(-2) !== CR) this.onfault('bare LF', this.#resume);
    else if (tooLong) this.onfault('too long', this.#resume);
    else this.oncommand(line.subarray(0, -2), this.#resume);
    return false;
  }

  #keepUnfinished(): boolean {
    if (this.#input.length > MAX_LINE_OCTETS) {
      this.#skipped += this.#input.length - 1;
      // The last byte may be the CR of the line's end.
      this.#input = this.#input.subarray(-1);
      if (this.#skipped > MAX_SKIPPED_OCTETS) {
        this.onfault('endless', this.#resume);
        return false;
      }
    }
    return true;
  }

  #readMessage(message: IncomingMessage): boolean {
    // The message is in, and continue() has not been called yet.
    if (message.over) return false;
    if (this.#input.length === 0) return true;
    const { content, rest } = this.#transparency.take(this.#input);
    this.#input = rest ?? NOTHING;
    const wanted = message.add(content, this.#resume);
    if (rest === undefined) return wanted;
    message.finish();
    return false;
  }
}
