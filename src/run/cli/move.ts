/** `postroom move`: a data folder to PostgreSQL, and the sources of large messages to a bucket or back. */
import { existsSync } from 'node:fs';
import { Command } from 'commander';
import { sql } from 'kysely';
import { pino } from 'pino';
import {
  BodyFolder,
  type BodyStore,
  copyBodies,
  MoveRefused,
  moveBodies,
  openBodyStore,
  StoreUnavailable,
  switchStores,
} from '../../mailboxes/bodies/bodies.ts';
import {
  type Database,
  FillRefused,
  isStorageFull,
  isWithoutRight,
  type Queries,
  UnfitDatabase,
  whileAlone,
} from '../../platform/database/database.ts';
import { many } from '../../platform/errors/errors.ts';
import { listRunningNodes } from '../../platform/nodes/nodes.ts';
import {
  bucketUrl,
  type Config,
  ConfigError,
  databaseFile,
  databaseUrl,
  fileSecretStore,
  readArgument,
  readConfig,
  readMove,
  redactUrl,
} from '../config/config.ts';
import {
  type BodiesMove,
  MovedElsewhere,
  MoveFailed,
  moveData,
  type Progress,
} from '../move/move.ts';
import {
  CommandFailed,
  type CommandParts,
  formatBytes,
  helpText,
  openBar,
  report,
} from './command.ts';

interface MoveArguments {
  readonly to?: string;
  readonly bodies?: string;
  readonly json?: true;
}

const MOVE_HELP = `
Stop the service first, on all nodes. --to names an empty database. All rows are copied, counted and compared; every
body is read back and compared. After an interrupted run, the same command goes on. Until all is there, the service
starts as before; from then on, only with the new settings. Nothing is removed from DATA_DIR: old bodies go to
quarantine. A password need not stand in the command: PGPASSWORD may have that of --to, and "--bodies s3" takes the
bucket of S3_URL.`;

export function moveCommand(parts: CommandParts): Command {
  return new Command('move')
    .description('moves a data folder to PostgreSQL, and the sources of large messages')
    .option('--to <url>', 'the PostgreSQL database that the data folder is moved to')
    .option(
      '--bodies <place>',
      'where bodies are moved to: the URL of a bucket, s3 (that of S3_URL), or folder (DATA_DIR)',
    )
    .option('--json', 'prints the result as JSON')
    .addHelpText('after', helpText(MOVE_HELP))
    .action((given: MoveArguments) => runMove(parts, given));
}

async function runMove(parts: CommandParts, given: MoveArguments): Promise<void> {
  const config = readConfig(process.env);
  const { to, bodies } = given;
  if (to === undefined && bodies === undefined) {
    throw new CommandFailed('expected --to, --bodies or both, got neither', 2);
  }
  const stores = bodies === undefined ? undefined : await openStores(config, bodies);
  try {
    if (to === undefined) await moveOnlyBodies(parts, config, stores, given);
    else await moveAll(parts, config, to, stores, given);
  } finally {
    stores?.from.close();
    stores?.to.close();
  }
}

interface Stores {
  readonly from: BodyStore;
  readonly to: BodyStore;
  /** The setting that the new store needs. */
  readonly setting: string;
}

async function openStores({ bodies }: Config, location: string): Promise<Stores> {
  const folder = new BodyFolder(bodies.folder);
  if (location === 'folder') {
    if (!bodies.bucket) {
      throw new ConfigError([
        'S3_URL: expected the bucket that bodies are moved from, got nothing',
      ]);
    }
    const from = await openBodyStore(bodies);
    return { from, to: folder, setting: 'without S3_URL' };
  }
  if (location === 's3' && !bodies.bucket) {
    throw new ConfigError(['S3_URL: expected the bucket that bodies are moved to, got nothing']);
  }
  const bucket = location === 's3' ? bodies.bucket : readArgument('--bodies', bucketUrl, location);
  const to = await openBodyStore({ ...bodies, bucket });
  const now = await openBodyStore(bodies);
  // S3_URL may name the new bucket already.
  const from = now.location === to.location ? folder : now;
  return { from, to, setting: `with S3_URL set to ${to.location} and its key` };
}

async function moveOnlyBodies(
  parts: CommandParts,
  config: Config,
  stores: Stores | undefined,
  { json }: MoveArguments,
): Promise<void> {
  if (!stores) return;
  const { database, close } = await parts.openDatabase(config, pino({ level: 'silent' }));
  const { from, to, setting } = stores;
  const bar = openBar();
  try {
    const move = (held?: Queries) =>
      moveBodies({
        database,
        from,
        to,
        onProgress: showBodies(bar, to),
        checkStopped: () => checkStopped(database, held),
      });
    const { urls } = config.database;
    // On SQLite the folder is locked.
    const moved = urls ? await whileAlone(urls, 'bodies', move) : { made: await move() };
    if (!moved) {
      throw new CommandFailed('another `postroom move` is moving the bodies of this database');
    }
    const { bodies, octets, missing } = moved.made;
    const old = `${from.location}/quarantine`;
    const text = [
      `${many(bodies, 'body is', 'bodies are')} in ${to.location}, read back and compared; this run copied ${formatBytes(octets)}.`,
      ...tellMissing(missing),
      `Start the service ${setting}. The old copies are in ${old}: remove them once the new store is checked.`,
    ];
    bar.end();
    report(json, { ok: true, bodies, octets, missing, to: to.location, old }, text.join('\n'));
  } catch (error) {
    bar.end();
    throw explainBodies(error) ?? error;
  } finally {
    await close();
  }
}

