/** A database with a domain and a body, queues on it, and a receiver that the test controls. */
import { join } from 'node:path';
import { inspect } from 'node:util';
import { senderOf } from '../../../src/mail/queue/parties.ts';
import {
  type AttemptOutcome,
  type Job,
  type NewDelivery,
  Queue,
  type QueueOptions,
  type WorkOptions,
} from '../../../src/mail/queue/queue.ts';
import { Bodies, BodyFolder } from '../../../src/mailboxes/bodies/bodies.ts';
import type { Database, Engine, Queries, Row } from '../../../src/platform/database/database.ts';
import type { SharedSlots } from '../../../src/platform/net/net.ts';
import { openTestDatabase } from '../databases.ts';
import { FakeClock, turns, UNTIL_MS, until } from './fake-clock.ts';

export const KIND = 'test';
/** Seconds. */
export const DELAYS = [5, 60, 120];

export const delivered: AttemptOutcome = { result: 'delivered' };
export const refused = { result: 'temporary', error: { status: 500, text: 'no' } } as const;
export const gone: AttemptOutcome = { result: 'permanent', error: { status: 410, text: 'gone' } };

/** An attempt that the test has to answer. */
export interface Attempt {
  readonly job: Job<string>;
  readonly signal: AbortSignal;
  answer(outcome: AttemptOutcome): void;
}

/** Payloads as they are in the row. */
const payloads = { read: (json: string) => json };

/** Called by a worker; keeps every attempt until the test answers it. */
export class Receiver {
  readonly attempts: Attempt[] = [];
  /** Answers at once where it returns an outcome. */
  respond: (job: Job<string>) => AttemptOutcome | undefined = () => undefined;

  readonly attempt = (job: Job<string>, signal: AbortSignal): Promise<AttemptOutcome> =>
    new Promise((resolve) => {
      this.attempts.push({ job, signal, answer: resolve });
      const outcome = this.respond(job);
      if (outcome) resolve(outcome);
    });

  /** The attempt of that number (from 0), as soon as it is made. */
  async nth(index: number): Promise<Attempt> {
    await until(() => this.attempts.length > index);
    const attempt = this.attempts[index];
    if (!attempt) throw new Error('no such attempt');
    return attempt;
  }
}

export interface QueueProcess {
  readonly queue: Queue;
  readonly receiver: Receiver;
  /** Ends it like kill -9: its queries may still be done, but it gets no results. */
  kill(): void;
}

/** The database as a process sees it, until the process dies. */
function mortal(database: Database, life: { readonly over: boolean }): Database {
  const never = <T>() => new Promise<T>(() => {});
  return {
    ...database,
    get read() {
      if (life.over) throw new Error('the process is dead');
      return database.read;
    },
    async write(work) {
      if (life.over) return never();
      try {
        return await database.write(work);
      } finally {
        if (life.over) await never();
      }
    },
  };
}

export class QueueBench {
  readonly clock = new FakeClock();
  readonly database: Database;
  readonly bodies: Bodies;
  readonly domainId: number;
  readonly bodyId: number;
  /** The slots that several nodes share. */
  slots: SharedSlots | undefined;
  trace: QueueOptions['trace'];
  readonly logged: { fields: Record<string, unknown>; message: string }[] = [];

  constructor(database: Database, bodies: Bodies, domainId: number, bodyId: number) {
    this.database = database;
    this.bodies = bodies;
    this.domainId = domainId;
    this.bodyId = bodyId;
  }

  queue(life = { over: false }, database = this.database, mayTakeOver = () => true): Queue {
    const note = (fields: object, message: string) => {
      if (!life.over) this.logged.push({ fields: { ...fields }, message });
    };
    return new Queue({
      database: mortal(database, life),
      clock: this.clock,
      slots: this.slots,
      trace: this.trace,
      mayTakeOver,
      random: () => 0,
      log: { warn: note, error: note },
    });
  }

  /** A process with a queue that works on {@link KIND}, and a receiver. */
  start(
    options: Partial<WorkOptions<string>> = {},
    database = this.database,
    mayTakeOver?: () => boolean,
  ): QueueProcess {
    const life = { over: false };
    const queue = this.queue(life, database, mayTakeOver);
    const receiver = new Receiver();
    queue.work({ kind: KIND, payloads, delays: DELAYS, attempt: receiver.attempt, ...options });
    return {
      queue,
      receiver,
      kill() {
        life.over = true;
      },
    };
  }

