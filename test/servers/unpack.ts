/**
 * Debian packages that must not be installed beside each other: downloaded and unpacked into a
 * folder, once for a machine.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { chmod, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runCommand } from './mail-server.ts';

/**
 * Unpacks packages into one tree, which a later call finds again.
 *
 * @returns the root of the tree
 * @throws Error which names the packages that could not be had
 */
export async function unpackPackages(packages: readonly string[]): Promise<string> {
  const key = createHash('sha256').update(packages.join()).digest('hex').slice(0, 12);
  const tree = join(tmpdir(), `postroom-unpacked-${process.getuid?.() ?? 0}-${key}`);
  if (existsSync(tree)) return tree;
  const work = await mkdtemp(join(tmpdir(), 'postroom-unpack-'));
  try {
    // apt-get has no option for the folder that it downloads into.
    await runCommand('sh', ['-c', 'cd "$0" && apt-get download -qq "$@"', work, ...packages]);
    const unpacked = join(work, 'tree');
    for (const name of (await readdir(work)).filter((file) => file.endsWith('.deb'))) {
      await runCommand('dpkg-deb', ['-x', join(work, name), unpacked]);
    }
    await chmod(unpacked, 0o755);
    // Of several that unpack at once the first wins: a folder that is not empty is not replaced.
    await rename(unpacked, tree).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
    });
    return tree;
  } catch (error) {
    const names = packages.join(' ');
    throw new Error(`these Debian packages could not be downloaded and unpacked: ${names}`, {
      cause: error,
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** The folders of libraries that have the machine's architecture in their name. */
export function libraryFolders(tree: string): string[] {
  return ['usr/lib', 'lib'].flatMap((name) =>
    readdirSync(join(tree, name))
      .filter((below) => below.endsWith('-linux-gnu'))
      .map((below) => join(tree, name, below)),
  );
}

/** The environment in which programs of a tree find their libraries there. */
export function treeEnvironment(tree: string): NodeJS.ProcessEnv {
  const folders = [join(tree, 'usr/lib'), ...libraryFolders(tree)];
  return { ...process.env, LD_LIBRARY_PATH: folders.join(':') };
}
