/**
 * Message bodies: the source of a message exactly as received, shared by all mailboxes that hold it.
 *
 * A small body is in its row (`bodies.content`), so that it is durable with the transaction that refers to it. A
 * large one is a file in a store (`body-store.ts`: a folder, or a bucket of an S3 server) that is durable there
 * before the row that names it is committed (`bodies.file`); only the first lines of its header may be in the
 * row. A crash in between leaves a file that no row names; {@link Bodies.sweepFiles} moves it to quarantine.
 * Database and store have the same store id: where the ids differ, nothing is accepted and nothing removed. A
 * transaction that removes messages or deliveries also releases their bodies ({@link Bodies.release}), so that
 * every body is still in use.
 *
 * A store on another machine may be unreachable. Then large bodies are neither stored nor read, and callers get
 * an error at once; a request tests again and again whether it answers (`store-health.ts`).
 */

import { Buffer } from 'node:buffer';
import type { ExpressionBuilder } from 'kysely';
import type { Logger } from 'pino';
import {
  type Database,
  isStorageFull,
  type NewRow,
  PreparedQuery,
  type Queries,
  type Schema,
} from '../database/database.ts';
import { Refusal } from '../errors/errors.ts';
import type { BucketOptions } from './body-bucket.ts';
import { BodyFolder } from './body-folder.ts';
import {
  BodyLost,
  type BodyStore,
  findMismatch,
  type NewBody,
  StoreUnavailable,
  type Swept,
  sweepStore,
} from './body-store.ts';
import { Gathered } from './gathered.ts';
import { StoreHealth } from './store-health.ts';

export { BodyFolder } from './body-folder.ts';
export {
  BodyLost,
  type BodyStore,
  compareStoreIds,
  databaseStoreId,
  StoreUnavailable,
  storeIdOf,
} from './body-store.ts';
export { Gathered } from './gathered.ts';
export {
  type LargeBody,
  listLargeBodies,
  type Moved,
  MoveRefused,
  moveBodies,
} from './move-bodies.ts';

/**
 * Octets up to which a body is stored in its row, without header lines that are put in front of it: one fsync
 * stores it, and one query reads it.
 */
const INLINE_MAX = 64 * 1024;
/**
 * Octets of the disk that are kept free of mail, so that accepted mail can still be read, marked, removed and
 * delivered.
 */
export const FREE_BYTES_LEFT = 64 * 1024 * 1024;
/** Milliseconds for which the measured free space of a disk is used. */
const FREE_BYTES_MS = 1_000;

/** The place of a body's bytes, by its row: first `content`, then `file`. */
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

export interface ByteRange {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

/**
 * Opens the store of large bodies: a bucket where one is given, else a folder.
 *
 * @param place.folder absolute path
 * @param place.spool absolute path of a folder for bodies on their way into the bucket
 */
export async function openBodyStore(place: {
  readonly folder: string;
  readonly spool: string;
  readonly bucket: Omit<BucketOptions, 'spool'> | undefined;
}): Promise<BodyStore> {
  if (!place.bucket) return new BodyFolder(place.folder);
  const { BodyBucket } = await import('./body-bucket.ts');
  return new BodyBucket({ ...place.bucket, spool: place.spool });
}

export interface BodiesOptions {
  readonly database: Database;
  /** The store of the large ones. */
  readonly store: BodyStore;
  readonly log?: Pick<Logger, 'info' | 'warn' | 'error'> | undefined;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

export class Bodies {
  readonly #database: Database;
  readonly #store: BodyStore;
  /** For a store on another machine. */
  readonly #health: StoreHealth | undefined;
  readonly #log: BodiesOptions['log'];
  readonly #now: () => number;
  #mismatch: string | undefined;
  /** Whether an empty store may become the store of this database. */
  #isNew = false;
  readonly #insert: PreparedQuery<NewRow<'bodies'>, { id: number }>;
  readonly #find: PreparedQuery<{ id: number }, StoredBody>;
  #free = { at: Number.NEGATIVE_INFINITY, bytes: Promise.resolve(0) };

