import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { readCertificate } from '../../../test/support/certificate.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { type Receiver, startReceiver } from '../../../test/support/webhooks/receiver.ts';
import { createAddressFilter } from '../../platform/net/net.ts';
import {
  createWebhookSender,
  type WebhookSender,
  type WebhookSenderOptions,
  webhookDestination,
} from './webhooks.ts';

const LOOPBACK = createAddressFilter(['127.0.0.0/8']);
const ID = '0b5e8a6e-7e43-4f0e-9d3c-0d6c6f0f3a11';
const BODY = JSON.stringify({ type: 'message.received', data: { text: 'Grüße 😀' } });

const senders: WebhookSender[] = [];
after(() => Promise.all(senders.map((sender) => sender.close())));

function open(options: Partial<WebhookSenderOptions> = {}): WebhookSender {
  const sender = createWebhookSender({
    filter: LOOPBACK,
    resolve: async () => ['127.0.0.1'],
    ...options,
  });
  senders.push(sender);
  return sender;
}

const send = (url: string, options?: Partial<WebhookSenderOptions>, secret?: string) =>
  open(options).attempt({
    url,
    id: ID,
    body: BODY,
    ...(secret !== undefined && { secrets: [secret] }),
  });

const answerWith = (status: number, body = '', headers: Record<string, string> = {}) =>
  startReceiver((_, response) => response.writeHead(status, headers).end(body));

/** Verifies a request as a receiver does, with the library of the standard. */
function verify(receiver: Receiver, webhook: Webhook): unknown {
  const [received] = receiver.received;
  assert.ok(received);
  const headers = Object.fromEntries(
    Object.entries(received.request.headers).map(([name, value]) => [name, String(value)]),
  );
  return webhook.verify(received.body, headers);
}

suite('a webhook that arrives', () => {
  test('is a POST of the unchanged body, with only the headers of the standard', async () => {
    const receiver = await answerWith(204);
    assert.deepEqual(await send(`${receiver.origin}/hook?a=1#part`), { result: 'delivered' });
    const [received] = receiver.received;
    assert.ok(received);
    const { method, url, headers } = received.request;
    assert.equal(`${method} ${url}`, 'POST /hook?a=1');
    assert.equal(received.body.toString(), BODY);
    assert.deepEqual(Object.keys(headers).sort(), [
      'connection',
      'content-length',
      'content-type',
      'host',
      'user-agent',
      'webhook-id',
      'webhook-timestamp',
    ]);
    assert.equal(headers['content-type'], 'application/json');
    assert.equal(headers['webhook-id'], ID);
  });

  const secrets: [string, () => Webhook][] = [
    [
      'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
      () => new Webhook('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'),
    ],
    ['a plain secret', () => new Webhook('a plain secret', { format: 'raw' })],
    ['Schlüssel €', () => new Webhook(Buffer.from('Schlüssel €'), { format: 'raw' })],
  ];
  for (const [secret, webhook] of secrets) {
    test(`is signed with ${secret}`, async () => {
      const receiver = await answerWith(200, 'ok');
      assert.deepEqual(await send(receiver.origin, {}, secret), { result: 'delivered' });
      assert.deepEqual(verify(receiver, webhook()), JSON.parse(BODY));
      assert.throws(() => verify(receiver, new Webhook('another', { format: 'raw' })));
    });
  }

  test('is signed with each of several secrets', async () => {
    for (const body of [BODY, JSON.stringify({ text: 'x'.repeat(100_000) })]) {
      const receiver = await answerWith(200);
      const all = secrets.map(([secret]) => secret);
      await open().attempt({ url: receiver.origin, secrets: all, id: ID, body });
      for (const [, webhook] of secrets)
        assert.deepEqual(verify(receiver, webhook()), JSON.parse(body));
    }
  });

  for (const [secret, webhook] of secrets) {
    test(`of nearly 1 MB is signed with ${secret}, too`, async () => {
      const receiver = await answerWith(200);
      const body = JSON.stringify({ text: '€😀'.repeat(140_000) });
      await open().attempt({ url: receiver.origin, secrets: [secret], id: ID, body });
      assert.deepEqual(verify(receiver, webhook()), JSON.parse(body));
    });
  }

  test('differs between attempts only in its timestamp and signature', async () => {
    const receiver = await answerWith(200);
    let now = Date.UTC(2026, 0, 1);
    const sender = open({ now: () => now });
    const request = { url: receiver.origin, secrets: ['secret'], id: ID, body: BODY };
    await sender.attempt(request);
    now += 5_000;
    await sender.attempt(request);
    const [first, second] = receiver.received.map(({ request: { headers }, body }) => ({
      id: headers['webhook-id'],
      timestamp: Number(headers['webhook-timestamp']),
      signature: headers['webhook-signature'],
      body: body.toString(),
    }));
    assert.ok(first && second);
    assert.equal(second.timestamp, first.timestamp + 5);
    assert.notEqual(second.signature, first.signature);
    assert.deepEqual([second.id, second.body], [first.id, first.body]);
  });

  test('keeps its connection for the next', async () => {
    const receiver = await answerWith(200, 'x'.repeat(10_000));
    const sender = open();
    for (let n = 0; n < 5; n++) await sender.attempt({ url: receiver.origin, id: ID, body: BODY });
    // The next may start before the connection of the last one is free.
    assert.ok(receiver.connections() <= 2);
  });

  test('counts as one receiver with all URLs of its origin', () => {
    assert.equal(webhookDestination('https://A.test:443/x?key=secret'), 'https://a.test');
    assert.equal(webhookDestination('http://a.test:8080'), 'http://a.test:8080');
  });
});

