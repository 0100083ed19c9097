/**
 * The client side of SMTP (RFC 5321) and LMTP (RFC 2033), without a socket and without clocks. A conversation is a
 * generator: it yields what its connection is to do next, and gets the replies. Where the connection fails, its owner
 * throws the {@link SmtpFailure} into it. `connection.ts` is the owner that has a socket.
 */
import { type Reply, SmtpFailure } from './text.ts';

/** A step for the connection. */
export type Step =
  /** Send commands. */
  | { readonly do: 'write'; readonly text: string }
  /** Wait for a reply, to a command or to the end of the message, and return it. */
  | { readonly do: 'read'; readonly after: 'command' | 'message' }
  /** Begin TLS, as a client. */
  | { readonly do: 'secure' }
  /**
   * Send the message, dot-stuffed, and its end. If the server replies before the end, return that reply, and do not
   * send the end.
   */
  | { readonly do: 'content' };

export type Conversation<Result> = Generator<Step, Result, Reply | undefined>;

export interface ClientOptions {
  readonly protocol: 'smtp' | 'lmtp';
  /** Our name for EHLO or LHLO. */
  readonly hostname: string;
  /**
   * - `none`: never
   * - `offered`: STARTTLS where it is offered
   * - `required`: STARTTLS
   * - `implicit`: TLS from the first byte (RFC 8314 section 3.3)
   */
  readonly tls: 'none' | 'offered' | 'required' | 'implicit';
  readonly login?: Login | undefined;
}

export interface Login {
  readonly user: string;
  readonly password: string;
}

/** What a server said about itself. */
export interface ServerFacts {
  readonly greeting: Reply;
  /** Keywords in upper case, and their parameters (RFC 5321 section 4.1.1.1). */
  readonly extensions: ReadonlyMap<string, string>;
}

export interface Envelope {
  /** Reverse-path without angle brackets; `''` is the null sender. */
  readonly from: string;
  /** Forward-paths, at least one. */
  readonly to: readonly string[];
  /** Octets of the message, for SIZE (RFC 1870). */
  readonly size: number;
  /**
   * Whether it is announced as BODY=8BITMIME (RFC 6152). A server without that extension gets it unchanged: recoding
   * would break signatures.
   */
  readonly eightBit: boolean;
  /** Whether SMTPUTF8 is asked for (RFC 6531 section 3.4); the server has to offer it. */
  readonly smtpUtf8: boolean;
}

/** The result for one recipient at the end of a transaction. */
export type RecipientResult = (
  | {
      readonly reply: Reply;
      /** It answers RCPT: it is about this recipient, and not about the sender or the message. */
      readonly isToRcpt?: true;
    }
  /** There is no reply: the connection failed, or the server broke the protocol. */
  | { readonly failure: string }
) & {
  /**
   * How far the transaction got: nothing of the message was sent; a part of it; or all of it, so that the server may
   * have accepted it.
   */
  readonly stage: 'envelope' | 'content' | 'sent';
};

/** The largest message that a server accepts, in octets; infinity where it does not say (RFC 1870). */
export function sizeLimit({ extensions }: ServerFacts): number {
  const limit = Number(extensions.get('SIZE') ?? 0);
  return limit > 0 ? limit : Number.POSITIVE_INFINITY;
}

/** Whether a command can contain the path. RFC 5321 allows more paths, in quotes. */
export function isWritablePath(path: string): boolean {
  return !/[\p{Cc}<>]/u.test(path);
}

/**
 * Opens a connection: greeting, EHLO or LHLO, encryption, login.
 *
 * @throws SmtpFailure
 */
export function* greet(options: ClientOptions): Conversation<ServerFacts> {
  const { tls, login } = options;
  if (tls === 'implicit') yield { do: 'secure' };
  const greeting = expect(yield* read(), 220, 'the connection');
  let extensions = yield* sayHello(options);
  if (tls === 'required' || (tls === 'offered' && extensions.has('STARTTLS'))) {
    yield* during('tls', startTls(extensions));
    // Anybody may have changed what came in plaintext (RFC 3207 section 4.2).
    extensions = yield* sayHello(options);
  }
  if (login) yield* during('login', logIn(extensions, login));
  return { greeting, extensions };
}

function* sayHello({ protocol, hostname }: ClientOptions): Conversation<Map<string, string>> {
  const hello = protocol === 'lmtp' ? 'LHLO' : 'EHLO';
  const reply = yield* ask(`${hello} ${hostname}`);
  // RFC 5321 section 3.2: a server that does not know EHLO may know HELO.
  if (protocol === 'smtp' && reply.code >= 500) {
    expect(yield* ask(`HELO ${hostname}`), 250, 'HELO');
    return new Map();
  }
  const [, ...lines] = expect(reply, 250, hello).text.split('\n');
  return new Map(
    lines.map((line) => {
      const [keyword = ''] = /^\S*/.exec(line) ?? [];
      return [keyword.toUpperCase(), line.slice(keyword.length).trim()];
    }),
  );
}

function* startTls(extensions: ReadonlyMap<string, string>): Conversation<void> {
  if (!extensions.has('STARTTLS')) throw new SmtpFailure('the server offers no STARTTLS');
  expect(yield* ask('STARTTLS'), 220, 'STARTTLS');
  yield { do: 'secure' };
}

