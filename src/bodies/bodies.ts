/**
 * Message bodies: the source of a message exactly as received, shared by all mailboxes that hold it.
 *
 * A small body lies in its row (`bodies.content`), so that it is durable with the transaction that
 * refers to it. A large one is a file `<directory>/<xx>/<uuid>` that is written and fsynced before
 * the row that names it is committed (`bodies.file`), but for the first lines of its header, which
 * may be in the row: a crash in between leaves a file that no row
 * names, which the sweep at the next start removes. Rows that no message and no delivery names any
 * more (their mailbox was deleted, the delivery was pruned) are removed by {@link Bodies.sweepRows}.
 */
import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, stat, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { type Database, PreparedQuery, type Queries } from '../database/database.ts';
import { Gathered } from './gathered.ts';

/**
 * Octets up to which a body lies in the row, besides header lines that are put in front of it: one
 * fsync stores it, and one query reads it.
 */
export const INLINE_MAX = 64 * 1024;
/**
 * Octets read at a time. What a decoder makes of them stays below the 128 KiB from which on malloc
 * fetches memory from the kernel for each buffer, which takes longer than decoding.
 */
const READ_CHUNK = 128 * 1024;
const SWEEP_CHUNK = 500;

/** Where the bytes of a body are, as its row says: first `content`, then `file`. */
export interface StoredBody {
  readonly size: number;
  readonly content: Uint8Array | null;
  readonly file: string | null;
}

/**
 * A body that is whole but not yet referred to: what is in memory, followed by what is in a file on
 * the disk, if anything.
 */
export interface StagedBody {
  readonly size: number;
  readonly content: Buffer;
  readonly file?: string;
}

/** Puts bytes in front of a body, such as header lines that its end had to be read for. */
export function prependBody(head: Buffer, body: StagedBody): StagedBody {
  const content = Buffer.concat([head, body.content]);
  return { ...body, size: head.length + body.size, content };
}

export interface ByteRange {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

export interface BodiesOptions {
  readonly database: Database;
  /** Folder of the large ones; made when missing. */
  readonly directory: string;
}

export class Bodies {
  readonly #database: Database;
  readonly #directory: string;
  readonly #folders = new Set<string>();
  readonly #insert: PreparedQuery<{ id: number }>;
  readonly #find: PreparedQuery<StoredBody>;

