import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { imapDate, imapDateTime, readDate, readDateTime } from './imap-syntax.ts';

test('a date is the begin of its day in UTC, and is written as it was read', () => {
  // Programs that mean "ever" write the first and the last day that they know.
  for (const text of [
    ...['1-Jan-1970', '29-Feb-2020', '31-Dec-2026', '29-Feb-2000'],
    ...['1-Jan-0000', '1-Jan-0001', '1-Mar-0099', '31-Dec-9999'],
  ]) {
    const at = readDate(text);
    assert.ok(at !== undefined && at % 86_400_000 === 0, text);
    assert.equal(imapDate(at), text);
  }
  assert.equal(readDate('01-fEB-1994'), Date.UTC(1994, 1, 1));
});

test('a date and time is read with its zone', () => {
  const at = Date.UTC(1996, 6, 17, 9, 44, 25);
  assert.equal(readDateTime('17-Jul-1996 02:44:25 -0700'), at);
  assert.equal(readDateTime(imapDateTime(at)), at);
  // The day is that of its zone: in UTC it is the day before.
  assert.equal(readDateTime(' 1-Mar-2020 00:30:00 +0100'), Date.UTC(2020, 1, 29, 23, 30));
});

test('a day that its month does not have is no date', () => {
  for (const day of [
    '30-Feb-2020',
    '29-Feb-2021',
    '31-Apr-2020',
    '0-Jan-2020',
    '32-Jan-2020',
    '29-Feb-1900',
    '29-Feb-0001',
  ]) {
    assert.equal(readDate(day), undefined, day);
    assert.equal(readDateTime(`${day} 10:00:00 +0000`), undefined, day);
  }
  for (const text of ['', '1-Feb-94', '1 Feb 1994', '1-Feb-1994 10:00:00 +0000', '1-Fob-1994']) {
    assert.equal(readDate(text), undefined, text);
  }
  for (const time of ['25:00:00 +0000', '10:60:00 +0000', '10:00:61 +0000', '10:00:00 +0060']) {
    assert.equal(readDateTime(`1-Feb-1994 ${time}`), undefined, time);
  }
});

test('a leap second is the second before it', () => {
  assert.equal(readDateTime('31-Dec-2016 23:59:60 +0000'), Date.UTC(2016, 11, 31, 23, 59, 59));
});

test('a year has four digits, also in UTC', () => {
  const [first, last] = [' 1-Jan-0000 00:00:00 +0000', '31-Dec-9999 23:59:59 +0000'];
  assert.equal(imapDateTime(readDateTime('31-Dec-9999 23:00:00 -0200') ?? Number.NaN), last);
  assert.equal(imapDateTime(readDateTime('1-Jan-0000 01:00:00 +0200') ?? Number.NaN), first);
  assert.equal(imapDateTime(Date.UTC(10_000, 0, 2)), last);
  assert.equal(imapDate(Date.UTC(10_000, 0, 2)), '31-Dec-9999');
  assert.equal(imapDate(Date.UTC(-1, 0, 2)), '1-Jan-0000');
});

test('every instant is read back as it was written, in any zone of the machine', () => {
  const anyDate = fc.date({ min: new Date(-62_167_219_200_000), noInvalidDate: true });
  const zones = fc.constantFrom('UTC', 'Europe/Berlin', 'Asia/Kathmandu', 'Pacific/Kiritimati');
  const { TZ } = process.env;
  const written = fc.property(anyDate, zones, (date, zone) => {
    process.env.TZ = zone;
    date.setUTCMilliseconds(0);
    const at = Math.min(date.getTime(), Date.UTC(9999, 11, 31, 23, 59, 59));
    assert.equal(readDateTime(imapDateTime(at)), at);
    assert.equal(readDate(imapDate(at)), Math.floor(at / 86_400_000) * 86_400_000);
  });
  try {
    fc.assert(written);
  } finally {
    if (TZ === undefined) delete process.env.TZ;
    else process.env.TZ = TZ;
  }
});
