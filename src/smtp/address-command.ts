/**
 * Reads the arguments of MAIL and RCPT: a path and parameters (RFC 5321 section 4.1.1.2 and 4.1.1.3).
 *
 * Strict in form, so that nothing passes that could mean one thing here and another elsewhere; lenient
 * where honest senders are known to break the grammar: a space after the colon, dots at the edges of a
 * local part or in a row, local parts longer than 64 octets, underscores in domains.
 */
import { isIPv4, isIPv6 } from 'node:net';
import { Refusal } from '../errors/errors.ts';
import type { Reply } from '../net/net.ts';
import { refusalReply, reply } from './replies.ts';

/** Octets of the longest path, angle brackets included (RFC 5321 section 4.5.3.1.3). */
const MAX_PATH_OCTETS = 256;

export interface AddressCommand {
  /** The path without angle brackets and source route, `''` for the null path. */
  readonly path: string;
  /** By upper-case keyword; undefined where the parameter has no value. */
  readonly parameters: ReadonlyMap<string, string | undefined>;
}

/** What MAIL says of the message. */
export interface MailParameters {
  /** Octets that it has (RFC 1870); 0 where that was not said. */
  readonly size: number;
  /** Whether addresses and header may have UTF-8 (RFC 6531). */
  readonly isUtf8: boolean;
}

/** `atext` of RFC 5322 section 3.2.3 with dots, and non-ASCII (RFC 6531 section 3.3). */
const DOT_STRING = /^[\w!#$%&'*+\-/=?^`{|}~.\u0080-\u{10ffff}]+$/u;
/** Quoted-string of RFC 5321 section 4.1.2, with non-ASCII. */
const QUOTED_STRING = /^"(?:[ !#-[\]-~\u0080-\u{10ffff}]|\\[ -~])*"$/u;
const LABEL = /^[\w\u0080-\u{10ffff}](?:[\w\-\u0080-\u{10ffff}]{0,61}[\w\u0080-\u{10ffff}])?$/u;
const PARAMETER = /^([A-Za-z0-9][A-Za-z0-9-]*)(?:=([!-<>-~\u0080-\u{10ffff}]+))?$/u;
/** Parameters of MAIL and the values they take; one without a value has an empty one. */
const MAIL_PARAMETERS: Readonly<Record<string, RegExp>> = {
  // size-value ::= 1*20DIGIT (RFC 1870 section 6)
  SIZE: /^\d{1,20}$/,
  // RFC 6152 section 2; BINARYMIME would need CHUNKING (RFC 3030), which is not offered.
  BODY: /^(?:7BIT|8BITMIME)$/i,
  // RFC 6531 section 3.4
  SMTPUTF8: /^$/,
};
/** "@one,@two:" before the mailbox; must be accepted and is ignored (RFC 5321 appendix C). */
const SOURCE_ROUTE = /^@[^\s,:@<>]+(?:,@[^\s,:@<>]+)*:/;
/**
 * Characters that hide in an address or turn it around: C1 controls, separators, zero-width and
 * bidirectional marks. ZWJ and ZWNJ stay, since internationalized domains of some scripts need them.
 */
const DECEPTIVE =
  /[\u0080-\u00a0\u1680\u2000-\u200b\u200e\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]/;

/**
 * @param line command line without its CRLF and without control characters
 * @param verb `FROM` for MAIL, `TO` for RCPT
 * @returns what the line says, or the reply that refuses it
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
 * @param maxMessageBytes octets of the largest message that is taken
 * @returns what they say, or the reply that refuses one
 */
export function readMailParameters(
  parameters: AddressCommand['parameters'],
  maxMessageBytes: number,
): MailParameters | Reply {
  for (const [keyword, value] of parameters) {
    const isValid = MAIL_PARAMETERS[keyword];
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

/** What is said of a message that is too large, or says that it will be. */
export function tooLarge(maxMessageBytes: number): Refusal {
  return new Refusal('message_too_large', `The message is larger than ${maxMessageBytes} octets`);
}

/** Whether the text has characters that need SMTPUTF8 (RFC 6531 section 3.3). */
export function isInternationalized(text: string): boolean {
  return /[^\0-\x7f]/.test(text);
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
