/** How operators find a message, and what they can do with the queue. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { type RunningApi, startApi } from '../../../test/support/api/start-api.ts';
import { onEachEngine } from '../../../test/support/databases.ts';
import { senderOf } from '../../mail/queue/queue.ts';
import { Trace } from '../../mail/trace/trace.ts';
import type { NewRow } from '../../platform/database/database.ts';

const HOUR = 3_600_000;

onEachEngine('the queue of operators', (engine) => {
  let api: RunningApi;
  let domainId: number;
  let otherId: number;
  let bodyId: number;

  before(async () => {
    api = await startApi(engine);
    await api.activateDomain('ann', 'acme.test');
    await api.activateDomain('bob', 'other.test');
    const ids = await api.database.read.selectFrom('domains').select(['id', 'name']).execute();
    domainId = ids.find(({ name }) => name === 'acme.test')?.id ?? assert.fail();
    otherId = ids.find(({ name }) => name === 'other.test')?.id ?? assert.fail();
    const body = await api.database.write((tx) =>
      tx
        .insertInto('bodies')
        .values({ size: 1, content: Buffer.from('x'), file: null })
        .returning('id')
        .executeTakeFirstOrThrow(),
    );
    bodyId = body.id;
  });

  let made = 0;

  /** Rows as workers leave them; returns their ids. */
  async function add(count: number, more: Partial<NewRow<'deliveries'>>): Promise<number[]> {
    const now = Date.now();
    const rows = Array.from({ length: count }, () => {
      const number = ++made;
      return {
        kind: 'webhook',
        domain_id: domainId,
        destination: 'https://a.test',
        body_id: bodyId,
        public_id: `p${number}`,
        status: 'queued' as const,
        attempts: 3,
        mail_id: `mail${number}`,
        recipient: 'ann@acme.test',
        next_attempt_at: now + HOUR,
        created_at: now,
        updated_at: now,
        ...more,
      };
    });
    return api.database.write(async (tx) => {
      const ids: number[] = [];
      for (let at = 0; at < count; at += 500) {
        const some = rows.slice(at, at + 500);
        const added = await tx.insertInto('deliveries').values(some).returning('id').execute();
        ids.push(...added.map(({ id }) => id));
        const payloads = added.map(({ id }) => ({ delivery_id: id, payload: '{}' }));
        await tx.insertInto('delivery_payloads').values(payloads).execute();
      }
      return ids;
    });
  }

  const list = async (path: string) => {
    const { status, body } = await api.call('GET', `/v2/operator/${path}`);
    assert.equal(status, 200, JSON.stringify(body));
    return body.items;
  };
  const order = async (action: string, filter: object) => {
    const { status, body } = await api.call('POST', `/v2/operator/queue/${action}`, filter);
    assert.equal(status, 200, JSON.stringify(body));
    return body;
  };
  const rowsOf = (destination: string) =>
    api.database.read
      .selectFrom('deliveries')
      .selectAll()
      .where('destination', '=', destination)
      .orderBy('id')
      .execute();

  test('it is grouped by receiver and domain, with the reason', async () => {
    const now = Date.now();
    const error = JSON.stringify({ status: 503, text: 'busy' });
    await add(3, { last_error: error, next_attempt_at: now - 10_000 });
    await add(1, { status: 'failed', finished_at: now });
    await add(1, { status: 'delivered', finished_at: now });
    await add(2, { domain_id: otherId, destination: 'far.test', kind: 'forward' });
    const groups = await list('queue');
    assert.equal(groups.length, 2);
    const { oldest_due_at: due, overdue_seconds: late, ...first } = groups[1];
    assert.deepEqual(first, {
      destination: 'https://a.test',
      domain: 'acme.test',
      kind: 'webhook',
      counts: { queued: 3, held: 0, failed: 1, pending: 3 },
      last_error: { status: 503, text: 'busy' },
    });
    assert.equal(due, new Date(now - 10_000).toISOString());
    assert.ok(late >= 10);
    assert.deepEqual(
      [groups[0].destination, groups[0].overdue_seconds, groups[0].counts.queued],
      ['far.test', 0, 2],
    );
    assert.equal((await list('queue?domain=other.test')).length, 1);
    assert.equal((await list('queue?domain=nobody.test')).length, 0);
    assert.deepEqual(await list('queue?destination=far.test'), [groups[0]]);
    assert.equal((await list('queue?status=failed')).length, 1);
    assert.deepEqual(await list('queue?state=pending'), await list('queue?status=queued'));
    assert.equal((await list('queue?kind=forward')).length, 1);
    const { body } = await api.call('GET', '/v2/operator/queue?limit=1');
    const cursor = encodeURIComponent(body.cursor);
    assert.deepEqual(
      (await list(`queue?limit=1&cursor=${cursor}`))[0].destination,
      'https://a.test',
    );
  });

  test('single deliveries are listed in pages, each once', async () => {
    await add(7, { destination: 'pages.test', kind: 'send' });
    for (const filter of ['destination=pages.test', 'domain=acme.test&kind=send']) {
      const seen: number[] = [];
      let cursor = '';
      do {
        const path = `/v2/operator/queue/deliveries?limit=3&${filter}${cursor}`;
        const { status, body } = await api.call('GET', path);
        assert.equal(status, 200, JSON.stringify(body));
        seen.push(...body.items.map(({ id }: { id: number }) => id));
        cursor = body.cursor ? `&cursor=${encodeURIComponent(body.cursor)}` : '';
      } while (cursor);
      assert.equal(new Set(seen).size, 7);
      assert.deepEqual(
        seen,
        seen.toSorted((a, b) => b - a),
      );
    }
    const [one] = await list('queue/deliveries?destination=pages.test');
    assert.deepEqual(
      [one.domain, one.status, one.attempts, one.recipient],
      ['acme.test', 'queued', 3, 'ann@acme.test'],
    );
    assert.match(one.mail_id, /^mail\d+$/);
    // Their former names.
    assert.deepEqual([one.state, one.due_at], ['pending', one.next_attempt_at]);
  });

  test('a dry run counts, a retry changes, and a second one finds nothing left', async () => {
    const destination = 'retry.test';
    await add(1_200, { destination });
    await add(3, { destination, status: 'failed', finished_at: Date.now() });
    await add(1, { destination, status: 'held', held_by: 'operator' });
    await add(1, { destination, status: 'delivered', finished_at: Date.now() });
    // Attempted right now: the end of the attempt would overwrite the change.
    await add(1, { destination, lease_owner: 'worker' });
    const filter = { destination, domain: 'acme.test' };
    assert.partialDeepStrictEqual(await order('retry', { ...filter, dry_run: true }), {
      matched: 1_203,
      changed: 0,
    });
    assert.partialDeepStrictEqual(await order('retry', filter), { matched: 1_203, changed: 1_203 });
    const rows = await rowsOf(destination);
    const retried = rows.filter((row) => row.attempts === 0);
    assert.equal(retried.length, 1_203);
    assert.ok(retried.every((row) => row.status === 'queued' && row.next_attempt_at <= Date.now()));
    assert.equal(rows.filter(({ replays }) => replays === 1).length, 3);
    assert.partialDeepStrictEqual(await order('retry', filter), { matched: 0, changed: 0 });
    // One for all its transactions.
    const entries = await list('audit');
    assert.deepEqual(
      entries
        .filter(({ action }: { action: string }) => action.startsWith('queue.'))
        .map(({ action, target, counts }: Record<string, string>) => [action, target, counts]),
      [['queue.retry', JSON.stringify(filter), { matched: 1_203, changed: 1_203 }]],
    );
  });

  test('what one account sent is found and dropped, without that of its colleagues', async () => {
    const accounts: number[] = [];
    for (const local_part of ['spammer', 'colleague']) {
      const { status, body } = await api.call('POST', '/v2/email-accounts/create', {
        user_id: 'ann',
        domain: 'acme.test',
        local_part,
      });
      assert.equal(status, 201, JSON.stringify(body));
      accounts.push(body.account.id);
    }
    const destination = 'victims.test';
    const of = (accountId = 0) => senderOf({ userId: 'ann', domainId, accountId });
    const [spammer, colleague] = accounts.map(of);
    const sent = { destination, kind: 'send' };
    await add(1_300, { ...sent, sender: colleague });
    const ids = await add(7, { ...sent, sender: spammer });
    await add(1_300, { ...sent, sender: colleague });
    const account = 'Spammer@acme.test';
    const path = `queue/deliveries?account=${encodeURIComponent(account)}`;
    const seen: number[] = [];
    let cursor = '';
    do {
      const { body } = await api.call('GET', `/v2/operator/${path}&limit=5${cursor}`);
      seen.push(...body.items.map(({ id }: { id: number }) => id));
      cursor = body.cursor ? `&cursor=${encodeURIComponent(body.cursor)}` : '';
    } while (cursor);
    assert.deepEqual(seen, ids.toReversed());
    assert.equal((await list(`${path}&destination=elsewhere.test`)).length, 0);
    assert.equal((await list(`${path}&destination=${destination}`)).length, 7);
    for (const filter of [{ account }, { account, destination }]) {
      assert.partialDeepStrictEqual(await order('retry', { ...filter, dry_run: true }), {
        matched: 7,
        changed: 0,
      });
    }
    assert.equal((await order('hold', { account, domain: 'other.test' })).matched, 0);
    const unknown = await api.call('GET', '/v2/operator/queue/deliveries?account=no@acme.test');
    assert.deepEqual([unknown.status, unknown.body.code], [404, 'account_not_found']);

    const suspend = { id: accounts[0] };
    const kept = await api.call('POST', '/v2/operator/accounts/suspend', suspend);
    assert.deepEqual([kept.body.suspended, kept.body.dropped], [true, undefined]);
    const drop = { ...suspend, drop_waiting: true };
    const dropped = await api.call('POST', '/v2/operator/accounts/suspend', drop);
    assert.deepEqual([dropped.body.suspended, dropped.body.dropped], [true, 7]);
    const again = await api.call('POST', '/v2/operator/accounts/suspend', drop);
    assert.equal(again.body.dropped, 0);
    const states = (await rowsOf(destination)).map((row) => `${row.sender} ${row.status}`);
    assert.equal(states.filter((state) => state === `${spammer} failed`).length, 7);
    assert.equal(states.filter((state) => state === `${colleague} queued`).length, 2_600);
    const entries = await list('audit');
    const drops = entries.filter(({ action }: { action: string }) => action === 'queue.drop');
    assert.deepEqual(
      drops.map(({ target, counts }: { target: string; counts: object }) => [target, counts]),
      [['{"account":"spammer@acme.test"}', { matched: 7, changed: 7 }]],
    );
  });

  test('what cannot be written to the audit log is not done', async () => {
    const destination = 'audit.test';
    await add(1, { destination });
    const rename = (from: string, to: string) =>
      api.database.write((tx) => sql.raw(`alter table ${from} rename to ${to}`).execute(tx));
    await rename('audit', 'gone');
    try {
      const { status } = await api.call('POST', '/v2/operator/queue/hold', { destination });
      assert.ok(status >= 500);
    } finally {
      await rename('gone', 'audit');
    }
    const [row] = await rowsOf(destination);
    assert.equal(row?.status, 'queued');
  });

  test('held deliveries wait until they are released, with their due times', async () => {
    const destination = 'hold.test';
    await add(2, { destination });
    const [suspended] = await add(1, { destination, status: 'held', held_by: 'suspension' });
    const before = await rowsOf(destination);
    assert.partialDeepStrictEqual(await order('hold', { destination }), { matched: 2, changed: 2 });
    const held = await list('queue/deliveries?destination=hold.test&state=held');
    assert.deepEqual(held.map(({ held_by }: { held_by: string }) => held_by).sort(), [
      'operator',
      'operator',
      'suspension',
    ]);
    assert.ok(held.every((one: object) => !('due_at' in one)));
    assert.partialDeepStrictEqual(await order('release', { destination }), {
      matched: 2,
      changed: 2,
    });
    const after = await rowsOf(destination);
    for (const [at, row] of after.entries()) {
      const state = row.id === suspended ? ['held', 'suspension'] : ['queued', null];
      assert.deepEqual([row.status, row.held_by], state);
      assert.equal(row.next_attempt_at, before[at]?.next_attempt_at);
    }
  });

  test('dropped deliveries have failed, the sending account sees that, and they can be retried', async () => {
    const destination = 'drop.test';
    const [id = 0, kept = 0] = await add(2, { destination, kind: 'send' });
    await add(1, { destination, kind: 'send', created_at: Date.now() });
    assert.partialDeepStrictEqual(await order('drop', { ids: [id] }), { matched: 1, changed: 1 });
    const rows = await rowsOf(destination);
    const dropped = rows.find((row) => row.id === id) ?? assert.fail();
    assert.equal(dropped.status, 'failed');
    assert.ok(dropped.finished_at);
    assert.match(dropped.last_error ?? '', /dropped by an operator/);
    assert.equal(rows.find((row) => row.id === kept)?.status, 'queued');
    assert.partialDeepStrictEqual(await order('drop', { destination, older_than: 3600 }), {
      matched: 0,
      changed: 0,
    });
    assert.partialDeepStrictEqual(await order('retry', { ids: [id] }), { matched: 1, changed: 1 });
    // Its end is the first one: a copy is stored, and its sender gets a bounce, if it fails now.
    const retried = await rowsOf(destination);
    assert.equal(retried.find((row) => row.id === id)?.replays, 0);
  });

  test('deliveries that were never attempted wait for their time, those without a payload do not count', async () => {
    const destination = 'later.test';
    const [scheduled, held] = [
      ...(await add(1, { destination, kind: 'send', attempts: 0 })),
      ...(await add(1, { destination, kind: 'send', attempts: 0, status: 'held' })),
    ];
    const [released = 0] = await add(1, { destination, status: 'failed', finished_at: 1 });
    await api.database.write((tx) =>
      tx.deleteFrom('delivery_payloads').where('delivery_id', '=', released).execute(),
    );
    const before = await rowsOf(destination);
    assert.partialDeepStrictEqual(await order('retry', { destination }), {
      matched: 0,
      changed: 0,
    });
    const ofHeld = { destination, status: 'held' };
    assert.partialDeepStrictEqual(await order('retry', ofHeld), { matched: 1, changed: 1 });
    const after = await rowsOf(destination);
    for (const id of [scheduled, held]) {
      const [was, is] = [before, after].map((rows) => rows.find((row) => row.id === id));
      assert.equal(is?.next_attempt_at, was?.next_attempt_at);
      assert.equal(is?.status, 'queued');
    }
  });

  test('deliveries of a suspended domain are held until it is resumed, whatever else is ordered', async () => {
    const destination = 'suspended.test';
    const mine = { domain_id: otherId, destination };
    await add(2, mine);
    await add(1, { ...mine, status: 'held', held_by: 'operator' });
    const before = await rowsOf(destination);
    const change = async (verb: string, domain = 'other.test') => {
      const { status } = await api.call('POST', `/v2/operator/domains/${verb}`, { domain });
      assert.equal(status, 200);
      return (await rowsOf(destination)).map(({ held_by }) => held_by);
    };
    const waiting = ['suspension', 'suspension', 'operator'];
    assert.deepEqual(await change('suspend'), waiting);
    assert.partialDeepStrictEqual(await order('release', { destination, status: 'held' }), {
      matched: 1,
      changed: 1,
    });
    assert.deepEqual(await change('resume'), [null, null, null]);
    const after = await rowsOf(destination);
    assert.deepEqual(
      after.map(({ status, next_attempt_at: due }) => [status, due]),
      before.map(({ next_attempt_at: due }) => ['queued', due]),
    );
  });

  test('receivers are listed with the reason, and a part is counted by what it consists of', async () => {
    const destination = 'https://reasons.test';
    const error = { last_error: '{"status":503,"text":"busy"}', reason: '503 busy' };
    const url = `${destination}/hooks/1`;
    await add(3, { destination, ...error, mail_from: 'cal@far.test', url });
    await add(1, { destination, domain_id: otherId, status: 'held', kind: 'forward' });
    await add(1, { destination: 'ended.test', status: 'failed', finished_at: 1, ...error });
    const [receiver, ...more] = await list('queue/receivers?q=REASONS');
    assert.deepEqual(more, []);
    assert.deepEqual(
      { ...receiver, oldest_at: '', next_attempt_at: '' },
      {
        destination,
        kinds: ['forward', 'webhook'],
        counts: { queued: 3, held: 1, failed: 0 },
        oldest_at: '',
        next_attempt_at: '',
        overdue_seconds: 0,
        reason: '503 busy',
        reason_count: 3,
        domains: ['acme.test', 'other.test'],
        domain_count: 2,
      },
    );
    const failed = await list('queue/receivers?status=failed&destination=ended.test');
    assert.deepEqual(failed[0].counts, { queued: 0, held: 0, failed: 1 });
    const path = `/v2/operator/queue/summary?destination=${encodeURIComponent(destination)}`;
    const { status, body } = await api.call('GET', path);
    assert.equal(status, 200, JSON.stringify(body));
    assert.deepEqual([body.counts, body.untried], [{ queued: 3, held: 1, failed: 0 }, 1]);
    const named = (part: string, name: string) =>
      body[part].map((line: Record<string, object>) => [line[name], line.counts]);
    const three = { queued: 3, held: 0, failed: 0 };
    const one = { queued: 0, held: 1, failed: 0 };
    assert.deepEqual(named('reasons', 'reason'), [['503 busy', three]]);
    assert.deepEqual(named('domains', 'domain'), [
      ['acme.test', three],
      ['other.test', one],
    ]);
    assert.deepEqual(named('senders', 'sender'), [
      ['cal@far.test', three],
      [undefined, one],
    ]);
    const [single] = await list('queue/deliveries?sender=Cal@far.test&reason=BUSY');
    assert.deepEqual([single.url, single.sender], [url, 'cal@far.test']);
    const unknown = await api.call('GET', '/v2/operator/queue/receivers?account=no@acme.test');
    assert.equal(unknown.body.code, 'account_not_found');
    const first = await api.call('GET', '/v2/operator/queue/receivers?limit=1');
    const cursor = encodeURIComponent(first.body.cursor);
    const [second] = await list(`queue/receivers?limit=1&cursor=${cursor}`);
    assert.notEqual(second.destination, first.body.items[0].destination);
  });

  test('an order says what it left and why, tries one where one is asked for, and counts by parts before', async () => {
    const destination = 'parts.test';
    const reason = '451 busy';
    await add(4, { destination, reason });
    await add(1, { destination, lease_owner: 'somebody' });
    await add(1, { destination, next_attempt_at: 1 });
    await add(1, { destination, status: 'held', held_by: 'suspension', domain_id: otherId });
    const [gone = 0] = await add(1, { destination, status: 'failed', finished_at: 1 });
    await api.database.write((tx) =>
      tx.deleteFrom('delivery_payloads').where('delivery_id', '=', gone).execute(),
    );
    const left = { under_way: 1, due: 1, not_kept: 1 };
    assert.deepEqual(await order('retry', { destination, dry_run: true }), {
      matched: 4,
      changed: 0,
      skipped: left,
      parts: {
        statuses: [{ status: 'queued', count: 4 }],
        domains: [{ domain: 'acme.test', count: 4 }],
        reasons: [{ reason, count: 4 }],
      },
    });
    const { changed } = await order('retry', { destination, limit: 1 });
    assert.equal(changed, 1);
    const tried = (await rowsOf(destination)).filter(({ attempts }) => attempts === 0);
    assert.equal(tried.length, 1);
    const rest = await order('retry', { destination });
    assert.deepEqual(rest, { matched: 3, changed: 3, skipped: { ...left, due: 2 } });
    assert.deepEqual(await order('release', { destination }), {
      matched: 0,
      changed: 0,
      skipped: { held_otherwise: 1 },
    });
    const drop = { destination, status: 'waiting', next: 'x' };
    const refused = await api.call('POST', '/v2/operator/queue/drop', drop);
    assert.deepEqual(
      [refused.status, refused.body.errors],
      [400, [{ field: 'next', message: 'must be the next of an earlier answer' }]],
    );
  });

  test('a position that was forged changes nothing in the future, nor before time', async () => {
    const destination = 'forged.test';
    await add(2, { destination });
    const goOn = (given: number, action: string) => {
      const position = JSON.stringify([given, 'queued', 0, 0, 0]);
      const next = Buffer.from(position).toString('base64url');
      return api.call('POST', `/v2/operator/queue/${action}`, { destination, next });
    };
    const { body } = await goOn(Number.MAX_SAFE_INTEGER, 'retry');
    assert.equal(body.changed, 2, JSON.stringify(body));
    for (const { updated_at, next_attempt_at } of await rowsOf(destination)) {
      assert.ok(updated_at <= Date.now() && next_attempt_at <= Date.now());
    }
    assert.equal((await list(`queue/deliveries?destination=${destination}`)).length, 2);
    assert.equal((await goOn(-Number.MAX_SAFE_INTEGER, 'hold')).status, 400);
  });

  test('an order without a filter is refused', async () => {
    for (const action of ['retry', 'hold', 'release', 'drop']) {
      const path = `/v2/operator/queue/${action}`;
      const none = await api.call('POST', path, { ids: [1e20] });
      assert.deepEqual([none.status, none.body], [200, { matched: 0, changed: 0 }]);
      const { status, body } = await api.call('POST', path, { dry_run: true });
      assert.equal(status, 400);
      assert.equal(body.code, 'invalid_request');
    }
    for (const body of [
      { state: 'queued' },
      { ids: [] },
      { ids: ['x'] },
      { older_than: -1, kind: 'send' },
      { constructor: 'x' },
    ]) {
      assert.equal((await api.call('POST', '/v2/operator/queue/drop', body)).status, 400);
    }
    // With a filter that is right beside it.
    const misspelt = { kind: 'send', destinaton: 'receiver.test' };
    const { status, body } = await api.call('POST', '/v2/operator/queue/drop', misspelt);
    assert.deepEqual([status, body.errors[0].field], [400, 'destinaton']);
    assert.equal((await api.call('GET', '/v2/operator/queue?cursor=x')).status, 400);
    for (const key of [['a'], [1, 1], [1.5]]) {
      const cursor = Buffer.from(JSON.stringify(key)).toString('base64url');
      const path = `/v2/operator/queue/deliveries?cursor=${cursor}`;
      assert.equal((await api.call('GET', path)).status, 400);
    }
  });

  test('a message is found by recipient, by delivery and by webhook, and its time line is returned', async () => {
    const { database } = api;
    const log = { warn: () => {} };
    const trace = new Trace({ database, keptDays: 30, node: 'a', log, now: Date.now });
    const [id = 0] = await add(1, { destination: 'x', mail_id: 'the-mail', public_id: 'the-hook' });
    const mail = { mailId: 'the-mail', recipient: 'cal@acme.test' };
    await database.write(async (tx) => {
      await trace.write(tx, [
        { ...mail, event: 'received', sender: '', messageId: '<7@far.test>', client: '192.0.2.1' },
        { ...mail, event: 'queued', deliveryId: id, webhookId: 'the-hook', detail: 'webhook to x' },
      ]);
    });
    const events = async (query: string) =>
      (await list(`trace?${query}`)).map(({ event }: { event: string }) => event);
    assert.deepEqual(await events('recipient=Cal@acme.test'), ['queued', 'received']);
    assert.deepEqual(await events('sender='), ['received']);
    assert.deepEqual(await events(`message_id=${encodeURIComponent('<7@far.test>')}`), [
      'received',
    ]);
    for (const name of ['the-mail', 'the-hook', String(id)]) {
      assert.deepEqual(await events(`id=${name}`), ['queued', 'received']);
      const line = await list(`trace/${name}`);
      assert.deepEqual(
        line.map(({ id: mailId, event }: { id: string; event: string }) => [mailId, event]),
        [
          ['the-mail', 'received'],
          ['the-mail', 'queued'],
        ],
      );
    }
    const { body } = await api.call('GET', '/v2/operator/trace?limit=1&recipient=cal@acme.test');
    const cursor = encodeURIComponent(body.cursor);
    assert.deepEqual(await events(`limit=1&recipient=cal@acme.test&cursor=${cursor}`), [
      'received',
    ]);
    assert.equal((await api.call('GET', '/v2/operator/trace/nobody')).status, 404);
    assert.equal((await api.call('GET', '/v2/operator/trace?since=yesterday')).status, 400);
    assert.deepEqual(await events('recipient=cal@acme.test&until=2000-01-01'), []);
  });
});
