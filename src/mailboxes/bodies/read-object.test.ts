/** What the answers of an S3 server say of an object. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type OutgoingHttpHeaders } from 'node:http';
import { type AddressInfo, createServer as createNetServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { type TestContext, test } from 'node:test';
import type { GetObjectCommandOutput } from '@aws-sdk/client-s3';
import { BodyBucket } from './body-bucket.ts';
import { BodyLost, StoreUnavailable } from './body-store.ts';
import { readObject } from './read-object.ts';

async function read(answer: object): Promise<string> {
  const Body = Readable.from([Buffer.from('abc')]);
  const open = async () => ({ Body, ...answer }) as unknown as GetObjectCommandOutput;
  const source = { name: 'an object', open, deadlineMs: 1_000, attempts: 1 };
  const pieces: Uint8Array[] = [];
  for await (const piece of readObject(source, { start: 0, end: 3, size: 3 })) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

test('an answer of another length is of a lost object, and one without a length of none', async () => {
  assert.equal(await read({ ContentLength: 3 }), 'abc');
  await assert.rejects(read({ ContentLength: 4 }), BodyLost);
  await assert.rejects(read({}), StoreUnavailable);
});

/** A bucket behind something that gives the same answer to every request. */
async function bucketBehind(
  t: TestContext,
  status: number,
  headers: OutgoingHttpHeaders,
  text: string,
  scheme = 'http',
): Promise<BodyBucket> {
  const server = createServer((request, response) => {
    request.resume();
    request.once('end', () => response.writeHead(status, headers).end(text));
  });
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return bucketAt(t, await portOf(server), scheme);
}

async function portOf(server: Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}

async function bucketAt(t: TestContext, port: number, scheme = 'http'): Promise<BodyBucket> {
  const folder = await mkdtemp(join(tmpdir(), 'postroom-bucket-'));
  const bucket = new BodyBucket({
    endpoint: `${scheme}://127.0.0.1:${port}`,
    bucket: 'mail',
    region: 'us-east-1',
    accessKeyId: 'key',
    secretAccessKey: 'secret',
    spool: join(folder, 'spool'),
  });
  t.after(async () => {
    bucket.close();
    await rm(folder, { recursive: true });
  });
  return bucket;
}

async function put(bucket: BodyBucket): Promise<void> {
  const body = await bucket.create();
  try {
    await body.write(Buffer.alloc(100_000, 'a'));
    await body.finish();
  } finally {
    await body.abandon();
  }
}

const PAGE = '<html><head><title>Sorry</title></head><body>We are down.</body></html>';
const NAME = 'aa/aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa';

for (const status of [200, 404]) {
  test(`a page of HTML with status ${status} is an answer to nothing`, async (t) => {
    const bucket = await bucketBehind(t, status, { 'content-type': 'text/html' }, PAGE);
    const whole = { start: 0, end: 3, size: 3, reuse: false };
    const requests: Record<string, () => Promise<unknown>> = {
      put: () => put(bucket),
      readNote: () => bucket.readNote('store-id'),
      read: () => bucket.read(NAME, whole).next(),
      age: () => bucket.age(NAME, 0),
      list: () => bucket.list().next(),
      restore: () => bucket.restore(NAME),
      remove: () => bucket.remove([NAME]),
    };
    for (const [name, request] of Object.entries(requests)) {
      const answer = await request().then(String, (error: unknown) => error);
      assert.ok(answer instanceof StoreUnavailable, `${name}: ${answer}`);
      assert.match(answer.message, /^\S+\/mail answered with a page of HTML/);
    }
  });
}

test('an object counts as put where the answer names it, as every S3 server does', async (t) => {
  await put(await bucketBehind(t, 200, { etag: '"1"' }, ''));
  await assert.rejects(put(await bucketBehind(t, 200, {}, '')), StoreUnavailable);
});

test('a server that speaks another protocol refuses, and is told', async (t) => {
  const server = createNetServer((socket) => socket.on('error', () => {}).end('220 mail.test\r\n'));
  t.after(() => server.close());
  const bucket = await bucketAt(t, await portOf(server));
  await assert.rejects(bucket.readNote('store-id'), (error) => {
    assert.ok(error instanceof StoreUnavailable);
    assert.match(error.message, /\/mail is no S3 server, or does its URL begin with https:\?$/);
    return error.isRefusal;
  });
});

test('a server without TLS behind an https URL refuses, and is told', async (t) => {
  const bucket = await bucketBehind(t, 200, {}, '', 'https');
  await assert.rejects(bucket.readNote('store-id'), (error) => {
    assert.ok(error instanceof StoreUnavailable);
    assert.match(
      error.message,
      /^https:\S+\/mail answered without TLS: does its URL begin with http:\?$/,
    );
    return error.isRefusal;
  });
});
