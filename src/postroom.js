#!/usr/bin/env node
/** The program `postroom`. A Node version that cannot read TypeScript reads this, and says which version is needed. */
import { readFileSync } from 'node:fs';

const NEEDED = 26;
const { node } = process.versions;
const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
const args = process.argv.slice(2);

if (Number.parseInt(node, 10) < NEEDED) {
  process.stderr.write(
    `postroom needs Node ${NEEDED} or newer, but this is Node ${node}. An installation by npm has the right one, unless install scripts are off.\n`,
  );
  process.exit(1);
}
// Answered here: Node takes longer to get ready for TypeScript than for all of this.
if (args[0] === '--version' || args[0] === '-V') {
  process.stdout.write(`${version}\n`);
  process.exit();
}
await import('./keep-compiled.js');
// Its files are mail, keys and password hashes: no other user of this machine may read them.
process.umask(0o077);
const { runCommand } = await import('./run/cli/cli.ts');
// The service is loaded by the commands that need it: the others start in half the time.
process.exitCode = await runCommand(args, {
  version,
  async openDatabase(config, logger, isMove) {
    const { openForCommand } = await import('./run/compose/open-database.ts');
    return openForCommand(config, logger, isMove);
  },
  async logInToMailServer(config, addresses) {
    const { logInToMailServer } = await import('./run/compose/mail-server.ts');
    return logInToMailServer(config, addresses);
  },
  async serve() {
    const { main } = await import('./run/compose/run.ts');
    await main();
  },
  async startService(config, logger) {
    const { startService } = await import('./run/compose/service.ts');
    return startService(config, logger);
  },
});
