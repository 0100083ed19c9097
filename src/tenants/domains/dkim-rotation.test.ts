import assert from 'node:assert/strict';
import { before, beforeEach, test } from 'node:test';
import { pino } from 'pino';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { type DnsServer, startDnsServer } from '../../../test/support/dns-server.ts';
import { shareDkimKey } from '../../../test/support/domains/dkim-key.ts';
import type { Database } from '../../platform/database/database.ts';
import { DnsResolver } from '../../protocols/dns/dns.ts';
import { listAudit } from '../audit/audit.ts';
import { type DnsRecord, Domains, findSendingObstacle, Verification } from './domains.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const by = { actor: 'cafe0123' };
const names = { mailHostname: 'mail.postroom.example', spfInclude: 'spf.postroom.example' };

onEachEngine('a change of the DKIM key', (engine) => {
  let database: Database;
  let server: DnsServer;
  let now: number;

  before(async () => {
    server = await startDnsServer();
    ({ database } = await openTestDatabase(engine));
  });

  beforeEach(async () => {
    await database.write((tx) => tx.deleteFrom('domains').execute());
    await database.write((tx) => tx.deleteFrom('audit').execute());
    server.publish([]);
    now = Date.UTC(2026, 0, 1);
  });

  /** The parts of one node. */
  function openNode(): { readonly domains: Domains; readonly verification: Verification } {
    const log = pino({ level: 'silent' });
    const common = { database, log, now: () => now };
    const dns = new DnsResolver({ servers: [server.address] });
    return {
      domains: new Domains({ ...common, ...names, makeDkimKey: shareDkimKey }),
      verification: new Verification({ ...common, ...names, dns, random: () => 0 }),
    };
  }

  const publish = (name: string, records: readonly DnsRecord[]) =>
    server.add(
      ...records.map(
        ({ host, recordType, priority, expectedValue }) =>
          [
            host === '@' ? name : `${host}.${name}`,
            recordType,
            priority === undefined ? expectedValue : `${priority} ${expectedValue}`,
          ] as const,
      ),
    );

  /** An active domain with all its records in DNS. */
  async function activate({ domains, verification }: ReturnType<typeof openNode>) {
    const { domain, dns } = await domains.create({ userId: 'u1', domain: 'acme.test' });
    publish('acme.test', dns);
    await verification.runDue();
    assert.equal((await domains.find('u1', 'acme.test')).status, 'active');
    return domain.id;
  }

  /** Moves the clock on, with every check at its time, or with one in each `step` at most. */
  async function pass(time: number, { verification }: ReturnType<typeof openNode>, step = 0) {
    const end = now + time;
    for (;;) {
      const { next } = await database.read
        .selectFrom('domains')
        .select(({ fn }) => fn.min('next_check_at').as('next'))
        .executeTakeFirstOrThrow();
      if (next === null || next > end) break;
      now = Math.min(end, Math.max(now + step, next));
      await verification.runDue();
    }
    now = end;
  }

  const stateOf = ({ keyState, host }: DnsRecord) => [keyState, host];
  const dkimOf = async ({ domains }: ReturnType<typeof openNode>) =>
    (await domains.get('u1', 'acme.test')).dns.filter(({ purpose }) => purpose === 'dkim');

  test('is in force when DNS shows the new record, and ends 7 days later', async () => {
    const node = openNode();
    const id = await activate(node);
    const [old] = await dkimOf(node);
    const former = await node.domains.findDkimKey(id);
    const { dns } = await node.domains.rotateDkim('u1', 'acme.test', by);
    const next = dns.at(-1);
    assert.ok(old && former && next);
    assert.equal(dns.length, 5);
    assert.equal(next.keyState, 'next');
    assert.notEqual(next.host, old.host);
    assert.match(next.detail ?? '', /signs as soon as/);

    await pass(5 * MINUTE, node);
    assert.deepEqual(await node.domains.findDkimKey(id), former, 'the old key signs');
    assert.equal(await findSendingObstacle(database.read, id), undefined);

    publish('acme.test', [next]);
    await pass(5 * MINUTE, node);
    const key = await node.domains.findDkimKey(id);
    assert.equal(`${key?.selector}._domainkey`, next.host);
    const exchangedAt = now;
    assert.deepEqual((await dkimOf(node)).map(stateOf), [
      ['old', old.host],
      [undefined, next.host],
    ]);
    const [listed] = await dkimOf(node);
    assert.ok((listed?.removableAt ?? 0) > exchangedAt + 6.9 * DAY);
    assert.match(listed?.detail ?? '', /may be removed from DNS after 2026-01-08\.$/);

    // Removed from DNS too soon: it no longer decides anything.
    server.publish([]);
    publish('acme.test', [...dns.filter(({ host }) => host !== old.host)]);
    await pass(6.9 * DAY, node);
    assert.equal((await dkimOf(node)).length, 2);
    await pass(0.2 * DAY, node);
    assert.deepEqual((await dkimOf(node)).map(stateOf), [[undefined, next.host]]);
    assert.equal((await node.domains.find('u1', 'acme.test')).status, 'active');
    assert.equal(await findSendingObstacle(database.read, id), undefined);
    const entries = await listAudit(database.read, { limit: 10 });
    assert.deepEqual(
      entries.map(({ actor, action, target }) => [actor, action, target]),
      [['cafe0123', 'domain.rotate_dkim', 'acme.test']],
    );
  });

  test('that is requested twice, on two nodes at once, makes one key', async () => {
    const [a, b] = [openNode(), openNode()];
    await activate(a);
    const answers = await Promise.all(
      [a, b, a].map(({ domains }) => domains.rotateDkim('u1', 'acme.test', by)),
    );
    const again = await b.domains.rotateDkim('u1', 'acme.test', by);
    const hosts = [...answers, again].map(({ dns }) => dns.at(-1)?.host);
    assert.equal(new Set(hosts).size, 1);
    assert.equal((await dkimOf(a)).length, 2);
    assert.equal((await listAudit(database.read, { limit: 10 })).length, 1);
  });

  test('whose record never comes does not harm the domain, also beside a rival', async () => {
    const node = openNode();
    const id = await activate(node);
    await node.domains.rotateDkim('u1', 'acme.test', by);
    const rival = await node.domains.create({ userId: 'u2', domain: 'acme.test' });
    publish('acme.test', rival.dns.slice(3));
    await pass(20 * DAY, node, DAY / 4);
    const [inForce, next] = await dkimOf(node);
    assert.deepEqual([inForce?.status, next?.status], ['verified', 'failed']);
    assert.equal((await node.domains.find('u1', 'acme.test')).status, 'active');
    assert.equal((await node.domains.find('u2', 'acme.test')).status, 'pending');
    assert.equal(await findSendingObstacle(database.read, id), undefined);
    // DNS is still checked for it.
    publish('acme.test', next ? [next] : []);
    await pass(DAY, node);
    assert.equal((await dkimOf(node)).at(-1)?.keyState, undefined);
  });

  test('does not fail the other records in a short failure of DNS', async () => {
    const node = openNode();
    const id = await activate(node);
    await node.domains.rotateDkim('u1', 'acme.test', by);
    await pass(MINUTE, node);
    server.publish([]);
    await pass(20 * MINUTE, node);
    assert.equal(await findSendingObstacle(database.read, id), undefined);
    const { dns } = await node.domains.get('u1', 'acme.test');
    assert.deepEqual(
      dns.map(({ status }) => status),
      ['verified', 'verified', 'verified', 'verified', 'pending'],
    );
  });

  test('is in force at once where the new record is marked verified', async () => {
    const node = openNode();
    const id = await activate(node);
    const { dns } = await node.domains.rotateDkim('u1', 'acme.test', by);
    const next = dns.at(-1);
    assert.ok(next);
    for (const status of ['disabled', 'failed'] as const) {
      await node.domains.markDnsRecord('u1', 'acme.test', { id: next.id, status });
      assert.notEqual(`${(await node.domains.findDkimKey(id))?.selector}._domainkey`, next.host);
    }
    await node.domains.markDnsRecord('u1', 'acme.test', { id: next.id, status: 'verified' });
    assert.equal(`${(await node.domains.findDkimKey(id))?.selector}._domainkey`, next.host);
    // A second change begins while the record of the first is listed.
    const second = await node.domains.rotateDkim('u1', 'acme.test', by);
    assert.deepEqual(
      second.dns.slice(3).map(({ keyState }) => keyState),
      ['old', undefined, 'next'],
    );
  });

  test('is deleted with its domain', async () => {
    const node = openNode();
    await activate(node);
    await node.domains.rotateDkim('u1', 'acme.test', by);
    await database.write((tx) => node.domains.remove(tx, 'u1', 'acme.test'));
    const rows = await database.read.selectFrom('dns_records').select('id').execute();
    assert.deepEqual(rows, []);
    await assert.rejects(node.domains.rotateDkim('u1', 'acme.test', by), {
      code: 'domain_not_found',
    });
  });
});
