/** What needs an operator: found as it is, in the order of its urgency, with the limits of the alerts. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { gauges, type RunningApi, startApi } from '../../../test/support/api/start-api.ts';
import { onEachEngine } from '../../../test/support/databases.ts';
import { FREE_BYTES_LEFT } from '../../mailboxes/bodies/bodies.ts';
import type { NewRow } from '../../platform/database/database.ts';
import { Traffic } from '../../tenants/usage/usage.ts';
import { type AttentionParts, byUrgency, checkAll, LIMITS, rules } from './attention.ts';
import type { RuleName } from './attention-advice.ts';
import { lookAtDisk, OWN_REASONS } from './node-attention.ts';

const NOW = Date.UTC(2026, 0, 31);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const node = (host: string, version: string, seenAt: number, isRunning: boolean) => ({
  id: `${host}${seenAt}`,
  host,
  pid: 1,
  version,
  startedAt: 0,
  seenAt,
  isRunning,
});

/** Parts of which all is well, but for those that are given. */
function partsOf(
  values: Readonly<Record<string, number>>,
  more: Partial<AttentionParts> = {},
): Omit<AttentionParts, 'database'> {
  return {
    nodes: { list: async () => [node('a', '1', NOW, true)] },
    backups: { maxAgeMs: 0, lastAt: () => assert.fail('nobody asks') },
    readGauge: async (name) => {
      const value = values[name];
      const labels = { kind: 'send', state: 'held', folder: '/data' };
      return value === undefined ? [] : [{ labels, value }];
    },
    now: () => NOW,
    ...more,
  };
}

