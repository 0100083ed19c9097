/** Programs of earlier releases, out of the history of this repository, with the packages that are installed. */
import { execFile } from 'node:child_process';
import { mkdtemp, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ROOT } from '../support/process.ts';

const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));

/** Each release by its commit, and the last commit with another schema: people run both. */
export const EARLIER = {
  '0.2.0': '8f41f4d34b8a98b3e463615882394b8d50ce9297',
  // The last commit before the release: many run it.
  '0.3.0': '32a3998',
  'before the newest migration': undefined,
} as const;
export type Earlier = keyof typeof EARLIER;

/**
 * Their packages have the same versions today, so nothing is downloaded.
 *
 * @returns path of its `main.ts`
 */
export async function unpackEarlier(name: Earlier): Promise<string> {
  const run = promisify(execFile);
  const commit = EARLIER[name] ?? (await lastWithOtherSchema());
  const folder = await mkdtemp(join(ROOT, 'earlier-'));
  const archive = join(folder, 'release.tar');
  const files = ['src', 'package.json'];
  try {
    await run('git', ['archive', '-o', archive, commit, ...files], { cwd: REPOSITORY });
  } catch (error) {
    throw new Error(
      `${name} is commit ${commit}, which cannot be read here: this test needs git and a clone with its history. ` +
        'In a shallow clone run "git fetch --unshallow"; in an archive without .git clone the repository',
      { cause: error },
    );
  }
  await run('tar', ['-xf', archive, '-C', folder]);
  await symlink(join(REPOSITORY, 'node_modules'), join(folder, 'node_modules'));
  return join(folder, 'src/main.ts');
}

/** The parent of the commit that brought the newest migration. */
async function lastWithOtherSchema(): Promise<string> {
  const released = 'src/platform/database/migrations/released.json';
  const log = ['log', '-1', '--format=%H^', '--', released];
  const { stdout } = await promisify(execFile)('git', log, { cwd: REPOSITORY });
  return stdout.trim();
}
