import { type Logger, type LoggerOptions, pino } from 'pino';
import { LogLines, WARN } from './log-lines.ts';

/** The log of a process: a logger, and the lines that it and others write to stdout. */
export interface Log {
  readonly logger: Logger;
  readonly lines: LogLines;
}

/** Opens the log of this process: JSON lines on stdout. What it holds at the exit is written. */
export function openLog(level: NonNullable<LoggerOptions['level']>): Log {
  const lines = new LogLines();
  process.once('exit', () => lines.flushSync());
  const logger = pino(
    {
      level,
      base: null,
      hooks: {
        logMethod(line, log, number) {
          log.apply(this, line);
          // Whatever is wrong may end the process next.
          if (number >= WARN) lines.flush();
        },
      },
    },
    lines,
  );
  return { logger, lines };
}
