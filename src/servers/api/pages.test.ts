/** The lists of `/v2`: which items come first, and how many there are. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type RunningApi, startApi } from '../../../test/support/api/start-api.ts';
import { onEachEngine } from '../../../test/support/databases.ts';

onEachEngine('lists of a user', (engine) => {
  let api: RunningApi;
  let domainId: number;

  before(async () => {
    api = await startApi(engine);
    for (const name of ['one.test', 'two.test', 'three.test']) {
      await api.domains.create({ userId: 'ann', organizationId: 'org', domain: name });
    }
    await api.activateDomain('bob', 'other.test');
    const { id } = await api.domains.find('bob', 'other.test');
    domainId = id;
    for (const localPart of ['a', 'b', 'c']) {
      const password = 'correct horse';
      await api.accounts.create({ userId: 'bob', domain: 'other.test', localPart, password });
    }
    await api.database.write(async (tx) => {
      const body = { size: 1, content: Buffer.from('x'), file: null };
      const { id: body_id } = await tx
        .insertInto('bodies')
        .values(body)
        .returning('id')
        .executeTakeFirstOrThrow();
      const rows = Array.from({ length: 10_001 }, (_, at) => ({
        kind: 'webhook',
        domain_id: domainId,
        destination: 'https://a.test',
        body_id,
        public_id: `p${at}`,
        status: at < 3 ? ('failed' as const) : ('queued' as const),
        next_attempt_at: 0,
        created_at: 0,
        updated_at: 0,
      }));
      for (let at = 0; at < rows.length; at += 1_000) {
        await tx
          .insertInto('deliveries')
          .values(rows.slice(at, at + 1_000))
          .execute();
      }
      for (const address of ['x@a.test', 'y@a.test', 'z@a.test']) {
        const row = { domain_id: domainId, address, detail: 'gone', created_at: 0 };
        await tx.insertInto('suppressions').values(row).execute();
      }
    });
  });

  const read = async (path: string) => {
    const { status, body } = await api.call('GET', path);
    assert.equal(status, 200, JSON.stringify(body));
    return body;
  };
  const lists = [
    ['/v2/domains?user_id=ann', 3],
    ['/v2/email-accounts?user_id=bob', 3],
    ['/v2/email-accounts?user_id=bob&domain=other.test', 3],
    ['/v2/domains/other.test/email-accounts?user_id=bob', 3],
    ['/v2/domains/other.test/deliveries?user_id=bob&status=failed', 3],
    ['/v2/domains/other.test/suppressions?user_id=bob', 3],
  ] as const;

  for (const [path, total] of lists) {
    test(`${path} has ${total} items in either order, and says so on each page`, async () => {
      const all = await read(path);
      assert.equal(all.total, total);
      const ids = all.items.map(({ id }: { id: number }) => id);
      for (const [order, expected] of [
        ['oldest', ids],
        ['newest', ids.toReversed()],
      ] as const) {
        const seen: number[] = [];
        for (;;) {
          const after = seen.length > 0 ? `&after=${seen.at(-1)}` : '';
          const page = await read(`${path}&order=${order}&limit=1${after}`);
          assert.equal(page.total, total);
          if (page.items.length === 0) break;
          seen.push(...page.items.map(({ id }: { id: number }) => id));
        }
        assert.deepEqual(seen, expected);
        const second = await read(`${path}&order=${order}&limit=1&offset=1`);
        assert.deepEqual([second.items[0].id, second.total], [expected[1], total]);
      }
      const past = await read(`${path}&offset=7`);
      assert.deepEqual([past.items, past.total], [[], total]);
    });
  }

  test('more than 10,000 are not counted', async () => {
    const path = '/v2/domains/other.test/deliveries?user_id=bob';
    assert.equal((await read(path)).total, undefined);
    await api.database.write((tx) =>
      tx.deleteFrom('deliveries').where('public_id', '=', 'p0').execute(),
    );
    assert.equal((await read(path)).total, 10_000);
    assert.equal((await read(`${path}&webhook_id=p7&limit=1`)).total, 1);
  });

  test('what was deleted, and what belongs to others, is not counted', async () => {
    assert.equal((await read('/v2/email-accounts?user_id=ann&limit=1')).total, 0);
    assert.equal((await read('/v2/domains?user_id=nobody')).total, 0);
    const gone = { userId: 'bob', domain: 'gone.test', localPart: 'a', password: 'correct horse' };
    await api.activateDomain('bob', 'gone.test');
    await api.accounts.create(gone);
    assert.equal((await read('/v2/email-accounts?user_id=bob&limit=1')).total, 4);
    await api.accounts.removeDomain('bob', 'gone.test');
    assert.equal((await read('/v2/email-accounts?user_id=bob&limit=1')).total, 3);
  });

  test('a key of one organization sees how many there are where one page or one domain has them', async () => {
    const by = { actor: 'a test', node: 'n', requestId: undefined };
    const bound = { name: 'org', scope: 'product', isReadOnly: true } as const;
    const wanted = { ...bound, organizationId: 'org', userId: undefined, expiresAt: undefined };
    const { secret } = await api.keys.create(wanted, by);
    const call = async (path: string): Promise<{ items: { domain: string }[]; total?: number }> => {
      const answer = await fetch(api.url + path, { headers: { 'x-api-key': secret } });
      return JSON.parse(await answer.text());
    };
    const whole = await call('/v2/domains?user_id=ann');
    assert.deepEqual([whole.items.length, whole.total], [3, 3]);
    const page = await call('/v2/domains?user_id=ann&limit=2&order=newest');
    assert.deepEqual([page.items[0]?.domain, page.total], ['three.test', undefined]);
  });

  test('another order is refused by its name', async () => {
    const { status, body } = await api.call('GET', '/v2/domains?user_id=ann&order=name');
    assert.deepEqual([status, body.errors[0].field], [400, 'order']);
  });
});
