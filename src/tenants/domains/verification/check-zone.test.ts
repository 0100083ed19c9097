/**
 * Zones as users write them, each published on a real DNS server, with the expected verdict of each record. Every zone
 * is the correct one with the changes of the case; a record that a case does not name must be verified.
 */
import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';
import {
  type DnsServer,
  type Faults,
  startDnsServer,
  type ZoneRecord,
} from '../../../../test/support/dns-server.ts';
import { DnsResolver } from '../../../protocols/dns/dns.ts';
import { generateDkimKey, type NewDkimKey, seedRecords } from '../dns-records.ts';
import { checkZone } from './check-zone.ts';
import { createOurServers } from './judge-spf.ts';
import { settleRecord } from './write-verdicts.ts';

const OUR_HOST = 'mail.postroom.example';
const INCLUDE = '_spf.postroom.example';

/** The records of our own names. */
const ours: ZoneRecord[] = [
  [OUR_HOST, 'A', '192.0.2.25'],
  [OUR_HOST, 'AAAA', '2001:db8::25'],
  [INCLUDE, 'TXT', `v=spf1 a:${OUR_HOST} -all`],
];

type Purpose = 'mx' | 'spf' | 'dmarc' | 'dkim';

/** The expected status of a new claim's record, its detail, and the observed value. */
type Expected = readonly ['verified' | 'pending', RegExp, (string | RegExp)?];

interface Case {
  readonly title: string;
  readonly domain?: string;
  /** Replaces the correct records of the same purpose. */
  readonly mx?: readonly ZoneRecord[];
  readonly spf?: readonly ZoneRecord[];
  readonly dmarc?: readonly ZoneRecord[];
  readonly dkim?: (key: NewDkimKey, name: string) => readonly ZoneRecord[];
  /** In addition to all others. */
  readonly more?: readonly ZoneRecord[];
  /** Names, or types, without any record. */
  readonly without?: readonly string[];
  readonly faults?: Faults;
  readonly expect?: Partial<Record<Purpose, Expected>>;
}

const mx = (...data: string[]): ZoneRecord[] => data.map((text) => ['acme.test', 'MX', text]);
const spf = (...data: string[]): ZoneRecord[] => data.map((text) => ['acme.test', 'TXT', text]);
const dmarc = (...data: string[]): ZoneRecord[] =>
  data.map((text) => ['_dmarc.acme.test', 'TXT', text]);
const dkim =
  (...data: ((key: string) => string)[]) =>
  (key: NewDkimKey, name: string): ZoneRecord[] =>
    data.map((write) => [name, 'TXT', write(key.txtValue.split('p=')[1] ?? '')]);

/** `n` includes, each with one lookup, none of which lets a server pass. */
const costly = (n: number): ZoneRecord[] =>
  Array.from({ length: n }, (_, i) => [`n${i}.spf.test`, 'TXT', 'v=spf1 ip4:198.51.100.7 -all']);
const includes = (n: number) =>
  Array.from({ length: n }, (_, i) => `include:n${i}.spf.test`).join(' ');

