/** What a reply of the mail server means for a recipient, and what the sender is answered. */
import { Refusal } from '../../errors/errors.ts';
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

/** What the sender is answered for a recipient who did not get the message. */
export function refusalOf({ result, error }: FailedResult, address: string): Refusal {
  const { status, enhancedStatus, text } = error;
  // Our own words are about our own network, which is nobody's business.
  const reason =
    status === undefined ? 'is not available' : `says ${status} ${enhancedStatus} ${text}`;
  const detail = `the mail server of ${address} ${reason}`;
  if (result === 'temporary') return new Refusal('unavailable', detail);
  // RFC 3463 section 3.3: 2 is a full mailbox, 3 a message that is too large for it.
  if (enhancedStatus === '5.2.2') return new Refusal('mailbox_full', detail);
  if (enhancedStatus === '5.2.3' || enhancedStatus === '5.3.4') {
    return new Refusal('message_too_large', `the message is too large for ${address}`);
  }
  return new Refusal('mailbox_refused', detail);
}

/** What the sender is answered where nobody got it: once more, as long as that may help somebody. */
export function refusalOfAll(
  failures: readonly { readonly failure: FailedResult; readonly address: string }[],
): Refusal {
  const isTemporary = ({ failure }: (typeof failures)[number]) => failure.result === 'temporary';
  const telling = failures.find(isTemporary) ?? failures[0];
  if (!telling) throw new Error('nothing failed');
  return refusalOf(telling.failure, telling.address);
}
