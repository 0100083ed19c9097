/** The SDK as products install it: packed, installed into an empty folder, compiled, bundled, and run as its README says. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { ROOT, run } from '../support/process.ts';
import { API_KEY, startTestService, type TestService } from '../support/service.ts';

const repository = fileURLToPath(new URL('../../', import.meta.url));
const folder = join(ROOT, 'product');
/** Octets, compressed, of what a bundler makes of an entry point. */
const BUDGETS = {
  '@postroom/sdk': 6 * 1024,
  '@postroom/sdk/mail': 25 * 1024,
  '@postroom/sdk/webhooks': 1024,
};
/** A compiler of before the one of this repository. */
const TYPESCRIPT_5 = 'typescript-5@npm:typescript@5.9.3';

const execute = promisify(execFile);
const inFolder = { cwd: folder, encoding: 'utf8' } as const;

let service: TestService;
let samples: string[];

before(async () => {
  await mkdir(folder);
  await execute('npm', ['run', '-s', 'sdk:build'], { cwd: repository });
  const pack = ['pack', './packages/sdk', '--silent', '--pack-destination', folder];
  const file = (await execute('npm', pack, { cwd: repository, encoding: 'utf8' })).stdout.trim();
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  const quick = ['--prefer-offline', '--no-audit', '--no-fund'];
  const compiler = ['@types/node@24', TYPESCRIPT_5];
  await execute('npm', ['install', ...quick, join(folder, file), ...compiler], inFolder);
  const readme = await readFile(join(folder, 'node_modules/@postroom/sdk/README.md'), 'utf8');
  samples = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => code);
  assert.ok(samples.length >= 5, `${samples.length} samples`);
  await Promise.all(samples.map((code, i) => writeFile(join(folder, `sample-${i}.ts`), code)));
  service = await startTestService('sqlite');
});

test('it holds what is published, and nothing else', async () => {
  const names = await readdir(join(folder, 'node_modules/@postroom/sdk'), { recursive: true });
  const odd = names.filter(
    (name) =>
      !/^(?:dist(?:\/[a-z]+)?(?:\/[\w-]+(?:\.d\.ts|\.js))?|README\.md|package\.json)$/.test(name),
  );
  assert.deepEqual(odd, []);
  const installed = await readdir(join(folder, 'node_modules'));
  const known = [
    '.bin',
    '.package-lock.json',
    '@postroom',
    '@types',
    'typescript-5',
    'undici-types',
  ];
  assert.deepEqual(
    installed.filter((name) => !known.includes(name)),
    [],
  );
});

for (const [name, compiler] of [
  ['TypeScript of this repository', join(repository, 'node_modules/typescript/bin/tsc')],
  ['TypeScript 5.9', join(folder, 'node_modules/typescript-5/bin/tsc')],
] as const) {
  test(`the samples of its README compile with ${name}`, async () => {
    const strict = ['--strict', '--exactOptionalPropertyTypes', '--skipLibCheck', 'false'];
    const output = ['--noEmit', '--module', 'nodenext', '--target', 'es2023', '--types', 'node'];
    const files = samples.map((_, i) => `sample-${i}.ts`);
    const { stdout } = await execute(process.execPath, [compiler, ...strict, ...output, ...files], {
      ...inFolder,
    }).catch((error: { stdout: string }) => error);
    assert.equal(stdout, '');
  });
}

test('the first sample puts a domain and an account online', async () => {
  const [code = ''] = samples;
  // DNS has no records of acme.com: the records are marked in place of a wait for them.
  const marked = code.replace(
    'await user.domains.waitUntilActive',
    `for (const { id } of domain.dns) {
      const body = { user_id: 'u_42', id, status: 'verified' } as const;
      await postroom.call('markDnsRecord', { path: { domain: 'acme.com' }, body });
    }
    const { domains } = user;
    domains.verify = (name, options) => domains.get(name, options);
    await domains.waitUntilActive`,
  );
  assert.notEqual(marked, code);
  await writeFile(join(folder, 'first.ts'), marked);
  const output = await runSample('first.ts');
  assert.match(output, /^MX @ /m);
  assert.match(output, /^ada@acme\.com \S+$/m);
  assert.match(output, /^active\nada@acme\.com \S+\ntrue$/m);
});

test('the samples of lists, mailboxes, errors, all other operations and tests run', async () => {
  const runnable = samples.map((_, i) => `sample-${i}.ts`).filter((_, i) => i === 1 || i >= 3);
  const outputs = [];
  for (const file of runnable) outputs.push(await runSample(file));
  assert.match(outputs[0] ?? '', /^ada@acme\.com\n1 0\n$/);
  assert.match(outputs[1] ?? '', /^(?:cached|syncing|live) 0 \[\]$/m);
  assert.match(outputs[2] ?? '', /^claim it first\n$/);
  assert.equal(outputs[4], '503\n200\n');
});

async function runSample(file: string): Promise<string> {
  const environment = { POSTROOM_URL: service.url, POSTROOM_API_KEY: API_KEY };
  const process_ = run([process.execPath, join(folder, file)], environment, 'pipe');
  const { code, output } = await process_.ended();
  assert.equal(code, 0, output);
  return output;
}

test('a program in CommonJS can require it', async () => {
  const load = 'console.log(typeof require("@postroom/sdk").Postroom)';
  await writeFile(join(folder, 'old.cjs'), load);
  assert.equal((await execute(process.execPath, ['old.cjs'], inFolder)).stdout, 'function\n');
});

for (const [entry, budget] of Object.entries(BUDGETS)) {
  test(`a bundler finds nothing of Node in ${entry}, and at most ${budget} bytes`, async () => {
    const bundled = await build({
      stdin: { contents: `export * from '${entry}'`, resolveDir: folder },
      bundle: true,
      minify: true,
      format: 'esm',
      platform: 'browser',
      write: false,
    });
    const [code = new Uint8Array()] = bundled.outputFiles.map(({ contents }) => contents);
    const { length } = gzipSync(code);
    assert.ok(length <= budget, `${length} bytes`);
    assert.ok(!Buffer.from(code).includes('node:'));
  });
}
