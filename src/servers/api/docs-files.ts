/** The files of the site: the list, the file of a path, and the files outside of the rate limit. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** The site as it was in its folder at the start. */
export interface Site {
  /** Absolute path of the folder that lies below `/docs/`. */
  readonly directory: string;
  /** What may be served, by paths below the folder. */
  readonly files: ReadonlySet<string>;
  /** CSP sources (`'sha256-...'`) of the inline scripts of the pages. */
  readonly scripts: readonly string[];
}

/** `app.BxK4d9_1.js`, `quickstart.md.Dw1x99ab.lean.js`: the name changes with the content. */
const hashedName =
  /^\/(?:docs|console|webmail)\/assets\/[\w./@-]{1,200}\.[\w-]{8,64}(?:\.lean)?\.[a-z0-9]{2,5}$/;

/** Whether a path names a file whose name changes with its content. */
export function isHashedAsset(path: string): boolean {
  return hashedName.test(path);
}

/** Whether a URL names one of the dozens of files that a page loads: the rate limit does not count them. */
export function isPartOfPage(url: string): boolean {
  return isHashedAsset(url.split('?', 1)[0] ?? '');
}

/** Reads the result of the build from a folder; without a build the site is empty. */
export function openSite(directory: string): Site {
  try {
    return { directory, files: listSite(directory), scripts: readScripts(directory) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return { directory, files: new Set(), scripts: [] };
  }
}

/** `.build.json` exists when the site has pages, and not only markdown. */
function readScripts(directory: string): readonly string[] {
  const path = join(directory, '.build.json');
  return statSync(path, { throwIfNoEntry: false }) === undefined
    ? []
    : JSON.parse(readFileSync(path, 'utf8')).scripts;
}

/** Lists the files to serve: none that is hidden, and no links, which could lead anywhere. */
function listSite(directory: string): ReadonlySet<string> {
  const names = new Set(filesBelow(directory));
  // Selected by Accept-Encoding, never by name.
  for (const name of names) {
    for (const ending of ['.br', '.gz']) names.delete(`${name}${ending}`);
  }
  return names;
}

function filesBelow(directory: string, prefix = ''): string[] {
  return readdirSync(join(directory, prefix), { withFileTypes: true }).flatMap((entry) => {
    if (entry.name.startsWith('.')) return [];
    const name = prefix + entry.name;
    if (entry.isDirectory()) return filesBelow(directory, `${name}/`);
    return entry.isFile() ? [name] : [];
  });
}

/**
 * The file that a path below `/docs/` names: itself, the page of that name, a folder's page. Where
 * the site has no pages, that is the markdown of the page.
 */
export function fileAt({ files }: Site, path: string): string | undefined {
  // Console and webmail have paths of their own.
  if (/^(?:console|webmail)\//.test(path)) return undefined;
  if (files.has(path)) return path;
  const isFolder = path === '' || path.endsWith('/');
  const names = isFolder ? [`${path}index`] : [path, `${path}/index`];
  return names.flatMap((name) => [`${name}.html`, `${name}.md`]).find((name) => files.has(name));
}

/**
 * The page for a path with an extra slash at its end: `quickstart` for `quickstart/`.
 *
 * @returns a path below `/docs/`, of characters that need no encoding in a URL
 */
export function pageWithoutSlash({ files }: Site, path: string): string | undefined {
  const page = path.slice(0, -1);
  if (!path.endsWith('/') || !/^[\w./-]+$/.test(page)) return undefined;
  return files.has(`${page}.html`) || files.has(`${page}.md`) ? page : undefined;
}
