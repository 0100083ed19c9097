/**
 * Domains go live by a real authoritative DNS server, Knot, whose zones are rewritten and reloaded
 * while the whole service runs.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startTestService, type TestService } from '../support/service.ts';
import { type KnotServer, startKnot } from './knot.ts';
import { LONG_MS, until } from './mail-load.ts';

const zones = ['plain.test', 'forms.test', 'breaks.test', 'postroom.example'];

const MAIL_HOSTNAME = 'mail.postroom.example';

interface ListedRecord {
  readonly purpose: string;
  readonly host: string;
  readonly expected_value: string;
  readonly status: string;
  readonly observed_value?: string;
  readonly detail?: string;
}

let knot: KnotServer;
let service: TestService;

before(async () => {
  knot = await startKnot(zones);
  await knot.write('postroom.example', [
    `${MAIL_HOSTNAME}. 3600 A 192.0.2.25`,
    `${MAIL_HOSTNAME}. 3600 AAAA 2001:db8::25`,
    `spf.${MAIL_HOSTNAME}. 3600 TXT "v=spf1 a:${MAIL_HOSTNAME} -all"`,
  ]);
  service = await startTestService('sqlite', { DNS_SERVERS: knot.address, MAIL_HOSTNAME });
});

after(() => knot.stop());

async function create(domain: string): Promise<readonly ListedRecord[]> {
  const created = await service.v2('POST', '/v2/domain', { domain, user_id: 'u' });
  assert.equal(created.status, 201);
  return created.body.domain.dns;
}

async function verify(domain: string) {
  const answer = await service.v2('POST', `/v2/domains/${domain}/verify`, { user_id: 'u' });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
}

async function untilActive(domain: string): Promise<void> {
  const isActive = async () => {
    const { body } = await service.v2('GET', `/v2/domains/${domain}/info?user_id=u`);
    return body.domain.status === 'active';
  };
  await until(`${domain} is active`, isActive, LONG_MS);
}

const dkimOf = (records: readonly ListedRecord[]) => {
  const record = records.find(({ purpose }) => purpose === 'dkim');
  assert.ok(record);
  return record;
};

const strings = (text: string, length: number) =>
  (text.match(new RegExp(`.{1,${length}}`, 'g')) ?? []).map((part) => `"${part}"`).join(' ');

test('the zone snippet, pasted as it is, makes the domain active with no further call', async () => {
  await create('plain.test');
  const listing = await service.v2('GET', '/v2/domains/plain.test/dns?user_id=u&format=zone');
  await knot.write('plain.test', listing.body.split('\n'));
  await untilActive('plain.test');
});

test('records in other forms make the domain active within one check', async () => {
  const dkim = dkimOf(await create('forms.test'));
  await knot.write('forms.test', [
    'forms.test. 60 MX 20 backup.forms.test.',
    `forms.test. 60 MX 5 ${MAIL_HOSTNAME.toUpperCase()}.`,
    'forms.test. 60 TXT "some-verification=1"',
    'forms.test. 60 TXT "v=spf1 mx ip4:198.51.100.1 " "include:inner.forms.test -all"',
    `inner.forms.test. 60 TXT "v=spf1 redirect=spf.${MAIL_HOSTNAME}"`,
    '_dmarc.forms.test. 60 CNAME policy.forms.test.',
    'policy.forms.test. 60 TXT "v=DMARC1;p=quarantine;rua=mailto:d@forms.test"',
    `${dkim.host}.forms.test. 60 CNAME key.forms.test.`,
    `key.forms.test. 60 TXT ( ${strings(`${dkim.expected_value}; n=${'x'.repeat(3_500)}`, 40)} )`,
    '*.forms.test. 60 TXT "v=spf1 -all"',
  ]);
  const { domain, dns } = await verify('forms.test');
  assert.equal(domain.status, 'active', JSON.stringify(dns));
});

test('wrong records are explained, and fixed ones are found', async () => {
  const dkim = dkimOf(await create('breaks.test'));
  await knot.write('breaks.test', [
    'breaks.test. 60 MX 5 mx.other.test.',
    `breaks.test. 60 MX 10 ${MAIL_HOSTNAME}.`,
    'breaks.test. 60 TXT "v=spf1 -all"',
    `breaks.test. 60 TXT "v=spf1 include:spf.${MAIL_HOSTNAME} ~all"`,
    `${dkim.host}.breaks.test. 60 TXT ( ${strings(dkim.expected_value, 200)} )`,
    `${dkim.host}.breaks.test. 60 TXT "v=DKIM1; p=AAAA"`,
  ]);
  const { domain, dns } = await verify('breaks.test');
  assert.equal(domain.status, 'pending');
  const told = Object.fromEntries(
    dns.map(({ purpose, observed_value, detail }: ListedRecord) => [
      purpose,
      `${observed_value} | ${detail}`,
    ]),
  );
  assert.match(told.mx, /^5 mx\.other\.test and 10 mail\.postroom\.example \| .*first/);
  assert.match(told.spf, /2 SPF records/);
  assert.match(told.dmarc, /^no record \| .*_dmarc\.breaks\.test: add/);
  assert.match(told.dkim, /2 TXT records/);

  const listing = await service.v2('GET', '/v2/domains/breaks.test/dns?user_id=u&format=zone');
  await knot.write('breaks.test', listing.body.split('\n'));
  await untilActive('breaks.test');
});

test('for a domain in no zone of the server, DNS does not answer', async () => {
  await create('elsewhere.test');
  const { dns } = await verify('elsewhere.test');
  for (const { status, observed_value, detail } of dns as ListedRecord[]) {
    assert.deepEqual([status, observed_value], ['pending', undefined]);
    assert.match(detail ?? '', /could not be asked about \S+ \(REFUSED\)/);
  }
});
