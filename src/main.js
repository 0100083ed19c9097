/**
 * The process. `main.ts` is a link to this file: a Node version that cannot read TypeScript reads this, and says which
 * version is needed.
 */
const NEEDED = 26;
const { node } = process.versions;

if (Number.parseInt(node, 10) < NEEDED) {
  process.stderr.write(
    `Postroom needs Node ${NEEDED} or newer, but this is Node ${node}. "npm ci" installs the right one: start with "npm start" or "node_modules/.bin/node src/main.ts".\n`,
  );
  process.exit(1);
}
await import('./keep-compiled.js');
const { main } = await import('./run/compose/run.ts');
await main();