/** @param held holds the lock */
async function checkStopped(database: Database, held: Queries | undefined): Promise<void> {
  if (held && !(await sql`select 1`.execute(held).catch(() => undefined))) {
    throw new CommandFailed(
      'the connection to the database was lost, so that another process may be moving bodies: run this command again to continue',
    );
  }
  const running = await listRunningNodes(database);
  if (running.length === 0) return;
  throw new CommandFailed(
    `the service is running on ${running.join(', ')}: stop it, then run this command again to continue`,
  );
}

function showBodies(bar: Bar, to: BodyStore) {
  return (done: number, total: number, octets: number) =>
    bar.show({ name: `bodies to ${to.location}`, done, total, octets });
}

type Bar = ReturnType<typeof openBar>;

function tellMissing(missing: readonly string[]): string[] {
  return missing.map((name) => `${name} was in neither place: restore it from a backup.`);
}

function explainBodies(error: unknown): CommandFailed | undefined {
  if (error instanceof StoreUnavailable) {
    return new CommandFailed(`${error.message}; run this command again to continue`);
  }
  return error instanceof MoveRefused ? new CommandFailed(error.message) : undefined;
}

async function moveAll(
  parts: CommandParts,
  config: Config,
  to: string,
  stores: Stores | undefined,
  { json }: MoveArguments,
): Promise<void> {
  const { dataDir } = config;
  const urls = readArgument('--to', databaseUrl, to);
  const location = urls.map((url) => redactUrl(url) ?? '').join(', ');
  if (config.database.urls) {
    throw new CommandFailed(
      'DATABASE_URL: the service is on PostgreSQL, but only a data folder of SQLite is moved: leave DATABASE_URL out',
    );
  }
  if (!existsSync(databaseFile(dataDir))) {
    throw new CommandFailed(`DATA_DIR: ${dataDir} has no database of SQLite: nothing is moved`);
  }
  const { database, close } = await parts.openDatabase(config, pino({ level: 'silent' }), true);
  const bar = openBar();
  const missing: string[] = [];
  try {
    const moved = await moveData({
      dataDir,
      source: database,
      secrets: await fileSecretStore(dataDir).read(),
      urls,
      to: location,
      bodies: stores && bodiesMove(database, stores, bar, missing),
      onProgress: (progress: Progress) => bar.show(progress),
    });
    bar.end();
    const settings = { database_url: location, bodies: stores?.to.location ?? null };
    report(
      json,
      { ok: true, ...moved, ...settings, missing },
      describeMoved(moved, location, stores, missing),
    );
  } catch (error) {
    bar.end();
    throw await explain(error, dataDir);
  } finally {
    await close();
  }
}

function bodiesMove(
  database: Database,
  { from, to }: Stores,
  bar: Bar,
  missing: string[],
): BodiesMove {
  // The folder is locked, so that no service is started.
  const stores = { database, from, to, checkStopped: async () => {} };
  return {
    location: to.location,
    async copy() {
      const copied = await copyBodies({ ...stores, onProgress: showBodies(bar, to) });
      missing.push(...copied.missing);
      const { bodies: done, octets } = copied;
      const ended = `copied ${many(done, 'body', 'bodies')} to ${to.location}, ${formatBytes(octets)} in this run`;
      bar.show({ name: 'bodies', done, total: done, octets, ended });
    },
    finish: () => switchStores(stores),
  };
}

function describeMoved(
  { wasComplete, tables, rows }: Awaited<ReturnType<typeof moveData>>,
  location: string,
  stores: Stores | undefined,
  missing: readonly string[],
): string {
  const settings = `Start the service with DATABASE_URL set to ${location}${stores ? `, and ${stores.setting}` : ''}.`;
  if (wasComplete) return `Everything was moved to ${location} already. ${settings}`;
  return [
    `${rows} rows of ${tables} tables are in ${location}, and were compared with those of the folder.`,
    ...tellMissing(missing),
    settings,
    'DATA_DIR stays as it is, and starts only with these settings. The first start fills the search index: until then, searches say "indexing".',
  ].join('\n');
}

/** What the operator can do about an error; where the service can start now. */
async function explain(error: unknown, dataDir: string): Promise<unknown> {
  if (error instanceof MovedElsewhere) return new CommandFailed(error.message);
  const said = explainBodies(error)?.message ?? explainData(error);
  if (said === undefined) return error;
  const isComplete = (await readMove(dataDir).catch(() => undefined))?.isComplete;
  const where = isComplete
    ? 'All data is in the new database: run the command again to end the move.'
    : 'Nothing changed in DATA_DIR, and the service starts there as before.';
  return new CommandFailed(`${said}\n${where}`);
}

function explainData(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  if (error instanceof MoveFailed || error instanceof FillRefused) return error.message;
  if (error instanceof UnfitDatabase) return `--to: ${error.message}`;
  const code = 'code' in error ? String(error.code) : '';
  if (isStorageFull(error)) {
    const whose = code === '53100' ? 'the PostgreSQL server' : 'DATA_DIR';
    return `the disk of ${whose} is full (${error.message}): make room, and run the command again to go on`;
  }
  if (isWithoutRight(error)) {
    return `--to: expected a user who may make tables in this database, got "${error.message}": make the user its owner, or grant CREATE on its schema`;
  }
  const isOfFile = 'syscall' in error && 'path' in error;
  if (isOfFile) return error.message;
  if (code === '' && !/connect|terminat|PostgreSQL/i.test(error.message)) return undefined;
  return `--to: expected a database that Postroom can log in to and write to, got "${error.message || code}"; an interrupted move goes on when the command is run again`;
}
