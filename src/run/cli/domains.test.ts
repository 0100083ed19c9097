import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeDomain } from './domains.ts';

const dkim = {
  purpose: 'dkim',
  record_type: 'TXT',
  host: 'pr1._domainkey',
  expected_value: 'v=DKIM1; p=AAAA',
  status: 'verified',
  misses: 0,
  detail: 'The DKIM key is published.',
} as const;

test('each record says what to publish and what was seen', () => {
  const mx = {
    ...dkim,
    purpose: 'mx',
    record_type: 'MX',
    host: '@',
    priority: 10,
    expected_value: 'mail.example.com',
    observed_value: '5 mx.other.net',
    status: 'failed',
    misses: 4,
    failing_since: '2026-01-31T12:00:00.000Z',
    detail: 'Mail goes to mx.other.net.',
  } as const;
  assert.equal(
    describeDomain({
      domain: 'acme.test',
      can_send: true,
      records_failed: ['mx', 'spf'],
      records_missing: [],
      dns: [mx, dkim],
      records: [mx, dkim],
    }),
    `domain           acme.test
can_send         true
records_failed   mx, spf
records_missing  -

MX: failed, since 2026-01-31T12:00:00.000Z
  publish  acme.test  MX  10 mail.example.com
  seen     5 mx.other.net
  Mail goes to mx.other.net.

DKIM: verified
  publish  pr1._domainkey.acme.test  TXT  "v=DKIM1; p=AAAA"
  The DKIM key is published.`,
  );
});

test('a verified record that is gone is missing now, and nothing of it reaches the terminal as it is', () => {
  const gone = {
    ...dkim,
    misses: 1,
    failing_since: '2026-01-31T12:00:00.000Z',
    observed_value: 'a\u001b[2Jb\u202e',
    detail: 'Missing now.',
  };
  const next = { ...dkim, key_state: 'next', status: 'pending' } as const;
  const old = { ...dkim, key_state: 'old' } as const;
  const text = describeDomain({ domain: 'acme.test', dns: [gone, next, old] });
  assert.match(text, /^DKIM: missing now, since 2026-01-31T12:00:00\.000Z$/m);
  assert.match(text, /^ {2}seen {5}a\?\[2Jb\?$/m);
  assert.match(text, /^DKIM: pending \(next key\)$/m);
  assert.match(text, /^DKIM: old key, which signs no more$/m);
  assert.doesNotMatch(text, /^DKIM: verified/m);
});
