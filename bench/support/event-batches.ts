/** Signed batches of mail server events (contract, section 6). */
import { createHmac, randomUUID } from 'node:crypto';
import { writeRequest } from './http-client.ts';
import { EVENTS_SECRET } from './service.ts';

/** One batch, one line for each of the users in turn; every event is a new one. */
export function writeBatch(users: readonly string[], lines: number, round: number): string {
  const events = Array.from({ length: lines }, (_, index) =>
    JSON.stringify({
      event_id: randomUUID(),
      user: users[index % users.length],
      event_type: 'MailboxesChanged',
      mailbox: 'INBOX',
      uidvalidity: '1795244400',
      highestmodseq: String(1_000_000 + round * lines + index),
    }),
  );
  return `${events.join('\n')}\n`;
}

export function signBatch(batch: string | Buffer): string {
  return createHmac('sha256', EVENTS_SECRET).update(batch).digest('hex');
}

/** POST /hooks/mailserver as it goes over the wire. */
export function eventsRequest(batch: string): string {
  const headers = {
    'content-type': 'application/x-ndjson',
    'x-mailserver-signature': signBatch(batch),
  };
  return writeRequest('POST', '/hooks/mailserver', headers, batch);
}
