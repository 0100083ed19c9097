/** The meaning of database errors: the one place that reads the codes of drivers. */
import { Refusal } from '../errors/errors.ts';

/** SQLITE_FULL, and SQLITE_IOERR_SHMSIZE: no room for the index of the log (https://sqlite.org/rescode.html). */
const SQLITE_FULL = new Set<unknown>([13, 4874]);
/** SQLITE_CORRUPT, SQLITE_NOTADB. */
const SQLITE_DAMAGED = new Set<unknown>([11, 26]);
/**
 * SQLITE_READONLY, SQLITE_IOERR, SQLITE_CANTOPEN: what a disk does that fails, or may only be read; SQLITE_BUSY,
 * SQLITE_PROTOCOL: another program has the file locked.
 */
const SQLITE_FAILS = new Set<unknown>([5, 8, 10, 14, 15]);
/** `data_corrupted` and `index_corrupted` of PostgreSQL. */
const POSTGRES_DAMAGED = new Set<unknown>(['XX001', 'XX002']);
/** `disk_full` of PostgreSQL. */
const POSTGRES_DISK_FULL = '53100';

/** The log of an SQLite database could not be synced: nothing more is accepted or read. */
export const LOG_LOST = 'POSTROOM_LOG_LOST';
/** A connection to PostgreSQL gave no answer within the deadline. */
export const NO_ANSWER = 'POSTROOM_NO_ANSWER';
/** A connection is being made for longer than anybody waits for it. */
export const LATE = 'POSTROOM_LATE';
/** The server did not say for sure whether a commit succeeded. */
export const IN_DOUBT = 'POSTROOM_IN_DOUBT';
/** `read_only_sql_transaction`: the server is a standby, or was made read-only. */
export const READ_ONLY = '25006';

/** Errors of the socket: the server does not listen, or the connection broke. */
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

/** This process, or its machine, has as many files and sockets open as it may. */
const FILES_USED_UP = new Set(['EMFILE', 'ENFILE']);

/**
 * SQLSTATEs of PostgreSQL (its manual, appendix A) that do not mean a wrong query: it may succeed later. 08 connection;
 * 25006 read-only; 25P03, 25P04 in a transaction for too long; 28 login refused; 3D000 no such database; 40 rolled back
 * (serialization, deadlock); 53 no connection, memory or other resource left, but not a limit of its settings that this one
 * statement exceeds (53400, temp_file_limit); 55000 the database takes no connections; 55P03 lock not granted in time; 57
 * cancelled at its deadline, or the server stops or starts; 58 a failure of its system.
 */
const SERVER_STATES = /^(?:08|25006|25P0[34]|28|3D000|40|53(?!100|400)|55000|55P03|57|58)/;
/**
 * The server was stopped or died, or ended the connection because this process was frozen within a transaction (25P03,
 * 25P04) or did not use it for too long (57P05); pg gives no code for a connection that broke, so its texts are here too.
 */
const LOST_STATES = /^(?:08|25P0[34]|57P0[1235]|ECONNRESET|EPIPE)/;
const LOST_TEXTS = /^(?:Connection terminated|Client has encountered a connection error)/;
/** The text of `pg` where no connection of the pool became free in time. */
export const NO_PLACE = 'timeout exceeded when trying to connect';
/** The texts of `pg` for a pool that is closed. */
const CLOSED_TEXTS = /^(?:Client was closed|Cannot use a pool after)/;

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string'
    ? error.code
    : '';
}

/** Whether the database cannot answer right now, or no file can be opened, and may do so later. */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = codeOf(error);
  return (
    [LOG_LOST, NO_ANSWER, LATE, IN_DOUBT].includes(code) ||
    SOCKET_ERRORS.has(code) ||
    FILES_USED_UP.has(code) ||
    SERVER_STATES.test(code) ||
    LOST_TEXTS.test(error.message) ||
    CLOSED_TEXTS.test(error.message) ||
    isWithoutSlot(error) ||
    isFileFailing(error)
  );
}

/** Errors of sockets look the same whatever the other end is: these came from PostgreSQL, or the way to it. */
const ofPostgres = new WeakSet<Error>();

/** Every error of a connection to PostgreSQL passes here before it is thrown. */
export function noteOfPostgres(error: unknown): void {
  if (error instanceof Error) ofPostgres.add(error);
}

/** Whether it is one of a PostgreSQL that is away. */
export function isDatabaseAway(error: unknown): boolean {
  if (!(error instanceof Error && ofPostgres.has(error)) || !isUnavailable(error)) return false;
  return !isOfOneTransaction(error) && !FILES_USED_UP.has(codeOf(error));
}

