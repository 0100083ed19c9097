/** What an installation makes of the documentation where VitePress cannot make its pages. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import {
  appendFile,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { buildSite, isBuilt, run } from '../../docs/.vitepress/build.ts';
import { repository } from '../support/doc-pages.ts';

const parent = await mkdtemp(join(tmpdir(), 'postroom-site-'));
after(() => rm(parent, { recursive: true, force: true }));

/** An installation with the real sources, where no program is installed. */
async function install(): Promise<string> {
  const root = join(parent, 'bare');
  await mkdir(root);
  await cp(join(repository, 'docs'), join(root, 'docs'), { recursive: true });
  // Pages show these.
  for (const part of ['CHANGELOG.md', 'deploy']) {
    await cp(join(repository, part), join(root, part), { recursive: true });
  }
  return root;
}

/** Leaves a line of each page: what they say is compressed as well as can be, which takes a second for each build. */
async function shorten(docs: string): Promise<void> {
  for (const name of await readdir(docs, { recursive: true })) {
    if (name.endsWith('.md')) await writeFile(join(docs, name), '# Page\n\nText.\n');
  }
  const file = join(docs, 'openapi.json');
  const { paths, ...api } = JSON.parse(await readFile(file, 'utf8'));
  const [first = assert.fail()] = Object.entries(paths);
  await writeFile(file, JSON.stringify({ ...api, paths: Object.fromEntries([first]) }));
}

async function addProgram(root: string, name: string, program: string): Promise<void> {
  const bin = join(root, 'node_modules', name, 'bin');
  await mkdir(bin, { recursive: true });
  await writeFile(join(bin, `${name}.js`), program);
}

/** Makes a page in the folder that it is told, as VitePress and Vite do. */
const pageMaker = `
  const { mkdirSync, writeFileSync } = require('node:fs');
  const folder = process.argv[process.argv.indexOf('--outDir') + 1];
  mkdirSync(folder, { recursive: true });
  writeFileSync(folder + '/index.html', '<p style="color:red">Home</p><script>go()</script>');`;

test('without VitePress, or where it fails, each page is markdown that says why, until a build has pages', async () => {
  const root = await install();
  const failures = await buildSite(root);
  assert.match(failures.pages ?? '', /not installed/);
  for (const app of ['console', 'webmail'] as const) {
    assert.match(failures[app] ?? '', /Vite is not installed/);
    const page = await readFile(join(root, `site/${app}/index.html`), 'utf8');
    assert.match(page, /has not been built.*Vite is not installed.*npm run docs:build/s);
  }
  for (const page of ['index', 'quickstart', 'concepts/sync', 'reference/api/mail', 'changelog']) {
    const text = await readFile(join(root, 'site', `${page}.md`), 'utf8');
    assert.match(text, /^> This is plain markdown, .* VitePress is not installed .*docs:build/);
    assert.match(text, /^# /m, page);
  }
  for (const file of ['pictures/webmail.webp', 'llms.txt', 'quickstart.md.br']) {
    assert.ok(existsSync(join(root, 'site', file)), file);
  }
  assert.ok(!existsSync(join(root, 'site', '.build.json')));

  await shorten(join(root, 'docs'));
  await addProgram(root, 'vitepress', "throw new TypeError('no such theme')");
  await addProgram(root, 'vite', pageMaker);
  assert.match((await buildSite(root)).pages ?? '', /TypeError: no such theme/);
  assert.match(await readFile(join(root, 'site/index.md'), 'utf8'), /TypeError: no such theme/);
  assert.ok(!isBuilt(root), 'there is a console, and there are no pages');

  await addProgram(root, 'vitepress', pageMaker);
  assert.equal((await buildSite(root)).pages, undefined);
  const site = join(root, 'site');
  assert.match(await readFile(join(site, 'index.html'), 'utf8'), /^<p>Home/);
  const { scripts } = JSON.parse(await readFile(join(site, '.build.json'), 'utf8'));
  assert.equal(scripts.length, 1);
  assert.match(await readFile(join(site, 'quickstart.md'), 'utf8'), /^# /);
  assert.ok(!existsSync(join(root, 'site.new')));

  // It is built again when what it is made of has changed.
  assert.equal(isBuilt(root), true);
  const cache = join(root, 'docs/.vitepress/cache');
  await mkdir(cache, { recursive: true });
  await writeFile(join(cache, 'found.json'), '{}');
  assert.equal(isBuilt(root), true);
  // As `git pull` does: the page changes, its time need not be later.
  const page = join(root, 'docs/quickstart.md');
  const { atime, mtime } = await stat(page);
  await appendFile(page, 'More.\n');
  await utimes(page, atime, mtime);
  assert.equal(isBuilt(root), false);
});

test('a VitePress that is killed says why', async () => {
  await addProgram(parent, 'vitepress', "process.kill(process.pid, 'SIGKILL')");
  const reason = await run(parent, 'VitePress', 'vitepress/bin/vitepress.js', []);
  assert.match(reason ?? '', /SIGKILL, most likely for want of memory/);
});