/** RFC 4954, by PLAIN (RFC 4616) or LOGIN. */
function* logIn(
  extensions: ReadonlyMap<string, string>,
  { user, password }: Login,
): Conversation<void> {
  const mechanisms = (extensions.get('AUTH') ?? '').toUpperCase().split(/\s+/);
  if (mechanisms.includes('PLAIN')) {
    expect(yield* ask(`AUTH PLAIN ${base64(`\0${user}\0${password}`)}`), 235, 'the login');
  } else if (mechanisms.includes('LOGIN')) {
    expect(yield* ask('AUTH LOGIN'), 334, 'AUTH LOGIN');
    expect(yield* ask(base64(user)), 334, 'the user of the login');
    expect(yield* ask(base64(password)), 235, 'the login');
  } else {
    throw new SmtpFailure('the server offers neither AUTH PLAIN nor AUTH LOGIN');
  }
}

/**
 * One mail transaction (RFC 5321 section 3.3). The connection can have another one after it, if it is still usable.
 *
 * @returns the result for each recipient, in the order of the envelope
 */
export function* transact(
  protocol: ClientOptions['protocol'],
  server: ServerFacts,
  envelope: Envelope,
): Conversation<RecipientResult[]> {
  const results: (RecipientResult | undefined)[] = envelope.to.map(() => undefined);
  let stage: RecipientResult['stage'] = 'envelope';
  const settle = (rest: RecipientResult) => results.map((result) => result ?? rest);
  try {
    const refused = yield* address(server, envelope, results);
    if (refused || !results.includes(undefined)) return settle({ ...(refused ?? noReply), stage });
    stage = 'content';
    const early = yield { do: 'content' };
    if (early) return settle({ ...earlyAnswer(early), stage });
    stage = 'sent';
    let reply: Reply | undefined;
    for (const [index, result] of results.entries()) {
      if (result) continue;
      // By LMTP one reply for each recipient that RCPT accepted, in that order (RFC 2033 section 4.2).
      if (!reply || protocol === 'lmtp') reply = yield* read('message');
      results[index] = { reply, stage };
    }
    return settle({ ...noReply, stage });
  } catch (error) {
    if (!(error instanceof SmtpFailure)) throw error;
    return settle({ failure: error.message, stage });
  }
}

/** Ends a transaction without a message. @throws SmtpFailure */
export function* reset(): Conversation<void> {
  expect(yield* ask('RSET'), 250, 'RSET');
}

const noReply = { failure: 'the server did not answer' };

/**
 * MAIL, RCPT and DATA. Recipients that are refused get their result.
 *
 * @returns the result of all the others, where the message itself is refused
 */
function* address(
  { extensions }: ServerFacts,
  envelope: Envelope,
  results: (RecipientResult | undefined)[],
): Conversation<{ reply: Reply } | { failure: string } | undefined> {
  const commands = [
    mailCommand(extensions, envelope),
    ...envelope.to.map((path) => `RCPT TO:<${path}>\r\n`),
  ];
  const isPipelined = extensions.has('PIPELINING');
  if (isPipelined) yield { do: 'write', text: commands.join('') };
  let refused: { reply: Reply } | undefined;
  for (const [at, command] of commands.entries()) {
    if (!isPipelined) yield { do: 'write', text: command };
    const reply = yield* read();
    if (at === 0 && reply.code >= 300) {
      refused = { reply };
      // The replies to pipelined RCPT commands still come.
      if (!isPipelined) break;
    } else if (!refused && reply.code >= 300) {
      results[at - 1] = { reply, isToRcpt: true, stage: 'envelope' };
    }
  }
  if (refused || !results.includes(undefined)) return refused;
  const reply = yield* ask('DATA');
  if (reply.code === 354) return undefined;
  return reply.code < 400 ? { failure: `the server answered DATA with ${reply.code}` } : { reply };
}

function mailCommand(extensions: ReadonlyMap<string, string>, envelope: Envelope): string {
  const { from, size, eightBit, smtpUtf8 } = envelope;
  const parameters = [
    ...(extensions.has('SIZE') ? [`SIZE=${size}`] : []),
    ...(eightBit && extensions.has('8BITMIME') ? ['BODY=8BITMIME'] : []),
    ...(smtpUtf8 ? ['SMTPUTF8'] : []),
  ];
  return `${[`MAIL FROM:<${from}>`, ...parameters].join(' ')}\r\n`;
}

/** The reply of a server that gave up is its reason. A positive reply to half a message breaks the protocol. */
function earlyAnswer(reply: Reply): { reply: Reply } | { failure: string } {
  return reply.code >= 400
    ? { reply }
    : { failure: `the server answered ${reply.code} before the message's end` };
}

function* ask(command: string): Conversation<Reply> {
  yield { do: 'write', text: `${command}\r\n` };
  return yield* read();
}

function* read(after: 'command' | 'message' = 'command'): Conversation<Reply> {
  const reply = yield { do: 'read', after };
  if (!reply) throw new Error('a conversation was given no reply');
  return reply;
}

function expect(reply: Reply, code: number, what: string): Reply {
  if (reply.code === code) return reply;
  const { code: said, enhanced = '', text } = reply;
  throw new SmtpFailure(`the server answered ${what} with ${said} ${enhanced} ${text}`, { reply });
}

/** Adds to a failure what was under way. */
function* during<Result>(
  what: 'tls' | 'login',
  conversation: Conversation<Result>,
): Conversation<Result> {
  try {
    return yield* conversation;
  } catch (error) {
    if (!(error instanceof SmtpFailure)) throw error;
    const { message, reply } = error;
    throw new SmtpFailure(message, { ...(reply && { reply }), during: what });
  }
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