  constructor({ database, directory }: BodiesOptions) {
    this.#database = database;
    this.#directory = directory;
    this.#insert = new PreparedQuery(
      database.read
        .insertInto('bodies')
        .values({ size: 0, content: Buffer.alloc(0), file: '' })
        .returning('id'),
    );
    this.#find = new PreparedQuery(
      database.read.selectFrom('bodies').select(['size', 'content', 'file']).where('id', '=', 0),
    );
  }

  /**
   * Reads a body to its end. Memory stays flat whatever the size; nothing is left on disk when the
   * source fails.
   *
   * @param observe sees every chunk in order, before it is kept
   * @throws whatever the source or the disk throws (`ENOSPC`)
   */
  async stage(
    source: AsyncIterable<Uint8Array>,
    observe: (chunk: Uint8Array) => void,
  ): Promise<StagedBody> {
    const held = new Gathered();
    let size = 0;
    let spill: Spill | undefined;
    try {
      for await (const chunk of source) {
        observe(chunk);
        size += chunk.length;
        if (spill) await spill.write(chunk);
        else held.add(chunk);
        if (!spill && size > INLINE_MAX) {
          spill = await this.#startSpill();
          await spill.write(held.take());
        }
      }
      if (!spill) return { size, content: held.take() };
      await spill.finish();
      return { size, content: Buffer.alloc(0), file: spill.name };
    } catch (error) {
      await spill?.abandon();
      throw error;
    }
  }

  /** Makes a staged body part of the transaction; answers its id. */
  async commit(tx: Queries, { size, content, file }: StagedBody): Promise<number> {
    const inRow = content.length > 0 || file === undefined ? content : null;
    const row = await this.#insert.first(tx, [size, inRow, file ?? null]);
    if (!row) throw new Error('a body was inserted but has no id');
    return row.id;
  }

  /** Where a body lies, for {@link Bodies.read}; undefined where it is gone. */
  async find(id: number): Promise<StoredBody | undefined> {
    return this.#find.first(this.#database.read, [id]);
  }

  /** Gives up a staged body that nothing came to refer to. */
  async discard({ file }: StagedBody): Promise<void> {
    if (file !== undefined) await this.#removeFile(file);
  }

  /**
   * Streams a body, or the bytes of it that lie in `range`.
   *
   * @param reuse reads every piece into the same memory: for whoever is done with one before asking
   *   for the next
   */
  async *read(
    body: StoredBody | StagedBody,
    range?: ByteRange,
    reuse = false,
  ): AsyncGenerator<Uint8Array> {
    const start = range?.start ?? 0;
    const end = Math.min(range?.end ?? body.size, body.size);
    const inRow = body.content?.length ?? 0;
    if (body.content && start < Math.min(end, inRow)) yield body.content.subarray(start, end);
    if (end <= inRow) return;
    if (!body.file) throw new Error('a body is shorter than its row says');
    const handle = await open(this.#pathOf(body.file));
    try {
      yield* readRange(handle, Math.max(start - inRow, 0), end - inRow, reuse);
    } finally {
      await handle.close();
    }
  }

  /**
   * Removes those of the given bodies that no message and no delivery refers to any more, inside the
   * transaction that took their references away.
   *
   * @returns files to remove once the transaction is committed, by {@link Bodies.removeFiles}
   */
  async release(tx: Queries, ids: readonly number[]): Promise<string[]> {
    if (ids.length === 0) return [];
    const gone = await tx
      .deleteFrom('bodies')
      .where('id', 'in', ids)
      .where(({ not, exists, selectFrom }) =>
        not(
          exists(
            selectFrom('messages').select('body_id').whereRef('messages.body_id', '=', 'bodies.id'),
          ),
        ),
      )
      .where(({ not, exists, selectFrom }) =>
        not(
          exists(
            selectFrom('deliveries')
              .select('body_id')
              .whereRef('deliveries.body_id', '=', 'bodies.id'),
          ),
        ),
      )
      .returning('file')
      .execute();
    return gone.flatMap(({ file }) => (file === null ? [] : [file]));
  }

  async removeFiles(files: readonly string[]): Promise<void> {
    for (const file of files) await this.#removeFile(file);
  }

  /** Removes bodies that nothing refers to; answers how many. Run now and then. */
  async sweepRows(): Promise<number> {
    let removed = 0;
    let after = 0;
    for (;;) {
      const rows = await this.#database.read
        .selectFrom('bodies')
        .select('id')
        .where('id', '>', after)
        .orderBy('id')
        .limit(SWEEP_CHUNK)
        .execute();
      const last = rows.at(-1);
      if (!last) return removed;
      after = last.id;
      removed += await this.#sweepIds(rows.map(({ id }) => id));
      // On SQLite a query is over in the turn it was asked in: without this all of them would be one.
      await turn();
    }
  }

  /**
   * Removes files that no row names: what a crash left between writing a body and committing it.
   *
   * @param graceMs files younger than this are spared: another node may be about to commit them
   * @returns how many were removed
   */
  async sweepFiles(graceMs: number): Promise<number> {
    let removed = 0;
    for (const folder of await listFolder(this.#directory)) {
      const names = (await listFolder(join(this.#directory, folder))).map(
        (name) => `${folder}/${name}`,
      );
      for (let at = 0; at < names.length; at += SWEEP_CHUNK) {
        removed += await this.#sweepNames(names.slice(at, at + SWEEP_CHUNK), graceMs);
      }
    }
    return removed;
  }

  async #sweepIds(ids: number[]): Promise<number> {
    const orphans = await this.#database.read
      .selectFrom('bodies')
      .leftJoin('messages', 'messages.body_id', 'bodies.id')
      .leftJoin('deliveries', 'deliveries.body_id', 'bodies.id')
      .select('bodies.id')
      .where('bodies.id', 'in', ids)
      .where('messages.body_id', 'is', null)
      .where('deliveries.body_id', 'is', null)
      .execute();
    if (orphans.length === 0) return 0;
    const files = await this.#database.write((tx) =>
      this.release(
        tx,
        orphans.map(({ id }) => id),
      ),
    );
    await this.removeFiles(files);
    return orphans.length;
  }

  async #sweepNames(names: string[], graceMs: number): Promise<number> {
    const rows = await this.#database.read
      .selectFrom('bodies')
      .select('file')
      .where('file', 'in', names)
      .execute();
    const named = new Set(rows.map(({ file }) => file));
    let removed = 0;
    for (const name of names) {
      if (named.has(name)) continue;
      if (graceMs > 0 && (await ageMs(this.#pathOf(name))) < graceMs) continue;
      await this.#removeFile(name);
      removed++;
    }
    return removed;
  }

  async #startSpill(): Promise<Spill> {
    const id = randomUUID();
    const folder = id.slice(0, 2);
    await this.#ensureFolder(folder);
    const name = `${folder}/${id}`;
    return Spill.start(name, this.#pathOf(name));
  }

  /** A file is only as durable as the folder entries on the way to it. */
  async #ensureFolder(folder: string): Promise<void> {
    if (this.#folders.has(folder)) return;
    await mkdir(join(this.#directory, folder), { recursive: true, mode: 0o700 });
    await syncFolder(this.#directory);
    await syncFolder(dirname(this.#directory));
    this.#folders.add(folder);
  }

  #pathOf(name: string): string {
    return join(this.#directory, name);
  }

  async #removeFile(name: string): Promise<void> {
    try {
      await unlink(this.#pathOf(name));
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
}

/** A body on its way into a file. */
class Spill {
  readonly name: string;
  readonly #path: string;
  readonly #handle: FileHandle;

  private constructor(name: string, path: string, handle: FileHandle) {
    this.name = name;
    this.#path = path;
    this.#handle = handle;
  }

  static async start(name: string, path: string): Promise<Spill> {
    return new Spill(name, path, await open(path, 'wx', 0o600));
  }

  async write(chunk: Uint8Array): Promise<void> {
    let written = 0;
    while (written < chunk.length) {
      written += (await this.#handle.write(chunk, written)).bytesWritten;
    }
  }

  async finish(): Promise<void> {
    await this.#handle.sync();
    await this.#handle.close();
    await syncFolder(dirname(this.#path));
  }

  /** Best effort: the sweep at the next start removes what stays. */
  async abandon(): Promise<void> {
    await this.#handle.close().catch(() => {});
    await unlink(this.#path).catch(() => {});
  }
}

async function* readRange(
  handle: FileHandle,
  start: number,
  end: number,
  reuse: boolean,
): AsyncGenerator<Uint8Array> {
  let position = start;
  let memory: Buffer | undefined;
  while (position < end) {
    const chunk: Buffer = memory ?? Buffer.allocUnsafe(Math.min(READ_CHUNK, end - position));
    if (reuse) memory = chunk;
    const wanted = Math.min(chunk.length, end - position);
    const { bytesRead } = await handle.read(chunk, 0, wanted, position);
    if (bytesRead === 0) throw new Error('a body file is shorter than its row says');
    position += bytesRead;
    yield chunk.subarray(0, bytesRead);
  }
}

async function syncFolder(path: string): Promise<void> {
  const handle = await open(path);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function listFolder(path: string): Promise<string[]> {
  try {
    return await readdir(path);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** Milliseconds since a file was last written; of one that is gone, no end of them. */
async function ageMs(path: string): Promise<number> {
  try {
    return Date.now() - (await stat(path)).mtimeMs;
  } catch (error) {
    if (isMissing(error)) return Number.POSITIVE_INFINITY;
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
