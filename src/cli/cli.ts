/**
 * The program `postroom`: what an operator does with an installation from a terminal or a script.
 *
 * Each command reads the settings that the service reads (environment and `.env`). Results go to stdout, with
 * `--json` as one JSON object; progress and what is wrong go to stderr. The exit code is 0 where the command
 * did all it was asked, 1 where it did not, 2 where it was called wrongly.
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
    // `trace` and `trace show` both have --json: what comes after a command's name is that command's.
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
