import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import type { Database } from '../../platform/database/database.ts';
import { listAudit } from '../audit/audit.ts';
import { NamedKeys, type NewKey } from './keys.ts';

const MINUTE = 60_000;
const by = { actor: 'program' };
const plain: NewKey = {
  name: 'billing',
  scope: 'product',
  userId: undefined,
  organizationId: undefined,
  isReadOnly: false,
  expiresAt: undefined,
};

onEachEngine('API keys with a name', (engine) => {
  let database: Database;
  let now = 1_800_000_000_000;
  const warned: object[] = [];
  const open = () =>
    new NamedKeys({ database, now: () => now, logger: { warn: (fields) => warned.push(fields) } });
  let keys: NamedKeys;

  before(async () => {
    ({ database } = await openTestDatabase(engine));
    keys = open();
  });

  const make = (more: Partial<NewKey> = {}) => keys.create({ ...plain, ...more }, by);

  test('a key is shown once, and stored as its SHA-256', async () => {
    const { key, secret } = await make({ name: 'shown once' });
    assert.match(secret, /^prk_[\w-]{43}$/);
    const rows = await database.read.selectFrom('api_keys').selectAll().execute();
    assert.ok(!JSON.stringify(rows).includes(secret.slice(4)));
    const found = await keys.open(secret);
    assert.deepEqual(found, key);
    assert.equal(found?.actor, `shown once (key ${key.id})`);
    const { secret: other } = await make();
    assert.notEqual(other, secret);
  });

  test('any other text is no key', async () => {
    const { secret } = await make();
    for (const text of [
      '',
      'prk_',
      secret.slice(0, -1),
      `${secret}A`,
      ` ${secret}`,
      secret.slice(4),
    ]) {
      assert.equal(await keys.open(text), undefined, text);
    }
    const last = secret.endsWith('A') ? 'E' : 'A';
    assert.equal(await keys.open(secret.slice(0, -1) + last), undefined);
  });

  test('it ends at its end', async () => {
    const { key, secret } = await make({ expiresAt: now + MINUTE });
    now += MINUTE - 1;
    assert.ok(await keys.open(secret));
    assert.ok(await keys.openById(key.id));
    now += 1;
    await assert.rejects(keys.open(secret), {
      code: 'unauthorized',
      message: `the API key "billing" ended at ${new Date(now).toISOString()}`,
    });
    assert.equal(await keys.openById(key.id), undefined);
  });

  test('a revoked one opens nothing from then on, also on another node', async () => {
    const { key, secret } = await make({ name: 'lost' });
    const other = open();
    assert.ok(await other.open(secret));
    const revoked = await keys.revoke(key.id, by);
    assert.equal(revoked.revokedAt, now);
    for (const node of [keys, other]) {
      await assert.rejects(node.open(secret), {
        code: 'unauthorized',
        message: /"lost" was revoked/,
      });
      assert.equal(await node.openById(key.id), undefined);
    }
    now += MINUTE;
    assert.equal((await keys.revoke(key.id, by)).revokedAt, revoked.revokedAt);
    await other.stop();
  });

  test('an unknown one cannot be revoked', async () => {
    for (const id of [999_999, -1, 1.5, 2 ** 60]) {
      await assert.rejects(keys.revoke(id, by), { code: 'key_not_found' }, String(id));
    }
  });

  test('its last use is written once a minute, by all nodes together', async () => {
    const { key, secret } = await make();
    const other = open();
    const lastUse = async () => {
      await Promise.all([keys.stop(), other.stop()]);
      return (await keys.list({ before: key.id + 1, limit: 1 }))[0]?.lastUsedAt;
    };
    assert.equal(await lastUse(), undefined);
    const first = now;
    for (let at = 0; at < 3; at++) {
      for (const node of [keys, other]) await node.open(secret);
      assert.equal(await lastUse(), first);
      now += MINUTE / 3 - 1;
    }
    now = first + MINUTE;
    await Promise.all([keys.open(secret), other.open(secret), other.openById(key.id)]);
    assert.equal(await lastUse(), first + MINUTE);
    assert.deepEqual(warned, []);
  });

  test('a last use that cannot be written is told once, and the key works', async () => {
    const { secret } = await make();
    const broken = new NamedKeys({
      database: { ...database, write: () => Promise.reject(new Error('the disk is full')) },
      now: () => now,
      logger: { warn: (fields) => warned.push(fields) },
    });
    for (let at = 0; at < 3; at++) {
      assert.ok(await broken.open(secret));
      await broken.stop();
      now += MINUTE;
    }
    assert.equal(warned.splice(0).length, 1);
  });

  test('they are listed page by page, the newest first', async () => {
    const all = await keys.list({ before: undefined, limit: 100 });
    const ids = all.map(({ id }) => id);
    assert.deepEqual(
      ids,
      ids.toSorted((a, b) => b - a),
    );
    const [first, second] = await Promise.all([
      keys.list({ before: undefined, limit: 2 }),
      keys.list({ before: ids[1], limit: 2 }),
    ]);
    assert.deepEqual([...first, ...second], all.slice(0, 4));
  });

  test('what is made and revoked is in the audit log, by name and number', async () => {
    const { key } = await make({ name: 'audited' });
    await keys.revoke(key.id, by);
    const [revoked, made] = await listAudit(database.read, { limit: 2 });
    assert.deepEqual(
      [made, revoked].map((entry) => [entry?.action, entry?.target, entry?.actor]),
      ['key.create', 'key.revoke'].map((action) => [action, `audited (key ${key.id})`, 'program']),
    );
  });

  test('a wrong field is refused by its name', async () => {
    const wrong: [Partial<NewKey>, string][] = [
      [{ name: '' }, 'name'],
      [{ name: ' a' }, 'name'],
      [{ name: 'x'.repeat(101) }, 'name'],
      [{ name: 'a\nb' }, 'name'],
      [{ name: 'a\u202eb' }, 'name'],
      [{ userId: '' }, 'user_id'],
      [{ userId: 'a\0' }, 'user_id'],
      [{ organizationId: 'x'.repeat(256) }, 'organization_id'],
      [{ userId: 'ann', organizationId: 'org-1' }, 'organization_id'],
      [{ scope: 'operator', userId: 'ann' }, 'user_id'],
      [{ scope: 'operator', organizationId: 'org-1' }, 'organization_id'],
      [{ expiresAt: now }, 'expires_at'],
    ];
    for (const [more, field] of wrong) {
      await assert.rejects(
        make(more),
        ({ code, errors }) => code === 'invalid_request' && errors[0].field === field,
        JSON.stringify(more),
      );
    }
  });
});
