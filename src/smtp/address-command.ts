/**
 * Reads the arguments of MAIL and RCPT: a path and parameters (RFC 5321 section 4.1.1.2 and 4.1.1.3).
 *
 * Strict in form, so that nothing passes that could mean one thing here and another elsewhere; lenient
 * where honest senders are known to break the grammar: a space after the colon, dots at the edges of a
 * local part or in a row, local parts longer than 64 octets, underscores in domains.
 */
import { isIPv4, isIPv6 } from 'node:net';

/** Octets of the longest path, angle brackets included (RFC 5321 section 4.5.3.1.3). */
const MAX_PATH_OCTETS = 256;

export interface AddressCommand {
  /** The path without angle brackets and source route, `''` for the null path. */
  readonly path: string;
  /** By upper-case keyword; undefined where the parameter has no value. */
  readonly parameters: ReadonlyMap<string, string | undefined>;
}

/** `syntax`: no path in angle brackets. `address`: the path is not valid. `parameter`: likewise. */
export type AddressFault = 'syntax' | 'address' | 'parameter';

/** `atext` of RFC 5322 section 3.2.3 with dots, and non-ASCII (RFC 6531 section 3.3). */
const DOT_STRING = /^[\w!#$%&'*+\-/=?^`{|}~.\u0080-\u{10ffff}]+$/u;
/** Quoted-string of RFC 5321 section 4.1.2, with non-ASCII. */
const QUOTED_STRING = /^"(?:[ !#-[\]-~\u0080-\u{10ffff}]|\\[ -~])*"$/u;
const LABEL = /^[\w\u0080-\u{10ffff}](?:[\w\-\u0080-\u{10ffff}]{0,61}[\w\u0080-\u{10ffff}])?$/u;
const PARAMETER = /^([A-Za-z0-9][A-Za-z0-9-]*)(?:=([!-<>-~\u0080-\u{10ffff}]+))?$/u;
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
 */
export function readAddressCommand(
  line: string,
  verb: 'FROM' | 'TO',
): AddressCommand | AddressFault {
  const opening = verb === 'FROM' ? /^MAIL FROM: *</i : /^RCPT TO: *</i;
  const start = opening.exec(line)?.[0].length;
  if (start === undefined) return 'syntax';
  const end = endOfPath(line, start);
  if (end === undefined) return 'syntax';
  const after = line.slice(end + 1);
  if (after !== '' && !after.startsWith(' ')) return 'syntax';

  const path = line.slice(start, end).replace(SOURCE_ROUTE, '');
  if (!isPath(path, verb)) return 'address';
  const parameters = readParameters(after);
  return parameters === undefined ? 'parameter' : { path, parameters };
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
