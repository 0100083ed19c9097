import assert from 'node:assert/strict';
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { BatchReceiver, SECRET } from '../test/support/notifier/receiver.ts';

const NOTIFIER = fileURLToPath(new URL('notifier.ts', import.meta.url));

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'postroom-notifier-process-'));
});
const children = new Set<ChildProcess>();
after(async () => {
  for (const child of children) child.kill('SIGKILL');
  await rm(folder, { recursive: true });
});

function run(env: Record<string, string>, stdout: 'ignore' | number = 'ignore') {
  const stdio: StdioOptions = ['ignore', stdout, 'pipe'];
  // To start fast.
  const { NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, [NOTIFIER], {
    cwd: folder,
    env: { ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }), ...env },
    stdio,
  });
  children.add(child);
  let said = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  return { child, ended: once(child, 'close').then(([code]) => ({ code, said })) };
}

test('a start that cannot be says why in a line', async () => {
  const without = await run({ NOTIFIER_SPOOL: folder }).ended;
  assert.equal(without.code, 78);
  assert.match(without.said, /^MAILSERVER_WEBHOOK_SECRET: expected .*\n$/);
  const refused = async (spool: string) => {
    const { code, said } = await run({ NOTIFIER_SPOOL: spool, MAILSERVER_WEBHOOK_SECRET: SECRET })
      .ended;
    assert.equal(code, 1);
    return said;
  };
  const nowhere = join(folder, 'nowhere');
  const expected = 'NOTIFIER_SPOOL: expected a writable folder, got';
  assert.equal(
    await refused(nowhere),
    `${expected} "${nowhere}" (ENOENT: no such file or directory)\n`,
  );
  const file = join(folder, 'file');
  await appendFile(file, '');
  assert.equal(await refused(file), `${expected} "${file}" (ENOTDIR: not a directory)\n`);
});

for (const log of ['/dev/null', '/dev/full']) {
  test(`with its log on ${log} it posts what is in the spool, and ends with 0 on SIGTERM`, async () => {
    const receiver = await BatchReceiver.start();
    const line = { user: 'ann@acme.test', mailbox: 'INBOX', uidvalidity: '7', highestmodseq: '2' };
    const spool = await mkdtemp(join(folder, 'spool-'));
    await appendFile(join(spool, 'events'), `\n${JSON.stringify(line)}\n`);
    const stdout = await open(log, 'w');
    const { child, ended } = run(
      {
        NOTIFIER_SPOOL: spool,
        NOTIFIER_URL: receiver.url,
        MAILSERVER_WEBHOOK_SECRET: SECRET,
      },
      stdout.fd,
    );
    // A notifier that ended would leave us waiting.
    await Promise.race([receiver.untilTold('INBOX'), ended]);
    child.kill('SIGTERM');
    assert.deepEqual(await ended, { code: 0, said: '' });
    await receiver.stop();
    await stdout.close();
  });
}
