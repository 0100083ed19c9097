import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectPlain } from 'node:net';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import { connect } from 'node:tls';
import fc from 'fast-check';
import { DialogueClient } from '../../../test/support/smtp/dialogue.ts';
import { startListener } from '../../../test/support/smtp/start-listener.ts';
import { readHeader } from '../../platform/net/proxy-header.ts';

const latin = (text: string) => Buffer.from(text, 'latin1');
const signature = '\r\n\r\n\0\r\nQUIT\n';
const ports = '\xdc\x04\0\x19';
const overIpv4 = `${signature}\x21\x11\0\x0c\xcb\0\x71\x09\x7f\0\0\x01${ports}`;
/** 2001:db8::9, and an extension (TLV) of three octets that is skipped. */
const overIpv6 = `${signature}\x21\x21\0\x27\x20\x01\x0d\xb8${'\0'.repeat(11)}\x09${'\0'.repeat(15)}\x01${ports}\x04\0\0`;

const good: Record<string, readonly [string, string | undefined]> = {
  'a line of IPv4': ['PROXY TCP4 203.0.113.9 127.0.0.1 56324 25\r\n', '203.0.113.9'],
  'a line of IPv6': ['PROXY TCP6 2001:db8::9 ::1 56324 25\r\n', '2001:db8::9'],
  'a line of nobody': ['PROXY UNKNOWN\r\n', undefined],
  'octets of IPv4': [overIpv4, '203.0.113.9'],
  'octets of IPv6': [overIpv6, '2001:db8::9'],
  'octets of the balancer itself': [`${signature}\x20\0\0\0`, undefined],
};

for (const [what, [header, address]] of Object.entries(good)) {
  test(`${what} name the client once they are complete`, () => {
    const all = latin(`${header}EHLO client.test\r\n`);
    assert.deepEqual(readHeader(all), { length: header.length, address });
    for (let length = 0; length < header.length; length++) {
      assert.equal(readHeader(all.subarray(0, length)), 'more', `${length} octets`);
    }
  });
}

test('anything else is bad, and no wait is endless', () => {
  for (const text of [
    'EHLO client.test\r\n',
    'PROXY TCP4 2001:db8::9 ::1 1 2\r\n',
    'PROXY TCP4 203.0.113.999 127.0.0.1 1 2\r\n',
    'PROXY TCP9 203.0.113.9 127.0.0.1 1 2\r\n',
    `PROXY ${'x'.repeat(200)}`,
    `${signature}\x11\x11\0\x0c${'x'.repeat(12)}`,
    `${signature}\x22\x11\0\x0c${'x'.repeat(12)}`,
    `${signature}\x21\x11\0\x04${'x'.repeat(4)}`,
    `${signature}\x21\x11\xff\xff`,
  ]) {
    assert.equal(readHeader(latin(text)), 'bad', JSON.stringify(text));
  }
  const octets = fc.uint8Array({ minLength: 4_200, maxLength: 4_300 });
  fc.assert(fc.property(octets, (bytes) => readHeader(Buffer.from(bytes)) !== 'more'));
});

for (const header of ['PROXY TCP4 203.0.113.9 127.0.0.1 56324 25\r\n', overIpv4]) {
  test('a balancer that the operator named is trusted, and limits count for its client', async (context) => {
    const target = await startListener(context, { isBalancer: () => true, maxPerIp: 1 });
    const client = await DialogueClient.connect(target.port);
    client.socket.write(latin(header));
    assert.match(await client.reply(), /^220 /);
    await client.ask('EHLO client.test');
    await client.ask('MAIL FROM:<bob@remote.test>');
    await client.ask('RCPT TO:<alice@acme.test>');
    await client.ask('DATA');
    assert.match(await client.ask('hello\r\n.'), /^250 /);
    const { arrival } = target.delivery.messages[0]?.envelope ?? {};
    assert.equal(arrival?.remoteAddress, '203.0.113.9');
    const second = await DialogueClient.connect(target.port);
    second.socket.write(latin(header));
    assert.match(await second.reply(), /^421 /);
    const other = await DialogueClient.connect(target.port);
    other.socket.write(latin('PROXY TCP4 203.0.113.10 127.0.0.1 56324 25\r\n'));
    assert.match(await other.reply(), /^220 /);
    for (const { socket } of [client, second, other]) socket.destroy();
  });
}

test('data that a client sends in the same packet as the header is read once', async (context) => {
  const target = await startListener(context, { isBalancer: () => true, isTrusted: () => true });
  const client = await DialogueClient.connect(target.port);
  client.socket.write(
    latin('PROXY TCP4 203.0.113.9 127.0.0.1 56324 25\r\nEHLO hasty.test\r\nNOOP\r\n'),
  );
  assert.match(await client.reply(), /^220 /);
  assert.match(await client.reply(), /^250[ -]/);
  assert.match(await client.reply(), /^250 2\.0\.0 /);
  assert.match(await client.ask('QUIT'), /^221 /);
  client.socket.destroy();
});

test('a header from another host is a wrong command; a balancer that sends none is disconnected', async (context) => {
  const stranger = await DialogueClient.connect((await startListener(context)).port);
  assert.match(await stranger.reply(), /^220 /);
  assert.match(await stranger.ask('PROXY TCP4 203.0.113.9 127.0.0.1 56324 25'), /^5/);
  stranger.destroy();
  const target = await startListener(context, { isBalancer: () => true });
  const client = await DialogueClient.connect(target.port);
  const closed = new Promise((resolve) => client.socket.once('close', resolve));
  client.socket.resume();
  client.socket.write('EHLO client.test\r\n');
  await closed;
});

test('the first octets of TLS may come together with the header', async (context) => {
  const target = await startListener(context, { isBalancer: () => true, isSecure: true });
  const balancer = connectPlain(target.port, '127.0.0.1');
  context.after(() => balancer.destroy());
  let header = latin('PROXY TCP4 203.0.113.9 127.0.0.1 56324 465\r\n');
  const joined = new Duplex({
    read() {},
    write(chunk: Buffer, _encoding, done) {
      balancer.write(Buffer.concat([header, chunk]), done);
      header = Buffer.alloc(0);
    },
  });
  balancer.on('data', (chunk) => joined.push(chunk));
  const client = connect({ socket: joined, rejectUnauthorized: false });
  const [greeting] = await once(client, 'data', { signal: AbortSignal.timeout(10_000) });
  assert.match(String(greeting), /^220 /);
});

test('a network with many clients leaves connections to others', async (context) => {
  const target = await startListener(context, {
    isBalancer: () => true,
    isTrusted: () => false,
    maxPerIp: 2,
    maxConnections: 8,
  });
  const from = async (address: string) => {
    const client = await DialogueClient.connect(target.port);
    context.after(() => client.destroy());
    client.socket.write(latin(`PROXY TCP6 ${address} ::1 56324 25\r\n`));
    return client.reply();
  };
  const replies = [];
  for (let n = 0; n < 10; n++) replies.push(await from(`2001:db8:1:${n}::1`));
  assert.equal(replies.filter((reply) => reply.startsWith('220')).length, 4);
  assert.match(await from('2001:db8:2::1'), /^220 /);
});
