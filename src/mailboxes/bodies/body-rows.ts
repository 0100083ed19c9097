/** A body on its way from memory to its row; rows of `bodies`: new ones, and those that nothing needs. */

import { Buffer } from 'node:buffer';
import { sql } from 'kysely';
import {
  type Database,
  isAmong,
  type NewRow,
  PreparedQuery,
  type Queries,
} from '../../platform/database/database.ts';

/** The columns of a new row. */
export function bodyColumns({ size, content, file }: NewRow<'bodies'>) {
  return { size, content, file };
}

/* Compiled once: they run for every message. */

export const insertBody = new PreparedQuery((value: NewRow<'bodies'>, queries) =>
  queries.insertInto('bodies').values(bodyColumns(value)).returning('id'),
);

export const bodyById = new PreparedQuery(({ id }: { readonly id: number }, queries) =>
  queries.selectFrom('bodies').select(['size', 'content', 'file']).where('id', '=', id),
);

/** @param ids as JSON */
export const bodiesById = new PreparedQuery(({ ids }: { readonly ids: string }, queries) =>
  queries
    .selectFrom('bodies')
    .select(['id', 'size', 'content', 'file'])
    .where(isAmong(queries, 'id', ids)),
);

/** The row of a body that was read: its bytes in memory are in it, unless there are none beside its file. */
export function rowOf(body: { size: number; content: Buffer; file?: string }): NewRow<'bodies'> {
  const { size, content, file } = body;
  const inRow = content.length > 0 || file === undefined ? content : null;
  return { size, content: inRow, file: file ?? null };
}

/** A condition of queries on bodies: no message of any mailbox needs it. */
const isInNoMailbox = sql<boolean>`not exists (select 1 from messages where body_id = bodies.id)`;

/** As `Bodies.release`. */
export async function releaseRows(
  tx: Queries,
  engine: Database['engine'],
  ids: readonly number[],
): Promise<string[]> {
  if (ids.length === 0) return [];
  if (engine === 'postgres') {
    // Of two transactions that each remove one of the last two references, the second waits here, in the order
    // of the ids, and then sees the changes of the first.
    const held = tx.selectFrom('bodies').select('id').where('id', 'in', ids).orderBy('id');
    await held.forUpdate().execute();
  }
  const gone = await tx
    .deleteFrom('bodies')
    .where('id', 'in', ids)
    .where(isInNoMailbox)
    .where(sql<boolean>`not exists (select 1 from deliveries where body_id = bodies.id)`)
    .returning('file')
    .execute();
  return gone.flatMap(({ file }) => (file === null ? [] : [file]));
}

/** As `Bodies.empty`. */
export async function emptyRows(
  tx: Queries,
  ids: readonly number[],
  before: number,
): Promise<string[]> {
  if (ids.length === 0) return [];
  const held = tx.selectFrom('bodies').select(['id', 'file']).where('id', 'in', ids);
  const rows = await held
    .where(isInNoMailbox)
    .where(
      sql<boolean>`not exists (select 1 from deliveries where body_id = bodies.id
        and (finished_at is null or finished_at >= ${before} or late_at is not null))`,
    )
    .orderBy('id')
    .forUpdate()
    .execute();
  const emptied = rows.map(({ id }) => id);
  if (emptied.length === 0) return [];
  const nothing = { content: null, file: null };
  await tx.updateTable('bodies').set(nothing).where('id', 'in', emptied).execute();
  await tx.deleteFrom('imap_texts').where('body_id', 'in', emptied).execute();
  await tx.deleteFrom('imap_headers').where('body_id', 'in', emptied).execute();
  return rows.flatMap(({ file }) => (file === null ? [] : [file]));
}

/** Whether a row names a file; also where the database does not answer. */
export async function isNamed(read: Queries, file: string): Promise<boolean> {
  const rows = read.selectFrom('bodies').select('id').where('file', '=', file).limit(1);
  return rows.execute().then(
    ({ length }) => length > 0,
    () => true,
  );
}

/* A body in memory, and where its bytes are then. */

/** Where the bytes of a body are, by its row: first `content`, then `file`. */
export interface StoredBody {
  readonly size: number;
  readonly content: Uint8Array | null;
  readonly file: string | null;
}

/**
 * A body that was read to its end but is not in a row yet: the bytes in memory, followed by those in a file on the
 * disk, if any.
 */
export interface StagedBody {
  readonly size: number;
  readonly content: Buffer;
  readonly file?: string;
}

/** Puts bytes in front of a body, such as header lines that depend on the whole message. */
export function prependBody(head: Buffer, body: StagedBody): StagedBody {
  const content = Buffer.concat([head, body.content]);
  return { ...body, size: head.length + body.size, content };
}

/** Bytes from `start` up to but not including `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** Bytes that are allocated first: most messages fit. */
const ROOM = 32 * 1024;
const NOTHING = Buffer.alloc(0);

/**
 * Bytes that come in pieces of any size, collected in one piece of memory. With a list of the pieces, a client that
 * sends one byte per packet at no cost would make us use some 170 times the size of the message.
 */
export class GrowingBuffer {
  #memory: Buffer<ArrayBuffer> = NOTHING;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Copies the bytes. */
  add(bytes: Uint8Array): void {
    const size = this.#size + bytes.length;
    if (size > this.#memory.length) {
      // Not from Node's pool, and not cleared: only bytes that were written to it are ever returned.
      const memory = Buffer.allocUnsafeSlow(Math.max(size, 2 * this.#memory.length, ROOM));
      memory.set(this.#memory.subarray(0, this.#size));
      this.#memory = memory;
    }
    this.#memory.set(bytes, this.#size);
    this.#size = size;
  }

  /** Returns all of it, in memory that holds nothing else; this object is empty after that. */
  take(): Buffer<ArrayBuffer> {
    const { buffer } = this.#memory;
    const taken =
      this.#size > 0 ? Buffer.from(buffer.transferToFixedLength(this.#size)) : Buffer.alloc(0);
    this.#memory = NOTHING;
    this.#size = 0;
    return taken;
  }
}
