/** What errors of the database mean to those who called it: the one place that reads codes of drivers. */
import { Refusal } from '../errors/errors.ts';

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
/** Of a connection to PostgreSQL that gave no answer within the deadline. */
export const NO_ANSWER = 'POSTROOM_NO_ANSWER';
/** Of a commit whose outcome the server did not say for sure. */
export const IN_DOUBT = 'POSTROOM_IN_DOUBT';
/** `read_only_sql_transaction`: the server is a standby, or was made read-only. */
export const READ_ONLY = '25006';

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

/**
 * SQLSTATEs of PostgreSQL (its manual, appendix A) that say nothing against the query: it may succeed later.
 * 08 connection; 25006 read-only; 25P03 idle in a transaction for too long; 28 login refused; 3D000 no such
 * database; 40 rolled back (serialization, deadlock); 53 no connection, memory or other resource left; 55P03
 * lock not given in time; 57 cancelled at its deadline, or the server stops or starts; 58 its system failed.
 */
const SERVER_STATES = /^(?:08|25006|25P03|28|3D000|40|53(?!100)|55P03|57|58)/;
/** A server that was stopped or died, and what pg says without a code of a connection that broke off. */
const LOST_STATES = /^(?:08|57P0[123]|ECONNRESET|EPIPE)/;
const LOST_TEXTS = /^(?:Connection terminated|Client has encountered a connection error)/;
/** What `pg` says where no place in the pool came free in time. */
const NO_PLACE = 'timeout exceeded when trying to connect';
/** What it says of a pool that is closed. */
const CLOSED_TEXTS = /^(?:Client was closed|Cannot use a pool after)/;

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string'
    ? error.code
    : '';
}

/** Whether an error says that the database cannot answer right now, and may do so later. */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = codeOf(error);
  return (
    [LOG_LOST, NO_ANSWER, IN_DOUBT].includes(code) ||
    SOCKET_ERRORS.has(code) ||
    SERVER_STATES.test(code) ||
    LOST_TEXTS.test(error.message) ||
    CLOSED_TEXTS.test(error.message) ||
    isWithoutPlace(error)
  );
}

/**
 * Whether the server took the transaction back for nothing that is wrong with it, so that the same one may succeed:
 * serialization, deadlock, a statement that it had not prepared.
 */
export function isRolledBack(error: unknown): boolean {
  return ['40001', '40P01'].includes(codeOf(error)) || lostStatement(error) !== undefined;
}

/** Whether a lock was not given in time, or only by taking others back: a deadlock. */
export function isLockedOut(error: unknown): boolean {
  return ['55P03', '40P01'].includes(codeOf(error));
}

/**
 * Why a prepared statement could not be run, which is told before anything of it was: a `pooler` has given us
 * another connection to the server (26000 it is not there; 42P05 another client's is), or a table has got other
 * columns since, so that the plan is `outdated`. Undefined for every other error.
 */
export function lostStatement(error: unknown): 'pooler' | 'outdated' | undefined {
  const code = codeOf(error);
  if (code === '26000' || code === '42P05') return 'pooler';
  const isOutdated =
    code === '0A000' && error instanceof Error && /cached plan/.test(error.message);
  return isOutdated ? 'outdated' : undefined;
}

/** Whether the connection was lost, or leads to a server that cannot write: another one may do. */
export function isLostConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = codeOf(error);
  return code === READ_ONLY || LOST_STATES.test(code) || LOST_TEXTS.test(error.message);
}

/** An error of ours that is told by its code. */
export function codedError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}

/** Whether no place in the pool came free in time. */
export function isWithoutPlace(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith(NO_PLACE);
}

/** Whether a server has no connection left for us, which says nothing against the server. */
export function isCrowded(error: unknown): boolean {
  return codeOf(error).startsWith('533');
}

/** Whether a server, or a pooler before it, refuses to be told deadlines at the start of a connection. */
export function isRefusedParameter(error: unknown): boolean {
  return error instanceof Error && /unsupported startup parameter/.test(error.message);
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

/**
 * How a failure of the database is answered, over HTTP as over SMTP: both ask to come again.
 *
 * @returns undefined where the error is no such failure
 */
export function refusalOfFailure(error: unknown): Refusal | undefined {
  if (isUnavailable(error)) {
    return new Refusal('unavailable', 'the database cannot be reached right now', { cause: error });
  }
  if (isStorageFull(error)) {
    return new Refusal('storage_full', 'there is no space left', { cause: error });
  }
  return undefined;
}
