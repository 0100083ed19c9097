/** Verifies that a backup can be restored. */
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { BodyStore, LargeBody } from '../bodies/bodies.ts';
import { listLargeBodies } from '../bodies/bodies.ts';
import { ConfigError, parseSecrets } from '../config/config.ts';
import { findDamage, openSqliteToRead, schemaVersions, settingOf } from '../database/database.ts';
import {
  BackupFailed,
  BODIES_COPY,
  DATABASE_COPY,
  type Digests,
  digestOf,
  type Manifest,
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
  readonly onProgress: (text: string) => void;
}

/**
 * Reads all files and compares their digests, opens the database, checks all of it, and searches every body that it
 * names.
 *
 * @throws BackupFailed with the first error
 */
export async function verifyBackup({
  folder,
  bucket,
  onProgress,
}: VerifyOptions): Promise<Manifest> {
  const manifest = await readManifest(folder);
  const digests = await readDigests(folder, manifest);
  let checked = 0;
  for (const [path, digest] of digests) {
    const file = join(folder, path);
    if ((await digestOf(file).catch(orMissing(file))) !== digest) {
      throw new BackupFailed(`${file} is damaged: its digest is not the one in SHA256SUMS`);
    }
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
  await checkBodies({ folder, manifest, digests, bucket, onProgress }, named);
  return manifest;
}

async function checkSecrets(folder: string, digests: Digests): Promise<void> {
  const path = join(folder, SECRETS_COPY);
  if (!digests.has(SECRETS_COPY)) throw new BackupFailed(`${path} is not in SHA256SUMS`);
  try {
    parseSecrets(await readFile(path, 'utf8'), path);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new BackupFailed(error.lines.join('; '));
  }
}

async function readSqlite(path: string, onBody: (body: LargeBody) => void): Promise<DumpContents> {
  const [damage] = findDamage(path);
  if (damage !== undefined) throw new BackupFailed(`${path} is damaged: ${damage}`);
  const database = openSqliteToRead(path);
  try {
    for (let after = 0; ; ) {
      const batch = await listLargeBodies(database.read, after);
      const last = batch.at(-1);
      if (!last) break;
      after = last.id;
      for (const body of batch) onBody(body);
    }
    const { version } = await schemaVersions(database);
    return { storeId: await settingOf(database, 'store_id'), schema: version };
  } finally {
    await database.close();
  }
}

async function checkBodies(
  given: VerifyOptions & { readonly manifest: Manifest; readonly digests: Digests },
  named: readonly Omit<LargeBody, 'id'>[],
): Promise<void> {
  const { folder, manifest, digests, bucket, onProgress } = given;
  const missing = new Set(manifest.missing);
  let checked = 0;
  for (const { file, size } of named) {
    onProgress(`${++checked} of ${named.length} bodies checked`);
    if (missing.has(file)) continue;
    if (manifest.bucket !== null) {
      if (!bucket) throw new BackupFailed(`the bodies are in ${manifest.bucket}: set S3_URL`);
      if ((await bucket.age(file, Date.now())) !== undefined) continue;
      throw new BackupFailed(
        `body ${file} is no longer in ${bucket.place}: restore it from the older versions in the bucket`,
      );
    }
    const name = `${BODIES_COPY}/${file}`;
    if (!digests.has(name)) throw new BackupFailed(`body ${file} is not in the backup`);
    const found = (await stat(join(folder, name))).size;
    if (found === size) continue;
    throw new BackupFailed(`${join(folder, name)} has ${found} octets, the database says ${size}`);
  }
}