  delivery(destination: string, more: Partial<NewDelivery> = {}): NewDelivery {
    const { domainId, bodyId } = this;
    return {
      kind: KIND,
      userId: 'ann',
      domainId,
      bodyId,
      destination,
      payload: '{"a":1}',
      ...more,
    };
  }

  /** Queues deliveries, commits, and wakes the queue. */
  async enqueue(queue: Queue, ...deliveries: NewDelivery[]): Promise<number[]> {
    const ids = await this.database.write(async (tx) => {
      const made: number[] = [];
      for (const delivery of deliveries) made.push(await queue.enqueue(tx, delivery));
      return made;
    });
    queue.wake(deliveries);
    return ids;
  }

  /**
   * Lets time pass after the database has done what it was asked. It works in real time, and leases are renewed by the
   * clock: on a busy machine this would be far ahead of it.
   */
  async pass(ms: number): Promise<void> {
    await this.database.write(async () => {});
    await turns();
    await this.clock.advance(ms);
  }

  /** Removes deliveries as the maintenance does, with their bodies; returns how many. */
  async remove(work: (tx: Queries) => Promise<number[]>): Promise<number> {
    return this.database.write(async (tx) => {
      const bodyIds = await work(tx);
      await this.bodies.release(tx, bodyIds);
      return bodyIds.length;
    });
  }

  /** Puts many rows into the table, faster than `enqueue` does; by default of the domain. */
  async fill(
    destination: string | ((n: number) => string),
    count: number,
    accountId?: number,
  ): Promise<void> {
    const now = this.clock.now();
    for (let at = 0; at < count; at += 500) {
      const rows = Array.from({ length: Math.min(500, count - at) }, (_, n) => ({
        kind: KIND,
        domain_id: this.domainId,
        destination: typeof destination === 'string' ? destination : destination(at + n),
        sender: senderOf({ userId: 'ann', domainId: this.domainId, accountId }),
        body_id: this.bodyId,
        public_id: crypto.randomUUID(),
        status: 'queued' as const,
        next_attempt_at: now,
        created_at: now,
        updated_at: now,
      }));
      await this.database.write(async (tx) => {
        const ids = await tx.insertInto('deliveries').values(rows).returning('id').execute();
        const payloads = ids.map(({ id }) => ({ delivery_id: id, payload: `${accountId ?? 0}` }));
        await tx.insertInto('delivery_payloads').values(payloads).execute();
      });
    }
  }
}

/** Inserts a domain; returns its id. */
export async function insertDomain(database: Database, name: string): Promise<number> {
  const { id } = await database.write((tx) =>
    tx
      .insertInto('domains')
      .values({
        user_id: 'user',
        organization_id: null,
        name,
        status: 'active',
        dkim_selector: 'test',
        dkim_private_key: 'none',
        created_at: 0,
        verified_at: 0,
        lapsed_at: null,
      })
      .returning('id')
      .executeTakeFirstOrThrow(),
  );
  return id;
}

/** The only row, as soon as the condition holds for it. It says what was in the row, and in the log, where it never does. */
export async function rowWhen(
  { database, logged }: QueueBench,
  holds: (row: Row<'deliveries'>) => boolean,
): Promise<Row<'deliveries'>> {
  const end = performance.now() + UNTIL_MS;
  for (;;) {
    const row = await database.read.selectFrom('deliveries').selectAll().executeTakeFirstOrThrow();
    if (holds(row)) return row;
    if (performance.now() > end) {
      throw new Error(`never came true: ${holds} of ${inspect(row)}; the log: ${inspect(logged)}`);
    }
    await turns();
  }
}

export async function openQueueBench(engine: Engine): Promise<QueueBench> {
  const { database, directory } = await openTestDatabase(engine);
  const bodies = new Bodies({ database, store: new BodyFolder(join(directory, 'bodies')) });
  const domainId = await insertDomain(database, 'acme.test');
  const bodyId = await database.write((tx) =>
    bodies.commit(tx, { size: 2, content: Buffer.from('hi') }),
  );
  return new QueueBench(database, bodies, domainId, bodyId);
}
