/**
 * Senders whose mail an operator does not want: addresses, domains with all below them, networks of clients.
 * Owns table `blocks`, a row for each.
 *
 * Each MAIL is looked up in memory, so that no stranger causes a database query. The list is loaded at the start,
 * after every change on this node, and within {@link LOOK_EVERY_MS} after a change on another one. While the
 * database does not answer, the last list stays in use.
 */
import {
  type Database,
  type NewestPage,
  newestFirst,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import { type EpochMs, Outage, Repeat } from '../../platform/time/time.ts';
import { type Actor, recordAudit } from '../../tenants/audit/audit.ts';
import {
  type BlockedSender,
  type BlockKind,
  BlockList,
  readBlock,
  refuseTrusted,
} from './block-list.ts';

export type { BlockKind } from './block-list.ts';

export interface Block extends BlockedSender {
  readonly id: number;
  /** For people: why. */
  readonly note: string | undefined;
  readonly createdAt: EpochMs;
}

export interface BlocksOptions {
  readonly database: Database;
  /** Networks of clients whose mail is never blocked, as `address/bits`. */
  readonly trustedNetworks: readonly string[];
  readonly logger: { warn(fields: object, message: string): void };
  /** The same on all nodes. */
  readonly now: () => EpochMs;
  /** Milliseconds between two checks for changes of other nodes. */
  readonly lookEveryMs?: number;
}

export const BLOCKS_MAX = 10_000;
export const LOOK_EVERY_MS = 10_000;
const NOTE_MAX = 500;

export class Blocks {
  readonly #options: BlocksOptions;
  #list = new BlockList([]);
  /** The version of the list, see {@link readVersion}. */
  #version: string | undefined;
  readonly #looks: Repeat;

  constructor(options: BlocksOptions) {
    this.#options = options;
    const { logger, lookEveryMs: everyMs = LOOK_EVERY_MS } = options;
    const line =
      'the list of blocked senders could not be read: the list read before stays in force';
    const outage = new Outage((err) => logger.warn({ err }, line));
    this.#looks = new Repeat({ everyMs, task: () => this.#load(), outage });
  }

  /** Loads the list and follows it from now on. @throws the error of the database where it does not answer */
  async start(): Promise<void> {
    await this.#load();
    this.#looks.start();
  }

  stop(): Promise<void> {
    return this.#looks.stop();
  }

  /**
   * Checks the sender of a message.
   *
   * @param client IP address
   * @param from reverse-path of MAIL; empty for bounces
   * @returns why the mail is refused, if it is
   */
  judge(client: string, from: string): Refusal | undefined {
    const block = this.#list.find(client, from);
    return block && new Refusal('sender_blocked', `Mail from ${block.value} is blocked here`);
  }

  /**
   * Lists blocks, the newest first.
   */
  async list(page: NewestPage): Promise<Block[]> {
    const all = this.#options.database.read.selectFrom('blocks').selectAll();
    return (await newestFirst(all, page).execute()).map(toBlock);
  }

  /**
   * Blocks a sender.
   *
   * @returns the block; an existing one unchanged
   * @throws Refusal invalid_request (`value`, `note`), also where there are {@link BLOCKS_MAX}, or a network is trusted
   */
  async add(
    wanted: { readonly kind: BlockKind; readonly value: string; readonly note?: string },
    by: Actor,
  ): Promise<Block> {
    const { kind, note } = wanted;
    const value = readBlock(kind, wanted.value);
    if (kind === 'network') refuseTrusted(value, this.#options.trustedNetworks);
    checkNote(note);
    const created_at = this.#options.now();
    const row = await this.#options.database.write(async (tx) => {
      const found = await findBlock(tx, kind, value);
      if (found) return found;
      await checkRoom(tx);
      const added = await tx
        .insertInto('blocks')
        .values({ kind, value, note: note ?? null, created_at })
        .onConflict((conflict) => conflict.columns(['kind', 'value']).doNothing())
        .returningAll()
        .executeTakeFirst();
      if (added) await recordAudit(tx, by, { action: 'block.add', target: value, at: created_at });
      return added ?? (await findBlock(tx, kind, value));
    });
    await this.#looks.run();
    if (!row) throw new Refusal('unavailable', 'the block was removed at the same time, try again');
    return toBlock(row);
  }

  /** Accepts a sender's mail again. @returns the removed block @throws Refusal block_not_found */
  async remove(id: number, by: Actor): Promise<Block> {
    const row = await this.#options.database.write(async (tx) => {
      const one = tx.deleteFrom('blocks').where('id', '=', id).returningAll();
      const removed = Number.isSafeInteger(id) ? await one.executeTakeFirst() : undefined;
      if (!removed) throw new Refusal('block_not_found', `there is no block ${id}`);
      await recordAudit(tx, by, {
        action: 'block.delete',
        target: removed.value,
        at: this.#options.now(),
      });
      return removed;
    });
    await this.#looks.run();
    return toBlock(row);
  }

  /** Checks whether the list has changed. */
  async #load(): Promise<void> {
    const { read } = this.#options.database;
    // Read before the rows: the next check finds what changes in between.
    const version = await readVersion(read);
    if (version === this.#version) return;
    const rows = await read.selectFrom('blocks').select(['kind', 'value']).execute();
    this.#list = new BlockList(rows);
    this.#version = version;
  }
}

/** The version of the list. Rows are never changed, and an id is never used twice. */
async function readVersion(queries: Queries): Promise<string> {
  const { count, last, sum } = await queries
    .selectFrom('blocks')
    .select(({ fn }) => [
      fn.countAll().as('count'),
      fn.max('id').as('last'),
      fn.sum('id').as('sum'),
    ])
    .executeTakeFirstOrThrow();
  return `${count} ${last} ${sum}`;
}

async function findBlock(
  tx: Queries,
  kind: BlockKind,
  value: string,
): Promise<Row<'blocks'> | undefined> {
  return tx
    .selectFrom('blocks')
    .selectAll()
    .where('kind', '=', kind)
    .where('value', '=', value)
    .executeTakeFirst();
}

async function checkRoom(tx: Queries): Promise<void> {
  const { count } = await tx
    .selectFrom('blocks')
    .select(({ fn }) => fn.countAll().as('count'))
    .executeTakeFirstOrThrow();
  if (Number(count) >= BLOCKS_MAX) {
    throw invalidField('value', `has no room: there are ${BLOCKS_MAX} blocks, delete some first`);
  }
}

function checkNote(note: string | undefined): void {
  if (note === undefined) return;
  if (note.length > NOTE_MAX || !note.isWellFormed() || /\p{Cc}/u.test(note)) {
    throw invalidField('note', `must be at most ${NOTE_MAX} characters, and no control characters`);
  }
}

function toBlock({ id, kind, value, note, created_at }: Row<'blocks'>): Block {
  return { id, kind, value, note: note ?? undefined, createdAt: created_at };
}
