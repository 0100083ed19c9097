import { writeRequest } from './http-client.ts';

/** POST /mail/sync as it goes over the wire; a first sync without the mailbox's token. */
export function syncRequest(
  bearer: string,
  uidvalidity?: string,
  token?: string,
  limit?: number,
): string {
  return writeRequest(
    'POST',
    '/mail/sync',
    { 'content-type': 'application/json', authorization: `Bearer ${bearer}` },
    JSON.stringify({ mailbox: 'INBOX', uidvalidity, token, limit }),
  );
}
