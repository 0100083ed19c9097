import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { readCertificate } from '../../../test/support/certificate.ts';
import { Listener } from './listener.ts';

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
