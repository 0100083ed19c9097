/** What all commands share: their parts, and how they report their result. */
import type { AddHelpTextContext } from 'commander';
import type { Logger } from 'pino';
import type { Database } from '../../platform/database/database.ts';
import type { BoundAddresses, Config, Secrets } from '../config/config.ts';
import type { Progress } from '../move/move.ts';

/** What the composition root gives to the commands. */
export interface CommandParts {
  /** Of this program. */
  readonly version: string;
  /**
   * Opens the database as the service does.
   *
   * @param isMove whether it is the command that moves the database to PostgreSQL
   * @throws ConfigError, also where a service is using it that allows no other program
   */
  openDatabase(
    config: Config,
    logger: Logger,
    isMove?: boolean,
  ): Promise<{ readonly database: Database; close(): Promise<void> }>;
  /** Signs in to the mail server of MAILSTORE_URL, for one of these accounts. @returns why it refuses the login */
  logInToMailServer(config: Config, addresses: readonly string[]): Promise<string | undefined>;
  /** Runs the service until a signal ends the process. */
  serve(): Promise<void>;
  startService(config: Config, logger: Logger): Promise<StartedService>;
}

export interface StartedService {
  readonly addresses: BoundAddresses;
  readonly secrets: Secrets;
  stop(): Promise<void>;
}

/** A command could not do its work; the message is for the operator. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed';
  readonly exitCode: 1 | 2;

  readonly #fields: readonly string[];

  /**
   * @param exitCode 2 where the arguments were wrong
   * @param fields of the service's API that the message names
   */
  constructor(message: string, exitCode: 1 | 2 = 1, fields: readonly string[] = []) {
    super(message);
    this.exitCode = exitCode;
    this.#fields = fields;
  }

  /** The message, with options in place of the fields that they set. */
  say(args: readonly string[]): string {
    return this.#fields.reduce((said, field) => {
      const option = `--${field.replaceAll('_', '-')}`;
      const isGiven = args.some((one) => one === option || one.startsWith(`${option}=`));
      return isGiven ? said.replace(field, option) : said;
    }, this.message);
  }
}

/** Writes the result of a command: one JSON object for machines, else the text. */
export function report(json: true | undefined, value: object, text: string): void {
  process.stdout.write(`${json ? JSON.stringify(value) : text}\n`);
}

/** The columns of help that goes to no terminal. */
const HELP_COLUMNS = 80;

/** Text for the end of a command's help, as wide as the rest of it; a blank line parts paragraphs. */
export function helpText(text: string) {
  return ({ command }: AddHelpTextContext): string => {
    const columns = command.configureOutput().getOutHelpWidth?.() ?? HELP_COLUMNS;
    const paragraphs = text.trim().split('\n\n');
    return paragraphs
      .map((one) => `\n${command.createHelp().boxWrap(one.replaceAll('\n', ' '), columns)}`)
      .join('\n');
  };
}

/** The narrowest that a column becomes. */
const NARROWEST = 16;

const ASCII = /^[ -~]*$/;
/** East Asian characters and emoji, which take two cells of a terminal (UAX #11). */
const WIDE =
  /[\p{Emoji_Presentation}\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const segmenter = new Intl.Segmenter();

/** The characters of a text as people count them, each with its cells. */
const glyphsOf = (text: string) =>
  Array.from(segmenter.segment(text), ({ segment }) => ({
    segment,
    cells: WIDE.test(segment) ? 2 : 1,
  }));

/** Cells of a terminal that a text takes. */
function cellsOf(text: string): number {
  if (ASCII.test(text)) return text.length;
  return glyphsOf(text).reduce((sum, { cells }) => sum + cells, 0);
}

/** Cuts a text into lines of at most so many cells, between characters. */
function cut(text: string, width: number): string[] {
  if (cellsOf(text) <= width) return [text];
  const lines = [''];
  let taken = 0;
  for (const { segment, cells } of glyphsOf(text)) {
    if (taken + cells > width) {
      lines.push('');
      taken = 0;
    }
    taken += cells;
    lines.push(`${lines.pop()}${segment}`);
  }
  return lines;
}

/**
 * Columns with their names above; an empty cell is `-`. Where a terminal is narrower, the widest column has several lines in a row.
 *
 * @param room cells of a line; only a terminal says how many
 */
export function table(
  names: readonly string[],
  rows: readonly (readonly (string | number | null | undefined)[])[],
  room = process.stdout.columns || Number.POSITIVE_INFINITY,
): string {
  const lines = [names, ...rows].map((row) => row.map((cell) => clean(String(cell ?? '-'))));
  const widths = names.map((_, at) =>
    lines.reduce((most, line) => Math.max(most, cellsOf(line[at] ?? '')), 0),
  );
  const widest = Math.max(...widths);
  const taken = widths.reduce((sum, width) => sum + width + 2, -2 - widest);
  const most = Math.min(widest, Math.max(NARROWEST, room - taken));
  widths[widths.indexOf(widest)] = most;
  return lines
    .flatMap((line) => {
      const cells = line.map((cell, at) => cut(cell, widths[at] ?? 0));
      const height = Math.max(...cells.map(({ length }) => length));
      return Array.from({ length: height }, (_, row) =>
        cells.map((pieces, at) => {
          const piece = pieces[row] ?? '';
          return piece + ' '.repeat((widths[at] ?? 0) - cellsOf(piece));
        }),
      );
    })
    .map((cells) => cells.join('  ').trimEnd())
    .join('\n');
}

/** Much of the output comes from strangers: none of it may move the cursor or change the order of characters. */
export function clean(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?') || '-';
}

/** Bytes by powers of 1,000, as disks are sold: `812 B`, `34.5 KB`, `1.5 GB`. */
export function formatBytes(octets: number): string {
  if (octets < 1e3) return `${octets} B`;
  if (octets < 1e6) return `${(octets / 1e3).toFixed(1)} KB`;
  if (octets < 1e9) return `${(octets / 1e6).toFixed(1)} MB`;
  return `${(octets / 1e9).toFixed(1)} GB`;
}

/** Milliseconds between two lines of progress. */
const SHOW_EVERY_MS = 200;

/**
 * Shows the progress of long work: one line on stderr that is overwritten, only at a terminal.
 *
 * @returns shows a new text; without one, clears the line
 */
export function openProgress(stream: NodeJS.WriteStream = process.stderr): (text?: string) => void {
  let shownAt = Number.NEGATIVE_INFINITY;
  return (text) => {
    if (!stream.isTTY) return;
    const now = performance.now();
    if (text !== undefined && now - shownAt < SHOW_EVERY_MS) return;
    shownAt = now;
    // Back to the start of the line, and clear it (ECMA-48 EL).
    stream.write(`\r\u001b[K${text ?? ''}`);
  };
}

const BAR_WIDTH = 24;

/** Shows long work as a bar at a terminal, else as one line for each step, on stderr. */
export function openBar(stream: NodeJS.WriteStream = process.stderr): {
  show(state: Progress): void;
  end(): void;
} {
  const show = openProgress(stream);
  return {
    show({ name, done, total, octets, ended }) {
      if (!stream.isTTY) {
        if (ended !== undefined) stream.write(`${ended}\n`);
        return;
      }
      const part = total === 0 ? 1 : Math.min(done / total, 1);
      const bar = '#'.repeat(Math.round(part * BAR_WIDTH)).padEnd(BAR_WIDTH, '-');
      const size = octets === 0 ? '' : `, ${formatBytes(octets)}`;
      show(`[${bar}] ${Math.floor(part * 100)} %  ${done} of ${total}${size}  ${name}`);
    },
    end: () => show(),
  };
}
