/** Whether a claim can send: the same answer everywhere, since when, and what the log says. */
import assert from 'node:assert/strict';
import { before, beforeEach, test } from 'node:test';
import { pino } from 'pino';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { shareDkimKey } from '../../../test/support/domains/dkim-key.ts';
import type { Database } from '../../platform/database/database.ts';
import {
  type ClaimFilter,
  countUnableToSend,
  type DnsRecordStatus,
  Domains,
  findAnyClaim,
  findSendingObstacle,
  listAllClaims,
} from './domains.ts';

const STATUSES: readonly DnsRecordStatus[] = ['pending', 'verified', 'failed', 'disabled'];

onEachEngine('whether a claim can send', (engine) => {
  let database: Database;
  let domains: Domains;
  let now = Date.UTC(2026, 0, 1);
  let lines: Record<string, unknown>[];

  before(async () => {
    ({ database } = await openTestDatabase(engine));
    domains = new Domains({
      database,
      mailHostname: 'mail.postroom.example',
      spfInclude: 'spf.postroom.example',
      now: () => now,
      makeDkimKey: shareDkimKey,
      log: pino({}, { write: (line) => lines.push(JSON.parse(line)) }),
    });
  });

  beforeEach(async () => {
    await database.write((tx) => tx.deleteFrom('domains').execute());
    lines = [];
    now += 1_000_000;
  });

  async function mark(name: string, purpose: string, status: DnsRecordStatus): Promise<void> {
    const { dns } = await domains.get('u1', name);
    const record = dns.find((one) => one.purpose === purpose && one.keyState === undefined);
    assert.ok(record);
    now += 1000;
    await domains.markDnsRecord('u1', name, { id: record.id, status });
  }

  async function activate(name: string): Promise<void> {
    await domains.create({ userId: 'u1', domain: name });
    for (const purpose of ['mx', 'spf', 'dmarc', 'dkim']) await mark(name, purpose, 'verified');
  }

  const list = async (filter: ClaimFilter, limit = 200) =>
    (
      await listAllClaims(database, {
        order: filter.namePrefix === undefined ? 'newest' : 'name',
        limit,
        ...filter,
      })
    ).map(({ name }) => name);

  const healthOf = async (name: string) =>
    (await findAnyClaim(database.read, name, undefined)).health;

  /** Lines about sending: what each says of which domain. */
  const said = () =>
    lines.flatMap(({ msg, domain }) =>
      /can(?:not)? send/.test(String(msg)) ? `${domain} ${String(msg).split(':')[0]}` : [],
    );

  test('is answered by the rule of sending, in each state, and found by its filter', async () => {
    const names: string[] = [];
    for (const status of STATUSES) {
      names.push(`pending-${status}.test`, `active-${status}.test`);
      await domains.create({ userId: 'u1', domain: `pending-${status}.test` });
      await mark(`pending-${status}.test`, 'dkim', status);
      await activate(`active-${status}.test`);
      await mark(`active-${status}.test`, 'dkim', status);
    }
    const able: string[] = [];
    for (const name of names) {
      const { id, status, health } = await findAnyClaim(database.read, name, undefined);
      assert.equal(status, name.split('-')[0], name);
      assert.equal(health.canSend, (await findSendingObstacle(database.read, id)) === undefined);
      assert.equal(health.canSendSince !== undefined, true, name);
      if (health.canSend) able.push(name);
    }
    assert.deepEqual(able, ['active-verified.test']);
    const unable = names.filter((name) => name !== 'active-verified.test').reverse();
    assert.deepEqual(await list({ canSend: true }), able);
    assert.deepEqual(await list({ canSend: false }), unable);
    assert.deepEqual(await list({ canSend: false }, 3), unable.slice(0, 3));
    assert.deepEqual(
      await list({ canSend: false, status: 'active' }),
      unable.filter((name) => name.startsWith('active')),
    );
    assert.deepEqual(
      await list({ canSend: false, status: 'pending' }),
      unable.filter((name) => name.startsWith('pending')),
    );
    assert.deepEqual(await list({ canSend: true, status: 'pending' }), []);
    assert.deepEqual(await list({ canSend: false, namePrefix: '' }), [...unable].sort());
    assert.deepEqual(await list({ canSend: false, userId: 'u2' }), []);
    assert.equal(await countUnableToSend(database.read), 3);
  });

  test('a claim that an operator suspended is not counted', async () => {
    await activate('acme.test');
    await mark('acme.test', 'dkim', 'failed');
    assert.equal(await countUnableToSend(database.read), 1);
    await database.write((tx) => tx.updateTable('domains').set({ suspended_at: 1 }).execute());
    assert.equal(await countUnableToSend(database.read), 0);
    assert.deepEqual(await list({ canSend: false, status: 'suspended' }), ['acme.test']);
  });

  test('is known since when, and is one line of the log at its begin and at its end', async () => {
    await domains.create({ userId: 'u1', domain: 'acme.test' });
    const created = now;
    assert.deepEqual(await healthOf('acme.test'), {
      canSend: false,
      canSendSince: created,
      failed: [],
      missing: [],
    });
    for (const purpose of ['mx', 'spf', 'dmarc', 'dkim'])
      await mark('acme.test', purpose, 'verified');
    const active = now;
    assert.equal((await healthOf('acme.test')).canSendSince, active);
    await mark('acme.test', 'mx', 'failed');
    assert.deepEqual(await healthOf('acme.test'), {
      canSend: true,
      canSendSince: active,
      failed: ['mx'],
      failedSince: now,
      missing: [],
    });
    assert.deepEqual(said(), []);
    await mark('acme.test', 'dkim', 'failed');
    const broken = now;
    await mark('acme.test', 'dkim', 'pending');
    assert.deepEqual(await healthOf('acme.test'), {
      canSend: false,
      canSendSince: broken,
      failed: ['mx'],
      failedSince: broken - 1000,
      missing: [],
    });
    await mark('acme.test', 'dkim', 'verified');
    assert.equal((await healthOf('acme.test')).canSendSince, now);
    assert.deepEqual(said(), [
      'acme.test an active domain cannot send',
      'acme.test an active domain can send again',
    ]);
    const begin = lines.find(({ msg }) => String(msg).includes('cannot send'));
    assert.deepEqual([begin?.level, begin?.userId], [40, 'u1']);
    assert.match(String(begin?.detail), /^Set by hand/);
  });

  test('a claim that becomes active without a DKIM record is told at once', async () => {
    await domains.create({ userId: 'u1', domain: 'acme.test' });
    for (const purpose of ['mx', 'spf', 'dmarc', 'dkim'])
      await mark('acme.test', purpose, 'disabled');
    assert.deepEqual(said(), ['acme.test an active domain cannot send']);
    assert.equal((await healthOf('acme.test')).canSend, false);
  });

  test('of a claim of an earlier release nobody claims to know since when', async () => {
    await activate('able.test');
    await activate('unable.test');
    await mark('unable.test', 'dkim', 'failed');
    lines = [];
    const forget = { could_send: null, could_send_since: null };
    await database.write((tx) => tx.updateTable('domains').set(forget).execute());
    const states = async () =>
      Promise.all(
        ['able.test', 'unable.test'].map(async (name) => {
          const { canSend, canSendSince } = await healthOf(name);
          return [canSend, canSendSince];
        }),
      );
    const unknown = [
      [true, undefined],
      [false, undefined],
    ];
    assert.deepEqual(await states(), unknown);
    // Evaluated, with nothing changed.
    await mark('able.test', 'spf', 'verified');
    await mark('unable.test', 'spf', 'verified');
    assert.deepEqual(await states(), unknown);
    assert.deepEqual(said(), ['unable.test an active domain cannot send']);
    await mark('unable.test', 'dkim', 'verified');
    assert.deepEqual((await states())[1], [true, now]);
  });

  test('failed records are found, those of a key that does not sign left out', async () => {
    for (const name of ['mx.test', 'dkim.test', 'both.test', 'none.test']) await activate(name);
    for (const [name, purpose] of [
      ['mx.test', 'mx'],
      ['dkim.test', 'dkim'],
      ['both.test', 'mx'],
      ['both.test', 'dkim'],
    ] as const) {
      await mark(name, purpose, 'failed');
    }
    assert.deepEqual(await list({ recordsFailed: 'mx' }), ['both.test', 'mx.test']);
    assert.deepEqual(await list({ recordsFailed: 'dkim' }), ['both.test', 'dkim.test']);
    assert.deepEqual(await list({ recordsFailed: 'spf' }), []);
    const any = ['both.test', 'dkim.test', 'mx.test'];
    assert.deepEqual(await list({ recordsFailed: 'any' }), any);
    assert.deepEqual(await list({ recordsFailed: 'any', canSend: true }), ['mx.test']);
    assert.deepEqual(await list({ recordsFailed: 'any', namePrefix: 'm' }), ['mx.test']);
    await database.write((tx) =>
      tx
        .updateTable('dns_records')
        .set({ key_state: 'old' })
        .where('status', '=', 'failed')
        .where('purpose', '=', 'dkim')
        .execute(),
    );
    assert.deepEqual(await list({ recordsFailed: 'dkim' }), []);
  });
});
