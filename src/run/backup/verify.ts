/** Verifies that a backup can be restored. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { BodyStore, LargeBody } from '../../mailboxes/bodies/bodies.ts';
import { readLargeBodies } from '../../mailboxes/bodies/bodies.ts';
import {
  findDamage,
  openSqliteToRead,
  refuseUnfit,
  schemaVersions,
  settingOf,
} from '../../platform/database/database.ts';
import { ConfigError, parseSecrets } from '../config/config.ts';
import {
  BackupFailed,
  BODIES_COPY,
  DATABASE_COPY,
  type Digests,
  digestOf,
  explainUnfit,
  isBodyPath,
  type Manifest,
  openFile,
  orMissing,
  readDigests,
  readManifest,
  SECRETS_COPY,
} from './manifest.ts';
import { type DumpContents, readDump } from './postgres-dump.ts';

export interface VerifyOptions {
  readonly folder: string;
  /** The bucket, where the backup left the bodies in it. */
  readonly bucket: BodyStore | undefined;
  /** Whether bodies may be missing: their messages cannot be read after a restore. */
  readonly allowMissingBodies?: boolean;
  readonly onProgress: (text: string) => void;
}

/**
 * Reads all files and compares their digests, opens the database, checks all of it, and searches every body that it
 * names.
 *
 * @returns the manifest, with all bodies that are missing now
 * @throws BackupFailed with the first error, or with all bodies that are missing and may not
 */
export async function verifyBackup(options: VerifyOptions): Promise<Manifest> {
  const { folder, onProgress } = options;
  const manifest = await readManifest(folder);
  const digests = await readDigests(folder, manifest);
  let checked = 0;
  const lost = new Map<string, string>();
  for (const [path, digest] of digests) {
    const wrong = await findWrong(folder, path, digest);
    if (wrong !== undefined && !isBodyPath(path)) throw new BackupFailed(wrong);
    if (wrong !== undefined) lost.set(path.slice(BODIES_COPY.length + 1), wrong);
    onProgress(`${++checked} of ${digests.size} files compared`);
  }
  if (manifest.engine === 'sqlite') await checkSecrets(folder, digests);
  onProgress('checking the database');
  const named: Omit<LargeBody, 'id'>[] = [];
  const path = join(folder, DATABASE_COPY[manifest.engine]);
  if (!digests.has(DATABASE_COPY[manifest.engine]))
    throw new BackupFailed(`${path} is not in SHA256SUMS`);
  const onBody = (body: Omit<LargeBody, 'id'>) => void named.push(body);
  const { storeId } =
    manifest.engine === 'sqlite' ? await readSqlite(path, onBody) : await readDump(path, onBody);
  if (storeId !== manifest.store_id) {
    throw new BackupFailed(
      `${path} belongs to store ${storeId}, but the backup belongs to ${manifest.store_id}`,
    );
  }
  const missing = await checkBodies({ ...options, manifest, digests }, named, lost);
  return { ...manifest, missing };
}

/** What is wrong with a file of a backup. @throws BackupFailed where it is no plain file */
async function findWrong(
  folder: string,
  path: string,
  digest: string,
): Promise<string | undefined> {
  const file = join(folder, path);
  try {
    if ((await digestOf(folder, path).catch(orMissing(file))) === digest) return undefined;
  } catch (error) {
    if (error instanceof BackupFailed) return error.message;
    throw error;
  }
  return `${file} is damaged: its digest is not the one in SHA256SUMS`;
}

async function checkSecrets(folder: string, digests: Digests): Promise<void> {
  const path = join(folder, SECRETS_COPY);
  if (!digests.has(SECRETS_COPY)) throw new BackupFailed(`${path} is not in SHA256SUMS`);
  try {
    parseSecrets(await text(await openFile(folder, SECRETS_COPY)), path);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new BackupFailed(error.lines.join('; '));
  }
}

async function readSqlite(path: string, onBody: (body: LargeBody) => void): Promise<DumpContents> {
  const [damage] = findDamage(path);
  if (damage !== undefined) throw new BackupFailed(`${path} is damaged: ${damage}`);
  await using database = openSqliteToRead(path);
  await refuseUnfit(database).catch(explainUnfit);
  for await (const some of readLargeBodies(database.read)) some.forEach(onBody);
  const { version } = await schemaVersions(database);
  return { storeId: await settingOf(database, 'store_id'), schema: version };
}

/** @param lost the files of the backup that are missing or damaged, by the names of their bodies */
async function checkBodies(
  given: VerifyOptions & { readonly manifest: Manifest; readonly digests: Digests },
  named: readonly Omit<LargeBody, 'id'>[],
  lost: Map<string, string>,
): Promise<string[]> {
  const { manifest, bucket, allowMissingBodies, onProgress } = given;
  if (manifest.bucket !== null && !bucket) {
    throw new BackupFailed(`the bodies are in ${manifest.bucket}: set S3_URL`);
  }
  const known = new Set(manifest.missing);
  const missing: string[] = [];
  let checked = 0;
  for (const body of named) {
    // It comes from the backup, and becomes the path of a file here.
    if (!isBodyPath(`${BODIES_COPY}/${body.file}`)) {
      throw new BackupFailed(
        `the database names a body ${JSON.stringify(body.file)}, which is no name of a body`,
      );
    }
    onProgress(`${++checked} of ${named.length} bodies checked`);
    const wrong = await findLost(given, body, lost);
    if (wrong === undefined) continue;
    missing.push(body.file);
    if (!known.has(body.file)) lost.set(body.file, wrong);
  }
  // Those that were missing when the backup was made are no reason to refuse it.
  const unexpected = missing.filter((file) => !known.has(file));
  if (unexpected.length === 0 || allowMissingBodies) return missing;
  throw new BackupFailed(
    [
      `${unexpected.length} of ${named.length} bodies are missing:`,
      ...unexpected.map((file) => `  ${lost.get(file)}`),
      'Bring them back, or give --allow-missing-bodies: their messages are then answered body_unavailable.',
    ].join('\n'),
  );
}

/** What is wrong with a body; undefined where it is there. */
async function findLost(
  given: Pick<VerifyOptions, 'folder' | 'bucket'> & {
    readonly manifest: Manifest;
    readonly digests: Digests;
  },
  { file, size }: Omit<LargeBody, 'id'>,
  lost: ReadonlyMap<string, string>,
): Promise<string | undefined> {
  const { folder, bucket, manifest, digests } = given;
  if (bucket && manifest.bucket !== null)
    return (await bucket.has(file)) ? undefined : `body ${file} is not in ${bucket.location}`;
  const path = join(BODIES_COPY, file);
  if (!digests.has(path)) return `body ${file} is not in the backup`;
  if (lost.has(file)) return lost.get(file);
  const found = (await stat(join(folder, path))).size;
  if (found === size) return undefined;
  return `${join(folder, path)} has ${found} octets, the database says ${size}`;
}
