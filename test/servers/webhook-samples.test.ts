/** The samples of docs/routes.md, run as they stand there against requests that Postroom signed. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { signRequest } from '../../src/webhooks/sign-request.ts';

const page = await readFile(new URL('../../docs/routes.md', import.meta.url), 'utf8');
const folder = await mkdtemp(join(tmpdir(), 'postroom-samples-'));
after(() => rm(folder, { recursive: true, force: true }));

/** What each language adds to its sample to read a case and print its verdict. */
const languages = [
  {
    name: 'js',
    file: 'sample.mjs',
    command: process.execPath,
    call: `import { readFileSync } from 'node:fs';
const { secret, headers, body } = JSON.parse(readFileSync(0, 'utf8'));
console.log(isGenuine(secret, headers, body));`,
    start: '',
  },
  {
    name: 'python',
    file: 'sample.py',
    command: 'python3',
    call: `import json, sys
case = json.load(sys.stdin)
print(str(is_genuine(case["secret"], case["headers"], case["body"])).lower())`,
    start: '',
  },
  {
    name: 'php',
    file: 'sample.php',
    command: 'php',
    call: `$case = json_decode(stream_get_contents(STDIN), true);
echo json_encode(is_genuine($case['secret'], $case['headers'], $case['body']));`,
    start: '<?php\n',
  },
];

function requestSigned(secret: string, at: number) {
  const body = JSON.stringify({ type: 'message.received', text: 'Grüße' });
  return { secret, body, headers: signRequest({ id: 'id-1', secret, body }, at) };
}

for (const { name, file, command, call, start } of languages) {
  test(`the ${name} sample tells genuine requests from others`, async () => {
    const sample = new RegExp(`^\`\`\`${name}\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(page)?.[1];
    assert.ok(sample, 'the page has no sample');
    const path = join(folder, file);
    await writeFile(path, `${start}${sample}\n${call}\n`);
    const verdict = (input: object) =>
      execFileSync(command, [path], { input: JSON.stringify(input), encoding: 'utf8' }).trim();
    const now = Date.now();
    for (const secret of [`whsec_${Buffer.alloc(32, 9).toString('base64')}`, 'any other secret']) {
      const good = requestSigned(secret, now);
      assert.equal(verdict(good), 'true');
      assert.equal(verdict({ ...good, body: `${good.body} ` }), 'false');
      assert.equal(verdict({ ...good, secret: 'another secret' }), 'false');
      assert.equal(verdict({ ...good, headers: {} }), 'false');
      assert.equal(verdict(requestSigned(secret, now - 600_000)), 'false');
    }
  });
}
