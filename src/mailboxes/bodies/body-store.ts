/**
 * Where large bodies are: one interface, and the rules that every store shares. `body-folder.ts` is a folder of
 * this machine, `body-bucket.ts` a bucket of an S3 server. Both use the same names:
 *     <xx>/<uuid>              a body, written once and never changed
 *     quarantine/<xx>/<uuid>   a body that no row of the database named when the sweep checked it
 *     store-id                 the id that the database has as well
 *     moved-up-to              while bodies are moved here: the id of the last row whose body is here
 *
 * A body that no row names is not removed at once: it goes to quarantine, and is removed after
 * {@link QUARANTINED_MS}. If a row names a body in quarantine (a newer database was restored), the body is moved
 * back when it is read, or by the next sweep. Bodies that a crash left without a row are swept only while store and
 * database belong together.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type Database, settingOf, settingStore } from '../database/database.ts';

/** How long a body stays in quarantine, in milliseconds. */
export const QUARANTINED_MS = 7 * 86_400_000;

export const QUARANTINE = 'quarantine';
/** A short text that is stored beside the bodies. */
export type Note = 'store-id' | 'moved-up-to';

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

/** The octets of a body to read, and the size of the whole. */
export interface WantedBytes {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
  /** Octets of the whole body, by the database. */
  readonly size: number;
  /** Reads every piece into the same memory where it can. */
  readonly reuse: boolean;
}

/** Every method except {@link create} may be called for names that do not exist. */
export interface BodyStore {
  /** Its name for the operator: a path, or the URL of a bucket without its key. */
  readonly place: string;
  /** Whether it may be unreachable for a while: then it is tested now and then. */
  readonly isRemote: boolean;
  /**
   * Begins a body, in a store that has a note.
   *
   * @param name of a body that is brought from another store; a new one when left out
   */
  create(name?: string): Promise<NewBody>;
  /**
   * Streams octets of a body. A body in quarantine is moved back first.
   *
   * @throws BodyLost, StoreUnavailable, the file system's error
   */
  read(name: string, wanted: WantedBytes): AsyncGenerator<Uint8Array>;
  /** Removes bodies that nothing refers to any more. */
  remove(names: readonly string[]): Promise<void>;
  /** Octets that are free on the disk which bodies are written to. */
  freeBytes(): Promise<number>;
  /** @returns `''` where it has no such note */
  readNote(note: Note): Promise<string>;
  /** Writes a note, the first one into a new store; a store id only where there is none, if the store supports this. */
  writeNote(note: Note, text: string): Promise<void>;
  removeNote(note: Note): Promise<void>;
  /** Whether no body was ever stored here; other files do not count. */
  isEmpty(): Promise<boolean>;
  /** Names of the bodies, or of those in quarantine, in batches of at most 1,000. */
  list(from: 'bodies' | 'quarantine'): AsyncGenerator<string[]>;
  /** Milliseconds since a body was written; undefined where it does not exist. */
  age(name: string, now: number): Promise<number | undefined>;
  /** Moves a body to quarantine; its time there begins `now`. @returns false where it does not exist */
  quarantine(name: string, now: number): Promise<boolean>;
  /** Moves a body back from quarantine. @returns false where it is not in quarantine */
  restore(name: string): Promise<boolean>;
  /** Removes a body from quarantine if its time there is over. */
  expire(name: string, now: number): Promise<boolean>;
  /** Removes unfinished things, other than bodies, that were begun before a time. */
  sweepUnfinished(before: number): Promise<void>;
  close(): void;
}

/** A body that does not exist, or is not what was stored. */
export class BodyLost extends Error {
  override readonly name = 'BodyLost';
}

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
  const mismatch = compareStoreIds(ours, theirs, store.place);
  return mismatch && `${mismatch.found}. ${mismatch.advice}`;
}

/**
 * @param theirs id of the store at `place`; `''` where it has none
 * @returns undefined where the two are equal
 */
export function compareStoreIds(
  ours: string,
  theirs: string,
  place: string,
): { readonly found: string; readonly advice: string } | undefined {
  if (theirs === ours) return undefined;
  const whose = theirs === '' ? 'have no store-id' : `belong to store ${theirs}`;
  return {
    found:
      `the database belongs to store ${ours}, but the bodies in ${place} ${whose}: they do not belong together, ` +
      'so no mail is accepted and no body is removed',
    advice:
      'Stop the service, correct DATA_DIR, DATABASE_URL or S3_URL, and start it. ' +
      `Only if database and bodies are the right ones: write ${ours} to ${place}/store-id, and start`,
  };
}

/* Removes bodies that no row names: a crash after a body was written and before its commit leaves them. */

/**
 * Bodies younger than this are kept: their message may be about to be committed, here or on another node. No
 * message takes that long.
 */
const SPARED_MS = 86_400_000;

/** Milliseconds between batches: a sweep of millions runs beside everything else. */
const PAUSE_MS = 5;

export interface Swept {
  /** Bodies that no row names, moved to quarantine. */
  quarantined: number;
  /** Bodies in quarantine that a row names, moved back. */
  restored: number;
  /** Bodies whose time in quarantine was over. */
  removed: number;
}

/**
 * Checks all bodies once. The caller has verified that the store belongs to the database.
 *
 * @param signal stops it early
 */
export async function sweepStore(
  database: Database,
  store: BodyStore,
  now: number,
  signal: AbortSignal,
): Promise<Swept> {
  const swept = { quarantined: 0, restored: 0, removed: 0 };
  for await (const names of store.list('quarantine')) {
    if (signal.aborted) return swept;
    const named = await findNamed(database, names);
    for (const name of names) {
      if (!named.has(name)) swept.removed += Number(await store.expire(name, now));
      else swept.restored += Number(await store.restore(name));
    }
    await pause(PAUSE_MS);
  }
  for await (const names of store.list('bodies')) {
    if (signal.aborted) return swept;
    const named = await findNamed(database, names);
    for (const name of names) {
      if (named.has(name) || ((await store.age(name, now)) ?? 0) < SPARED_MS) continue;
      swept.quarantined += Number(await store.quarantine(name, now));
    }
    await pause(PAUSE_MS);
  }
  await store.sweepUnfinished(now - SPARED_MS);
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
