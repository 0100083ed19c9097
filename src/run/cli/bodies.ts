/** `postroom bodies`: where the sources of messages above 64 KiB are stored. */
import { Command, Option } from 'commander';
import { pino } from 'pino';
import {
  BodyFolder,
  type BodyStore,
  type Moved,
  MoveRefused,
  moveBodies,
  openBodyStore,
  StoreUnavailable,
} from '../../mailboxes/bodies/bodies.ts';
import type { Database } from '../../platform/database/database.ts';
import { doAloneOn, LeaseTaken, listRunningNodes } from '../../platform/nodes/nodes.ts';
import { type Config, ConfigError, readConfig } from '../config/config.ts';
import { CommandFailed, type CommandParts, formatBytes, openProgress, report } from './command.ts';

interface MoveArguments {
  readonly to: 's3' | 'folder';
  readonly json?: true;
}

const MOVE_HELP = `
Stop the service first: while it runs, nothing is moved. S3_URL names the bucket, for both directions.
Every body is read back and compared before the old one goes to the quarantine of the store it was in.
After an interrupted run, the same command continues the move.`;

export function bodiesCommand(parts: CommandParts): Command {
  const move = new Command('move')
    .description('moves all bodies between the folder and the bucket')
    .addOption(
      new Option('--to <place>', 'where the bodies are moved to')
        .choices(['s3', 'folder'])
        .makeOptionMandatory(),
    )
    .option('--json', 'prints the result as JSON')
    .addHelpText('after', MOVE_HELP)
    .action((given: MoveArguments) => runMove(parts, given));
  return new Command('bodies').description('sources of messages above 64 KiB').addCommand(move);
}

async function runMove(parts: CommandParts, { to, json }: MoveArguments): Promise<void> {
  const config = readConfig(process.env);
  if (!config.bodies.bucket) {
    throw new ConfigError([
      'S3_URL: expected the bucket that bodies are moved to or from, got nothing',
    ]);
  }
  const { database, close } = await parts.openDatabase(config, pino({ level: 'silent' }));
  const bucket = await openBodyStore(config.bodies);
  const folder = new BodyFolder(config.bodies.folder);
  const [from, target] = to === 's3' ? [folder, bucket] : [bucket, folder];
  try {
    const moved = await move(config, database, from, target);
    const { bodies, octets, missing } = moved;
    const old = `${from.place}/quarantine`;
    const result = { ok: true, bodies, octets, missing, to: target.place, old };
    report(json, result, describeMove(moved, from, target, to));
  } finally {
    bucket.close();
    await close();
  }
}

async function move(
  config: Config,
  database: Database,
  from: BodyStore,
  to: BodyStore,
): Promise<Moved> {
  const checkStopped = async (signal?: AbortSignal) => {
    if (signal?.aborted) {
      throw new CommandFailed(
        'the database did not answer for a while, so that another process may be moving bodies: run this command again to continue',
      );
    }
    const running = await listRunningNodes(database);
    if (running.length === 0) return;
    throw new CommandFailed(
      `the service is running on ${running.join(', ')}: stop it, then run this command again to continue`,
    );
  };
  await checkStopped();
  const show = openProgress();
  const onProgress = (done: number, total: number, octets: number) =>
    show(`${done} of ${total} bodies are in ${to.place}, ${formatBytes(octets)} copied`);
  try {
    return await doAloneOn(database, 'move of bodies', (signal) =>
      moveBodies({
        database,
        from,
        to,
        onProgress,
        checkStopped: () => checkStopped(signal),
      }),
    );
  } catch (error) {
    if (error instanceof LeaseTaken) {
      throw new CommandFailed(
        'another `postroom bodies move` is moving the bodies of this database',
      );
    }
    if (error instanceof StoreUnavailable && config.bodies.bucket) {
      throw new CommandFailed(`${error.message}; run this command again to continue`);
    }
    throw error instanceof MoveRefused ? new CommandFailed(error.message) : error;
  } finally {
    show();
  }
}

function describeMove(
  { bodies, octets, missing }: Moved,
  from: BodyStore,
  to: BodyStore,
  place: MoveArguments['to'],
): string {
  const next =
    place === 's3' ? 'Start the service with S3_URL set.' : 'Start the service without S3_URL.';
  return [
    `${bodies} bodies are in ${to.place} and were read back; this run copied ${formatBytes(octets)}.`,
    ...missing.map((name) => `${name} was in neither place: restore it from a backup.`),
    `${next} The old copies are in ${from.place}/quarantine: remove them once the new store is checked.`,
  ].join('\n');
}
