import assert from 'node:assert/strict';
import { beforeEach, suite, test } from 'node:test';
import { type DnsServer, type Fault, startDnsServer } from '../../../test/support/dns-server.ts';
import { DnsResolver, type DnsResolverOptions } from './dns.ts';

const timeouts = { first: 5_000, later: 5_000 };
/** For servers that never answer. */
const short = { first: 300, later: 300 };
/** For a server that never answers beside one that does, which needs a while on a busy machine. */
const shorter = { first: 1_500, later: 5_000 };

const open = (servers: readonly DnsServer[], options: Partial<DnsResolverOptions> = {}) =>
  new DnsResolver({ servers: servers.map(({ address }) => address), timeouts, ...options });

suite('answers', () => {
  let server: DnsServer;
  beforeEach(async () => {
    server = await startDnsServer([
      ['acme.test', 'MX', '10 Mail.Acme.test'],
      ['acme.test', 'MX', '0 other.test'],
      ['acme.test', 'TXT', ['v=spf1 ', '-all']],
      ['acme.test', 'TXT', 'übrig'],
      ['acme.test', 'A', '192.0.2.1'],
      ['acme.test', 'AAAA', '2001:db8::1'],
      ['null.test', 'MX', '0 .'],
      ['alias.acme.test', 'CNAME', 'Acme.test'],
      ['dangling.acme.test', 'CNAME', 'nowhere.test'],
      ['empty.acme.test', 'TXT', ''],
      ['1.2.0.192.in-addr.arpa', 'PTR', 'Mail.acme.test'],
      ['below.none.acme.test', 'A', '192.0.2.2'],
      ['hostile.test', 'MX', '10 mail\r\nX:y\u00e9.test'],
      ['hostile.test', 'PTR', 'a\nb.test'],
      ['hostile.test', 'CNAME', 'a\u0000b.test'],
    ]);
  });

  test('records of each type come typed, names in lower case without a dot', async () => {
    const dns = open([server]);
    const mx = await dns.lookup('ACME.test.', 'MX');
    assert.equal(mx.kind, 'records');
    assert.deepEqual(
      mx.kind === 'records' && [...mx.records].sort((a, b) => a.preference - b.preference),
      [
        { preference: 0, exchange: 'other.test' },
        { preference: 10, exchange: 'mail.acme.test' },
      ],
    );
    const records = async (name: string, type: 'A' | 'AAAA' | 'CNAME' | 'PTR' | 'TXT') => {
      const answer = await dns.lookup(name, type);
      return answer.kind === 'records' ? answer.records : answer;
    };
    assert.deepEqual(await records('acme.test', 'A'), ['192.0.2.1']);
    assert.deepEqual(await records('acme.test', 'AAAA'), ['2001:db8::1']);
    assert.deepEqual(await records('alias.acme.test', 'CNAME'), ['acme.test']);
    assert.deepEqual(await records('1.2.0.192.in-addr.arpa', 'PTR'), ['mail.acme.test']);
    const utf8 = Buffer.from('übrig').toString('latin1');
    assert.deepEqual(await records('acme.test', 'TXT'), ['v=spf1 -all', utf8]);
    assert.deepEqual(await records('alias.acme.test', 'TXT'), ['v=spf1 -all', utf8]);
    assert.deepEqual(await records('empty.acme.test', 'TXT'), ['']);
    assert.deepEqual(await dns.lookup('null.test', 'MX'), {
      kind: 'records',
      records: [{ preference: 0, exchange: '' }],
    });
  });

  test('names with control characters are shown escaped', async () => {
    const dns = open([server]);
    assert.deepEqual(await dns.lookup('hostile.test', 'MX'), {
      kind: 'records',
      records: [{ preference: 10, exchange: 'mail\\013\\010x:y\\195\\169.test' }],
    });
    const texts = await Promise.all(
      (['PTR', 'CNAME'] as const).map((type) => dns.lookup('hostile.test', type)),
    );
    assert.deepEqual(
      texts.map((answer) => answer.kind === 'records' && answer.records),
      [['a\\010b.test'], ['a\\000b.test']],
    );
  });

  const absences: [string, 'no_name' | 'no_record' | 'bad_name'][] = [
    ['nobody.test', 'no_name'],
    ['null.test', 'no_record'],
    ['none.acme.test', 'no_record'],
    ['dangling.acme.test', 'no_name'],
    [`${'x'.repeat(64)}.test`, 'bad_name'],
    ['a..test', 'bad_name'],
    [`${'x.'.repeat(130)}test`, 'bad_name'],
  ];
  for (const [name, reason] of absences) {
    test(`${name.slice(0, 20)} has no TXT record: ${reason}`, async () => {
      assert.deepEqual(await open([server]).lookup(name, 'TXT'), { kind: 'absent', reason });
    });
  }

  test('an alias alone, from a server that does not follow it, is no record', async () => {
    assert.equal((await open([server]).lookup('dangling.acme.test', 'A')).kind, 'absent');
  });

  test('an answer that does not fit into a datagram comes over TCP', async () => {
    const long = 'x'.repeat(4_000);
    server.add(['long.test', 'TXT', long]);
    assert.deepEqual(await open([server]).lookup('long.test', 'TXT'), {
      kind: 'records',
      records: [long],
    });
    assert.deepEqual(
      server.asked.map(({ transport }) => transport),
      ['udp', 'tcp'],
    );
  });

  test('by default it caches nothing: a changed record is seen at once', async () => {
    const dns = open([server]);
    await dns.lookup('acme.test', 'A');
    server.remove('acme.test', 'A');
    assert.equal((await dns.lookup('acme.test', 'A')).kind, 'absent');
    server.add(['acme.test', 'A', '192.0.2.9']);
    assert.deepEqual(await dns.lookup('acme.test', 'A'), {
      kind: 'records',
      records: ['192.0.2.9'],
    });
  });
});

