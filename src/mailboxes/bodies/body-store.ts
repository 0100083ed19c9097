/**
 * Where large bodies are: one interface, and the rules that every store shares. `body-folder.ts` is a folder of
 * this machine, `body-bucket.ts` a bucket of an S3 server. Both use the same names:
 *     <xx>/<uuid>              a body, written once and never changed
 *     quarantine/<xx>/<uuid>   a body that no row of the database names any more
 *     store-id                 the id that the database has as well
 *     last-backup              when the last whole backup began, ISO 8601
 *     moved-up-to              while bodies are moved here: the id of the last row whose body is here
 *
 * A body that no row names any more goes to quarantine, and stays there for `BODY_KEEP_HOURS`. It is read there like
 * everywhere: a copy of the database that is older than a copy of the bodies, by at most these hours, has all bodies
 * that it names. When the hours are over, the database is asked once more. A body that a row names again (an older
 * database was restored) is moved back, the others are removed. After a crash at any point a body is in the one
 * place, or in the other, or in both.
 *
 * Bodies that a crash left without a row are swept into quarantine. Nothing is moved or removed unless store and
 * database belong together.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type Database, settingOf, settingStore } from '../../platform/database/database.ts';
import { fileErrorCode } from '../../platform/files/files.ts';
import { DAY_MS, type EpochMs } from '../../platform/time/time.ts';

export const QUARANTINE = 'quarantine';
/** A short text that is stored beside the bodies. */
export type Note = 'store-id' | 'moved-up-to' | 'last-backup';

const NAME = /^([0-9a-f]{2})\/\1[0-9a-f]{6}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Whether a name is one of a body; other files in a store are ignored. */
export function isBodyName(name: string): boolean {
  return NAME.test(name);
}

export function newBodyName(): string {
  const id = randomUUID();
  return `${id.slice(0, 2)}/${id}`;
}

/** A body on its way into a store. */
export interface NewBody {
  readonly name: string;
  write(chunk: Uint8Array): Promise<void>;
  /** Ends the body, which is durable when this returns. */
  finish(): Promise<void>;
  /** Best effort: the sweep finds a file that stays. */
  abandon(): Promise<void>;
}

/** The bytes of a body to read, and the size of the whole. */
export interface WantedBytes {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
  /** Bytes of the whole body, by the database. */
  readonly size: number;
}

/** Every method except {@link create} may be called for names that do not exist. */
export interface BodyStore {
  /** Its name for the operator: a path, or the URL of a bucket without its key. */
  readonly location: string;
  /** Whether it is on another machine. */
  readonly isRemote: boolean;
  /**
   * Begins a body, in a store that has a note.
   *
   * @param name of a body that is brought from another store; a new one when left out
   */
  create(name?: string): Promise<NewBody>;
  /**
   * Streams bytes of a body, also of one in quarantine.
   *
   * @throws BodyLost, StoreUnavailable, the file system's error
   */
  read(name: string, wanted: WantedBytes): AsyncGenerator<Uint8Array>;
  /** Removes bodies at once: those that no row ever named, or that are not to be kept. */
  remove(names: readonly string[]): Promise<void>;
  /** Bytes that are free on the disk which bodies are written to. */
  freeBytes(): Promise<number>;
  /** @returns `''` where it has no such note */
  readNote(note: Note): Promise<string>;
  /** Writes a note, the first one into a new store; a store id only where there is none, if the store supports this. */
  writeNote(note: Note, text: string): Promise<void>;
  removeNote(note: Note): Promise<void>;
  /** Whether no body was ever stored here; other files do not count. */
  isEmpty(): Promise<boolean>;
  /** Names of the bodies, without those in quarantine, in batches of at most 1,000. */
  list(): AsyncGenerator<string[]>;
  /** Names of the bodies that came to quarantine before a time, in milliseconds since 1970; in the same batches. */
  listQuarantined(before: number): AsyncGenerator<string[]>;
  /** Milliseconds since a body was written; undefined where it does not exist. */
  age(name: string, now: number): Promise<number | undefined>;
  /** Whether a body can be read, in quarantine or not. */
  has(name: string): Promise<boolean>;
  /** Moves bodies to quarantine, where their time begins `now`. @returns how many there were */
  quarantine(names: readonly string[], now: number): Promise<number>;
  /** Moves a body back from quarantine. @returns false where it is not in quarantine */
  restore(name: string): Promise<boolean>;
  removeQuarantined(names: readonly string[]): Promise<void>;
  /** Removes unfinished things, other than bodies, that were begun before a time. */
  sweepUnfinished(before: number): Promise<void>;
  close(): void;
}

