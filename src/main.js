/**
 * The process. `main.ts` is a link to this file: a Node version that cannot read TypeScript reads this, and says which
 * version is needed.
 */
import module from 'node:module';
import { fileURLToPath } from 'node:url';

const NEEDED = 26;
const { node } = process.versions;

if (Number.parseInt(node, 10) < NEEDED) {
  process.stderr.write(
    `Postroom needs Node ${NEEDED} or newer, but this is Node ${node}. "npm ci" installs the right one: start with "npm start" or "node_modules/.bin/node src/main.ts".\n`,
  );
  process.exit(1);
}
// The next start takes two thirds of the time with what this one compiled. A folder that cannot be written keeps nothing.
// Threads find the folder by the variable.
process.env.NODE_COMPILE_CACHE ||= fileURLToPath(
  new URL('../node_modules/.cache/compiled', import.meta.url),
);
module.enableCompileCache(process.env.NODE_COMPILE_CACHE);
const { main } = await import('./run/compose/run.ts');
await main();
