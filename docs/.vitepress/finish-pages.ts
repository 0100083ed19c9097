/**
 * What VitePress leaves to do on the pages it has made: they have to fit a Content-Security-Policy
 * without `unsafe-inline`, and are compressed once, so that the server only picks a file.
 */
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

const inlineScript = /<script(?![^>]*\ssrc=)[^>]*>([\s\S]*?)<\/script>/g;
/** Of a tag, not of text: VitePress writes `<` in text as an entity. */
const styleAttribute = /(<[a-z][a-z0-9-]*(?:\s[^<>]*?)?)\sstyle="[^"]*"/g;

const compressible = /\.(?:html|css|js|mjs|json|svg|md|txt)$/;
/** Below this a header costs as much as compression wins, in bytes. */
const WORTH_IT = 512;

/** Paths of all files below a folder, relative to it, with `/`. */
export function listFiles(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1))
    .map((name) => name.replaceAll(sep, '/'))
    .sort();
}

/**
 * Removes the style attributes of the pages (those that matter are in `theme.css`, the rest is set
 * by script), and collects the hashes of the scripts that stand in them.
 *
 * @returns CSP sources, each once (https://www.w3.org/TR/CSP3/#match-element-to-source-list)
 */
export async function collectScripts(directory: string): Promise<string[]> {
  const found = new Set<string>();
  for (const name of listFiles(directory)) {
    if (!name.endsWith('.html')) continue;
    const path = join(directory, name);
    const html = await readFile(path, 'utf8');
    for (const [, script = ''] of html.matchAll(inlineScript)) found.add(sourceOf(script));
    const plain = html.replace(styleAttribute, '$1');
    if (plain !== html) await writeFile(path, plain);
  }
  return [...found].sort();
}

function sourceOf(script: string): string {
  return `'sha256-${createHash('sha256').update(script).digest('base64')}'`;
}

/** One below the best: the files are 3 % larger, and made in a third of the time, for which every installation waits. */
const BROTLI_QUALITY = constants.BROTLI_MAX_QUALITY - 1;

/** Writes `name.br` and `name.gz` beside each file that becomes smaller by it. */
export async function compressFiles(directory: string): Promise<void> {
  const paths = listFiles(directory)
    .filter((file) => compressible.test(file))
    .map((name) => join(directory, name));
  await Promise.all(paths.map(compressFile));
}

async function compressFile(path: string): Promise<void> {
  const content = await readFile(path);
  if (content.length < WORTH_IT) return;
  const br = await promisify(brotliCompress)(content, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY,
      [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
    },
  });
  const gz = await promisify(gzip)(content, { level: constants.Z_BEST_COMPRESSION });
  if (br.length < content.length) await writeFile(`${path}.br`, br);
  if (gz.length < content.length) await writeFile(`${path}.gz`, gz);
}
