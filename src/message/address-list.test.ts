import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_MAILBOXES, readAddressList } from './address-list.ts';

test('a control character within a comment makes a list inexact', () => {
  assert.equal(readAddressList('a@good.test (comment)').isExact, true);
  for (const control of ['\x00', '\x01', '\x0b', '\r', '\x1b', '\x7f']) {
    const list = readAddressList(`a@evil.test (${control} <ceo@bank.test>)`);
    assert.equal(list.isExact, false, JSON.stringify(control));
    assert.equal(list.mailboxes[0]?.address, 'a@evil.test');
  }
});

test('no more of a list is read than is kept', () => {
  const one = readAddressList('a@b.test, '.repeat(MAX_MAILBOXES - 1));
  assert.equal(one.isExact, true);
  const many = readAddressList('a@b.test, '.repeat(5 * MAX_MAILBOXES));
  assert.equal(many.mailboxes.length, MAX_MAILBOXES);
  assert.equal(many.isExact, false);
  assert.equal(readAddressList(`a@b.test (${'x'.repeat(200_000)})`).isExact, false);
});
