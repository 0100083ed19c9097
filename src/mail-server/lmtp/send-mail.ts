/** One message over one LMTP connection, and what the server's answers mean for each recipient. */
import { isAscii } from 'node:buffer';
import type { MailboxResult, ServerMail } from '../../mailstore/mailstore.ts';
import { oneLine } from '../../message/message.ts';
import {
  enhancedOf,
  isFinalRefusal,
  isWritablePath,
  type RecipientResult,
  type SmtpConnection,
  sizeLimit,
} from '../../net/net.ts';
import { withLineEnds, withoutReturnPath } from './source-lines.ts';

export interface Sent {
  /** In the order of the recipients. */
  readonly results: readonly MailboxResult[];
  /** The connection ended before any of the message was sent: another one may do better. */
  readonly isUntouched: boolean;
}

/** @throws what the message's source throws */
export async function sendMail(
  connection: SmtpConnection,
  { open, size, from }: ServerMail,
  recipients: readonly string[],
  signal: AbortSignal,
): Promise<Sent> {
  const { server } = connection;
  const limit = sizeLimit(server);
  if (size > limit) {
    const text = `the mail server takes ${limit} octets at most`;
    return {
      results: recipients.map(() => failed('permanent', '5.3.4', text)),
      isUntouched: false,
    };
  }
  const isCyrus = /\bCyrus\b/i.test(server.greeting.text);
  const to = recipients.filter((address) => !(isCyrus && address.includes('^')));
  // A server without SMTPUTF8 (RFC 6531 section 3.2) gets the message from the null sender; then our
  // own Return-Path is the one place where the sender stands.
  const smtpUtf8 = server.extensions.has('SMTPUTF8');
  const isKnown = isWritablePath(from) && (smtpUtf8 || isAscii(Buffer.from(from)));
  // Header fields may be UTF-8 whatever the reverse-path is, and bodies have 8 bits.
  const envelope = { from: isKnown ? from : '', to, size, eightBit: true, smtpUtf8 };
  const source = () => withLineEnds(isKnown ? withoutReturnPath(open()) : open());
  const answers = to.length > 0 ? await connection.send(envelope, source, signal) : [];
  const isUntouched = answers.length > 0 && answers.every(isLeftBefore);
  const results = [...answers];
  return {
    results: recipients.map((address) => {
      if (!to.includes(address)) return anothersMailbox;
      const answer = results.shift();
      return answer ? resultOf(answer) : failed('temporary', '4.5.0', 'no result');
    }),
    isUntouched,
  };
}

/**
 * Cyrus writes the dots of a name as `^` where `/` separates mailboxes, and tells them apart no more:
 * mail for `a^b@` would lie in the mailbox of `a.b@`.
 */
const anothersMailbox = failed('permanent', '5.1.3', 'the mail server takes "^" for a dot');

/** 421: the server closes the connection, whatever was asked (RFC 5321 section 3.8). */
function isLeftBefore(result: RecipientResult): boolean {
  return result.stage === 'envelope' && (!('reply' in result) || result.reply.code === 421);
}

function resultOf(result: RecipientResult): MailboxResult {
  if ('reply' in result) {
    const { code, text } = result.reply;
    if (code < 300) return { result: 'delivered' };
    const error = { status: code, enhancedStatus: enhancedOf(result.reply), text: oneLine(text) };
    return { result: isFinalRefusal(result.reply) ? 'permanent' : 'temporary', error };
  }
  // Half a conversation says nothing about the message: it is tried again.
  const isSent = result.stage === 'sent';
  const doubt = ', after the whole message was sent: it may have been taken';
  return failed('temporary', '4.4.2', isSent ? `${result.failure}${doubt}` : result.failure);
}

/** A failure that we see, not the server. */
export function failed(
  result: 'temporary' | 'permanent',
  enhancedStatus: string,
  text: string,
): Exclude<MailboxResult, { readonly result: 'delivered' }> {
  return { result, error: { enhancedStatus, text: oneLine(text) } };
}