const mxCases: Case[] = [
  { title: 'MX in capitals', mx: mx('10 MAIL.Postroom.Example') },
  { title: 'MX at another priority', mx: mx('0 mail.postroom.example') },
  {
    title: 'a foreign MX that comes after ours',
    mx: mx('10 mail.postroom.example', '20 mx.foreign.test'),
    expect: {
      mx: ['verified', /comes to mail/, '10 mail.postroom.example and 20 mx.foreign.test'],
    },
  },
  {
    title: 'our MX twice, a foreign one between',
    mx: mx('5 mail.postroom.example', '10 mx.foreign.test', '20 mail.postroom.example'),
  },
  {
    title: 'a foreign MX of the same priority',
    mx: mx('10 mail.postroom.example', '10 mx.foreign.test'),
    expect: { mx: ['verified', /part of it goes to mx\.foreign\.test/] },
  },
  {
    title: 'a foreign MX preferred over ours',
    mx: mx('10 mail.postroom.example', '5 mx.foreign.test'),
    expect: {
      mx: [
        'pending',
        /goes to mx\.foreign\.test first/,
        '5 mx.foreign.test and 10 mail.postroom.example',
      ],
    },
  },
  {
    title: 'a foreign MX alone',
    mx: mx('10 mx.foreign.test'),
    expect: { mx: ['pending', /goes to mx\.foreign\.test: replace/, '10 mx.foreign.test'] },
  },
  {
    title: 'no MX',
    mx: [],
    expect: { mx: ['pending', /has no MX record: add one/, 'no record'] },
  },
  {
    title: 'a null MX',
    mx: mx('0 .'),
    expect: { mx: ['pending', /null MX/, '0 .'] },
  },
  {
    title: 'a null MX besides ours',
    mx: mx('0 .', '10 mail.postroom.example'),
    expect: { mx: ['pending', /null MX/] },
  },
  {
    title: 'an MX without the dot at its end in the zone file',
    mx: mx('10 mail.postroom.example.acme.test'),
    expect: { mx: ['pending', /put a dot at the end/] },
  },
  {
    title: 'an MX that is an IP address',
    mx: mx('10 192.0.2.25'),
    expect: { mx: ['pending', /not an IP address/] },
  },
  {
    title: 'many foreign MX',
    mx: mx(...Array.from({ length: 12 }, (_, n) => `${n} mx${n}.foreign.test`)),
    expect: { mx: ['pending', /and 7 more/, /^0 mx0\.foreign\.test, .* and 7 more$/] },
  },
  {
    title: 'a name that does not exist',
    mx: [],
    spf: [],
    dmarc: [],
    dkim: () => [],
    expect: {
      mx: ['pending', /DNS knows no name acme\.test/, 'no record'],
      spf: ['pending', /has no SPF record/, 'no record'],
      dmarc: ['pending', /no DMARC record/, 'no record'],
      dkim: ['pending', /no TXT record at/, 'no record'],
    },
  },
];

