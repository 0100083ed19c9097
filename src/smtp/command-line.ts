/**
 * Judges a command line as a line, whatever the state of the session.
 */
import { isUtf8 } from 'node:buffer';
import type { Reply } from './reply.ts';

/** Commands of RFC 5321 and its extensions that are known but not offered (section 4.2.4). */
const NOT_OFFERED = new Set([
  'AUTH',
  'EXPN',
  'ETRN',
  'BDAT',
  'BURL',
  'TURN',
  'SEND',
  'SOML',
  'SAML',
]);
/** Commands without arguments (RFC 5321 section 4.1.1.4, 4.1.1.5 and 4.1.1.10). */
const TAKES_NOTHING = new Set(['DATA', 'RSET', 'QUIT']);
/** Anything but printable ASCII, which nearly every line is. */
const UNUSUAL = /[^ -~]/;
const CONTROL = /[\0-\x1f\x7f]/;
const SPACE = 0x20;
const TAB = 0x09;

/** The line without white space before its CRLF, which is tolerated (RFC 5321 section 4.1.1). */
export function withoutTrailingSpace(line: Buffer): Buffer {
  let end = line.length;
  while (end > 0 && (line[end - 1] === SPACE || line[end - 1] === TAB)) end -= 1;
  return line.subarray(0, end);
}

/** @returns what the line is answered where it is no command that could be run */
export function refuseLine(line: Buffer, protocol: 'smtp' | 'lmtp'): Reply | undefined {
  const octets = line.toString('latin1');
  const isPlain = !UNUSUAL.test(octets);
  // NUL, a bare CR and their like have no place in any command (RFC 5321 section 4.1.2).
  if (!isPlain && (CONTROL.test(octets) || !isUtf8(line))) {
    return { code: 500, text: '5.5.2 The line has characters that no command has' };
  }
  const text = isPlain ? octets : line.toString();
  const space = text.indexOf(' ');
  const command = (space < 0 ? text : text.slice(0, space)).toUpperCase();
  if (NOT_OFFERED.has(command)) return { code: 502, text: '5.5.1 The command is not offered' };
  // RFC 2033 section 4.1: LHLO instead of HELO and EHLO.
  if (protocol === 'lmtp' && (command === 'HELO' || command === 'EHLO')) {
    return { code: 500, text: '5.5.1 This is LMTP: send LHLO' };
  }
  if (protocol === 'smtp' && command === 'LHLO') {
    return { code: 500, text: '5.5.1 This is SMTP: send EHLO' };
  }
  if (TAKES_NOTHING.has(command) && space >= 0) {
    return { code: 501, text: `5.5.4 ${command} takes no argument` };
  }
  return undefined;
}
