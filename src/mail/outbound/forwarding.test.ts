/** Forwarding end to end: sender rewritten, message prepared, sent, and checked at the far end. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { suite, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { makeKey, resolverOf, verify } from '../../../test/support/outbound/dkim.ts';
import { senderTo, sourceOf, startFarEnd } from '../../../test/support/outbound/far-end.ts';
import { parseAddress, readHeader } from '../../protocols/message/message.ts';
import { findLoop, prepareForward, SenderRewriting, type SenderVerdict } from './outbound.ts';

const srs = new SenderRewriting({ key: ['a key of thirty-two octets or more'] });
const keys = { 'acme.test': makeKey('acme.test'), 'b.test': makeKey('b.test') };
const verdict: SenderVerdict = { policy: 'none', dkimAligned: false };

interface Hop {
  readonly open: () => AsyncIterable<Uint8Array>;
  readonly from: string;
  /** Address at the forwarding domain. */
  readonly address: string;
  readonly to: string;
  readonly verdict?: SenderVerdict;
}

/** Does what delivery does with a message for a domain whose mail is forwarded. */
async function forward(port: number, { open, from, address, to, verdict: given }: Hop) {
  const domain = parseAddress(address)?.domain === 'b.test' ? 'b.test' : 'acme.test';
  if (findLoop(await readHeader(open()), address)) return 'loop';
  const prepared = await prepareForward({
    open,
    address,
    domain,
    dkimKey: keys[domain],
    verdict: given ?? verdict,
    now: Date.now(),
  });
  return senderTo(port).sendMessage({
    ...prepared,
    from: srs.forwardAddress(from, domain),
    to,
    smtpUtf8: false,
  });
}

const MESSAGE =
  'From: Ann <ann@example.com>\r\nTo: info@acme.test\r\nSubject: hi\r\n\r\n.dot\r\nüber\r\n';

suite('forwarding', () => {
  test('arrives signed, from an address that leads back to the sender', async () => {
    const far = await startFarEnd();
    const hop = { open: sourceOf(MESSAGE), address: 'info@acme.test', to: 'ann@far.test' };
    const outcome = await forward(far.port, { ...hop, from: 'ann@example.com' });
    assert.equal(outcome !== 'loop' && outcome.result, 'delivered');
    const [arrived] = far.received;
    assert.ok(arrived);
    assert.deepEqual(await verify(arrived.source, keys['acme.test']), ['pass acme.test']);
    assert.equal(arrived.parameters.BODY, '8BITMIME');
    const { local, domain } = parseAddress(arrived.from) ?? assert.fail();
    assert.equal(domain, 'acme.test');
    assert.deepEqual(srs.reverse(local, domain), { kind: 'original', sender: 'ann@example.com' });
  });

  test('a bounce stays a bounce', async () => {
    const far = await startFarEnd();
    const hop = { open: sourceOf(MESSAGE), address: 'info@acme.test', to: 'ann@far.test' };
    await forward(far.port, { ...hop, from: '' });
    assert.equal(far.received[0]?.from, '');
  });

  test('a message that DMARC would refuse arrives from the forwarding domain', async () => {
    const far = await startFarEnd();
    const reject: SenderVerdict = { policy: 'reject', aligned: true, dkimAligned: false };
    const hop = { open: sourceOf(MESSAGE), address: 'info@acme.test', to: 'ann@far.test' };
    await forward(far.port, { ...hop, from: 'ann@example.com', verdict: reject });
    const source = far.received[0]?.source ?? Buffer.alloc(0);
    assert.match(source.toString(), /^From: "Ann via acme\.test"\r\n <info@acme\.test>\r$/m);
    assert.deepEqual(await verify(source, keys['acme.test']), ['pass acme.test']);
  });

  test('two domains that forward to each other send a message around only once', async () => {
    const far = await startFarEnd();
    const routes = { 'ann@acme.test': 'info@b.test', 'info@b.test': 'ann@acme.test' } as const;
    let address: keyof typeof routes = 'ann@acme.test';
    let from = 'bob@example.com';
    let open = sourceOf(MESSAGE);
    for (let hops = 0; ; hops++) {
      assert.ok(hops < 5, 'the loop is not seen');
      const to: keyof typeof routes = routes[address];
      // The far end acts as the other domain.
      const outcome = await forward(far.port, {
        open,
        from,
        address,
        to: to.replace(/@.*/, '@far.test'),
      });
      if (outcome === 'loop') {
        assert.equal(hops, 2);
        break;
      }
      const arrived = far.received[hops] ?? assert.fail();
      open = sourceOf(arrived.source);
      from = arrived.from;
      address = to;
    }
    const [, second] = far.received;
    assert.match(second?.from ?? '', /^SRS1=/);
    assert.deepEqual(await verify(second?.source ?? Buffer.alloc(0), ...Object.values(keys)), [
      'pass b.test',
      'pass acme.test',
    ]);
  });
});

