import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFile,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pino } from 'pino';
import { clearAway, findBuild, newestBuild, publish } from './builds.ts';
import { buildSite, createSite, defaultSources, type Site, type SiteState } from './site.ts';
import { hashSources, type SourceFolder } from './sources.ts';

let parent: string;
/** Sources of three small pages, with the configuration of the real ones. */
let sources: SourceFolder;

before(async () => {
  parent = await mkdtemp(join(tmpdir(), 'postroom-site-'));
  sources = await copySources('sources');
});

after(() => rm(parent, { recursive: true, force: true }));

async function copySources(name: string): Promise<SourceFolder> {
  const root = join(parent, name);
  await mkdir(root);
  for (const part of ['docs', 'CHANGELOG.md', 'package.json']) {
    await cp(join(defaultSources.root, part), join(root, part), { recursive: true });
  }
  await symlink(join(defaultSources.root, 'node_modules'), join(root, 'node_modules'));
  return { root, builds: join(root, 'site') };
}

function newFolder(): Promise<string> {
  return mkdtemp(join(parent, 'builds-'));
}

test('a build has pages, texts, compressed files and the hashes of its scripts', async () => {
  const folder = await newFolder();
  const directory = await buildSite(sources, folder);
  assert.equal(directory, join(folder, hashSources(sources)));
  const home = await readFile(join(directory, 'index.html'), 'utf8');
  assert.doesNotMatch(home, /<[a-z][^>]*\sstyle="/);
  for (const [, link] of home.matchAll(/\b(?:src|href)="([^"#]+)"/g)) {
    assert.match(link ?? '', /^\/docs(?:\/|$)/, 'absolute, since the page is at / and at /docs');
  }
  const { scripts } = JSON.parse(await readFile(join(directory, '.build.json'), 'utf8'));
  assert.ok(scripts.length > 0 && scripts.length < 10, 'few enough for a header');
  for (const name of ['index.html.br', '404.html', 'llms.txt', 'llms-full.txt', 'quickstart.md']) {
    assert.ok((await stat(join(directory, name))).size > 0, name);
  }
  // The generated pages are found by the search, too.
  assert.match(
    await readFile(join(directory, 'reference/api/mail.md'), 'utf8'),
    /POST \/mail\/sync/,
  );
  assert.deepEqual(await readdir(folder), [hashSources(sources)], 'nothing else is left');

  const { mtimeMs } = await stat(directory);
  assert.equal(await buildSite(sources, folder), directory, 'a second time nothing is built');
  assert.equal((await stat(directory)).mtimeMs, mtimeMs);
});

test('two that build at once make one site', async () => {
  const folder = await newFolder();
  const program = (): ChildProcess =>
    spawn(process.execPath, [join(import.meta.dirname, 'build-program.ts'), folder], {
      stdio: 'ignore',
    });
  const codes = await Promise.all(
    [program(), program()].map((child) => once(child, 'close').then(([code]) => code)),
  );
  assert.deepEqual(codes, [0, 0]);
  assert.deepEqual(await readdir(folder), [hashSources(defaultSources)]);
});

test('the name follows the content of the sources, not their times', async () => {
  const copy = await copySources('hashed');
  const page = join(copy.root, 'docs/quickstart.md');
  const hash = hashSources(copy);
  assert.equal(hash, hashSources(sources));
  await utimes(page, new Date(0), new Date(0));
  await mkdir(join(copy.root, 'docs/.vitepress/cache'), { recursive: true });
  await writeFile(join(copy.root, 'docs/.vitepress/cache/deps.json'), '{}');
  await mkdir(join(copy.root, 'docs/reference/api'), { recursive: true });
  await writeFile(join(copy.root, 'docs/reference/api/mail.md'), 'generated');
  assert.equal(hashSources(copy), hash);
  await appendFile(page, '\nMore.\n');
  assert.notEqual(hashSources(copy), hash);
});

/** Starts a site and waits for the state that follows its first. */
async function settle(site: Site): Promise<SiteState[]> {
  site.start();
  const first = site.state();
  while (site.state() === first) await new Promise((resolve) => setTimeout(resolve, 50));
  return [first, site.state()];
}

test('a start without a build makes one in the background, the next start finds it', async () => {
  const logger = pino({ level: 'silent' });
  const options = { sources: defaultSources, directory: await newFolder(), build: true, logger };
  // The folder of the installation may have a build already, which would be taken.
  const isolated = { ...defaultSources, builds: join(parent, 'none') };
  const site = createSite({ ...options, sources: isolated });
  const [first, then] = await settle(site);
  assert.deepEqual(first, { kind: 'building' });
  assert.equal(then?.kind, 'built');
  const second = createSite({ ...options, sources: isolated, build: false });
  second.start();
  assert.deepEqual(second.state(), then);
});

test('a stop ends the build, and leaves nothing of it', async () => {
  const directory = await newFolder();
  const isolated = { ...defaultSources, builds: join(parent, 'none') };
  const site = createSite({
    sources: isolated,
    directory,
    build: true,
    logger: pino({ level: 'silent' }),
  });
  site.start();
  while ((await readdir(directory)).length === 0) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await site.stop();
  assert.deepEqual(await readdir(directory), []);
});

test('a build that fails is said and logged', async () => {
  const lines: string[] = [];
  const logger = pino({}, { write: (line) => lines.push(line) });
  // A file where the folder for builds has to be.
  const directory = join(parent, 'no-folder');
  await writeFile(directory, '');
  const site = createSite({
    sources: { ...defaultSources, builds: join(parent, 'none') },
    directory,
    build: true,
    logger,
  });
  const [first, then] = await settle(site);
  assert.deepEqual([first, then], [{ kind: 'building' }, { kind: 'failed' }]);
  const failed = lines.find((line) => line.includes('could not be built')) ?? '';
  assert.match(failed, /"level":50/);
  assert.match(failed, /no-folder/);
});

test('where there are no sources, the service runs without pages', async () => {
  const site = createSite({
    sources: { root: join(parent, 'nothing'), builds: join(parent, 'none') },
    directory: await newFolder(),
    build: true,
    logger: pino({ level: 'silent' }),
  });
  site.start();
  assert.deepEqual(site.state(), { kind: 'absent' });
});

test('without permission to build, what is there is shown, the newest first', async () => {
  const folder = await newFolder();
  const site = createSite({
    sources: { ...defaultSources, builds: join(parent, 'none') },
    directory: folder,
    build: false,
    logger: pino({ level: 'silent' }),
  });
  site.start();
  assert.deepEqual(site.state(), { kind: 'absent' });
  await fakeBuild(folder, 'a', 1_000);
  await fakeBuild(folder, 'b', 2_000);
  site.start();
  assert.deepEqual(site.state(), {
    kind: 'built',
    directory: join(folder, 'b'.repeat(32)),
    scripts: ['b'],
  });
});

/** A finished build of other sources, made so many seconds after 1970. */
async function fakeBuild(folder: string, letter: string, seconds: number): Promise<void> {
  const work = join(folder, `building-1-${letter}`);
  await mkdir(work);
  const directory = await publish(work, folder, letter.repeat(32), [letter]);
  await utimes(directory, seconds, seconds);
}

test('a build without its last file is none, and the second of two is dropped', async () => {
  const folder = await newFolder();
  const hash = 'c'.repeat(32);
  await mkdir(join(folder, hash));
  assert.equal(findBuild([folder], hash), undefined);
  assert.equal(newestBuild([folder]), undefined);
  await rm(join(folder, hash), { recursive: true });
  await fakeBuild(folder, 'c', 1_000);
  await writeFile(join(folder, hash, 'first.html'), '');
  await fakeBuild(folder, 'c', 1_000);
  assert.ok((await readdir(join(folder, hash))).includes('first.html'));
});

test('old builds and what crashes left are cleared away, work under way is not', async () => {
  const folder = await newFolder();
  for (const [index, letter] of ['a', 'b', 'c', 'd'].entries()) {
    await fakeBuild(folder, letter, 1_000 + index);
  }
  await mkdir(join(folder, 'building-1-crashed'));
  await utimes(join(folder, 'building-1-crashed'), 1_000, 1_000);
  await mkdir(join(folder, 'building-2-running'));
  await writeFile(join(folder, 'notes.txt'), 'of somebody else');
  await clearAway(folder, 'a'.repeat(32));
  assert.deepEqual(
    (await readdir(folder)).sort(),
    ['building-2-running', 'notes.txt', 'a'.repeat(32), 'd'.repeat(32)].sort(),
  );
});
