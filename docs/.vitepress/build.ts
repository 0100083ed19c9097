/**
 * Makes the documentation that the service shows, in `site/`: `npm run docs:build`, and the script
 * `prepare`, which npm runs at the end of an installation.
 *
 * VitePress makes the pages in a process of its own, since it needs 700 MB of memory and may be
 * killed for it. Where it fails or is not installed, the site is the same pages as markdown, each
 * with a line that says why. With `--or-markdown` the exit code is 0 then: an installation does not
 * fail for want of pages.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { collectScripts, compressFiles } from './finish-pages.ts';
import { writeReference } from './reference/pages.ts';
import { writeTexts } from './texts.ts';

/** A build takes some ten seconds; one that takes longer than this will never end. */
const BUILD_WITHIN_MS = 600_000;
/** How much of what VitePress wrote is looked through for its error, in characters. */
const KEPT_OUTPUT = 10_000;

/**
 * Builds the site anew.
 *
 * @param root absolute path of the folder that has `docs/` and `node_modules/`; `site/` is made there
 * @returns why there are no pages, as half a sentence; undefined where there are
 */
export async function buildSite(root: string): Promise<string | undefined> {
  const docs = join(root, 'docs');
  // The site of before is shown until the new one is whole.
  const output = join(root, 'site.new');
  await rm(output, { recursive: true, force: true });
  writeReference(docs);
  const failure = await runVitepress(root, output);
  if (failure === undefined) {
    const scripts = await collectScripts(output);
    // The service reads it, to allow these scripts. It begins with a dot: it is not served.
    await writeFile(join(output, '.build.json'), JSON.stringify({ scripts }));
  } else {
    await rm(output, { recursive: true, force: true });
    await mkdir(output);
    await cp(join(docs, 'public'), output, { recursive: true });
  }
  await writeTexts(docs, output, failure);
  await compressFiles(output);
  await rm(join(root, 'site'), { recursive: true, force: true });
  await rename(output, join(root, 'site'));
  return failure;
}

/** Runs VitePress. Returns why it made no pages, as half a sentence; undefined where it did. */
async function runVitepress(root: string, output: string): Promise<string | undefined> {
  const program = join(root, 'node_modules/vitepress/bin/vitepress.js');
  if (!existsSync(program)) return 'VitePress is not installed (npm ci --omit=dev leaves it out)';
  const child = spawn(process.execPath, [program, 'build', 'docs', '--outDir', output], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: BUILD_WITHIN_MS,
    killSignal: 'SIGKILL',
  });
  let written = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      written = (written + text).slice(-KEPT_OUTPUT);
    });
  }
  const [code, signal] = await once(child, 'close');
  if (code === 0) return undefined;
  // SIGKILL: the system had no memory; SIGABRT: V8's heap was full.
  if (signal !== null) return `VitePress was ended by ${signal}, most likely for want of memory`;
  const error = /^\w*Error\b.*$/m.exec(written)?.[0].trim() ?? `exit code ${code}`;
  return `VitePress failed (${error})`;
}

if (import.meta.main) {
  const failure = await buildSite(fileURLToPath(new URL('../..', import.meta.url)));
  if (failure !== undefined) {
    process.stderr.write(`The documentation stays plain markdown: ${failure}.\n`);
    if (!process.argv.includes('--or-markdown')) process.exitCode = 1;
  }
}
