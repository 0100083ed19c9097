/** What is kept of ended deliveries, and for how long. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import {
  openTestMailstore,
  sampleMessage,
  type TestMailstore,
} from '../../../test/support/mail.ts';
import { listEnded, pruneDeliveries, releaseDeliveries } from './operator-rows.ts';
import { Queue } from './queue.ts';

const BEFORE = 5_000;

onEachEngine('deliveries that ended', (engine) => {
  let store: TestMailstore;
  let queue: Queue;
  before(async () => {
    store = await openTestMailstore(engine);
    queue = new Queue({ database: store.database, log: { warn: () => {}, error: () => {} } });
  });

  const keepBody = async () => {
    const { body } = await store.stage(sampleMessage('x'.repeat(100_000)));
    return store.database.write((tx) => store.bodies.commit(tx, body));
  };

  /** @param finishedAt undefined: the delivery is still open */
  async function add(bodyId: number, finishedAt?: number): Promise<number> {
    return store.database.write(async (tx) => {
      const destination = 'https://hook.example';
      const delivery = {
        kind: 'webhook',
        userId: 'ann',
        domainId: 1,
        destination,
        bodyId,
        payload: '{}',
      };
      const id = await queue.enqueue(tx, delivery);
      if (finishedAt !== undefined) {
        const ended = { status: 'failed' as const, finished_at: finishedAt };
        await tx.updateTable('deliveries').set(ended).where('id', '=', id).execute();
      }
      return id;
    });
  }

  /** Does what the maintenance does. @returns how many deliveries lost their payloads */
  async function release(): Promise<number> {
    let released = 0;
    for (let after = { finished_at: 0, id: 0 }; ; ) {
      const ended = await listEnded(store.database.read, BEFORE, after);
      const last = ended.at(-1);
      if (!last) return released;
      after = last;
      const ids = ended.flatMap(({ id, is_kept }) => (is_kept ? [id] : []));
      if (ids.length === 0) continue;
      const files = await store.database.write(async (tx) =>
        store.bodies.empty(tx, await releaseDeliveries(tx, ids, BEFORE), BEFORE),
      );
      await store.bodies.removeFiles(files);
      released += ids.length;
    }
  }

  const isKept = async (bodyId: number) => (await store.bodies.find(bodyId)) !== undefined;

  test('lose their message, and are still listed', async () => {
    const gone = await keepBody();
    const ids = [await add(gone, 1_000), await add(gone, 2_000)];
    const file = (await store.bodies.find(gone))?.file;
    assert.ok(file, 'a large one is in a file');
    const kept = await readdir(join(store.directory, 'bodies'), { recursive: true });
    assert.ok(kept.some((path) => path.endsWith(file)));
    const [late, open] = [await keepBody(), await keepBody()];
    await add(late, 1_000);
    await add(late, BEFORE);
    await add(open, 1_000);
    await add(open);
    const user = await store.makeUser();
    await store.append(await store.stage(sampleMessage('m')), [{ user, mailbox: 'INBOX' }]);
    const { read } = store.database;
    const { body_id: mailbox } = await read
      .selectFrom('messages')
      .select('body_id')
      .executeTakeFirstOrThrow();
    await add(mailbox, 1_000);
    assert.equal(await release(), 5);
    assert.deepEqual(
      [await isKept(gone), await isKept(late), await isKept(open), await isKept(mailbox)],
      [false, true, true, true],
    );
    assert.equal(await release(), 0);
    const files = await readdir(join(store.directory, 'bodies'), { recursive: true });
    assert.ok(!files.includes(file));
    for (const id of ids) {
      assert.equal((await queue.find(1, id))?.status, 'failed');
      await assert.rejects(queue.retry(1, id, 'test'), { code: 'delivery_released' });
    }
    assert.equal(await queue.retry(1, 99_999, 'test'), undefined);
    const many = { action: 'retry', filter: { ids }, isDryRun: false, heldBy: 'operator' } as const;
    assert.deepEqual(await queue.bulk(many, 'test'), {
      matched: 0,
      changed: 0,
      skipped: { not_kept: 2 },
      more: false,
    });
    const removed = await store.database.write((tx) => pruneDeliveries(tx, BEFORE));
    await store.database.write((tx) => store.bodies.release(tx, removed));
    const rows = await store.database.read.selectFrom('bodies').select('id').execute();
    assert.deepEqual(rows.map(({ id }) => id).sort(), [late, open, mailbox].sort());
  });

  test('that is retried in time continues', async () => {
    const body = await keepBody();
    const id = await add(body, 4_000);
    assert.equal((await queue.retry(1, id, 'test'))?.status, 'queued');
    assert.equal(await release(), 0);
    assert.equal(await isKept(body), true);
  });
});
