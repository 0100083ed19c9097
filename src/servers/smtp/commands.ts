/** What a client sends and what it is answered: command lines, their arguments, and replies. */
import { isUtf8 } from 'node:buffer';
import { isIPv4, isIPv6 } from 'node:net';
import { answerOf, Refusal } from '../../platform/errors/errors.ts';
import type { Reply } from '../../protocols/smtp-client/smtp-client.ts';

/* Splits what a client sends into command lines. */

const CR = 0x0d;
const LF = 0x0a;
const TAB = 0x09;
const SPACE = 0x20;
const NOTHING = Buffer.alloc(0);

/**
 * Longest command line in octets, CRLF included. RFC 5321 section 4.5.3.1.4 asks for 512; the parameters that
 * we offer and SMTPUTF8 need more (RFC 1870, RFC 6531 section 3.4); the rest is reserve.
 */
export const MAX_LINE_OCTETS = 2048;
/** Octets of an overlong line that are skipped; after that the connection ends: this is not SMTP. */
const MAX_SKIPPED_OCTETS = 64 * 1024;

/** Anything but printable ASCII; nearly every line has only that. */
const UNUSUAL = /[^ -~]/;
const CONTROL = /[\0-\x1f\x7f]/;

/** Why a line is refused before its command is read. */
export interface LineFault {
  readonly reply: Reply;
  /** Whether the connection must end: nothing after this line can be read safely. */
  readonly isFatal: boolean;
}

function fault(text: string, isFatal: boolean): LineFault {
  return { reply: reply(500, '5.5.2', text), isFatal };
}

const TOO_LONG = fault('The line is too long', false);
const BAD_CHARACTERS = fault('The line has characters that no command has', false);
const ENDLESS = fault('The line does not end', true);
/** Fatal: the two sides disagree about where lines end, and so about what is a command and what follows it. */
const BARE_LF = fault('A line ends with CRLF, not with LF', true);

/**
 * Bytes of a client that are not read yet. A command line ends with CRLF and with nothing else (RFC 5321
 * section 2.3.8); memory stays small however long a line is.
 */
export class CommandLines {
  readonly #most: number;
  #input: Buffer = NOTHING;
  /** Octets of the current line that were dropped because the line is too long. */
  #skipped = 0;

  /** @param most octets of the longest line, CRLF included */
  constructor(most = MAX_LINE_OCTETS) {
    this.#most = most;
  }

  add(bytes: Buffer): void {
    this.#input = this.#input.length === 0 ? bytes : Buffer.concat([this.#input, bytes]);
  }

  /** Removes and returns all bytes that have come, for a reader that does not read lines. */
  takeAll(): Buffer {
    const bytes = this.#input;
    this.#input = NOTHING;
    this.#skipped = 0;
    return bytes;
  }

  /**
   * Removes and returns the next line.
   *
   * @returns its text without its end and without white space before that, which is tolerated (RFC
   *   5321 section 4.1.1); undefined where no whole line has come yet
   */
  next(): string | LineFault | undefined {
    const end = this.#input.indexOf(LF);
    if (end < 0) return this.#keepUnfinished();
    const line = this.#input.subarray(0, end + 1);
    const isTooLong = this.#skipped > 0 || line.length > this.#most;
    this.#input = this.#input.subarray(end + 1);
    this.#skipped = 0;
    if (line.at(-2) !== CR) return BARE_LF;
    return isTooLong ? TOO_LONG : readText(line.subarray(0, -2));
  }

  #keepUnfinished(): LineFault | undefined {
    if (this.#input.length <= this.#most) return undefined;
    this.#skipped += this.#input.length - 1;
    // The last byte may be the CR of the line end.
    this.#input = this.#input.subarray(-1);
    return this.#skipped > MAX_SKIPPED_OCTETS ? ENDLESS : undefined;
  }
}

/** No command may have NUL, a bare CR or other controls (RFC 5321 section 4.1.2). */
function readText(line: Buffer): string | LineFault {
  const octets = withoutTrailingSpace(line).toString('latin1');
  if (!UNUSUAL.test(octets)) return octets;
  if (CONTROL.test(octets) || !isUtf8(line)) return BAD_CHARACTERS;
  return withoutTrailingSpace(line).toString();
}

