/**
 * Backups of an installation: made while it runs, verified, and restored.
 *
 * A backup is a folder: the database (`postroom.sqlite`, or `postroom.dump` of PostgreSQL), the generated secrets
 * (`secrets.json`; PostgreSQL has them itself), the large bodies (`bodies/`, unless they are in a bucket),
 * `SHA256SUMS` of all of them, and `backup.json`. The search index is left out: it is built again.
 *
 * The database is copied as it is at one moment, then the bodies that this copy names. They are still there, since a
 * body stays for `BODY_KEEP_HOURS` after nothing names it any more. The backup lists those that are missing all the
 * same. `backup.json` is written last. A folder without it is no backup: it was cut short.
 *
 * After that, `last-backup` beside the bodies says when the copy began: the service tells operators from it that the
 * last backup is too old. Whoever makes backups with another program writes the note with {@link noteBackup}.
 */

import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { sql } from 'kysely';
import pLimit from 'p-limit';
import {
  type BodyStore,
  isLost,
  type LargeBody,
  readLargeBodies,
} from '../../mailboxes/bodies/bodies.ts';
import {
  copySqlite,
  openSqliteToRead,
  type Queries,
  type ReadDatabase,
  refuseUnfit,
  schemaVersions,
  settingOf,
  UnfitDatabase,
} from '../../platform/database/database.ts';
import { when } from '../../platform/errors/errors.ts';
import {
  BackupFailed,
  BODIES_COPY,
  DATABASE_COPY,
  digestOf,
  ensureEmpty,
  explainFull,
  type Manifest,
  orMissing,
  SECRETS_COPY,
  writeManifest,
  writeStream,
} from './manifest.ts';
import { dumpPostgres } from './postgres-dump.ts';

export { BackupFailed, type Manifest } from './manifest.ts';
export { type RestoreOptions, restoreBackup } from './restore.ts';
export { verifyBackup } from './verify.ts';

/** Bodies under way at once. */
const COPIES_AT_ONCE = 4;
/** Bodies between two lines of progress. */
const PROGRESS_EVERY = 100;

export interface BackupOptions {
  readonly database: ReadDatabase;
  /** The file of SQLite, or the URLs of PostgreSQL. */
  readonly source: { readonly file: string } | { readonly urls: readonly string[] };
  readonly store: BodyStore;
  /** File of the generated secrets; undefined where they are in the database. */
  readonly secrets: string | undefined;
  /** Version of the program. */
  readonly program: string;
  /** A folder that is empty or does not exist yet. */
  readonly target: string;
  /** Called now and then, for people. */
  readonly onProgress: (text: string) => void;
}

/** Makes a backup. @throws BackupFailed, StoreUnavailable, the file system's error */
export async function makeBackup(options: BackupOptions): Promise<Manifest> {
  const { database, source, store, target } = options;
  await refuseUnfit(database).catch((error: unknown) => {
    throw error instanceof UnfitDatabase ? new BackupFailed(error.message) : error;
  });
  const storeId = await settingOf(database, 'store_id');
  const found = await store.readNote('store-id');
  if (storeId === undefined || found !== storeId) {
    throw new BackupFailed(
      `the database belongs to store ${storeId ?? '(none)'}, but the bodies in ${store.location} belong to store ${found || '(none)'}: they do not belong together`,
    );
  }
  await ensureEmpty(target);
  const begun = new Date();
  const bodies = new BodyCopies(options);
  const copy = join(target, DATABASE_COPY[database.engine]);
  options.onProgress('copying the database');
  const missing = await takeDatabase(options, copy, source, bodies);
  const digests = new Map<string, string>();
  digests.set(
    DATABASE_COPY[database.engine],
    await digestOf(target, DATABASE_COPY[database.engine]),
  );
  let octets = (await stat(copy)).size + bodies.octets;
  if (options.secrets !== undefined) {
    const secrets = join(target, SECRETS_COPY);
    const text = createReadStream(options.secrets);
    const digest = await writeStream(text, secrets).catch(orMissing(options.secrets));
    digests.set(SECRETS_COPY, digest);
    octets += (await stat(secrets)).size;
  }
  for (const [name, digest] of bodies.digests) digests.set(`${BODIES_COPY}/${name}`, digest);
  const manifest = await writeManifest(target, digests, {
    program: options.program,
    schema: (await schemaVersions(database)).version,
    engine: database.engine,
    store_id: storeId,
    made_at: new Date().toISOString(),
    bucket: store.isRemote ? store.location : null,
    bodies: bodies.named,
    octets,
    missing,
  });
  // What was made can be restored, noted or not.
  await noteBackup(store, begun).catch((error: unknown) =>
    options.onProgress(`the backup is complete, but could not be noted: ${String(error)}`),
  );
  return manifest;
}

/** Notes in the store of bodies that a whole backup was made. @param begun when its copy of the database began */
export function noteBackup(store: Pick<BodyStore, 'writeNote'>, begun: Date): Promise<void> {
  return store.writeNote('last-backup', begun.toISOString());
}

/** Copies the database as it is now, and the bodies it names. @returns missing bodies */
async function takeDatabase(
  { database }: BackupOptions,
  copy: string,
  source: BackupOptions['source'],
  bodies: BodyCopies,
): Promise<string[]> {
  if ('file' in source) {
    try {
      copySqlite(source.file, copy);
    } catch (error) {
      explainFull(copy, error);
    }
    await using taken = openSqliteToRead(copy);
    return await bodies.copyAll(await listBodies(taken.read));
  }
  // The list of bodies is that of the dump. They are copied after the snapshot, which keeps PostgreSQL from cleaning up.
  const named = await database.snapshot(async (tx) => {
    const { rows } = await sql<{ id: string }>`select pg_export_snapshot() as id`.execute(tx);
    await dumpPostgres(source.urls, rows[0]?.id ?? '', copy);
    return listBodies(tx);
  });
  return bodies.copyAll(named);
}

/** The large bodies that a database names. */
async function listBodies(read: Queries): Promise<LargeBody[]> {
  return (await Array.fromAsync(readLargeBodies(read))).flat();
}

/** The large bodies of a backup. */
class BodyCopies {
  readonly digests = new Map<string, string>();
  octets = 0;
  /** The number of bodies that the database names. */
  named = 0;
  readonly #options: BackupOptions;

  constructor(options: BackupOptions) {
    this.#options = options;
  }

  /** Copies bodies. @returns missing ones */
  async copyAll(named: readonly LargeBody[]): Promise<string[]> {
    const limit = pLimit(COPIES_AT_ONCE);
    const gone: string[] = [];
    this.named = named.length;
    let done = 0;
    await limit.map(named, async (body) => {
      if (!(await this.#copy(body))) gone.push(body.file);
      if (++done % PROGRESS_EVERY === 0 || done === named.length) {
        this.#options.onProgress(`${done} bodies, ${(this.octets / 1e6).toFixed(1)} MB copied`);
      }
    });
    return gone;
  }

  /** @returns whether it exists */
  async #copy({ file, size }: LargeBody): Promise<boolean> {
    const { store, target } = this.#options;
    // A bucket keeps them.
    if (store.isRemote) return store.has(file);
    const wanted = { start: 0, end: size, size };
    const copied = writeStream(store.read(file, wanted), join(target, BODIES_COPY, file));
    const digest = await copied.catch(when(isLost, undefined));
    if (digest === undefined) return false;
    this.digests.set(file, digest);
    this.octets += size;
    return true;
  }
}
