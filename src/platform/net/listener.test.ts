import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { readCertificate } from '../../../test/support/certificate.ts';
import { Listener, Wire } from './listener.ts';

test('a stop waits for what is under way, and not beyond its deadline', async () => {
  const served = Promise.withResolvers<void>();
  class Hanging extends Listener<{ run(): Promise<void>; destroy(): void }> {
    protected override admit(socket: Socket): void {
      // Its work hangs, also after its client was cut off.
      const run = () => new Promise<void>(() => {});
      this.serve(socket, { run, destroy: () => socket.destroy() });
      served.resolve();
    }
  }
  const listener = new Hanging({
    tls: readCertificate('one'),
    isBalancer: () => false,
    maxConnections: 10,
    logger: { debug() {}, warn() {} },
  });
  await listener.listen(0, '127.0.0.1');
  const client = connect(listener.address);
  const ended = once(client, 'close');
  await served.promise;
  assert.equal(listener.served.size, 1);
  await listener.close(20);
  await ended;
});

test('a client that is silent is asked whether it is still there', {
  skip: process.platform !== 'linux',
}, async (t) => {
  class Silent extends Listener<{ run(): Promise<void>; destroy(): void }> {
    protected override admit(socket: Socket): void {
      this.serve(socket, { run: async () => {}, destroy: () => socket.destroy() });
      served.resolve();
    }
  }
  const served = Promise.withResolvers<void>();
  const listener = new Silent({
    tls: readCertificate('one'),
    isBalancer: () => false,
    maxConnections: 10,
    logger: { debug() {}, warn() {} },
  });
  await listener.listen(0, '127.0.0.1');
  t.after(() => listener.close(0));
  const client = connect(listener.address);
  t.after(() => client.destroy());
  await served.promise;
  const ends = [listener.address.port, client.localPort ?? 0];
  const [ours, theirs] = ends.map((port) => port.toString(16).toUpperCase().padStart(4, '0'));
  // Of each socket: its ends, state, queues, and the timer that runs (2 is the one of keepalive) with what is left of it.
  const of = new RegExp(`:${ours} \\w+:${theirs} 01 \\w+:\\w+ (\\d+):(\\w+)`);
  const [, timer, left] = of.exec(readFileSync('/proc/net/tcp', 'utf8')) ?? [];
  assert.equal(timer, '02');
  // In hundredths of a second.
  assert.ok(Number.parseInt(left ?? '', 16) <= 10 * 60 * 100);
});

test('a client that asks for a second handshake is refused', async (t) => {
  class Echo extends Listener<{ run(): Promise<void>; destroy(): void }> {
    protected override admit(socket: Socket): void {
      const wire = new Wire(socket);
      wire.beginTls(this.secureContext);
      const run = async () => {
        for (let octets = await wire.read(); octets; octets = await wire.read()) {
          await wire.write(octets);
        }
      };
      this.serve(socket, { run, destroy: () => socket.destroy() });
    }
  }
  const listener = new Echo({
    tls: readCertificate('one'),
    isBalancer: () => false,
    maxConnections: 10,
    logger: { debug() {}, warn() {} },
  });
  await listener.listen(0, '127.0.0.1');
  t.after(() => listener.close(0));
  const options = {
    ...listener.address,
    rejectUnauthorized: false,
    maxVersion: 'TLSv1.2',
  } as const;
  const client = connectTls(options);
  client.on('error', () => {});
  t.after(() => client.destroy());
  await once(client, 'secureConnect');
  client.write('hello');
  assert.equal(String((await once(client, 'data'))[0]), 'hello');
  const refused = once(client, 'error');
  client.renegotiate({}, () => assert.fail('a second handshake'));
  const [error] = await refused;
  assert.match(String(error), /no.renegotiation/i);
});
