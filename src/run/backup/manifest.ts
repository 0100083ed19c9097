/** The description of a backup: `backup.json`, which is written last, and `SHA256SUMS`. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Engine, UnfitDatabase } from '../database/database.ts';
import { ensureFolder, isMissing, replaceDurably } from '../files/files.ts';

const MANIFEST = 'backup.json';
const SUMS = 'SHA256SUMS';
const FORMAT = 1;

/** Names in the folder of a backup. */
export const DATABASE_COPY = { sqlite: 'postroom.sqlite', postgres: 'postroom.dump' } as const;
export const SECRETS_COPY = 'secrets.json';
export const BODIES_COPY = 'bodies';

/** The backup cannot be made, used or restored; the message is for the operator. */
export class BackupFailed extends Error {
  override readonly name = 'BackupFailed';
}

/** @throws BackupFailed for a database that cannot be used, else the error itself */
export function explainUnfit(error: unknown): never {
  throw error instanceof UnfitDatabase ? new BackupFailed(error.message) : error;
}

export interface Manifest {
  /** Version of the layout of the folder. */
  readonly format: typeof FORMAT;
  /** Version of the program that made it. */
  readonly program: string;
  /** Version of the database's schema. */
  readonly schema: number;
  readonly engine: Engine;
  readonly store_id: string;
  /** ISO 8601. */
  readonly made_at: string;
  /** URL of the bucket that has the large bodies, without its key; null where they are in the backup. */
  readonly bucket: string | null;
  /** Large bodies that the database names. */
  readonly bodies: number;
  /** Of all files. */
  readonly octets: number;
  /** Bodies that were lost before the backup was made. */
  readonly missing: readonly string[];
  /** SHA-256 of `SHA256SUMS`, in hex. */
  readonly sums: string;
}

/** Digests of files by their path in the backup. */
export type Digests = ReadonlyMap<string, string>;

/** Ends a backup, which is complete after this. */
export async function writeManifest(
  folder: string,
  digests: Digests,
  facts: Omit<Manifest, 'format' | 'sums'>,
): Promise<Manifest> {
  const file = await open(join(folder, SUMS), 'wx', 0o600);
  const hash = createHash('sha256');
  try {
    // The format of sha256sum, which can check it as well.
    for (const [path, digest] of digests) {
      const line = `${digest}  ${path}\n`;
      hash.update(line);
      await file.writeFile(line);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  const manifest: Manifest = { format: FORMAT, ...facts, sums: hash.digest('hex') };
  await replaceDurably(
    join(folder, MANIFEST),
    `${JSON.stringify(manifest, undefined, 2)}\n`,
    0o600,
  );
  return manifest;
}

/** @throws BackupFailed where the folder is not a complete backup of a known format */
export async function readManifest(folder: string): Promise<Manifest> {
  let manifest: Manifest;
  try {
    manifest = JSON.parse(await readFile(join(folder, MANIFEST), 'utf8'));
  } catch (error) {
    const why = isMissing(error)
      ? `it has no ${MANIFEST}, which is written last: the backup was interrupted, or this is another folder`
      : `${MANIFEST} cannot be read: ${String(error)}`;
    throw new BackupFailed(`${folder} is not a complete backup: ${why}`);
  }
  if (manifest.format === FORMAT) return manifest;
  throw new BackupFailed(
    `${folder} has format ${manifest.format}, but this program knows only ${FORMAT}: use the program that made the backup, ${manifest.program}`,
  );
}

/** @throws BackupFailed where the list is not the one from when the backup was made */
export async function readDigests(folder: string, { sums }: Manifest): Promise<Digests> {
  const path = join(folder, SUMS);
  const digests = new Map<string, string>();
  const found = await digestOf(path).catch(orMissing(path));
  if (found !== sums)
    throw new BackupFailed(
      `${path} was changed after the backup was made: its digest differs from the one in backup.json`,
    );
  for await (const line of createInterface({ input: createReadStream(path) })) {
    const [, digest, name] = /^([0-9a-f]{64}) {2}(.+)$/.exec(line) ?? [];
    if (digest && name) digests.set(name, digest);
  }
  return digests;
}

/** SHA-256 of a file, in hex. */
export async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  return hash.digest('hex');
}

/** For a `catch`: names the missing file. */
export function orMissing(path: string): (error: unknown) => never {
  return (error) => {
    throw isMissing(error) ? new BackupFailed(`${path} is missing`) : error;
  };
}

/** @throws BackupFailed where the folder is not empty */
export async function ensureEmpty(folder: string): Promise<void> {
  await ensureFolder(folder);
  const [first] = await readdir(folder);
  if (first !== undefined) {
    throw new BackupFailed(`${folder} is not empty (it has ${first}): name a new folder`);
  }
}

/** Writes a durable file. @returns its SHA-256, in hex */
export async function writeStream(
  source: AsyncIterable<Uint8Array>,
  path: string,
): Promise<string> {
  await ensureFolder(dirname(path));
  const hash = createHash('sha256');
  const file = await open(path, 'wx', 0o600);
  try {
    for await (const chunk of source) {
      hash.update(chunk);
      await file.writeFile(chunk);
    }
    await file.sync();
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  } finally {
    await file.close();
  }
  return hash.digest('hex');
}
