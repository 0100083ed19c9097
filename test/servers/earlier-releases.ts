/** The program of the last release, out of the history of this repository, with the packages that are installed. */
import { execFile } from 'node:child_process';
import { mkdtemp, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ROOT } from '../support/process.ts';

const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));
export const LAST_RELEASE = '0.2.0';
const COMMIT = '8f41f4d34b8a98b3e463615882394b8d50ce9297';

/**
 * Its packages have the same versions today, so nothing is downloaded.
 *
 * @returns path of its `main.ts`
 */
export async function unpackLastRelease(): Promise<string> {
  const folder = await mkdtemp(join(ROOT, 'last-release-'));
  const archive = join(folder, 'release.tar');
  const run = promisify(execFile);
  const files = ['src', 'package.json'];
  try {
    await run('git', ['archive', '-o', archive, COMMIT, ...files], { cwd: REPOSITORY });
  } catch (error) {
    throw new Error(
      `release ${LAST_RELEASE} is commit ${COMMIT}, which cannot be read here: this test needs git and a clone with its history. ` +
        'In a shallow clone run "git fetch --unshallow"; in an archive without .git clone the repository',
      { cause: error },
    );
  }
  await run('tar', ['-xf', archive, '-C', folder]);
  await symlink(join(REPOSITORY, 'node_modules'), join(folder, 'node_modules'));
  return join(folder, 'src/main.ts');
}
