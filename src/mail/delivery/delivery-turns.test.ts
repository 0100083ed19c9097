/** A burst of mail: everybody else has his turns of the event loop between its messages. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import { createMailReceiver, type MailReceiverOptions } from './delivery.ts';
import { createSenderChecks } from './sender-checks/check-sender.ts';

const BURST = 40;
/** Milliseconds that one message holds the event loop when it is read, and again when it was checked. */
const WORK = 4;
/** Those that begin within 25 ms. */
const IN_A_TURN = 7;

let now = 0;

const source = Buffer.from('From: <a@example.test>\r\nSubject: hello\r\n\r\nhello\r\n');

/** Counts how much is done in each turn. */
class Turns {
  readonly #counts = [0];
  #isOver = false;

  constructor() {
    void this.#count();
  }

  work(): void {
    now += WORK;
    this.#counts[this.#counts.length - 1] = (this.#counts.at(-1) ?? 0) + 1;
  }

  /** @returns the most in one turn */
  end(): number {
    this.#isOver = true;
    return Math.max(...this.#counts);
  }

  async #count(): Promise<void> {
    while (!this.#isOver) {
      await turn();
      this.#counts.push(0);
    }
  }
}

test('a burst is read in turns, and what follows its checks, which end together, as well', async (t) => {
  t.mock.method(performance, 'now', () => now);
  const [reading, judged] = [new Turns(), new Turns()];
  // Also where the test fails: they would keep the process, and a processor.
  t.after(() => [reading, judged].map((turns) => turns.end()));
  const bodies: Pick<Bodies, 'stage' | 'discard'> = {
    async stage(pieces) {
      const [content] = await Array.fromAsync(pieces);
      reading.work();
      return { size: source.length, content: Buffer.from(content ?? '') };
    },
    async discard() {},
  };
  const answered = Promise.withResolvers<void>();
  const checks = createSenderChecks({
    hostname: 'mx.test',
    enforce: true,
    // On a busy machine the whole burst is read later than a lookup may take.
    times: { lookupMs: 60_000, totalMs: 60_000, restMs: 60_000 },
    dns: {
      async lookup(name) {
        await answered.promise;
        // As from a socket: what follows from one answer is done before the next one is read.
        await turn();
        const isPolicy = name === '_dmarc.example.test';
        if (!isPolicy) return { kind: 'absent', reason: 'no_name' };
        return { kind: 'records', records: ['v=DMARC1; p=reject'] };
      },
    },
  });
  const receiver = createMailReceiver({
    bodies,
    checks,
    hostname: 'mx.test',
    log: { info: () => {}, warn: () => {} },
    // It is the first of what follows the checks; then each message is refused.
    metrics: {
      countChecks: () => judged.work(),
      countRecipient: () => {},
      countReceived: () => {},
    },
  } as unknown as MailReceiverOptions);
  let left = BURST;
  const receive = async (at: number) => {
    const remoteAddress = `192.0.2.${at}`;
    const arrival = { protocol: 'ESMTP', heloName: 'x.test', remoteAddress, sessionId: 's' };
    const envelope = { id: 'i', from: 'a@example.test', to: ['b@acme.test'], arrival };
    const pieces = async function* () {
      await turn();
      yield source;
      left -= 1;
      if (left === 0) answered.resolve();
    };
    await assert.rejects(receiver.receive(envelope, pieces()), { code: 'sender_rejected' });
  };
  await Promise.all(Array.from({ length: BURST }, (_, at) => receive(at)));
  assert.deepEqual([reading.end(), judged.end()], [IN_A_TURN, IN_A_TURN]);
});