const spfCases: Case[] = [
  { title: 'SPF with -all', spf: spf('v=spf1 include:_spf.postroom.example -all') },
  { title: 'SPF in capitals', spf: spf('V=SPF1 INCLUDE:_SPF.Postroom.Example ~ALL') },
  {
    title: 'SPF with other terms around',
    spf: spf('v=spf1 mx a:mail.acme.test include:_spf.postroom.example ip4:198.51.100.0/24 ?all'),
  },
  {
    title: 'SPF in two strings',
    spf: [['acme.test', 'TXT', ['v=spf1 include:_spf.post', 'room.example ~all']]],
  },
  {
    title: 'SPF beside other TXT records',
    spf: spf(
      'v=spf1 include:_spf.postroom.example ~all',
      'google-site-verification=abc',
      'v=spf10 is none',
      'v=spf2.0/pra -all',
    ),
  },
  {
    title: 'SPF by a nested include',
    spf: spf('v=spf1 include:a.spf.test ~all'),
    more: [
      ['a.spf.test', 'TXT', 'v=spf1 include:b.spf.test -all'],
      ['b.spf.test', 'TXT', 'v=spf1 include:_spf.postroom.example -all'],
    ],
  },
  {
    title: 'SPF by redirect',
    spf: spf('v=spf1 redirect=a.spf.test'),
    more: [['a.spf.test', 'TXT', 'v=spf1 include:_spf.postroom.example -all']],
  },
  { title: 'SPF by a redirect to our include', spf: spf('v=spf1 redirect=_spf.postroom.example') },
  {
    title: 'SPF by macros of a provider',
    spf: spf('v=spf1 include:%{d}.%{i}.spf.test ~all'),
    more: [['*.spf.test', 'TXT', 'v=spf1 include:_spf.postroom.example -all']],
  },
  {
    title: 'SPF by exists with macros',
    spf: spf('v=spf1 exists:%{ir}.%{l1r+-}.spf.test -all'),
    more: [['*.spf.test', 'A', '127.0.0.2']],
  },
  { title: 'SPF by our addresses', spf: spf('v=spf1 ip4:192.0.2.0/24 ip6:2001:db8::/32 -all') },
  { title: 'SPF by a:', spf: spf('v=spf1 a:mail.postroom.example -all') },
  { title: 'SPF by mx', spf: spf('v=spf1 mx -all') },
  {
    title: 'SPF by our address, where we have one alone',
    spf: spf('v=spf1 ip4:192.0.2.25 -all'),
    without: ['AAAA'],
  },
  {
    title: 'SPF at an alias',
    spf: [
      ['acme.test', 'CNAME', 'other.test'],
      ['other.test', 'TXT', 'v=spf1 include:_spf.postroom.example ~all'],
      ['other.test', 'MX', '10 mail.postroom.example'],
    ],
    mx: [],
  },
  {
    title: 'SPF with exactly ten lookups',
    spf: spf(`v=spf1 ${includes(8)} include:_spf.postroom.example -all`),
    more: costly(8),
  },
  {
    title: 'SPF with terms after ours that would be too many',
    spf: spf(`v=spf1 include:_spf.postroom.example ${includes(12)} -all`),
    more: costly(12),
  },
  {
    title: 'SPF of ours that does not exist',
    spf: spf('v=spf1 include:_spf.postroom.example ~all'),
    without: [INCLUDE],
  },
  {
    title: 'SPF without any address of ours in DNS',
    spf: spf('v=spf1 include:_spf.postroom.example ~all'),
    without: [OUR_HOST],
  },
  {
    title: 'SPF without us',
    spf: spf('v=spf1 include:other.spf.test ~all'),
    more: [['other.spf.test', 'TXT', 'v=spf1 ip4:198.51.100.1 -all']],
    expect: {
      spf: [
        'pending',
        /does not let our server 192\.0\.2\.25 send: add include:_spf\.postroom\.example/,
        'v=spf1 include:other.spf.test ~all',
      ],
    },
  },
  {
    title: 'SPF with one of our two addresses',
    spf: spf('v=spf1 ip4:192.0.2.25 -all'),
    expect: { spf: ['pending', /our server 2001:db8::25/] },
  },
  {
    title: 'SPF with us behind all',
    spf: spf('v=spf1 -all include:_spf.postroom.example'),
    expect: { spf: ['pending', /does not let our server/] },
  },
  {
    title: 'SPF with us as neutral',
    spf: spf('v=spf1 ?include:_spf.postroom.example -all'),
    expect: { spf: ['pending', /does not let our server/] },
  },
  {
    title: 'SPF without us, where our addresses are not in DNS',
    spf: spf('v=spf1 ip4:192.0.2.25 ip6:2001:db8::25 -all'),
    without: [OUR_HOST],
    expect: { spf: ['pending', /does not let our servers send/] },
  },
  {
    title: 'SPF that lets everybody send, where our addresses are not in DNS',
    spf: spf('v=spf1 +all'),
    without: [OUR_HOST],
    expect: { spf: ['pending', /does not let our servers send/] },
  },
  {
    title: 'SPF without us, where our addresses could not be asked for',
    spf: spf('v=spf1 ip4:192.0.2.25 ip6:2001:db8::25 -all'),
    faults: (name) => (name === OUR_HOST ? 'servfail' : undefined),
    expect: { spf: ['pending', /could not be asked about mail\.postroom\.example \(SERVFAIL\)/] },
  },
  {
    title: 'SPF with us, where our addresses could not be asked for',
    spf: spf('v=spf1 include:_spf.postroom.example ~all'),
    faults: (name) => (name === OUR_HOST ? 'servfail' : undefined),
  },
  {
    title: 'two SPF records',
    spf: spf('v=spf1 include:_spf.postroom.example ~all', 'v=spf1 -all'),
    expect: { spf: ['pending', /has 2 SPF records/, /^"v=spf1 .+" and "v=spf1 .+"$/] },
  },
  {
    title: 'no SPF',
    spf: spf('google-site-verification=abc'),
    expect: { spf: ['pending', /has no SPF record: add a TXT record v=spf1 include/, 'no record'] },
  },
  {
    title: 'SPF in quotation marks',
    spf: spf('"v=spf1 include:_spf.postroom.example ~all"'),
    expect: {
      spf: ['pending', /quotation marks/, '""v=spf1 include:_spf.postroom.example ~all""'],
    },
  },
  {
    title: 'SPF with a slip in its version',
    spf: spf('v=spf1: include:_spf.postroom.example ~all'),
    expect: { spf: ['pending', /must begin with v=spf1 followed by a space/] },
  },
  {
    title: 'SPF with too many lookups before us',
    spf: spf(`v=spf1 ${includes(10)} include:_spf.postroom.example -all`),
    more: costly(10),
    expect: { spf: ['pending', /more than 10 DNS lookups/] },
  },
  {
    title: 'SPF with too many lookups by those within our include',
    spf: spf(`v=spf1 ${includes(9)} include:_spf.postroom.example -all`),
    more: costly(9),
    expect: { spf: ['pending', /more than 10 DNS lookups/] },
  },
  {
    title: 'SPF with too many void lookups',
    spf: spf('v=spf1 a:x.void.test a:y.void.test a:z.void.test include:_spf.postroom.example -all'),
    expect: { spf: ['pending', /more than 2 names that do not exist/] },
  },
  {
    title: 'SPF with two void lookups',
    spf: spf('v=spf1 a:x.void.test a:y.void.test include:_spf.postroom.example -all'),
  },
  {
    title: 'SPF with an include that has none',
    spf: spf('v=spf1 include:nothing.test include:_spf.postroom.example ~all'),
    expect: { spf: ['pending', /has an error \(no SPF records found for nothing\.test\)/] },
  },
  {
    title: 'SPF with a term that is none',
    spf: spf('v=spf1 ipv4:192.0.2.25 include:_spf.postroom.example ~all'),
    expect: { spf: ['pending', /has an error \(.*ipv4.*\)/] },
  },
  {
    title: 'SPF with an error behind us',
    spf: spf('v=spf1 include:_spf.postroom.example ip4:192.0.2.256 ~all'),
    expect: { spf: ['pending', /has an error \(Invalid "ip4" term\)/] },
  },
  {
    title: 'SPF that includes itself',
    spf: spf('v=spf1 include:acme.test include:_spf.postroom.example ~all'),
    expect: { spf: ['pending', /more than 10 DNS lookups/] },
  },
  {
    title: 'SPF with an include that could not be asked for',
    spf: spf('v=spf1 include:a.spf.test include:_spf.postroom.example ~all'),
    faults: (name) => (name === 'a.spf.test' ? 'servfail' : undefined),
    expect: { spf: ['pending', /could not be asked about a\.spf\.test \(SERVFAIL\)/] },
  },
];

