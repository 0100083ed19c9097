import assert from 'node:assert/strict';
import { test } from 'node:test';
import { imapDate, imapDateTime, readDate, readDateTime } from './imap-syntax.ts';

test('a date is the begin of its day in UTC, and is written as it was read', () => {
  for (const text of ['1-Jan-1970', '29-Feb-2020', '31-Dec-2026']) {
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
    '1-Jan-0001',
  ]) {
    assert.equal(readDate(day), undefined, day);
    assert.equal(readDateTime(`${day} 10:00:00 +0000`), undefined, day);
  }
  for (const text of ['', '1-Feb-94', '1 Feb 1994', '1-Feb-1994 10:00:00 +0000', '1-Fob-1994']) {
    assert.equal(readDate(text), undefined, text);
  }
  assert.equal(readDateTime('1-Feb-1994 25:00:00 +0000'), undefined);
});
