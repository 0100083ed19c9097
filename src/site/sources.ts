/**
 * What a build is made from, and its name.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Where the sources lie. */
export interface SourceFolder {
  /** Absolute path of the folder that has `docs/`, `CHANGELOG.md`, `package.json`, `node_modules/`. */
  readonly root: string;
  /** Absolute path of the folder for builds that are made at installation. */
  readonly builds: string;
}

const root = fileURLToPath(new URL('../../', import.meta.url));

/** The sources that this program came with. */
export const defaultSources: SourceFolder = { root, builds: join(root, 'site') };

/** Packages that make the pages: another release of one of them makes other pages. */
const generators = ['vitepress', 'vue', 'shiki'];

/** What VitePress and its configuration write into `docs/`. */
const written = /^(?:\.vitepress\/(?:cache|dist|\.temp)|reference\/api)(?:\/|\.md$|$)/;

/** The files that a build is made from, relative to the root. */
export function listSources(root: string): string[] {
  const pages = listFiles(join(root, 'docs')).filter(isSource);
  return [...pages.map((name) => `docs/${name}`), 'CHANGELOG.md', 'package.json'];
}

/** Whether a file below `docs/` is a source. */
function isSource(name: string): boolean {
  return !written.test(name) && !name.includes('.timestamp-');
}

/** The name of the build that these sources make: the same for the same content, wherever it lies. */
export function hashSources({ root }: Pick<SourceFolder, 'root'>): string {
  const hash = createHash('sha256');
  const add = (name: string, content: string | Buffer) => {
    const length = Buffer.byteLength(content);
    hash.update(`${name}\0${length}\0`).update(content);
  };
  for (const name of listSources(root)) {
    // Of this file only the releases below count.
    if (name !== 'package.json') add(name, readFileSync(join(root, name)));
  }
  const { dependencies = {} } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  for (const name of generators) add(name, String(dependencies[name]));
  for (const name of listFiles(import.meta.dirname)) {
    if (!name.endsWith('.test.ts')) add(name, readFileSync(join(import.meta.dirname, name)));
  }
  return hash.digest('hex').slice(0, 32);
}

/** Paths of all files below a folder, with `/`, in one order everywhere. */
export function listFiles(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1))
    .map((name) => name.replaceAll('\\', '/'))
    .sort();
}
