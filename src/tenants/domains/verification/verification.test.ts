import assert from 'node:assert/strict';
import { before, beforeEach, suite, test } from 'node:test';
import { type Logger, pino } from 'pino';
import { onEachEngine, openTestDatabase } from '../../../../test/support/databases.ts';
import {
  type DnsServer,
  startDnsServer,
  type ZoneRecord,
} from '../../../../test/support/dns-server.ts';
import { shareDkimKey } from '../../../../test/support/domains/dkim-key.ts';
import type { Database } from '../../../platform/database/database.ts';
import { DnsResolver } from '../../../protocols/dns/dns.ts';
import { seedRecords } from '../dns-records.ts';
import { type DnsRecord, Domains, Verification } from '../domains.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const mailHostname = 'mail.postroom.example';
const spfInclude = 'spf.postroom.example';

/** The records that a claim asks for, as records of a zone. */
const zoneOf = (name: string, dns: readonly DnsRecord[]): ZoneRecord[] =>
  dns.map((record) => [
    record.host === '@' ? name : `${record.host}.${name}`,
    record.recordType,
    record.recordType === 'MX'
      ? `${record.priority} ${record.expectedValue}`
      : record.expectedValue,
  ]);

onEachEngine('verification', (engine) => {
  let database: Database;
  let server: DnsServer;
  let domains: Domains;
  let verification: Verification;
  let now: number;
  let lines: Record<string, unknown>[];
  let log: Logger;

  before(async () => {
    server = await startDnsServer();
    ({ database } = await openTestDatabase(engine));
  });

  beforeEach(async () => {
    await database.write((tx) => tx.deleteFrom('domains').execute());
    server.publish([]);
    server.faults = () => undefined;
    server.delay = 0;
    server.gate = undefined;
    server.asked.length = 0;
    server.inFlight = { now: 0, max: 0 };
    now = Date.UTC(2026, 0, 1);
    lines = [];
    log = pino({ level: 'info' }, { write: (line) => lines.push(JSON.parse(line)) });
    const makeDkimKey = shareDkimKey;
    domains = new Domains({
      database,
      mailHostname,
      spfInclude,
      log,
      makeDkimKey,
      now: () => now,
    });
    verification = newNode();
  });

  /**
   * A node of its own on the same database, which waits `timeout` for each answer of DNS, and asks `concurrency`
   * questions at a time.
   */
  function newNode(timeout = 10_000, concurrency = 32): Verification {
    return new Verification({
      database,
      dns: new DnsResolver({
        servers: [server.address],
        timeouts: { first: timeout, later: timeout },
        concurrency,
      }),
      mailHostname,
      log,
      now: () => now,
      random: () => 0,
    });
  }

  /** Lets a node check what is due, as the one that leads. @returns what stops it */
  function start(node: Verification): () => Promise<void> {
    const stopping = new AbortController();
    const looks = node.run(stopping.signal);
    return async () => {
      stopping.abort();
      await Promise.all([looks, node.stop()]);
    };
  }

  /** Holds back the answers to all lookups from now on, until it is opened. */
  function closeGate(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    server.gate = promise;
    return resolve;
  }

  async function untilAsked(): Promise<void> {
    while (server.asked.length === 0) await new Promise((resolve) => setImmediate(resolve));
  }

  async function claim(userId: string, name: string): Promise<readonly DnsRecord[]> {
    return (await domains.create({ userId, domain: name })).dns;
  }

  /** Publishes all records that a claim asks for. */
  async function publish(userId: string, name: string): Promise<void> {
    server.add(...zoneOf(name, (await domains.get(userId, name)).dns));
  }

  async function activate(userId: string, name: string): Promise<readonly DnsRecord[]> {
    const dns = await claim(userId, name);
    await publish(userId, name);
    await verification.runDue();
    assert.equal(await statusOf(userId, name), 'active');
    return dns;
  }

  const statusOf = async (userId: string, name: string) =>
    (await domains.find(userId, name)).status;

  async function recordOf(userId: string, name: string, purpose: string): Promise<DnsRecord> {
    const records = (await domains.get(userId, name)).dns;
    const record = records.find((one) => one.purpose === purpose);
    assert.ok(record);
    return record;
  }

  const statusesOf = async (userId: string, name: string) =>
    (await domains.get(userId, name)).dns.map(({ status }) => status).join(' ');

  /** Moves the clock on, with every check in between at its time, or with one in each `step` at most. */
  async function pass(time: number, step = 0): Promise<void> {
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

  const statusChanges = () =>
    lines
      .filter(({ msg }) => msg === 'the status of a domain changed')
      .map(({ domain, userId, old, new: after, reason }) => ({
        domain,
        userId,
        old,
        new: after,
        reason,
      }));

  test('a database that is away is one line of the log, however often it is asked', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    let asked = 0;
    const timeouts = { first: 10_000, later: 10_000 };
    const node = new Verification({
      database,
      dns: new DnsResolver({ servers: [server.address], timeouts }),
      mailHostname,
      log,
      now: () => {
        asked++;
        throw new Error('the database is away');
      },
    });
    const stop = start(node);
    while (asked < 3) {
      t.mock.timers.tick(SECOND);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await stop();
    assert.equal(lines.length, 1);
    assert.match(String(lines[0]?.msg), /^could not read which domain checks are due/);
  });

  test('a claim whose records are published is active after one check', async () => {
    await claim('u1', 'acme.test');
    await publish('u1', 'acme.test');
    now += 5;
    assert.equal(await verification.runDue(), 1);
    const { domain, dns } = await domains.get('u1', 'acme.test');
    assert.equal(domain.status, 'active');
    assert.equal(domain.verifiedAt, now);
    for (const record of dns) {
      assert.equal(record.status, 'verified');
      assert.equal(record.lastCheckedAt, now);
      assert.ok(record.detail);
    }
    assert.deepEqual(
      dns.map(({ observedValue }) => observedValue),
      dns.map(({ expectedValue, priority }) =>
        priority === undefined ? expectedValue : `${priority} ${expectedValue}`,
      ),
    );
    assert.deepEqual(statusChanges(), [
      {
        domain: 'acme.test',
        userId: 'u1',
        old: 'pending',
        new: 'active',
        reason: 'every record is verified or waived',
      },
    ]);
    assert.equal(await verification.runDue(), 0);
  });

  test('a claim is checked at its times and not between them', async () => {
    await claim('u1', 'acme.test');
    const start = now;
    const checkedAt: number[] = [];
    for (; now <= start + 11 * MINUTE; now += 5 * SECOND) {
      if ((await verification.runDue()) > 0) checkedAt.push((now - start) / SECOND);
    }
    assert.deepEqual(checkedAt, [0, 30, 60, 120, 300, 600]);
    const { status, observedValue, detail } = await recordOf('u1', 'acme.test', 'mx');
    assert.deepEqual([status, observedValue], ['pending', 'no record']);
    assert.match(detail ?? '', /DNS knows no name acme\.test/);
    await publish('u1', 'acme.test');
    await pass(30 * MINUTE);
    assert.equal(await statusOf('u1', 'acme.test'), 'active');
  });

  test('a missing record fails after 72 hours, and is still found when it is published', async () => {
    await claim('u1', 'acme.test');
    await pass(72 * HOUR);
    assert.equal(await statusesOf('u1', 'acme.test'), 'pending pending pending pending');
    server.add(['acme.test', 'MX', '10 mx.foreign.test']);
    await pass(6 * HOUR);
    assert.equal(await statusesOf('u1', 'acme.test'), 'failed failed failed failed');
    assert.equal((await recordOf('u1', 'acme.test', 'mx')).observedValue, '10 mx.foreign.test');
    server.publish([]);
    await publish('u1', 'acme.test');
    await pass(6 * HOUR);
    assert.equal(await statusOf('u1', 'acme.test'), 'active');
  });

  suite('DNS that does not answer', () => {
    const faults = ['servfail', 'silent', 'refused', 'garbage', 'dies_midway'] as const;
    for (const fault of faults) {
      test(`with ${fault} nothing changes but the detail`, async () => {
        await activate('u1', 'active.test');
        await claim('u1', 'pending.test');
        await verification.runDue();
        const seen = async () =>
          [
            ...(await domains.get('u1', 'active.test')).dns,
            ...(await domains.get('u1', 'pending.test')).dns,
          ].map(({ detail, lastCheckedAt, lastCheck, ...kept }) => kept);
        const before = await seen();
        server.faults = () => fault;
        const impatient = newNode(150);
        await impatient.verify('u1', 'active.test');
        await impatient.verify('u1', 'pending.test');
        assert.deepEqual(await seen(), before);
        const { detail, lastCheckedAt, lastCheck } = await recordOf('u1', 'active.test', 'dkim');
        assert.match(detail ?? '', /^DNS could not be asked/);
        assert.deepEqual([lastCheckedAt, lastCheck], [now, 'unanswered']);
      });
    }

    test('for 20 days no status changes, and all is as before when it answers again', async () => {
      await activate('u1', 'active.test');
      await claim('u1', 'pending.test');
      await verification.runDue();
      await server.stop();
      for (let day = 0; day < 20; day++) {
        now += DAY;
        assert.equal(await verification.runDue(), 2);
      }
      assert.equal(await statusOf('u1', 'active.test'), 'active');
      assert.equal(await statusesOf('u1', 'active.test'), 'verified verified verified verified');
      assert.equal(await statusesOf('u1', 'pending.test'), 'pending pending pending pending');
      await server.start();
      await publish('u1', 'pending.test');
      await pass(6 * HOUR);
      assert.equal(await statusOf('u1', 'pending.test'), 'active');
      assert.match((await recordOf('u1', 'active.test', 'mx')).detail ?? '', /comes to/);
    });

    test('an active claim is checked again within the hour', async () => {
      await activate('u1', 'acme.test');
      server.faults = () => 'servfail';
      await pass(DAY);
      server.faults = () => undefined;
      server.remove('acme.test', 'MX');
      await pass(HOUR);
      assert.equal((await recordOf('u1', 'acme.test', 'mx')).observedValue, 'no record');
    });

    test('a failed lookup does not affect the verdicts of the other records', async () => {
      await claim('u1', 'acme.test');
      await publish('u1', 'acme.test');
      server.faults = (_name, type) => (type === 'MX' ? 'servfail' : undefined);
      await verification.runDue();
      assert.equal(await statusesOf('u1', 'acme.test'), 'pending verified verified verified');
      server.faults = () => undefined;
      await pass(30 * SECOND);
      assert.equal(await statusOf('u1', 'acme.test'), 'active');
    });
  });

  suite('the last look for a record', () => {
    const lookOf = async (purpose: string) => {
      const { status, lastCheck, misses, failingSince, detail } = await recordOf(
        'u1',
        'acme.test',
        purpose,
      );
      return { status, lastCheck, misses, failingSince, detail: detail ?? '' };
    };

    test('is told as data, and "verified" never stands alone beside "there is no record"', async () => {
      await claim('u1', 'acme.test');
      assert.deepEqual(await lookOf('dkim'), {
        status: 'pending',
        lastCheck: undefined,
        misses: 0,
        failingSince: undefined,
        detail: '',
      });
      await publish('u1', 'acme.test');
      await verification.runDue();
      const ok = await lookOf('dkim');
      assert.deepEqual([ok.status, ok.lastCheck, ok.misses], ['verified', 'ok', 0]);
      const { host } = await recordOf('u1', 'acme.test', 'dkim');
      server.remove(`${host}.acme.test`, 'TXT');
      await pass(DAY);
      const since = now;
      const { detail, ...missing } = await lookOf('dkim');
      assert.deepEqual(missing, {
        status: 'verified',
        lastCheck: 'missed',
        misses: 1,
        failingSince: since,
      });
      assert.match(detail, /^Missing now, .* \(1 so far\)\. There is no TXT record at /);
      assert.equal((await recordOf('u1', 'acme.test', 'dkim')).observedValue, 'no record');
      server.faults = () => 'servfail';
      await pass(DAY, 23 * HOUR);
      const unanswered = await lookOf('dkim');
      assert.deepEqual(
        [unanswered.status, unanswered.lastCheck, unanswered.misses, unanswered.failingSince],
        ['verified', 'unanswered', 1, since],
      );
      server.faults = () => undefined;
      await pass(2 * DAY);
      const failed = await lookOf('dkim');
      assert.deepEqual([failed.status, failed.lastCheck], ['failed', 'missed']);
      assert.match(failed.detail, /^There is no TXT record/);
    });

    test('decides when the domain can send: one line as it ends, and one as it begins again', async () => {
      const told = () =>
        lines
          .filter(({ msg }) => /can(?:not)? send/.test(String(msg)))
          .map(({ msg, domain, detail }) => [domain, String(msg).split(':')[0], detail]);
      await activate('u1', 'acme.test');
      const { host } = await recordOf('u1', 'acme.test', 'dkim');
      server.remove(`${host}.acme.test`, 'TXT');
      await pass(2 * DAY);
      assert.deepEqual(told(), []);
      await pass(3 * DAY);
      const [begin, ...others] = told();
      assert.deepEqual(others, []);
      assert.deepEqual(begin?.slice(0, 2), ['acme.test', 'an active domain cannot send']);
      assert.match(String(begin?.[2]), /^There is no TXT record/);
      await publish('u1', 'acme.test');
      await pass(3 * DAY);
      assert.deepEqual(
        told().map(([, msg]) => msg),
        ['an active domain cannot send', 'an active domain can send again'],
      );
    });

    test('is forgotten when the record is set by hand', async () => {
      await activate('u1', 'acme.test');
      const { id } = await recordOf('u1', 'acme.test', 'mx');
      await domains.markDnsRecord('u1', 'acme.test', { id, status: 'verified' });
      const { lastCheck, misses } = await lookOf('mx');
      assert.deepEqual([lastCheck, misses], [undefined, 0]);
    });

    test('shows what hostile DNS answers on one line, readable and cut', async () => {
      await claim('u1', 'acme.test');
      const { host } = await recordOf('u1', 'acme.test', 'dkim');
      const hostile = '\u202eevil\u2028\u200b\u001b[2J\r\n\0';
      server.add(
        [`${host}.acme.test`, 'TXT', `v=DKIM1; k=${'x'.repeat(6000)}; p=AAAA`],
        ['_dmarc.acme.test', 'TXT', hostile],
      );
      await verification.runDue();
      for (const purpose of ['dkim', 'dmarc']) {
        const { observedValue = '', detail = '' } = await recordOf('u1', 'acme.test', purpose);
        for (const text of [observedValue, detail]) {
          assert.doesNotMatch(text, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
          assert.ok(text.length < 4_100, `${text.length}`);
        }
      }
      const { observedValue } = await recordOf('u1', 'acme.test', 'dmarc');
      assert.match(observedValue ?? '', /\\226\\128\\174evil\\226\\128\\168/);
    });
  });

  suite('an active claim', () => {
    test('keeps its records for two failures, loses them with the third, and stays active', async () => {
      await activate('u1', 'acme.test');
      server.remove('acme.test', 'MX');
      server.add(['acme.test', 'MX', '5 mx.foreign.test']);
      await pass(DAY);
      const first = await recordOf('u1', 'acme.test', 'mx');
      assert.deepEqual([first.status, first.observedValue], ['verified', '5 mx.foreign.test']);
      assert.match(first.detail ?? '', /goes to mx\.foreign\.test/);
      await pass(DAY);
      assert.equal(await statusesOf('u1', 'acme.test'), 'verified verified verified verified');
      await pass(DAY);
      assert.equal(await statusesOf('u1', 'acme.test'), 'failed verified verified verified');
      assert.equal(await statusOf('u1', 'acme.test'), 'active');
      await pass(20 * DAY, 6 * HOUR);
      assert.equal(await statusOf('u1', 'acme.test'), 'active', 'DKIM is still there');
      server.remove('acme.test', 'MX');
      server.add(['acme.test', 'MX', `10 ${mailHostname}`]);
      await pass(DAY);
      assert.equal(await statusesOf('u1', 'acme.test'), 'verified verified verified verified');
      assert.equal(statusChanges().length, 1);
    });

    test('never changes its status by short failures', async () => {
      await activate('u1', 'acme.test');
      for (let day = 0; day < 30; day++) {
        if (day % 3 < 2) server.publish([]);
        else await publish('u1', 'acme.test');
        await pass(DAY);
        assert.equal(await statusesOf('u1', 'acme.test'), 'verified verified verified verified');
      }
    });

    test('becomes pending when DKIM and MX have failed for 14 days, and active again later', async () => {
      await activate('u1', 'acme.test');
      server.publish([['acme.test', 'TXT', 'v=spf1 -all']]);
      await pass(15 * DAY - 1);
      assert.equal(await statusOf('u1', 'acme.test'), 'active');
      await pass(DAY);
      const fallen = await domains.find('u1', 'acme.test');
      assert.equal(fallen.status, 'pending');
      assert.ok(fallen.lapsedAt);
      assert.equal(await domains.stateOf('acme.test'), 'lapsed');
      assert.deepEqual(statusChanges().at(-1), {
        domain: 'acme.test',
        userId: 'u1',
        old: 'active',
        new: 'pending',
        reason: 'DKIM and MX have failed for 14 days',
      });
      server.publish([]);
      await publish('u1', 'acme.test');
      await pass(30 * MINUTE);
      const back = await domains.find('u1', 'acme.test');
      assert.deepEqual([back.status, back.lapsedAt], ['active', undefined]);
      assert.equal(await domains.stateOf('acme.test'), 'active');
    });

    test('is replaced by a rival whose key is published after its own has failed', async () => {
      await claim('old', 'acme.test');
      await claim('new', 'acme.test');
      await publish('old', 'acme.test');
      await verification.runDue();
      assert.deepEqual(
        [await statusOf('old', 'acme.test'), await statusOf('new', 'acme.test')],
        ['active', 'pending'],
      );
      // The zone changes hands: it has exactly the records of the rival now.
      server.publish([]);
      await publish('new', 'acme.test');
      await pass(30 * MINUTE);
      assert.equal((await recordOf('new', 'acme.test', 'dkim')).status, 'verified');
      await pass(90 * MINUTE);
      assert.equal(await statusOf('old', 'acme.test'), 'active', 'two answers are not enough');
      await pass(HOUR);
      assert.deepEqual(
        [await statusOf('old', 'acme.test'), await statusOf('new', 'acme.test')],
        ['pending', 'active'],
      );
      assert.deepEqual(
        statusChanges().map((one) => `${one.userId} ${one.new}`),
        ['old active', 'old pending', 'new active'],
      );
      assert.equal((await domains.findActive('acme.test'))?.userId, 'new');
    });
  });

  suite('a domain that gets a new owner', () => {
    const dkimOf = async (userId: string) => (await recordOf(userId, 'acme.test', 'dkim')).status;
    const statuses = () =>
      Promise.all(['old', 'new'].map((userId) => statusOf(userId, 'acme.test')));

    test('becomes a claim’s that was made while the old one was active', async () => {
      await activate('old', 'acme.test');
      await pass(4 * DAY, 6 * HOUR);
      await claim('new', 'acme.test');
      await pass(4 * DAY, 6 * HOUR);
      assert.deepEqual(await statuses(), ['active', 'pending'], 'without a key of its own');
      // MX, SPF and DMARC do not change: both claims want the same.
      server.publish([]);
      await publish('new', 'acme.test');
      // It has been pending for long, and is checked every 6 hours.
      await pass(6 * HOUR);
      assert.equal(await dkimOf('new'), 'verified');
      await pass(2 * HOUR);
      assert.deepEqual(await statuses(), ['pending', 'active']);
      assert.deepEqual(
        statusChanges().at(-2)?.reason,
        'its DKIM key is gone and that of another claim is published',
      );
      // And back, if the zone says so.
      server.publish([]);
      await publish('old', 'acme.test');
      await pass(9 * HOUR);
      assert.deepEqual(await statuses(), ['active', 'pending']);
    });

    test('keeps its active claim while both keys are published, and is checked every hour', async () => {
      await activate('old', 'acme.test');
      await claim('new', 'acme.test');
      const [, , , dkim] = (await domains.get('new', 'acme.test')).dns;
      assert.ok(dkim);
      server.add(...zoneOf('acme.test', [dkim]));
      await pass(DAY);
      assert.deepEqual([await dkimOf('old'), await dkimOf('new')], ['verified', 'verified']);
      assert.deepEqual(await statuses(), ['active', 'pending']);
      const asked = () => server.asked.filter(({ name }) => name.startsWith('acme.test')).length;
      const before = asked();
      await pass(DAY);
      assert.ok(asked() - before > 24, `${asked() - before} questions`);
    });

    test('accepts no mail while the new claim has only its key', async () => {
      await activate('old', 'acme.test');
      await claim('new', 'acme.test');
      const [, , , dkim] = (await domains.get('new', 'acme.test')).dns;
      assert.ok(dkim);
      server.publish(zoneOf('acme.test', [dkim]));
      await pass(4 * HOUR);
      assert.deepEqual(await statuses(), ['pending', 'pending']);
      assert.equal(await domains.stateOf('acme.test'), 'lapsed');
      await pass(5 * DAY, 6 * HOUR);
      assert.equal(await domains.stateOf('acme.test'), 'expired');
      server.publish([]);
      await publish('new', 'acme.test');
      await pass(6 * HOUR);
      assert.deepEqual(await statuses(), ['pending', 'active']);
    });

    test('keeps its active claim when its DNS breaks and the rival has no key either', async () => {
      await activate('old', 'acme.test');
      await claim('new', 'acme.test');
      server.publish([]);
      await pass(4 * DAY, 6 * HOUR);
      assert.deepEqual(await statuses(), ['active', 'pending']);
    });
  });

  suite('records set by hand', () => {
    test('are not checked, and are checked at once when they are returned to the checks', async () => {
      const dns = await claim('u1', 'acme.test');
      const mx = dns[0]?.id ?? 0;
      const mark = (status: 'verified' | 'disabled' | 'pending') =>
        domains.markDnsRecord('u1', 'acme.test', { id: mx, status, observedValue: 'by hand' });
      await mark('verified');
      await verification.runDue();
      const marked = await recordOf('u1', 'acme.test', 'mx');
      assert.deepEqual([marked.status, marked.observedValue], ['verified', 'by hand']);
      assert.match(marked.detail ?? '', /^Set by hand/);
      assert.equal(server.asked.filter(({ type }) => type === 'MX').length, 0);
      await mark('pending');
      assert.equal(await verification.runDue(), 1);
      const given = await recordOf('u1', 'acme.test', 'mx');
      assert.deepEqual([given.status, given.observedValue], ['pending', 'no record']);
    });

    test('during a check override its result', async () => {
      const dns = await claim('u1', 'acme.test');
      const open = closeGate();
      const run = verification.runDue();
      await untilAsked();
      await domains.markDnsRecord('u1', 'acme.test', { id: dns[0]?.id ?? 0, status: 'disabled' });
      open();
      await run;
      const mx = await recordOf('u1', 'acme.test', 'mx');
      assert.deepEqual([mx.status, mx.observedValue], ['disabled', undefined]);
      assert.equal((await recordOf('u1', 'acme.test', 'spf')).observedValue, 'no record');
    });

    test('that are returned during a check leave the claim due', async () => {
      const dns = await claim('u1', 'acme.test');
      const id = dns[0]?.id ?? 0;
      await domains.markDnsRecord('u1', 'acme.test', { id, status: 'disabled' });
      const open = closeGate();
      now += 5;
      const run = verification.runDue();
      await untilAsked();
      await database.write((tx) =>
        tx
          .updateTable('domains')
          .set({ next_check_at: now + 1 })
          .execute(),
      );
      await domains.markDnsRecord('u1', 'acme.test', { id, status: 'pending' });
      open();
      server.gate = undefined;
      assert.equal(await run, 2);
      assert.equal((await recordOf('u1', 'acme.test', 'mx')).observedValue, 'no record');
    });

    test('with the status failed count from when they were marked', async () => {
      await activate('u1', 'acme.test');
      for (const purpose of ['mx', 'dkim']) {
        const { id } = await recordOf('u1', 'acme.test', purpose);
        await domains.markDnsRecord('u1', 'acme.test', { id, status: 'failed' });
      }
      await pass(13 * DAY);
      assert.equal(await statusOf('u1', 'acme.test'), 'active');
      await pass(2 * DAY);
      assert.equal(await statusOf('u1', 'acme.test'), 'pending');
    });
  });

  /** Claims without the cost of their keys. */
  async function insertClaims(count: number, users = 1): Promise<void> {
    const dkim = { selector: 's', txtValue: 'v=DKIM1; k=rsa; p=AAAA' };
    await database.write(async (tx) => {
      for (let first = 0; first < count; first += 50) {
        const rows = await tx
          .insertInto('domains')
          .values(
            Array.from({ length: Math.min(50, count - first) }, (_, n) => ({
              user_id: `u${1 + ((first + n) % users)}`,
              name: `n${first + n}.test`,
              status: 'pending' as const,
              dkim_selector: 's',
              dkim_private_key: 'none',
              created_at: now,
              next_check_at: now,
            })),
          )
          .returning('id')
          .execute();
        const records = rows.flatMap(({ id }) =>
          seedRecords(id, { mailHostname, spfInclude, dkim }),
        );
        await tx.insertInto('dns_records').values(records).execute();
      }
    });
  }

  suite('many claims', () => {
    test('are checked once each, with few questions at a time', async () => {
      await insertClaims(300);
      server.delay = 2;
      assert.equal(await verification.runDue(), 300);
      const asked = Map.groupBy(
        server.asked.filter(({ type }) => type === 'MX'),
        ({ name }) => name,
      );
      assert.equal(asked.size, 300);
      assert.ok([...asked.values()].every(({ length }) => length === 1));
      assert.ok(server.inFlight.max <= 32);
      assert.equal(await verification.runDue(), 0);
    });

    test('that are due at the start are checked a few at a time', async () => {
      await insertClaims(100, 5);
      server.faults = () => 'silent';
      // Checks alone are what is few: each may ask all its questions.
      const stop = start(newNode(undefined, 200));
      const asked = () =>
        new Set(server.asked.flatMap(({ name }) => /n\d+\.test$/.exec(name)?.[0] ?? [])).size;
      while (asked() < 16) await new Promise((resolve) => setImmediate(resolve));
      await new Promise((resolve) => setTimeout(resolve, 1_100));
      assert.equal(asked(), 16);
      await stop();
    });
  });

  suite('dead domains of one user', () => {
    test('leave the schedule room for those of others', async () => {
      await insertClaims(100);
      now += SECOND;
      const zone = zoneOf('acme.test', await claim('u2', 'acme.test'));
      server.add(...zone);
      server.faults = (name) => (/n\d+\.test$/.test(name) ? 'silent' : undefined);
      const stop = start(verification);
      while ((await statusOf('u2', 'acme.test')) !== 'active') {
        await new Promise((resolve) => setImmediate(resolve));
      }
      const names = server.asked.flatMap(({ name }) => /n\d+\.test$/.exec(name)?.[0] ?? []);
      assert.equal(new Set(names).size, 4);
      await stop();
    });

    test('leave it also where many are due, and answered at once', async () => {
      await insertClaims(300);
      now += SECOND;
      server.add(...zoneOf('acme.test', await claim('u2', 'acme.test')));
      const stop = start(verification);
      while ((await statusOf('u2', 'acme.test')) !== 'active') {
        await new Promise((resolve) => setImmediate(resolve));
      }
      const first = server.asked.findIndex(({ name }) => name.endsWith('acme.test'));
      const before = server.asked.slice(0, first);
      const names = before.flatMap(({ name }) => /n\d+\.test$/.exec(name)?.[0] ?? []);
      assert.ok(new Set(names).size <= 8, `${new Set(names).size}`);
      await stop();
    });

    test('do not delay a check that somebody else waits for', async () => {
      const zone = zoneOf('acme.test', await claim('u2', 'acme.test'));
      server.add(...zone);
      await insertClaims(40);
      server.faults = (name) => (/n\d+\.test$/.test(name) ? 'silent' : undefined);
      const waiting = Array.from({ length: 40 }, (_, n) => verification.verify('u1', `n${n}.test`));
      const ends = Promise.allSettled(waiting);
      await untilAsked();
      await verification.verify('u2', 'acme.test');
      assert.equal(await statusOf('u2', 'acme.test'), 'active');
      const names = server.asked.flatMap(({ name }) => /n\d+\.test$/.exec(name)?.[0] ?? []);
      assert.ok(new Set(names).size <= 4);
      await verification.stop();
      await ends;
    });
  });

  suite('results that do not count', () => {
    test('of a check that ended after another one', async () => {
      await claim('u1', 'acme.test');
      const open = closeGate();
      const slow = verification.runDue();
      await untilAsked();
      server.gate = undefined;
      now += MINUTE;
      await publish('u1', 'acme.test');
      assert.equal(await newNode().runDue(), 1);
      assert.equal(await statusOf('u1', 'acme.test'), 'active');
      const before = await domains.get('u1', 'acme.test');
      server.publish([]);
      open();
      await slow;
      assert.deepEqual(await domains.get('u1', 'acme.test'), before);
    });

    test('of a check that had not ended at a stop', async () => {
      await claim('u1', 'acme.test');
      const before = await domains.get('u1', 'acme.test');
      const open = closeGate();
      const run = verification.runDue();
      await untilAsked();
      await verification.stop();
      await run;
      assert.deepEqual(await domains.get('u1', 'acme.test'), before);
      open();
      server.gate = undefined;
      assert.equal(await newNode().runDue(), 1, 'it is due at the next start');
    });

    test('of a claim that was deleted', async () => {
      await claim('u1', 'acme.test');
      const open = closeGate();
      const run = verification.runDue();
      await untilAsked();
      await database.write((tx) => domains.remove(tx, 'u1', 'acme.test'));
      open();
      await run;
      await assert.rejects(domains.get('u1', 'acme.test'), { code: 'domain_not_found' });
      assert.equal(await verification.runDue(), 0);
    });
  });

  suite('a check that is started by hand', () => {
    test('comes at once, at most every ten seconds for a claim', async () => {
      await claim('u1', 'acme.test');
      await claim('u2', 'acme.test');
      await verification.runDue();
      await publish('u1', 'acme.test');
      await verification.verify('u1', 'ACME.test.');
      assert.equal(await statusOf('u1', 'acme.test'), 'active');
      await assert.rejects(verification.verify('u1', 'acme.test'), {
        code: 'rate_limited',
        retryAfter: 10,
      });
      await verification.verify('u2', 'acme.test');
      now += 9_001;
      await assert.rejects(verification.verify('u1', 'acme.test'), {
        code: 'rate_limited',
        retryAfter: 1,
      });
      now += 999;
      await verification.verify('u1', 'acme.test');
    });

    test('is not delayed by automatic ones, and these do not count for its limit', async () => {
      await claim('u1', 'acme.test');
      await verification.runDue();
      await verification.verify('u1', 'acme.test');
      now += 30 * SECOND;
      await verification.runDue();
      await verification.verify('u1', 'acme.test');
    });

    test('is made again where another one ended meanwhile, which may have begun before a change', async () => {
      const zone = zoneOf('acme.test', await claim('u1', 'acme.test'));
      now += 5;
      const open = closeGate();
      const called = verification.verify('u1', 'acme.test');
      await untilAsked();
      server.gate = undefined;
      assert.equal(await newNode().runDue(), 1);
      server.add(...zone);
      open();
      await called;
      assert.equal(server.asked.filter(({ type }) => type === 'MX').length, 3);
      assert.equal(await statusOf('u1', 'acme.test'), 'active');
    });

    test('for a domain that is not the user’s is domain_not_found', async () => {
      await claim('u1', 'acme.test');
      for (const [userId, name] of [
        ['u2', 'acme.test'],
        ['u1', 'other.test'],
        ['u1', ''],
      ] as const) {
        await assert.rejects(verification.verify(userId, name), { code: 'domain_not_found' });
      }
      assert.equal(server.asked.length, 0);
    });
  });

  test('the schedule runs by itself once it is started', async () => {
    await claim('u1', 'acme.test');
    await publish('u1', 'acme.test');
    const stop = start(verification);
    while ((await statusOf('u1', 'acme.test')) !== 'active') {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await stop();
  });

  test('after a change of our names the next start asks for the new ones; an active claim stays active', async () => {
    await activate('u', 'acme.test');
    await activate('u', 'fixed.test');
    const { id } = await recordOf('u', 'fixed.test', 'mx');
    await domains.markDnsRecord('u', 'fixed.test', { id, status: 'verified' });
    assert.equal(await domains.adoptNames(), 0);
    assert.equal(await statusesOf('u', 'acme.test'), 'verified verified verified verified');

    const renamed = { mailHostname: 'MX2.host.test', spfInclude: 'spf2.host.test' };
    domains = new Domains({ database, ...renamed, log, now: () => now });
    // Begun before the restart, with the old names: its results do not count, and it is made again.
    server.asked.length = 0;
    const open = closeGate();
    const late = verification.verify('u', 'acme.test');
    await untilAsked();
    assert.equal(await domains.adoptNames(), 2);
    open();
    await late;
    server.gate = undefined;
    assert.equal((await recordOf('u', 'acme.test', 'mx')).expectedValue, 'mx2.host.test');
    assert.match(
      (await recordOf('u', 'acme.test', 'spf')).expectedValue,
      /include:spf2\.host\.test/,
    );
    assert.equal(await statusesOf('u', 'acme.test'), 'pending pending verified verified');
    assert.equal(await statusesOf('u', 'fixed.test'), 'verified pending verified verified');
    assert.equal((await recordOf('u', 'fixed.test', 'mx')).expectedValue, 'mx2.host.test');

    // The other one is checked at once; as for any active claim, three failing answers make a record fail.
    assert.equal(await verification.runDue(), 1);
    assert.equal(await statusesOf('u', 'acme.test'), 'pending pending verified verified');
    assert.equal(await statusOf('u', 'acme.test'), 'active');
    server.publish([]);
    await publish('u', 'acme.test');
    await pass(24 * 60 * 60 * 1_000);
    assert.equal(await statusesOf('u', 'acme.test'), 'verified verified verified verified');
  });
});
