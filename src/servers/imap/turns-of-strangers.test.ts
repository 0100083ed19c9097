import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runCommand } from './run-command.ts';
import type { Session } from './session.ts';

test('the addresses of one link of IPv6 have one share of the turn of strangers', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const ended: string[] = [];
  const run = async (address: string) => {
    const told = new Set();
    const session = { channel: { address }, isLoggedIn: false, mistakes: 0, told };
    const onEnd = () => {
      ended.push(address);
      now += 2;
    };
    await runCommand(session as unknown as Session, ['x'], () => undefined, onEnd);
  };
  const asked: Promise<void>[] = [];
  for (const address of ['2001:db8::1', '2001:db8::2', '2001:db8:0:1::1']) {
    asked.push(run(address));
    await new Promise<void>((resolve) => process.nextTick(resolve));
  }
  await Promise.all(asked);
  assert.deepEqual(ended, ['2001:db8::1', '2001:db8:0:1::1', '2001:db8::2']);
});