suite('cached answers', () => {
  let server: DnsServer;
  let now: number;
  beforeEach(async () => {
    server = await startDnsServer([
      ['acme.test', 'TXT', 'right'],
      ['alias.test', 'CNAME', 'acme.test'],
    ]);
    now = 0;
  });
  const right = { kind: 'records', records: ['right'] };
  const openKeeping = () => open([server], { keeps: true, now: () => now });

  for (const name of ['acme.test', 'alias.test']) {
    test(`${name} is kept until its TTL is over`, async () => {
      server.ttl = 300;
      const dns = openKeeping();
      assert.equal(dns.kept(name, 'TXT'), undefined);
      assert.deepEqual(await dns.lookup(name.toUpperCase(), 'TXT'), right);
      now = 299_999;
      assert.deepEqual(dns.kept(`${name}.`, 'TXT'), right);
      assert.equal(dns.kept(name, 'A'), undefined);
      now = 300_000;
      assert.equal(dns.kept(name, 'TXT'), undefined);
    });
  }

  test('no TTL is longer than an hour, and one of 0 keeps nothing', async () => {
    server.ttl = 86_400;
    const dns = openKeeping();
    await dns.lookup('acme.test', 'TXT');
    now = 3_599_999;
    assert.deepEqual(dns.kept('acme.test', 'TXT'), right);
    now = 3_600_000;
    assert.equal(dns.kept('acme.test', 'TXT'), undefined);
    server.ttl = 0;
    await dns.lookup('acme.test', 'TXT');
    assert.equal(dns.kept('acme.test', 'TXT'), undefined);
  });

  test('the absence of a record is cached for a minute, a missing answer is not', async () => {
    const dns = openKeeping();
    await dns.lookup('nobody.test', 'TXT');
    now = 59_999;
    assert.deepEqual(dns.kept('nobody.test', 'TXT'), { kind: 'absent', reason: 'no_name' });
    now = 60_000;
    server.faults = () => 'servfail';
    await dns.lookup('nobody.test', 'TXT');
    assert.equal(dns.kept('nobody.test', 'TXT'), undefined);
  });

  test('the least recently used go first, so that long answers do not fill the memory', async () => {
    server.add(['*.evil.test', 'TXT', 'x'.repeat(30_000)]);
    const dns = openKeeping();
    await dns.lookup('acme.test', 'TXT');
    const names = Array.from({ length: 200 }, (_, n) => `n${n}.evil.test`);
    for (const name of names) {
      await dns.lookup(name, 'TXT');
      assert.deepEqual(dns.kept('acme.test', 'TXT'), right);
    }
    const held = names.filter((name) => dns.kept(name, 'TXT')).length;
    assert.ok(held > 100 && held < 150, `${held} answers of 60 kB are held in 8 MiB`);
  });
});