suite('a receiver that answers', () => {
  test('500, with what it says about it in one line of 500 bytes', async () => {
    const said = `<h1>Oops</h1>\r\n\u0000${'ä'.repeat(400)}`;
    const receiver = await answerWith(500, said);
    const outcome = await send(receiver.origin);
    assert.equal(outcome.result, 'temporary');
    assert.deepEqual(outcome.result === 'temporary' && outcome.error, {
      status: 500,
      text: `<h1>Oops</h1> ${'ä'.repeat(242)}`,
    });
  });

  test('429 or 503 with Retry-After', async () => {
    for (const status of [429, 503]) {
      const seconds = await answerWith(status, 'later', { 'retry-after': '120' });
      const error = { status, text: 'later' };
      assert.deepEqual(await send(seconds.origin), {
        result: 'temporary',
        error,
        retryAfterSeconds: 120,
      });
      const at = new Date(Date.UTC(2026, 0, 1, 1)).toUTCString();
      const date = await answerWith(status, 'later', { 'retry-after': at });
      assert.deepEqual(await send(date.origin, { now: () => Date.UTC(2026, 0, 1) }), {
        result: 'temporary',
        error,
        retryAfterSeconds: 3_600,
      });
    }
  });

  test('500 with Retry-After, which is ignored', async () => {
    const receiver = await answerWith(500, 'no', { 'retry-after': '86400' });
    assert.deepEqual(await send(receiver.origin), {
      result: 'temporary',
      error: { status: 500, text: 'no' },
    });
  });

  test('410 Gone, which ends the delivery', async () => {
    const receiver = await answerWith(410, 'gone');
    assert.deepEqual(await send(receiver.origin), {
      result: 'permanent',
      error: { status: 410, text: 'gone' },
    });
  });

  for (const status of [301, 302, 303, 307, 308]) {
    test(`${status}, which is not followed`, async () => {
      const inner = await answerWith(200);
      const receiver = await answerWith(status, '', { location: `${inner.origin}/inner` });
      const outcome = await send(receiver.origin);
      assert.deepEqual(outcome, {
        result: 'temporary',
        error: { status, text: 'redirects are not followed' },
      });
      assert.equal(inner.received.length, 0);
    });
  }

  test('a redirect to the metadata service of a cloud', async () => {
    const location = 'http://169.254.169.254/latest/meta-data/';
    const receiver = await answerWith(302, 'there', { location });
    const outcome = await send(receiver.origin);
    assert.equal(outcome.result, 'temporary');
    assert.equal(receiver.received.length, 1);
  });

  test('cookies, which are not kept', async () => {
    const receiver = await answerWith(200, '', { 'set-cookie': 'a=1' });
    const sender = open();
    for (let n = 0; n < 2; n++) await sender.attempt({ url: receiver.origin, id: ID, body: BODY });
    assert.equal(receiver.received[1]?.request.headers.cookie, undefined);
  });

  test('404 and other refusals', async () => {
    for (const status of [400, 401, 404, 413, 418, 502, 599]) {
      const receiver = await answerWith(status, 'no');
      assert.deepEqual(await send(receiver.origin), {
        result: 'temporary',
        error: { status, text: 'no' },
      });
    }
  });
});

