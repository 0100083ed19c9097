/** Answers are compressed for clients that accept it, and are read unchanged. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { before, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import zlib, {
  type BrotliOptions,
  brotliDecompressSync,
  type CompressCallback,
  gunzipSync,
} from 'node:zlib';
import { type RunningApi, startApi } from '../../../test/support/api/start-api.ts';

const items = Array.from({ length: 400 }, (_, id) => ({ id, subject: `Grüße ${id}` }));
const json = JSON.stringify({ items });
/** Begins like a gzip file: data that looks compressed must not be sent as compressed. */
const source = Buffer.concat([Buffer.from([0x1f, 0x8b, 8]), Buffer.from('a line\r\n'.repeat(500))]);

const again = Buffer.from(json);

function* pieces() {
  yield json.slice(0, 3_000);
  yield json.slice(3_000);
}

const LONG = 600 * 1024;

function* endless() {
  for (;;) yield randomBytes(64 * 1024);
}

function* broken() {
  yield json;
  throw new Error('the disk is gone');
}

let api: RunningApi;

before(async () => {
  const corsOrigins = ['https://app.example.com'];
  api = await startApi('sqlite', {
    corsOrigins,
    routes: [
      (app) => {
        app.get('/whole', () => ({ items }));
        app.get('/short', () => ({ items: items.slice(0, 3) }));
        app.get('/secret', { config: { compress: false } }, () => ({ items }));
        app.get('/tagged', (_request, reply) => reply.header('etag', '"1"').send({ items }));
        app.get('/pieces', (_request, reply) => {
          reply.type('application/json; charset=utf-8').header('content-length', 1);
          return reply.send(Readable.from(pieces(), { objectMode: false }));
        });
        app.get('/broken', (_request, reply) => {
          reply.type('application/json');
          return reply.send(Readable.from(broken(), { objectMode: false }));
        });
        app.get('/source', (_request, reply) => reply.type('message/rfc822').send(source));
        app.get('/long', (_request, reply) => reply.type('text/plain').send('x'.repeat(LONG)));
        app.get('/endless', (_request, reply) => {
          reply.type('text/plain');
          return reply.send(Readable.from(endless(), { objectMode: false }));
        });
        app.get('/again', (_request, reply) => reply.type('application/json').send(again));
        app.get('/attachment', (_request, reply) =>
          reply.type('application/octet-stream').send(Buffer.from(json)),
        );
        app.get('/unwritable', (_request, reply) =>
          reply.header('x-broken', 'a\nb').send({ items }),
        );
        app.get('/range', (_request, reply) =>
          reply
            .code(206)
            .header('content-range', 'bytes 0-1999/9999')
            .type('text/plain')
            .send('x'.repeat(2_000)),
        );
      },
    ],
  });
});

/** As `node:http` gets it, without decoding. */
async function ask(path: string, encodings?: string, more: Record<string, string> = {}) {
  const headers = { ...(encodings !== undefined && { 'accept-encoding': encodings }), ...more };
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request(api.url + path, { headers })
      .on('response', resolve)
      .on('error', reject)
      .end();
  });
  return { status: answer.statusCode, headers: answer.headers, body: await buffer(answer) };
}

test('a client gets its preferred coding of those it accepts', async () => {
  for (const [accepted, coding] of [
    ['gzip, deflate, br, zstd', 'br'],
    ['br', 'br'],
    ['gzip', 'gzip'],
    ['br;q=0.5, gzip', 'gzip'],
    ['br;q=0, gzip;q=0.1', 'gzip'],
  ] as const) {
    const { headers, body } = await ask('/whole', accepted);
    assert.equal(headers['content-encoding'], coding, accepted);
    assert.equal(headers['content-length'], String(body.length));
    assert.equal(headers.vary, 'Origin, accept-encoding', 'beside what CORS says');
    const plain = coding === 'br' ? brotliDecompressSync(body) : gunzipSync(body);
    assert.equal(plain.toString(), json);
    assert.ok(body.length < json.length / 3);
  }
});

test('others get it uncompressed', async () => {
  for (const accepted of [undefined, '', 'identity', 'deflate', 'br;q=0', 'gzip;q=0, br;q=0']) {
    const { headers, body } = await ask('/whole', accepted);
    assert.equal(headers['content-encoding'], undefined, String(accepted));
    assert.equal(headers['content-length'], String(Buffer.byteLength(json)));
    assert.equal(body.toString(), json);
  }
});

