/**
 * Fits the pages to a Content-Security-Policy without `unsafe-inline`: hashes of the scripts that
 * stand in them, and no style attributes.
 */
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { listFiles } from './sources.ts';

const inlineScript = /<script(?![^>]*\ssrc=)[^>]*>([\s\S]*?)<\/script>/g;
/** Of a tag, not of text: VitePress writes `<` in text as an entity. */
const styleAttribute = /(<[a-z][a-z0-9-]*(?:\s[^<>]*?)?)\sstyle="[^"]*"/g;

/**
 * Removes the style attributes that VitePress renders (those that matter are in `theme.css`, the
 * rest is set by script), and collects the hashes.
 *
 * @returns CSP sources, each once (https://www.w3.org/TR/CSP3/#match-element-to-source-list)
 */
export async function collectScripts(directory: string): Promise<string[]> {
  const found = new Set<string>();
  for (const name of listFiles(directory)) {
    // The live inbox has a policy of its own, and no inline scripts.
    if (!name.endsWith('.html') || name.startsWith('inbox/')) continue;
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
