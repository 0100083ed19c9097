/** `postroom start` and `postroom migrate`. */
import { Command } from 'commander';
import { pino } from 'pino';
import { schemaVersions } from '../../platform/database/database.ts';
import { readConfig } from '../config/config.ts';
import { type CommandParts, helpText, report } from './command.ts';
import { requireDatabase } from './read-database.ts';

export function startCommand(parts: CommandParts): Command {
  return new Command('start')
    .description('runs the service until SIGTERM or Ctrl-C, as "npm start" does')
    .action(() => parts.serve());
}

const MIGRATE_HELP = `
A start does the same. As a separate step, it shows the migration before any node is replaced. It makes no SQLite
database where there is none.
The command never changes a database of a newer program. It refuses such a database, unless the database says that
this program may use it.`;

export function migrateCommand(parts: CommandParts): Command {
  return new Command('migrate')
    .description('migrates the database to the schema of this program, and exits')
    .option('--json', 'prints the result as JSON')
    .addHelpText('after', helpText(MIGRATE_HELP))
    .action(({ json }: { json?: true }) => migrate(parts, json));
}

async function migrate(parts: CommandParts, json: true | undefined): Promise<void> {
  const config = readConfig(process.env);
  if (!config.database.urls) requireDatabase(config.dataDir);
  const { database, close } = await parts.openDatabase(
    config,
    // Slow steps are reported while they run.
    pino({ level: 'info' }, { write: tellLine }),
  );
  try {
    const { version, newest } = await schemaVersions(database);
    const text =
      version > newest
        ? `The database has schema version ${version}, newer than ${newest} of this program, and this program may use it: nothing was done.`
        : `The database has schema version ${version}, which this program needs.`;
    report(json, { ok: true, version, newest }, text);
  } finally {
    await close();
  }
}

function tellLine(line: string): void {
  const { msg }: { msg: string } = JSON.parse(line);
  process.stderr.write(`${msg}\n`);
}
