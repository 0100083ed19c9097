/**
 * Removes messages that have been in Trash or Junk for long enough (TRASH_DAYS), in short transactions. Apps see it as
 * any removal, at their next sync.
 *
 * What counts is when a message came into the mailbox, not its date: mail that is moved to Trash today stays for all of
 * its days. UIDs are given in that order, so the first messages of a mailbox show whether there is anything to do.
 */
import { sql } from 'kysely';
import type { Database } from '../../platform/database/database.ts';
import { isRefusal, when } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { Bodies } from '../bodies/bodies.ts';
import type { MailboxChange } from '../changes/changes.ts';
import type { MessageEditor } from './edit-messages.ts';

/** Mailboxes that one query checks. */
const MAILBOXES_AT_A_TIME = 1_000;
/** Messages that one transaction removes. */
const MESSAGES_AT_A_TIME = 200;
const SPECIAL_USES = ['\\Trash', '\\Junk'];
/** In `counters`: rows from before 0.3.0 have no arrival time; theirs counts from this time on. */
const KNOWN_SINCE = 'saved_at';

export interface ExpiryOptions {
  readonly database: Database;
  readonly bodies: Pick<Bodies, 'removeFiles'>;
  readonly editor: Pick<MessageEditor, 'expungeIn'>;
  readonly now: () => number;
}

/** A mailbox of which something is to be removed. */
interface Expiring {
  readonly id: number;
  readonly account_id: number;
  readonly name: string;
}

/** The result for some mailboxes. */
export interface Expired {
  /** Id of the last mailbox that was checked. */
  readonly last: number;
  readonly removed: number;
  /** For the caller to publish. */
  readonly changes: readonly MailboxChange[];
}

/**
 * Checks the next mailboxes, in the order of their ids.
 *
 * @param before messages that came into their mailbox before this are removed
 * @param after id of the mailbox that was checked last
 * @returns undefined where no mailbox is left
 */
export async function expireSome(
  options: ExpiryOptions,
  before: EpochMs,
  after: number,
): Promise<Expired | undefined> {
  const { database } = options;
  const mailboxes = await database.read
    .selectFrom('mailboxes')
    .select(['id', 'account_id', 'special_use', 'messages'])
    .where('id', '>', after)
    .orderBy('id')
    .limit(MAILBOXES_AT_A_TIME)
    .execute();
  const last = mailboxes.at(-1)?.id;
  if (last === undefined) return undefined;
  const ids = mailboxes.flatMap(({ id, account_id, special_use, messages }) =>
    account_id > 0 && messages > 0 && SPECIAL_USES.includes(special_use ?? '') ? [id] : [],
  );
  const changes: MailboxChange[] = [];
  let removed = 0;
  const since = await readSince(options);
  for (const mailbox of await findExpiring(database, ids, since, before)) {
    for (;;) {
      const step = await expunge(options, mailbox, since, before);
      removed += step.removed;
      changes.push(...step.changes);
      if (step.removed < MESSAGES_AT_A_TIME) break;
    }
  }
  return { last, removed, changes };
}

/** Those of the mailboxes whose first message is old enough. */
async function findExpiring(
  { read }: Database,
  ids: readonly number[],
  since: number,
  before: number,
): Promise<Expiring[]> {
  if (ids.length === 0) return [];
  const { rows } = await sql<Expiring>`
    select id, account_id, name from mailboxes where id in (${sql.join(ids)}) and (
      select coalesce(saved_at, ${since}) from messages
      where mailbox_id = mailboxes.id order by uid limit 1
    ) < ${before}`.execute(read);
  return rows;
}

async function expunge(
  { database, bodies, editor }: ExpiryOptions,
  { id, account_id: accountId, name: mailbox }: Expiring,
  since: number,
  before: number,
) {
  const first = await database.read
    .selectFrom('messages')
    .select(['uid', 'saved_at'])
    .where('mailbox_id', '=', id)
    .orderBy('uid')
    .limit(MESSAGES_AT_A_TIME)
    .execute();
  const old = first.filter(({ saved_at }) => (saved_at ?? since) < before);
  const uids = old.map(({ uid }) => uid);
  if (uids.length === 0) return { removed: 0, changes: [] };
  const user = { accountId, address: '' };
  try {
    const { removed, changes, files } = await database.write((tx) =>
      editor.expungeIn(tx, user, { mailbox, uids }),
    );
    await bodies.removeFiles(files);
    return { removed: removed.length, changes };
  } catch (error) {
    // The account was deleted meanwhile.
    return when(isRefusal('mailbox_not_found'), { removed: 0, changes: [] })(error);
  }
}

/** The time of the first call ever, which is stored. */
async function readSince({ database, now }: ExpiryOptions): Promise<number> {
  const find = () =>
    database.read
      .selectFrom('counters')
      .select('value')
      .where('name', '=', KNOWN_SINCE)
      .executeTakeFirst();
  const known = await find();
  if (known) return known.value;
  await database.write((tx) =>
    tx
      .insertInto('counters')
      .values({ name: KNOWN_SINCE, value: now() })
      .onConflict((conflict) => conflict.column('name').doNothing())
      .execute(),
  );
  return (await find())?.value ?? now();
}
