/** The database as commands read it that need no service. Apart, since most commands need no database. */
import { existsSync } from 'node:fs';
import {
  openPostgresToRead,
  openSqliteToRead,
  type ReadDatabase,
} from '../../platform/database/database.ts';
import { type Config, databaseFile, refuseMoved } from '../config/config.ts';
import { CommandFailed } from './command.ts';

/**
 * Opens the database without migration, beside a service or without one.
 *
 * @throws CommandFailed where it does not exist on SQLite; ConfigError where it was moved to PostgreSQL
 */
export async function openToRead({
  dataDir,
  database: { urls },
}: Pick<Config, 'dataDir' | 'database'>): Promise<ReadDatabase & AsyncDisposable> {
  if (urls) return openPostgresToRead(urls);
  await refuseMoved(dataDir);
  const file = requireDatabase(dataDir);
  try {
    return openSqliteToRead(file);
  } catch (error) {
    throw new CommandFailed(`DATA_DIR: ${file} cannot be opened: ${String(error)}`);
  }
}

/** The file of SQLite. @throws CommandFailed where it does not exist: only a start makes one */
export function requireDatabase(dataDir: string): string {
  const file = databaseFile(dataDir);
  if (existsSync(file)) return file;
  throw new CommandFailed(
    `DATA_DIR: there is no database in ${dataDir}: give the command the settings of the service`,
  );
}
