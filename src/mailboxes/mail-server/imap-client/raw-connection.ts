/**
 * A connection that is logged in for one account and then left to a mail program: what either side sends is passed on as it
 * comes. imapflow keeps its socket to itself, so the few commands of a login are our own here.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { Wire } from '../../../platform/net/net.ts';
import { type ImapLogin, type ServerAddress, tlsOptions } from './connection.ts';
import { type FailureDetails, ImapFailure, nameFailure } from './failure.ts';

export interface RawConnection {
  readonly wire: Wire;
  /** What the server may do for the account, as it said after the login. */
  readonly capabilities: string;
  /** What it sent after that. */
  readonly early: Buffer;
  /** Ends it at once. */
  destroy(): void;
}

export interface RawOptions {
  readonly server: ServerAddress;
  readonly login: ImapLogin;
  /** IP address of the mail program. */
  readonly client: string;
  /** Milliseconds for the whole login. */
  readonly timeoutMs: number;
}

/** Octets of an answer's line. */
const LINE_MAX = 64 * 1024;
/** Milliseconds without a byte after which the server's host is asked whether it is still there. */
const KEEPALIVE_MS = 10 * 60_000;
const LF = 0x0a;

/** How far a login has come, by what it fails with where it takes too long. */
type Stage = 'unreachable' | 'no_greeting' | 'silent';

/** @throws ImapFailure */
export async function openRaw(options: RawOptions): Promise<RawConnection> {
  const { server, timeoutMs } = options;
  const { host, port } = server;
  let stage: Stage = 'unreachable';
  const keepAlive = { keepAlive: true, keepAliveInitialDelay: KEEPALIVE_MS };
  const plain = connect({ host, port, noDelay: true, ...keepAlive });
  // Whoever waits for it or reads learns of an error.
  plain.on('error', () => {});
  const late = AbortSignal.timeout(timeoutMs);
  const cut = () => plain.destroy(late.reason);
  late.addEventListener('abort', cut, { once: true });
  try {
    await once(plain, 'connect');
    stage = 'no_greeting';
    const opened = await logIn(plain, options, () => {
      stage = 'silent';
    });
    late.throwIfAborted();
    return opened;
  } catch (error) {
    plain.destroy();
    throw late.aborted
      ? new ImapFailure(stage, { command: 'LOGIN', said: 'not in time' })
      : nameFailure(error, 'LOGIN');
  } finally {
    late.removeEventListener('abort', cut);
  }
}

/** @param onGreeting called when the server has greeted */
async function logIn(
  plain: Socket,
  { server, login, client }: RawOptions,
  onGreeting: () => void,
): Promise<RawConnection> {
  const isImplicit = server.tls === 'implicit';
  let talk = new Talk(isImplicit ? await secure(plain, server) : plain);
  await talk.greeting();
  onGreeting();
  if (server.tls === 'starttls') {
    await talk.command('STARTTLS');
    // What follows without TLS could be somebody else's (RFC 9051 section 11.3).
    if ((await talk.leave()).length > 0) throw new ImapFailure('garbled', { command: 'STARTTLS' });
    talk = new Talk(await secure(plain, server));
  }
  const { socket } = talk;
  const before = await talk.capabilities();
  // Dovecot shows this address in its log, and counts connections by it, where it trusts ours (login_trusted_networks).
  if (before.has('ID')) {
    await talk.command(`ID ("name" "postroom" "x-originating-ip" ${quote(client)})`);
  }
  await authenticate(talk, login, before).catch((error: unknown) => {
    const failure = nameFailure(error, 'LOGIN');
    // So Dovecot answers for an account that it does not have: the server is well.
    throw failure.kind === 'dropped' ? refusalOf(failure.details) : failure;
  });
  const after = await talk.capabilities();
  // RFC 8437: the program could leave its account, and guess passwords of others as often as it likes.
  if (after.has('UNAUTHENTICATE')) throw new ImapFailure('may_leave', { command: 'LOGIN' });
  const early = await talk.leave();
  const capabilities = [...after].join(' ');
  return { wire: new Wire(socket), capabilities, early, destroy: () => socket.destroy() };
}

async function secure(plain: Socket, server: ServerAddress): Promise<Socket> {
  const socket = connectTls({ socket: plain, host: server.host, ...tlsOptions(server) });
  socket.on('error', () => {});
  await once(socket, 'secureConnect');
  return socket;
}

async function authenticate(
  talk: Talk,
  { user, pass, authzid = '' }: ImapLogin,
  capabilities: ReadonlySet<string>,
): Promise<void> {
  if (/\0/.test(user + pass + authzid)) throw new ImapFailure('login_refused');
  if (authzid === '' && !capabilities.has('AUTH=PLAIN')) {
    await talk.command('LOGIN ', [user, pass]);
    return;
  }
  const answer = Buffer.from(`${authzid}\0${user}\0${pass}`).toString('base64');
  if (capabilities.has('SASL-IR')) await talk.command(`AUTHENTICATE PLAIN ${answer}`);
  else await talk.command('AUTHENTICATE PLAIN', [], answer);
}

