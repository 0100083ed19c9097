/**
 * The processes that share a database. On SQLite there is one; on PostgreSQL each has a row of `nodes`, which it
 * writes again every few seconds (a heartbeat), by the database's clock. If a row was not written for
 * {@link GONE_MS}, its node is gone. A process also holds a lock that ends with it: where that is free, its node was
 * killed, and its successor need not wait. Through a pooler there are no such locks, and the heartbeat alone decides.
 *
 * The row has all settings that must be equal on all nodes, secrets as digests. A node that differs from a running one
 * is refused, and so is one without a Redis and a bucket that all share. If none runs, the new one is right: an operator
 * changes such a setting by stopping all nodes. Nodes that start together take turns (an advisory lock of the
 * transaction, which works through PgBouncer).
 *
 * A node that was silent for longer than {@link GONE_MS}, such as a paused machine, is judged again.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { sql } from 'kysely';
import type { Logger } from 'pino';
import {
  advisoryLocks,
  type Database,
  isProcessLockFree,
  type ProcessLock,
  type Queries,
  type Row,
} from '../database/database.ts';
import type { LogLevel } from '../log/log.ts';
import { DAY_MS, type EpochMs, Outage, Repeat } from '../time/time.ts';
import { DatabaseClock, databaseTime } from './clock.ts';
import { GONE_MS, judge, type NodeFacts, nameNode } from './judge.ts';
import { noteLack } from './lacks.ts';
import { lead } from './lead.ts';
import { SteadyBeats } from './steady.ts';

export { compareClocks, OFF_MS } from './clock.ts';
export type { NodeFacts } from './judge.ts';
export { Seal, type SigningKeys } from './seal.ts';

const BEAT_MS = 5_000;
/** What `machine` of a row says while the process holds its lock. */
const LOCKED = 'lock';
/** How long the row of a gone node is kept. */
const KEPT_MS = DAY_MS;

export interface NodesOptions {
  readonly database: Database;
  readonly facts: NodeFacts;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  /** Called when this node may not continue beside another one: why, in one line. */
  readonly onRefused: (line: string) => void;
  /** Called when an operator changes the log level on all nodes. */
  readonly onLogLevel: (level: LogLevel) => void;
}

/** This process may not run beside another one; the message is one line for the operator. */
export class NodeRefused extends Error {
  override readonly name = 'NodeRefused';
}

/** A process that has the database open, as operators see it. */
export interface NodeView {
  /** Of this run of the process. */
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly startedAt: EpochMs;
  /** The time of its last heartbeat. */
  readonly seenAt: number;
  /** False for a node that was killed or lost the database. */
  readonly isRunning: boolean;
}

export interface Nodes {
  /** Of this node. */
  readonly id: string;
  /** The nodes of the last day, the newest first, without those that stopped by themselves. */
  list(): Promise<NodeView[]>;
  /** Whether no other node ran when this one joined. */
  readonly isAlone: boolean;
  /** Whether leases of others that ended are those of dead nodes, as always without Redis, where no other may run; see {@link SteadyBeats}. */
  readonly isSteady: boolean;
  /** Notes for some seconds that this node lacks something. @returns whether another node runs that does not lack it */
  othersHave(thing: string): Promise<boolean>;
  /** The same on all nodes. */
  readonly now: () => EpochMs;
  /** By how many milliseconds the clock of this machine is ahead of that; undefined where it is the only one. */
  readonly clockOff?: () => number;
  /**
   * Does work that one node does for all: whenever this node leads, from now until {@link Nodes.leave}.
   *
   * @param work ends soon after its signal is aborted
   */
  lead(name: string, work: (signal: AbortSignal) => Promise<void>): void;
  /** Ends the shared work of this node. */
  stopLeading(): Promise<void>;
  /** Tells all nodes to change their log level: each does it with its next heartbeat. */
  changeLogLevel(tx: Queries, level: LogLevel): Promise<void>;
  /** Removes this node from the list. */
  leave(): Promise<void>;
}

/** Adds this process to the list of the nodes. @throws NodeRefused where it differs from a node that runs */
export async function joinNodes(options: NodesOptions): Promise<Nodes> {
  if (options.database.engine === 'sqlite') return new OnlyNode(options.facts);
  const node = new Node(options);
  try {
    await node.join();
  } catch (error) {
    await node.unlock();
    throw error;
  }
  return node;
}

