/**
 * What is answered: replies with enhanced status codes (RFC 5321 section 4.2, RFC 2034, RFC 3463).
 */
import { answerOf, Refusal } from '../errors/errors.ts';

export interface Reply {
  readonly code: number;
  /** Opens with the enhanced status code, except after a 3xx code (RFC 2034 section 3). */
  readonly text: string;
}

/** Characters of a reply's text; a reply line has at most 512 octets (RFC 5321 section 4.5.3.1.5). */
const MAX_TEXT = 400;

/** The reply that a refusal stands for in the one table of errors. */
export function refusalReply(refusal: Refusal): Reply {
  const { code, enhanced } = answerOf(refusal.code).smtp;
  return { code, text: `${enhanced} ${plain(refusal.message)}` };
}

/** The refusal that an error stands for; undefined where nobody expected the error. */
export function expectedRefusal(error: unknown): Refusal | undefined {
  if (error instanceof Refusal) return error;
  let cause = error;
  // Bounded: a chain of causes may be a ring.
  for (let depth = 0; depth < 8 && cause instanceof Error; depth++) {
    const code = 'code' in cause ? cause.code : undefined;
    if (code === 'ENOSPC' || code === 'EDQUOT') {
      return new Refusal('storage_full', 'There is no space left for the message');
    }
    cause = cause.cause;
  }
  return undefined;
}

/**
 * Text fit for a reply line: a refusal may quote what the client said, and a reply is ASCII on one
 * line (RFC 5321 section 4.2.1).
 */
function plain(text: string): string {
  return text.slice(0, MAX_TEXT).replace(/[^ -~]/g, '?');
}
