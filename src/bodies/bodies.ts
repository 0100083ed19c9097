/**
 * Message bodies: the source of a message exactly as received, shared by all mailboxes that hold it.
 *
 * A small body lies in its row (`bodies.content`), so that it is durable with the transaction that
 * refers to it. A large one is a file (`body-folder.ts`) that is written and fsynced before the row
 * that names it is committed (`bodies.file`), but for the first lines of its header, which may be in
 * the row. A crash in between leaves a file that no row names; {@link Bodies.sweepFiles} moves it to
 * quarantine. Database and folder have the same store id (`body-folder.ts`): where they differ, nothing
 * is taken and nothing removed. Whoever removes messages or deliveries releases their bodies in the same
 * transaction ({@link Bodies.release}), so that no row is left that nobody names.
 */

import { Buffer } from 'node:buffer';
import type { FileHandle } from 'node:fs/promises';
import type { Logger } from 'pino';
import { type Database, type NewRow, PreparedQuery, type Queries } from '../database/database.ts';
import { Refusal } from '../errors/errors.ts';
import { isMissing } from '../files/files.ts';
import {
  BodyFolder,
  findMismatch,
  type NewFile,
  readRange,
  type Swept,
  sweepFiles,
} from './body-folder.ts';

/**
 * Octets up to which a body lies in the row, besides header lines that are put in front of it: one
 * fsync stores it, and one query reads it.
 */
const INLINE_MAX = 64 * 1024;
/**
 * Octets of the disk that stay free of mail, so that what was taken before can still be read, marked,
 * removed and delivered.
 */
const FREE_BYTES_LEFT = 64 * 1024 * 1024;
/** Milliseconds for which the free space of a disk is taken for what it was. */
const FREE_BYTES_MS = 1_000;

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
  /** Absolute path of the folder of the large ones. */
  readonly directory: string;
  readonly log?: Pick<Logger, 'info' | 'warn' | 'error'> | undefined;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

export class Bodies {
  readonly #database: Database;
  readonly #folder: BodyFolder;
  readonly #log: BodiesOptions['log'];
  readonly #now: () => number;
  #mismatch: string | undefined;
  readonly #insert: PreparedQuery<NewRow<'bodies'>, { id: number }>;
  readonly #find: PreparedQuery<{ id: number }, StoredBody>;
  #free = { at: Number.NEGATIVE_INFINITY, bytes: 0 };

