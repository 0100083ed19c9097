/** The connection that tells of changes: when it is given up. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Live } from '../../src/mail/live.ts';
import { type Socket, thisPlatform } from '../../src/mail/platform.ts';
import { VirtualClock } from '../../src/testing/testing.ts';

const MINUTE_MS = 60_000;

/** A client that connects at once, and a server that says what the test says. */
async function connect() {
  const clock = new VirtualClock();
  const sockets: Socket[] = [];
  const live = new Live({
    platform: {
      ...thisPlatform(),
      random: () => 0,
      after: (ms, call) => {
        const timer = clock.setTimeout(call, ms);
        return () => clock.clearTimeout(timer);
      },
      connect: () => {
        const socket: Socket = { onmessage: null, onclose: null, close: () => undefined };
        sockets.push(socket);
        return socket;
      },
    },
    baseUrl: 'https://mail.test',
    token: async () => 'token',
    heard: () => undefined,
    lost: () => undefined,
    tell: () => undefined,
  });
  live.start();
  await clock.advance(0);
  const say = (type: string) =>
    sockets.at(-1)?.onmessage?.({ data: JSON.stringify({ type, heartbeatSeconds: 30 }) });
  const beatFor = async (minutes: number) => {
    for (let half = 0; half < 2 * minutes; half++) {
      await clock.advance(MINUTE_MS / 2);
      say('heartbeat');
    }
  };
  /** @returns seconds until it connects anew */
  const untilNext = async () => {
    const { length } = sockets;
    for (let seconds = 0; ; seconds++) {
      if (sockets.length > length || seconds > 100) return seconds;
      await clock.advance(1000);
    }
  };
  return { live, clock, sockets, say, beatFor, untilNext };
}

test('a connection on which nothing comes any more is given up, as often as it happens', async () => {
  const { live, sockets, say, beatFor, untilNext } = await connect();
  for (let count = 1; count <= 3; count++) {
    say('hello');
    await beatFor(5);
    assert.deepEqual([live.isLive, sockets.length], [true, count]);
    assert.ok((await untilNext()) <= 66);
  }
});

test('a connection on which nothing comes from the beginning is given up, also after another one', async () => {
  const { live, sockets, say, untilNext } = await connect();
  for (let count = 1; count <= 3; count++) {
    say('hello');
    assert.deepEqual([live.isLive, sockets.length], [true, count]);
    assert.ok((await untilNext()) <= 66);
  }
});
