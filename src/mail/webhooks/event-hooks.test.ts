import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Webhook } from 'standardwebhooks';
import { atEnd } from '../../../test/support/at-end.ts';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { insertDomain } from '../../../test/support/queue/open-queue.ts';
import { type Receiver, startReceiver } from '../../../test/support/webhooks/receiver.ts';
import { Bodies, BodyFolder } from '../../mailboxes/bodies/bodies.ts';
import { InProcessChanges } from '../../mailboxes/changes/changes.ts';
import type { Database } from '../../platform/database/database.ts';
import { describeEvent, Events, OLDEST_CURSOR, writeEvents } from '../../tenants/events/events.ts';
import { Queue } from '../queue/queue.ts';
import {
  carryOutEvents,
  createWebhookSender,
  EventHooks,
  EventQueuer,
  type QueueEventsOptions,
} from './webhooks.ts';

/** Events of one hook that wait here. */
const MOST = 100;
const by = { actor: 'test' };
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

onEachEngine('event hooks', (engine) => {
  let database: Database;
  let bodies: Bodies;
  let events: Events;
  let queue: Queue;
  let options: QueueEventsOptions;
  let queuer: EventQueuer;
  let hooks: EventHooks;
  let receiver: Receiver;
  let isAway = false;
  /** Whose events were read. */
  const readers: string[] = [];
  let users = 0;
  let looks = 0;
  const warned: string[] = [];

  before(async () => {
    const opened = await openTestDatabase(engine);
    database = opened.database;
    bodies = new Bodies({ database, store: new BodyFolder(join(opened.directory, 'bodies')) });
    const changes = new InProcessChanges();
    database.notices.listen((userId) => changes.publish({ kind: 'events', userId }));
    const note = (_: object, message: string) => void warned.push(message);
    const log = { warn: note, error: note };
    events = new Events(database);
    queue = new Queue({ database, log });
    const webhooks = createWebhookSender({
      filter: { judge: () => ({ allowed: true }) },
      resolve: async () => ['127.0.0.1'],
    });
    const counted = {
      read: (...given: Parameters<Events['read']>) => {
        readers.push(given[0].userId);
        return events.read(...given);
      },
      usersSince: (id: number) => {
        looks++;
        return events.usersSince(id);
      },
      lastId: () => events.lastId(),
    };
    const now = Date.now;
    const parts = { database, queue, bodies, events: counted, changes, webhooks, log, now };
    options = { ...parts, queuedMax: MOST, probeMs: 0 };
    queuer = new EventQueuer(options);
    hooks = new EventHooks({ ...options, events, bodies, onSet: queuer.look });
    receiver = await startReceiver((_, response) => response.writeHead(isAway ? 503 : 204).end());
    carryOutEvents(options);
    const stopping = new AbortController();
    const running = queuer.run(stopping.signal);
    atEnd(async () => {
      stopping.abort();
      await running;
      await queue.stop(1_000);
      await webhooks.close();
    });
  });

  /** A user with a domain, whose events go to a path of the receiver. */
  async function newUser(types?: readonly string[]) {
    const userId = `user-${users++}`;
    const domainId = await insertDomain(database, `${userId}.test`);
    await database.write((tx) =>
      tx.updateTable('domains').set({ user_id: userId }).where('id', '=', domainId).execute(),
    );
    const owner = { userId, organizationId: undefined };
    const url = `${receiver.origin}/${userId}`;
    await hooks.set(owner, { url, types, secret: SECRET }, by);
    const tell = (type: 'domain.failing' | 'delivery.failed', ...details: string[]) =>
      database.write((tx) =>
        writeEvents(
          tx,
          details.map((detail) => ({ type, domainId, data: { detail } })),
          Date.now(),
        ),
      );
    return { owner, url, domainId, tell };
  }

  const detailsAt = (url: string) =>
    receiver.received
      .filter(({ request }) => new URL(url).pathname === request.url)
      .map(({ body }) => JSON.parse(body.toString()).data.detail);

  async function until(what: () => boolean | Promise<boolean>): Promise<void> {
    const end = performance.now() + 30_000;
    while (!(await what())) {
      assert.ok(performance.now() < end, `never came true: ${what}; ${warned.at(-1)}`);
      await pause(20);
    }
  }

  test('posts what GET /v2/events tells, signed, under the cursor as its id', async () => {
    const { owner, url, tell } = await newUser();
    await tell('domain.failing', 'one', 'two');
    await until(() => detailsAt(url).length === 2);
    await tell('delivery.failed', 'three');
    await until(() => detailsAt(url).length === 3);
    const first = { field: 'after', cursor: OLDEST_CURSOR };
    const told = (await events.read(owner, first, 10)).events.map(describeEvent);
    const posted = receiver.received.filter(({ request }) => url.endsWith(request.url ?? '?'));
    const ids = posted.map(({ request }) => String(request.headers['webhook-id']));
    assert.deepEqual(ids.toSorted(), told.map(({ cursor }) => cursor).toSorted());
    for (const { request, body } of posted) {
      const headers = Object.fromEntries(
        Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
      );
      const event = new Webhook(SECRET).verify(body.toString(), headers);
      assert.deepEqual(
        event,
        told.find(({ cursor }) => cursor === headers['webhook-id']),
      );
    }
    const row = await database.read
      .selectFrom('deliveries')
      .selectAll()
      .where('public_id', '=', ids[0] ?? '')
      .executeTakeFirstOrThrow();
    assert.deepEqual([row.kind, row.destination, row.url], ['event', receiver.origin, url]);
  });

  test('posts only the types that were named, and nothing of before', async () => {
    const { owner, url, tell } = await newUser();
    await hooks.remove(owner, by);
    const from = await events.now();
    await tell('domain.failing', 'before');
    // On PostgreSQL it can be read when no older transaction is open, also of tests in other databases.
    await until(async () => (await events.now()) !== from);
    await hooks.set(owner, { url, types: ['domain.failing'] }, by);
    await tell('delivery.failed', 'other');
    await tell('domain.failing', 'meant');
    await until(() => detailsAt(url).length > 0);
    assert.deepEqual(detailsAt(url), ['meant']);
  });

  test('keeps what a receiver did not take, and sends it to the URL that is set next', async () => {
    isAway = true;
    const { owner, url, tell } = await newUser();
    await tell('domain.failing', 'late');
    await until(async () => (await hooks.find(owner)).lastError?.status === 503);
    assert.equal((await hooks.find(owner)).waiting, 1);
    isAway = false;
    const moved = `${url}-moved`;
    const set = await hooks.set(owner, { url: moved }, by);
    assert.equal(set.secret, SECRET);
    const filter = { kind: 'event', domainIds: [2 ** 52 + set.id] };
    await queue.bulk({ action: 'retry', filter, isDryRun: false, heldBy: 'operator' }, 'test');
    await until(() => detailsAt(moved).length === 1);
    await until(async () => (await hooks.find(owner)).waiting === 0);
  });

  test('tells all who set it at once the secret that signs', async () => {
    const owner = { userId: 'at-once', organizationId: undefined };
    const set = (secret?: string) => hooks.set(owner, { url: receiver.origin, secret }, by);
    const made = await Promise.all(Array.from({ length: 8 }, () => set()));
    assert.equal(new Set(made.map(({ secret }) => secret)).size, 1);
    const changed = await Promise.all(['first', 'second'].map(set));
    const { secret, previous } = await hooks.find(owner);
    assert.deepEqual(new Set([secret, previous?.secret]), new Set(['first', 'second']));
    assert.ok(changed.some(({ previous }) => previous?.secret === made[0]?.secret));
  });

  test('signs with the old secret, too, for a day', async () => {
    const { owner, url } = await newUser();
    const { secret, previous } = await hooks.set(owner, { url, secret: 'another secret' }, by);
    assert.deepEqual([secret, previous?.secret], ['another secret', SECRET]);
    const again = await hooks.set(owner, { url }, by);
    assert.deepEqual(again.previous, previous);
    // By the clock that all nodes share.
    const at = (ms: number) =>
      new EventHooks({ ...options, events, bodies, onSet: queuer.look, now: () => ms });
    const ends = previous?.until ?? assert.fail();
    assert.equal((await at(ends - 1).find(owner)).secretPrevious, SECRET);
    assert.equal((await at(ends).find(owner)).secretPrevious, undefined);
  });

  test('removes what waits with the hook', async () => {
    isAway = true;
    const { owner, tell } = await newUser();
    await tell('domain.failing', 'never');
    await until(async () => (await hooks.find(owner)).lastError !== undefined);
    const { id } = await hooks.find(owner);
    await hooks.remove(owner, by);
    isAway = false;
    assert.equal(await queue.count({ domainId: 2 ** 52 + id, status: 'queued' }, 10), 0);
    await assert.rejects(hooks.find(owner), { code: 'event_hook_not_found' });
    await assert.rejects(hooks.remove(owner, by), { code: 'event_hook_not_found' });
  });

  test('tells nobody of its own failures: each would be an event again', async () => {
    isAway = true;
    const { owner, tell } = await newUser();
    await tell('domain.failing', 'dropped');
    await until(async () => (await hooks.find(owner)).lastError !== undefined);
    const { id } = await hooks.find(owner);
    const filter = { kind: 'event', domainIds: [2 ** 52 + id] };
    await queue.bulk({ action: 'drop', filter, isDryRun: false, heldBy: 'operator' }, 'test');
    isAway = false;
    const { events: told } = await events.read(owner, { field: 'after', cursor: '0' }, 10);
    assert.deepEqual(
      told.map(({ type }) => type),
      ['domain.failing'],
    );
  });

  test('queues each event once where two nodes do it at the same time', async () => {
    const other = new EventQueuer(options);
    const stopping = new AbortController();
    const running = other.run(stopping.signal);
    const { url, tell } = await newUser();
    other.look();
    const all = Array.from({ length: 40 }, (_, index) => `${index}`);
    for (const detail of all) await tell('domain.failing', detail);
    await until(() => detailsAt(url).length >= all.length);
    stopping.abort();
    await running;
    assert.deepEqual(
      detailsAt(url).toSorted((a, b) => a - b),
      all,
    );
  });

  test('leaves events in their table where many wait for a dead receiver', async () => {
    isAway = true;
    const { owner, url, tell } = await newUser();
    const some = Array.from({ length: MOST + 20 }, (_, index) => `${index}`);
    await tell('domain.failing', ...some);
    const { id } = await hooks.find(owner);
    const domainId = 2 ** 52 + id;
    const queued = { domainId, status: 'queued' } as const;
    await until(async () => (await queue.count(queued, 10_000)) === MOST);
    await queue.idle();
    assert.equal(await queue.count({ domainId }, 10_000), MOST);
    assert.equal((await hooks.find(owner)).waiting, some.length, 'also those behind the queue');
    isAway = false;
    const filter = { kind: 'event', domainIds: [domainId] };
    await queue.bulk({ action: 'retry', filter, isDryRun: false, heldBy: 'operator' }, 'test');
    await until(async () => (await queue.count(queued, 10_000)) === 0);
    queuer.look();
    await until(() => new Set(detailsAt(url)).size === some.length);
    await until(async () => (await hooks.find(owner)).waiting === 0);
  });

  for (const [count, more] of [
    [MOST + 20, ''],
    [MOST - 1, ', and where nothing happens any more'],
  ] as const) {
    test(`finds out that a receiver is back, although what waits for it is due in hours${more}`, async () => {
      isAway = true;
      const { owner, url, tell } = await newUser();
      const some = Array.from({ length: count }, (_, index) => `${index}`);
      await tell('domain.failing', ...some);
      const domainId = 2 ** 52 + (await hooks.find(owner)).id;
      const waiting = Math.min(count, MOST);
      await until(async () => (await queue.count({ domainId }, MOST)) === waiting);
      // A user is looked after twice more where one of his events may not have been told.
      const enough = looks + 4;
      await until(() => {
        queuer.look();
        return looks >= enough;
      });
      await queue.idle();
      isAway = false;
      const tomorrow = { attempts: 7, next_attempt_at: Date.now() + 86_400_000 };
      await database.write((tx) =>
        tx.updateTable('deliveries').set(tomorrow).where('domain_id', '=', domainId).execute(),
      );
      await until(async () => {
        queuer.look();
        return (await hooks.find(owner)).waiting === 0;
      });
      assert.equal(new Set(detailsAt(url)).size, count);
    });
  }

  test('says that events are missing which were pruned first', async () => {
    const { owner, url, tell } = await newUser();
    await tell('domain.failing', 'first');
    await until(() => detailsAt(url).length === 1);
    await database.write((tx) =>
      tx
        .updateTable('event_hooks')
        .set({ cursor: '1-0-1' })
        .where('user_id', '=', owner.userId)
        .execute(),
    );
    queuer.look();
    await until(async () => (await hooks.find(owner)).missedAt !== undefined);
    await tell('domain.failing', 'next');
    await until(() => detailsAt(url).includes('next'));
    // What is still kept and was posted before is not posted again.
    assert.deepEqual(detailsAt(url), ['first', 'next']);
    assert.match(warned.join('\n'), /events were pruned before they could be posted/);
  });

  test('costs a user without a hook no query', async () => {
    const [{ owner, tell }, follower] = [await newUser(), await newUser()];
    const told = async (detail: string) => {
      await tell('domain.failing', 'x');
      await follower.tell('domain.failing', detail);
      await until(() => detailsAt(follower.url).includes(detail));
      return readers.splice(0).includes(owner.userId);
    };
    assert.ok(await told('both have hooks'));
    await hooks.remove(owner, by);
    // What it knew of the hook it learns to be wrong with the next event.
    await until(async () => !(await told(`again ${users++}`)));
    assert.equal(await told('the last'), false);
  });

  test('says what waits without a look at its events where the queue is full', async (t) => {
    const { owner } = await newUser(['domain.failing']);
    t.mock.method(queue, 'count', async (_: object, most: number) => most);
    const count = t.mock.method(events, 'count', () => assert.fail('there may be a million'));
    assert.equal((await hooks.find(owner)).waiting, 1_000);
    assert.equal(count.mock.callCount(), 0);
  });

  test('refuses what is no hook', async () => {
    const owner = { userId: 'refused', organizationId: undefined };
    const set = (settings: object, whose: object = {}) =>
      hooks.set({ ...owner, ...whose }, { url: 'https://a.test/', ...settings }, by);
    await assert.rejects(set({ url: 'ftp://a.test/' }), /url must be an http or https URL/);
    await assert.rejects(set({ url: 'https://a:b@a.test/' }), /url must not hold credentials/);
    await assert.rejects(set({ types: [] }), /types must be some of message.received/);
    await assert.rejects(set({ types: ['mailbox.changed'] }), /types must be some of/);
    await assert.rejects(set({ secret: 'whsec_x' }), /secret must be whsec_/);
    await assert.rejects(set({}, { organizationId: 'o' }), { code: 'key_restricted' });
  });
});
