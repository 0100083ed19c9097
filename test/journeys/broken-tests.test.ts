/** A file that breaks the run of the tests is named, and the run fails. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';

const suites = import.meta.resolve('../suites.ts');

/** What a run says of three files in one process, the second of which has this in a test. */
async function runWith(t: TestContext, code: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'postroom-broken-'));
  t.after(() => rm(folder, { recursive: true }));
  const files = ['first', 'broken', 'last'].map((name) => join(folder, `${name}.test.ts`));
  const write = (file: string, at: number) =>
    writeFile(
      file,
      `import { test } from 'node:test';\ntest('one', async () => {${at === 1 ? code : ''}});`,
    );
  await Promise.all(files.map(write));
  const run = `
    import { runSuites } from '${suites}';
    const groups = [{ name: 'three', files: ${JSON.stringify(files)} }];
    const passed = await runSuites({ groups, processes: 1, timeoutMs: 1000 });
    console.log(passed ? 'it passed' : 'it failed');`;
  const program = ['--input-type=module', '--eval', run];
  const { promise, resolve } = Promise.withResolvers<string>();
  execFile(process.execPath, program, (_, output) => resolve(output));
  return await promise;
}

for (const [what, code, said] of [
  ['fails', 'throw new Error("bad")', /broken\.test\.ts:2:1\n.*one[\s\S]*bad/],
  ['never ends', 'await new Promise(() => setInterval(() => {}, 1000));', /✖ one [\s\S]*left open/],
  ['leaves something open', 'setInterval(() => {}, 1000);', /left open: .*Timeout/],
  ['ends the process', 'process.exit();', /ended before its tests\n[\s\S]*broken\.test\.ts:2:/],
  ['sets an exit code', 'process.exitCode = 3;', /✖ three \(3\)/],
  ['leaves a rejection', 'Promise.reject(new Error("bad"));', /bad\n[\s\S]*broken\.test\.ts:2:/],
] as const) {
  test(`a run whose test ${what} fails, and says why at its end`, async (t) => {
    const output = await runWith(t, code);
    const [, end = ''] = output.split('took longest:');
    assert.match(end, said);
    assert.match(end, /^it failed$/m);
  });
}