onEachEngine('attention', (engine) => {
  let api: RunningApi;

  before(async () => {
    api = await startApi(engine);
    await measured({ 'mailboxes:full': 0, 'mailboxes:nearly_full': 0 });
  });

  /** What the maintenance measured now. */
  const measured = (amounts: Readonly<Record<string, number>>) =>
    new Traffic({
      database: api.database,
      totals: async () => ({}),
      log: { warn: () => assert.fail('nothing fails') },
      now: () => NOW,
    }).gauge(amounts);
  /** Deliveries of an hour ago. */
  const addDeliveries = (destination: string, count: number, as: Partial<NewRow<'deliveries'>>) =>
    api.database.write(async (tx) => {
      const { id: body_id } = await tx
        .insertInto('bodies')
        .values({ size: 1, content: Buffer.from('x'), file: null })
        .returning('id')
        .executeTakeFirstOrThrow();
      const at = NOW - HOUR;
      const rows = Array.from({ length: count }, (_, index) => ({
        ...{ kind: 'send', domain_id: 1, destination, body_id, status: 'queued' as const },
        ...{ public_id: `${destination}${index}`, created_at: at, updated_at: at },
        next_attempt_at: NOW + HOUR,
        ...as,
      }));
      await tx.insertInto('deliveries').values(rows).execute();
    });
  const look = async (parts: Omit<AttentionParts, 'database'>) => {
    const checked = await checkAll({ ...parts, database: api.database });
    return checked.filter(({ state }) => state !== 'ok').toSorted(byUrgency);
  };
  const namesOf = async (parts: Omit<AttentionParts, 'database'>) =>
    (await look(parts)).map(({ rule, state }) => `${rule.name} ${state}`);

  test('nothing is found where all is well', async () => {
    const well = {
      postroom_disk_free_bytes: 6e9,
      postroom_disk_size_bytes: 100e9,
      postroom_queue_overdue_seconds: 600,
      postroom_body_store_up: 1,
      postroom_redis_up: 1,
      postroom_spam_filter_up: 1,
      postroom_sender_checks_off: 0,
      postroom_certificate_broken: 0,
      postroom_certificate_end_timestamp_seconds: NOW / 1_000 + 11 * 86_400,
      postroom_search_waiting: 10_000,
      postroom_domains_cannot_send: 0,
      postroom_clock_offset_seconds: -5,
    };
    assert.deepEqual(await namesOf(partsOf(well)), []);
    assert.deepEqual(await namesOf(partsOf({})), [], 'nor where nothing is known');
  });

  test('a small disk is full where mail is deferred, with many percent left', async () => {
    const small = {
      postroom_disk_free_bytes: 60 * 2 ** 20,
      postroom_disk_size_bytes: 250 * 2 ** 20,
    };
    assert.deepEqual(await namesOf(partsOf(small)), ['disk_full found']);
    const [found] = await look(partsOf(small));
    assert.match(found?.finding?.text ?? '', /has 24 % \(62 MB\) left\. New mail is deferred/);
  });

  test('of the disks of one node the one with the least room is named', async () => {
    const readGauge = async (name: string) =>
      Object.entries({ '/data': 9e9, '/data/bodies': 4e9 }).map(([folder, free]) => ({
        labels: { folder },
        value: { postroom_disk_free_bytes: free, postroom_disk_size_bytes: 100e9 }[name] ?? 0,
      }));
    const { text } = (await lookAtDisk({ readGauge })) ?? assert.fail();
    assert.match(text, /^The disk of \/data\/bodies on this node has 4 % \(4\.0 GB\) left\. When/);
    const withoutSize = async (name: string) =>
      name === 'postroom_disk_free_bytes' ? [{ labels: { folder: '/data' }, value: 5 }] : [];
    assert.equal(await lookAtDisk({ readGauge: withoutSize }), undefined, 'not "Infinity %"');
  });

  test('messages whose text is lost are told, but not one that may yet come', async () => {
    const waits = [MINUTE, 9 * MINUTE, 23 * HOUR];
    await api.database.write((tx) =>
      tx
        .insertInto('search_unread')
        .values(waits.map((wait, at) => ({ account_id: 1, body_id: at, next_at: NOW + wait })))
        .execute(),
    );
    const found = await look(partsOf({}));
    assert.deepEqual(
      found.map(({ rule, finding }) => [rule.name, finding?.text.slice(0, 27)]),
      [['bodies_lost', '1 message cannot be opened:']],
    );
    await api.database.write((tx) => tx.deleteFrom('search_unread').execute());
    assert.deepEqual(await namesOf(partsOf({})), []);
  });

  test('a block list is told from the first refusal on, with a link to where it is', async () => {
    const found = async () =>
      (await look(partsOf({}))).map(({ finding: { text, link } = {} }) => [
        text?.slice(0, 40),
        link,
      ]);
    const reason = '421 4.7.0 you are on our blocklist';
    const text = `w refused mail because of a block list: ${reason}`.slice(0, 40);
    await addDeliveries('w', 1, { attempts: 1, reason });
    assert.deepEqual(await found(), [[text, '/queue?q=is:queued']]);
    await api.database.write((tx) =>
      tx.updateTable('deliveries').set({ status: 'failed', finished_at: NOW }).execute(),
    );
    assert.deepEqual(await found(), [[text, '/queue?q=is:failed']]);
    await api.database.write((tx) => tx.deleteFrom('deliveries').execute());
  });

  test('everything that is wrong is found, the most urgent first', async () => {
    const wrong = {
      postroom_disk_free_bytes: 4e9,
      postroom_disk_size_bytes: 100e9,
      postroom_queue_overdue_seconds: 660,
      postroom_body_store_up: 0,
      postroom_redis_up: 0,
      postroom_relay_up: 0,
      postroom_spam_filter_up: 0,
      postroom_sender_checks_off: 1,
      postroom_certificate_broken: 1,
      postroom_certificate_end_timestamp_seconds: NOW / 1_000 + 9 * 86_400,
      postroom_search_waiting: 10_001,
      postroom_domains_cannot_send: 2,
      postroom_database_log_bytes: 2 * LIMITS.logBytes,
      nodejs_eventloop_lag_p99_seconds: 0.6,
      postroom_clock_offset_seconds: -600.2,
    };
    const list = async () => [
      // It was started again.
      { ...node('a', '1', NOW, true), startedAt: NOW - HOUR + 1 },
      node('a', '1', NOW - HOUR, false),
      node('b', '2', NOW, true),
      node('c', '2', NOW - 3 * MINUTE, false),
    ];
    await addDeliveries('x', 10, { attempts: 1, reason: '500 no' });
    await addDeliveries('y', 17, { attempts: 1, reason: '503 busy' });
    await addDeliveries('z', 3, { status: 'held', held_by: 'operator' });
    const listed = '554 5.7.1 Client host [192.0.2.1] blocked using zen.spamhaus.org';
    await addDeliveries('v', 1, { status: 'failed', reason: listed, finished_at: NOW });
    await addDeliveries('w', 2, { attempts: 1, reason: '421 4.7.0 you are on our blocklist' });
    const backups = { maxAgeMs: 26 * HOUR, lastAt: async () => undefined };
    const found = await look(partsOf(wrong, { nodes: { list }, backups }));
    assert.deepEqual(
      found.map(({ rule }) => rule.name),
      [
        'deliveries_late',
        'nodes_silent',
        ...['disk_full', 'bucket_down', 'relay_down', 'block_listed', 'receivers_failing'],
        ...['domains_cannot_send', 'backup_old'],
        ...[
          'certificate_ends',
          'certificate_broken',
          'versions_differ',
          'clocks_differ',
          'redis_down',
          'spam_filter_down',
        ],
        ...['sender_checks_off', 'search_behind', 'database_log_grows', 'overloaded'],
        'deliveries_held',
      ],
    );
    const text = (name: string) => found.find(({ rule }) => rule.name === name)?.finding?.text;
    assert.match(text('domains_cannot_send') ?? '', /^2 active domains cannot send/);
    assert.match(text('nodes_silent') ?? '', /^1 node ended .*: c\./);
    assert.match(text('disk_full') ?? '', /has 4 % /);
    assert.match(text('clocks_differ') ?? '', /of this node is 600 s behind that of the database/);
    assert.equal(
      text('receivers_failing'),
      '17 deliveries wait for y: 503 busy. 1 other receiver failed, too.',
    );
    const others = `v and 1 other receiver refused mail because of a block list: ${listed}.`;
    assert.equal(text('block_listed'), others);
    assert.match(text('deliveries_held') ?? '', /^3 deliveries are held/);
    assert.match(text('backup_old') ?? '', /in the last 26 hours: none was noted yet/);
    await api.database.write((tx) => tx.deleteFrom('deliveries').execute());
  });

  test('a node that another one took the place of is not told, and no node for long', async () => {
    const gone = (host: string, minutes: number) => node(host, '1', NOW - minutes * MINUTE, false);
    const started = (host: string, minutes: number) => ({
      ...node(host, '1', NOW, true),
      startedAt: NOW - minutes * MINUTE,
    });
    const lost = async (...all: Awaited<ReturnType<AttentionParts['nodes']['list']>>) => {
      const found = await look(partsOf({}, { nodes: { list: async () => all } }));
      return found.map(({ finding }) => finding?.text.replace(/^.*: |\. The.*$/g, ''));
    };
    assert.deepEqual(await lost(started('a', 600), gone('b', 119)), ['b']);
    assert.deepEqual(await lost(started('a', 600), gone('b', 120)), []);
    assert.deepEqual(await lost(started('c', 9), gone('b', 10)), [], 'c took its place');
    assert.deepEqual(await lost(started('c', 11), gone('b', 10)), ['b'], 'c ran before');
    assert.deepEqual(await lost(started('d', 9), gone('b', 8), gone('c', 10)), ['b']);
    // A process that was started again is the same machine, and no other one's successor.
    assert.deepEqual(await lost(started('b', 9), gone('b', 10), gone('c', 10)), ['c']);
    assert.deepEqual(
      await lost(started('a', 600), gone('a', 10)),
      ['a'],
      'one of two on a machine',
    );
    const again = { ...gone('a', 5), startedAt: NOW - 9 * MINUTE };
    assert.deepEqual(await lost(gone('a', 10), again, started('a', 4)), [], 'killed twice');
    assert.deepEqual(await lost(gone('a', 10), again), ['a']);
    const replaced = [gone('a', 10), { ...gone('a', 10), id: 'a2' }, started('d', 9)];
    assert.deepEqual(await lost(...replaced), ['a'], 'one for two');
    assert.deepEqual(
      await lost(...replaced, started('d', 8)),
      [],
      'a machine with two for one with two',
    );
    assert.deepEqual(await lost(...replaced, started('b', 8), started('b', 60)), ['a']);
  });

  test('a backup that is older than asked is told, with since when', async () => {
    const check = async (lastAt: number) => {
      const backups = { maxAgeMs: 26 * HOUR, lastAt: async () => lastAt };
      return (await look(partsOf({}, { backups }))).map(({ finding }) => finding);
    };
    assert.deepEqual(await check(NOW - 26 * HOUR), []);
    const at = NOW - 26 * HOUR - 1;
    assert.deepEqual(await check(at), [
      {
        text: `No backup was made in the last 26 hours: the last began at ${new Date(at).toISOString()}.`,
        count: 1,
        since: NOW - 1,
        link: '/settings',
      },
    ]);
    const backups = { maxAgeMs: HOUR, lastAt: async () => undefined };
    const [hourly] = await look(partsOf({}, { backups }));
    assert.match(hourly?.finding?.text ?? '', /^No backup was made in the last hour: none was/);
  });

  test('mail that is deferred for reasons of our own is critical, after five minutes, and not that of others', async () => {
    const SPAN = 5 * MINUTE;
    // Years later: nothing of the other tests is looked at.
    const from = NOW + 1_000 * 24 * HOUR;
    const count = (at: number, name: string) =>
      api.database.write((tx) =>
        tx.insertInto('traffic').values({ span: SPAN, at, name, value: 3 }).execute(),
      );
    const told = async (after: number) => {
      const found = await look(partsOf({}, { now: () => from + after }));
      return found.flatMap(({ rule, finding }) =>
        rule.name === 'mail_deferred' ? [[rule.level, finding?.count, finding?.text]] : [],
      );
    };
    await count(from, 'deferred:greylisted');
    await count(from + SPAN, 'deferred:greylisted');
    await count(from + SPAN, 'deferred:storage_full');
    assert.deepEqual(await told(SPAN + MINUTE), []);
    assert.deepEqual(await told(2 * SPAN), []);
    await count(from + 2 * SPAN, 'deferred:unavailable');
    const [[level, amount, text] = []] = await told(2 * SPAN + MINUTE);
    assert.deepEqual([level, amount], ['critical', 6]);
    assert.match(String(text), /reasons of our own \(unavailable, storage_full\)/);
    assert.equal((await told(3 * SPAN)).length, 1);
    assert.deepEqual(await told(4 * SPAN), []);
  });

  test('a database that does not answer is critical, also where it hangs', async () => {
    const away = [() => Promise.reject(new Error('it is away')), () => new Promise(() => {})];
    for (const executeTakeFirst of away) {
      const select = { where: () => ({ executeTakeFirst }) };
      const read = { selectFrom: () => ({ select: () => select }) };
      const database = { engine, read } as unknown as AttentionParts['database'];
      const checked = await checkAll({ ...partsOf({}), database });
      const found = checked.filter(({ state }) => state === 'found');
      assert.deepEqual(
        found.map(({ rule: { name, level } }) => [name, level]),
        [['database_down', 'critical']],
      );
    }
  });

  test('what cannot be looked at is unknown, and is not taken for well', async () => {
    const broken = { list: () => Promise.reject(new Error('the database is away')) };
    assert.deepEqual(await namesOf(partsOf({}, { nodes: broken })), [
      'nodes_silent unknown',
      'versions_differ unknown',
    ]);
    const readGauge = () => Promise.reject(new Error('it could not be read'));
    const unread = await namesOf(partsOf({}, { readGauge }));
    assert.ok(unread.includes('deliveries_late unknown'));
    assert.ok(unread.includes('domains_cannot_send unknown'));
  });

  test('the API tells it, with domains that lapsed or never became active', async () => {
    gauges.set('postroom_redis_up', [{ labels: {}, value: 0 }]);
    for (const domain of ['lapsed.test', 'new.test', 'old.test']) {
      await api.domains.create({ userId: 'u', domain });
    }
    const set = (name: string, values: { lapsed_at?: number; created_at?: number }) =>
      api.database.write((tx) =>
        tx.updateTable('domains').set(values).where('name', '=', name).execute(),
      );
    const lapsedAt = Date.now() - 2 * HOUR;
    const oldest = Date.now() - 73 * HOUR;
    await set('lapsed.test', { lapsed_at: lapsedAt, created_at: 1 });
    await set('old.test', { created_at: oldest });
    const { status, body } = await api.call('GET', '/v2/operator/attention');
    assert.equal(status, 200, JSON.stringify(body));
    const advice = body.items.map((item: { advice: string }) => item.advice);
    assert.match(advice.join('\n'), /publish the records again.*\n.*REDIS_URL.*\nRemind/);
    const brief = body.items.map(
      ({ text: _, advice: __, ...item }: Record<string, unknown>) => item,
    );
    assert.deepEqual(brief, [
      {
        name: 'domains_lapsed',
        level: 'critical',
        count: 1,
        since: new Date(lapsedAt).toISOString(),
        link: '/domains?q=status:pending',
      },
      { name: 'redis_down', level: 'warning', count: 1, link: '/nodes' },
      {
        name: 'domains_pending',
        level: 'note',
        count: 1,
        since: new Date(oldest).toISOString(),
        link: '/domains?q=status:pending',
      },
    ]);
    assert.equal(body.checks.length, rules.length);
    assert.deepEqual(body.counts, { waiting: 0, cannot_send: 0 });
    gauges.clear();
  });

  test('the API answers also where what waits cannot be counted', async () => {
    for (const name of ['depth', 'oldest_age_seconds', 'overdue_seconds']) {
      gauges.set(`postroom_queue_${name}`, new Error('the database hangs'));
    }
    const { status, body } = await api.call('GET', '/v2/operator/attention');
    assert.deepEqual([status, body.counts], [200, { cannot_send: 0 }]);
    const unknown = body.checks.filter(({ state }: { state: string }) => state === 'unknown');
    assert.ok(unknown.length >= 2, JSON.stringify(unknown));
    const overview = await api.call('GET', '/v2/operator/overview');
    assert.deepEqual([overview.status, overview.body.now], [200, {}]);
    gauges.clear();
  });
});

