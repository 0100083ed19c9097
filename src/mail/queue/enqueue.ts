/** Writes the rows of a new delivery. */
import { randomUUID } from 'node:crypto';
import { type NewRow, PreparedQuery, type Queries } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { ABOUT_MAX, type NewDelivery, nameRecipients, writeError } from './delivery.ts';
import { senderOf } from './parties.ts';

/** The fields that decide when a delivery is attempted. */
export type Times = Pick<NewDelivery, 'notBefore' | 'tried'>;

/** When a new delivery is attempted. */
export function dueAt({ notBefore, tried }: Times, now: EpochMs): EpochMs {
  return tried ? now + tried.retryMs : (notBefore ?? now);
}

export type NewDeliveryRow = Required<
  Omit<NewRow<'deliveries'>, 'id' | 'replays' | 'lease_owner' | 'stored' | 'held_by'>
>;

const deliveryRow = new PreparedQuery((row: NewDeliveryRow, queries) =>
  queries
    .insertInto('deliveries')
    .values({ ...row })
    .returning('id'),
);

const payloadRow = new PreparedQuery((row: { id: number; payload: string }, queries) =>
  queries.insertInto('delivery_payloads').values({ delivery_id: row.id, payload: row.payload }),
);

/** The row of a new delivery. */
export function newDelivery(delivery: NewDelivery, now: EpochMs): NewDeliveryRow {
  const { tried, about, recipients } = delivery;
  const isDelivered = delivery.deliveredMs !== undefined;
  const isTried = isDelivered || tried !== undefined;
  return {
    kind: delivery.kind,
    domain_id: delivery.domainId,
    destination: delivery.destination,
    sender: senderOf(delivery),
    body_id: delivery.bodyId,
    public_id: delivery.publicId ?? randomUUID(),
    status: isDelivered ? 'delivered' : 'queued',
    next_attempt_at: dueAt(delivery, now),
    attempts: isTried ? 1 : 0,
    attempted_at: isTried ? now : null,
    ...(tried ? writeError(tried.error) : { last_error: null, reason: null }),
    late_at: delivery.lateAt ?? null,
    message_id: about?.messageId?.slice(0, ABOUT_MAX).toWellFormed() ?? null,
    subject: about?.subject.slice(0, ABOUT_MAX).toWellFormed() ?? null,
    mail_id: delivery.mailId ?? null,
    recipient: recipients ? nameRecipients(recipients) : null,
    mail_from: delivery.mailFrom?.slice(0, ABOUT_MAX).toLowerCase().toWellFormed() ?? null,
    url: delivery.url ?? null,
    created_at: now,
    updated_at: now,
    finished_at: isDelivered ? now : null,
  };
}

/** @returns the id of the delivery */
export async function insertDelivery(
  tx: Queries,
  delivery: NewDelivery,
  now: EpochMs,
): Promise<number> {
  const row = await deliveryRow.first(tx, newDelivery(delivery, now));
  if (!row) throw new Error('an insert returned no row');
  await payloadRow.all(tx, { id: row.id, payload: delivery.payload });
  return row.id;
}
