/**
 * Which file of the site a path names.
 */
import { readdirSync, realpathSync, statSync } from 'node:fs';
import { join, sep } from 'node:path';

/** The files of a built site, by their paths below it. */
export type SiteFiles = ReadonlySet<string>;

/** `app.BxK4d9_1.js`, `quickstart.md.Dw1x99ab.lean.js`: the name changes with the content. */
const hashedName = /^\/docs\/assets\/[\w./@-]{1,200}\.[\w-]{8,64}(?:\.lean)?\.[a-z0-9]{2,5}$/;
/** `inbox.0123456789abcdef/main.js`: the folder's does. */
const inHashedFolder = /^\/docs\/assets\/inbox\.[0-9a-f]{16}\/[\w./-]{1,200}$/;

/** Whether a URL names a content-hashed asset, of which one page may need dozens. */
export function isHashedAsset(url: string): boolean {
  if (!url.startsWith('/docs/assets/')) return false;
  const path = url.split('?', 1)[0] ?? '';
  return hashedName.test(path) || inHashedFolder.test(path);
}

/** Lists what may be served: files that lie in the folder, links resolved, none that is hidden. */
export function listSite(directory: string): SiteFiles {
  const root = realpathSync(directory);
  const names = new Set<string>();
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(root.length + 1).replaceAll(sep, '/');
    const isHidden = name.startsWith('.') || name.includes('/.');
    if (!isHidden && isFileWithin(root, path)) names.add(name);
  }
  // Chosen by Accept-Encoding, never by name.
  for (const name of names) {
    for (const ending of ['.br', '.gz']) names.delete(`${name}${ending}`);
  }
  return names;
}

/** Whether a path, links resolved, is a file below the root. */
function isFileWithin(root: string, path: string): boolean {
  try {
    const real = realpathSync(path);
    return real.startsWith(root + sep) && statSync(real).isFile();
  } catch {
    return false;
  }
}

/** The file that a path below `/docs/` names: itself, the page of that name, a folder's page. */
export function fileAt(files: SiteFiles, path: string): string | undefined {
  const candidates = [path, `${path}.html`, `${path}/index.html`, `${path}index.html`];
  return candidates.find(
    (name) =>
      files.has(name) && (name !== `${path}index.html` || path === '' || path.endsWith('/')),
  );
}

/**
 * The page that a path with a slash too many at its end is meant for: `quickstart` for `quickstart/`.
 *
 * @returns a path below `/docs/`, of characters that a URL may have as they are
 */
export function pageWithoutSlash(files: SiteFiles, path: string): string | undefined {
  const page = path.slice(0, -1);
  const isMeant = path.endsWith('/') && /^[\w./-]+$/.test(page) && files.has(`${page}.html`);
  return isMeant ? page : undefined;
}