/** Printable ASCII alone may be quoted (RFC 9051 section 4.3). */
function quote(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

/** Commands, one after another. */
class Talk {
  readonly socket: Socket;
  readonly #chunks: NodeJS.AsyncIterator<Buffer>;
  #held: Buffer = Buffer.alloc(0);
  #tags = 0;
  /** As the server said last, until a command changes it. */
  #capabilities: ReadonlySet<string> | undefined;

  constructor(socket: Socket) {
    this.socket = socket;
    this.#chunks = socket.iterator({ destroyOnReturn: false });
  }

  async greeting(): Promise<void> {
    const line = await this.#line();
    this.#note(line);
    // Nobody but the account may be logged in (PREAUTH).
    if (!/^\* OK\b/i.test(line)) throw new ImapFailure('dropped', { said: textOf(line) });
  }

  async capabilities(): Promise<ReadonlySet<string>> {
    if (!this.#capabilities) await this.command('CAPABILITY');
    return this.#capabilities ?? new Set();
  }

  /**
   * @param strings that follow, separated by spaces
   * @param answer to the server's challenge
   * @throws ImapFailure where the answer is not OK
   */
  async command(text: string, strings: readonly string[] = [], answer?: string): Promise<void> {
    const [name = ''] = text.split(' ');
    const tag = `postroom${++this.#tags}`;
    // STARTTLS, for which there is another talk, and a login change them (RFC 9051 section 6.1.1).
    if (name === 'LOGIN' || name === 'AUTHENTICATE') this.#capabilities = undefined;
    const pieces = [`${tag} ${text}`];
    for (const [at, string] of strings.entries()) {
      if (at > 0) pieces.push(`${pieces.pop()} `);
      if (/^[ -~]*$/.test(string)) pieces.push(`${pieces.pop()}${quote(string)}`);
      else pieces.push(`${pieces.pop()}{${Buffer.byteLength(string)}}`, string);
    }
    if (answer !== undefined) pieces.push(answer);
    const last = pieces.pop() ?? '';
    for (const piece of pieces) {
      this.socket.write(`${piece}\r\n`);
      await this.#until('+', tag, name);
    }
    this.socket.write(`${last}\r\n`);
    await this.#until(tag, tag, name);
  }

  /** @returns what came after the last answer; nothing more is read */
  async leave(): Promise<Buffer> {
    await this.#chunks.return?.();
    return this.#held;
  }

  /** Reads up to the line that begins with a word, or with the tag. */
  async #until(word: string, tag: string, command: string): Promise<void> {
    for (;;) {
      const line = await this.#line();
      const [first, status = ''] = line.split(' ', 2);
      this.#note(line);
      if (first === '*' && /^BYE$/i.test(status)) {
        throw new ImapFailure('dropped', { command, said: textOf(line) });
      }
      if (first === tag && !/^OK$/i.test(status)) {
        throw refusalOf({ command, said: textOf(line) });
      }
      if (first === word) return;
      if (first === tag) throw new ImapFailure('garbled', { command, said: textOf(line) });
    }
  }

  /** `* CAPABILITY …`, or a code of the greeting or of an OK. */
  #note(line: string): void {
    const listed = /^(?:\* CAPABILITY |\S+ OK \[CAPABILITY )([ -Z^-~]*)/i.exec(line)?.[1];
    if (listed === undefined) return;
    this.#capabilities = new Set(listed.split(' ').filter((name) => name !== ''));
  }

  async #line(): Promise<string> {
    for (;;) {
      const end = this.#held.indexOf(LF);
      if (end >= 0) {
        const line = this.#held.toString('latin1', 0, end).replace(/\r$/, '');
        this.#held = this.#held.subarray(end + 1);
        return line;
      }
      if (this.#held.length > LINE_MAX) throw new ImapFailure('garbled');
      const { value, done } = await this.#chunks.next();
      if (done || value === undefined) throw new ImapFailure('dropped');
      this.#held = Buffer.concat([this.#held, value]);
    }
  }
}

/** What is left of an answer without its first words; codes stay. */
function textOf(line: string): string {
  return line
    .replace(/^\S+ (?:\S+ )?/, '')
    .replace(/[^ -~]/g, '?')
    .slice(0, 200);
}

/** A refusal for now, such as that of one connection too many, says nothing of the login (RFC 5530 section 3). */
function refusalOf({ command = 'LOGIN', said = 'it closed the connection' }: FailureDetails) {
  const responseCode = /^\[([A-Z-]+)/i.exec(said)?.[1];
  const details = { command, said, ...(responseCode !== undefined && { responseCode }) };
  const failure = new ImapFailure('said_no', details);
  const isLogin = command === 'LOGIN' || command === 'AUTHENTICATE';
  return isLogin && !failure.isTemporary ? new ImapFailure('login_refused', details) : failure;
}
