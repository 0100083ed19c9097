/**
 * Whatever happens in between (failures, crashes at any moment, late answers, replays, a clock that is set forward), no
 * delivery is lost: each is attempted until it has ended, under the same id and with the same payload, and what follows
 * its end is done exactly once for each end.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { onEachEngine } from '../../../test/support/databases.ts';
import { turns } from '../../../test/support/queue/fake-clock.ts';
import {
  type Attempt,
  delivered,
  gone,
  openQueueBench,
  type QueueBench,
  type QueueProcess,
  refused,
} from '../../../test/support/queue/open-queue.ts';

type Step =
  | { do: 'enqueue'; destination: string; count: number; crash: boolean }
  | { do: 'answer'; pick: number; result: 'delivered' | 'temporary' | 'permanent' }
  | { do: 'advance' | 'clock'; seconds: number }
  | { do: 'crash' | 'retry' | 'stop'; pick: number }
  | { do: 'turns'; count: number };

const pick = fc.nat(1_000);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('enqueue' as const),
      destination: fc.constantFrom('a', 'b', 'c'),
      count: fc.integer({ min: 1, max: 5 }),
      crash: fc.boolean(),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('answer' as const),
      pick,
      result: fc.constantFrom(
        'delivered' as const,
        'temporary' as const,
        'temporary' as const,
        'permanent' as const,
      ),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('advance' as const), seconds: fc.nat(40) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('clock' as const),
      seconds: fc.nat(100_000),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('crash' as const, 'retry' as const, 'stop' as const),
      pick,
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('turns' as const), count: fc.nat(8) }) },
);

const outcomes = { delivered, temporary: refused, permanent: gone };

/** The system, and what is known about it from outside. */
class Model {
  readonly #bench: QueueBench;
  #process: QueueProcess;
  /** Attempts of all processes that wait for an answer, also those of dead ones. */
  readonly #waiting: Attempt[] = [];
  /** The committed payloads, by public id. */
  readonly #accepted = new Map<string, { id: number; payload: string }>();
  readonly #attempted = new Set<string>();
  #made = 0;

  constructor(bench: QueueBench) {
    this.#bench = bench;
    this.#process = this.#start();
  }

  async run(step: Step): Promise<void> {
    switch (step.do) {
      case 'enqueue':
        return this.#enqueue(step.destination, step.count, step.crash);
      case 'answer':
        return this.#answer(step.pick, step.result);
      case 'advance':
        return this.#bench.clock.advance(step.seconds * 1_000);
      case 'clock':
        this.#bench.clock.set(step.seconds * 1_000);
        return;
      case 'crash':
        this.#crash();
        return;
      case 'stop': {
        const stopped = this.#process.queue.stop(1_000);
        await this.#bench.clock.advance(3_000);
        // Attempts without an answer are aborted.
        await stopped;
        this.#process = this.#start();
        return;
      }
      case 'retry': {
        const ids = [...this.#accepted.values()];
        const chosen = ids[step.pick % Math.max(ids.length, 1)];
        if (chosen) await this.#process.queue.retry(this.#bench.domainId, chosen.id, 'test');
        return;
      }
      default:
        return turns(step.count);
    }
  }

  /** Lets everything end, and checks the records. */
  async finish(): Promise<void> {
    for (let round = 0; ; round++) {
      assert.ok(round < 2_000, 'it never comes to an end');
      for (const { answer } of this.#waiting.splice(0)) answer(delivered);
      await this.#bench.clock.advance(2_000);
      // The clock does not wait for the disk: what is being written is there after a write that came later.
      await this.#bench.database.write(async () => {});
      const left = await this.#bench.database.read
        .selectFrom('deliveries')
        .select('id')
        .where('status', '=', 'queued')
        .execute();
      if (left.length === 0) break;
    }
    const rows = await this.#bench.database.read.selectFrom('deliveries').selectAll().execute();
    assert.equal(rows.length, this.#accepted.size);
    assert.deepEqual(
      this.#bench.logged.filter(({ message }) => message === 'an outcome is not written'),
      [],
    );
    const ends = await this.#bench.database.read.selectFrom('counters').selectAll().execute();
    const endsOf = new Map(ends.map(({ name, value }) => [name, value]));
    for (const { public_id, status, replays, lease_owner } of rows) {
      assert.ok(this.#attempted.has(public_id), 'it was never attempted');
      assert.equal(lease_owner, null);
      assert.equal(endsOf.get(public_id), replays + 1, `ends of one that is ${status}`);
      assert.equal(endsOf.get(`first ${public_id}`), 1);
    }
  }

  #start(): QueueProcess {
    const started = this.#bench.start({
      delays: Array.from({ length: 40 }, () => 5),
      perDestination: 3,
      onOutcome: async (tx, job, { status }) => {
        // A second row would break the key, and so the outcome.
        if (job.isFirst) {
          const name = `first ${job.publicId}`;
          await tx.insertInto('counters').values({ name, value: 1 }).execute();
        }
        if (status === 'queued') return undefined;
        await tx
          .insertInto('counters')
          .values({ name: job.publicId, value: 1 })
          .onConflict((conflict) =>
            conflict.column('name').doUpdateSet((eb) => ({
              value: eb('counters.value', '+', 1),
            })),
          )
          .execute();
        return undefined;
      },
    });
    const { attempts } = started.receiver;
    attempts.push = (attempt: Attempt) => {
      const { publicId, payload, id } = attempt.job;
      // A commit of a process that died at that moment is known from here on.
      const accepted = this.#accepted.get(publicId) ?? { id, payload };
      this.#accepted.set(publicId, accepted);
      assert.deepEqual({ id, payload }, accepted);
      assert.equal(payload, JSON.stringify({ publicId }));
      this.#attempted.add(publicId);
      return this.#waiting.push(attempt);
    };
    return started;
  }

  #crash(): void {
    this.#process.kill();
    this.#process = this.#start();
  }

  async #enqueue(destination: string, count: number, crash: boolean): Promise<void> {
    const deliveries = Array.from({ length: count }, () => {
      const publicId = `${this.#made++}`;
      return this.#bench.delivery(destination, { publicId, payload: JSON.stringify({ publicId }) });
    });
    const { queue } = this.#process;
    const committed = this.#bench.database.write(async (tx) => {
      for (const delivery of deliveries) {
        const id = await queue.enqueue(tx, delivery);
        const { publicId = '', payload } = delivery;
        this.#accepted.set(publicId, { id, payload });
      }
    });
    if (crash) this.#crash();
    await committed;
    if (!crash) queue.wake(deliveries);
  }

  async #answer(pick: number, result: keyof typeof outcomes): Promise<void> {
    const [attempt] = this.#waiting.splice(pick % Math.max(this.#waiting.length, 1), 1);
    attempt?.answer(outcomes[result]);
  }
}

onEachEngine('queue', (engine) => {
  test('nothing is lost, and nothing ends twice', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const model = new Model(await openQueueBench(engine));
        for (const step of steps) await model.run(step);
        await model.finish();
      }),
      { numRuns: engine === 'sqlite' ? 40 : 6, endOnFailure: true },
    );
  });
});
