/** What a reply of the mail server means for a recipient, and what the sender is answered. */
import type { MailboxResult } from '../../mailstore/mailstore.ts';
import { oneLine } from '../../message/message.ts';
import { type Reply, textOf } from './reply.ts';

export type FailedResult = Exclude<MailboxResult, { readonly result: 'delivered' }>;

/** A failure that we see, not the server. */
export function failed(
  result: FailedResult['result'],
  enhancedStatus: string,
  text: string,
): FailedResult {
  return { result, error: { enhancedStatus, text: oneLine(text) } };
}

/**
 * What a reply means for a recipient. 503 is about the order of the commands (RFC 5321 section
 * 4.2.2), 530 about the connection (RFC 3207 section 4): neither is the message's fault.
 */
export function resultOf(reply: Reply): MailboxResult {
  const { code, enhancedStatus } = reply;
  if (code < 300) return { result: 'delivered' };
  const isPermanent = code >= 500 && code !== 503 && code !== 530;
  return {
    result: isPermanent ? 'permanent' : 'temporary',
    error: {
      status: code,
      // 3xx has no class of its own: the server said what makes no sense here.
      enhancedStatus: enhancedStatus ?? (code < 400 ? '4.5.0' : `${Math.floor(code / 100)}.0.0`),
      text: textOf(reply),
    },
  };
}
