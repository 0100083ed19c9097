import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { DnsRecord } from './dns-records.ts';
import { generateDkimKey, writeZone } from './dns-records.ts';

const txt = (host: string, expectedValue: string): DnsRecord => ({
  id: 1,
  purpose: 'spf',
  recordType: 'TXT',
  host,
  expectedValue,
  status: 'pending',
  misses: 0,
  marked: false,
});

test('records are lines with absolute names', () => {
  const mx: DnsRecord = {
    ...txt('@', 'mail.postroom.example'),
    purpose: 'mx',
    recordType: 'MX',
    priority: 10,
  };
  assert.equal(
    writeZone('acme.test', [mx, txt('@', 'v=spf1 ~all'), txt('_dmarc', 'v=DMARC1; p=none')]),
    [
      '; What acme.test needs for its mail',
      'acme.test.\t3600\tIN\tMX\t10 mail.postroom.example.',
      'acme.test.\t3600\tIN\tTXT\t"v=spf1 ~all"',
      '_dmarc.acme.test.\t3600\tIN\tTXT\t"v=DMARC1; p=none"',
      '',
    ].join('\n'),
  );
});

const texts = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 2_000 }),
  fc.nat(2_000).map((length) => 'x'.repeat(length)),
);

test('any text is written in strings of at most 255 octets with the same content', () => {
  fc.assert(
    fc.property(texts, (text) => {
      const line = writeZone('acme.test', [txt('@', text)]).split('\n')[1] ?? '';
      const strings = [...line.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, body = '']) =>
        Buffer.from(
          body.replace(/\\(\d{3})|\\(.)/g, (_all, code?: string, char?: string) =>
            code ? String.fromCharCode(Number(code)) : (char ?? ''),
          ),
          'latin1',
        ),
      );
      assert.equal(line, `acme.test.\t3600\tIN\tTXT\t${line.slice(line.indexOf('"'))}`);
      assert.match(line, /^[\x20-\x7e\t]*$/);
      assert.ok(strings.every(({ length }) => length <= 255));
      assert.equal(Buffer.concat(strings).toString(), text);
    }),
  );
});

test('keys are made for one user after the other, and for one organization after the other', async () => {
  const made: string[] = [];
  const make = (userId: string, organizationId?: string) =>
    generateDkimKey({ userId, organizationId }).then(() => made.push(userId));
  const asked = [
    ...['flood', 'flood', 'flood', 'other'].map((userId) => make(userId)),
    ...['first', 'second', 'third'].map((userId) => make(userId, 'org')),
    make('last'),
  ];
  await Promise.all(asked);
  assert.deepEqual(made.slice(0, 4).sort(), ['first', 'flood', 'last', 'other']);
});
