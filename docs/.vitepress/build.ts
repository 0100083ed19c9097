/**
 * Makes the pages that the service shows, in `site/`: the documentation, below `site/console/` the
 * operator's console, and below `site/webmail/` the webmail. `npm run docs:build` runs it, and the script `prepare`, which npm runs at the end
 * of an installation. It does nothing where the site was made of the same files: a digest in the site says so.
 *
 * VitePress makes the documentation in a process of its own, since it needs 700 MB of memory and may be
 * killed for it. Where it fails or is not installed, the site is the same pages as markdown, each
 * with a line that says why. Vite makes console and webmail, in processes of their own, too; where it fails, a
 * page in their place says why. With `--or-markdown` the exit code is 0 then: an installation does not
 * fail for want of pages.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { cp, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { collectScripts, compressFiles } from './finish-pages.ts';
import { writeReference } from './reference/pages.ts';
import { writeTexts } from './texts.ts';

/** A build takes some ten seconds; one that takes longer than this will never end. */
const BUILD_WITHIN_MS = 600_000;
/** How much of what a program wrote is looked through for its error, in characters. */
const KEPT_OUTPUT = 10_000;
/** What the site is made of; the lock file says with which tools. */
const SOURCES = [
  'docs',
  'console',
  'packages/webmail',
  'packages/sdk/src',
  'deploy',
  'CHANGELOG.md',
  'package.json',
  'package-lock.json',
];
/** What VitePress keeps there for itself. */
const KEPT_BY_VITEPRESS = /^docs\/\.vitepress\/(?:cache|dist)\//;
/** In the site: the digest of its sources. It begins with a dot: it is not served. */
const DIGEST_FILE = '.sources';

/** Why something was not made, as half a sentence; undefined where it was. */
export interface Failures {
  readonly pages: string | undefined;
  readonly console: string | undefined;
  readonly webmail: string | undefined;
}

/** What Vite makes: its sources below the root, its folder in the site, and what it is called. */
interface App {
  readonly sources: string;
  readonly folder: string;
  readonly name: string;
}

const CONSOLE: App = { sources: 'console', folder: 'console', name: 'console' };
const WEBMAIL: App = { sources: 'packages/webmail', folder: 'webmail', name: 'webmail' };

/** Whether the site is whole and was made of the files that are there now. */
export function isBuilt(root: string): boolean {
  const file = join(root, 'site', DIGEST_FILE);
  writeReference(join(root, 'docs'));
  return existsSync(file) && readFileSync(file, 'utf8') === digestSources(root);
}

function digestSources(root: string): string {
  const hash = createHash('sha256');
  const files = SOURCES.flatMap((part) => filesAt(root, part));
  for (const name of files.toSorted()) {
    if (KEPT_BY_VITEPRESS.test(name)) continue;
    const contents = createHash('sha256').update(readFileSync(join(root, name)));
    hash.update(`${name}\n${contents.digest('hex')}\n`);
  }
  return hash.digest('hex');
}

/** A file, or all files of a folder, by their paths below the root. */
function filesAt(root: string, part: string): string[] {
  const path = join(root, part);
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found?.isDirectory()) return found ? [part] : [];
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)));
}

/**
 * Builds the site anew.
 *
 * @param root absolute path of the folder that has `docs/`, `console/`, `packages/` and `node_modules/`; `site/` is
 *   made there
 */
export async function buildSite(root: string): Promise<Failures> {
  const docs = join(root, 'docs');
  // The site of before is shown until the new one is whole.
  const output = join(root, 'site.new');
  await rm(output, { recursive: true, force: true });
  writeReference(docs);
  // Of the files as they are before: a change during the build is not in the site.
  const digest = digestSources(root);
  const pages = await run(root, 'VitePress', 'vitepress/bin/vitepress.js', [
    'build',
    'docs',
    '--outDir',
    output,
  ]);
  if (pages === undefined) {
    const scripts = await collectScripts(output);
    // The service reads it, to allow these scripts. It begins with a dot: it is not served.
    await writeFile(join(output, '.build.json'), JSON.stringify({ scripts }));
  } else {
    await rm(output, { recursive: true, force: true });
    await mkdir(output);
    await cp(join(docs, 'public'), output, { recursive: true });
  }
  await writeTexts(docs, output, pages);
  const failures = {
    pages,
    console: await buildApp(root, output, CONSOLE),
    webmail: await buildApp(root, output, WEBMAIL),
  };
  await compressFiles(output);
  const isWhole = Object.values(failures).every((failure) => failure === undefined);
  if (isWhole) await writeFile(join(output, DIGEST_FILE), digest);
  await rm(join(root, 'site'), { recursive: true, force: true });
  await rename(output, join(root, 'site'));
  return failures;
}

/** Makes the console or the webmail, or a page that says why there is none. */
async function buildApp(root: string, site: string, app: App): Promise<string | undefined> {
  const output = join(site, app.folder);
  const failure = await run(root, 'Vite', 'vite/bin/vite.js', [
    'build',
    app.sources,
    '--outDir',
    output,
    '--emptyOutDir',
  ]);
  if (failure === undefined) return undefined;
  await rm(output, { recursive: true, force: true });
  await mkdir(output, { recursive: true });
  const reason = failure.replace(/[<>&]/g, (character) => `&#${character.charCodeAt(0)};`);
  await writeFile(
    join(output, 'index.html'),
    '<!doctype html><html lang="en"><head><meta charset="utf-8">' +
      '<meta name="viewport" content="width=device-width, initial-scale=1">' +
      '<meta name="color-scheme" content="light dark">' +
      `<title>Postroom</title></head><body><main><h1>The ${app.name} has not been built</h1>` +
      `<p>The reason: ${reason}.</p>` +
      '<p>Run <code>npm run docs:build</code> where the development dependencies are installed, and ' +
      'start Postroom again. The <a href="/docs/reference/api">API</a> works without it.</p>' +
      '</main></body></html>\n',
  );
  return failure;
}

/**
 * Runs a program that makes pages.
 *
 * @param name what it is called in the reason
 * @param script below `node_modules/`
 * @returns why it made no pages, as half a sentence; undefined where it did
 */
export async function run(
  root: string,
  name: string,
  script: string,
  words: readonly string[],
): Promise<string | undefined> {
  const program = join(root, 'node_modules', script);
  if (!existsSync(program)) return `${name} is not installed (npm ci --omit=dev leaves it out)`;
  const child = spawn(process.execPath, [program, ...words], {
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
  if (signal !== null) return `${name} was ended by ${signal}, most likely for want of memory`;
  const error = /^\w*Error\b.*$/m.exec(written)?.[0].trim() ?? `exit code ${code}`;
  return `${name} failed (${error})`;
}

if (import.meta.main) {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const nothing: Failures = { pages: undefined, console: undefined, webmail: undefined };
  const failures = isBuilt(root) ? nothing : await buildSite(root);
  const reasons = [
    failures.pages && `The documentation stays plain markdown: ${failures.pages}.\n`,
    failures.console && `There is no console: ${failures.console}.\n`,
    failures.webmail && `There is no webmail: ${failures.webmail}.\n`,
  ].filter((reason) => reason !== undefined);
  process.stderr.write(reasons.join(''));
  if (reasons.length > 0 && !process.argv.includes('--or-markdown')) process.exitCode = 1;
}