/** Bytes in use after garbage collection; buffers are freed in the background, some time later. */
function memoryInUse(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

test('24 MB go through with flat memory, and arrive as they were', async () => {
  const size = 24 * 2 ** 20;
  const lines = `${`${'0123456789ABCDEF'.repeat(4)}\r\n`.repeat(30)}.${'é'.repeat(20)}\r\n`;
  const chunk = Buffer.from(lines.repeat(100));
  const chunks = Math.ceil(size / chunk.length);
  const header = 'From: ann@example.com\r\nSubject: large\r\n\r\n';
  const expected = createHash('sha256');
  for (let n = 0; n < chunks; n++) expected.update(chunk);

  const readings: number[][] = [];
  const open = async function* () {
    const samples: number[] = [];
    readings.push(samples);
    yield Buffer.from(header);
    for (let n = 0; n < chunks; n++) {
      if (n % 8 === 0) samples.push(memoryInUse());
      yield Buffer.from(chunk);
    }
  };

  const arrived = Promise.withResolvers<{ signatures: unknown[]; digest: string; size: number }>();
  const far = await startFarEnd({
    size: 60_000_000,
    onData(stream, _session, callback) {
      const digest = createHash('sha256');
      let octets = 0;
      let head = '';
      stream.on('data', (data: Buffer) => {
        octets += data.length;
        if (head.includes('\r\n\r\n')) digest.update(data);
        else {
          head += data.toString('latin1');
          const end = head.indexOf('\r\n\r\n');
          if (end >= 0) digest.update(Buffer.from(head.slice(end + 4), 'latin1'));
        }
      });
      dkimVerify(stream, { strict: true, resolver: resolverOf(keys['acme.test']) }).then(
        ({ results }) => {
          const signatures = results.map(({ status }) => status.result);
          arrived.resolve({ signatures, digest: digest.digest('hex'), size: octets });
          callback(null, 'taken');
        },
        arrived.reject,
      );
    },
  });
  const hop = { open, address: 'info@acme.test', to: 'ann@far.test', from: 'ann@example.com' };
  const outcome = await forward(far.port, hop);
  assert.equal(outcome !== 'loop' && outcome.result, 'delivered', JSON.stringify(outcome));
  const { signatures, digest, size: octets } = await arrived.promise;
  assert.deepEqual(signatures, ['pass']);
  assert.equal(digest, expected.digest('hex'));
  assert.ok(octets > size);
  const whole = readings.filter(({ length }) => length > 10);
  assert.equal(whole.length, 2, 'read once for its hash and once to be sent');
  for (const samples of whole) {
    const third = Math.floor(samples.length / 3);
    const growth = Math.min(...samples.slice(-third)) - Math.min(...samples.slice(0, third));
    assert.ok(growth < 10 * 2 ** 20, `${growth} bytes more at the end`);
  }
});
