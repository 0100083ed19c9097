/** Advances the counters of a mailbox: its next UIDs and MODSEQ, and what it holds. */
import { type RawBuilder, sql } from 'kysely';
import {
  type Database,
  PreparedQuery,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { mailboxColumns } from './mailboxes.ts';
import type { MailboxRow } from './store.ts';

/** By how much to advance the counters of a mailbox. */
interface Steps {
  /** New UIDs. */
  readonly uids: number;
  readonly messages: number;
  readonly unseen: number;
  readonly octets: number;
}

export interface Advance extends Steps {
  readonly mailboxId: number;
}

/** The same for a mailbox that is known only by its name. */
export interface NamedAdvance extends Steps {
  readonly accountId: number;
  readonly name: string;
}

/**
 * MODSEQs of one history of the server. A failover may lose the last changes, which apps have seen. The first change
 * after it gets the first MODSEQ of the next span, so that no lost MODSEQ is ever given again: {@link isSurviving}
 * tells them apart.
 */
const SPAN = 2 ** 32;
/** UIDs that are skipped at the same time: apps may have kept messages under the lost ones. */
const UIDS_PASSED = 65_536;

/** Whether the state that a token stands for was not lost in a failover. */
export function isSurviving(mailbox: MailboxRow, modseq: number): boolean {
  const { highestmodseq, fork_modseq } = mailbox;
  const span = Math.floor(modseq / SPAN);
  if (span === Math.floor(highestmodseq / SPAN)) return true;
  return span === Math.floor(fork_modseq / SPAN) && modseq <= fork_modseq;
}

/** The counters of a mailbox, advanced in its current history or moved to a new one. */
function forkAware(timeline: RawBuilder<number>, uids: number) {
  const isSameHistory = sql`timeline in (0, ${timeline})`;
  return {
    timeline,
    fork_modseq: sql<number>`case when ${isSameHistory} then fork_modseq else highestmodseq end`,
    highestmodseq: sql<number>`case when ${isSameHistory} then highestmodseq + 1
      else (highestmodseq / ${sql.lit(SPAN)} + 1) * ${sql.lit(SPAN)} end`,
    uidnext: sql<number>`uidnext + ${uids}::bigint + case when ${isSameHistory} then 0 else ${sql.lit(UIDS_PASSED)} end`,
  };
}

function advanceQuery(
  { read, timeline }: Pick<Database, 'read' | 'timeline'>,
  { uids, messages, unseen, octets }: Steps,
) {
  return read
    .updateTable('mailboxes')
    .set((eb) => ({
      uidnext: eb('uidnext', '+', uids),
      highestmodseq: eb('highestmodseq', '+', sql.lit(1)),
      messages: eb('messages', '+', messages),
      unseen: eb('unseen', '+', unseen),
      octets: eb('octets', '+', octets),
      ...(timeline && forkAware(timeline, uids)),
    }))
    .returning(['uidnext', ...mailboxColumns]);
}

/** A mailbox after the step. */
export type Advanced = MailboxRow & Pick<Row<'mailboxes'>, 'uidnext'>;

/** Advances the mailbox that an account has under a name. */
export function advanceByName(database: Pick<Database, 'read' | 'timeline'>, value: NamedAdvance) {
  return advanceQuery(database, value)
    .where('account_id', '=', value.accountId)
    .where('name', '=', value.name);
}

/** Locks mailboxes in the order of all transactions, as a part of a statement. @param from what else is selected from */
export function lockByName(
  boxes: readonly { readonly accountId: unknown; readonly name: unknown }[],
  from: string,
): RawBuilder<unknown> {
  const named = boxes.map(
    ({ accountId, name }) => sql`(account_id = ${accountId} and name = ${name})`,
  );
  return sql`select mailboxes.id from mailboxes, ${sql.raw(from)}
    where ${sql.join(named, sql` or `)} order by account_id for no key update of mailboxes`;
}

/**
 * Advances the counters of a mailbox: gives the next MODSEQ, and the next UIDs. The row stays locked until the
 * commit, so that a client can never see N+1 before N: it would never get N (RFC 7162 section 3.1).
 */
export class MailboxAdvance {
  readonly #byId: PreparedQuery<Advance, Advanced>;
  readonly #byName: PreparedQuery<NamedAdvance, Advanced>;

  constructor(database: Pick<Database, 'read' | 'timeline'>) {
    this.#byId = new PreparedQuery((value) =>
      advanceQuery(database, value)
        .where('id', '=', value.mailboxId)
        // A deleted mailbox accepts nothing more.
        .where('account_id', '>', 0),
    );
    this.#byName = new PreparedQuery((value) => advanceByName(database, value));
  }

  /** @throws Refusal mailbox_not_found where the mailbox was deleted just now */
  async next(tx: Queries, advance: Advance): Promise<{ firstUid: number; modseq: number }> {
    const row = await this.#byId.first(tx, advance);
    if (!row) throw new Refusal('mailbox_not_found', 'the mailbox was deleted');
    return { firstUid: row.uidnext - advance.uids, modseq: row.highestmodseq };
  }

  /** The same for one UID; undefined where the account has no such mailbox. */
  async nextOf(tx: Queries, advance: Omit<NamedAdvance, 'uids'>) {
    const row = await this.#byName.first(tx, { ...advance, uids: 1 });
    return row && { mailbox: row, uid: row.uidnext - 1, modseq: row.highestmodseq };
  }
}
