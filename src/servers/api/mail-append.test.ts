/** A message in a request whose client leaves. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { readMessage } from './mail-append.ts';

test('a client that left before its message was read causes no internal error', async () => {
  const body = new Readable({ read() {} });
  body.destroy();
  await once(body, 'close');
  await assert.rejects(Array.fromAsync(readMessage(body, 100)), {
    code: 'invalid_request',
    message: 'the body ended too early',
  });
});
