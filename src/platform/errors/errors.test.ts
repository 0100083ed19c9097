import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Refusal, readInstant } from './errors.ts';

suite('a point in time in a request', () => {
  for (const [written, instant] of [
    ['2026-01-31T12:00:00Z', '2026-01-31T12:00:00.000Z'],
    ['2026-01-31t12:00:00.5z', '2026-01-31T12:00:00.500Z'],
    ['2028-02-29T00:30:00+01:00', '2028-02-28T23:30:00.000Z'],
    ['2026-12-31T23:59:59-12:00', '2027-01-01T11:59:59.000Z'],
  ] as const) {
    test(`${written} is read`, () => {
      assert.equal(new Date(readInstant('at', written)).toISOString(), instant);
    });
  }

  test('a date is its midnight in UTC, where dates are accepted', () => {
    assert.equal(readInstant('since', '2026-01-31', true), Date.UTC(2026, 0, 31));
    assert.throws(() => readInstant('sendAt', '2026-01-31'), Refusal);
  });

  for (const written of [
    '',
    'tomorrow',
    '2026-02-29',
    '2026-02-30',
    '2026-04-31',
    '2026-13-01',
    '2026-00-10',
    '2026-01-00',
    '2026-1-1',
    '2026-02-30T00:00:00Z',
    '2026-01-31T24:00:00Z',
    '2026-01-31T25:00:00Z',
    '2026-01-31T12:60:00Z',
    '2026-01-31T12:00:60Z',
    '2026-01-31T12:00:00+24:00',
    '2026-01-31T12:00:00',
    '2026-01-31T12:00Z',
    ' 2026-01-31',
    '2026-01-31\n',
    '9999-12-31T23:59:59-00:01',
    '0000-01-01T00:00:00+00:01',
  ]) {
    test(`${JSON.stringify(written)} is refused by the name of its field`, () => {
      assert.throws(
        () => readInstant('since', written, true),
        ({ code, errors }: Refusal) => code === 'invalid_request' && errors?.[0]?.field === 'since',
      );
    });
  }
});