/** On SQLite, which one process has open. */
class OnlyNode implements Nodes {
  readonly id = randomUUID();
  readonly isAlone = true;
  readonly isSteady = true;
  readonly now = Date.now;
  readonly #stopping = new AbortController();
  readonly #work: Promise<void>[] = [];
  readonly #facts: NodeFacts;
  readonly #startedAt = Date.now();

  constructor(facts: NodeFacts) {
    this.#facts = facts;
  }

  async list(): Promise<NodeView[]> {
    const self = { id: this.id, host: hostname(), pid: process.pid, startedAt: this.#startedAt };
    return [{ ...self, version: this.#facts.version, seenAt: Date.now(), isRunning: true }];
  }

  lead(_name: string, work: (signal: AbortSignal) => Promise<void>): void {
    this.#work.push(work(this.#stopping.signal));
  }

  async stopLeading(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#work);
  }

  async othersHave(): Promise<boolean> {
    return false;
  }

  async changeLogLevel(): Promise<void> {}

  async leave(): Promise<void> {}
}

class Node implements Nodes {
  readonly id = randomUUID();
  readonly #options: NodesOptions;
  readonly #clock = new DatabaseClock();
  readonly now = this.#clock.now;
  readonly clockOff = this.#clock.off;
  readonly #stopping = new AbortController();
  readonly #work: Promise<void>[] = [];
  readonly #lock: ProcessLock | undefined;
  #others = 0;
  readonly #beats: Repeat;
  /** Of all leases together: what one of them meets, the others meet as well. */
  readonly #leases: Outage;
  /** By the monotonic clock. */
  #lastBeat = 0;
  readonly #steady = new SteadyBeats();

  constructor(options: NodesOptions) {
    this.#options = options;
    const line = 'a heartbeat could not be written: retry in 5 s';
    const outage = new Outage((err) => options.log.warn({ err }, line));
    this.#beats = new Repeat({ everyMs: BEAT_MS, task: () => this.#beat(), outage });
    this.#leases = new Outage((err) =>
      options.log.warn(
        { err },
        'leases cannot be acquired or renewed: until they can, this node does no work for all nodes; retry every few seconds',
      ),
    );
    this.#lock = options.database.processLock?.(this.id);
  }

  get isAlone(): boolean {
    return this.#others === 0;
  }

  get isSteady(): boolean {
    return !this.#options.facts.hasEvents || this.#steady.isSteady;
  }

  async list(): Promise<NodeView[]> {
    const rows = await this.#options.database.read
      .selectFrom('nodes')
      .selectAll()
      .orderBy('started_at', 'desc')
      .execute();
    const now = this.now();
    return rows.map(({ id, host, pid, version, started_at, seen_at }) => ({
      id,
      host,
      pid,
      version,
      startedAt: started_at,
      seenAt: seen_at,
      isRunning: seen_at > now - GONE_MS,
    }));
  }

  async othersHave(thing: string): Promise<boolean> {
    const lacking = await noteLack({
      database: this.#options.database,
      name: thing,
      owner: this.id,
    });
    return (await this.list()).some(({ id, isRunning }) => isRunning && !lacking.has(id));
  }

  async join(): Promise<void> {
    await this.#enter();
    this.#beats.start();
  }

  lead(name: string, work: (signal: AbortSignal) => Promise<void>): void {
    const lease = { database: this.#options.database, name, owner: this.id };
    this.#work.push(lead(lease, work, this.#stopping.signal, this.#leases));
  }

  async stopLeading(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#work);
  }

  async changeLogLevel(tx: Queries, level: LogLevel): Promise<void> {
    await tx
      .updateTable('nodes')
      .set(({ eb }) => ({
        // This node changes at once: its next heartbeat must not apply an earlier change that still waits.
        log_level: eb.case().when('id', '=', this.id).then(null).else(level).end(),
      }))
      .execute();
  }

  async leave(): Promise<void> {
    await this.#beats.stop();
    await this.#options.database.write((tx) =>
      tx.deleteFrom('nodes').where('id', '=', this.id).execute(),
    );
    await this.unlock();
  }

  async unlock(): Promise<void> {
    await this.#lock?.release();
  }

  /** What the row says of the lock. */
  async #holdLock(): Promise<string> {
    return (await this.#lock?.isHeld()) ? LOCKED : '';
  }

  /** Compares this node with the running ones, and writes its row. */
  async #enter(): Promise<void> {
    const { database, facts, log } = this.#options;
    await this.#clock.measure(database.read);
    const line = this.#clock.report();
    if (line) log.warn(line);
    const at = performance.now();
    const machine = await this.#holdLock();
    this.#others = await database.write(async (tx) => {
      await sql`select pg_advisory_xact_lock(${sql.lit(advisoryLocks.nodes)})`.execute(tx);
      const others = await findNodes(tx, this.id);
      for (const other of others) {
        const reason = judge(facts, other);
        if (reason !== undefined) throw new NodeRefused(reason);
      }
      await writeRow(tx, this.id, facts, machine);
      return others.length;
    });
    this.#lastBeat = at;
    this.#steady.note(this.now());
  }

  async #beat(): Promise<void> {
    const { database, log, onRefused } = this.#options;
    const at = performance.now();
    try {
      const wasGone = at - this.#lastBeat > GONE_MS;
      if (wasGone || !(await this.#write())) await this.#enter();
      this.#lastBeat = at;
      await this.#clock.measure(database.read);
      this.#steady.note(this.now());
      const line = this.#clock.report();
      if (line) log.warn(line);
    } catch (error) {
      if (!(error instanceof NodeRefused)) throw error;
      onRefused(error.message);
    }
  }

  /** @returns false where the row does not exist */
  async #write(): Promise<boolean> {
    const { database, onLogLevel } = this.#options;
    const machine = await this.#holdLock();
    const row = await database.write((tx) =>
      tx
        .updateTable('nodes')
        .set({ seen_at: databaseTime, machine })
        .where('id', '=', this.id)
        .returning('log_level')
        .executeTakeFirst(),
    );
    const level = row?.log_level;
    if (level) {
      onLogLevel(level);
      await database.write((tx) =>
        tx
          .updateTable('nodes')
          .set({ log_level: null })
          .where('id', '=', this.id)
          // A newer change that came meanwhile waits for the next heartbeat.
          .where('log_level', '=', level)
          .execute(),
      );
    }
    return row !== undefined;
  }
}