/** By a loop: a pattern would begin again at each space of a line that is full of them. */
function withoutTrailingSpace(line: Buffer): Buffer {
  let end = line.length;
  while (line[end - 1] === SPACE || line[end - 1] === TAB) end--;
  return line.subarray(0, end);
}

/* Which commands exist, and when each is allowed. */

/** Commands of RFC 5321 and its extensions that are known but not offered (section 4.2.4). */
const NOT_OFFERED = /^(?:BDAT|BURL|ETRN|EXPN|SAML|SEND|SOML|TURN)$/;
/** Commands without arguments (RFC 5321 section 4.1.1, RFC 3207 section 4). */
const TAKES_NOTHING = /^(?:DATA|RSET|QUIT|STARTTLS)$/;
/** Commands that need a greeting first (RFC 5321 section 4.1.4). */
const OF_TRANSACTIONS = /^(?:AUTH|MAIL|RCPT|DATA)$/;
/** Commands that need a login first, where there are logins: VRFY is none of a stranger's business either. */
const NEEDS_LOGIN = /^(?:MAIL|RCPT|DATA|VRFY)$/;
/** What a browser sends when a web page makes it connect to us. */
const HTTP_REQUEST = /^(?:OPTIONS|GET|HEAD|POST|PUT|PATCH|DELETE|TRACE|CONNECT) .* HTTP\/\d/i;

/** The state of the connection, as far as it decides which commands are allowed. */
export interface SessionProgress {
  readonly protocol: 'smtp' | 'lmtp';
  readonly isGreeted: boolean;
  readonly isSecure: boolean;
  readonly login: LoginState;
}

/** Of clients that must log in (RFC 4954); `none` where they need not. */
export type LoginState = 'none' | 'needs TLS' | 'offered' | 'done';

export function isHttp(line: string): boolean {
  return HTTP_REQUEST.test(line);
}

/**
 * Judges a command by the state of the connection, not by its argument.
 *
 * @param verb in upper case
 * @returns the reply that refuses it, if it is not allowed now
 */
export function judgeCommand(
  verb: string,
  hasArgument: boolean,
  { protocol, isGreeted, isSecure, login }: SessionProgress,
): Reply | undefined {
  if (NOT_OFFERED.test(verb) || (verb === 'AUTH' && login === 'none'))
    return reply(502, '5.5.1', 'The command is not offered');
  if (TAKES_NOTHING.test(verb) && hasArgument) {
    return reply(501, '5.5.4', `${verb} takes no argument`);
  }
  // RFC 2033 section 4.1: LHLO instead of HELO and EHLO.
  if (protocol === 'lmtp' && (verb === 'HELO' || verb === 'EHLO')) {
    return reply(500, '5.5.1', 'This is LMTP: send LHLO');
  }
  if (protocol === 'smtp' && verb === 'LHLO') {
    return reply(500, '5.5.1', 'This is SMTP: send EHLO');
  }
  if (!isGreeted && OF_TRANSACTIONS.test(verb)) {
    const first = protocol === 'lmtp' ? 'LHLO' : 'HELO or EHLO';
    return reply(503, '5.5.1', `Send ${first} first`);
  }
  if (verb === 'STARTTLS' && isSecure) return reply(503, '5.5.1', 'TLS is active already');
  if (verb === 'AUTH') return judgeLogin(login);
  const isStranger = login === 'needs TLS' || login === 'offered';
  if (isStranger && NEEDS_LOGIN.test(verb)) {
    const first = login === 'offered' ? 'AUTH' : 'STARTTLS, then AUTH';
    return reply(530, '5.7.0', `Log in first: ${first}`);
  }
  return undefined;
}

/** RFC 4954 section 4: once in a connection. */
function judgeLogin(login: LoginState): Reply | undefined {
  if (login === 'done') return reply(503, '5.5.1', 'You are logged in already');
  if (login === 'offered') return undefined;
  return reply(538, '5.7.11', 'A password may be sent by TLS only: use STARTTLS or the TLS port');
}

/*
 * Reads the arguments of MAIL and RCPT: a path and parameters (RFC 5321 section 4.1.1.2 and 4.1.1.3).
 *
 * Strict in form, so that no path passes that another program could read differently; lenient where honest
 * senders are known to break the grammar: a space after the colon, dots at the edges of a local part or in a
 * row, local parts longer than 64 octets, underscores in domains.
 */

/** Octets of the longest path, angle brackets included (RFC 5321 section 4.5.3.1.3). */
const MAX_PATH_OCTETS = 256;

