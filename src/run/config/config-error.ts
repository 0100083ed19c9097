/**
 * What stops a start: settings that are not valid, files that cannot be used.
 */
import { getSystemErrorMessage } from 'node:util';

/** The start failed; each line names one key, the expected value and what was found. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly lines: readonly string[];

  /** @param lines at least one, without secrets and without line breaks; shown to the operator */
  constructor(lines: readonly string[], options?: ErrorOptions) {
    super(lines.join('\n'), options);
    this.lines = lines;
  }
}

/** A setting was refused: a new start with the same settings ends in the same way. */
export class SettingRefused extends ConfigError {
  /** EX_CONFIG of sysexits.h, by which a supervisor knows it (`deploy/systemd`). */
  static readonly exitCode = 78;
}

/** The exit code of a start that failed with this error. */
export function exitCodeOf(error: unknown): number {
  return error instanceof SettingRefused ? SettingRefused.exitCode : 1;
}

/** One line of a {@link ConfigError}. @param found what was there instead, as the end of "got ..." */
export function problemLine(key: string, expected: string, found: string): string {
  return `${key}: expected ${expected}, got ${found}`;
}

/** Longest part of a value that a line repeats, in characters. */
const longestQuote = 200;

/** A value as a line shows it: quoted, on one line, without control characters, not endless. */
export function quote(value: string): string {
  const shown = value.length > longestQuote ? `${value.slice(0, longestQuote)}...` : value;
  // JSON leaves DEL and the C1 controls unchanged; a terminal would execute them.
  return JSON.stringify(shown).replace(
    /[\u007f-\u009f\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** The fewest characters of an API key or of a secret (`parse-values.ts`). */
const SECRET_MIN = 16;

/** A refused value as a line shows it: it may be a secret that was meant for another key. */
export function quoteRefused(value: string): string {
  const isHarmless = value.length < SECRET_MIN && !value.includes('@');
  return isHarmless ? quote(value) : `a text of ${value.length} characters`;
}

/** Code and meaning of a file system error, e.g. `EACCES: permission denied`. */
export function explainFileError(error: unknown): string {
  const { code, errno } = error instanceof Error ? (error as NodeJS.ErrnoException) : {};
  if (code === undefined) return 'unknown error';
  return errno === undefined ? code : `${code}: ${getSystemErrorMessage(errno)}`;
}
