/**
 * A user pastes records into their zone and the domain goes live by itself; when DNS breaks later
 * they see what and why. DNS is a real server on loopback; time is the test's.
 */
import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { Readable } from 'node:stream';
import { before, beforeEach, suite, test } from 'node:test';
import { Bodies, BodyFolder } from '../../src/mailboxes/bodies/bodies.ts';
import { describeMessage, stageMessage } from '../../src/mailboxes/mailstore/mailstore.ts';
import { type RunningApi, startApi } from '../support/api/start-api.ts';
import { onEachEngine } from '../support/databases.ts';
import { type DnsServer, startDnsServer, type ZoneRecord } from '../support/dns-server.ts';
import { sampleMessage } from '../support/mail.ts';

interface ListedRecord {
  readonly id: number;
  readonly purpose: string;
  readonly record_type: 'MX' | 'TXT';
  readonly host: string;
  readonly expected_value: string;
  readonly priority?: number;
  readonly status: string;
  readonly observed_value?: string;
  readonly detail?: string;
  readonly last_checked_at?: string;
}

const nameOf = (domain: string, { host }: ListedRecord) =>
  host === '@' ? domain : `${host}.${domain}`;

onEachEngine('DNS verification', (engine) => {
  let server: DnsServer;
  let api: RunningApi;
  let now = Date.UTC(2026, 0, 1);

  before(async () => {
    server = await startDnsServer();
    api = await startApi(engine, {}, { servers: [server.address], now: () => now });
  });

  beforeEach(async () => {
    server.publish([]);
    server.faults = () => undefined;
    api.logLines.length = 0;
  });

  async function create(domain: string, userId = 'user-1'): Promise<ListedRecord[]> {
    const answer = await api.call('POST', '/v2/domain', { domain, user_id: userId });
    assert.equal(answer.status, 201);
    return answer.body.domain.dns;
  }

  const info = async (domain: string, userId = 'user-1') =>
    (await api.call('GET', `/v2/domains/${domain}/info?user_id=${userId}`)).body;

  const verify = (domain: string, userId = 'user-1') =>
    api.call('POST', `/v2/domains/${domain}/verify`, { user_id: userId });

  /** The zone that a user makes of the records, as they were listed. */
  const pasted = (domain: string, dns: readonly ListedRecord[]): ZoneRecord[] =>
    dns.map((record) => [
      nameOf(domain, record),
      record.record_type,
      record.record_type === 'MX'
        ? `${record.priority} ${record.expected_value}`
        : record.expected_value,
    ]);

  const by = (dns: readonly ListedRecord[], purpose: string): ListedRecord => {
    const record = dns.find((one) => one.purpose === purpose);
    assert.ok(record);
    return record;
  };

  suite('a domain goes live by itself', () => {
    test('once its records are published as they were listed', async () => {
      const dns = await create('acme.test');
      await api.verification.runDue();
      const waiting = await info('acme.test');
      assert.equal(waiting.domain.status, 'pending');
      for (const record of waiting.dns) {
        assert.equal(record.status, 'pending');
        assert.equal(record.observed_value, 'no record');
        assert.equal(record.last_checked_at, new Date(now).toISOString());
        assert.match(record.detail, /: .*add/);
      }

      server.publish(pasted('acme.test', dns));
      now += 30_000;
      await api.verification.runDue();
      const live = await info('acme.test');
      assert.equal(live.domain.status, 'active');
      assert.equal(live.domain.verified_at, new Date(now).toISOString());
      for (const record of live.dns) assert.equal(record.status, 'verified');
      const account = await api.call('POST', '/v2/email-accounts/create', {
        domain: 'acme.test',
        local_part: 'ann',
        display_name: 'Ann',
        user_id: 'user-1',
      });
      assert.equal(account.status, 201);
      const [line, ...others] = api.logLines.filter(
        ({ msg }) => msg === 'the status of a domain changed',
      );
      assert.equal(others.length, 0);
      assert.deepEqual(
        [line?.domain, line?.old, line?.new, line?.reason],
        ['acme.test', 'pending', 'active', 'every record is verified or waived'],
      );
    });

    const forms: [string, (domain: string, dns: ListedRecord[]) => ZoneRecord[]][] = [
      [
        'with a setup of its own around them',
        (domain, dns) => [
          [domain, 'MX', '1 MAIL.LOCALHOST'],
          [domain, 'MX', '50 backup.other.test'],
          [domain, 'TXT', 'google-site-verification=abc'],
          [domain, 'TXT', 'v=spf1 ip4:198.51.100.1 include:all.other.test -all'],
          ['all.other.test', 'TXT', 'v=spf1 include:spf.mail.localhost ?all'],
          [`_dmarc.${domain}`, 'TXT', 'v=DMARC1;p=reject;rua=mailto:d@other.test'],
          [
            nameOf(domain, by(dns, 'dkim')),
            'TXT',
            by(dns, 'dkim').expected_value.match(/.{1,100}/g) ?? [],
          ],
        ],
      ],
      [
        'with aliases to a provider',
        (domain, dns) => [
          [domain, 'MX', '10 mail.localhost'],
          [domain, 'TXT', 'v=spf1 redirect=spf.mail.localhost'],
          [`_dmarc.${domain}`, 'CNAME', 'dmarc.other.test'],
          ['dmarc.other.test', 'TXT', 'v=DMARC1; p=quarantine'],
          [nameOf(domain, by(dns, 'dkim')), 'CNAME', 'key.other.test'],
          ['key.other.test', 'TXT', by(dns, 'dkim').expected_value.replace('v=DKIM1; k=rsa; ', '')],
        ],
      ],
      [
        'with our addresses in place of our include',
        (domain, dns) => [
          ...pasted(domain, dns).filter(([, , data]) => !String(data).startsWith('v=spf1')),
          [domain, 'TXT', 'v=spf1 a:mail.localhost -all'],
          ['mail.localhost', 'A', '192.0.2.25'],
          ['mail.localhost', 'AAAA', '2001:db8::25'],
        ],
      ],
    ];
    for (const [title, form] of forms) {
      test(`within one check, ${title}`, async () => {
        const domain = `form${forms.findIndex(([one]) => one === title)}.test`;
        const dns = await create(domain);
        server.publish(form(domain, dns));
        now += 61_000;
        await api.verification.runDue();
        const { domain: after, dns: records } = await info(domain);
        assert.equal(after.status, 'active', JSON.stringify(records));
      });
    }

    test('also one below a domain that has the policy, and one with an IDN', async () => {
      const below = await create('post.form.test');
      const idn = await create('bücher.test');
      server.publish([
        ...pasted('post.form.test', below).filter(([name]) => !name.startsWith('_dmarc')),
        ['_dmarc.form.test', 'TXT', 'v=DMARC1; p=none'],
        ...pasted('xn--bcher-kva.test', idn),
      ]);
      await api.verification.runDue();
      assert.equal((await info('post.form.test')).domain.status, 'active');
      assert.equal((await info('xn--bcher-kva.test')).domain.status, 'active');
    });
  });

  test('wrong records are explained', async () => {
    const dns = await create('wrong.test');
    const key = by(dns, 'dkim');
    server.publish([
      ['wrong.test', 'MX', '5 aspmx.other.test'],
      ['wrong.test', 'TXT', 'v=spf1 mx -all'],
      ['wrong.test', 'TXT', by(dns, 'spf').expected_value],
      ['_dmarc.wrong.test', 'TXT', 'v=DMARC1; p=maybe'],
      [nameOf('wrong.test', key), 'TXT', key.expected_value],
      [nameOf('wrong.test', key), 'TXT', 'v=DKIM1; k=rsa; p=MIIBIjANBgkq'],
    ]);
    const { status, body } = await verify('wrong.test');
    assert.equal(status, 200);
    assert.equal(body.domain.status, 'pending');
    const told = (purpose: string) => {
      const { status: of, observed_value, detail } = by(body.dns, purpose);
      assert.equal(of, 'pending');
      return `${observed_value} | ${detail}`;
    };
    assert.match(told('mx'), /^5 aspmx\.other\.test \| .*replace the MX records/);
    assert.match(told('spf'), /^"v=spf1 .*" and "v=spf1 .*" \| .*2 SPF records/);
    assert.match(told('dmarc'), /^v=DMARC1; p=maybe \| .*none, quarantine or reject/);
    assert.match(told('dkim'), /2 TXT records at .* only one/);
  });

  suite('a check that is started by hand', () => {
    test('answers with its result, at most once in ten seconds', async () => {
      const dns = await create('now.test');
      server.publish(pasted('now.test', dns));
      const first = await verify('now.test');
      assert.equal(first.status, 200);
      assert.equal(first.body.domain.status, 'active');
      assert.deepEqual(first.body, await info('now.test'));
      const again = await verify('now.test');
      assert.equal(again.status, 429);
      assert.equal(again.body.code, 'rate_limited');
      assert.equal(again.headers.get('retry-after'), '10');
      await api.verification.runDue();
      now += 10_000;
      assert.equal((await verify('now.test')).status, 200);
    });

    test('needs a user who has the domain', async () => {
      await create('mine.test');
      const other = await verify('mine.test', 'user-2');
      assert.deepEqual([other.status, other.body.code], [404, 'domain_not_found']);
      const nobody = await api.call('POST', '/v2/domains/mine.test/verify', {});
      assert.deepEqual([nobody.status, nobody.body.errors[0].field], [400, 'user_id']);
      const stranger = await api.call(
        'POST',
        '/v2/domains/mine.test/verify',
        { user_id: 'user-1' },
        { 'x-api-key': undefined },
      );
      assert.equal(stranger.status, 401);
    });
  });

  test('a domain gets a new owner, who sees nothing of the former one', async () => {
    const domain = 'sold.test';
    const check = async (minutes: number) => {
      now += minutes * 60_000;
      await api.verification.runDue();
    };
    const addAnn = async (userId: string) => {
      const made = await api.call('POST', '/v2/email-accounts/create', {
        domain,
        local_part: 'ann',
        user_id: userId,
        password: `password of ${userId}`,
      });
      assert.equal(made.status, 201);
      const { id, address } = made.body.account;
      const login = await api.call('POST', '/mail/token', {
        address,
        password: `password of ${userId}`,
      });
      return { id, address, token: login.body.token };
    };
    const sync = async (token: string) => {
      const authorization = `Bearer ${token}`;
      const { status, body } = await api.call('POST', '/mail/sync', {}, { authorization });
      return status === 200 ? body.changes.added.length : status;
    };

    server.publish(pasted(domain, await create(domain, 'seller')));
    await check(0);
    const former = await addAnn('seller');
    await api.call('PUT', `/v2/domains/${domain}/route`, {
      user_id: 'seller',
      forward_mode: 'webhook_then_store',
      webhook_url: 'https://seller.test/hook',
      webhook_secret: 'of the seller',
    });
    const bodies = new Bodies({ database: api.database, store: new BodyFolder(tmpdir()) });
    const source = Readable.from([Buffer.from(sampleMessage('old'))]);
    const { parsed, body } = await stageMessage(bodies, source);
    const user = { accountId: former.id, address: former.address };
    const texts = await describeMessage(bodies, { parsed, body });
    await api.database.write(async (tx) => {
      const message = { ...texts, bodyId: await bodies.commit(tx, body) };
      await api.mailstore.writer.append(tx, message, [{ user, mailbox: 'INBOX' }]);
    });
    assert.equal(await sync(former.token), 1);

    // The buyer sets up the zone as the service asks for it, while the seller's claim is active.
    const dns = await create(domain, 'buyer');
    assert.match(by(dns, 'dkim').detail ?? '', /^Another claim on this domain is active/);
    server.publish(pasted(domain, dns));
    for (let hours = 0; hours < 4; hours++) await check(60);
    assert.equal((await info(domain, 'buyer')).domain.status, 'active');
    assert.equal((await info(domain, 'seller')).domain.status, 'pending');

    // Passwords and mail of the address are the buyer's from now on.
    const login = { address: former.address, password: 'password of seller' };
    assert.equal((await api.call('POST', '/mail/token', login)).status, 401);
    const current = await addAnn('buyer');
    assert.notEqual(current.id, former.id);
    assert.equal(await sync(current.token), 0);
    assert.equal((await api.accounts.findForMail(former.address))?.id, current.id);
    const active = await api.domains.findActive(domain);
    assert.deepEqual(active?.route, { domain, forwardMode: 'store' });
    assert.equal((await api.accounts.oldestOfDomain(active.id))?.id, current.id);

    // Each side sees its own alone, and the seller keeps what came in before.
    assert.equal(await sync(former.token), 1);
    for (const [userId, id, other] of [
      ['buyer', current.id, former.id],
      ['seller', former.id, current.id],
    ] as const) {
      const own = await api.call('GET', `/v2/domains/${domain}/email-accounts?user_id=${userId}`);
      assert.deepEqual(
        own.body.items.map((account: { id: number }) => account.id),
        [id],
      );
      const stranger = await api.call('GET', `/v2/email-accounts/${other}?user_id=${userId}`);
      assert.equal(stranger.status, 404);
    }
    assert.doesNotMatch(JSON.stringify(await info(domain, 'buyer')), /seller/);
    const more = { domain, local_part: 'bob', user_id: 'seller' };
    const refused = await api.call('POST', '/v2/email-accounts/create', more);
    assert.deepEqual([refused.status, refused.body.code], [409, 'domain_not_active']);
  });

  test('a DNS server that dies changes no status', async () => {
    const dns = await create('steady.test');
    await create('waiting.test');
    server.publish(pasted('steady.test', dns));
    await api.verification.runDue();
    const statuses = async () =>
      Promise.all(
        ['steady.test', 'waiting.test'].map(async (domain) => {
          const { domain: own, dns: records } = await info(domain);
          return [own.status, ...records.map((record: ListedRecord) => record.status)];
        }),
      );
    const before = await statuses();
    assert.deepEqual(before[0], ['active', 'verified', 'verified', 'verified', 'verified']);
    await server.stop();
    for (let day = 0; day < 10; day++) {
      now += 86_400_000;
      assert.ok((await api.verification.runDue()) >= 2);
      assert.deepEqual(await statuses(), before);
    }
    const { dns: records } = await info('steady.test');
    assert.match(by(records, 'mx').detail ?? '', /could not be asked about steady\.test/);
    assert.equal(by(records, 'mx').observed_value, '10 mail.localhost');
    await server.start();
    now += 3_600_000;
    await api.verification.runDue();
    assert.match(by((await info('steady.test')).dns, 'mx').detail ?? '', /comes to/);
  });

  suite('the records as a zone', () => {
    const zone = (domain: string, format = 'zone') =>
      api.call('GET', `/v2/domains/${domain}/dns?user_id=user-1&format=${format}`);

    test('are lines to paste, long ones in strings of 255', async () => {
      const dns = await create('zone.test');
      const { status, headers, body } = await zone('zone.test');
      assert.equal(status, 200);
      assert.equal(headers.get('content-type'), 'text/plain; charset=utf-8');
      const lines = body.trimEnd().split('\n');
      assert.match(lines[0], /^; /);
      assert.deepEqual(lines.slice(1, 4), [
        'zone.test.\t3600\tIN\tMX\t10 mail.localhost.',
        'zone.test.\t3600\tIN\tTXT\t"v=spf1 include:spf.mail.localhost ~all"',
        '_dmarc.zone.test.\t3600\tIN\tTXT\t"v=DMARC1; p=none"',
      ]);
      const [owner, , , , data] = lines[4].split('\t');
      assert.equal(owner, `${nameOf('zone.test', by(dns, 'dkim'))}.`);
      const strings = data.slice(1, -1).split('" "');
      assert.deepEqual(
        strings.map(({ length }: string) => length > 255),
        [false, false],
      );
      assert.equal(strings.join(''), by(dns, 'dkim').expected_value);
    });

    test('come as JSON without the format, and in no other', async () => {
      await create('json.test');
      const plain = await api.call('GET', '/v2/domains/json.test/dns?user_id=user-1');
      assert.deepEqual((await zone('json.test', 'json')).body, plain.body);
      const other = await zone('json.test', 'yaml');
      assert.deepEqual([other.status, other.body.errors[0].field], [400, 'format']);
      assert.equal((await zone('nobody.test')).status, 404);
    });
  });
});
