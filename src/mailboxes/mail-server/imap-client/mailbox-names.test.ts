import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../../test/support/any-character.ts';
import { decodeMailboxName, encodeMailboxName } from './wire.ts';

void suite('mailbox names', () => {
  void test('are modified UTF-7 on the wire (RFC 3501 section 5.1.3)', () => {
    const pairs = [
      ['INBOX', 'INBOX'],
      ['~peter/mail/台北/日本語', '~peter/mail/&U,BTFw-/&ZeVnLIqe-'],
      ['Entwürfe', 'Entw&APw-rfe'],
      ['A & B', 'A &- B'],
      ['\u{1f4e7}', '&2D3c5w-'],
    ] as const;
    for (const [name, wire] of pairs) {
      assert.equal(encodeMailboxName(name), wire);
      assert.equal(decodeMailboxName(wire), name);
    }
  });

  void test('come back as they were, and hold nothing that ends a command', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter }), (name) => {
        const wire = encodeMailboxName(name);
        assert.match(wire, /^[\x20-\x7e]*$/);
        assert.equal(decodeMailboxName(wire), name);
      }),
    );
  });

  void test('that are not well formed stay as they are', () => {
    for (const wire of ['&', '&U-', 'a&b', '&Jjo', '&AGE-']) {
      assert.equal(decodeMailboxName(wire), wire);
    }
  });
});
