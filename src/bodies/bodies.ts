/**
 * Message bodies: the source of a message exactly as received, shared by all mailboxes that hold it.
 *
 * A small body lies in its row (`bodies.content`), so that it is durable with the transaction that
 * refers to it. A large one is a file in a store (`body-store.ts`: a folder, or a bucket of an S3 server)
 * that is durable there before the row that names it is committed (`bodies.file`), but for the first lines
 * of its header, which may be in the row. A crash in between leaves a file that no row names;
 * {@link Bodies.sweepFiles} moves it to quarantine. Database and store have the same store id: where they
 * differ, nothing is taken and nothing removed. Whoever removes messages or deliveries releases their
 * bodies in the same transaction ({@link Bodies.release}), so that no row is left that nobody names.
 *
 * A store on another machine may be away. While it is, large bodies are neither taken nor read, and
 * whoever asks is told so at once; it is asked every {@link LOOK_MS} whether it is back.
 */

import { Buffer } from 'node:buffer';
import type { ExpressionBuilder } from 'kysely';
import type { Logger } from 'pino';
import {
  type Database,
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
export { BodyLost, type BodyStore, databaseStoreId, StoreUnavailable } from './body-store.ts';
export { Gathered } from './gathered.ts';
export {
  type LargeBody,
  listLargeBodies,
  type Moved,
  MoveRefused,
  moveBodies,
} from './move-bodies.ts';

/**
 * Octets up to which a body lies in the row, besides header lines that are put in front of it: one
 * fsync stores it, and one query reads it.
 */
const INLINE_MAX = 64 * 1024;
/**
 * Octets of the disk that stay free of mail, so that what was taken before can still be read, marked,
 * removed and delivered.
 */
export const FREE_BYTES_LEFT = 64 * 1024 * 1024;
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

/**
 * Opens where large bodies are: a bucket where one is given, else a folder.
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
  /** Where the large ones are. */
  readonly store: BodyStore;
  readonly log?: Pick<Logger, 'info' | 'warn' | 'error'> | undefined;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

export class Bodies {
  readonly #database: Database;
  readonly #store: BodyStore;
  /** Of a store on another machine. */
  readonly #health: StoreHealth | undefined;
  readonly #log: BodiesOptions['log'];
  readonly #now: () => number;
  #mismatch: string | undefined;
  /** Whether a store that is empty may become the database's. */
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

  /** What is wrong where the store is not the database's; mail cannot be kept then. */
  get mismatch(): string | undefined {
    return this.#mismatch;
  }

  /**
   * Looks whether the store is the database's, and logs what is wrong; asked before any mail is taken. A
   * store on another machine that does not answer is asked again until it does.
   *
   * @param isNew whether nothing has been set up in the database yet: a new store becomes its store
   * @returns what is wrong, in one line
   * @throws StoreUnavailable where the store refuses to be opened at the start
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
   * Whether every body can be kept and read, for all that is known; `degraded` where small ones alone can. No
   * node is better off then: load balancers go on with all of them.
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

  /** Takes and removes nothing from now on: the folder is not where it was. */
  refuse(reason: string): void {
    this.#mismatch = reason;
  }

  /** Lets go of the store; nothing is asked of it from then on. */
  close(): void {
    this.#health?.close();
    this.#store.close();
  }

  /**
   * Reads a body to its end. Memory stays flat whatever the size; nothing is left on disk when the
   * source fails.
   *
   * @param observe sees every chunk in order, before it is kept
   * @throws whatever the source or the disk throws (`ENOSPC`); Refusal unavailable, where the store does
   *   not take it
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
   * Why a message of so many octets cannot be kept, by what was free at most a second ago.
   *
   * @returns Refusal storage_full; unavailable where it is a large one and the store is away; undefined
   *   where there is room
   * @throws the file system's error
   */
  async checkRoom(octets: number): Promise<Refusal | undefined> {
    if (octets > INLINE_MAX && this.#health?.isUp === false) return refuseToKeep();
    const at = performance.now();
    if (at - this.#free.at >= FREE_BYTES_MS) this.#free = { at, bytes: this.#store.freeBytes() };
    const bytes = await this.#free.bytes;
    if (bytes >= FREE_BYTES_LEFT + octets) return undefined;
    const cause = new Error(`${bytes} bytes are free, ${FREE_BYTES_LEFT} of them are kept free`);
    return new Refusal('storage_full', 'there is no space left for this message', { cause });
  }

  /**
   * Makes a staged body part of the transaction; answers its id.
   *
   * @throws Refusal unavailable, where the store is not the database's
   */
  async commit(tx: Queries, { size, content, file }: StagedBody): Promise<number> {
    if (this.#mismatch) throw new Refusal('unavailable', 'no mail can be kept right now');
    const inRow = content.length > 0 || file === undefined ? content : null;
    const row = await this.#insert.first(tx, { size, content: inRow, file: file ?? null });
    if (!row) throw new Error('a body was inserted but has no id');
    return row.id;
  }

  /** Where a body lies, for {@link Bodies.read}; undefined where it is gone, or was emptied. */
  async find(id: number): Promise<StoredBody | undefined> {
    const body = await this.#find.first(this.#database.read, { id });
    return body?.content || body?.file ? body : undefined;
  }

  /** Gives up a staged body that nothing came to refer to. */
  async discard({ file }: StagedBody): Promise<void> {
    if (file !== undefined) await this.removeFiles([file]);
  }

  /**
   * Streams a body, or the bytes of it that lie in `range`. Its file is opened before the first piece is
   * given.
   *
   * @param reuse reads every piece into the same memory: for whoever is done with one before asking
   *   for the next
   * @param about whose source it is, for the log
   * @throws Refusal body_unavailable, where the file is gone or damaged; unavailable, where its store is away
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
      throw this.#explain(error, body.file, about);
    } finally {
      await pieces.return(undefined);
    }
  }

  /** What a reader is told of a file that cannot be read. */
  #explain(error: unknown, file: string, about: object): unknown {
    if (error instanceof StoreUnavailable) {
      this.#health?.suspect(error);
      return refuseToRead();
    }
    if (!(error instanceof BodyLost)) return error;
    this.#log?.error(
      { ...about, store: this.#store.place, file },
      `${error.message}: messages with this body cannot be read; restore the file from a backup`,
    );
    return new Refusal('body_unavailable', 'the source of this message is missing or damaged', {
      cause: error,
    });
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
   * Takes the octets away from those of the given bodies that no message needs, and no delivery that goes on or ended
   * later than `before`. Their rows stay for the deliveries that name them, and {@link Bodies.find} finds them no more.
   *
   * @returns files to remove once the transaction is committed, by {@link Bodies.removeFiles}
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

  /** Removes files that {@link Bodies.release} named. Those that stay are found by the sweep. */
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
   * Moves files that no row names to quarantine, and removes what was there for its time. Nothing is
   * moved where the store is not the database's, or does not answer.
   *
   * @param signal ends it early
   */
  async sweepFiles(signal: AbortSignal): Promise<Swept> {
    // Asked again: another folder may have been mounted here since the start.
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

/** A condition of queries on bodies: no message of a mailbox needs it. */
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
