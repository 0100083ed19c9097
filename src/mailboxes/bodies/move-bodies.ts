/**
 * Moves all bodies of a database from one store to another, while no service uses it.
 *
 * Crashes, by step:
 * 1. Each body is copied, then read back and compared. The new store notes how far that came. The next run compares
 *    what was copied after that note, and copies it again where it is not whole.
 * 2. The new store gets the store id, then the old one loses it. From then on a service that still has the old
 *    settings accepts no mail, and says why. If one was started at this moment, the old store gets its id back.
 * 3. The old bodies go to the quarantine of the old store. Nothing is removed.
 *
 * A run that was cut short is continued by the next one with the same arguments.
 */

import { createHash } from 'node:crypto';
import pLimit from 'p-limit';
import type { Database, Queries } from '../../platform/database/database.ts';
import { when } from '../../platform/errors/errors.ts';
import { BodyLost, type BodyStore, databaseStoreId, isLost } from './body-store.ts';

/** Bodies in one query, after which the progress is noted. */
const BATCH = 100;
/** Bodies under way at once. */
const COPIES_AT_ONCE = 4;

/** The bodies cannot be moved; the message is one line for the operator. */
export class MoveRefused extends Error {
  override readonly name = 'MoveRefused';
}

export interface Moved {
  /** Bodies that are in the new store now, also from earlier runs. */
  bodies: number;
  /** Bytes that this run copied. */
  octets: number;
  /** Names of bodies that are in neither store. */
  missing: string[];
}

export interface MoveOptions {
  readonly database: Database;
  readonly from: BodyStore;
  readonly to: BodyStore;
  /** Called after each batch. */
  readonly onProgress: (done: number, total: number, octets: number) => void;
  /** Called before and after the old store loses its id. @throws where a service was started meanwhile */
  readonly checkStopped: () => Promise<void>;
}

/**
 * Moves all bodies.
 *
 * @throws MoveRefused, StoreUnavailable, the file system's error
 */
export async function moveBodies(options: MoveOptions): Promise<Moved> {
  const moved = await copyBodies(options);
  await switchStores(options);
  return moved;
}

/**
 * The first step alone: the old store is still the one of the database.
 *
 * @throws MoveRefused, StoreUnavailable, the file system's error
 */
export async function copyBodies(options: Omit<MoveOptions, 'checkStopped'>): Promise<Moved> {
  const { database, from, to } = options;
  await checkStores(await databaseStoreId(database), from, to);
  return copyAll(options);
}

/**
 * The other steps, after all was copied. A second run changes nothing.
 *
 * @throws MoveRefused, StoreUnavailable, the file system's error
 */
export async function switchStores({
  database,
  from,
  to,
  checkStopped,
}: Omit<MoveOptions, 'onProgress'>): Promise<void> {
  const id = await databaseStoreId(database);
  await checkStopped();
  await to.writeNote('store-id', id);
  if ((await to.readNote('store-id')) !== id) throw foreign(to);
  await from.removeNote('store-id');
  try {
    await checkStopped();
  } catch (error) {
    // The service may have found the id of the old store before it was removed: then it writes there.
    await from.writeNote('store-id', id);
    throw error;
  }
  for await (const names of from.list()) await from.quarantine(names, Date.now());
  await to.removeNote('moved-up-to');
}

async function checkStores(id: string, from: BodyStore, to: BodyStore): Promise<void> {
  const [old, next] = [await from.readNote('store-id'), await to.readNote('store-id')];
  if (next !== '' && next !== id) throw foreign(to);
  // An earlier run already removed it.
  if (old === '' && next === '') {
    throw new MoveRefused(`${from.location} has no store-id: its bodies were moved elsewhere`);
  }
  if (old !== id && !(old === '' && next === id)) throw foreign(from);
}

function foreign({ location }: BodyStore): MoveRefused {
  return new MoveRefused(
    `the bodies in ${location} belong to another database: its store-id differs`,
  );
}

