import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { BatchReceiver, SECRET } from './notifier/testing/receiver.ts';

const NOTIFIER = fileURLToPath(new URL('notifier.ts', import.meta.url));

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postroom-notifier-process-'));
});
after(() => rm(folder, { recursive: true }));

function run(env: Record<string, string>) {
  const child = spawn(process.execPath, [NOTIFIER], { cwd: folder, env, stdio: 'pipe' });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  child.stdout.resume();
  return { child, ended: once(child, 'close').then(([code]) => ({ code, said })) };
}

test('a start that cannot be says why in a line', async () => {
  const without = await run({ NOTIFIER_SPOOL: folder }).ended;
  assert.deepEqual(without.code, 1);
  assert.match(without.said, /^MAILSERVER_WEBHOOK_SECRET: expected .*\n$/);
  const nowhere = join(folder, 'nowhere');
  const missing = await run({ NOTIFIER_SPOOL: nowhere, MAILSERVER_WEBHOOK_SECRET: SECRET }).ended;
  assert.deepEqual(missing.code, 1);
  assert.match(missing.said, /^cannot start: .*nowhere.*\n$/);
});

test('it posts what is in the spool, and ends with 0 on SIGTERM', async () => {
  const receiver = await BatchReceiver.start();
  const line = { user: 'ann@acme.test', mailbox: 'INBOX', uidvalidity: '7', highestmodseq: '2' };
  await appendFile(join(folder, 'events'), `\n${JSON.stringify(line)}\n`);
  const { child, ended } = run({
    NOTIFIER_SPOOL: '.',
    NOTIFIER_URL: receiver.url,
    MAILSERVER_WEBHOOK_SECRET: SECRET,
  });
  await receiver.untilTold('INBOX');
  child.kill('SIGTERM');
  assert.deepEqual(await ended, { code: 0, said: '' });
  await receiver.stop();
});