/** The machines that run a node now; none on SQLite, which one process has open. */
export async function listRunningNodes(database: Database): Promise<string[]> {
  if (database.engine === 'sqlite') return [];
  const running = await database.write((tx) => findNodes(tx, ''));
  return running.map(({ host }) => host);
}

/** What the nodes that run report of a setting, see {@link NodeFacts}; those of a version without it are left out. */
export async function listSetting(
  database: Database,
  key: string,
): Promise<{ readonly node: string; readonly values: readonly string[] }[]> {
  const running = await database.write((tx) => findNodes(tx, ''));
  return running.flatMap((node) => {
    const values: readonly string[] | undefined = JSON.parse(node.settings)[key];
    return values ? [{ node: nameNode(node), values }] : [];
  });
}

/** The other nodes that run; the rows of killed ones are removed, and of gone ones after a day. */
async function findNodes(tx: Queries, ownId: string): Promise<Row<'nodes'>[]> {
  const { rows } = await sql<{ now: number }>`select ${databaseTime} as now`.execute(tx);
  const now = rows[0]?.now ?? 0;
  await tx
    .deleteFrom('nodes')
    .where('seen_at', '<', now - KEPT_MS)
    .execute();
  const known = await tx
    .selectFrom('nodes')
    .selectAll()
    .where('id', '!=', ownId)
    .where('seen_at', '>', now - GONE_MS)
    .execute();
  const others = [];
  for (const row of known) {
    const wasKilled = row.machine === LOCKED && (await isProcessLockFree(tx, row.id));
    if (wasKilled) await tx.deleteFrom('nodes').where('id', '=', row.id).execute();
    else others.push(row);
  }
  return others;
}

async function writeRow(tx: Queries, id: string, facts: NodeFacts, machine: string): Promise<void> {
  const { version, hasEvents } = facts;
  const row = {
    version,
    host: hostname(),
    machine,
    pid: process.pid,
    seen_at: databaseTime,
    has_events: hasEvents ? 1 : 0,
    settings: JSON.stringify(facts.settings),
  };
  await tx
    .insertInto('nodes')
    .values({ id, started_at: databaseTime, ...row })
    .onConflict((conflict) => conflict.column('id').doUpdateSet(row))
    .execute();
}