const dmarcCases: Case[] = [
  {
    title: 'DMARC with reject and more',
    dmarc: dmarc('v=DMARC1; p=reject; sp=quarantine; rua=mailto:a@b.test!10m; pct=50; adkim=s'),
  },
  { title: 'DMARC with odd spaces and capitals', dmarc: dmarc('v = DMARC1 ;p = NONE;') },
  { title: 'DMARC with p in another place', dmarc: dmarc('v=DMARC1; rua=mailto:a@b.test; p=none') },
  {
    title: 'DMARC with a part that cannot be read',
    dmarc: dmarc('v=DMARC1; p=none; nonsense; fo=1'),
  },
  {
    title: 'DMARC beside a TXT of something else',
    dmarc: dmarc('v=DMARC1; p=none', 'v=spf1 -all'),
  },
  {
    title: 'DMARC at an alias',
    dmarc: [
      ['_dmarc.acme.test', 'CNAME', 'policy.test'],
      ['policy.test', 'TXT', 'v=DMARC1; p=quarantine'],
    ],
  },
  {
    title: 'DMARC of the organization',
    domain: 'mail.acme.test',
    expect: { dmarc: ['verified', /^acme\.test has a DMARC policy/, 'v=DMARC1; p=none'] },
  },
  {
    title: 'DMARC of the organization behind a wildcard of something else',
    domain: 'mail.acme.test',
    more: [['*.acme.test', 'TXT', 'v=spf1 -all']],
    expect: { dmarc: ['verified', /^acme\.test has/] },
  },
  {
    title: 'DMARC of a domain below another of the same suffix',
    domain: 'a.b.acme.test',
    dmarc: [['_dmarc.b.acme.test', 'TXT', 'v=DMARC1; p=none']],
    expect: { dmarc: ['pending', /no DMARC record at _dmarc\.a\.b\.acme\.test/, 'no record'] },
  },
  {
    title: 'DMARC of the organization that could not be asked for',
    domain: 'mail.acme.test',
    faults: (name) => (name === '_dmarc.acme.test' ? 'refused' : undefined),
    expect: { dmarc: ['pending', /could not be asked about _dmarc\.acme\.test \(REFUSED\)/] },
  },
  {
    title: 'no DMARC',
    dmarc: [],
    expect: { dmarc: ['pending', /no DMARC record at _dmarc\.acme\.test: add/, 'no record'] },
  },
  {
    title: 'two DMARC records',
    dmarc: dmarc('v=DMARC1; p=none', 'v=DMARC1; p=reject'),
    expect: { dmarc: ['pending', /2 DMARC records/, /^"v=DMARC1; p=\w+" and "v=DMARC1; p=\w+"$/] },
  },
  {
    title: 'DMARC without p',
    dmarc: dmarc('v=DMARC1; rua=mailto:a@b.test'),
    expect: { dmarc: ['pending', /has no policy: add p=none/, 'v=DMARC1; rua=mailto:a@b.test'] },
  },
  {
    title: 'DMARC with a p that is none',
    dmarc: dmarc('v=DMARC1; p=monitor'),
    expect: { dmarc: ['pending', /policy p=monitor: write/] },
  },
  {
    title: 'DMARC with an sp that is none',
    dmarc: dmarc('v=DMARC1; p=none; sp=all'),
    expect: { dmarc: ['pending', /sp=all/] },
  },
  {
    title: 'DMARC with p twice',
    dmarc: dmarc('v=DMARC1; p=none; p=reject'),
    expect: { dmarc: ['pending', /tag p= twice/] },
  },
  {
    title: 'DMARC with a slip in its version',
    dmarc: dmarc('v=DMARC 1; p=none'),
    expect: { dmarc: ['pending', /must begin with v=DMARC1/, '"v=DMARC 1; p=none"'] },
  },
  {
    title: 'DMARC in small letters',
    dmarc: dmarc('v=dmarc1; p=none'),
    expect: { dmarc: ['pending', /must begin with v=DMARC1/] },
  },
  {
    title: 'DMARC in quotation marks',
    dmarc: dmarc('"v=DMARC1; p=none"'),
    expect: { dmarc: ['pending', /quotation marks/] },
  },
  {
    title: 'DMARC with the policy before the version',
    dmarc: dmarc('p=none; v=DMARC1'),
    expect: { dmarc: ['pending', /must begin with v=DMARC1/] },
  },
];

