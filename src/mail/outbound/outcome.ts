/** The outcome of an attempt to send a message, and when the next one is made. */
import { oneLine } from '../../protocols/message/message.ts';

/** Seconds between attempts of mail: five days in all (RFC 5321 section 4.5.4.1). */
export const mailDelays = [
  60,
  5 * 60,
  15 * 60,
  30 * 60,
  3600,
  2 * 3600,
  ...Array.from({ length: 29 }, () => 4 * 3600),
];

/** The domain of an address: for the queue, all its mail has one receiver. */
export function mailDestination(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1).toLowerCase();
}

/** Why a message was not accepted. */
export interface SendError {
  /** SMTP reply code (RFC 5321 section 4.2); absent where no reply says it. */
  readonly status?: number;
  /** Enhanced status code, `5.1.1` (RFC 3463): the far end's, or ours where it gave none. */
  readonly enhancedStatus: string;
  /** One line of at most 500 characters: the reply without its codes, or what went wrong here. */
  readonly text: string;
  /** The far end's host name; absent where none was reached. */
  readonly host?: string;
  /**
   * What the far end answered with it: RCPT, so that it is about the recipient; or the sender or the message, also by
   * breaking off. Absent where nobody answered, or the host refused the connection.
   */
  readonly answers?: 'recipient' | 'message';
}

/**
 * `temporary` may be tried again. Where the connection broke after the whole message was sent, the far end may have
 * accepted it, and a second attempt makes a duplicate (RFC 5321 section 4.5.4.1 prefers that to loss). `permanent`
 * would fail again.
 */
export type SendOutcome =
  | {
      readonly result: 'delivered';
      /** Host name of the far end. */
      readonly host: string;
      /** Its reply on one line of at most 500 characters, `250 2.0.0 queued as 4711`. */
      readonly detail: string;
    }
  | SendFailure;

export interface SendFailure {
  readonly result: 'temporary' | 'permanent';
  readonly error: SendError;
  /**
   * Set where the message could not go to this recipient together with others, who have their result: nothing is wrong
   * with it, and it is tried again at once.
   */
  readonly isPutOff?: true;
}

/** What the queue keeps of an outcome: the far end's reply with both of its codes, as operators look for them. */
export function toAttempted(
  outcome:
    | { readonly result: 'delivered' }
    | (Pick<SendFailure, 'result'> & {
        readonly error: Pick<SendError, 'status' | 'enhancedStatus' | 'text'>;
      }),
) {
  if (outcome.result === 'delivered') return { result: outcome.result } as const;
  const { result, error } = outcome;
  const { status, enhancedStatus, text } = error;
  if (status === undefined) return { result, error: { text } };
  return { result, error: { status, text: `${enhancedStatus} ${text}` } };
}

/** A failure on our side, without a reply of the far end. */
export function failure(
  result: 'temporary' | 'permanent',
  enhancedStatus: string,
  text: string,
  host?: string,
): SendFailure {
  const error = { enhancedStatus, text: oneLine(text), ...(host !== undefined && { host }) };
  return { result, error };
}
