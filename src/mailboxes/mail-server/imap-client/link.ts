/**
 * Commands to an IMAP server and its answers, one command at a time. What the answers mean is the matter of those who ask.
 */
import type { Socket } from 'node:net';
import { type FailureDetails, ImapFailure, nameFailure, saidOf } from './failure.ts';
import { type ImapItem, type ImapResponse, ResponseReader } from './responses.ts';
import { type Argument, type Literal, literal, textOf, writeCommand } from './wire.ts';

export type Untagged = Readonly<Record<string, (response: ImapResponse) => void>>;

/** A command under way. */
interface Pending {
  /** Undefined for the greeting. */
  readonly tag: string | undefined;
  readonly name: string;
  readonly on: Untagged;
  readonly done: PromiseWithResolvers<ImapResponse>;
  /** Called where the server asks for the rest of it. */
  goOn?: () => void;
  /** By a handler. */
  thrown?: { readonly error: unknown };
}

/** A command that is still being answered after this many timeouts is cut off. */
const LONGEST_COMMAND = 10;
/** Octets that a server may send between two commands. */
const UNASKED_MAX = 1024 * 1024;

export class Link {
  readonly #socket: Socket;
  readonly #timeoutMs: number;
  readonly #reader = new ResponseReader();
  readonly #onData = (chunk: Buffer): void => this.#received(chunk);
  readonly #onClose = (): void => this.fail(new ImapFailure('dropped'));
  readonly #onError = (error: Error): void => this.fail(nameFailure(error));
  #tags = 0;
  /** Octets received, and those sent of literals. */
  #traffic = 0;
  #pending: Pending | undefined;
  #failure: ImapFailure | undefined;
  #onEnd: () => void = () => {};
  /** As the server said last, until a login changes it. */
  #capabilities: readonly string[] | undefined;
  #has: ReadonlySet<string> = new Set();
  /** For what the server says without having been asked, by name. */
  unasked: Untagged = {};

