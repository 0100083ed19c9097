/**
 * The program `postroom`: for the work of an operator at a terminal or in a script.
 *
 * Each command reads the settings that the service reads (environment and `.env`). Results go to stdout, with
 * `--json` as one JSON object; progress and errors go to stderr. The exit code is 0 where the command did
 * everything, 1 where it did not, 2 where its arguments are wrong.
 */
import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { ConfigError } from '../config/config.ts';
import { backupCommand, restoreCommand, verifyBackupCommand } from './backup.ts';
import { bodiesCommand } from './bodies.ts';
import { CommandFailed, type CommandParts } from './command.ts';
import { demoCommand } from './demo.ts';
import { doctorCommand } from './doctor.ts';
import { operatorCommands } from './operator.ts';
import { rotateCommand } from './rotate.ts';
import { migrateCommand, startCommand } from './run.ts';

/**
 * Runs one command.
 *
 * @param args without the names of Node and program
 * @returns the exit code
 */
export async function runCommand(args: readonly string[], parts: CommandParts): Promise<number> {
  const { version } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  );
  const program = new Command('postroom')
    .description('Runs and maintains an installation of Postroom.')
    .version(version)
    // `trace` and `trace show` both have --json: an option after a command's name belongs to that command.
    .enablePositionalOptions()
    .addCommand(startCommand(parts))
    .addCommand(demoCommand(parts))
    .addCommand(migrateCommand(parts))
    .addCommand(doctorCommand(parts))
    .addCommand(rotateCommand(parts))
    .addCommand(backupCommand())
    .addCommand(verifyBackupCommand())
    .addCommand(restoreCommand())
    .addCommand(bodiesCommand(parts));
  for (const command of operatorCommands()) program.addCommand(command);
  for (const command of [program, ...program.commands, ...program.commands.flatMap(below)]) {
    command.exitOverride().showHelpAfterError();
  }
  try {
    await program.parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (!(error instanceof ConfigError) && !(error instanceof CommandFailed)) throw error;
    const lines = error instanceof ConfigError ? error.lines : [error.message];
    for (const line of lines) process.stderr.write(`${line}\n`);
    return 1;
  }
}

function below(command: Command): readonly Command[] {
  return command.commands;
}