/** A body that does not exist, or is not what was stored. */
export class BodyLost extends Error {
  override readonly name = 'BodyLost';
}

export const isLost = (error: unknown): boolean => error instanceof BodyLost;

/** A store that does not do what it is asked to. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';
  /** Whether it refused, so that a retry is useless until somebody acts. */
  readonly isRefusal: boolean;

  /** @param message one line without secrets, for the operator */
  constructor(message: string, isRefusal = false) {
    super(message);
    this.isRefusal = isRefusal;
  }
}

/** Codes of a folder that may not be used, whose mount is gone, or whose disk fails. */
const FOLDER_FAILS = /^(?:EACCES|EIO|ENODEV|ENOENT|ENOTCONN|ENOTDIR|ENXIO|EPERM|EROFS|ESTALE)$/;

/** What a store cannot do until somebody acts, a folder of this machine as well; undefined for any other error. */
export function asUnavailable(error: unknown): StoreUnavailable | undefined {
  if (error instanceof StoreUnavailable) return error;
  if (!(error instanceof Error)) return undefined;
  const { syscall, message }: NodeJS.ErrnoException = error;
  // A database that is away has them, too: its socket is no file then, or a firewall forbids the connection.
  const isFolder = syscall !== 'connect' && FOLDER_FAILS.test(fileErrorCode(error) ?? '');
  return isFolder ? new StoreUnavailable(message, true) : undefined;
}

/**
 * Keeps a body of one octet, and removes it: what can be read may not take anything.
 *
 * @throws StoreUnavailable, the file system's error
 */
export async function tryToKeep(store: BodyStore): Promise<void> {
  const body = await store.create();
  try {
    await body.write(Buffer.of(0));
    await body.finish();
  } catch (error) {
    await body.abandon();
    throw error;
  }
  await store.remove([body.name]);
}

/*
 * Whether a database and a store of bodies belong together.
 *
 * Both have the same store id, made at the first start: the database in `settings`, the store in `store-id`. A
 * store beside the wrong database has bodies that no row names but that are mail all the same, so nothing is
 * removed unless the ids are equal.
 */

const STORE_ID = 'store_id';

/** The id of the database; undefined where it has none. */
export function storeIdOf(database: Pick<Database, 'read'>): Promise<string | undefined> {
  return settingOf(database, STORE_ID);
}

/** The id of the database; one without an id gets a new one. */
export async function databaseStoreId(database: Database): Promise<string> {
  const setting = settingStore(database, STORE_ID);
  return (await setting.read()) ?? (await setting.create(randomUUID()));
}

/**
 * Compares the two ids. A store without one gets the database's id where both are new.
 *
 * @param isNew whether nothing was set up in the database yet
 * @returns what is wrong and what to do about it, in one line; undefined where the ids are equal
 */
export async function findMismatch(
  database: Database,
  store: BodyStore,
  isNew: boolean,
): Promise<string | undefined> {
  const ours = await databaseStoreId(database);
  let theirs = await store.readNote('store-id');
  if (theirs === '' && isNew && (await store.isEmpty())) {
    await store.writeNote('store-id', ours);
    theirs = await store.readNote('store-id');
  }
  const mismatch = compareStoreIds(ours, theirs, store.location);
  return mismatch && `${mismatch.found}. ${mismatch.advice}`;
}

