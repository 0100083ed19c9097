import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { test } from 'node:test';
import { makeSelfSigned } from './self-signed.ts';

test('a self-signed certificate carries dates before and after 2050, which are written differently', async () => {
  const validFrom = new Date('2049-12-31T23:59:59Z');
  const validTo = new Date('2059-12-29T23:59:59Z');
  const { cert, key } = await makeSelfSigned({ hostname: 'mx.example.com', validFrom, validTo });
  const read = new X509Certificate(cert);
  assert.deepEqual([read.validFromDate, read.validToDate], [validFrom, validTo]);
  assert.match(key, /^-----BEGIN PRIVATE KEY-----\n/);
  assert.equal(read.verify(read.publicKey), true);
  assert.equal(read.ca, false);
  assert.deepEqual(read.keyUsage, ['1.3.6.1.5.5.7.3.1']);
});