/** The alerts that watch what rules watch. */
const alertOf = {
  disk_full: 'DiskFull',
  deliveries_late: 'QueueOverdue',
  mail_deferred: 'MailDeferred',
  bucket_down: 'BucketDown',
  domains_cannot_send: 'DomainsCannotSend',
  backup_old: 'BackupOld',
  certificate_ends: 'CertificateEnds',
  certificate_broken: 'CertificateBroken',
  versions_differ: 'VersionsDiffer',
  clocks_differ: 'ClocksDiffer',
  relay_down: 'RelayDown',
  redis_down: 'RedisDown',
  spam_filter_down: 'SpamFilterDown',
  sender_checks_off: 'SenderChecksOff',
  search_behind: 'SearchBehind',
  database_log_grows: 'DatabaseLogGrows',
  overloaded: 'Overloaded',
  deliveries_held: 'DeliveriesHeld',
} satisfies Partial<Record<RuleName, string>>;

test('the limits are those of the alerts', () => {
  const text = readFileSync(
    new URL('../../../deploy/prometheus/alerts.yml', import.meta.url),
    'utf8',
  );
  const exprOf = (alert: string) =>
    new RegExp(`- alert: ${alert}\\n(?:\\s+#.*\\n)*\\s+expr: (?<expr>(?:.|\\n)*?)\\n\\s+for:`).exec(
      text,
    )?.groups?.expr ?? assert.fail(alert);
  assert.deepEqual(
    /reason=~"(?<reasons>[^"]+)"/
      .exec(exprOf('PostroomMailDeferred'))
      ?.groups?.reasons?.split('|')
      .toSorted(),
    [...OWN_REASONS].toSorted(),
  );
  for (const [name, alert] of Object.entries(alertOf)) {
    assert.ok(rules.some((rule) => rule.name === name));
    exprOf(`Postroom${alert}`);
  }
  const limits: readonly (readonly [alert: string, limit: string, value: number])[] = [
    ['PostroomDiskFull', '< 0.05', LIMITS.diskFree - 0.05],
    ['PostroomDiskFull', '< 64 * 1024 * 1024', FREE_BYTES_LEFT - 64 * 1024 ** 2],
    ['PostroomQueueOverdue', '> 600', LIMITS.overdueSeconds - 600],
    ['PostroomCertificateEnds', '< 10 * 86400', LIMITS.certificateSeconds - 10 * 86_400],
    ['PostroomSearchBehind', '> 10000', LIMITS.searchWaiting - 10_000],
    ['PostroomDatabaseLogGrows', '> 1024 * 1024 * 1024', LIMITS.logBytes - 1024 ** 3],
    ['PostroomOverloaded', '> 0.5', LIMITS.lagSeconds - 0.5],
    ['PostroomClocksDiffer', '> 5', LIMITS.clockSeconds - 5],
    ['PostroomDomainsCannotSend', '> 0', LIMITS.unableToSend],
  ];
  for (const [alert, limit, difference] of limits) {
    assert.ok(exprOf(alert).includes(limit), alert);
    assert.equal(difference, 0, alert);
  }
});
