/**
 * Message bodies: the source of a message exactly as received, shared by all mailboxes that hold it.
 *
 * A small body is in its row (`bodies.content`), so that it is durable with the transaction that refers to it. A
 * large one is a file in a store (`body-store.ts`: a folder, or a bucket of an S3 server) that is durable there
 * before the row that names it is committed (`bodies.file`); only the first lines of its header may be in the
 * row. A crash in between leaves a file that no row names; {@link BodyFiles.sweep} finds it. A file that no row
 * names any more stays for `BODY_KEEP_HOURS`, so that a copy of the database and a later copy of the files fit together.
 * Database and store have the same store id: where the ids differ, nothing is accepted and nothing removed. A transaction
 * that removes messages or deliveries also releases their bodies ({@link Bodies.release}): each is still in use.
 *
 * A store may be unreachable, and a folder may not be writable. Then large bodies are neither stored nor read, or not
 * stored, and callers get an error at once; a request tests again and again whether it answers (`store-health.ts`).
 */

import { Buffer } from 'node:buffer';
import type { Logger } from 'pino';
import type { Database, NewRow, Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { type EpochMs, HOUR_MS } from '../../platform/time/time.ts';
import { BodyFiles } from './body-files.ts';
import {
  type ByteRange,
  bodiesById,
  bodyById,
  emptyRows,
  GrowingBuffer,
  insertBody,
  isNamed,
  releaseRows,
  rowOf,
  type StagedBody,
  type StoredBody,
} from './body-rows.ts';
import {
  asUnavailable,
  BodyLost,
  type BodyStore,
  findMismatch,
  type NewBody,
  readLastBackup,
  tryToKeep,
} from './body-store.ts';
import { DiskRoom, FREE_BYTES_LEFT, noSpace } from './disk-room.ts';
import { refuseToKeep, refuseToRead, StoreHealth } from './store-health.ts';

export type { BucketAddress } from './body-bucket.ts';
export { BodyFolder } from './body-folder.ts';
export type { ByteRange, StagedBody, StoredBody } from './body-rows.ts';
export { bodyColumns, GrowingBuffer, prependBody } from './body-rows.ts';
export {
  BodyLost,
  type BodyStore,
  compareStoreIds,
  databaseStoreId,
  isLost,
  StoreUnavailable,
  storeIdOf,
  tryToKeep,
} from './body-store.ts';
export { FREE_BYTES_LEFT, throwOrRefuse } from './disk-room.ts';
export {
  copyBodies,
  type LargeBody,
  MoveRefused,
  moveBodies,
  readLargeBodies,
  switchStores,
} from './move-bodies.ts';
export { openBodyStore } from './open-body-store.ts';

/** Bytes up to which a body is in its row, without header lines put in front: one fsync stores it, one query reads it. */
export const INLINE_MAX = 64 * 1024;

export interface BodiesOptions {
  readonly database: Database;
  /** The store of the large ones. */
  readonly store: BodyStore;
  /** Free bytes of the disk of an SQLite database: there, each message needs some, too. */
  readonly databaseBytes?: (() => Promise<number>) | undefined;
  /** How long a file stays after nothing names it any more; 0: it is removed at once. */
  readonly keepHours?: number;
  readonly log?: Pick<Logger, 'info' | 'warn' | 'error'> | undefined;
  readonly now?: () => EpochMs;
}

export class Bodies {
  readonly files: BodyFiles;
  readonly #database: Database;
  readonly #store: BodyStore;
  readonly #health: StoreHealth;
  readonly #log: BodiesOptions['log'];
  #mismatch: string | undefined;
  /** Whether an empty store may become the store of this database. */
  #isNew = false;
  /** Whether another node may be about to mark the store, so that a difference is no error yet. */
  #isAwaited = false;
  readonly #room: DiskRoom;
  /** Bytes up to which a message needs no disk of this machine: those that PostgreSQL keeps in a row. */
  readonly #withoutDisk: number;

  constructor(options: BodiesOptions) {
    const { database, store, databaseBytes, keepHours = 48, log, now = Date.now } = options;
    this.#database = database;
    this.#store = store;
    this.#health = new StoreHealth({ test: () => this.#test(), log });
    const isElsewhere = database.engine === 'postgres';
    this.#withoutDisk = isElsewhere ? INLINE_MAX : -1;
    const deferred = isElsewhere ? 'mail above 64 KiB' : 'mail';
    const freeBytes = async () =>
      Math.min(await store.freeBytes(), (await databaseBytes?.()) ?? Number.POSITIVE_INFINITY);
    this.#room = new DiskRoom({ freeBytes, deferred, log });
    this.#log = log;
    this.files = new BodyFiles({
      ...{ database, store, log, now, keepMs: keepHours * HOUR_MS },
      // Before a sweep: another folder may have been mounted here since the start.
      isOurs: async () => !(await this.checkStore(false)) && this.#health.isUp,
      whileUp: (act) => this.#whileUp(act),
    });
  }

  /** Why the store does not belong to the database; mail cannot be stored then. */
  get mismatch(): string | undefined {
    return this.#mismatch;
  }

  /**
   * Checks whether the store belongs to the database, and logs what is wrong. Called before any mail is accepted.
   * A store that does not answer is asked again until it does.
   *
   * @param isNew whether the database is new: then a new store becomes its store
   * @param isAwaited whether another node may be about to mark the store: what is wrong is not logged then
   * @returns what is wrong, in one line
   * @throws StoreUnavailable where the store refuses access at the start
   */
  async checkStore(isNew: boolean, isAwaited = false): Promise<string | undefined> {
    this.#isNew ||= isNew;
    this.#isAwaited = isAwaited;
    const isStart = !this.#health.wasAsked;
    const away = await this.#health.test().finally(() => {
      this.#isAwaited = false;
    });
    if (away?.isRefusal && isStart) throw away;
    return this.#mismatch;
  }

  async #test(): Promise<void> {
    await this.#compareIds();
    // Another's store is left as it is. A bucket that took an octet may refuse more: one more octet ends no such outage.
    const { tookTrial, isRefusing } = this.#health;
    const isDue = !tookTrial || (isRefusing && !this.#store.isRemote);
    if (isDue && !this.#mismatch) await this.#health.tried(tryToKeep(this.#store));
  }

  async #compareIds(): Promise<void> {
    const mismatch = await findMismatch(this.#database, this.#store, this.#isNew);
    this.#isNew = false;
    if (!this.#isAwaited) {
      if (mismatch && !this.#mismatch) this.#log?.error(mismatch);
      if (!mismatch && this.#mismatch) this.#log?.info('database and bodies belong together again');
    }
    this.#mismatch = mismatch;
  }

  /**
   * Whether every body can be stored and read; `degraded` where only small ones can. No node is better off then,
   * so load balancers keep using all of them.
   */
  async readiness(): Promise<boolean | 'degraded'> {
    const answers = await this.#health.answers();
    if (this.#mismatch !== undefined) return false;
    // A bucket is asked for a body alone: one failure of a minute would be told until the next large message.
    return (answers && (this.#store.isRemote || !this.#health.isRefusing)) || 'degraded';
  }

  /** Whether a bucket answers; whether a folder takes bodies. */
  async isUp(): Promise<boolean> {
    return this.#store.isRemote ? this.#health.isUp : (await this.readiness()) === true;
  }

  /** As {@link readLastBackup}. */
  readonly lastBackupAt = (): Promise<EpochMs | undefined> => readLastBackup(this.#store);

  /** Whether the disk of this machine is full, so that mail that needs it is deferred; false where it cannot be told. */
  async isDiskFull(): Promise<boolean> {
    const said = this.#room.isFull().catch((error: unknown) => this.#tell(error, 'refused'));
    return (await said) ?? false;
  }

  /** Stores and removes nothing from now on: the folder was replaced. */
  refuse(reason: string): void {
    this.#mismatch = reason;
  }

  /** Closes the store; it is not used after that. */
  close(): void {
    this.#health.close();
    this.#store.close();
  }

  /**
   * Reads a body to its end. Memory stays flat for any size; nothing is left on disk when the source fails.
   *
   * @param observe gets every chunk in order, before it is stored
   * @throws any error of the source; `ENOSPC`; Refusal storage_full, or unavailable where the store does not take it
   */
  async stage(
    source: AsyncIterable<Uint8Array>,
    observe: (chunk: Uint8Array) => void,
  ): Promise<StagedBody> {
    // A file gets pieces of this size: a client that sends single bytes would make a call to the disk for each.
    const held = new GrowingBuffer();
    let size = 0;
    let spill: NewBody | undefined;
    try {
      for await (const chunk of source) {
        observe(chunk);
        size += chunk.length;
        held.add(chunk);
        if (held.size <= INLINE_MAX) continue;
        spill ??= await this.#create(size);
        await spill.write(held.take());
      }
      if (!spill) return { size, content: held.take() };
      if (held.size > 0) await spill.write(held.take());
      await spill.finish();
      this.#health.accepted();
      return { size, content: Buffer.alloc(0), file: spill.name };
    } catch (error) {
      await spill?.abandon();
      this.#tell(error, 'refused');
      throw refuseToKeep();
    }
  }

  /** Begins a file, for a body of at least so many octets: the client may not have said how large it is. */
  async #create(octets: number): Promise<NewBody> {
    if (this.#mismatch || !this.#health.isUp) throw refuseToKeep();
    const noRoom = await this.checkRoom(octets);
    if (noRoom) throw noRoom;
    return this.#store.create();
  }

  /**
   * Why a message of this size cannot be stored, by the free space of at most a second ago.
   *
   * @param octets the size of the message
   * @returns Refusal storage_full, or unavailable where the store does not answer; undefined where there is room
   */
  async checkRoom(octets: number): Promise<Refusal | undefined> {
    if (octets > INLINE_MAX && !this.#health.isUp) return refuseToKeep();
    if (octets <= this.#withoutDisk) return undefined;
    const bytes = await this.#room.free().catch((error: unknown) => this.#tell(error, 'refused'));
    // A small one is in a row: its database says whether it has room.
    if (bytes === undefined) return octets > INLINE_MAX ? refuseToKeep() : undefined;
    if (bytes >= FREE_BYTES_LEFT + octets) return undefined;
    return noSpace(new Error(`${bytes} bytes are free, ${FREE_BYTES_LEFT} of them are kept free`));
  }

  /**
   * Makes a staged body part of the transaction; returns its id.
   *
   * @throws Refusal unavailable, where the store does not belong to the database
   */
  async commit(tx: Queries, body: StagedBody): Promise<number> {
    const row = await insertBody.first(tx, this.rowOf(body));
    if (!row) throw new Error('a body was inserted but has no id');
    return row.id;
  }

  /** The row of a staged body. @throws Refusal unavailable, as {@link Bodies.commit} does */
  rowOf(body: StagedBody): NewRow<'bodies'> {
    if (this.#mismatch) throw new Refusal('unavailable', 'no mail can be kept right now');
    return rowOf(body);
  }

  /** Where a body is, for {@link Bodies.read}; undefined where it does not exist, or was emptied. */
  async find(id: number): Promise<StoredBody | undefined> {
    const body = await bodyById.first(this.#database.read, { id });
    return body?.content || body?.file ? body : undefined;
  }

  /** The same for many, by id. Bytes that lie in rows come with them: as many bodies as fit into memory. */
  async findMany(ids: readonly number[]): Promise<Map<number, StoredBody>> {
    if (ids.length === 0) return new Map();
    const rows = await bodiesById.all(this.#database.read, { ids: JSON.stringify(ids) });
    const found = rows.filter(({ content, file }) => content || file);
    return new Map(found.map(({ id, ...body }) => [id, body]));
  }

  /** The same for a body that must be there. @throws Error where it is gone */
  async get(id: number): Promise<StoredBody> {
    const body = await this.find(id);
    if (!body) throw new Error(`body ${id} is gone`);
    return body;
  }

  /** Removes the file of a staged body that no row ever named: no copy of the database needs it. */
  async discard({ file }: StagedBody): Promise<void> {
    if (file !== undefined) await this.#whileUp(() => this.#store.remove([file]));
  }

  /**
   * Streams a body, or the bytes of it in `range`. Its file is opened before the first piece is yielded.
   *
   * @param about the owner of the source, for the log
   * @throws Refusal body_unavailable, where the file is missing or damaged; unavailable, where its store does not
   *   answer
   */
  async *read(
    body: StoredBody | StagedBody,
    range?: ByteRange,
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
    if (!this.#health.isUp) throw refuseToRead();
    const size = body.size - inRow;
    const wanted = { start: Math.max(start - inRow, 0), end: end - inRow, size };
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
    const away = asUnavailable(error);
    if (away) {
      this.#health.suspect(away);
      return refuseToRead();
    }
    if (!(error instanceof BodyLost)) return error;
    const read = { ...about, store: this.#store.location, file };
    if (await isNamed(this.#database.read, file)) {
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

  /**
   * Removes those of the given bodies that no message and no delivery refers to any more, within the transaction
   * that removed their references.
   *
   * @returns files for {@link Bodies.removeFiles}, after the commit
   */
  release(tx: Queries, ids: readonly number[]): Promise<string[]> {
    return releaseRows(tx, this.#database.engine, ids);
  }

  /**
   * Removes the bytes of those of the given bodies that no message needs, and no delivery that is open or ended
   * later than `before`. Their rows stay for the deliveries that name them; {@link Bodies.find} no longer finds them.
   *
   * @returns files for {@link Bodies.removeFiles}, after the commit
   */
  empty(tx: Queries, ids: readonly number[], before: number): Promise<string[]> {
    return emptyRows(tx, ids, before);
  }

  /** Removes files that {@link Bodies.release} returned, as {@link BodyFiles.remove}. */
  removeFiles(files: readonly string[]): Promise<void> {
    return this.files.remove(files);
  }

  async #whileUp(act: () => Promise<unknown>): Promise<void> {
    if (this.#mismatch || !this.#health.isUp) return;
    await act().catch((error: unknown) => this.#tell(error, 'suspect'));
  }

  /** Tells a failure of the store to its health. @throws any other error */
  #tell(error: unknown, as: 'refused' | 'suspect'): void {
    const away = asUnavailable(error);
    if (!away) throw error;
    this.#health[as](away);
  }
}