suite('a receiver that does not end', () => {
  /** Writes as fast as the connection accepts, until it ends. */
  function pour(response: ServerResponse): Promise<unknown> {
    const ended = once(response, 'close');
    const chunk = Buffer.alloc(64 * 1024, 'x');
    const more = () => {
      while (!response.destroyed && response.write(chunk));
    };
    response.on('drain', more);
    more();
    return ended;
  }

  test('an endless failure is cut off after its first bytes', async () => {
    let ended: Promise<unknown> | undefined;
    const receiver = await startReceiver((_, response) => {
      response.writeHead(500);
      ended = pour(response);
    });
    assert.deepEqual(await send(receiver.origin), {
      result: 'temporary',
      error: { status: 500, text: 'x'.repeat(500) },
    });
    await ended;
  });

  test('an endless success is a success, and cut off', async () => {
    let ended: Promise<unknown> | undefined;
    const receiver = await startReceiver((_, response) => {
      response.writeHead(200);
      ended = pour(response);
    });
    assert.deepEqual(await send(receiver.origin), { result: 'delivered' });
    await ended;
  });

  /** Sends a text one byte at a time, for ever. */
  function drip(response: ServerResponse, byte: string): void {
    const timer = setInterval(() => response.write(byte), 20);
    response.on('close', () => clearInterval(timer));
  }

  test('a failure that comes byte by byte is known by its status when the time is over', async () => {
    const receiver = await startReceiver((_, response) => {
      response.writeHead(503, { 'retry-after': '7' });
      drip(response, 'z');
    });
    const outcome = await send(receiver.origin, { timeoutMs: 2_000 });
    assert.ok(outcome.result === 'temporary');
    assert.equal(outcome.error.status, 503);
    assert.equal(outcome.retryAfterSeconds, 7);
    assert.match(outcome.error.text, /^z+$/);
  });

  test('a success that comes byte by byte is not read to its end', async () => {
    const receiver = await startReceiver((_, response) => {
      response.writeHead(200);
      drip(response, 'z');
    });
    assert.deepEqual(await send(receiver.origin), { result: 'delivered' });
  });

  /** A TCP server that need not speak HTTP. */
  async function startRaw(talk: (write: (text: string) => void, end: () => void) => void) {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () =>
        talk(
          (text) => socket.write(text),
          () => socket.end(),
        ),
      );
    });
    server.listen(0, '127.0.0.1');
    server.unref();
    await once(server, 'listening');
    const address = server.address();
    return `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
  }

  const dripping = (text: string) =>
    startRaw((write) => {
      let at = 0;
      const timer = setInterval(() => write(text[at++ % text.length] ?? ''), 20);
      timer.unref();
    });

  test('a header that comes byte by byte is too late', async () => {
    const outcome = await send(await dripping('HTTP/1.1 200 OK\r\nx: aaaaaaaaaaaaaaaa'), {
      timeoutMs: 300,
    });
    assert.deepEqual(outcome, { result: 'temporary', error: { text: 'no answer within 0.3 s' } });
  });

  test('endless interim answers are no answer', async () => {
    const outcome = await send(await dripping('HTTP/1.1 102 Processing\r\n\r\n'), {
      timeoutMs: 2_000,
    });
    assert.deepEqual(outcome, { result: 'temporary', error: { text: 'no answer within 2 s' } });
  });

  test('100 Continue, which nothing asked for, is a failure that says so', async () => {
    const said = 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n';
    const outcome = await send(await startRaw((write) => write(said)));
    assert.ok(outcome.result === 'temporary');
    assert.match(outcome.error.text, /^the answer begins with 100 Continue, which was not asked/);
  });

  test('silence is no answer', async () => {
    const outcome = await send(await startRaw(() => {}), { timeoutMs: 200 });
    assert.deepEqual(outcome, { result: 'temporary', error: { text: 'no answer within 0.2 s' } });
  });

  test('a header without end is refused', async () => {
    const url = await startRaw((write) => {
      write('HTTP/1.1 200 OK\r\n');
      for (let n = 0; n < 1_000; n++) write(`x-${n}: ${'a'.repeat(100)}\r\n`);
    });
    const outcome = await send(url);
    assert.ok(outcome.result === 'temporary');
    assert.match(outcome.error.text, /header of the answer is too large/);
  });

  test('a connection that is closed before the answer', async () => {
    for (const said of ['', 'HTTP/1.1 200 O']) {
      const url = await startRaw((write, end) => {
        if (said !== '') write(said);
        end();
      });
      const outcome = await send(url);
      assert.ok(outcome.result === 'temporary');
      assert.match(outcome.error.text, /closed before the answer|not HTTP/);
    }
  });

  test('a connection that is closed within the answer: the status counts', async () => {
    const midway = (status: string) =>
      startRaw((write, end) => {
        write(`HTTP/1.1 ${status}\r\ncontent-length: 100\r\n\r\nhalf`);
        end();
      });
    assert.deepEqual(await send(await midway('200 OK')), { result: 'delivered' });
    assert.deepEqual(await send(await midway('500 No')), {
      result: 'temporary',
      error: { status: 500, text: 'half' },
    });
  });

  test('something other than HTTP', async () => {
    const outcome = await send(await startRaw((write) => write('220 smtp.test ESMTP\r\n')));
    assert.ok(outcome.result === 'temporary');
    assert.match(outcome.error.text, /not HTTP/);
  });

  test('an abort from outside', async () => {
    const receiver = await startReceiver(() => {});
    const stop = new AbortController();
    const outcome = open().attempt({ url: receiver.origin, id: ID, body: BODY }, stop.signal);
    while (receiver.received.length === 0) await new Promise((resolve) => setImmediate(resolve));
    stop.abort();
    assert.deepEqual(await outcome, {
      result: 'temporary',
      error: { text: 'we were stopped before the answer' },
    });
  });
});

suite('TLS', () => {
  let good: Receiver;
  // The other one is trusted in this process by tests of outbound mail.
  const { key, cert } = readCertificate('other');
  before(async () => {
    good = await startReceiver((_, response) => response.end(), { key, cert });
  });

  test('a certificate for the name, from an authority that is trusted', async () => {
    const outcome = await send(`https://hooks.test:${good.port}/`, { ca: cert });
    assert.deepEqual(outcome, { result: 'delivered' });
  });

  test('a certificate for another name is a temporary failure that says so', async () => {
    const outcome = await send(`https://other.test:${good.port}/`, { ca: cert });
    assert.deepEqual(outcome, {
      result: 'temporary',
      error: { text: 'the TLS certificate is for another name (ERR_TLS_CERT_ALTNAME_INVALID)' },
    });
  });

  test('a self-signed certificate is one, whatever the environment says', async (context) => {
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    context.after(() => {
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    });
    const outcome = await send(`https://hooks.test:${good.port}/`);
    assert.ok(outcome.result === 'temporary');
    assert.match(outcome.error.text, /^the TLS certificate is self-signed/);
  });

  test('a server without TLS', async () => {
    const plain = await answerWith(200);
    const outcome = await send(`https://hooks.test:${plain.port}/`, { ca: cert });
    assert.ok(outcome.result === 'temporary');
    assert.match(outcome.error.text, /^TLS failed/);
  });
});

