import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { lookupIn, type Zone } from '../../../../test/support/sender-checks/zone.ts';
import { organizationalDomain } from '../../../protocols/message/message.ts';
import { type DmarcRecord, discoverPolicy, parseDmarcRecord } from './evaluate-dmarc.ts';

const rejecting: DmarcRecord = {
  policies: { own: 'reject', below: 'reject', absent: 'reject' },
  strictDkim: false,
  strictSpf: false,
  percent: 100,
  isTest: false,
};
const none = { own: 'none', below: 'none', absent: 'none' } as const;
const monitoring: DmarcRecord = { ...rejecting, policies: none };

const records: [string, DmarcRecord | undefined][] = [
  ['v=DMARC1; p=reject', rejecting],
  ['v=DMARC1;p=reject;', rejecting],
  ['V = DMARC1 ; P = Reject ; x=y; nonsense', rejecting],
  ['v=DMARC1; p=reject; sp=none', { ...rejecting, policies: { ...none, own: 'reject' } }],
  ['v=DMARC1; p=none; np=Reject', { ...rejecting, policies: { ...none, absent: 'reject' } }],
  ['v=DMARC1; p=none; sp=none; np=maybe; psd=u', monitoring],
  ['v=DMARC1; p=reject; psd=Y', { ...rejecting, psd: 'y' }],
  ['v=DMARC1; p=reject; psd=n', { ...rejecting, psd: 'n' }],
  ['v=DMARC1; p=reject; adkim=s; aspf=S', { ...rejecting, strictDkim: true, strictSpf: true }],
  ['v=DMARC1; p=reject; adkim=x; aspf=r', rejecting],
  ['v=DMARC1; p=reject; pct=25; t=y', { ...rejecting, percent: 25, isTest: true }],
  ['v=DMARC1; p=reject; pct=0', { ...rejecting, percent: 0 }],
  ['v=DMARC1; p=reject; pct=-1', rejecting],
  ['v=DMARC1; p=reject; pct=999', rejecting],
  ['v=DMARC1; p=reject; pct=50%', rejecting],
  // RFC 7489 section 6.6.3 step 6.
  ['v=DMARC1; rua=mailto:d@b.test', monitoring],
  ['v=DMARC1; p=quarentine; rua=d@b.test, mailto:d@b.test', monitoring],
  ['v=DMARC1; p=reject; sp=maybe; rua=mailto:d@b.test', monitoring],
  ['v=DMARC1; p=quarentine', undefined],
  ['v=DMARC1; p=quarentine; rua=d@b.test', undefined],
  ['v=DMARC1; p=reject; sp=maybe', undefined],
  ['v=DMARC1', undefined],
  ['v=DMARC1; p=none; p=reject', undefined],
];

suite('DMARC records', () => {
  for (const [text, record] of records) {
    test(text, () => assert.deepEqual(parseDmarcRecord(text), record));
  }
});

const organizations: [string, string][] = [
  ['bank.co.uk', 'bank.co.uk'],
  ['a.b.bank.co.uk', 'bank.co.uk'],
  ['ann.github.io', 'ann.github.io'],
  ['mail.ann.github.io', 'ann.github.io'],
  ['co.uk', 'co.uk'],
  ['mail.bank.test', 'bank.test'],
  ['test', 'test'],
  ['-a.bank.test', 'bank.test'],
  ['a-.mail.bank.test', 'bank.test'],
  ['a..bank.test', 'bank.test'],
  ['a/b.bank.test', 'bank.test'],
  ['a?b.c:d.bank.test', 'bank.test'],
  ['[::1].bank.test', 'bank.test'],
  [`${'a'.repeat(64)}.bank.test`, 'bank.test'],
];

test('an organizational domain is what is registered under a public suffix', () => {
  for (const [domain, organization] of organizations) {
    assert.equal(organizationalDomain(domain), organization, domain);
  }
});