export interface AddressCommand {
  /** The path without angle brackets and source route, `''` for the null path. */
  readonly path: string;
  /** By upper-case keyword; undefined where the parameter has no value. */
  readonly parameters: ReadonlyMap<string, string | undefined>;
}

/** What the parameters of MAIL say about the message. */
export interface MailParameters {
  /** Its octets (RFC 1870); 0 where the client did not announce them. */
  readonly size: number;
  /** Whether addresses and header may be UTF-8 (RFC 6531). */
  readonly isUtf8: boolean;
}

/** `atext` of RFC 5322 section 3.2.3 with dots, and non-ASCII (RFC 6531 section 3.3). */
const DOT_STRING = /^[\w!#$%&'*+\-/=?^`{|}~.\u0080-\u{10ffff}]+$/u;
/** Quoted-string of RFC 5321 section 4.1.2, with non-ASCII. */
const QUOTED_STRING = /^"(?:[ !#-[\]-~\u0080-\u{10ffff}]|\\[ -~])*"$/u;
const LABEL = /^[\w\u0080-\u{10ffff}](?:[\w\-\u0080-\u{10ffff}]{0,61}[\w\u0080-\u{10ffff}])?$/u;
const PARAMETER = /^([A-Za-z0-9][A-Za-z0-9-]*)(?:=([!-<>-~\u0080-\u{10ffff}]+))?$/u;
/** Parameters of MAIL and the values that they accept; one without a value is written with an empty one. */
const MAIL_PARAMETERS: Readonly<Record<string, RegExp>> = {
  // size-value ::= 1*20DIGIT (RFC 1870 section 6)
  SIZE: /^\d{1,20}$/,
  // RFC 6152 section 2; BINARYMIME would need CHUNKING (RFC 3030), which is not offered.
  BODY: /^(?:7BIT|8BITMIME)$/i,
  // RFC 6531 section 3.4
  SMTPUTF8: /^$/,
};
/** Who a trusted client says has submitted the message (RFC 4954 section 5): ignored, since the login says it. */
const AUTH_VALUE = /^(?:<>|[!-<>-~]{1,500})$/;
/** "@one,@two:" before the mailbox; must be accepted and is ignored (RFC 5321 appendix C). */
const SOURCE_ROUTE = /^@[^\s,:@<>]+(?:,@[^\s,:@<>]+)*:/;
/**
 * Characters that hide in an address or reverse its direction: C1 controls, separators, zero-width and
 * bidirectional marks. ZWJ and ZWNJ are allowed, since internationalized domains of some scripts need them.
 */
const DECEPTIVE =
  /[\u0080-\u00a0\u1680\u2000-\u200b\u200e\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]/;

/**
 * @param line command line without its CRLF and without control characters
 * @param verb `FROM` for MAIL, `TO` for RCPT
 * @returns the path and parameters, or the reply that refuses them
 */
export function readAddressCommand(line: string, verb: 'FROM' | 'TO'): AddressCommand | Reply {
  const [opening, form, status] =
    verb === 'FROM'
      ? [/^MAIL FROM: *</i, 'MAIL FROM:<address>', '5.1.7']
      : [/^RCPT TO: *</i, 'RCPT TO:<address>', '5.1.3'];
  const start = opening.exec(line)?.[0].length;
  const end = start === undefined ? undefined : endOfPath(line, start);
  const after = end === undefined ? '' : line.slice(end + 1);
  if (end === undefined || (after !== '' && !after.startsWith(' '))) {
    return reply(501, status, `Syntax: ${form}`);
  }
  const path = line.slice(start, end).replace(SOURCE_ROUTE, '');
  if (!isPath(path, verb)) return reply(553, status, 'The address is not valid');
  const parameters = readParameters(after);
  return parameters
    ? { path, parameters }
    : reply(501, '5.5.4', 'A parameter is malformed or given twice');
}

/**
 * Judges the parameters of MAIL.
 *
 * @param maxMessageBytes octets of the largest message that is accepted
 * @param takesAuth whether AUTH is offered, and so its parameter
 * @returns their values, or the reply that refuses one
 */
export function readMailParameters(
  parameters: AddressCommand['parameters'],
  maxMessageBytes: number,
  takesAuth: boolean,
): MailParameters | Reply {
  for (const [keyword, value] of parameters) {
    const isAuth = takesAuth && keyword === 'AUTH';
    const isValid = isAuth ? AUTH_VALUE : MAIL_PARAMETERS[keyword];
    if (!isValid) return unknownParameter(keyword);
    if (!isValid.test(value ?? '')) {
      return reply(501, '5.5.4', `The value of ${keyword} is not valid`);
    }
  }
  const size = Number(parameters.get('SIZE') ?? 0);
  if (size > maxMessageBytes) return refusalReply(tooLarge(maxMessageBytes));
  return { size, isUtf8: parameters.has('SMTPUTF8') };
}

/** RFC 5321 section 4.1.1.11. */
export function unknownParameter(keyword: string): Reply {
  return reply(555, '5.5.4', `The parameter ${keyword.slice(0, 64)} is not known`);
}

/** The refusal of a message that is too large, or announces that it will be. */
export function tooLarge(maxMessageBytes: number): Refusal {
  return new Refusal('message_too_large', `The message is larger than ${maxMessageBytes} octets`);
}

/** Index of the `>` that ends the path; one inside a quoted string does not. */
function endOfPath(line: string, start: number): number | undefined {
  let quoted = false;
  for (let i = start; i < line.length; i++) {
    const character = line[i];
    if (quoted && character === '\\') i++;
    else if (character === '"') quoted = !quoted;
    else if (character === '>' && !quoted) return i;
  }
  return undefined;
}

function isPath(path: string, verb: 'FROM' | 'TO'): boolean {
  // Null reverse-path (RFC 5321 section 4.5.5), and the one forward-path without a domain
  // (section 4.1.1.3).
  if (path === '') return verb === 'FROM';
  if (verb === 'TO' && path.toLowerCase() === 'postmaster') return true;

  const at = path.lastIndexOf('@');
  if (at < 1 || Buffer.byteLength(path) + 2 > MAX_PATH_OCTETS || DECEPTIVE.test(path)) return false;
  const local = path.slice(0, at);
  return (DOT_STRING.test(local) || QUOTED_STRING.test(local)) && isDomain(path.slice(at + 1));
}

function isDomain(domain: string): boolean {
  // Address literal (RFC 5321 section 4.1.3).
  const literal = /^\[(IPv6:)?([0-9A-Fa-f:.]+)\]$/i.exec(domain);
  if (literal?.[2] !== undefined) {
    return literal[1] === undefined ? isIPv4(literal[2]) : isIPv6(literal[2]);
  }
  return Buffer.byteLength(domain) <= 255 && domain.split('.').every((label) => LABEL.test(label));
}

function readParameters(text: string): Map<string, string | undefined> | undefined {
  const parameters = new Map<string, string | undefined>();
  for (const word of text.split(' ')) {
    if (word === '') continue;
    const [, keyword, value] = PARAMETER.exec(word) ?? [];
    if (keyword === undefined || parameters.has(keyword.toUpperCase())) return undefined;
    parameters.set(keyword.toUpperCase(), value);
  }
  return parameters;
}

/* Replies (RFC 5321 section 4.2), with enhanced status codes (RFC 2034, RFC 3463). */

/** The most characters of a reply's text; a reply line has at most 512 octets (RFC 5321 section 4.5.3.1.5). */
const MAX_TEXT = 400;

export function reply(code: number, enhanced: string, text: string): Reply {
  return { code, enhanced, text };
}

/** The reply to an unexpected failure: the client learns nothing about the reason. */
export const LOCAL_ERROR = reply(451, '4.3.0', 'Local error in processing');

/**
 * The reply for a refusal, by the one table of errors. A refusal may quote text of the client, and a reply is
 * ASCII on one line (RFC 5321 section 4.2.1).
 */
export function refusalReply(refusal: Refusal): Reply {
  const text = refusal.message.slice(0, MAX_TEXT).replace(/[^ -~]/g, '?');
  return { ...answerOf(refusal.code).smtp, text };
}

/**
 * The one reply that SMTP has for all recipients. Delivery accepts all of them or none, so the replies agree.
 * Should they ever differ, a temporary failure wins: a message that comes twice is better than one that is
 * lost.
 */
export function worstOf(replies: readonly Reply[]): Reply {
  const bad = replies.filter(({ code }) => code >= 400);
  return bad.find(({ code }) => code < 500) ?? bad[0] ?? replies[0] ?? LOCAL_ERROR;
}
