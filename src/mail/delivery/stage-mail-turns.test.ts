/** A burst of mail: everybody else has his turns of the event loop between its messages. */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import { createSenderChecks } from './sender-checks/check-sender.ts';
import { stageMail } from './stage-mail.ts';

const BURST = 40;
/** Milliseconds that one message holds the event loop, while it is read and while it is stored. */
const WORK = 4;

let now = 0;
mock.method(performance, 'now', () => now);

const source = Buffer.from('From: <a@example.test>\r\nSubject: hello\r\n\r\nhello\r\n');

/** Counts how much is done in each turn. */
class Turns {
  readonly counts = [0];
  #isOver = false;

  constructor() {
    void this.#count();
  }

  work(): void {
    now += WORK;
    this.counts[this.counts.length - 1] = (this.counts.at(-1) ?? 0) + 1;
  }

  end(): number {
    this.#isOver = true;
    return Math.max(...this.counts);
  }

  async #count(): Promise<void> {
    while (!this.#isOver) {
      await turn();
      this.counts.push(0);
    }
  }
}

/** Stages a burst, of so many clients. */
function stageBurst(clients: number, reading: Turns, done: Turns): Promise<unknown> {
  const bodies: Pick<Bodies, 'stage' | 'discard' | 'read'> = {
    async stage(pieces) {
      const [content] = await Array.fromAsync(pieces);
      reading.work();
      return { size: source.length, content: Buffer.from(content ?? '') };
    },
    async discard() {},
    read: () => assert.fail('nobody reads it'),
  };
  // DNS answers all at once, after all were read.
  const answered = Promise.withResolvers<void>();
  let left = BURST;
  const checks = createSenderChecks({
    hostname: 'mx.test',
    enforce: true,
    dns: {
      async lookup() {
        await answered.promise;
        await turn();
        return { kind: 'absent', reason: 'no_name' };
      },
    },
  });
  const one = async (at: number) => {
    const remoteAddress = `192.0.2.${at % clients}`;
    const arrival = { protocol: 'ESMTP', heloName: 'x.test', remoteAddress, sessionId: 's' };
    const envelope = { id: 'i', from: 'a@example.test', to: ['b@acme.test'], arrival };
    const pieces = async function* () {
      // As from a socket: what one does is done before the next one is read.
      await turn();
      yield source;
      left -= 1;
      if (left === 0) answered.resolve();
    };
    const options = { bodies, checks, hostname: 'mx.test' };
    await stageMail(options, { envelope, receivedAt: 0 }, pieces());
    done.work();
  };
  return Promise.all(Array.from({ length: BURST }, (_, at) => one(at)));
}

for (const [clients, most] of [
  [BURST, 3],
  [1, 2],
] as const) {
  test(`a burst of ${clients} clients is read and stored in turns, ${most} messages in each`, async () => {
    const [reading, done] = [new Turns(), new Turns()];
    await stageBurst(clients, reading, done);
    assert.deepEqual([reading.end(), done.end()], [most, most]);
  });
}
