/**
 * The program `postroom`: for the work of an operator at a terminal or in a script.
 *
 * Each command reads the settings that the service reads (environment and `.env`). Results go to stdout, with
 * `--json` as one JSON object; progress and errors go to stderr. The exit code is 0 where the command did
 * everything, 1 where it did not, 2 where its arguments are wrong.
 */
import { Command, CommanderError } from 'commander';
import { CommandFailed, type CommandParts } from './command.ts';

/** Descriptions wrap beside long names, too. */
const HELP = { minWidthToWrap: 20 };

type Load = (parts: CommandParts) => Promise<Command>;

/** The commands in the order of the help. Only the one that is called is loaded: some need most of the service. */
const commands: Readonly<Record<string, Load>> = {
  start: async (parts) => (await import('./run.ts')).startCommand(parts),
  demo: async (parts) => (await import('./demo.ts')).demoCommand(parts),
  migrate: async (parts) => (await import('./run.ts')).migrateCommand(parts),
  doctor: async (parts) => (await import('./doctor.ts')).doctorCommand(parts),
  rotate: async (parts) => (await import('./rotate.ts')).rotateCommand(parts),
  backup: async (parts) => (await import('./backup.ts')).backupCommand(parts),
  'verify-backup': async () => (await import('./backup.ts')).verifyBackupCommand(),
  restore: async () => (await import('./backup.ts')).restoreCommand(),
  move: async (parts) => (await import('./move.ts')).moveCommand(parts),
  domains: async () => (await import('./domains.ts')).domainsCommand(),
  accounts: async () => (await import('./accounts.ts')).accountsCommand(),
  'app-passwords': async () => (await import('./mail-programs.ts')).appPasswordsCommand(),
  'imap-sessions': async () => (await import('./mail-programs.ts')).imapSessionsCommand(),
  queue: async () => (await import('./queue.ts')).queueCommand(),
  messages: async () => (await import('./messages.ts')).messagesCommand(),
  trace: async () => (await import('./operator.ts')).traceCommand(),
  blocks: async () => (await import('./operator.ts')).blocksCommand(),
  keys: async () => (await import('./keys.ts')).keysCommand(),
  usage: async () => (await import('./operator.ts')).usageCommand(),
  audit: async () => (await import('./operator.ts')).auditCommand(),
  attention: async () => (await import('./operator.ts')).attentionCommand(),
};

/** The command that these arguments call; all of them for the help. */
function commandsFor([first = '']: readonly string[]): readonly Load[] {
  const called = Object.hasOwn(commands, first) ? commands[first] : undefined;
  return called ? [called] : Object.values(commands);
}

/**
 * Runs one command.
 *
 * @param args without the names of Node and program
 * @returns the exit code
 */
export async function runCommand(args: readonly string[], parts: CommandParts): Promise<number> {
  const program = new Command('postroom')
    .description('Runs and maintains an installation of Postroom.')
    .version(parts.version)
    // `trace` and `trace show` both have --json: an option after a command's name belongs to that command.
    .enablePositionalOptions();
  for (const load of commandsFor(args)) program.addCommand(await load(parts));
  for (const command of [
    program,
    ...program.commands,
    ...program.commands.flatMap((one) => one.commands),
  ]) {
    command.exitOverride().configureOutput({ outputError }).configureHelp(HELP);
  }
  try {
    await program.parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    // Loaded by now, where this is one of its errors.
    const { ConfigError } = await import('../config/config.ts');
    if (error instanceof CommandFailed) {
      process.stderr.write(`${error.say(args)}\n`);
      return error.exitCode;
    }
    const lines = error instanceof ConfigError ? error.lines : [await sayFailure(error)];
    for (const line of lines) process.stderr.write(`${line}\n`);
    return 1;
  }
}

/** What the database failed with, such as that it does not answer. @throws the error where it is another one */
async function sayFailure(error: unknown): Promise<string> {
  const { refusalOfFailure } = await import('../../platform/database/database.ts');
  const refusal = refusalOfFailure(error);
  if (!refusal || !(error instanceof Error)) throw error;
  return `${refusal.message}: ${error.message}`;
}

/** One line: what is wrong, and what was perhaps meant. */
function outputError(text: string, write: (text: string) => void): void {
  const [said = '', ...more] = text.trim().split('\n');
  // Below it stands a guess, `(Did you mean list?)`, where there is one.
  write(`${[said, ...more.map((line) => line.replace('(Did', '(did'))].join(' ')}\n`);
}
