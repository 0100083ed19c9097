/**
 * Makes `dist/` for the package: `src/` as JavaScript, since Node reads no TypeScript below node_modules. `npm pack`
 * runs it.
 *
 * Types become spaces, as when Node runs the TypeScript: lines and columns stay the same. The folder lies where `src/`
 * lies, so paths to files outside of it stay the same, too.
 */
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');

/** What only tests need; `main.ts` is a link to `main.js`. */
const leftOut = /\/dialogues(?:\/|$)|\.test\.ts$|^src\/main\.ts$/;

rmSync(dist, { recursive: true, force: true });
const isPacked = (path: string) => !leftOut.test(path.slice(root.length));
cpSync(join(root, 'src'), dist, { recursive: true, filter: isPacked });
for (const name of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
  const path = join(dist, name);
  const ending = /\.[jt]s$/.exec(name)?.[0];
  if (ending === undefined) continue;
  const source = readFileSync(path, 'utf8');
  const script = ending === '.ts' ? stripTypeScriptTypes(source) : source;
  // In imports, and in the URLs of threads.
  const linked = script.replaceAll(/(['"])(\.\.?\/[^'"\n]*)\.ts\1/g, '$1$2.js$1');
  if (ending === '.ts') rmSync(path);
  writeFileSync(path.replace(/\.ts$/, '.js'), linked);
}