const dkimCases: Case[] = [
  {
    title: 'DKIM in strings of 64',
    dkim: (key, name) => [[name, 'TXT', key.txtValue.match(/.{1,64}/g) ?? []]],
  },
  { title: 'DKIM with the key alone', dkim: dkim((p) => `p=${p}`) },
  {
    title: 'DKIM with other spaces and order',
    dkim: dkim((p) => ` v = DKIM1 ;t=s; p=${p} ;\tk=rsa ; `),
  },
  {
    title: 'DKIM with spaces in the key',
    dkim: dkim((p) => `v=DKIM1; k=rsa; p=${p.match(/.{1,50}/g)?.join(' \t')}`),
  },
  {
    title: 'DKIM with h, s and notes',
    dkim: dkim((p) => `v=DKIM1; h=sha1:sha256; s=*; n=our key; x=unknown; p=${p}`),
  },
  { title: 'DKIM for email', dkim: dkim((p) => `v=DKIM1; s=email:tlsrpt; p=${p};`) },
  {
    title: 'DKIM at an alias',
    dkim: (key, name) => [
      [name, 'CNAME', 'keys.provider.test'],
      ['keys.provider.test', 'TXT', key.txtValue],
    ],
  },
  {
    title: 'DKIM with 4 KB of notes',
    dkim: dkim((p) => `v=DKIM1; k=rsa; n=${'x'.repeat(4_000)}; p=${p}`),
    expect: { dkim: ['verified', /published/, /… \(\d+ more characters\)$/] },
  },
  {
    title: 'DKIM as a test',
    dkim: dkim((p) => `v=DKIM1; t=y:s; p=${p}`),
    expect: { dkim: ['verified', /remove t=y/] },
  },
  {
    title: 'no DKIM',
    dkim: () => [],
    expect: { dkim: ['pending', /no TXT record at \w+\._domainkey\.acme\.test: add/, 'no record'] },
  },
  {
    title: 'DKIM at an alias of nothing',
    dkim: (_key, name) => [[name, 'CNAME', 'keys.provider.test']],
    expect: {
      dkim: [
        'pending',
        /is an alias \(CNAME\) of keys\.provider\.test/,
        'CNAME keys.provider.test',
      ],
    },
  },
  {
    title: 'two DKIM records',
    dkim: dkim(
      (p) => `v=DKIM1; k=rsa; p=${p}`,
      () => 'v=DKIM1; k=rsa; p=MIIBIjANBg',
    ),
    expect: {
      dkim: ['pending', /2 TXT records .* where only one/, /^"v=DKIM1; .+" and "v=DKIM1; .+"$/],
    },
  },
  {
    title: 'another DKIM key',
    dkim: dkim((p) => `v=DKIM1; k=rsa; p=${p.replace(/.{8}$/, 'AAAAAAAA')}`),
    expect: { dkim: ['pending', /holds another key/] },
  },
  {
    title: 'a DKIM key that is cut off',
    dkim: dkim((p) => `v=DKIM1; k=rsa; p=${p.slice(0, 237)}`),
    expect: { dkim: ['pending', /cut off after 237 of 392 characters/] },
  },
  {
    title: 'a revoked DKIM key',
    dkim: dkim(() => 'v=DKIM1; k=rsa; p='),
    expect: { dkim: ['pending', /revoked/, 'v=DKIM1; k=rsa; p='] },
  },
  {
    title: 'a DKIM key of another kind',
    dkim: dkim((p) => `v=DKIM1; k=ed25519; p=${p}`),
    expect: { dkim: ['pending', /says k=ed25519/] },
  },
  {
    title: 'DKIM with quotation marks in the key',
    dkim: dkim((p) => `v=DKIM1; k=rsa; p=${p.slice(0, 200)}" "${p.slice(200)}`),
    expect: { dkim: ['pending', /quotation marks/] },
  },
  {
    title: 'DKIM with backslashes',
    dkim: dkim((p) => `v=DKIM1\\; k=rsa\\; p=${p}`),
    expect: { dkim: ['pending', /backslashes/] },
  },
  {
    title: 'DKIM with a tag twice',
    dkim: dkim((p) => `v=DKIM1; p=${p}; p=${p}`),
    expect: { dkim: ['pending', /tag p= twice/] },
  },
  {
    title: 'DKIM with the version at the end',
    dkim: dkim((p) => `k=rsa; p=${p}; v=DKIM1`),
    expect: { dkim: ['pending', /must begin with v=DKIM1/] },
  },
  {
    title: 'DKIM of another version',
    dkim: dkim((p) => `v=DKIM2; p=${p}`),
    expect: { dkim: ['pending', /must begin with v=DKIM1/] },
  },
  {
    title: 'DKIM with a part that is no tag',
    dkim: dkim((p) => `v=DKIM1; rsa; p=${p}`),
    expect: { dkim: ['pending', /a part that is no tag with a value \(rsa\)/] },
  },
  {
    title: 'DKIM for sha1 alone',
    dkim: dkim((p) => `v=DKIM1; h=sha1; p=${p}`),
    expect: { dkim: ['pending', /remove h=/] },
  },
  {
    title: 'DKIM for another service',
    dkim: dkim((p) => `v=DKIM1; s=tlsrpt; p=${p}`),
    expect: { dkim: ['pending', /remove s=/] },
  },
  {
    title: 'a wildcard TXT where the key should be',
    dkim: () => [],
    more: [['*.acme.test', 'TXT', 'v=spf1 -all']],
    expect: { dkim: ['pending', /is no DKIM key/, 'v=spf1 -all'] },
  },
  {
    title: 'bytes that are no text where the key should be',
    dkim: (_key, name) => [[name, 'TXT', 'k\0y = übel\u007f']],
    expect: { dkim: ['pending', /is no DKIM key/, 'k\\000y = übel\\127'] },
  },
];