/**
 * @param theirs id of the store at `location`; `''` where it has none
 * @returns undefined where the two are equal
 */
export function compareStoreIds(
  ours: string,
  theirs: string,
  location: string,
): { readonly found: string; readonly advice: string } | undefined {
  if (theirs === ours) return undefined;
  const whose = theirs === '' ? 'have no store-id' : `belong to store ${theirs}`;
  return {
    found:
      `the database belongs to store ${ours}, but the bodies in ${location} ${whose}: they do not belong together, ` +
      'so no mail is accepted and no body is removed',
    advice:
      'Stop the service, correct DATA_DIR, DATABASE_URL or S3_URL, and start it. ' +
      `Only if database and bodies are the right ones: write ${ours} to ${location}/store-id, and start`,
  };
}

/**
 * Bodies younger than this are kept: their message may be about to be committed, here or on another node. No
 * message takes that long.
 */
const SWEEP_MIN_AGE_MS = DAY_MS;

/** Milliseconds between batches: a sweep of millions runs beside everything else. */
const PAUSE_MS = 5;

export interface Sweep {
  readonly database: Database;
  /** The caller has verified that it belongs to the database. */
  readonly store: BodyStore;
  /** Ends it early. */
  readonly signal: AbortSignal;
}

/**
 * Moves bodies to quarantine that no row names, though nobody said so: a crash between the commit and the move leaves
 * them, or one after a body was written and before its commit.
 *
 * @returns how many it moved
 */
export async function sweepOrphans(
  { database, store, signal }: Sweep,
  now: EpochMs,
): Promise<number> {
  let moved = 0;
  for await (const names of store.list()) {
    if (signal.aborted) return moved;
    const orphans: string[] = [];
    const named = await findNamed(database, names);
    for (const name of names) {
      const isOld = !named.has(name) && ((await store.age(name, now)) ?? 0) >= SWEEP_MIN_AGE_MS;
      if (isOld) orphans.push(name);
    }
    moved += await store.quarantine(orphans, now);
    await pause(PAUSE_MS);
  }
  await store.sweepUnfinished(now - SWEEP_MIN_AGE_MS);
  return moved;
}

/**
 * Removes the bodies that came to quarantine before a time, and moves those back that a row names again.
 */
export async function sweepQuarantine(
  { database, store, signal }: Sweep,
  before: EpochMs,
): Promise<{ restored: number; removed: number }> {
  const swept = { restored: 0, removed: 0 };
  for await (const names of store.listQuarantined(before)) {
    if (signal.aborted) return swept;
    const named = await findNamed(database, names);
    const unnamed = names.filter((name) => !named.has(name));
    await store.removeQuarantined(unnamed);
    swept.removed += unnamed.length;
    for (const name of names) {
      if (named.has(name)) swept.restored += Number(await store.restore(name));
    }
    await pause(PAUSE_MS);
  }
  return swept;
}

/** Which of these bodies a row names. */
async function findNamed(
  { read }: Database,
  names: readonly string[],
): Promise<Set<string | null>> {
  // A page of a bucket may have only objects that are no bodies, and PostgreSQL accepts no empty list.
  if (names.length === 0) return new Set();
  const rows = await read.selectFrom('bodies').select('file').where('file', 'in', names).execute();
  return new Set(rows.map(({ file }) => file));
}

/**
 * When the last whole backup began, as noted in the store; undefined where none was noted.
 *
 * @throws StoreUnavailable, the file system's error
 */
export async function readLastBackup(
  store: Pick<BodyStore, 'readNote'>,
): Promise<EpochMs | undefined> {
  const at = Date.parse(await store.readNote('last-backup'));
  return Number.isNaN(at) ? undefined : at;
}
