/** What the answers of an S3 server say of an object. */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import type { GetObjectCommandOutput } from '@aws-sdk/client-s3';
import { BodyLost, StoreUnavailable } from './body-store.ts';
import { readObject } from './read-object.ts';

async function read(answer: object): Promise<string> {
  const Body = Readable.from([Buffer.from('abc')]);
  const open = async () => ({ Body, ...answer }) as unknown as GetObjectCommandOutput;
  const source = { name: 'an object', open, deadlineMs: 1_000, attempts: 1 };
  const pieces: Uint8Array[] = [];
  for await (const piece of readObject(source, { start: 0, end: 3, size: 3, reuse: false }))
    pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

test('an answer of another length is of a lost object, and one without a length of none', async () => {
  assert.equal(await read({ ContentLength: 3 }), 'abc');
  await assert.rejects(read({ ContentLength: 4 }), BodyLost);
  await assert.rejects(read({}), StoreUnavailable);
});
