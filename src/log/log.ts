/** The log of a process: JSON lines on stdout, or lines for people where that is a terminal. */
import { isatty } from 'node:tty';
import { type Logger, type LoggerOptions, pino } from 'pino';
import { prettyFactory } from 'pino-pretty';
import sonicBoom from 'sonic-boom';

export interface Log {
  readonly logger: Logger;
  /** Writes text whatever the level: as it is on a terminal, else each line as a line of the log. */
  print(text: string): void;
  /** Writes what waits, in 200 ms at most: for the end of the process. */
  close(): Promise<void>;
}

/** Levels, from most to least that is written. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Writes from now on what is of this level or worse, of child loggers too, and says so whatever the levels are. */
export function changeLevel(logger: Logger, level: LogLevel): void {
  const from = logger.level;
  logger.level = 'info';
  logger.info(
    { from, to: level },
    'the log level was changed; the change lasts until the process ends',
  );
  logger.level = level;
}

/** Bytes that are written together at most, and milliseconds that a line waits at most. */
const BATCH_BYTES = 16_000;
const WAIT_MS = 100;
/** Bytes that wait at most while a write is under way or fails. */
const WAITING_BYTES = 1_000_000;
const CLOSE_WITHIN_MS = 200;
/** Pino's numbers for the levels. */
const INFO = 30;
const WARN = 40;

/**
 * Opens the log of this process.
 *
 * Lines are written together, since a write for each would take longer than the request that it
 * tells of. What keeps them from being written (a full disk, a pipe that nobody reads) is tried
 * again and never fails or holds up who logs: lines wait up to a bound, those beyond it are lost,
 * and a line says later how many.
 *
 * @param fd an open descriptor to write to
 */
export function openLog(
  level: NonNullable<LoggerOptions['level']>,
  fd: number = process.stdout.fd,
): Log {
  // Node makes a pipe non-blocking when it makes the stream. A write to a full one then fails; else
  // it would hold a thread, for which process.exit() waits. The listeners are for what Node itself
  // writes there, its warnings above all.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  let closing = false;
  const file = new sonicBoom.SonicBoom({
    fd,
    sync: false,
    minLength: BATCH_BYTES,
    maxLength: WAITING_BYTES,
    retryEAGAIN: () => !closing,
  });
  // The bytes of a write that failed stay, and go with the next.
  file.on('error', () => {});

  let timer: NodeJS.Timeout | undefined;
  let again = false;
  const flush = () => {
    clearTimeout(timer);
    timer = undefined;
    // While a write is under way this does nothing: what came meanwhile goes after it.
    again = true;
    file.flush();
  };
  const write = (text: string) => {
    file.write(text);
    timer ??= setTimeout(flush, WAIT_MS).unref();
  };
  const pretty = isatty(fd) ? prettyLines() : undefined;
  const logger = pino(
    { level, base: null, hooks: flushAfterWarnings(flush) },
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
      // The process ends: what cannot be written now never will be.
    }
  };
  process.once('exit', flushSync);
  return {
    logger,
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

/** Whatever a warning or an error is about may end the process next: such lines do not wait. */
function flushAfterWarnings(flush: () => void): NonNullable<LoggerOptions['hooks']> {
  return {
    logMethod(line, log, level) {
      log.apply(this, line);
      if (level >= WARN) flush();
    },
  };
}

function jsonLine(msg: string): string {
  return `${JSON.stringify({ level: INFO, time: Date.now(), msg })}\n`;
}

/** Makes a line for people of a JSON line: time, level, what happened, and the details behind it. */
function prettyLines(): (line: string) => string {
  return prettyFactory({
    colorize: process.stdout.hasColors?.() === true,
    translateTime: 'SYS:HH:MM:ss',
    singleLine: true,
  });
}
