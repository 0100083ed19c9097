/** What is answered (RFC 5321 section 4.2), with enhanced status codes (RFC 2034, RFC 3463). */
import { answerOf, type Refusal } from '../errors/errors.ts';
import type { Reply } from '../net/net.ts';

/** Characters of a reply's text; a reply line has at most 512 octets (RFC 5321 section 4.5.3.1.5). */
const MAX_TEXT = 400;

export function reply(code: number, enhanced: string, text: string): Reply {
  return { code, enhanced, text };
}

/** The answer to a failure that nobody expected: it tells the client nothing of it. */
export const LOCAL_ERROR = reply(451, '4.3.0', 'Local error in processing');

/**
 * The reply that a refusal stands for in the one table of errors. A refusal may quote what the client
 * said, and a reply is ASCII on one line (RFC 5321 section 4.2.1).
 */
export function refusalReply(refusal: Refusal): Reply {
  const text = refusal.message.slice(0, MAX_TEXT).replace(/[^ -~]/g, '?');
  return { ...answerOf(refusal.code).smtp, text };
}

/**
 * The one reply that SMTP has for all recipients. Delivery takes all of them or none, so they agree; if
 * they ever do not, a temporary failure wins, since a message that comes twice is better than one that
 * is lost.
 */
export function worstOf(replies: readonly Reply[]): Reply {
  const bad = replies.filter(({ code }) => code >= 400);
  return bad.find(({ code }) => code < 500) ?? bad[0] ?? replies[0] ?? LOCAL_ERROR;
}
