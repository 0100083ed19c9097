import assert from 'node:assert/strict';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { before, suite, test } from 'node:test';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { shareDkimKey } from '../../../test/support/domains/dkim-key.ts';
import type { Database } from '../../platform/database/database.ts';
import { type DnsRecordStatus, type DomainDetails, Domains } from './domains.ts';

const HOUR = 60 * 60 * 1000;
const DAY = 24 * HOUR;

onEachEngine('domains', (engine) => {
  let database: Database;
  let domains: Domains;
  /** Makes a key pair for each claim, as in production. */
  let domainsOfOwnKeys: Domains;
  let now = Date.UTC(2026, 0, 1);

  before(async () => {
    ({ database } = await openTestDatabase(engine));
    const options = {
      database,
      mailHostname: 'Mail.Postroom.example',
      spfInclude: 'spf.postroom.example',
      now: () => now,
    };
    domains = new Domains({ ...options, makeDkimKey: shareDkimKey });
    domainsOfOwnKeys = new Domains(options);
  });

  async function markAll(userId: string, name: string, status: DnsRecordStatus) {
    let details: DomainDetails | undefined;
    for (const { id } of (await domains.get(userId, name)).dns) {
      details = await domains.markDnsRecord(userId, name, { id, status });
    }
    assert.ok(details);
    return details;
  }

  async function activate(userId: string, name: string): Promise<DomainDetails> {
    await domains.create({ userId, domain: name });
    return markAll(userId, name, 'verified');
  }

  const statusOf = async (userId: string, name: string) =>
    (await domains.get(userId, name)).domain.status;

  const remove = (userId: string, name: string) =>
    database.write((tx) => domains.remove(tx, userId, name));

  test('a new claim is pending, with four records and a route that stores', async () => {
    const details = await domainsOfOwnKeys.create({
      userId: 'u1',
      organizationId: 'org',
      domain: 'New.Test',
    });
    assert.deepEqual(details.domain, {
      id: details.domain.id,
      userId: 'u1',
      organizationId: 'org',
      name: 'new.test',
      status: 'pending',
      createdAt: now,
    });
    assert.deepEqual(details.route, { domain: 'new.test', forwardMode: 'store' });
    assert.deepEqual(details.mx, { host: 'mail.postroom.example', priority: 10 });
    const dkim = details.dns[3];
    assert.ok(dkim);
    assert.match(dkim.host, /^pr[a-z2-7]{10}\._domainkey$/);
    assert.match(dkim.expectedValue, /^v=DKIM1; k=rsa; p=[A-Za-z\d+/]+=*$/);
    const seeded = details.dns.map((record) => [
      record.purpose,
      record.recordType,
      record.host,
      record.expectedValue,
      record.priority,
      record.status,
      record.observedValue,
      record.marked,
    ]);
    const include = 'v=spf1 include:spf.postroom.example ~all';
    assert.deepEqual(seeded, [
      ['mx', 'MX', '@', 'mail.postroom.example', 10, 'pending', undefined, false],
      ['spf', 'TXT', '@', include, undefined, 'pending', undefined, false],
      ['dmarc', 'TXT', '_dmarc', 'v=DMARC1; p=none', undefined, 'pending', undefined, false],
      ['dkim', 'TXT', dkim.host, dkim.expectedValue, undefined, 'pending', undefined, false],
    ]);
    assert.deepEqual(await domains.get('u1', 'new.test'), details);
    assert.deepEqual(await domains.get('u1', 'NEW.test.'), details);
    assert.deepEqual((await domains.get('u1', 'new.test')).dns, details.dns);
  });

  test('the published key belongs to the signing key, which is RSA of 2048 bits', async () => {
    const { domain, dns } = await domains.create({ userId: 'u1', domain: 'key.test' });
    const key = await domains.findDkimKey(domain.id);
    assert.ok(key);
    const publicKey = createPublicKey(createPrivateKey(key.privateKey));
    assert.equal(publicKey.asymmetricKeyDetails?.modulusLength, 2048);
    const spki = publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
    assert.equal(dns[3]?.expectedValue, `v=DKIM1; k=rsa; p=${spki}`);
    assert.equal(dns[3]?.host, `${key.selector}._domainkey`);
    assert.equal(await domains.findDkimKey(domain.id + 1_000_000), undefined);
  });

  test('two claims on a name have keys and selectors of their own', async () => {
    const [a, b] = await Promise.all([
      domainsOfOwnKeys.create({ userId: 'u1', domain: 'both.test' }),
      domainsOfOwnKeys.create({ userId: 'u2', domain: 'both.test' }),
    ]);
    assert.notEqual(a.dns[3]?.host, b.dns[3]?.host);
    assert.notEqual(a.dns[3]?.expectedValue, b.dns[3]?.expectedValue);
  });

  test('the same user twice is domain_exists; beside an active claim others wait and say so', async () => {
    await activate('u1', 'taken.test');
    await assert.rejects(domains.create({ userId: 'u1', domain: 'TAKEN.test' }), {
      code: 'domain_exists',
    });
    const { domain, dns } = await domains.create({ userId: 'u2', domain: 'taken.test' });
    assert.equal(domain.status, 'pending');
    const waits = /^Another claim on this domain is active: this one takes over once its DKIM/;
    for (const { detail } of dns) assert.match(detail ?? '', waits);
    assert.deepEqual((await domains.get('u2', 'taken.test')).dns, dns);
    const [mx] = dns;
    const marked = await domains.markDnsRecord('u2', 'taken.test', {
      id: mx?.id ?? 0,
      status: 'verified',
    });
    assert.match(marked.dns[0]?.detail ?? '', /^Set by hand: .* Another claim on this domain/);
    const { dns: ofActive } = await domains.get('u1', 'taken.test');
    assert.doesNotMatch(JSON.stringify(ofActive), /Another claim/);
    assert.equal(await statusOf('u1', 'taken.test'), 'active');
    await remove('u1', 'taken.test');
    assert.doesNotMatch(JSON.stringify(await domains.get('u2', 'taken.test')), /Another claim/);
  });

  test('of twenty creates of one name at once, one succeeds', async () => {
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, () => domains.create({ userId: 'u1', domain: 'race.test' })),
    );
    const codes = results.map((one) => (one.status === 'rejected' ? one.reason.code : 'created'));
    assert.deepEqual(codes.sort(), ['created', ...Array(19).fill('domain_exists')]);
  });

  const badInputs: [string, object][] = [
    ['domain', { userId: 'u1', domain: 'com' }],
    ['domain', { userId: 'u1', domain: 'mail.postroom.EXAMPLE' }],
    ['user_id', { userId: '', domain: 'bad.test' }],
    ['user_id', { userId: 'u'.repeat(256), domain: 'bad.test' }],
    ['user_id', { userId: 'u\0', domain: 'bad.test' }],
    ['user_id', { userId: '\ud800', domain: 'bad.test' }],
    ['organization_id', { userId: 'u1', organizationId: 'o'.repeat(256), domain: 'bad.test' }],
    ['organization_id', { userId: 'u1', organizationId: '\0', domain: 'bad.test' }],
  ];
  for (const [field, input] of badInputs) {
    test(`a create with a bad ${field} is refused: ${JSON.stringify(input).slice(0, 60)}`, async () => {
      await assert.rejects(
        domains.create({ userId: '', domain: '', ...input }),
        (error: { code?: string; errors?: { field: string }[] }) =>
          error.code === 'invalid_request' && error.errors?.[0]?.field === field,
      );
    });
  }

  test('255 characters of a user id count as characters', async () => {
    const userId = '🙂'.repeat(255);
    await domains.create({ userId, domain: 'long-user.test' });
    assert.equal((await domains.find(userId, 'long-user.test')).userId, userId);
  });

  suite('marks', () => {
    test('a claim becomes active with the last record that was open', async () => {
      const { dns } = await domains.create({ userId: 'u1', domain: 'marks.test' });
      const [mx, spf, dmarc, dkim] = dns.map(({ id }) => id);
      assert.ok(mx && spf && dmarc && dkim);
      const mark = async (id: number, status: DnsRecordStatus) =>
        (await domains.markDnsRecord('u1', 'marks.test', { id, status })).domain.status;
      assert.equal(await mark(mx, 'verified'), 'pending');
      assert.equal(await mark(spf, 'disabled'), 'pending');
      assert.equal(await mark(dmarc, 'failed'), 'pending');
      assert.equal(await mark(dkim, 'verified'), 'pending');
      now += 1000;
      assert.equal(await mark(dmarc, 'disabled'), 'active');
      assert.equal((await domains.find('u1', 'marks.test')).verifiedAt, now);
      assert.equal(await mark(dkim, 'failed'), 'active');
      assert.equal(await mark(mx, 'pending'), 'active');
    });

    test('a mark shows in the record, and pending returns it to the checks', async () => {
      const { dns } = await domains.create({ userId: 'u1', domain: 'marked.test' });
      const id = dns[1]?.id ?? 0;
      const mark = async (status: DnsRecordStatus, observedValue?: string) => {
        const details = await domains.markDnsRecord('u1', 'marked.test', {
          id,
          status,
          ...(observedValue === undefined ? {} : { observedValue }),
        });
        const record = details.dns.find((one) => one.id === id);
        return [record?.status, record?.observedValue, record?.marked];
      };
      assert.deepEqual(await mark('failed', 'v=spf1 -all'), ['failed', 'v=spf1 -all', true]);
      assert.deepEqual(await mark('verified'), ['verified', 'v=spf1 -all', true]);
      assert.deepEqual(await mark('disabled', ''), ['disabled', '', true]);
      assert.deepEqual(await mark('pending'), ['pending', '', false]);
      const others = (await domains.get('u1', 'marked.test')).dns.filter(
        (record) => record.id !== id,
      );
      assert.ok(others.every(({ status, marked }) => status === 'pending' && !marked));
    });

    test('marks of all records at once make the claim active', async () => {
      const { dns } = await domains.create({ userId: 'u1', domain: 'at-once.test' });
      await Promise.all(
        dns.map(({ id }) =>
          domains.markDnsRecord('u1', 'at-once.test', { id, status: 'verified' }),
        ),
      );
      assert.equal(await statusOf('u1', 'at-once.test'), 'active');
    });

    for (const keepsOff of ['everybody', 'changes'] as const) {
      test(`a mark waits while a lock keeps off ${keepsOff}`, async () => {
        const name = `${keepsOff}.held.test`;
        const { dns } = await domains.create({ userId: 'u1', domain: name });
        await domains.create({ userId: 'u2', domain: name });
        const order: string[] = [];
        let marked: Promise<unknown> | undefined;
        await database.write(async (tx) => {
          await domains.lock(tx, 'u2', name, keepsOff);
          const mark = { id: dns[0]?.id ?? 0, status: 'verified' } as const;
          marked ??= domains.markDnsRecord('u1', name, mark).then(() => order.push('marked'));
          // Many more queries than the mark makes: without the lock it would be done by now.
          for (let n = 0; n < 200; n++) await tx.selectFrom('counters').selectAll().execute();
          order.push('released');
        });
        await marked;
        assert.deepEqual(order, ['released', 'marked']);
      });
    }

    // SQLite has one writer at a time.
    test('a claim is locked against changes by several at once', {
      skip: engine === 'sqlite',
    }, async () => {
      const { name } = (await domains.create({ userId: 'u1', domain: 'shared.test' })).domain;
      await database.write(async (tx) => {
        await domains.lock(tx, 'u1', name, 'changes');
        await database.write((other) => domains.lock(other, 'u1', name, 'changes'));
      });
    });

    test('of claims that are marked at once, one becomes active and no mark fails', async () => {
      const users = Array.from({ length: 8 }, (_, n) => `rival${n}`);
      const claims = await Promise.all(
        users.map((userId) => domains.create({ userId, domain: 'rivals.test' })),
      );
      await Promise.all(
        claims.flatMap(({ domain, dns }) =>
          dns.map(({ id }) =>
            domains.markDnsRecord(domain.userId, 'rivals.test', { id, status: 'verified' }),
          ),
        ),
      );
      const statuses = await Promise.all(users.map((userId) => statusOf(userId, 'rivals.test')));
      assert.equal(statuses.filter((status) => status === 'active').length, 1);
      const records = (await domains.get(users[0] ?? '', 'rivals.test')).dns;
      assert.ok(records.every(({ status }) => status === 'verified'));
    });

    test('a record of another domain is not found, whoever owns it', async () => {
      const { dns } = await domains.create({ userId: 'u1', domain: 'mine.test' });
      const { dns: theirs } = await domains.create({ userId: 'u2', domain: 'mine.test' });
      const { dns: others } = await domains.create({ userId: 'u1', domain: 'mine2.test' });
      const ids = [theirs[0]?.id, others[0]?.id, 0, -1, 2 ** 53, 1.5, Number.NaN];
      for (const id of ids) {
        await assert.rejects(
          domains.markDnsRecord('u1', 'mine.test', { id: id ?? 0, status: 'verified' }),
          { code: 'dns_record_not_found' },
        );
      }
      assert.deepEqual((await domains.get('u2', 'mine.test')).dns, theirs);
      assert.deepEqual((await domains.get('u1', 'mine.test')).dns, dns);
    });

    test('a mark with a bad observed value is refused', async () => {
      const { dns } = await domains.create({ userId: 'u1', domain: 'badmark.test' });
      const id = dns[0]?.id ?? 0;
      const bad = [
        { id, status: 'verified' as const, observedValue: 'x'.repeat(4097) },
        { id, status: 'verified' as const, observedValue: 'a\0' },
      ];
      for (const mark of bad) {
        await assert.rejects(domains.markDnsRecord('u1', 'badmark.test', mark), {
          code: 'invalid_request',
        });
      }
      assert.deepEqual((await domains.get('u1', 'badmark.test')).dns, dns);
    });
  });

  suite('rivals', () => {
    test('after a deletion the oldest complete claim becomes active', async () => {
      for (const userId of ['a', 'b', 'c', 'd']) {
        await domains.create({ userId, domain: 'next.test' });
      }
      await markAll('d', 'next.test', 'verified');
      await markAll('c', 'next.test', 'verified');
      await markAll('b', 'next.test', 'disabled');
      const statuses = () =>
        Promise.all(['a', 'b', 'c'].map((userId) => statusOf(userId, 'next.test')));
      assert.deepEqual(await statuses(), ['pending', 'pending', 'pending']);
      await remove('d', 'next.test');
      assert.deepEqual(await statuses(), ['pending', 'active', 'pending']);
      assert.equal((await domains.findActive('next.test'))?.userId, 'b');
      await remove('c', 'next.test');
      await remove('b', 'next.test');
      assert.equal(await statusOf('a', 'next.test'), 'pending');
      assert.equal(await domains.findActive('next.test'), undefined);
    });

    test('a removal that is rolled back leaves everything as it was', async () => {
      const before = await activate('a', 'rollback.test');
      await assert.rejects(
        database.write(async (tx) => {
          await domains.remove(tx, 'a', 'rollback.test');
          throw new Error('something else failed');
        }),
      );
      assert.deepEqual(await domains.get('a', 'rollback.test'), before);
    });
  });

  test('a removed claim is removed with its records and its route', async () => {
    const { domain } = await activate('u1', 'gone.test');
    const removed = await remove('u1', 'Gone.test');
    assert.equal(removed.name, 'gone.test');
    await assert.rejects(domains.get('u1', 'gone.test'), { code: 'domain_not_found' });
    const records = await database.read
      .selectFrom('dns_records')
      .selectAll()
      .where('domain_id', '=', domain.id)
      .execute();
    const routes = await database.read
      .selectFrom('routes')
      .selectAll()
      .where('domain_id', '=', domain.id)
      .execute();
    assert.deepEqual([records, routes], [[], []]);
    const again = await domains.create({ userId: 'u1', domain: 'gone.test' });
    assert.ok(again.domain.id > domain.id);
    assert.equal(again.domain.status, 'pending');
  });

  suite('for SMTP', () => {
    test('the active claim is found by any spelling, with its route', async () => {
      const { domain } = await activate('u1', 'müller.test');
      await domains.setRoute('u1', 'müller.test', {
        forwardMode: 'webhook',
        webhookUrl: 'https://hooks.test/',
      });
      for (const spelling of ['müller.test', 'MÜLLER.TEST.', 'xn--mller-kva.test']) {
        assert.deepEqual(await domains.findActive(spelling), {
          id: domain.id,
          userId: 'u1',
          name: 'xn--mller-kva.test',
          activeSince: domain.verifiedAt,
          route: {
            domain: 'xn--mller-kva.test',
            forwardMode: 'webhook',
            webhookUrl: 'https://hooks.test/',
          },
          isSuspended: false,
        });
        assert.equal(await domains.stateOf(spelling), 'active');
      }
    });

    test('names without a claim are unknown, claims that were never active are pending', async () => {
      await domains.create({ userId: 'u1', domain: 'waits.test' });
      assert.equal(await domains.stateOf('waits.test'), 'pending');
      assert.equal(await domains.findActive('waits.test'), undefined);
      for (const name of ['nobody.test', '', '[127.0.0.1]', 'x'.repeat(100_000), 'a\0.test']) {
        assert.equal(await domains.stateOf(name), 'unknown');
        assert.equal(await domains.findActive(name), undefined);
      }
    });

    test('mail for a claim that became pending again is deferred for five days', async () => {
      const { domain } = await activate('u1', 'lapsed.test');
      await domains.create({ userId: 'u2', domain: 'still.test' });
      await database.write((tx) =>
        tx
          .updateTable('domains')
          .set({ status: 'pending', lapsed_at: now })
          .where('id', '=', domain.id)
          .execute(),
      );
      assert.equal(await domains.stateOf('lapsed.test'), 'lapsed');
      now += 5 * DAY - 1;
      assert.equal(await domains.stateOf('lapsed.test'), 'lapsed');
      now += 1;
      assert.equal(await domains.stateOf('lapsed.test'), 'expired');
      const [record] = (await domains.get('u1', 'lapsed.test')).dns;
      const details = await domains.markDnsRecord('u1', 'lapsed.test', {
        id: record?.id ?? 0,
        status: 'verified',
      });
      assert.equal(details.domain.status, 'active');
      assert.equal(details.domain.lapsedAt, undefined);
      assert.equal(await domains.stateOf('lapsed.test'), 'active');
    });
  });

  test('a replaced webhook secret signs for another day', async () => {
    const { domain } = await domains.create({ userId: 'u1', domain: 'secret.test' });
    const url = 'https://hooks.test/in';
    const set = async (webhookSecret?: string, webhookUrl = url) =>
      (
        await domains.setRoute('u1', 'secret.test', {
          forwardMode: 'webhook',
          webhookUrl,
          webhookSecret,
        })
      ).route.webhookSecretPrevious;
    const signing = () => domains.webhookSecrets(domain.id, url);
    assert.equal(await set('first'), undefined);
    assert.equal(await set('second'), 'first');
    assert.deepEqual(await signing(), ['second', 'first']);
    now += HOUR;
    assert.equal(await set('second'), 'first', 'the same one again is no change');
    now += 22 * HOUR;
    assert.deepEqual(await signing(), ['second', 'first']);
    now += HOUR;
    assert.deepEqual(await signing(), ['second']);
    assert.equal((await domains.get('u1', 'secret.test')).route.webhookSecretPrevious, undefined);
    await set('third', 'https://hooks.test/other');
    assert.deepEqual(await signing(), [], 'the route leads elsewhere');
    assert.equal(await set(undefined), undefined);
    assert.deepEqual(await signing(), []);
  });

  test("another user's domain answers like one that does not exist", async () => {
    const mine = await activate('owner', 'private.test');
    const id = mine.dns[0]?.id ?? 0;
    const attempts = (userId: string, name: string) => [
      domains.get(userId, name),
      domains.find(userId, name),
      domains.setRoute(userId, name, { forwardMode: 'forward_email', forwardToEmail: 'x@y.test' }),
      domains.markDnsRecord(userId, name, { id, status: 'failed' }),
      database.write((tx) => domains.lock(tx, userId, name)),
      remove(userId, name),
    ];
    const names = ['private.test', 'nobody.test', '', 'a b', '../../..', '%00', 'x'.repeat(10_000)];
    const details = new Set<string>();
    for (const name of names) {
      for (const result of await Promise.allSettled(attempts('stranger', name))) {
        assert.equal(result.status, 'rejected', name);
        if (result.status !== 'rejected') continue;
        assert.equal(result.reason.code, 'domain_not_found', name);
        details.add(result.reason.message);
      }
    }
    assert.equal(details.size, 1, 'the answers do not tell one case from another');
    assert.deepEqual(await domains.get('owner', 'private.test'), mine);
  });
});