test('short answers, secrets, ranges and attachments are not compressed', async () => {
  for (const path of ['/short', '/secret', '/range', '/attachment']) {
    const { headers, body } = await ask(path, 'br, gzip');
    assert.equal(headers['content-encoding'], undefined, path);
    assert.equal(headers['content-length'], String(body.length), path);
  }
});

test('a stream is compressed on its way, whatever it begins with', async () => {
  for (const coding of ['br', 'gzip'] as const) {
    const decode = coding === 'br' ? brotliDecompressSync : gunzipSync;
    const streamed = await ask('/pieces', coding);
    assert.equal(streamed.headers['content-encoding'], coding);
    assert.equal(streamed.headers['content-length'], undefined);
    assert.equal(decode(streamed.body).toString(), json);
    assert.deepEqual(decode((await ask('/source', coding)).body), source);
  }
});

test('a stream that fails does not look complete', async () => {
  // Before anything was sent it is a 500; after that the connection breaks.
  const outcome = await ask('/broken', 'gzip').then(
    ({ status }) => status,
    () => 'broken off',
  );
  assert.ok(outcome === 500 || outcome === 'broken off', String(outcome));
  assert.equal((await ask('/whole', 'gzip')).status, 200);
});

test('an answer whose header cannot be written is a 500, and does not affect others', async () => {
  assert.equal((await ask('/unwritable', 'gzip')).status, 500);
  assert.equal((await ask('/whole', 'gzip')).status, 200);
});

test('a strong entity tag becomes weak, and still saves the answer', async () => {
  assert.equal((await ask('/tagged', 'gzip')).headers.etag, 'W/"1"');
  assert.equal((await ask('/tagged')).headers.etag, '"1"');
  const description = await ask('/docs/openapi.json', 'br');
  assert.equal(description.headers['content-encoding'], 'br');
  const tag = String(description.headers.etag);
  const again = await ask('/docs/openapi.json', 'br', { 'if-none-match': tag });
  assert.deepEqual([again.status, again.body.length], [304, 0]);
});

test('a buffer that is sent again is compressed once, and again where that failed', async (t) => {
  const compress = t.mock.method(zlib, 'brotliCompress');
  syncBuiltinESMExports();
  compress.mock.mockImplementationOnce(((...given: unknown[]) => {
    (given.at(-1) as (error: Error) => void)(new Error('no memory'));
  }) as never);
  const failed = await fetch(`${api.url}/again`, { headers: { 'accept-encoding': 'br' } });
  assert.equal(failed.status, 500);
  for (const _ of [1, 2]) {
    const answer = await fetch(`${api.url}/again`, { headers: { 'accept-encoding': 'br' } });
    assert.equal(await answer.text(), json);
  }
  compress.mock.restore();
  syncBuiltinESMExports();
  assert.equal(compress.mock.callCount(), 2);
});

test('while others are compressed, a long answer is sent as it is', async (t) => {
  const held: (() => void)[] = [];
  const { brotliCompress } = zlib;
  const hold = (content: Buffer, options: BrotliOptions, done: CompressCallback) => {
    held.push(() => brotliCompress(content, options, done));
  };
  t.mock.method(zlib, 'brotliCompress', hold);
  syncBuiltinESMExports();
  const first = ask('/long', 'br');
  while (held.length === 0) await setImmediate();
  const second = await ask('/long', 'br');
  assert.deepEqual([second.headers['content-encoding'], second.body.length], [undefined, LONG]);
  for (const go of held) go();
  assert.equal((await first).headers['content-encoding'], 'br');
  t.mock.restoreAll();
  syncBuiltinESMExports();
  assert.equal((await ask('/long', 'br')).headers['content-encoding'], 'br');
});

test('while many streams are compressed, another one is sent as it is', async () => {
  const open = async () => {
    const headers = { 'accept-encoding': 'br' };
    const asked = request(`${api.url}/endless`, { headers, agent: false }).end();
    asked.on('error', () => {});
    const [answer] = await once(asked, 'response');
    return answer as IncomingMessage;
  };
  const streams: IncomingMessage[] = [];
  for (let n = 0; n < 17; n++) streams.push(await open());
  const codings = streams.map(({ headers }) => headers['content-encoding']);
  assert.deepEqual(codings, [...Array(16).fill('br'), undefined]);
  for (const stream of streams) stream.destroy();
  for (let coding: string | undefined; coding !== 'br'; await setImmediate()) {
    const again = await open();
    coding = again.headers['content-encoding'];
    again.destroy();
  }
});