  constructor({ database, directory, log, now = Date.now }: BodiesOptions) {
    this.#database = database;
    this.#folder = new BodyFolder(directory);
    this.#log = log;
    this.#now = now;
    this.#insert = new PreparedQuery(({ size, content, file }) =>
      database.read.insertInto('bodies').values({ size, content, file }).returning('id'),
    );
    this.#find = new PreparedQuery(({ id }) =>
      database.read.selectFrom('bodies').select(['size', 'content', 'file']).where('id', '=', id),
    );
  }

  /** What is wrong where the folder is not the database's; mail cannot be kept then. */
  get mismatch(): string | undefined {
    return this.#mismatch;
  }

  /**
   * Looks whether the folder is the database's, and logs what is wrong; asked before any mail is taken.
   *
   * @param isNew whether nothing has been set up in the database yet: a new folder becomes its folder
   * @returns what is wrong, in one line
   */
  async checkStore(isNew: boolean): Promise<string | undefined> {
    const mismatch = await findMismatch(this.#database, this.#folder, isNew);
    if (mismatch && !this.#mismatch) this.#log?.error(mismatch);
    this.#mismatch = mismatch;
    return mismatch;
  }

  /** Takes and removes nothing from now on: the folder is not where it was. */
  close(reason: string): void {
    this.#mismatch = reason;
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
    let spill: NewFile | undefined;
    try {
      for await (const chunk of source) {
        observe(chunk);
        size += chunk.length;
        if (spill) await spill.write(chunk);
        else held.add(chunk);
        if (!spill && size > INLINE_MAX) {
          spill = await this.#folder.create();
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

  /**
   * Why a message of so many octets cannot be kept, by what was free at most a second ago.
   *
   * @returns Refusal storage_full; undefined where there is room
   * @throws the file system's error
   */
  async checkRoom(octets: number): Promise<Refusal | undefined> {
    const at = performance.now();
    if (at - this.#free.at >= FREE_BYTES_MS) {
      this.#free = { at, bytes: await this.#folder.freeBytes() };
    }
    if (this.#free.bytes >= FREE_BYTES_LEFT + octets) return undefined;
    return new Refusal('storage_full', 'there is no space left for this message');
  }

  /**
   * Makes a staged body part of the transaction; answers its id.
   *
   * @throws Refusal unavailable, where the folder is not the database's
   */
  async commit(tx: Queries, { size, content, file }: StagedBody): Promise<number> {
    if (this.#mismatch) throw new Refusal('unavailable', 'no mail can be kept right now');
    const inRow = content.length > 0 || file === undefined ? content : null;
    const row = await this.#insert.first(tx, { size, content: inRow, file: file ?? null });
    if (!row) throw new Error('a body was inserted but has no id');
    return row.id;
  }

  /** Where a body lies, for {@link Bodies.read}; undefined where it is gone. */
  async find(id: number): Promise<StoredBody | undefined> {
    return this.#find.first(this.#database.read, { id });
  }

  /** Gives up a staged body that nothing came to refer to. */
  async discard({ file }: StagedBody): Promise<void> {
    if (file !== undefined) await this.removeFiles([file]);
  }

  /**
   * Streams a body, or the bytes of it that lie in `range`. Its file is opened before the first piece is
   * given, and stays readable from then on, also where it is removed meanwhile.
   *
   * @param reuse reads every piece into the same memory: for whoever is done with one before asking
   *   for the next
   * @param about whose source it is, for the log
   * @throws Refusal body_unavailable, where the file is gone
   */
  async *read(
    body: StoredBody | StagedBody,
    range?: ByteRange,
    reuse = false,
    about: object = {},
  ): AsyncGenerator<Uint8Array> {
    const start = range?.start ?? 0;
    const end = Math.min(range?.end ?? body.size, body.size);
    const inRow = body.content?.length ?? 0;
    if (end > inRow && !body.file) throw new Error('a body is shorter than its row says');
    const handle = end > inRow && body.file ? await this.#open(body.file, about) : undefined;
    try {
      if (body.content && start < Math.min(end, inRow)) yield body.content.subarray(start, end);
      if (handle) yield* readRange(handle, Math.max(start - inRow, 0), end - inRow, reuse);
    } finally {
      await handle?.close();
    }
  }

  /** @throws Refusal body_unavailable, where the file is gone */
  async #open(file: string, about: object): Promise<FileHandle> {
    try {
      return await this.#folder.open(file);
    } catch (error) {
      if (!isMissing(error)) throw error;
      const folder = this.#folder.path;
      this.#log?.error(
        { ...about, folder, file },
        'the file of a body is missing: its messages cannot be read; bring it back from a backup',
      );
      throw new Refusal('body_unavailable', 'the source of this message is missing on the disk', {
        cause: error,
      });
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
    if (this.#database.engine === 'postgres') {
      // Two transactions that each take away one of the last two references wait for each other here,
      // in the order of the ids; the second one sees what the first has done.
      const held = tx.selectFrom('bodies').select('id').where('id', 'in', ids).orderBy('id');
      await held.forUpdate().execute();
    }
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
    if (this.#mismatch) return;
    for (const file of files) await this.#folder.remove(file);
  }

  /**
   * Moves files that no row names to quarantine, and removes what was there for its time. Nothing is
   * moved where the folder is not the database's.
   *
   * @param signal ends it early
   */
  async sweepFiles(signal: AbortSignal): Promise<Swept> {
    // Asked again: another folder may have been mounted here since the start.
    if (await this.checkStore(false)) return { quarantined: 0, restored: 0, removed: 0 };
    const swept = await sweepFiles(this.#database, this.#folder, this.#now(), signal);
    const { quarantined, restored, removed } = swept;
    const files = { folder: this.#folder.path, quarantined, restored, removed };
    if (quarantined + restored > 0) {
      this.#log?.warn(
        files,
        'body files that no message names were moved to quarantine (kept for 7 days), or back',
      );
    } else if (removed > 0) {
      this.#log?.info(files, 'body files removed after 7 days in quarantine');
    }
    return swept;
  }
}

/** Octets that there is room for at first: most messages. */
const ROOM = 32 * 1024;
const NOTHING = Buffer.alloc(0);

/**
 * Bytes that come in pieces of any size, kept in one piece of memory. A list of the pieces would cost
 * a client that sends one byte a packet nothing, and us some 170 times the message.
 */
export class Gathered {
  #memory = NOTHING;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Copies the bytes. */
  add(bytes: Uint8Array): void {
    const size = this.#size + bytes.length;
    if (size > this.#memory.length) {
      // Not from Node's pool, and not cleared: only what was written to it is ever handed out.
      const memory = Buffer.allocUnsafeSlow(Math.max(size, 2 * this.#memory.length, ROOM));
      memory.set(this.#memory.subarray(0, this.#size));
      this.#memory = memory;
    }
    this.#memory.set(bytes, this.#size);
    this.#size = size;
  }

  /** All of it, in memory that holds nothing else; this is empty from then on. */
  take(): Buffer {
    const { buffer } = this.#memory;
    const taken = this.#size > 0 ? Buffer.from(buffer.transferToFixedLength(this.#size)) : NOTHING;
    this.#memory = NOTHING;
    this.#size = 0;
    return taken;
  }
}
