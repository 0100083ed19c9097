/** The receivers of docs/guides/webhooks.md, run as they stand there, and sent what Postroom signs. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { signRequest } from '../../src/mail/webhooks/send-webhook.ts';
import { readPage } from '../support/doc-pages.ts';
import { freePort } from '../support/free-port.ts';

const { blocks } = readPage('docs/guides/webhooks.md');
const folder = await mkdtemp(join(tmpdir(), 'postroom-receivers-'));
const children = new Set<ChildProcess>();
after(async () => {
  for (const child of children) child.kill('SIGKILL');
  await rm(folder, { recursive: true, force: true });
});

/** How the page says that each is started. */
const receivers = [
  { file: 'receiver.mjs', start: () => [process.execPath, 'receiver.mjs'] },
  { file: 'receiver.py', start: () => ['python3', 'receiver.py'] },
  {
    file: 'receiver.php',
    start: (port: string) => ['php', '-S', `127.0.0.1:${port}`, 'receiver.php'],
  },
];

async function startReceiver(file: string, command: (port: string) => string[], secret: string) {
  const text = blocks.find(({ label }) => label === file)?.text;
  assert.ok(text, `the page has no ${file}`);
  const port = String(await freePort());
  await writeFile(join(folder, file), text.replaceAll('9000', port));
  const [program = '', ...args] = command(port);
  const child = spawn(program, args, {
    cwd: folder,
    env: { PATH: process.env.PATH, WEBHOOK_SECRET: secret },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  children.add(child);
  let output = '';
  child.stdout?.setEncoding('utf8').on('data', (said: string) => {
    output += said;
  });
  const send = async (headers: Record<string, string>, body: string) =>
    (await fetch(`http://127.0.0.1:${port}/mail`, { method: 'POST', headers, body })).status;
  while (child.exitCode === null && !(await answers(() => send({}, '')))) await pause(50);
  return { send, output: () => output, child };
}

async function answers(call: () => Promise<unknown>): Promise<boolean> {
  return call().then(
    () => true,
    () => false,
  );
}

const body = JSON.stringify({
  type: 'message.received',
  data: { envelope: { from: 'bob@sender.test' }, subject: 'Grüße' },
});

for (const { file, start } of receivers) {
  test(`${file} accepts genuine webhooks and refuses others`, async () => {
    for (const secret of [`whsec_${Buffer.alloc(32, 9).toString('base64')}`, 'any other secret']) {
      const { send, output, child } = await startReceiver(file, start, secret);
      const now = Date.now();
      const good = signRequest({ id: 'id-1', secrets: [secret], body }, now);
      assert.equal(await send(good, body), 204);
      assert.equal(
        await send({ ...good, 'webhook-signature': `v1,AAAA ${good['webhook-signature']}` }, body),
        204,
      );
      assert.equal(await send(good, `${body} `), 401);
      assert.equal(await send({ ...good, 'webhook-id': 'id-2' }, body), 401);
      assert.equal(await send({ ...good, 'webhook-signature': 'v1,' }, body), 401);
      assert.equal(await send({}, body), 401);
      const wrong = signRequest({ id: 'id-1', secrets: ['another secret'], body }, now);
      assert.equal(await send(wrong, body), 401);
      for (const age of [-600_000, 600_000]) {
        assert.equal(
          await send(signRequest({ id: 'id-3', secrets: [secret], body }, now + age), body),
          401,
        );
      }
      while (!output().includes('bob@sender.test: Grüße') && child.exitCode === null)
        await pause(20);
      child.kill('SIGKILL');
      children.delete(child);
    }
  });
}

test('the receiver in JavaScript accepts a webhook once', async () => {
  const secret = 'any other secret';
  const { send, output, child } = await startReceiver(
    'receiver.mjs',
    receivers[0]?.start ?? (() => []),
    secret,
  );
  for (const id of ['id-1', 'id-1', 'id-2']) {
    assert.equal(await send(signRequest({ id, secrets: [secret], body }, Date.now()), body), 204);
  }
  while (output().split('\n').length < 4 && child.exitCode === null) await pause(20);
  assert.equal(output(), 'receiver listens\nbob@sender.test: Grüße\nbob@sender.test: Grüße\n');
  assert.equal(await readFile(join(folder, 'last.json'), 'utf8'), body);
  child.kill('SIGKILL');
  children.delete(child);
});
