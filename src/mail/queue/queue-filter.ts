/** Which deliveries are meant, of those that were not delivered. */
import { type RawBuilder, sql } from 'kysely';
import type { EpochMs } from '../../platform/time/time.ts';

/** States of what operators see in the queue: `queued` waits for its next attempt. */
export type OpenState = 'queued' | 'held' | 'failed';
export const OPEN_STATES: readonly OpenState[] = ['queued', 'held', 'failed'];

/** Which deliveries are meant; a field that is left out matches all. */
export interface QueueFilter {
  readonly ids?: readonly number[] | undefined;
  readonly destination?: string | undefined;
  readonly domainIds?: readonly number[] | undefined;
  /** Whose they are (`senderOf`); then the domains are given, too. */
  readonly senders?: readonly string[] | undefined;
  readonly kind?: string | undefined;
  readonly states?: readonly OpenState[] | undefined;
  /** A part of the receiver's name. */
  readonly receiverPart?: string | undefined;
  /** From whom the message is, in lower case. */
  readonly mailFrom?: string | undefined;
  /** A part of the reason of the last failed attempt. */
  readonly reason?: string | undefined;
  /** Only those that were queued before this instant. */
  readonly before?: EpochMs | undefined;
  /** Only those that wait for an attempt which is due by then. */
  readonly dueBefore?: EpochMs | undefined;
}

/** What a row has to be like for a filter, but for its id and state. */
export function conditionsOf(filter: QueueFilter): RawBuilder<boolean>[] {
  const { destination, receiverPart, kind, domainIds, senders, mailFrom, reason } = filter;
  const { before, dueBefore } = filter;
  const conditions = [
    destination !== undefined && sql<boolean>`destination = ${destination}`,
    receiverPart !== undefined && contains('destination', receiverPart),
    kind !== undefined && sql<boolean>`kind = ${kind}`,
    domainIds !== undefined && isAmong('domain_id', domainIds),
    senders !== undefined && isAmong('sender', senders),
    mailFrom !== undefined && sql<boolean>`mail_from = ${mailFrom}`,
    reason !== undefined && contains('reason', reason),
    before !== undefined && sql<boolean>`created_at < ${before}`,
    // What is held or has failed is never due.
    dueBefore !== undefined &&
      sql<boolean>`status = ${sql.lit('queued')} and next_attempt_at <= ${dueBefore}`,
  ];
  return conditions.filter((one) => one !== false);
}

export const isAmong = (column: string, values: readonly (string | number)[]) =>
  values.length === 0
    ? sql<boolean>`1 = 0`
    : sql<boolean>`${sql.ref(column)} in (${sql.join(values)})`;

const contains = (column: string, part: string) =>
  sql<boolean>`lower(${sql.ref(column)}) like ${`%${part.toLowerCase().replaceAll(/[\\%_]/g, '\\$&')}%`} escape '\\'`;
