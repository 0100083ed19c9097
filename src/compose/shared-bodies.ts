/**
 * Verifies that all nodes keep bodies in one place.
 *
 * A bucket is one place, and its name is one of the settings that nodes compare. A folder has only a path: a machine
 * made from an image of another one has a copy of the folder, with the same store id. So each node has a file with
 * its id in the folder, below `nodes`, and writes the time into it again and again. A node that starts beside others
 * looks for a file of theirs that is too new for a copy.
 */
import { readdir, readFile, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Bodies } from '../bodies/bodies.ts';
import { type Config, ConfigError } from '../config/config.ts';
import type { Database } from '../database/database.ts';
import { ensureFolder, isMissing } from '../files/files.ts';
import type { Nodes } from '../nodes/nodes.ts';

/** How long a node that starts beside others waits until the first one has marked the store of bodies. */
const MARK_WITHIN_MS = 10_000;
/** How often a node writes the time into its file. */
const WRITE_MS = 5_000;
/** A file that was not written for this long counts as a copy; a running node was seen more recently. */
const OLD_MS = 30_000;

interface CheckOptions {
  readonly config: Pick<Config, 'bodies'>;
  readonly database: Pick<Database, 'engine'>;
  readonly bodies: Pick<Bodies, 'checkStore'>;
  readonly nodes: Pick<Nodes, 'id' | 'isAlone' | 'list' | 'now'>;
  readonly log: Pick<Logger, 'warn'>;
  /** Whether nothing was set up in the database yet. */
  readonly isNew: boolean;
}

/**
 * Compares the ids of database and bodies, and checks that the other nodes use the same bodies. A node that runs alone
 * starts in any case, and accepts no mail where the ids differ.
 *
 * @returns removes this node's file from the folder; to be called at the stop
 * @throws ConfigError where other nodes have other bodies
 */
export async function checkBodies(options: CheckOptions): Promise<() => Promise<void>> {
  const { database, bodies, nodes, log, isNew } = options;
  const { folder, bucket } = options.config.bodies;
  const mark = database.engine === 'postgres' && !bucket ? new Mark(folder, nodes, log) : undefined;
  let mismatch = await bodies.checkStore(isNew && nodes.isAlone);
  for (let waited = 0; !nodes.isAlone; waited += 500) {
    const isElsewhere = !mismatch && (await mark?.isOthersMissing());
    if (isElsewhere) mismatch = `${folder} is not the folder of the nodes that run`;
    if (!mismatch) break;
    if (waited >= MARK_WITHIN_MS) {
      throw new ConfigError([
        `S3_URL: expected a body store that all nodes share, in S3 or in one shared DATA_DIR; ${mismatch}`,
      ]);
    }
    await pause(500);
    mismatch = await bodies.checkStore(false);
  }
  if (!mismatch) await mark?.leave();
  return async () => mark?.remove();
}

/** The file that shows that a node uses a folder. */
class Mark {
  readonly #folder: string;
  readonly #nodes: CheckOptions['nodes'];
  readonly #log: CheckOptions['log'];
  #timer: NodeJS.Timeout | undefined;

  constructor(bodies: string, nodes: CheckOptions['nodes'], log: CheckOptions['log']) {
    this.#folder = join(bodies, 'nodes');
    this.#nodes = nodes;
    this.#log = log;
  }

  /** Whether other nodes run, and none of them uses this folder. */
  async isOthersMissing(): Promise<boolean> {
    const { id: own, now } = this.#nodes;
    const others = (await this.#nodes.list()).filter(
      ({ id, isRunning }) => isRunning && id !== own,
    );
    for (const { id } of others) {
      if (now() - (await this.#readTime(id)) < OLD_MS) return false;
    }
    return others.length > 0;
  }

  /**
   * Writes this node's file, and removes those of nodes that are no longer listed. A folder that cannot be written,
   * such as on a full disk, is no reason not to start: small mail does not need it.
   */
  async leave(): Promise<void> {
    try {
      await ensureFolder(this.#folder);
      // In this order: a node is listed before it writes its file.
      const found = await readdir(this.#folder);
      const known = new Set((await this.#nodes.list()).map(({ id }) => id));
      for (const id of found) if (!known.has(id)) await this.#remove(id);
      await this.#write();
    } catch (err) {
      this.#log.warn(
        { err, folder: this.#folder },
        'this node could not write its file into the folder of bodies: until it can, nodes that start beside it are refused',
      );
    }
    // If the folder disappears, the service notices it elsewhere.
    this.#timer = setInterval(() => void this.#write().catch(() => {}), WRITE_MS).unref();
  }

  async remove(): Promise<void> {
    clearInterval(this.#timer);
    await this.#remove(this.#nodes.id);
  }

  #write(): Promise<void> {
    const { id, now } = this.#nodes;
    return writeFile(join(this.#folder, id), String(now()), { mode: 0o600 });
  }

  /** Milliseconds since 1970; 0 where there is none. */
  async #readTime(id: string): Promise<number> {
    return Number(await readFile(join(this.#folder, id), 'utf8').catch(missingIs('')));
  }

  async #remove(id: string): Promise<void> {
    await unlink(join(this.#folder, id)).catch(missingIs(undefined));
  }
}

function missingIs<Value>(value: Value): (error: unknown) => Value {
  return (error) => {
    if (isMissing(error)) return value;
    throw error;
  };
}