  constructor({ database, store, log, now = Date.now }: BodiesOptions) {
    this.#database = database;
    this.#store = store;
    this.#health = store.isRemote
      ? new StoreHealth({ look: () => this.#compareIds(), log })
      : undefined;
    this.#log = log;
    this.#now = now;
    this.#insert = new PreparedQuery(({ size, content, file }) =>
      database.read.insertInto('bodies').values({ size, content, file }).returning('id'),
    );
    this.#find = new PreparedQuery(({ id }) =>
      database.read.selectFrom('bodies').select(['size', 'content', 'file']).where('id', '=', id),
    );
  }

  /** Why the store does not belong to the database; mail cannot be stored then. */
  get mismatch(): string | undefined {
    return this.#mismatch;
  }

  /**
   * Checks whether the store belongs to the database, and logs what is wrong. Called before any mail is accepted.
   * A store on another machine that does not answer is asked again until it does.
   *
   * @param isNew whether the database is new: then a new store becomes its store
   * @returns what is wrong, in one line
   * @throws StoreUnavailable where the store refuses access at the start
   */
  async checkStore(isNew: boolean): Promise<string | undefined> {
    this.#isNew ||= isNew;
    if (this.#health) {
      const isStart = !this.#health.wasAsked;
      const away = await this.#health.look();
      if (away?.isRefusal && isStart) throw away;
    } else {
      await this.#compareIds();
    }
    return this.#mismatch;
  }

