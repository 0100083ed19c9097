/** What an attempt means for each recipient of a delivery, and for the delivery. */
import { answerOf, type Refusal } from '../../platform/errors/errors.ts';
import type { NewEvent } from '../../tenants/events/events.ts';
import {
  type RecipientStatus as ReportedRecipient,
  type SendError,
  type SendOutcome,
  toAttempted,
} from '../outbound/outbound.ts';
import type { AttemptOutcome, Job, SharedAttempt } from '../queue/queue.ts';
import {
  DROPPED,
  type RecipientStatus,
  type SendRecipient,
  type SendRecipientRow,
} from './send-rows.ts';
import type { Suppression } from './suppressions.ts';

/** The result of an attempt for one recipient. */
export interface Result {
  readonly address: string;
  readonly outcome: SendOutcome;
}

export function allOf(
  recipients: readonly string[],
  result: 'temporary' | 'permanent',
  error: SendError,
): Result[] {
  return recipients.map((address) => ({ address, outcome: { result, error } }));
}

/** RFC 3463: 5.7.1 is our own refusal, not the far end's. */
export function refuseSuppressed({ detail, createdAt }: Suppression, domain: string): SendOutcome {
  const since = new Date(createdAt).toISOString().slice(0, 10);
  const text = `on the suppression list of ${domain} since ${since}: ${detail}`;
  return { result: 'permanent', error: { enhancedStatus: '5.7.1', text } };
}

export function refusedHere({ code, message: text }: Refusal): SendOutcome {
  const { code: status, enhanced: enhancedStatus } = answerOf(code).smtp;
  const result = status < 500 ? 'temporary' : 'permanent';
  return { result, error: { status, enhancedStatus, text } };
}

/** Of a recipient who waits for a transfer of his own. */
export const PUT_OFF: SendOutcome = {
  result: 'temporary',
  error: { enhancedStatus: '4.0.0', text: 'not tried yet' },
  isPutOff: true,
};

export function isPutOff({ outcome }: Result): boolean {
  return outcome.result !== 'delivered' && outcome.isPutOff === true;
}

/** Refused here because of the recipient alone (RFC 3463 section 3.2; RFC 6531 section 3.5). */
const OF_RECIPIENT = new Set(['5.1.3', '5.6.7']);

/** Whether no host took part: the same would become of every other recipient. */
export function isHostAway(outcome: SendOutcome): boolean {
  if (outcome.result === 'delivered') return false;
  const { answers, enhancedStatus } = outcome.error;
  return answers === undefined && !OF_RECIPIENT.has(enhancedStatus);
}

/**
 * Recipients to attempt: those who are queued, or else deferred. The last attempt is for both, since a round that was
 * broken off by an error leaves both. A replay by hand begins with all who did not get the message, or with all.
 */
export function findDue(
  { isReplay, isLast, attempt }: Pick<Job, 'isReplay' | 'isLast' | 'attempt'>,
  rows: readonly SendRecipientRow[],
): string[] {
  const named = (...some: RecipientStatus[]) => rows.filter(({ status }) => some.includes(status));
  const isBegin = isReplay && attempt === 1;
  const due = [
    isLast ? named('queued', 'deferred') : named('queued'),
    isBegin ? [] : named('deferred'),
    // Retried by an operator who had dropped them.
    isReplay
      ? rows.filter(({ status }) => status !== 'delivered')
      : rows.filter(({ detail }) => detail === DROPPED),
    isReplay ? rows : [],
  ];
  return (due.find((some) => some.length > 0) ?? []).map(({ address }) => address);
}

/** Recipients who will not get the message, by the result of this attempt. */
export function endedWithout({ isLast }: Job, results: readonly Result[]): Result[] {
  return results.filter(
    ({ outcome: { result } }) => result === 'permanent' || (result === 'temporary' && isLast),
  );
}

