/** `postroom backup`, `verify-backup` and `restore`. */
import { resolve } from 'node:path';
import { Command } from 'commander';
import { type BodyStore, openBodyStore, StoreUnavailable } from '../../mailboxes/bodies/bodies.ts';
import { isStorageFull } from '../../platform/database/database.ts';
import type { Manifest } from '../backup/backup.ts';
import { type Config, databaseFile, readConfig, secretsPath } from '../config/config.ts';
import {
  CommandFailed,
  type CommandParts,
  formatBytes,
  helpText,
  openProgress,
  report,
} from './command.ts';
import { openToRead } from './read-database.ts';

/** Only where it is needed: it takes longer to load than most commands take. */
function loadBackup(): Promise<typeof import('../backup/backup.ts')> {
  return import('../backup/backup.ts');
}

interface Arguments {
  readonly json?: true;
  readonly noted?: true;
  readonly allowMissingBodies?: true;
}

/** For verify-backup and restore. */
const ALLOW_MISSING = [
  '--allow-missing-bodies',
  'accepts that bodies are missing, and lists them',
] as const;

const BACKUP_HELP = `
The service may run meanwhile. The command creates FOLDER, which must be empty. The backup contains all keys: protect
it like DATA_DIR. Settings (.env) are not in it. The folder of an interrupted run has no backup.json, and all other
commands refuse it. With S3_URL, bodies stay in the bucket: copy it within BODY_KEEP_HOURS, or let it keep versions.
At the end it notes when it began, for BACKUP_MAX_AGE_HOURS. After a backup with another program, "postroom backup
--noted" only notes that.`;

export function backupCommand({ version }: CommandParts): Command {
  return new Command('backup')
    .description('makes a backup while the service runs')
    .argument('[folder]', 'the folder that the backup is written to')
    .option('--noted', 'makes none, and notes that another program has made one now')
    .option('--json', 'prints the result as JSON')
    .addHelpText('after', helpText(BACKUP_HELP))
    .action((folder: string | undefined, { json, noted }: Arguments) => {
      if ((folder === undefined) !== (noted === true)) {
        throw new CommandFailed('backup: name a folder, or use --noted alone', 2);
      }
      const config = readConfig(process.env);
      return carryOut(config, async (onProgress, store) => {
        if (folder === undefined) return note(store, json);
        const made = await backup(config, resolve(folder), version, store, onProgress);
        const result = { ok: true, folder: resolve(folder), ...made };
        report(json, result, describe(made, `The backup was written to ${resolve(folder)}`));
      });
    });
}

async function note(store: BodyStore, json: true | undefined): Promise<void> {
  const { noteBackup } = await loadBackup();
  const now = new Date();
  await noteBackup(store, now);
  const made_at = now.toISOString();
  report(
    json,
    { ok: true, made_at },
    `Noted in ${store.location}: a backup was made at ${made_at}.`,
  );
}

export function verifyBackupCommand(): Command {
  return new Command('verify-backup')
    .description(
      'checks that a backup can be restored: digests, database and every body that the database names',
    )
    .argument('<folder>', 'the folder of the backup')
    .option(...ALLOW_MISSING)
    .option('--json', 'prints the result as JSON')
    .action((folder: string, { json, allowMissingBodies }: Arguments) => {
      const config = readConfig(process.env);
      return carryOut(config, async (onProgress, store) => {
        const { verifyBackup } = await loadBackup();
        const bucket = config.bodies.bucket && store;
        const manifest = await verifyBackup({
          folder: resolve(folder),
          bucket,
          allowMissingBodies: allowMissingBodies ?? false,
          onProgress,
        });
        report(json, { ok: true, ...manifest }, describe(manifest, 'The backup can be restored'));
      });
    });
}

const RESTORE_HELP = `
DATA_DIR must be empty, and so must the database of DATABASE_URL. The whole backup is checked first. After an
interrupted restore, no service starts on the folder; the same command starts the restore again. After a restore, apps
sync from the beginning, and deliveries that waited when the backup was made are attempted again.`;

export function restoreCommand(): Command {
  return new Command('restore')
    .description('restores a backup into an empty DATA_DIR and, on PostgreSQL, an empty database')
    .argument('<folder>', 'the folder of the backup')
    .option(...ALLOW_MISSING)
    .option('--json', 'prints the result as JSON')
    .addHelpText('after', helpText(RESTORE_HELP))
    .action((folder: string, { json, allowMissingBodies }: Arguments) => {
      const config = readConfig(process.env);
      const { dataDir } = config;
      return carryOut(config, async (onProgress, store) => {
        const { restoreBackup } = await loadBackup();
        const manifest = await restoreBackup({
          folder: resolve(folder),
          dataDir,
          urls: config.database.urls,
          bucket: config.bodies.bucket && store,
          allowMissingBodies: allowMissingBodies ?? false,
          onProgress,
        });
        const said = `The backup was restored into ${dataDir}; start the service`;
        report(json, { ok: true, data_dir: dataDir, ...manifest }, describe(manifest, said));
      });
    });
}

/** Runs a command with the store of bodies of the settings. */
async function carryOut(
  config: Config,
  run: (onProgress: (text: string) => void, store: BodyStore) => Promise<void>,
): Promise<void> {
  const show = openProgress();
  const store = await openBodyStore(config.bodies);
  const { BackupFailed } = await loadBackup();
  try {
    await run(show, store);
  } catch (error) {
    const isKnown = error instanceof BackupFailed || error instanceof StoreUnavailable;
    // The file system's error says what could not be done, and where; a full disk has no path in it.
    const isOfFile = error instanceof Error && 'syscall' in error && 'path' in error;
    if (isKnown || isOfFile) throw new CommandFailed(error.message);
    throw isFull(error) ? new CommandFailed(`a disk is full: ${error.message}`) : error;
  } finally {
    show();
    store.close();
  }
}

function isFull(error: unknown): error is Error {
  return error instanceof Error && isStorageFull(error);
}

async function backup(
  config: Config,
  target: string,
  program: string,
  store: BodyStore,
  onProgress: (text: string) => void,
): Promise<Manifest> {
  const { urls } = config.database;
  await using database = await openToRead(config);
  const { makeBackup } = await loadBackup();
  return await makeBackup({
    database,
    store,
    program,
    target,
    onProgress,
    source: urls ? { urls } : { file: databaseFile(config.dataDir) },
    secrets: urls ? undefined : secretsPath(config.dataDir),
  });
}

function describe(manifest: Manifest, said: string): string {
  const { made_at, bodies, octets, bucket, missing } = manifest;
  const where = bucket === null ? '' : ` in ${bucket}, which has them`;
  return [
    `${said}.`,
    `  made at   ${made_at}, by Postroom ${manifest.program}, schema ${manifest.schema}, ${manifest.engine}`,
    `  size      ${formatBytes(octets)}`,
    `  bodies    ${bodies} large ones${where}`,
    ...missing.map((name) => `  missing   ${name}: its message cannot be read`),
  ].join('\n');
}
