/** `postroom rotate` on PostgreSQL, in the wrong order: a step is refused until each node was restarted since the last one. */
import assert from 'node:assert/strict';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { runHere } from '../support/commands.ts';
import { openTestDatabase } from '../support/databases.ts';
import { ROOT } from '../support/process.ts';
import { startTestService } from '../support/service.ts';

const EARLY =
  /^the node that runs on \S+ \(process \d+\) has not been restarted since the last step of the link-secret: restart each node/;

test('a secret signs, and the old one is dropped, only when each node that runs is ready for it', async () => {
  const { location } = await openTestDatabase('postgres');
  const own = { DATABASE_URL: location, DATA_DIR: await mkdtemp(join(ROOT, 'rotate-')) };
  const rotate = (...options: string[]) => runHere(['rotate', 'link-secret', ...options], own);
  const start = () => startTestService('postgres', { DATABASE_URL: location });
  let service = await start();
  const restart = async () => {
    await service.stop();
    service = await start();
  };
  const succeeds = async (...options: string[]) => {
    const { code, output } = await rotate(...options);
    assert.equal(code, 0, output);
  };
  const isEarly = async (...options: string[]) => {
    const { code, output } = await rotate(...options);
    assert.equal(code, 1, output);
    assert.match(output, EARLY);
  };
  await succeeds();
  await isEarly('--sign');
  await restart();
  await succeeds('--sign');
  await isEarly('--drop-old');
  await restart();
  await succeeds('--drop-old');
  // It starts with what is left.
  await restart();
  await service.stop();
});
