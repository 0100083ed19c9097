/** `postroom backup`, `verify-backup` and `restore`. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command } from 'commander';
import type { Manifest } from '../backup/backup.ts';
import { type BodyStore, openBodyStore, StoreUnavailable } from '../bodies/bodies.ts';
import { type Config, readConfig, secretsPath } from '../config/config.ts';
import {
  CommandFailed,
  databaseFile,
  megabytes,
  openProgress,
  openToRead,
  report,
} from './command.ts';

/** Only where it is needed: it takes longer to load than most commands take. */
function loadBackup(): Promise<typeof import('../backup/backup.ts')> {
  return import('../backup/backup.ts');
}

interface Arguments {
  readonly json?: true;
}

const BACKUP_HELP = `
The service may run. FOLDER is made; nothing may be in it. It holds the keys to everything: keep it as closed as
DATA_DIR. Settings (.env) are not in it. A folder of a run that was cut short has no backup.json, and is refused by
all other commands. With S3_URL, bodies stay in the bucket: they are looked for, and its older versions keep them.`;

export function backupCommand(): Command {
  return new Command('backup')
    .description('makes a backup while the service runs')
    .argument('<folder>', 'where it is written to')
    .option('--json', 'writes the result as JSON')
    .addHelpText('after', BACKUP_HELP)
    .action((folder: string, { json }: Arguments) => {
      const config = readConfig(process.env);
      return carryOut(config, async (onProgress, store) => {
        const made = await backup(config, resolve(folder), store, onProgress);
        const result = { ok: true, folder: resolve(folder), ...made };
        report(json, result, describe(made, `A backup is in ${resolve(folder)}`));
      });
    });
}

export function verifyBackupCommand(): Command {
  return new Command('verify-backup')
    .description(
      'proves that a backup can be restored: digests, database, every body that it names',
    )
    .argument('<folder>', 'of the backup')
    .option('--json', 'writes the result as JSON')
    .action((folder: string, { json }: Arguments) => {
      const config = readConfig(process.env);
      return carryOut(config, async (onProgress, store) => {
        const { verifyBackup } = await loadBackup();
        const bucket = config.bodies.bucket && store;
        const manifest = await verifyBackup({ folder: resolve(folder), bucket, onProgress });
        report(json, { ok: true, ...manifest }, describe(manifest, 'The backup can be restored'));
      });
    });
}

const RESTORE_HELP = `
DATA_DIR has to be empty, and so has the database of DATABASE_URL. All of the backup is checked first. A restore that
was cut short is begun anew by the same command; no service starts on its folder. Apps sync anew afterwards, and what
was queued when the backup was made is delivered once more.`;

export function restoreCommand(): Command {
  return new Command('restore')
    .description('brings a backup back into an empty DATA_DIR, and an empty database')
    .argument('<folder>', 'of the backup')
    .option('--json', 'writes the result as JSON')
    .addHelpText('after', RESTORE_HELP)
    .action((folder: string, { json }: Arguments) => {
      const config = readConfig(process.env);
      const { dataDir } = config;
      return carryOut(config, async (onProgress, store) => {
        const { restoreBackup } = await loadBackup();
        const manifest = await restoreBackup({
          folder: resolve(folder),
          dataDir,
          urls: config.database.urls,
          bucket: config.bodies.bucket && store,
          onProgress,
        });
        const said = `The backup is restored into ${dataDir}; start the service`;
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
    const isExpected = error instanceof BackupFailed || error instanceof StoreUnavailable;
    throw isExpected ? new CommandFailed(error.message) : error;
  } finally {
    show();
    store.close();
  }
}

async function backup(
  config: Config,
  target: string,
  store: BodyStore,
  onProgress: (text: string) => void,
): Promise<Manifest> {
  const { urls } = config.database;
  const database = openToRead(config);
  const { version } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  );
  const { makeBackup } = await loadBackup();
  try {
    return await makeBackup({
      database,
      store,
      program: version,
      target,
      onProgress,
      source: urls ? { urls } : { file: databaseFile(config.dataDir) },
      secrets: urls ? undefined : secretsPath(config.dataDir),
    });
  } finally {
    await database.close();
  }
}

function describe(manifest: Manifest, said: string): string {
  const { made_at, bodies, octets, bucket, missing } = manifest;
  const where = bucket === null ? '' : ` in ${bucket}, which has them`;
  return [
    `${said}.`,
    `  made at   ${made_at}, by Postroom ${manifest.program}, schema ${manifest.schema}, ${manifest.engine}`,
    `  size      ${megabytes(octets)}`,
    `  bodies    ${bodies} large ones${where}`,
    ...missing.map((name) => `  missing   ${name} was lost before the backup was made`),
  ].join('\n');
}