suite('where connections go', () => {
  const refusedAt = (kind: string, host: string) => ({
    result: 'temporary',
    error: { text: `the address of ${host} is ${kind}: no connection to it is allowed` },
  });

  test('a name with a public and a private address is refused', async () => {
    const receiver = await answerWith(200);
    const resolve = async () => ['127.0.0.1', '10.0.0.1'];
    const outcome = await send(`http://both.test:${receiver.port}/`, { resolve });
    assert.deepEqual(outcome, refusedAt('private', 'both.test'));
    assert.equal(receiver.connections(), 0);
  });

  test('a name that changes after its check: the connection goes to the checked address', async () => {
    const receiver = await answerWith(200);
    const answers = [['127.0.0.1'], ['10.0.0.1']];
    const sender = open({ resolve: async () => answers.shift() ?? [] });
    const request = { url: `http://rebinding.test:${receiver.port}/`, id: ID, body: BODY };
    assert.deepEqual(await sender.attempt(request), { result: 'delivered' });
    assert.equal(answers.length, 1, 'one lookup for one connection');
  });

  const literals: [string, string, string][] = [
    ['http://127.0.0.1', 'loopback', '127.0.0.1'],
    ['http://2130706433', 'loopback', '127.0.0.1'],
    ['http://0x7f.1', 'loopback', '127.0.0.1'],
    ['http://0177.0.0.1', 'loopback', '127.0.0.1'],
    ['http://[::1]', 'loopback', '::1'],
    ['http://[::ffff:127.0.0.1]', 'loopback', '::ffff:7f00:1'],
    ['http://[64:ff9b::7f00:1]', 'loopback', '64:ff9b::7f00:1'],
    ['https://169.254.169.254', 'link-local', '169.254.169.254'],
    ['http://0', 'unspecified', '0.0.0.0'],
  ];
  for (const [url, kind, host] of literals) {
    test(`${url} is refused`, async () => {
      const filter = createAddressFilter([]);
      const outcome = await send(`${url}:9/`, { filter });
      assert.deepEqual(outcome, refusedAt(kind, host));
    });
  }

  test('proxy variables in the environment change nothing', async (context) => {
    const proxy = await answerWith(200);
    const receiver = await answerWith(200);
    for (const name of ['HTTP_PROXY', 'http_proxy', 'ALL_PROXY']) process.env[name] = proxy.origin;
    context.after(() => {
      for (const name of ['HTTP_PROXY', 'http_proxy', 'ALL_PROXY']) delete process.env[name];
    });
    await send(`http://hooks.test:${receiver.port}/`);
    assert.equal(proxy.received.length, 0);
    assert.equal(receiver.received.length, 1);
  });

  test('a name without an address, a port without a listener', async () => {
    assert.deepEqual(await send('http://none.test/', { resolve: async () => [] }), {
      result: 'temporary',
      error: { text: 'the host name has no address (ENOTFOUND)' },
    });
    assert.deepEqual(await send(`http://127.0.0.1:${await freePort()}/`), {
      result: 'temporary',
      error: { text: 'connection refused (ECONNREFUSED)' },
    });
  });

  test('an attempt that ended while it connected is not sent', async () => {
    const receiver = await answerWith(200);
    const resolved = Promise.withResolvers<string[]>();
    const stop = new AbortController();
    const sender = open({ resolve: () => resolved.promise });
    const url = `http://slow.test:${receiver.port}/`;
    const first = sender.attempt({ url, id: 'first', body: BODY }, stop.signal);
    stop.abort();
    assert.equal((await first).result, 'temporary');
    const late = await sender.attempt({ url, id: 'late', body: BODY }, AbortSignal.abort());
    assert.equal(late.result, 'temporary');
    resolved.resolve(['127.0.0.1']);
    assert.deepEqual(await sender.attempt({ url, id: 'second', body: BODY }), {
      result: 'delivered',
    });
    const ids = receiver.received.map(({ request }) => request.headers['webhook-id']);
    assert.deepEqual(ids, ['second']);
  });

  test('a name that does not resolve is given up in time', async () => {
    const outcome = await send('http://slow.test/', {
      timeoutMs: 200,
      resolve: () => new Promise(() => {}),
    });
    assert.deepEqual(outcome, { result: 'temporary', error: { text: 'no answer within 0.2 s' } });
  });

  test('a URL that is neither http nor https is not attempted', async () => {
    for (const url of ['ftp://a.test/', 'nonsense', 'file:///etc/passwd']) {
      assert.equal((await send(url)).result, 'permanent');
    }
  });
});
