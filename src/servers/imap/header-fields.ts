/**
 * The fields of headers that mail programs ask for when they list a mailbox. They are read from the source when they are
 * asked for the first time, and kept for the body: the source of a message is long, and may be in a file or a bucket.
 */
import type { ImapRow } from '../../mailboxes/mailstore/mailstore.ts';
import { type Section, selectFields } from './sections.ts';
import { gone, type Session } from './session.ts';
import { Source, sourcesOf } from './source.ts';

/**
 * What Thunderbird, Apple Mail, Outlook, K-9, mutt, Roundcube and others ask for in lists. Not `Received`, nor signatures,
 * which are long. A name that is added here is missing in what was kept before: that has to be made again then.
 */
const KEPT = {
  what: 'HEADER.FIELDS',
  names: [
    ...['from', 'to', 'cc', 'bcc', 'reply-to', 'sender', 'subject', 'date', 'message-id'],
    ...['references', 'in-reply-to', 'newsgroups', 'followup-to', 'lines', 'thread-topic'],
    ...['content-type', 'content-description', 'content-transfer-encoding', 'mime-version'],
    ...['priority', 'x-priority', 'x-msmail-priority', 'importance', 'x-mailer', 'user-agent'],
    ...['list-id', 'list-post', 'list-subscribe', 'list-unsubscribe', 'list-unsubscribe-post'],
    ...['disposition-notification-to', 'return-receipt-to', 'auto-submitted', 'precedence'],
    ...['x-label', 'x-original-to', 'delivered-to', 'return-path', 'x-spam-flag', 'x-tuid'],
    ...['x-universally-unique-identifier', 'x-uniform-type-identifier', 'x-forwarded-message-id'],
    ...['x-k9mail-identity', 'chat-version', 'mail-followup-to'],
  ],
} as const;
const NAMES: ReadonlySet<string> = new Set(KEPT.names);
/** Characters that are kept of one header. */
const KEPT_MAX = 16 * 1024;

/** Whether all fields of a name are kept. @param name in small letters */
export function isKeptName(name: string): boolean {
  return NAMES.has(name);
}

/** Whether a section has only such fields of the message itself. */
export function isKept({ part, what, names }: Section): boolean {
  return part === '' && what === 'HEADER.FIELDS' && names.every(isKeptName);
}

/**
 * The fields, by the ids of bodies: a header of its own, of one character an octet. `''` where they are not kept:
 * {@link readHeader} has them.
 *
 * @param rows of the selected mailbox; a message without a source is left out
 */
export async function headersOf(
  session: Session,
  rows: readonly ImapRow<'body_id'>[],
): Promise<ReadonlyMap<number, string>> {
  if (rows.length === 0) return new Map();
  const { imap } = session.services.mailstore;
  const headers = await imap.headers([...new Set(rows.map(({ body_id }) => body_id))]);
  const missing = rows.filter(({ body_id }) => !headers.has(body_id));
  const made = new Map<number, string>();
  for await (const [id, source] of sourcesOf(session, missing)) {
    const fields = selectFields(await source.header(0, source.bodyStart), KEPT);
    // PostgreSQL keeps no text with NUL.
    made.set(id, fields.length > KEPT_MAX || fields.includes('\0') ? '' : fields);
  }
  for (const [id, fields] of made) headers.set(id, fields);
  // Where the database cannot write now, they are read again.
  if (made.size > 0) await imap.keepHeaders(made).catch(() => {});
  return headers;
}

/** The header of a message, from its source. @throws No where the message is gone */
export async function readHeader(
  session: Session,
  { uid }: Pick<ImapRow<'uid'>, 'uid'>,
): Promise<Buffer> {
  const { imap } = session.services.mailstore;
  const [row] = await imap.rows(session.selected.mailbox, [uid], ['body_id', 'structure']);
  if (!row) throw gone();
  const source = new Source(session, row);
  return source.header(0, source.bodyStart);
}