const unanswered = (reason: string): Partial<Record<Purpose, Expected>> => ({
  mx: ['pending', new RegExp(`could not be asked about acme\\.test \\(${reason}\\)`)],
  spf: ['pending', new RegExp(`could not be asked about acme\\.test \\(${reason}\\)`)],
  dmarc: ['pending', new RegExp(`could not be asked about _dmarc\\.acme\\.test \\(${reason}\\)`)],
  dkim: [
    'pending',
    new RegExp(`could not be asked about \\w+\\._domainkey\\.acme\\.test \\(${reason}\\)`),
  ],
});

const wholeCases: Case[] = [
  { title: 'everything as it was asked for' },
  {
    title: 'an IDN',
    domain: 'xn--bcher-kva.test',
    expect: { mx: ['verified', /^Mail for xn--bcher-kva\.test comes/] },
  },
  { title: 'SERVFAIL', faults: () => 'servfail', expect: unanswered('SERVFAIL') },
  { title: 'REFUSED', faults: () => 'refused', expect: unanswered('REFUSED') },
  { title: 'garbage', faults: () => 'garbage', expect: unanswered('malformed answer') },
  { title: 'forged ids', faults: () => 'forged_first' },
  {
    title: 'one record that could not be asked for',
    faults: (_name, type) => (type === 'MX' ? 'servfail' : undefined),
    expect: { mx: ['pending', /SERVFAIL/] },
  },
  {
    title: 'a TXT answer that dies midway',
    faults: (name, type) => (name === 'acme.test' && type === 'TXT' ? 'dies_midway' : undefined),
    expect: { spf: ['pending', /could not be asked about acme\.test \(connection ended\)/] },
  },
];

