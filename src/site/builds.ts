/**
 * The folders of finished builds: found, published and cleared away.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { open, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { listFiles } from './sources.ts';

/** A finished build. */
export interface Build {
  /** Absolute path. */
  readonly directory: string;
  /** CSP sources of its inline scripts. */
  readonly scripts: readonly string[];
}

/** What is written into a build last. It begins with a dot: it is not served. */
const MANIFEST = '.build.json';
const buildName = /^[0-9a-f]{32}$/;
const workName = /^building-/;
/** A folder that somebody still builds in is younger. */
const ABANDONED_MS = 3_600_000;
/** Builds of earlier sources that stay, for processes that still run with them. */
const EARLIER_KEPT = 1;

/** A prefix for folders that a process builds in, for `mkdtemp`. */
export function workPrefix(folder: string, pid: number): string {
  return join(folder, `building-${pid}-`);
}

/** Removes what a process that was ended has left. */
export async function clearWork(folder: string, pid: number): Promise<void> {
  const prefix = workPrefix(folder, pid);
  const names = await readdir(folder).catch(() => []);
  for (const path of names.map((name) => join(folder, name))) {
    if (path.startsWith(prefix)) await rm(path, { recursive: true, force: true });
  }
}

/** The build of that name; the first folder that has it counts. */
export function findBuild(folders: readonly string[], hash: string): Build | undefined {
  for (const folder of folders) {
    const build = readBuild(join(folder, hash));
    if (build) return build;
  }
  return undefined;
}

/** The build that was made last, of whatever sources. */
export function newestBuild(folders: readonly string[]): Build | undefined {
  const found = folders.flatMap((folder) => listBuilds(folder)).sort((a, b) => b.at - a.at);
  for (const { directory } of found) {
    const build = readBuild(directory);
    if (build) return build;
  }
  return undefined;
}

function readBuild(directory: string): Build | undefined {
  try {
    const { scripts } = JSON.parse(readFileSync(join(directory, MANIFEST), 'utf8'));
    return { directory, scripts };
  } catch {
    return undefined;
  }
}

function listBuilds(folder: string): { directory: string; at: number }[] {
  try {
    return readdirSync(folder)
      .filter((name) => buildName.test(name))
      .map((name) => join(folder, name))
      .map((directory) => ({ directory, at: statSync(directory).mtimeMs }));
  } catch {
    return [];
  }
}

/**
 * Gives a finished folder its name. It is on the disk before it has it, so that after a power cut
 * no build is there in part.
 *
 * @returns where the build is: the folder's new path, which another process may have made first
 */
export async function publish(
  work: string,
  folder: string,
  hash: string,
  scripts: readonly string[],
): Promise<string> {
  await writeFile(join(work, MANIFEST), JSON.stringify({ scripts }));
  for (const name of listFiles(work)) await sync(join(work, name));
  const target = join(folder, hash);
  try {
    await rename(work, target);
  } catch (error) {
    // Somebody else was faster: rename never replaces a folder that has something in it.
    if (!readBuild(target)) throw error;
  }
  await sync(folder);
  return target;
}

async function sync(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } catch {
    // File systems without fsync for folders (network, FUSE) say so; the pages can be built anew.
  } finally {
    await file.close();
  }
}

/** Removes what crashed builds left, and builds of sources that are long gone. */
export async function clearAway(folder: string, keep: string): Promise<void> {
  const now = Date.now();
  for (const name of await readdir(folder)) {
    if (!workName.test(name)) continue;
    const path = join(folder, name);
    const age = await stat(path).then(
      ({ mtimeMs }) => now - mtimeMs,
      () => 0,
    );
    if (age > ABANDONED_MS) await rm(path, { recursive: true, force: true });
  }
  const earlier = listBuilds(folder)
    .filter(({ directory }) => directory !== join(folder, keep))
    .sort((a, b) => b.at - a.at);
  for (const { directory } of earlier.slice(EARLIER_KEPT)) {
    await rm(directory, { recursive: true, force: true });
  }
}
