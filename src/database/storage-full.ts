/** SQLITE_FULL (https://sqlite.org/rescode.html). */
const SQLITE_FULL = 13;
/** `disk_full` of PostgreSQL. */
const POSTGRES_DISK_FULL = '53100';

/** Whether an error of the database or the file system says that there is no space left. */
export function isStorageFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? error.code : undefined;
  if (code === 'ENOSPC' || code === 'EDQUOT' || code === POSTGRES_DISK_FULL) return true;
  return 'errcode' in error && error.errcode === SQLITE_FULL;
}
