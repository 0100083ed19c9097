/**
 * A session on a mail server of the operator: after the login, octets pass both ways unread. Each side is read as fast as
 * the other reads, so nothing is held but what sockets hold.
 */
import type { RawConnection } from '../../mailboxes/mail-server/mail-server.ts';
import type { Wire } from '../../platform/net/net.ts';

/** The other side of an account that a mail server has opened. */
export interface Program {
  readonly wire: Wire;
  /** What the program sent after its login. */
  readonly early: Uint8Array;
  /** Sends octets. @throws where the program left */
  write(octets: Uint8Array): Promise<void> | undefined;
  /** Called with how many octets came from it. */
  onBytes(amount: number): void;
  /** Called before and after octets are sent to the server, which may not read. */
  onSending(isSending: boolean): void;
}

/** Milliseconds for the server to answer what a program sent before it ended its side. */
const LAST_ANSWERS = 5_000;

/** Passes on what either side sends, until one of them ends. Never rejects. @returns what the program got */
export async function passOn(program: Program, server: RawConnection): Promise<SentLines> {
  const { wire } = program;
  const mayCompress = /\bCOMPRESS=/i.test(server.capabilities);
  const seen = new SentLines();
  let cut: NodeJS.Timeout | undefined;
  let isOver = false;
  /** The last characters from the program: the command may come in pieces. */
  let last = '';
  const send = async (octets: Uint8Array) => {
    if (mayCompress) {
      const text = last + Buffer.from(octets).toString('latin1');
      if (/compress/i.test(text)) seen.lose();
      last = text.slice(1 - 'compress'.length);
    }
    program.onSending(true);
    await server.wire.write(octets);
    program.onSending(false);
  };
  const toServer = async () => {
    if (program.early.length > 0) await send(program.early);
    while (!isOver) {
      const octets = await wire.read();
      if (octets === undefined) break;
      // Nothing came where the wait was interrupted.
      if (octets.length === 0) continue;
      program.onBytes(octets.length);
      await send(octets);
    }
    // The server may answer what came before the program ended its side.
    server.wire.finish();
    if (!isOver) cut = setTimeout(() => server.destroy(), LAST_ANSWERS);
  };
  const toProgram = async () => {
    for (let octets: Uint8Array | undefined = server.early; octets; ) {
      seen.add(octets);
      if (octets.length > 0) await program.write(octets);
      octets = await server.wire.read();
    }
  };
  const back = toProgram()
    // The program left.
    .catch(() => {})
    .finally(() => {
      isOver = true;
      server.destroy();
      wire.interrupt();
    });
  await Promise.all([toServer(), back]);
  clearTimeout(cut);
  return seen;
}

/** The end of a line that announces a literal (RFC 9051 section 4.3); its longest is 13 characters. */
const LITERAL = /\{(\d{1,10})\}\r?$/;
const END_MAX = 14;
const BYE = '* BYE';
const LF = 0x0a;

/** Follows where lines of a server begin: a BYE of ours may stand there, and nowhere else, or a message would have it. */
export class SentLines {
  /** The first characters of the line that has begun, and the last ones. */
  #start = '';
  #end = '';
  /** Octets of a literal that are still to come. */
  #literal = 0;
  #saidBye = false;
  #isLost = false;

  /** Whether the next octet begins a response. */
  get isAtStart(): boolean {
    return this.#literal === 0 && this.#start === '' && !this.#isLost;
  }

  /** What follows may be compressed (RFC 4978). */
  lose(): void {
    this.#isLost = true;
  }

  /** Whether the server has taken leave itself. */
  get saidBye(): boolean {
    return this.#saidBye;
  }

  add(octets: Uint8Array): void {
    const bytes = Buffer.from(octets.buffer, octets.byteOffset, octets.length);
    for (let at = 0; at < bytes.length; ) {
      if (this.#literal > 0) {
        const taken = Math.min(this.#literal, bytes.length - at);
        this.#literal -= taken;
        at += taken;
        continue;
      }
      const end = bytes.indexOf(LF, at);
      const until = end < 0 ? bytes.length : end;
      this.#take(bytes, at, until);
      if (end >= 0) this.#endLine();
      at = until + 1;
    }
  }

  #take(bytes: Buffer, from: number, to: number): void {
    const missing = BYE.length - this.#start.length;
    if (missing > 0) this.#start += bytes.toString('latin1', from, Math.min(to, from + missing));
    const last = bytes.toString('latin1', Math.max(from, to - END_MAX), to);
    this.#end = last.length < END_MAX ? (this.#end + last).slice(-END_MAX) : last;
  }

  #endLine(): void {
    if (this.#start.toUpperCase() === BYE) this.#saidBye = true;
    const octets = LITERAL.exec(this.#end)?.[1];
    this.#literal = Number(octets ?? 0);
    // After a literal its line goes on.
    this.#start = octets === undefined ? '' : '-';
    this.#end = '';
  }
}