/** @param isLast whether this was the last attempt */
export function statusOf({ address, outcome }: Result, isLast: boolean): SendRecipient {
  if (outcome.result === 'delivered') {
    return { address, status: 'delivered', detail: `${outcome.host}: ${outcome.detail}` };
  }
  if (outcome.isPutOff) return { address, status: 'queued' };
  const { status, enhancedStatus, text, host } = outcome.error;
  const said = status === undefined ? text : `${status} ${enhancedStatus} ${text}`;
  const detail = host === undefined ? said : `${host}: ${said}`;
  const isBounced = isLast || outcome.result === 'permanent';
  return { address, status: isBounced ? 'bounced' : 'deferred', detail };
}

/** A recipient with a status that the sender is told of. */
export type ToldRecipient = SendRecipient & {
  readonly status: 'delivered' | 'deferred' | 'bounced';
};

/** What is news of an attempt: every end, and the first time that a recipient is deferred. */
export function changedOf(
  statuses: readonly SendRecipient[],
  rows: readonly SendRecipientRow[],
): ToldRecipient[] {
  const before = new Map(rows.map(({ address, status }) => [address, status]));
  return statuses
    .filter(isTold)
    .filter((one) => !(one.status === 'deferred' && before.get(one.address) === 'deferred'));
}

export function isTold(one: SendRecipient): one is ToldRecipient {
  return one.status !== 'queued' && one.status !== 'cancelled';
}

/** The event of a recipient's status. @param sendId the public id of the message */
export function sendEvent(
  accountId: number,
  sendId: string,
  { address: recipient, status, detail }: ToldRecipient,
): NewEvent {
  return { type: `send.${status}`, accountId, data: { send_id: sendId, recipient, detail } };
}

/** For a DSN. */
export function reportOf({ address, outcome }: Result, now: number): ReportedRecipient[] {
  if (outcome.result === 'delivered') return [];
  const { error } = outcome;
  // After the last attempt a temporary failure is final (RFC 3464 section 2.3.4).
  const enhancedStatus = error.enhancedStatus.replace(/^4/, '5');
  return [{ recipient: address, error: { ...error, enhancedStatus }, lastAttempt: now }];
}

/**
 * The outcome of a delivery.
 *
 * @param results of the recipients that were tried
 * @param rows all recipients, before the attempt
 * @param statuses new ones; of recipients who were put off, too
 */
export function outcomeOf(
  results: readonly Result[],
  rows: readonly SendRecipientRow[],
  statuses: readonly SendRecipient[],
): AttemptOutcome & SharedAttempt {
  const tried = results.map(({ address, outcome }) => ({
    recipient: address,
    outcome: toAttempted(outcome),
  }));
  const isUnfinished = statuses.some(({ status }) => status === 'queued');
  const changed = new Map(statuses.map((one) => [one.address, one]));
  // At the end of a round those count, too, who had their result before.
  const earlier = isUnfinished ? [] : rows.filter(({ address }) => !changed.has(address));
  const outcome = sumUp([...tried.map((one) => one.outcome), ...earlier.map(outcomeBefore)]);
  if (rows.length === 1) return outcome;
  const after = rows.map((row) => changed.get(row.address) ?? row);
  const named = (...some: RecipientStatus[]) =>
    after.filter(({ status }) => some.includes(status)).map(({ address }) => address);
  const waiting = named('queued', 'deferred');
  const left = waiting.length > 0 ? waiting : named('bounced');
  return { ...outcome, tried, isUnfinished, ...(left.length > 0 && { left }) };
}

/** A delivery continues as long as one of its recipients may get the message, and failed where one does not get it. */
function sumUp(outcomes: readonly AttemptOutcome[]): AttemptOutcome {
  const temporary = outcomes.find(({ result }) => result === 'temporary');
  return (
    temporary ?? outcomes.find(({ result }) => result === 'permanent') ?? { result: 'delivered' }
  );
}

function outcomeBefore({ status, detail }: SendRecipientRow): AttemptOutcome {
  const error = { text: detail ?? '' };
  if (status === 'deferred') return { result: 'temporary', error };
  return status === 'bounced' ? { result: 'permanent', error } : { result: 'delivered' };
}
