import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../test/support/any-character.ts';
import { decodeMailboxName, encodeMailboxName } from './imap-syntax.ts';

test('names are written as the RFC does it', () => {
  assert.equal(encodeMailboxName('\u{1f4e7}'), '&2D3c5w-');
  assert.equal(encodeMailboxName('~peter/mail/台北/日本語'), '~peter/mail/&U,BTFw-/&ZeVnLIqe-');
  assert.equal(encodeMailboxName('R&D'), 'R&-D');
  assert.equal(decodeMailboxName('R&-D'), 'R&D');
  assert.equal(decodeMailboxName('&ZeVnLIqe-'), '日本語');
});

test('what no server could have written stays as it is', () => {
  for (const text of ['R&D', '&AA-x', '&ZeVnLIqe', '&2D3-', '&,,-', 'Grüße']) {
    assert.equal(decodeMailboxName(text), text, text);
  }
});

test('every name is read back', () => {
  const unit = anyCharacter.filter((character) => character !== '\0');
  const name = fc.string({ unit, maxLength: 40 });
  fc.assert(fc.property(name, (text) => decodeMailboxName(encodeMailboxName(text)) === text));
  fc.assert(fc.property(name, (text) => /^[ -~]*$/.test(encodeMailboxName(text))));
});