  async #compareIds(): Promise<void> {
    const mismatch = await findMismatch(this.#database, this.#store, this.#isNew);
    this.#isNew = false;
    if (mismatch && !this.#mismatch) this.#log?.error(mismatch);
    this.#mismatch = mismatch;
  }

  /**
   * Whether every body can be stored and read; `degraded` where only small ones can. No node is better off then,
   * so load balancers keep using all of them.
   */
  async readiness(): Promise<boolean | 'degraded'> {
    const answers = (await this.#health?.answers()) ?? true;
    if (this.#mismatch !== undefined) return false;
    return answers || 'degraded';
  }

  /** Whether a store on another machine answers; undefined for a folder. */
  get isUp(): boolean | undefined {
    return this.#health?.isUp;
  }

  /** Stores and removes nothing from now on: the folder was replaced. */
  refuse(reason: string): void {
    this.#mismatch = reason;
  }

  /** Closes the store; it is not used after that. */
  close(): void {
    this.#health?.close();
    this.#store.close();
  }

  /**
   * Reads a body to its end. Memory stays flat for any size; nothing is left on disk when the source fails.
   *
   * @param observe gets every chunk in order, before it is stored
   * @throws any error of the source or the disk (`ENOSPC`); Refusal unavailable, where the store does not
   *   accept it
   */
  async stage(
    source: AsyncIterable<Uint8Array>,
    observe: (chunk: Uint8Array) => void,
  ): Promise<StagedBody> {
    const held = new Gathered();
    let size = 0;
    let spill: NewBody | undefined;
    try {
      for await (const chunk of source) {
        observe(chunk);
        size += chunk.length;
        if (spill) await spill.write(chunk);
        else held.add(chunk);
        if (!spill && size > INLINE_MAX) {
          if (this.#mismatch || this.#health?.isUp === false) throw refuseToKeep();
          spill = await this.#store.create();
          await spill.write(held.take());
        }
      }
      if (!spill) return { size, content: held.take() };
      await spill.finish();
      return { size, content: Buffer.alloc(0), file: spill.name };
    } catch (error) {
      await spill?.abandon();
      if (!(error instanceof StoreUnavailable)) throw error;
      this.#health?.suspect(error);
      throw refuseToKeep();
    }
  }

  /**
   * Why a message of this size cannot be stored, by the free space of at most a second ago.
   *
   * @param octets the size of the message
   * @returns Refusal storage_full; unavailable where it is a large one and the store does not answer; undefined
   *   where there is room
   * @throws the file system's error
   */
  async checkRoom(octets: number): Promise<Refusal | undefined> {
    if (octets > INLINE_MAX && this.#health?.isUp === false) return refuseToKeep();
    const at = performance.now();
    if (at - this.#free.at >= FREE_BYTES_MS) this.#free = { at, bytes: this.#store.freeBytes() };
    const bytes = await this.#free.bytes;
    if (bytes >= FREE_BYTES_LEFT + octets) return undefined;
    return noSpace(new Error(`${bytes} bytes are free, ${FREE_BYTES_LEFT} of them are kept free`));
  }

  /**
   * Makes a staged body part of the transaction; returns its id.
   *
   * @throws Refusal unavailable, where the store does not belong to the database
   */
  async commit(tx: Queries, { size, content, file }: StagedBody): Promise<number> {
    if (this.#mismatch) throw new Refusal('unavailable', 'no mail can be kept right now');
    const inRow = content.length > 0 || file === undefined ? content : null;
    const row = await this.#insert.first(tx, { size, content: inRow, file: file ?? null });
    if (!row) throw new Error('a body was inserted but has no id');
    return row.id;
  }

  /** The place of a body, for {@link Bodies.read}; undefined where it does not exist, or was emptied. */
  async find(id: number): Promise<StoredBody | undefined> {
    const body = await this.#find.first(this.#database.read, { id });
    return body?.content || body?.file ? body : undefined;
  }

  /** The same for a body that must be there. @throws Error where it is gone */
  async get(id: number): Promise<StoredBody> {
    const body = await this.find(id);
    if (!body) throw new Error(`body ${id} is gone`);
    return body;
  }

  /** Removes the file of a staged body that no row refers to. */
  async discard({ file }: StagedBody): Promise<void> {
    if (file !== undefined) await this.removeFiles([file]);
  }

  /**
   * Streams a body, or the bytes of it in `range`. Its file is opened before the first piece is yielded.
   *
   * @param reuse reads every piece into the same memory: for a caller that is done with one piece before it asks
   *   for the next
   * @param about the owner of the source, for the log
   * @throws Refusal body_unavailable, where the file is missing or damaged; unavailable, where its store does not
   *   answer
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
    if (end <= inRow || !body.file) {
      if (body.content && start < end) yield body.content.subarray(start, end);
      return;
    }
    if (this.#health?.isUp === false) throw refuseToRead();
    const size = body.size - inRow;
    const wanted = { start: Math.max(start - inRow, 0), end: end - inRow, size, reuse };
    const pieces = this.#store.read(body.file, wanted);
    try {
      let next = await pieces.next();
      if (body.content && start < inRow) yield body.content.subarray(start, inRow);
      for (; !next.done; next = await pieces.next()) yield next.value;
    } catch (error) {
      throw await this.#explain(error, body.file, about);
    } finally {
      await pieces.return(undefined);
    }
  }

  /** The error that a reader gets for a file that cannot be read. */
  async #explain(error: unknown, file: string, about: object): Promise<unknown> {
    if (error instanceof StoreUnavailable) {
      this.#health?.suspect(error);
      return refuseToRead();
    }
    if (!(error instanceof BodyLost)) return error;
    const read = { ...about, store: this.#store.place, file };
    if (await this.#isNamed(file)) {
      this.#log?.error(
        read,
        `${error.message}: messages with this body cannot be read; restore the file from a backup`,
      );
    } else {
      this.#log?.info(
        read,
        'a body that no row names could not be read: its message was deleted meanwhile, or is not stored yet',
      );
    }
    return new Refusal('body_unavailable', 'the source of this message is missing or damaged', {
      cause: error,
    });
  }

  /** Whether a row names a file; also where the database does not answer. */
  async #isNamed(file: string): Promise<boolean> {
    const { read } = this.#database;
    const rows = read.selectFrom('bodies').select('id').where('file', '=', file).limit(1);
    return rows.execute().then(
      ({ length }) => length > 0,
      () => true,
    );
  }

  /**
   * Removes those of the given bodies that no message and no delivery refers to any more, within the transaction
   * that removed their references.
   *
   * @returns files to remove after the commit, by {@link Bodies.removeFiles}
   */
  async release(tx: Queries, ids: readonly number[]): Promise<string[]> {
    if (ids.length === 0) return [];
    if (this.#database.engine === 'postgres') {
      // Of two transactions that each remove one of the last two references, the second waits here, in the order
      // of the ids, and then sees the changes of the first.
      const held = tx.selectFrom('bodies').select('id').where('id', 'in', ids).orderBy('id');
      await held.forUpdate().execute();
    }
    const gone = await tx
      .deleteFrom('bodies')
      .where('id', 'in', ids)
      .where(isInNoMailbox)
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

  /**
   * Removes the octets of those of the given bodies that no message needs, and no delivery that is open or ended
   * later than `before`. Their rows stay for the deliveries that name them; {@link Bodies.find} no longer finds them.
   *
   * @returns files to remove after the commit, by {@link Bodies.removeFiles}
   */
  async empty(tx: Queries, ids: readonly number[], before: number): Promise<string[]> {
    if (ids.length === 0) return [];
    const held = tx.selectFrom('bodies').select(['id', 'file']).where('id', 'in', ids);
    const rows = await held
      .where(isInNoMailbox)
      .where(({ not, exists, selectFrom }) =>
        not(
          exists(
            selectFrom('deliveries')
              .select('body_id')
              .whereRef('deliveries.body_id', '=', 'bodies.id')
              .where(({ or, eb }) =>
                or([
                  eb('finished_at', 'is', null),
                  eb('finished_at', '>=', before),
                  eb('late_at', 'is not', null),
                ]),
              ),
          ),
        ),
      )
      .orderBy('id')
      .$if(this.#database.engine === 'postgres', (query) => query.forUpdate())
      .execute();
    const emptied = rows.map(({ id }) => id);
    if (emptied.length === 0) return [];
    const nothing = { content: null, file: null };
    await tx.updateTable('bodies').set(nothing).where('id', 'in', emptied).execute();
    return rows.flatMap(({ file }) => (file === null ? [] : [file]));
  }

  /** Removes files that {@link Bodies.release} returned. The sweep finds those that a failure leaves. */
  async removeFiles(files: readonly string[]): Promise<void> {
    if (files.length === 0 || this.#mismatch || this.#health?.isUp === false) return;
    try {
      await this.#store.remove(files);
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      this.#health?.suspect(error);
    }
  }

  /**
   * Moves files that no row names to quarantine, and removes files whose time in quarantine is over. Nothing is
   * moved where the store does not belong to the database, or does not answer.
   *
   * @param signal stops it early
   */
  async sweepFiles(signal: AbortSignal): Promise<Swept> {
    // Checked again: another folder may have been mounted here since the start.
    const isOurs = !(await this.checkStore(false)) && this.#health?.isUp !== false;
    if (!isOurs) return { quarantined: 0, restored: 0, removed: 0 };
    const swept = await sweepStore(this.#database, this.#store, this.#now(), signal);
    const { quarantined, restored, removed } = swept;
    const files = { store: this.#store.place, quarantined, restored, removed };
    if (quarantined + restored > 0) {
      this.#log?.warn(
        files,
        'body files without a message were moved to quarantine (kept for 7 days); files that have one again were moved back',
      );
    } else if (removed > 0) {
      this.#log?.info(files, 'body files were removed after 7 days in quarantine');
    }
    return swept;
  }
}

/** Throws an error on; where the disk is full, as the refusal storage_full. */
export function throwOrRefuse(error: unknown): never {
  throw isStorageFull(error) ? noSpace(error) : error;
}

function noSpace(cause: unknown): Refusal {
  return new Refusal('storage_full', 'there is no space left for this message', { cause });
}

/** A condition of queries on bodies: no message of any mailbox needs it. */
function isInNoMailbox({ not, exists, selectFrom }: ExpressionBuilder<Schema, 'bodies'>) {
  const messages = selectFrom('messages').select('body_id');
  return not(exists(messages.whereRef('messages.body_id', '=', 'bodies.id')));
}

function refuseToKeep(): Refusal {
  return new Refusal('unavailable', 'no mail above 64 KiB can be kept right now');
}

function refuseToRead(): Refusal {
  return new Refusal('unavailable', 'the source of this message cannot be read right now');
}
