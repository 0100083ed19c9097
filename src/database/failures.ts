/** What errors of the database mean to those who called it. */

/** SQLITE_FULL, and SQLITE_IOERR_SHMSIZE: no room for the index of the log (https://sqlite.org/rescode.html). */
const SQLITE_FULL = new Set<unknown>([13, 4874]);
/** SQLITE_CORRUPT, SQLITE_NOTADB. */
const SQLITE_DAMAGED = new Set<unknown>([11, 26]);
/** `data_corrupted` and `index_corrupted` of PostgreSQL. */
const POSTGRES_DAMAGED = new Set<unknown>(['XX001', 'XX002']);
/** `disk_full` of PostgreSQL. */
const POSTGRES_DISK_FULL = '53100';

/** Of an SQLite database whose log could not be synced: it takes and tells nothing more. */
export const LOG_LOST = 'POSTROOM_LOG_LOST';

/** Errors of the socket: the server is not there, or went away. */
const SOCKET_ERRORS = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);
/** SQLSTATE classes 08 (connection) and 57P (shutdown), and 533 (too many connections), of PostgreSQL. */
const SERVER_STATES = /^(?:08|533|57P)/;
/** What `pg` says without a code: no connection came free in time, or it broke off. */
const CLIENT_TEXTS = /^(?:timeout exceeded when trying to connect|Connection terminated)/;

/** Whether an error says that the database cannot be reached right now, and may be again later. */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  return (
    code === LOG_LOST ||
    SOCKET_ERRORS.has(code) ||
    SERVER_STATES.test(code) ||
    CLIENT_TEXTS.test(error.message ?? '')
  );
}

/** Whether an error of the database or the file system says that there is no space left. */
export function isStorageFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? error.code : undefined;
  if (code === 'ENOSPC' || code === 'EDQUOT' || code === POSTGRES_DISK_FULL) return true;
  return 'errcode' in error && SQLITE_FULL.has(error.errcode);
}

/** Whether an error says that what the database has on the disk is damaged: only a backup helps. */
export function isDamage(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ('code' in error && POSTGRES_DAMAGED.has(error.code)) return true;
  return 'errcode' in error && SQLITE_DAMAGED.has(Number(error.errcode) & 0xff);
}
