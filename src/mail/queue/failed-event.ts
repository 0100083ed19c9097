/** The event of a delivery that ended without success. */
import type { NewEvent } from '../../tenants/events/events.ts';

interface FailedDelivery {
  readonly id: number;
  readonly domainId: number;
  readonly destination: string;
  readonly mailId?: string | undefined;
  readonly recipient?: string | undefined;
}

/** @param detail why, for people */
export function failedEvent(
  kind: string,
  { domainId, id, destination, mailId, recipient }: FailedDelivery,
  detail: string | undefined,
): NewEvent {
  const data = { delivery_id: id, kind, destination, mail_id: mailId, detail };
  // Several recipients are one text, which may be long.
  const isOne = recipient !== undefined && !recipient.includes(',');
  return { type: 'delivery.failed', domainId, data: { ...data, ...(isOne && { recipient }) } };
}