const details: Record<Purpose, RegExp> = {
  mx: /^Mail for acme\.test comes to mail\.postroom\.example\.$/,
  spf: /^The SPF record lets our servers send\.$/,
  dmarc: /^\S+ has a DMARC policy\.$/,
  dkim: /^The DKIM key is published\.$/,
};

function publish(one: Case, key: NewDkimKey): ZoneRecord[] {
  const domain = one.domain ?? 'acme.test';
  const policyDomain = domain.endsWith('acme.test') ? 'acme.test' : domain;
  const selector = `${key.selector}._domainkey.${domain}`;
  const good = (name: string, type: 'MX' | 'TXT', data: string): ZoneRecord[] => [
    [name, type, data],
  ];
  const records = [
    ...ours,
    ...(one.mx ?? good(domain, 'MX', `10 ${OUR_HOST}`)),
    ...(one.spf ?? good(domain, 'TXT', `v=spf1 include:${INCLUDE} ~all`)),
    ...(one.dmarc ?? good(`_dmarc.${policyDomain}`, 'TXT', 'v=DMARC1; p=none')),
    ...(one.dkim?.(key, selector) ?? good(selector, 'TXT', key.txtValue)),
    ...(one.more ?? []),
  ];
  const left = one.without ?? [];
  return records.filter(([name, type]) => !left.includes(name) && !left.includes(type));
}

suite('zone variants', () => {
  let server: DnsServer;
  let dns: DnsResolver;
  let key: NewDkimKey;
  before(async () => {
    server = await startDnsServer();
    dns = new DnsResolver({
      servers: [server.address],
      timeouts: { first: 10_000, later: 10_000 },
    });
    key = await generateDkimKey({ userId: 'demo', organizationId: undefined });
  });

  for (const one of [...wholeCases, ...mxCases, ...spfCases, ...dmarcCases, ...dkimCases]) {
    test(one.title, async () => {
      server.publish(publish(one, key));
      server.faults = one.faults ?? (() => undefined);
      const domain = one.domain ?? 'acme.test';
      const records = seedRecords(1, {
        mailHostname: OUR_HOST,
        spfInclude: INCLUDE,
        dkim: key,
      }).map((row, id) => ({
        id,
        purpose: row.purpose,
        host: row.host,
        expectedValue: row.expected_value,
      }));
      const findOurs = createOurServers(dns, OUR_HOST, () => 0);
      const verdicts = await checkZone(dns, domain, records, findOurs);
      for (const { id, purpose } of records) {
        const verdict = verdicts.get(id);
        assert.ok(verdict);
        const [status, detail, observed] = one.expect?.[purpose] ?? [
          'verified',
          one.domain ? /./ : details[purpose],
        ];
        const fresh = { status: 'pending', misses: 0, failingSince: undefined } as const;
        const claim = { status: 'pending', pendingSince: 0 } as const;
        const told = `${purpose}: ${JSON.stringify(verdict)}`;
        assert.equal(settleRecord(fresh, verdict, claim, 0).status, status, told);
        assert.match(verdict.detail, detail, told);
        assert.match(verdict.detail, /^[^\n]{10,400}\.$/, told);
        if (verdict.outcome === 'unknown') {
          assert.match(verdict.detail, /nothing was changed/);
          continue;
        }
        assert.ok(verdict.observed.length > 0 && verdict.observed.length <= 4_096, told);
        if (observed === undefined) continue;
        if (typeof observed === 'string') assert.equal(verdict.observed, observed);
        else assert.match(verdict.observed, observed);
      }
    });
  }

  test('there are at least sixty of them', () => {
    const cases = [...wholeCases, ...mxCases, ...spfCases, ...dmarcCases, ...dkimCases];
    assert.ok(cases.length >= 60);
    assert.equal(new Set(cases.map(({ title }) => title)).size, cases.length);
  });
});