/** A body that is in a store, and not in its row. */
export interface LargeBody {
  readonly id: number;
  /** Its name in the store. */
  readonly file: string;
  /** Bytes in the store. */
  readonly size: number;
}

async function copyAll({
  database,
  from,
  to,
  onProgress,
}: Omit<MoveOptions, 'checkStopped'>): Promise<Moved> {
  const total = await countFrom(database, 0);
  const after = Number(await to.readNote('moved-up-to'));
  // A store that is a folder is made by its first note.
  await to.writeNote('moved-up-to', String(after));
  const moved: Moved = {
    bodies: total - (await countFrom(database, after)),
    octets: 0,
    missing: [],
  };
  const limit = pLimit(COPIES_AT_ONCE);
  for await (const some of readLargeBodies(database.read, after)) {
    await limit.map(some, async ({ file, size }) => {
      try {
        const octets = await copy(file, size, from, to);
        moved.octets += octets;
        moved.bodies++;
      } catch (error) {
        if (!(error instanceof BodyLost)) throw error;
        moved.missing.push(file);
      }
    });
    await to.writeNote('moved-up-to', String(some.at(-1)?.id));
    onProgress(moved.bodies, total, moved.octets);
  }
  return moved;
}

async function countFrom({ read }: Database, after: number): Promise<number> {
  const { bodies } = await read
    .selectFrom('bodies')
    .select(({ fn }) => fn.countAll().as('bodies'))
    .where('file', 'is not', null)
    .where('id', '>', after)
    .executeTakeFirstOrThrow();
  return Number(bodies);
}

/** The bodies in the store whose id is above one, in the order of their ids, some at a time. */
export async function* readLargeBodies(
  read: Queries,
  after = 0,
): AsyncGenerator<readonly LargeBody[]> {
  for (let last = after; ; ) {
    const rows = await read
      .selectFrom('bodies')
      .select(['id', 'file', 'size', 'content'])
      .where('file', 'is not', null)
      .where('id', '>', last)
      .orderBy('id')
      .limit(BATCH)
      .execute();
    const final = rows.at(-1);
    if (!final) return;
    last = final.id;
    yield rows.map(({ id, file, size, content }) => {
      return { id, file: file ?? '', size: size - (content?.length ?? 0) };
    });
  }
}

/**
 * Brings one body over, unless it is there.
 *
 * @returns bytes that were copied
 * @throws BodyLost where it is in neither store
 */
async function copy(name: string, size: number, from: BodyStore, to: BodyStore): Promise<number> {
  if ((await to.age(name, Date.now())) !== undefined) {
    if (await isSame(name, size, from, to)) return 0;
    // A file that an interrupted run, or somebody's copy, left half done.
    await to.remove([name]);
  }
  const body = await to.create(name);
  let digest: string;
  try {
    digest = await digestOf(from, name, size, (chunk) => body.write(chunk));
    await body.finish();
  } catch (error) {
    await body.abandon();
    throw error;
  }
  if ((await digestOf(to, name, size)) === digest) return size;
  throw new MoveRefused(
    `${name} was written to ${to.location}, but reading it back gave other content`,
  );
}

async function isSame(
  name: string,
  size: number,
  from: BodyStore,
  to: BodyStore,
): Promise<boolean> {
  const there = await digestOf(to, name, size).catch(when(isLost, undefined));
  if (there === undefined) return false;
  // If the old store no longer has it, an earlier run moved it after the comparison.
  return (await digestOf(from, name, size).catch(when(isLost, there))) === there;
}

async function digestOf(
  store: BodyStore,
  name: string,
  size: number,
  observe?: (chunk: Uint8Array) => Promise<void>,
): Promise<string> {
  const hash = createHash('sha256');
  const whole = { start: 0, end: size, size };
  for await (const chunk of store.read(name, whole)) {
    hash.update(chunk);
    await observe?.(chunk);
  }
  return hash.digest('hex');
}
