/**
 * Reads messages with their envelopes and structures.
 *
 * Both are as long as the sender made them: half a megabyte from one message of 300 KB. So a page with them
 * is limited in octets as well, and is read in small amounts: their lengths are read first, for which neither
 * engine has to read the texts.
 */
import { sql } from 'kysely';
import { PreparedQuery, type Queries } from '../../platform/database/database.ts';

/** Columns whose length the sender of a message decides. */
export const textColumns = ['envelope', 'structure'] as const;

export type TextColumn = (typeof textColumns)[number];

/** Rows whose lengths are read at once, and so the most rows whose texts are. */
export const TEXT_ROWS = 200;

/** Octets of texts read, or parsed, at once: on SQLite a query holds the thread until its end. */
export const TEXT_AT_A_TIME = 512 * 1024;

interface Measured {
  uid: number;
  octets: number;
}

/** The values of a query that reads or measures messages in the order of their UIDs. */
export interface WindowValues {
  readonly mailboxId: number;
  readonly snapshot: number;
  /** Messages that came up to this MODSEQ are left out. */
  readonly afterModseq: number;
  readonly afterUid: number;
  readonly most: number;
}

/** The messages to read: those that came after the state `base`, up to the state `snapshot`. */
export interface TextRange {
  readonly mailboxId: number;
  /** 0: the client has nothing yet. */
  readonly base: number;
  readonly snapshot: number;
  /** The client has all of them up to this UID, in the order of the page. */
  readonly afterUid: number;
  /** Whether the highest UIDs come first; only where `base` is 0. */
  readonly newest: boolean;
  /** The most messages. */
  readonly most: number;
  /** The most octets of texts; a message that is larger comes alone. */
  readonly pageBytes: number;
  /** Called between two pieces of work: others have their turn in it. What it throws ends the work. */
  readonly between: () => Promise<void>;
}

export interface TextRows<TextRow> {
  /** In the order of the page. */
  readonly rows: TextRow[];
  /** The last UID that was read, where there are more messages than fit. */
  readonly fullAt: number | undefined;
}

export class TextReader {
  readonly #queries: Queries;
  readonly #lengths = new Map<string, PreparedQuery<WindowValues, Measured>>();

  constructor(queries: Queries) {
    this.#queries = queries;
  }

  /**
   * Reads messages until the page is full; at least one, so that every page makes progress.
   *
   * @param query reads rows with these columns
   */
  async read<TextRow extends { uid: number }>(
    tx: Queries,
    query: PreparedQuery<WindowValues, TextRow>,
    columns: readonly TextColumn[],
    { mailboxId, base, snapshot, afterUid, newest, most, pageBytes, between }: TextRange,
  ): Promise<TextRows<TextRow>> {
    const lengths = this.#lengthsOf(columns, newest);
    const rows: TextRow[] = [];
    const common = { mailboxId, snapshot, afterModseq: base };
    let octets = 0;
    let after = afterUid;
    while (rows.length < most) {
      if (rows.length > 0) await between();
      const size = Math.min(TEXT_ROWS, most - rows.length);
      const measured = await lengths.all(tx, { ...common, afterUid: after, most: size });
      const [first] = measured;
      if (!first) break;
      if (rows.length > 0 && octets + first.octets > pageBytes) return { rows, fullAt: after };
      const fitting = fit(measured, Math.min(TEXT_AT_A_TIME, pageBytes - octets));
      octets += fitting.octets;
      after = fitting.lastUid;
      const before = newest ? first.uid + 1 : first.uid - 1;
      const values = { ...common, afterUid: before, most: fitting.count };
      for (const row of await query.all(tx, values)) rows.push(row);
      if (fitting.count === measured.length && measured.length < size) break;
    }
    return { rows, fullAt: undefined };
  }

  #lengthsOf(columns: readonly TextColumn[], newest: boolean) {
    const key = `${newest} ${columns.join(' ')}`;
    const known = this.#lengths.get(key);
    if (known) return known;
    const query = new PreparedQuery((value: WindowValues) =>
      lengthsQuery(this.#queries, columns, newest, value),
    );
    this.#lengths.set(key, query);
    return query;
  }
}

/** The length of the texts of each message. */
function lengthsQuery(
  queries: Queries,
  columns: readonly TextColumn[],
  newest: boolean,
  { mailboxId, snapshot, afterModseq, afterUid, most }: WindowValues,
) {
  const lengths = columns.map((column) => sql`octet_length(${sql.ref(column)})`);
  return queries
    .selectFrom('messages')
    .select(['uid', sql<number>`${sql.join(lengths, sql` + `)}`.as('octets')])
    .where('mailbox_id', '=', mailboxId)
    .where('created_modseq', '<=', snapshot)
    .where('created_modseq', '>', afterModseq)
    .where('uid', newest ? '<' : '>', afterUid)
    .orderBy('uid', newest ? 'desc' : 'asc')
    .limit(most);
}

/** The first of them whose texts together have at most `room` octets; at least one. */
function fit(measured: readonly Measured[], room: number) {
  let count = 0;
  let octets = 0;
  let lastUid = 0;
  for (const row of measured) {
    if (count > 0 && octets + row.octets > room) break;
    count++;
    octets += row.octets;
    lastUid = row.uid;
  }
  return { count, octets, lastUid };
}