suite('the record that applies', () => {
  const discover = (zone: Zone, domain: string) => {
    const { lookup } = lookupIn(zone);
    return discoverPolicy(domain, lookup);
  };
  const org = { 'TXT _dmarc.bank.test': ['v=DMARC1; p=reject'] };
  const own = { 'TXT _dmarc.news.bank.test': ['v=DMARC1; p=none'] };
  const ownNone = { 'TXT _dmarc.a.bank.test': ['v=DMARC1; p=none'] };

  test("is the domain's own, before its organization's", async () => {
    const zone = { records: { ...org, ...own }, silent: ['TXT _dmarc.bank.test'] };
    const found = await discover(zone, 'news.bank.test');
    assert.deepEqual(found, { kind: 'record', record: monitoring, for: 'own' });
  });

  test("is its organization's where it has none, and none of a domain in between", async () => {
    const found = await discover({ records: { ...org, ...own } }, 'a.news.bank.test');
    assert.deepEqual(found, { kind: 'record', record: rejecting, for: 'below' });
    const apex = await discover({ records: org }, 'bank.test');
    assert.deepEqual(apex, { kind: 'record', record: rejecting, for: 'own' });
  });

  test('is looked up once where domain and organization are the same, and no more where it is found', async () => {
    const { lookup, asked } = lookupIn({ records: org });
    await discoverPolicy('bank.test', lookup);
    assert.deepEqual(asked, ['TXT _dmarc.bank.test']);
    asked.length = 0;
    await discoverPolicy('a.b.bank.test', lookup);
    assert.deepEqual(asked.sort(), ['TXT _dmarc.a.b.bank.test', 'TXT _dmarc.bank.test']);
  });

  test('is that of another domain of the tree where neither has one, seven more at most', async () => {
    const found = async (domain: string, records: Record<string, string>) => {
      const zone = Object.entries(records).map(([name, text]) => [`TXT _dmarc.${name}`, [text]]);
      const policy = await discover({ records: Object.fromEntries(zone) }, domain);
      return policy.kind === 'record' ? policy.record.policies[policy.for] : policy.kind;
    };
    const [reject, quarantine] = ['v=DMARC1; p=none; sp=reject', 'v=DMARC1; p=none; sp=quarantine'];
    assert.equal(await found('x.news.bank.test', { 'news.bank.test': reject }), 'reject');
    assert.equal(await found('news.bank.test', { 'x.news.bank.test': reject }), 'none');
    assert.equal(await found('tax.gov.uk', { 'gov.uk': `${reject}; psd=y` }), 'reject');
    // The shortest, unless a longer one says that it is an organization; below a registry is another organization.
    const two = { 'b.bank.test': reject, 'a.b.bank.test': quarantine };
    assert.equal(await found('x.a.b.bank.test', two), 'reject');
    const ended = { ...two, 'a.b.bank.test': `${quarantine}; psd=n` };
    assert.equal(await found('x.a.b.bank.test', ended), 'quarantine');
    const registry = { ...two, 'b.bank.test': `${reject}; psd=y` };
    assert.equal(await found('x.a.b.bank.test', registry), 'quarantine');
    // What is no DMARC record is passed over; one without a policy counts, and says nothing (RFC 9989 section 4.10.1).
    const stray = { ...two, 'b.bank.test': 'p=none; v=DMARC1' };
    assert.equal(await found('x.a.b.bank.test', stray), 'quarantine');
    assert.equal(await found('x.a.b.bank.test', { ...two, 'b.bank.test': 'v=DMARC1' }), 'invalid');
    const { lookup, asked } = lookupIn({ records: {} });
    await discoverPolicy(`${'a.'.repeat(20)}bank.test`, lookup);
    assert.equal(asked.length, 8);
  });

  test('has another policy for a domain that is not in DNS', async () => {
    const records = { 'TXT _dmarc.bank.test': ['v=DMARC1; p=none; np=reject'] };
    const policyOf = async (zone: Zone) => {
      const found = await discover(zone, 'a.bank.test');
      return found.kind === 'record' ? found.for : found.kind;
    };
    assert.equal(await policyOf({ records }), 'absent');
    assert.equal(await policyOf({ records: { ...records, 'AAAA a.bank.test': ['::1'] } }), 'below');
    assert.equal(await policyOf({ records, failing: ['MX a.bank.test'] }), 'below');
    assert.equal(await policyOf({ records: { ...records, ...ownNone } }), 'own');
  });

  test('is none where there is no record, other text, or several', async () => {
    const name = 'TXT _dmarc.bank.test';
    for (const texts of [
      [],
      ['v=spf1 -all', 'v=DMARC10; p=reject', 'p=reject; v=DMARC1', ' v=DMARC1; p=reject'],
      ['v=DMARC1; p=none', 'v=DMARC1; p=reject'],
    ]) {
      assert.deepEqual(await discover({ records: { [name]: texts } }, 'bank.test'), {
        kind: 'none',
      });
    }
    assert.deepEqual(await discover({ records: {} }, 'news.bank.test'), { kind: 'none' });
    const beside = { records: { [name]: ['other', 'v=DMARC1; p=reject'] } };
    assert.equal((await discover(beside, 'bank.test')).kind, 'record');
  });

  test('is invalid where it has no policy', async () => {
    const zone = { records: { 'TXT _dmarc.bank.test': ['v=DMARC1; p=oops'] } };
    assert.deepEqual(await discover(zone, 'bank.test'), { kind: 'invalid' });
  });

  test('is unknown where the lookup that decides fails', async () => {
    const unknown = { kind: 'unanswered' };
    const failing = (...names: string[]) => ({ records: org, failing: names });
    assert.deepEqual(await discover(failing('TXT _dmarc.bank.test'), 'bank.test'), unknown);
    assert.deepEqual(await discover(failing('TXT _dmarc.bank.test'), 'a.bank.test'), unknown);
    const own = await discover(failing('TXT _dmarc.a.bank.test'), 'a.bank.test');
    assert.deepEqual(own, { ...unknown, above: rejecting });
    const both = failing('TXT _dmarc.a.bank.test', 'TXT _dmarc.bank.test');
    assert.deepEqual(await discover(both, 'a.bank.test'), unknown);
  });
});
