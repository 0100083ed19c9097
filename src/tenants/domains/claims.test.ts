import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type ClaimStanding, changesOf } from './claims.ts';
import type { DnsRecordStatus } from './dns-records.ts';

suite('claims on one name', () => {
  const DAY = 24 * 60 * 60 * 1_000;

  function claim(
    id: number,
    status: 'pending' | 'active',
    [mx, spf, dmarc, dkim]: readonly DnsRecordStatus[],
    failing: { mx?: number; dkim?: number } = {},
  ): ClaimStanding {
    const record = (
      purpose: 'mx' | 'spf' | 'dmarc' | 'dkim',
      one: DnsRecordStatus = 'verified',
      failingSince: number | null = null,
    ) => ({ purpose, status: one, failingSince });
    return {
      id,
      userId: `u${id}`,
      status,
      records: [
        record('mx', mx, failing.mx ?? null),
        record('spf', spf),
        record('dmarc', dmarc),
        record('dkim', dkim, failing.dkim ?? null),
      ],
    };
  }
  const good: DnsRecordStatus[] = ['verified', 'verified', 'verified', 'verified'];
  const bad: DnsRecordStatus[] = ['failed', 'failed', 'failed', 'failed'];
  const told = (claims: readonly ClaimStanding[], now = 0) =>
    changesOf('acme.test', claims, now).map((one) => `${one.id}: ${one.old} -> ${one.new}`);

  test('a pending one becomes active when every record is verified or waived', () => {
    const statuses: DnsRecordStatus[] = ['pending', 'verified', 'failed', 'disabled'];
    for (const a of statuses) {
      for (const b of statuses) {
        for (const c of statuses) {
          for (const d of statuses) {
            const records = [a, b, c, d];
            const isComplete = records.every((one) => one === 'verified' || one === 'disabled');
            const expected = isComplete ? ['1: pending -> active'] : [];
            assert.deepEqual(told([claim(1, 'pending', records)]), expected, records.join());
            assert.deepEqual(
              told([claim(1, 'pending', records), claim(2, 'active', good)]),
              [],
              'a rival is active',
            );
          }
        }
      }
    }
  });

  test('the oldest complete claim becomes active, and no other', () => {
    assert.deepEqual(
      told([claim(1, 'pending', bad), claim(2, 'pending', good), claim(3, 'pending', good)]),
      ['2: pending -> active'],
    );
    assert.deepEqual(told([claim(1, 'pending', good), claim(2, 'active', good)]), []);
    assert.deepEqual(told([]), []);
  });

  test('an active one stays active for less than 14 days, whatever failed', () => {
    const failing = { mx: 0, dkim: DAY };
    const claims = [claim(1, 'active', bad, failing), claim(2, 'pending', ['verified'])];
    const alone = claims.slice(0, 1);
    assert.deepEqual(told(alone, 15 * DAY - 1), []);
    assert.deepEqual(told(alone, 15 * DAY), ['1: active -> pending']);
    assert.match(changesOf('acme.test', alone, 15 * DAY)[0]?.reason ?? '', /14 days/);
  });

  test('an active one stays active for good while DKIM or MX has not failed', () => {
    const failing = { mx: 0, dkim: 0 };
    for (const records of [
      ['verified', 'failed', 'failed', 'failed'],
      ['failed', 'failed', 'failed', 'verified'],
      ['failed', 'failed', 'failed', 'disabled'],
      ['pending', 'failed', 'failed', 'failed'],
    ] satisfies DnsRecordStatus[][]) {
      assert.deepEqual(told([claim(1, 'active', records, failing)], 1_000 * DAY), []);
    }
  });

  test('an active one without its key is replaced by one whose key is published', () => {
    const active = claim(2, 'active', ['verified', 'verified', 'verified', 'failed']);
    const half = claim(1, 'pending', ['pending', 'pending', 'pending', 'verified']);
    const whole = claim(3, 'pending', good);
    assert.deepEqual(told([half, active]), ['2: active -> pending']);
    assert.deepEqual(told([active, whole]), ['2: active -> pending', '3: pending -> active']);
    assert.deepEqual(
      told([claim(1, 'pending', ['verified', 'verified', 'verified', 'pending']), active]),
      [],
    );
    assert.deepEqual(
      told([half, claim(2, 'active', ['failed', 'failed', 'failed', 'verified'])]),
      [],
    );
    assert.match(changesOf('acme.test', [half, active], 0)[0]?.reason ?? '', /another claim/);
  });
});
