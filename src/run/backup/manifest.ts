/** The description of a backup: `backup.json`, which is written last, and `SHA256SUMS`. */
import { createHash } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import { open, readdir, realpath, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type Engine, isStorageFull, UnfitDatabase } from '../../platform/database/database.ts';
import {
  ensureFolder,
  fileErrorCode,
  isMissing,
  replaceDurably,
} from '../../platform/files/files.ts';

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

/** For a `catch` around the database of a backup. @throws BackupFailed where the service would refuse it */
export function explainUnfit(error: unknown): never {
  if (!(error instanceof UnfitDatabase)) throw error;
  throw new BackupFailed(
    `the database in the backup cannot be used by this program: ${error.found}`,
  );
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
  /** Bodies that the database names and that were not there when the backup was made. */
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
  await using file = await open(join(folder, SUMS), 'wx', 0o600);
  const hash = createHash('sha256');
  // The format of sha256sum, which can check it as well.
  for (const [path, digest] of digests) {
    const line = `${digest}  ${path}\n`;
    hash.update(line);
    await file.writeFile(line);
  }
  await file.sync();
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
  let manifest: Manifest | null;
  try {
    manifest = JSON.parse(await text(await openFile(folder, MANIFEST)));
  } catch (error) {
    if (error instanceof BackupFailed) throw error;
    if (isMissing(error) && !existsSync(folder))
      throw new BackupFailed(`there is no folder ${folder}`);
    if (fileErrorCode(error) === 'ENOTDIR')
      throw new BackupFailed(`${folder} is no folder: expected one that "postroom backup" made`);
    const why = isMissing(error)
      ? `it has no ${MANIFEST}, which is written last: the backup was interrupted, or this is another folder`
      : `${MANIFEST} cannot be read: ${String(error)}`;
    throw new BackupFailed(`${folder} is not a complete backup: ${why}`);
  }
  if (manifest?.format === FORMAT) return manifest;
  if (typeof manifest?.format !== 'number')
    throw new BackupFailed(`${folder} is not a complete backup: ${MANIFEST} describes none`);
  throw new BackupFailed(
    `${folder} has format ${manifest.format}, but this program knows only ${FORMAT}: use the program that made the backup, ${manifest.program}`,
  );
}

/** @throws BackupFailed where the list is not the one from when the backup was made */
export async function readDigests(folder: string, { sums }: Manifest): Promise<Digests> {
  const path = join(folder, SUMS);
  const digests = new Map<string, string>();
  for (const name of await readdir(folder)) {
    const isKnown = [MANIFEST, SUMS, BODIES_COPY].includes(name) || isKnownName(name);
    if (!isKnown) throw new BackupFailed(`${join(folder, name)} is no file of a backup: remove it`);
  }
  const found = await digestOf(folder, SUMS).catch(orMissing(path));
  if (found !== sums)
    throw new BackupFailed(
      `${path} was changed after the backup was made: its digest differs from the one in backup.json`,
    );
  for await (const line of createInterface({ input: await openFile(folder, SUMS) })) {
    const [, digest, name] = /^([0-9a-f]{64}) {2}(.+)$/.exec(line) ?? [];
    if (!digest || !name) continue;
    if (!isKnownName(name)) {
      throw new BackupFailed(`${path} names ${JSON.stringify(name)}, which is no file of a backup`);
    }
    digests.set(name, digest);
  }
  return digests;
}

const BODY = /^bodies\/[0-9a-f]{2}\/[0-9a-f-]{36}$/;

/** Whether a path in a backup is that of a body. */
export function isBodyPath(path: string): boolean {
  return BODY.test(path);
}

/** Nothing else is read from a backup, or written to DATA_DIR. */
function isKnownName(path: string): boolean {
  const files: readonly string[] = [DATABASE_COPY.sqlite, DATABASE_COPY.postgres, SECRETS_COPY];
  return files.includes(path) || isBodyPath(path);
}

/**
 * Opens a file of a backup. Somebody else may have written to the folder since: a link would lead out of it, and a
 * FIFO would never end.
 *
 * @throws BackupFailed where it is no plain file, or a link leads to it; the file system's error
 */
export async function openFile(folder: string, path: string): Promise<Readable> {
  const whole = join(folder, path);
  const isLink = (await realpath(whole)) !== join(await realpath(folder), path);
  // Without waiting for whoever would write to a FIFO.
  const handle = await open(whole, constants.O_RDONLY | constants.O_NONBLOCK);
  if (isLink || !(await handle.stat()).isFile()) {
    await handle.close();
    throw new BackupFailed(`${whole} is ${isLink ? 'a link' : 'no plain file'}: a backup has none`);
  }
  return handle.createReadStream();
}

/** SHA-256 of a file of a backup, in hex. @throws as {@link openFile} */
export async function digestOf(folder: string, path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of await openFile(folder, path)) hash.update(chunk);
  return hash.digest('hex');
}

/** For a `catch`: names the missing file, also one whose folder is a file. */
export function orMissing(path: string): (error: unknown) => never {
  return (error) => {
    const isGone = isMissing(error) || fileErrorCode(error) === 'ENOTDIR';
    throw isGone ? new BackupFailed(`${path} is missing`) : error;
  };
}

/** For a `catch` around the writing of a file: a full disk has no path in its error. */
export function explainFull(path: string, error: unknown): never {
  throw isStorageFull(error)
    ? new BackupFailed(`${path} could not be written: its disk is full`)
    : error;
}

/** @throws BackupFailed where the folder is not empty */
export async function ensureEmpty(folder: string): Promise<void> {
  await ensureFolder(folder);
  const [first] = await readdir(folder);
  if (first !== undefined) {
    throw new BackupFailed(`${folder} is not empty (it has ${first}): name a new folder`);
  }
}

/** Writes a durable file. @returns its SHA-256, in hex @throws BackupFailed where the disk is full */
export async function writeStream(
  source: AsyncIterable<Uint8Array>,
  path: string,
): Promise<string> {
  await ensureFolder(dirname(path));
  const hash = createHash('sha256');
  await using file = await open(path, 'wx', 0o600);
  try {
    for await (const chunk of source) {
      hash.update(chunk);
      await file.writeFile(chunk);
    }
    await file.sync();
  } catch (error) {
    await rm(path, { force: true });
    explainFull(path, error);
  }
  return hash.digest('hex');
}