suite('faults', () => {
  const faults: [Fault, string][] = [
    ['servfail', 'SERVFAIL'],
    ['refused', 'REFUSED'],
    ['formerr', 'FORMERR'],
    ['silent', 'timeout'],
    ['wrong_id', 'timeout'],
    ['garbage', 'malformed answer'],
    ['dies_midway', 'connection ended'],
    ['tcp_silent', 'timeout'],
  ];
  for (const [fault, reason] of faults) {
    const patience = { timeouts: reason === 'timeout' ? short : timeouts };
    test(`a single server with ${fault} is asked twice, then it is ${reason}`, async () => {
      const server = await startDnsServer([['acme.test', 'TXT', 'right']]);
      server.faults = () => fault;
      assert.deepEqual(await open([server], patience).lookup('acme.test', 'TXT'), {
        kind: 'unanswered',
        reason,
        ...(reason === 'timeout' && { failure: 'late' }),
      });
      const datagrams = server.asked.filter(({ transport }) => transport === 'udp');
      assert.equal(datagrams.length, 2);
    });

    test(`with ${fault} the second server is asked`, async () => {
      const broken = await startDnsServer([['acme.test', 'TXT', 'wrong']]);
      const sound = await startDnsServer([['acme.test', 'TXT', 'right']]);
      broken.faults = () => fault;
      const dns = open([broken, sound], reason === 'timeout' ? { timeouts: shorter } : {});
      const right = { kind: 'records', records: ['right'] };
      assert.deepEqual(await dns.lookup('acme.test', 'TXT'), right);
      assert.deepEqual(await dns.lookup('nobody.test', 'TXT'), {
        kind: 'absent',
        reason: 'no_name',
      });
      const asked = broken.asked.filter(({ name }) => name === 'nobody.test');
      assert.equal(asked.length, 0, 'the one that failed is asked last from then on');
    });
  }

  test('an answer with another id is ignored, the right one is used', async () => {
    const server = await startDnsServer([['acme.test', 'TXT', 'right']]);
    server.faults = () => 'forged_first';
    assert.deepEqual(await open([server]).lookup('acme.test', 'TXT'), {
      kind: 'records',
      records: ['right'],
    });
  });

  test('a server that is down is no connection; when it is up again it answers', async () => {
    const server = await startDnsServer([['acme.test', 'TXT', 'right']]);
    const dns = open([server]);
    await server.stop();
    assert.deepEqual(await dns.lookup('acme.test', 'TXT'), {
      kind: 'unanswered',
      reason: 'no connection',
      failure: 'unreachable',
    });
    await server.start();
    assert.equal((await dns.lookup('acme.test', 'TXT')).kind, 'records');
  });

  test('a server that there is no way to is no reason to fail', async () => {
    // Linux refuses to connect a socket to it, as it does while the machine has no route.
    const dns = new DnsResolver({ servers: ['255.255.255.255'] });
    const { kind } = await dns.lookup('acme.test', 'TXT');
    assert.equal(kind, 'unanswered');
  });

  test('of many servers each gets its turn, although one lookup asks at most three', async () => {
    const servers = await Promise.all(Array.from({ length: 5 }, () => startDnsServer()));
    for (const server of servers.slice(0, 4)) await server.stop();
    servers[4]?.add(['acme.test', 'TXT', 'right']);
    const dns = open(servers);
    assert.equal((await dns.lookup('acme.test', 'TXT')).kind, 'unanswered');
    assert.equal((await dns.lookup('acme.test', 'TXT')).kind, 'records');
  });

  test('earlier fast answers do not shorten the timeout', async () => {
    const server = await startDnsServer([['acme.test', 'A', '192.0.2.1']]);
    const dns = open([server]);
    for (let n = 0; n < 20; n++) await dns.lookup('acme.test', 'A');
    server.delay = 1_200;
    server.asked.length = 0;
    assert.equal((await dns.lookup('acme.test', 'A')).kind, 'records');
    assert.equal(server.asked.length, 1);
  });
});

test('the number of lookups under way at a time is limited', async () => {
  const server = await startDnsServer();
  server.delay = 5;
  const dns = open([server], { concurrency: 4 });
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, n) => dns.lookup(`n${n}.test`, 'A')),
  );
  assert.ok(answers.every(({ kind }) => kind === 'absent'));
  assert.equal(server.inFlight.max, 4);
});

test('closing ends running and waiting lookups, without an exception', async () => {
  const server = await startDnsServer();
  server.faults = () => 'silent';
  const dns = open([server], { concurrency: 1, timeouts: { first: 60_000, later: 60_000 } });
  const lookups = ['a.test', 'b.test'].map((name) => dns.lookup(name, 'A'));
  while (server.asked.length === 0) await new Promise((resolve) => setImmediate(resolve));
  dns.close();
  const stopped = { kind: 'unanswered', reason: 'stopped' };
  assert.deepEqual(await Promise.all(lookups), [stopped, stopped]);
  assert.deepEqual(await dns.lookup('c.test', 'A'), stopped);
  assert.equal(server.asked.length, 1);
});

test('without configured servers those of the system are asked, or there are none', async () => {
  const dns = new DnsResolver({ servers: [], timeouts: { first: 1, later: 1 } });
  const { kind } = await dns.lookup('acme.test', 'A');
  assert.notEqual(kind, 'records');
});
