/** Which commands there are, and when they may come. */
import type { Reply } from '../net/net.ts';
import { reply } from './replies.ts';

/** Commands of RFC 5321 and its extensions that are known but not offered (section 4.2.4). */
const NOT_OFFERED = /^(?:AUTH|BDAT|BURL|ETRN|EXPN|SAML|SEND|SOML|TURN)$/;
/** Commands without arguments (RFC 5321 section 4.1.1, RFC 3207 section 4). */
const TAKES_NOTHING = /^(?:DATA|RSET|QUIT|STARTTLS)$/;
/** Commands that a greeting has to come before (RFC 5321 section 4.1.4). */
const OF_TRANSACTIONS = /^(?:MAIL|RCPT|DATA)$/;
/** What a browser sends that a web page makes talk to us. */
const HTTP_REQUEST = /^(?:OPTIONS|GET|HEAD|POST|PUT|PATCH|DELETE|TRACE|CONNECT) .* HTTP\/\d/i;

/** What was said on the connection so far. */
export interface Progress {
  readonly protocol: 'smtp' | 'lmtp';
  readonly isGreeted: boolean;
  readonly isSecure: boolean;
}

export function isHttp(line: string): boolean {
  return HTTP_REQUEST.test(line);
}

/**
 * Judges a command by what was said before it, not by what its argument says.
 *
 * @param verb in upper case
 * @returns the reply that refuses it, if it may not come
 */
export function judgeCommand(
  verb: string,
  hasArgument: boolean,
  { protocol, isGreeted, isSecure }: Progress,
): Reply | undefined {
  if (NOT_OFFERED.test(verb)) return reply(502, '5.5.1', 'The command is not offered');
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
  return undefined;
}
