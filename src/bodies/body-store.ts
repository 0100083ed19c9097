/**
 * Where large bodies lie: one interface, and the rules that every store of them shares. `body-folder.ts`
 * is a folder of this machine, `body-bucket.ts` a bucket of an S3 server. Both use the same names:
 *
 *     <xx>/<uuid>              a body, written once and never changed
 *     quarantine/<xx>/<uuid>   a body that no row of the database named when it was looked for
 *     store-id                 the id that the database has as well
 *     moved-up-to              while bodies are brought here: the id of the last row whose body is here
 *
 * A body that no row names is not removed at once: it goes to quarantine, and from there after
 * {@link QUARANTINED_MS}. A row that names a body in quarantine (a newer database was put back) gets it
 * back when the body is read or swept over. Bodies that a crash left unnamed are swept, as long as store
 * and database belong together.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type Database, settingStore } from '../database/database.ts';

/** How long a body stays in quarantine, in milliseconds. */
export const QUARANTINED_MS = 7 * 86_400_000;

export const QUARANTINE = 'quarantine';
/** A short text beside the bodies. */
export type Note = 'store-id' | 'moved-up-to';

const NAME = /^([0-9a-f]{2})\/\1[0-9a-f]{6}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Whether a name is one of a body; whatever else lies in a store is nobody's business here. */
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
  /** Ends the body; it is durable when this returns. */
  finish(): Promise<void>;
  /** Best effort: the sweep finds what stays. */
  abandon(): Promise<void>;
}

/** Which octets of a body to read, and how many it has. */
export interface WantedBytes {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
  /** Octets of the whole body, as the database says. */
  readonly size: number;
  /** Reads every piece into the same memory where it can. */
  readonly reuse: boolean;
}

/** Every method but {@link create} may be called for names that are not there. */
export interface BodyStore {
  /** What the operator knows it by: a path, or the URL of a bucket without its key. */
  readonly place: string;
  /** Whether it may be away for a while: then it is asked now and then whether it answers. */
  readonly isRemote: boolean;
  /**
   * Begins a body.
   *
   * @param name of a body that is brought from another store; a new one when left out
   */
  create(name?: string): Promise<NewBody>;
  /**
   * Streams octets of a body, and takes it out of quarantine first where it is there.
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
  /** Writes a note; a store id only where there is none, if the store can tell. */
  writeNote(note: Note, text: string): Promise<void>;
  removeNote(note: Note): Promise<void>;
  /** Whether no body was ever kept here; what others put here does not count. */
  isEmpty(): Promise<boolean>;
  /** Names of the bodies, or of those in quarantine, in batches of at most 1,000. */
  list(from: 'bodies' | 'quarantine'): AsyncGenerator<string[]>;
  /** Milliseconds since a body was written; undefined where it is gone. */
  age(name: string, now: number): Promise<number | undefined>;
  /** Moves a body to quarantine; the time there begins `now`. @returns false where it is gone */
  quarantine(name: string, now: number): Promise<boolean>;
  /** Moves a body back from quarantine. @returns false where it is not there */
  restore(name: string): Promise<boolean>;
  /** Removes a body from quarantine if it has been there for its time. */
  expire(name: string, now: number): Promise<boolean>;
  /** Clears away what was begun before a time and never finished, other than bodies. */
  sweepUnfinished(before: number): Promise<void>;
  close(): void;
}

/** A body that is not there, or is not what was put there. */
export class BodyLost extends Error {
  override readonly name = 'BodyLost';
}

/** A store that does not do what it is asked. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';
  /** Whether it answered that it will not, so that asking again is of no use until somebody acts. */
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
 * Both carry the same store id, made at the first start: the database in `settings`, the store in
 * `store-id`. A store that lies beside a foreign database has bodies that no row names and that are good
 * mail all the same, so nothing is removed unless the ids are equal.
 */

/** The id of the database; one that has none is given one. */
export async function databaseStoreId(database: Database): Promise<string> {
  const setting = settingStore(database, 'store_id');
  return (await setting.read()) ?? (await setting.create(randomUUID()));
}

/**
 * Compares the two ids. A store without one is given the database's where both are new.
 *
 * @param isNew whether nothing has been set up in the database yet
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
  if (theirs === ours) return undefined;
  const found = theirs === '' ? 'have no store-id' : `belong to store ${theirs}`;
  return (
    `the database belongs to store ${ours}, but the bodies in ${store.place} ${found}: they do not belong together, ` +
    'so no mail is accepted and no body is removed. Stop the service, correct DATA_DIR, DATABASE_URL or S3_URL, and start it. ' +
    `Only if database and bodies are the right ones: write ${ours} to ${store.place}/store-id, and start`
  );
}

/* Clears away bodies that no row names: what a crash left between writing a body and committing it. */

/**
 * Bodies younger than this are spared: their message may be about to be committed, here or on another
 * node. A message is never on its way for that long.
 */
const SPARED_MS = 86_400_000;

/** Between batches, in milliseconds: a sweep of millions goes on beside everything else. */
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
 * Looks through all bodies once. The caller has made sure that the store is the database's.
 *
 * @param signal ends it early
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
  // A page of a bucket may have objects that are no bodies alone, and PostgreSQL takes no empty list.
  if (names.length === 0) return new Set();
  const rows = await read.selectFrom('bodies').select('file').where('file', 'in', names).execute();
  return new Set(rows.map(({ file }) => file));
}
