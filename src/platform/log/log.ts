/** The log of a process: JSON lines on stdout, or lines for people where that is a terminal. */
import { createRequire } from 'node:module';
import { isatty } from 'node:tty';
import { type Logger, type LoggerOptions, pino } from 'pino';
import sonicBoom from 'sonic-boom';

export interface Log {
  readonly logger: Logger;
  /** From now on no warning or error is written about an error of which this says that the log has told it. */
  hush(isTold: (error: unknown) => boolean): void;
  /** Writes text at any level: unchanged on a terminal, else each line as a line of the log. */
  print(text: string): void;
  /** Writes waiting lines, in 200 ms at most: for the end of the process. */
  close(): Promise<void>;
}

/** Levels, from the one that writes most to the one that writes least. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Sets the level, of child loggers too, and logs the change at any level. */
export function changeLevel(logger: Logger, level: LogLevel): void {
  const from = logger.level;
  logger.level = 'info';
  logger.info(
    { from, to: level },
    'the log level was changed; the change lasts until the process ends',
  );
  logger.level = level;
}

/** The most bytes that are written together, and the most milliseconds that a line waits. */
const BATCH_BYTES = 16_000;
const WAIT_MS = 100;
/** The most bytes that wait while a write is under way or fails. */
const WAITING_BYTES = 1_000_000;
const CLOSE_WITHIN_MS = 200;
/** Pino's numbers for the levels. */
const INFO = 30;
const WARN = 40;
const FATAL = 60;

/**
 * Opens the log of this process.
 *
 * Lines are written together, since a write for each would take longer than the request that it describes. If they
 * cannot be written (a full disk, a pipe that is not read), the write is tried again, and never fails or blocks the
 * caller: lines wait up to a limit, those above it are lost, and a later line says how many.
 *
 * @param fd an open descriptor to write to
 */
export function openLog(
  level: NonNullable<LoggerOptions['level']>,
  fd: number = process.stdout.fd,
): Log {
  // Node makes a pipe non-blocking when it makes the stream. Then a write to a full pipe fails; otherwise it would
  // block a thread, for which process.exit() waits. The listeners are for text that Node itself writes there, mainly its
  // warnings.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  let closing = false;
  const file = new sonicBoom.SonicBoom({
    fd,
    sync: false,
    minLength: BATCH_BYTES,
    maxLength: WAITING_BYTES,
    retryEAGAIN: () => !closing,
  });
  // The bytes of a failed write stay, and are sent with the next.
  file.on('error', () => {});

  let timer: NodeJS.Timeout | undefined;
  let again = false;
  const flush = () => {
    clearTimeout(timer);
    timer = undefined;
    // While a write is under way this does nothing: newer lines are written after it.
    again = true;
    file.flush();
  };
  const write = (text: string) => {
    file.write(text);
    timer ??= setTimeout(flush, WAIT_MS).unref();
  };
  let isTold = (_error: unknown) => false;
  const pretty = isatty(fd) ? prettyLines() : undefined;
  const logger = pino(
    { level, base: null, hooks: judgeWarnings(flush, (error) => isTold(error)) },
    { write: pretty ? (line: string) => write(pretty(line)) : write },
  );

  let lost = 0;
  file.on('drop', () => lost++);
  const tellLost = () => {
    if (lost === 0) return;
    const lines = lost;
    lost = 0;
    logger.warn({ lines }, 'log lines were lost: they came faster than the output took them');
  };
  file.on('drain', () => {
    tellLost();
    if (again) file.flush();
    again = false;
  });

  const flushSync = () => {
    closing = true;
    try {
      file.flushSync();
    } catch {
      // The process ends: what cannot be written now is lost.
    }
  };
  process.once('exit', flushSync);
  return {
    logger,
    hush(judge) {
      isTold = judge;
    },
    print(text) {
      if (pretty) write(text);
      else for (const msg of text.trimEnd().split('\n')) write(jsonLine(msg));
      flush();
    },
    async close() {
      const { promise, resolve } = Promise.withResolvers<void>();
      setTimeout(resolve, CLOSE_WITHIN_MS);
      file.flush(() => resolve());
      await promise;
    },
  };
}

/** After a warning or an error the process may end: such lines do not wait. */
function judgeWarnings(
  flush: () => void,
  isTold: (error: unknown) => boolean,
): NonNullable<LoggerOptions['hooks']> {
  return {
    logMethod(line, log, level) {
      // A process that ends says why in any case.
      if (level >= WARN && level < FATAL && isTold(errorOf(line[0]))) return;
      log.apply(this, line);
      if (level >= WARN) flush();
    },
  };
}

/** The error of a line that names nothing with an `id`: what is said of one delivery is written in any case. */
function errorOf(about: unknown): unknown {
  const isOfOne = typeof about !== 'object' || about === null || 'id' in about;
  return !isOfOne && 'err' in about ? about.err : undefined;
}

function jsonLine(msg: string): string {
  return `${JSON.stringify({ level: INFO, time: Date.now(), msg })}\n`;
}

/** Turns a JSON line into a line for people: time, level, what happened, and the details after it. */
function prettyLines(): (line: string) => string {
  // Only here: a service that writes to a file or a pipe would load its 30 files for nothing.
  const { prettyFactory } = createRequire(import.meta.url)(
    'pino-pretty',
  ) as typeof import('pino-pretty');
  return prettyFactory({
    colorize: process.stdout.hasColors?.() === true,
    translateTime: 'SYS:HH:MM:ss',
    singleLine: true,
  });
}
