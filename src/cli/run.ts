/** `postroom start` and `postroom migrate`: what brings an installation up. */
import { Command } from 'commander';
import { pino } from 'pino';
import { readConfig } from '../config/config.ts';
import { schemaVersions } from '../database/database.ts';
import { type CommandParts, report } from './command.ts';

export function startCommand(parts: CommandParts): Command {
  return new Command('start')
    .description('runs the service until SIGTERM or Ctrl-C, as "npm start" does')
    .action(() => parts.serve());
}

const MIGRATE_HELP = `
A start does the same. As a step of its own it lets you see the migration before any node is replaced.
A database that a newer program made is left as it is: it is refused, unless it says that this program may use it.`;

export function migrateCommand(parts: CommandParts): Command {
  return new Command('migrate')
    .description('brings the database to the schema of this program, and ends')
    .option('--json', 'writes the result as JSON')
    .addHelpText('after', MIGRATE_HELP)
    .action(({ json }: { json?: true }) => migrate(parts, json));
}

async function migrate(parts: CommandParts, json: true | undefined): Promise<void> {
  const { database, close } = await parts.openDatabase(
    readConfig(process.env),
    // What takes time is told while it is done.
    pino({ level: 'info' }, { write: tellLine }),
  );
  try {
    const { version, newest } = await schemaVersions(database);
    const text =
      version > newest
        ? `The database is of version ${version}, newer than this program's ${newest}, which may use it: nothing was done.`
        : `The database is of version ${version}, as this program needs it.`;
    report(json, { ok: true, version, newest }, text);
  } finally {
    await close();
  }
}

function tellLine(line: string): void {
  const { msg }: { msg: string } = JSON.parse(line);
  process.stderr.write(`${msg}\n`);
}
