/**
 * `npm run sdk:build`: compiles the SDK into `packages/sdk/dist`, as it is published, and describes it in `llms.txt` and in
 * the pages of `docs/reference/sdk/`.
 */
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readEntryPoints } from './describe-types.ts';
import { writeReference } from './write-reference.ts';

const folder = fileURLToPath(new URL('./', import.meta.url));
const compiler = fileURLToPath(new URL('../../node_modules/.bin/tsc', import.meta.url));

rmSync(`${folder}dist`, { recursive: true, force: true });
execFileSync(compiler, ['-p', folder], { stdio: 'inherit' });
// The compiler leaves the `.ts` of imports in declarations, which some editors do not follow.
for (const file of globSync(`${folder}dist/**/*.d.ts`)) {
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, text.replaceAll(/(from '\.[^']*)\.ts'/g, "$1.js'"));
}
const entryPoints = readEntryPoints(folder);
const pages = fileURLToPath(new URL('../../docs/reference/sdk', import.meta.url));
writeFileSync(`${folder}llms.txt`, writeReference(pages, entryPoints));
