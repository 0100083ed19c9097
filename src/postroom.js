#!/usr/bin/env node
/** The program `postroom`. A Node version that cannot read TypeScript reads this, and says which version is needed. */
const NEEDED = 24;
const { node } = process.versions;

if (Number.parseInt(node, 10) < NEEDED) {
  process.stderr.write(
    `postroom needs Node ${NEEDED} or newer, but this is Node ${node}. "npm ci" installs the right one: run "npx postroom" in this folder.\n`,
  );
  process.exit(1);
}
// Its files are mail, keys and password hashes: no other user of this machine may read them.
process.umask(0o077);
const { runCommand } = await import('./cli/cli.ts');
// The service is loaded by the commands that need it: the others start in half the time.
process.exitCode = await runCommand(process.argv.slice(2), {
  async openDatabase(config, logger) {
    const { openForCommand } = await import('./compose/service.ts');
    return openForCommand(config, logger);
  },
  async logInToMailServer(config, addresses) {
    const { logInToMailServer } = await import('./compose/mail-server.ts');
    return logInToMailServer(config, addresses);
  },
  async serve() {
    const { main } = await import('./compose/run.ts');
    await main();
  },
  async startService(config, logger) {
    const { startService } = await import('./compose/service.ts');
    return startService(config, logger);
  },
});
