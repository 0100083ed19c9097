/**
 * Turns lines that a mail server's processes append to a spool into signed batches for POST /hooks/mailserver
 * (contract 4.4), and posts them until they are accepted.
 *
 * In storage: a folder with the files of `spool.ts` and `notifier.json`; one process at a time uses it
 * (`lock.sqlite`). A batch is stored, with its event ids, before it is first posted, and the receiver remembers the
 * ids that it accepted: a process that dies at any point posts the same batch again, and no change is published
 * twice.
 */
import { randomUUID } from 'node:crypto';
import { access, constants, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { lockDirectory } from '../../platform/database/database.ts';
import { Refusal, when } from '../../platform/errors/errors.ts';
import { isMissing, replaceDurably } from '../../platform/files/files.ts';
import { type MailboxEvent, mergeLines } from './merge-lines.ts';
import { postBatch, type Receiver } from './post-batch.ts';
import { type Positions, Spool, type SpoolLimits } from './spool.ts';

export interface NotifierOptions extends Receiver {
  /** Absolute path of the folder, which must exist. */
  readonly directory: string;
  readonly logger: Logger;
  /** Others than {@link LIMITS} and those of the spool. */
  readonly limits?: Partial<typeof LIMITS & SpoolLimits>;
}

export interface Notifier {
  /** Ends at once; a batch that is not accepted stays stored. */
  stop(): Promise<void>;
}

const LIMITS = {
  /** The least from one batch to the next. */
  everyMs: 1_000,
  /** Before the first repetition of a batch; the wait doubles. */
  retryMs: 500,
};
/** How often the spool is read while nothing happens. */
const LOOK_MS = 100;
/** A receiver that is up again gets what it missed within this time. */
const RETRY_MAX_MS = 5_000;
/** The most lines that are logged because they are not accepted. */
const LOGGED_LINES = 20;
const LOGGED_CHARACTERS = 500;

/**
 * Starts at once.
 *
 * @throws Refusal unavailable where another process uses the folder; an error of the file system where it does not
 *   exist or belongs to another user
 */
export async function startNotifier(options: NotifierOptions): Promise<Notifier> {
  // The lock's own error would not name the folder, nor say that it is a file.
  await access(`${options.directory}/.`, constants.W_OK);
  const unlock = lockDirectory(options.directory);
  if (unlock === undefined) {
    throw new Refusal('unavailable', `another notifier is running on ${options.directory}`);
  }
  try {
    const worker = new Worker(options);
    await worker.open();
    const stopping = new AbortController();
    const ended = worker.run(stopping.signal).finally(unlock);
    return {
      stop() {
        stopping.abort();
        return ended;
      },
    };
  } catch (error) {
    unlock();
    throw error;
  }
}

class Worker {
  readonly #options: NotifierOptions;
  readonly #limits: typeof LIMITS;
  readonly #spool: Spool;
  #progress: SpoolProgress = { positions: {}, batch: [] };
  #failures = 0;

  constructor(options: NotifierOptions) {
    this.#options = options;
    this.#limits = { ...LIMITS, ...options.limits };
    this.#spool = new Spool(options);
  }

  async open(): Promise<void> {
    const kept = await readProgress(this.#options.directory);
    const positions = await this.#spool.known(kept?.positions ?? {});
    await this.#keep({ positions, batch: kept?.batch ?? [] });
    await this.#spool.prepare();
  }

  async run(signal: AbortSignal): Promise<void> {
    const { logger } = this.#options;
    while (!signal.aborted) {
      let waitMs: number;
      try {
        if (this.#progress.batch.length === 0) {
          await this.#tidy();
          await this.#gather();
        }
        const isIdle = this.#progress.batch.length === 0;
        waitMs = isIdle ? LOOK_MS : ((await this.#post(signal)) ?? this.#limits.everyMs);
      } catch (error) {
        // The disk is full, or the folder was removed: waiting loses nothing.
        logger.error({ err: error }, 'the spool cannot be read or written: retry in some seconds');
        waitMs = this.#backoff();
      }
      await sleep(waitMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Makes a batch of the new lines, and stores it. */
  async #gather(): Promise<void> {
    const { lines, positions, passedOver } = await this.#spool.read(this.#progress.positions);
    if (lines.length === 0 && passedOver === 0) return;
    const { events, malformed } = mergeLines(lines, randomUUID());
    if (passedOver > 0) {
      this.#options.logger.error(
        { bytes: passedOver },
        'data in the spool that is not a line was skipped',
      );
    }
    this.#logLines(malformed, 'lines of the spool that are not events were skipped');
    await this.#keep({ positions, batch: events });
  }

  /** @returns the milliseconds to wait where the receiver did not accept it */
  async #post(signal: AbortSignal): Promise<number | undefined> {
    const { batch, positions } = this.#progress;
    const { logger } = this.#options;
    const outcome = await postBatch(this.#options, batch, signal);
    if (outcome.kind === 'later') {
      if (signal.aborted) return 0;
      const afterMs = Math.max(outcome.afterMs ?? 0, this.#backoff());
      logger.warn(
        { events: batch.length, reason: outcome.reason, afterMs },
        'Postroom did not accept a batch: it is sent again',
      );
      return afterMs;
    }
    this.#failures = 0;
    if (outcome.kind === 'refused') {
      logger.error({ reason: outcome.reason }, 'Postroom refused a batch: it is not sent again');
      this.#logLines(
        batch.map((event) => JSON.stringify(event)),
        'these events were refused',
      );
    } else this.#logLines(outcome.rejected, 'these events were rejected');
    await this.#keep({ positions, batch: [] });
    return undefined;
  }

  async #tidy(): Promise<void> {
    const { positions } = this.#progress;
    const kept = await this.#spool.removeOld(positions);
    if (Object.keys(kept).length < Object.keys(positions).length) {
      await this.#keep({ positions: kept, batch: [] });
    }
    await this.#spool.rotate();
  }

  /** Keeps the stored and the known progress equal; durable when this returns. */
  async #keep(progress: SpoolProgress): Promise<void> {
    const path = join(this.#options.directory, FILE);
    await replaceDurably(path, JSON.stringify(progress), 0o600);
    this.#progress = progress;
  }

  #backoff(): number {
    const longest = Math.min(this.#limits.retryMs * 2 ** this.#failures, RETRY_MAX_MS);
    this.#failures = Math.min(this.#failures + 1, 16);
    // Random, so that many notifiers do not all come back at once.
    return longest * (0.5 + Math.random() / 2);
  }

  #logLines(lines: readonly string[], message: string): void {
    if (lines.length === 0) return;
    const first = lines.slice(0, LOGGED_LINES).map((line) => line.slice(0, LOGGED_CHARACTERS));
    this.#options.logger.error({ count: lines.length, first }, message);
  }
}

interface SpoolProgress {
  readonly positions: Positions;
  /** Events to post before anything else is read; empty: all are accepted. */
  readonly batch: readonly MailboxEvent[];
}

const FILE = 'notifier.json';

/**
 * Reads the stored progress.
 *
 * @returns undefined where there is none, or an unreadable one: then everything in the spool is posted again, which
 *   costs apps a sync and loses nothing
 */
async function readProgress(directory: string): Promise<SpoolProgress | undefined> {
  const text = await readFile(join(directory, FILE), 'utf8').catch(when(isMissing, ''));
  try {
    const value: unknown = JSON.parse(text);
    return isProgress(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Only this process writes the file, and always completely: so only its outline is checked. */
function isProgress(value: unknown): value is SpoolProgress {
  if (typeof value !== 'object' || value === null) return false;
  const { positions, batch } = value as Record<string, unknown>;
  return typeof positions === 'object' && positions !== null && Array.isArray(batch);
}