  constructor(socket: Socket, timeoutMs: number) {
    this.#socket = socket;
    this.#timeoutMs = timeoutMs;
    socket.on('data', this.#onData).on('close', this.#onClose).on('error', this.#onError);
  }

  /** Why it has ended, or will not be used any more. */
  get failure(): ImapFailure | undefined {
    return this.#failure;
  }

  /** As the server said it. */
  get capabilities(): readonly string[] {
    return this.#capabilities ?? [];
  }

  /** @param capability in capitals */
  has(capability: string): boolean {
    return this.#has.has(capability);
  }

  async findCapabilities(): Promise<void> {
    if (!this.#capabilities) await this.command('CAPABILITY');
  }

  /** @throws ImapFailure where it is no welcome */
  async greeting(): Promise<void> {
    const { tag, name, text } = await this.#start('LOGIN', undefined).done.promise;
    const details = { said: saidOf(`${name} ${text}`.trim()) };
    if (tag !== '*') throw new ImapFailure('no_greeting', details);
    // Nobody but the account may be logged in (PREAUTH).
    if (name !== 'OK') throw new ImapFailure('dropped', details);
  }

  /**
   * Sends a command and passes its untagged responses to `on`, by their names.
   *
   * @param answer to the server's challenge
   * @returns the tagged OK
   * @throws ImapFailure; after any but `said_no` and `said_bad` the connection has ended. The first error that `on` threw
   */
  async command(
    name: string,
    args: readonly Argument[] = [],
    on: Untagged = {},
    answer?: string,
  ): Promise<ImapResponse> {
    if (this.#pending) throw new Error('one command at a time');
    // What came before it answers nothing.
    this.#read();
    if (this.#failure) throw this.#failure;
    // A login changes them (RFC 9051 section 6.1.1).
    if (name === 'LOGIN' || name === 'AUTHENTICATE') this.#capabilities = undefined;
    const tag = `postroom${++this.#tags}`;
    const pending = this.#start(name, tag, { ...this.unasked, ...on });
    const pieces = writeCommand(`${tag} ${name}`, args);
    if (answer !== undefined) pieces.push(literal(Buffer.from(`${answer}\r\n`)));
    const stop = this.#watch();
    try {
      for (const piece of pieces) {
        if (typeof piece === 'string') this.#socket.write(piece, 'latin1');
        // A source that stalls is not waited for once the connection has ended.
        else await Promise.race([this.#end(), this.#sendLiteral(pending, piece)]);
        if (this.#failure) break;
      }
      return await pending.done.promise;
    } finally {
      stop();
    }
  }

  /** Ends it at once. A command under way fails with this. */
  fail(failure: ImapFailure): void {
    if (this.#failure) return;
    this.#failure = failure;
    this.#onEnd();
    this.#socket.destroy();
    const pending = this.#pending;
    this.#pending = undefined;
    const { kind, details } = failure;
    pending?.done.reject(new ImapFailure(kind, { command: pending.name, ...details }));
  }

  /** Called once, when it has ended for any reason. */
  onClose(listener: () => void): void {
    if (this.#socket.destroyed) queueMicrotask(listener);
    else this.#socket.once('close', listener);
  }

  /** Leaves the socket to others. @returns it, and what came after the last answer */
  leave(): { readonly socket: Socket; readonly early: Buffer } {
    const socket = this.#socket.pause();
    socket.off('data', this.#onData).off('close', this.#onClose).off('error', this.#onError);
    return { socket, early: this.#reader.rest };
  }

  #start(name: string, tag?: string, on: Untagged = {}): Pending {
    const done = Promise.withResolvers<ImapResponse>();
    // It may fail while a literal is sent.
    done.promise.catch(() => {});
    this.#pending = { name, tag, on, done };
    return this.#pending;
  }

  /** Resolves when it ends; only for the last that asked. */
  #end(): Promise<void> {
    return new Promise((resolve) => {
      this.#onEnd = resolve;
    });
  }

  /** Sends octets once the server asks for them. */
  async #sendLiteral(pending: Pending, { size, open }: Literal): Promise<void> {
    const answered = pending.done.promise;
    const asked = new Promise<void>((resolve) => {
      pending.goOn = resolve;
    });
    await Promise.race([asked, answered]);
    let left = size;
    try {
      if (this.#pending !== pending)
        throw new ImapFailure('garbled', { said: 'OK to half a command' });
      for await (const octets of open()) {
        left -= octets.length;
        if (left < 0) break;
        this.#traffic += octets.length;
        if (this.#socket.write(octets)) continue;
        await Promise.race([new Promise((go) => this.#socket.once('drain', go)), answered]);
      }
      if (left !== 0)
        throw new Error(`a literal of ${size} octets has ${left < 0 ? 'more' : 'fewer'}`);
    } catch (error) {
      // The server waits for the rest. The command fails with the error itself, not with the end that follows from it.
      this.#onEnd = () => {};
      this.fail(error instanceof ImapFailure ? error : new ImapFailure('dropped'));
      throw error;
    }
  }

  /** Ends it where the server is silent for too long, or its answer never ends. */
  #watch(): () => void {
    let seen = this.#traffic;
    let left = LONGEST_COMMAND;
    const timer = setInterval(() => {
      if (this.#traffic === seen || --left === 0) this.fail(new ImapFailure('silent'));
      seen = this.#traffic;
    }, this.#timeoutMs);
    return () => clearInterval(timer);
  }

  #received(chunk: Buffer): void {
    this.#reader.push(chunk);
    this.#traffic += chunk.length;
    if (this.#pending) this.#read();
    else if (this.#reader.rest.length > UNASKED_MAX) {
      this.fail(new ImapFailure('garbled', { said: 'much that nobody asked for' }));
    }
  }

  /** Reads what has come: up to the answer of the command under way, if there is one. */
  #read(): void {
    const isAsked = this.#pending !== undefined;
    try {
      while (!this.#failure && isAsked === (this.#pending !== undefined)) {
        const response = this.#reader.next();
        if (!response) break;
        this.#take(response);
      }
    } catch (error) {
      this.fail(nameFailure(error));
    }
  }

  /** @throws ImapFailure */
  #take(response: ImapResponse): void {
    const { tag, name, items, code } = response;
    const pending = this.#pending;
    if (name === 'CAPABILITY') this.#noteCapabilities(items);
    if (code?.name === 'CAPABILITY') this.#noteCapabilities(code.values);
    if (pending && (pending.tag === undefined ? isGreeting(response) : pending.tag === tag)) {
      this.#pending = undefined;
      finish(pending, response);
    } else if (tag === '+') pending?.goOn?.();
    else if (tag !== '*') throw new ImapFailure('garbled', { said: 'an answer to no command' });
    else if (name === 'BYE') throw new ImapFailure('dropped', saidBy(response));
    else if (!pending?.thrown) {
      try {
        (pending?.on ?? this.unasked)[name]?.(response);
      } catch (error) {
        if (!pending) throw error;
        pending.thrown = { error };
      }
    }
  }

  #noteCapabilities(names: readonly ImapItem[]): void {
    this.#capabilities = names.map((name) => textOf(name) ?? '');
    this.#has = new Set(this.#capabilities.map((name) => name.toUpperCase()));
  }
}

/** Some servers tell their capabilities before it. */
function isGreeting({ tag, name }: ImapResponse): boolean {
  return tag !== '*' || name !== 'CAPABILITY';
}

function finish({ tag, name: command, done, thrown }: Pending, response: ImapResponse): void {
  const { name } = response;
  if (tag === undefined || (name === 'OK' && !thrown)) done.resolve(response);
  else if (name === 'OK') done.reject(thrown?.error);
  else {
    const details = { command, ...saidBy(response) };
    done.reject(new ImapFailure(name === 'NO' ? 'said_no' : 'said_bad', details));
  }
}

function saidBy({ name, code, text }: ImapResponse): FailureDetails {
  const said = saidOf(text || code?.name || name);
  return { said, ...(code && { responseCode: code.name }) };
}
