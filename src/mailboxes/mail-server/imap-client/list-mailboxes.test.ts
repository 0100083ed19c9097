import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readName } from './list-mailboxes.ts';

test('names that are not well formed stay as they are', () => {
  assert.equal(readName('&ZeVnLIqe-'), '日本語');
  for (const name of ['&', '&U-', 'a&b', '&Jjo', '&AGE-', '&AAA-'])
    assert.equal(readName(name), name);
});