/** Whether the server answers and lets nobody in: the login or the database is not known to it, or it is a standby. */
export function isRefusedLogin(error: unknown): boolean {
  return /^(?:28|3D000|25006)/.test(codeOf(error));
}

/** Whether the file of an SQLite database cannot be read or written, for another reason than a full disk. */
export function isFileFailing(error: unknown): error is Error {
  if (!(error instanceof Error && 'errcode' in error) || isStorageFull(error)) return false;
  return SQLITE_FAILS.has(Number(error.errcode) & 0xff);
}

/**
 * Whether the server rolled the transaction back without a fault of its own, so that it may succeed the next time:
 * serialization, deadlock, a statement that was not prepared, or a server that is a standby now.
 */
export function isRolledBack(error: unknown): boolean {
  return (
    ['40001', '40P01', READ_ONLY].includes(codeOf(error)) || lostStatement(error) !== undefined
  );
}

/** Whether the server answers, and cancelled this statement at its deadline. */
export function isOverdue(error: unknown): boolean {
  return codeOf(error) === '57014';
}

/** Whether the user of the database may not do what a statement does: `insufficient_privilege` of PostgreSQL. */
export function isWithoutRight(error: unknown): boolean {
  return codeOf(error) === '42501';
}

/** Whether the server answers, and a statement failed for another reason than the connection (EPIPE), the login or the whole server. */
export function isOfStatement(error: unknown): boolean {
  return /^(?!08|28|3D|53300|57P|E)[0-9A-Z]{5}$/.test(codeOf(error));
}

/**
 * Whether it says something of this transaction alone: it waited for a lock or was rolled back for another one, took too long,
 * needed too much memory, or met a damaged file. Others may be committed meanwhile.
 */
export function isOfOneTransaction(error: unknown): boolean {
  return /^(?:25P0[34]|40|53200|55P03|57014|58)/.test(codeOf(error));
}

/** Whether a lock was not granted in time, or the wait was a deadlock. */
export function isLockedOut(error: unknown): boolean {
  return ['55P03', '40P01'].includes(codeOf(error));
}

/**
 * Why a prepared statement could not be run. The server says so before it runs any of it: a `pooler` has given us
 * another connection to the server (26000 it does not exist; 42P05 another client's exists), or a table has got other
 * columns since, so that the plan is `outdated`. Undefined for every other error.
 */
export function lostStatement(error: unknown): 'pooler' | 'outdated' | undefined {
  const code = codeOf(error);
  if (code === '26000' || code === '42P05') return 'pooler';
  const isOutdated =
    code === '0A000' && error instanceof Error && /cached plan/.test(error.message);
  return isOutdated ? 'outdated' : undefined;
}

/** Whether a statement was refused because an earlier one of its transaction had failed. */
export function isAborted(error: unknown): boolean {
  return codeOf(error) === '25P02';
}

/** Whether the connection was lost, or leads to a server that cannot write: another connection may help. */
export function isLostConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = codeOf(error);
  return code === READ_ONLY || LOST_STATES.test(code) || LOST_TEXTS.test(error.message);
}

/** An error of our own with a code. */
export function codedError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}

/** Whether no connection of the pool became free in time. */
export function isWithoutSlot(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith(NO_PLACE);
}

export function isLate(error: unknown): boolean {
  return codeOf(error) === LATE;
}

/** Whether the server has no connection left for us, which does not mean that it fails. */
export function isCrowded(error: unknown): boolean {
  return codeOf(error).startsWith('533');
}

/** Whether a server, or a pooler before it, refuses deadlines as parameters of a new connection. */
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

/** Whether the database is damaged on the disk: only a backup helps. */
export function isDamage(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ('code' in error && POSTGRES_DAMAGED.has(error.code)) return true;
  return 'errcode' in error && SQLITE_DAMAGED.has(Number(error.errcode) & 0xff);
}

/**
 * How a failure of the database, or of the files of the process, is answered, over HTTP as over SMTP: both ask the client to try again.
 *
 * @returns undefined for any other error
 */
export function refusalOfFailure(error: unknown): Refusal | undefined {
  if (isUnavailable(error)) {
    const why = FILES_USED_UP.has(codeOf(error))
      ? 'no more files can be opened'
      : 'the database cannot be reached';
    return new Refusal('unavailable', `${why} right now`, { cause: error });
  }
  if (isStorageFull(error)) {
    return new Refusal('storage_full', 'there is no space left', { cause: error });
  }
  return undefined;
}
