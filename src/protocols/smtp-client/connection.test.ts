/** Attacks on the socket of an SMTP client. All the rest is tested where mail is sent. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { SmtpConnection } from './connection.ts';
import { SmtpFailure } from './text.ts';

const closing: (() => void)[] = [];
after(() => {
  for (const close of closing) close();
});

async function serve(script: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}));
    script(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const timeouts = { connect: 5_000, reply: 5_000, message: 5_000 };
const open = (port: number, tls: 'none' | 'offered', signal = new AbortController().signal) =>
  SmtpConnection.open(
    { host: '127.0.0.1', port },
    { protocol: 'smtp', hostname: 'me.test', tls, verifiesCertificate: false, timeouts },
    signal,
  );

test('plaintext from a server after STARTTLS never counts as protected by TLS', async () => {
  const port = await serve((socket) => {
    socket.write('220 far.test\r\n');
    socket.on('data', (chunk: Buffer) => {
      const line = chunk.toString();
      if (/^EHLO/.test(line)) socket.write('250-far.test\r\n250 STARTTLS\r\n');
      // The second reply may come from an attacker in between (RFC 3207 section 6).
      if (/^STARTTLS/.test(line)) socket.write('220 go\r\n250 STARTTLS-less\r\n');
    });
  });
  await assert.rejects(open(port, 'offered'), (error) => {
    assert.ok(error instanceof SmtpFailure);
    return error.during === 'tls' && /plaintext after STARTTLS/.test(error.message);
  });
});

test('a server that never stops sending is disconnected', async () => {
  const port = await serve((socket) => {
    socket.write('220 far.test\r\n');
    socket.on('data', () => socket.write('250 far.test\r\n'.repeat(2_000)));
  });
  assert.equal((await open(port, 'none')).isUsable, false);
});

test('an abort ends the connection whatever it waits for, and gives its reason', async () => {
  for (const greeting of [undefined, '220 far.test\r\n']) {
    const stop = new AbortController();
    const port = await serve((socket) => {
      if (greeting) socket.write(greeting);
      socket.on('data', () => stop.abort());
      if (!greeting) stop.abort();
    });
    await assert.rejects(open(port, 'none', stop.signal), /the attempt was stopped/);
  }
  await assert.rejects(open(1, 'none', AbortSignal.abort()), /the attempt was stopped/);
});
