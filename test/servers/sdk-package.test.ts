/** The SDK as products install it: packed, installed into an empty folder, compiled, bundled, and run as its README says. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { build, transform } from 'esbuild';
import { sidebar } from '../../docs/.vitepress/sidebar.ts';
import { readPage } from '../support/doc-pages.ts';
import { freePort } from '../support/free-port.ts';
import { ROOT, run } from '../support/process.ts';
import { API_KEY, startTestService, type TestService } from '../support/service.ts';

const repository = fileURLToPath(new URL('../../', import.meta.url));
const folder = join(ROOT, 'product');
/** Octets, compressed, of what a bundler makes of an entry point. */
const BUDGETS = {
  '@postroom/sdk': 6 * 1024,
  '@postroom/sdk/mail': 25 * 1024,
  '@postroom/sdk/login': 3 * 1024,
  '@postroom/sdk/webhooks': 1024,
  '@postroom/sdk/indexeddb': 2 * 1024,
  '@postroom/sdk/testing': 12 * 1024,
};
/** A compiler of before the one of this repository. */
const TYPESCRIPT_5 = 'typescript-5@npm:typescript@5.9.3';

const execute = promisify(execFile);
const inFolder = { cwd: folder, encoding: 'utf8' } as const;

let service: TestService;
let tarball: string;
/** The pages of the entry points as they are in the repository, by name. */
let reference: Map<string, string>;
let samples: string[];
/** Those of the guides "Build an app" and "Follow everything in your backend". */
let guide: string[];
/** All of them, as they are imported. */
let entryPoints: string[];

before(async () => {
  await mkdir(folder);
  reference = await readReference();
  await execute('npm', ['run', '-s', 'sdk:build'], { cwd: repository });
  const pack = ['pack', './packages/sdk', '--silent', '--pack-destination', folder];
  const file = (await execute('npm', pack, { cwd: repository, encoding: 'utf8' })).stdout.trim();
  tarball = join(folder, file);
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  const quick = ['--prefer-offline', '--no-audit', '--no-fund'];
  const compiler = ['@types/node@24', TYPESCRIPT_5];
  await execute('npm', ['install', ...quick, tarball, ...compiler], inFolder);
  const readme = await readFile(join(folder, 'node_modules/@postroom/sdk/README.md'), 'utf8');
  const { exports } = JSON.parse(
    await readFile(join(folder, 'node_modules/@postroom/sdk/package.json'), 'utf8'),
  ) as { exports: Record<string, unknown> };
  const entries = Object.keys(exports).filter((name) => name !== './package.json');
  entryPoints = entries.map((name) => `@postroom/sdk${name.slice(1)}`);
  const used = entryPoints.map((entry, i) => `export * as entry${i} from '${entry}';\n`);
  await writeFile(join(folder, 'all.ts'), used.join(''));
  samples = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => code);
  assert.ok(samples.length >= 5, `${samples.length} samples`);
  await Promise.all(samples.map((code, i) => writeFile(join(folder, `sample-${i}.ts`), code)));
  guide = ['docs/guides/inbox-client.md', 'docs/guides/events.md'].flatMap((path) =>
    readPage(path)
      .blocks.filter(({ language }) => language === 'ts')
      .map(({ text }) => text),
  );
  assert.ok(guide.length >= 4);
  await Promise.all(guide.map((code, i) => writeFile(join(folder, `guide-${i}.ts`), code)));
  service = await startTestService('sqlite', { OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8' });
});

test('it holds what is published, and nothing else', async () => {
  const names = await readdir(join(folder, 'node_modules/@postroom/sdk'), { recursive: true });
  const odd = names.filter(
    (name) =>
      !/^(?:dist(?:\/[a-z]+)?(?:\/[\w-]+(?:\.d\.ts|\.js))?|README\.md|llms\.txt|package\.json)$/.test(
        name,
      ),
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
  test(`the samples of README and guide, and all entry points, compile with ${name}`, async () => {
    const strict = ['--strict', '--exactOptionalPropertyTypes', '--skipLibCheck', 'false'];
    const output = ['--noEmit', '--module', 'nodenext', '--target', 'es2023', '--types', 'node'];
    const ofGuide = guide.map((_, i) => `guide-${i}.ts`);
    const files = ['all.ts', ...samples.map((_, i) => `sample-${i}.ts`), ...ofGuide];
    const { stdout } = await execute(process.execPath, [compiler, ...strict, ...output, ...files], {
      ...inFolder,
    }).catch((error: { stdout: string }) => error);
    assert.equal(stdout, '');
  });
}

test('publint and arethetypeswrong find nothing', async () => {
  const tools = join(ROOT, 'package-tools');
  await mkdir(tools);
  const inTools = { cwd: tools, encoding: 'utf8' } as const;
  await writeFile(join(tools, 'package.json'), '{}');
  const quick = ['--prefer-offline', '--no-audit', '--no-fund'];
  const packages = ['publint@0.3.25', '@arethetypeswrong/cli@0.18.5'];
  await execute('npm', ['install', ...quick, ...packages], inTools);
  const tool = (name: string) => join(tools, 'node_modules/.bin', name);
  const lint = [tool('publint'), 'run', tarball, '--strict'];
  await execute(process.execPath, lint, inTools);
  await execute(process.execPath, [tool('attw'), tarball, '--profile', 'esm-only'], inTools);
});

test('its llms.txt names every export of each entry point', async () => {
  const text = await readFile(join(folder, 'node_modules/@postroom/sdk/llms.txt'), 'utf8');
  const pages = new Map(text.split(/^(?=# )/m).map((page) => [page.split('\n')[0], page]));
  const list = `const exported = {};
    for (const name of ${JSON.stringify(entryPoints)}) exported[name] = Object.keys(await import(name));
    console.log(JSON.stringify(exported));`;
  await writeFile(join(folder, 'list.mjs'), list);
  const { stdout } = await execute(process.execPath, ['list.mjs'], inFolder);
  for (const [entry, names] of Object.entries(JSON.parse(stdout) as Record<string, string[]>)) {
    const page = pages.get(`# ${entry}`) ?? assert.fail(entry);
    assert.ok(names.length > 0, entry);
    for (const name of names) assert.match(page, new RegExp(`^## ${name}$`, 'm'));
  }
  // Types of the API that an entry point exports by name.
  for (const name of ['Envelope', 'SearchMatch']) {
    assert.match(pages.get('# @postroom/sdk/mail') ?? '', new RegExp(`^interface ${name} {$`, 'm'));
  }
});

test('the pages of the reference are those that the build writes, one for each entry point', async () => {
  assert.deepEqual(await readReference(), reference, 'run npm run sdk:build');
  const titles = [...reference.values()].map((page) => page.split('\n')[0]);
  assert.deepEqual(titles.toSorted(), entryPoints.map((name) => `# ${name}`).toSorted());
  const listed = sidebar.flatMap(({ items }) => items).map(({ link }) => link);
  for (const name of reference.keys()) {
    assert.ok(listed.includes(`/reference/sdk/${name.replace('.md', '')}`), name);
  }
});

async function readReference(): Promise<Map<string, string>> {
  const pages = join(repository, 'docs/reference/sdk');
  const names = await readdir(pages);
  const texts = names.map(async (name) => {
    return [name, await readFile(join(pages, name), 'utf8')] as const;
  });
  return new Map(await Promise.all(texts));
}

test('no entry point needs the types of Node', async () => {
  const compiler = join(repository, 'node_modules/typescript/bin/tsc');
  const strict = ['--strict', '--exactOptionalPropertyTypes', '--skipLibCheck', 'false'];
  const output = ['--noEmit', '--module', 'nodenext', '--target', 'es2023', '--types', ''];
  const { stdout } = await execute(process.execPath, [compiler, ...strict, ...output, 'all.ts'], {
    ...inFolder,
  }).catch((error: { stdout: string }) => error);
  assert.equal(stdout, '');
});

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
  const isForPages = (code: string) => code.includes('/login');
  const runnable = samples.flatMap((code, i) =>
    (i === 1 || i >= 3) && !isForPages(code) ? [`sample-${i}.ts`] : [],
  );
  const outputs = [];
  for (const file of runnable) outputs.push(await runSample(file));
  assert.match(outputs[0] ?? '', /^ada@acme\.com\n1 0\n$/);
  assert.match(outputs[1] ?? '', /^account\.created ada@acme\.com\n$/);
  assert.match(outputs[2] ?? '', /^(?:cached|syncing|live) 0 \[\]$/m);
  assert.match(outputs[3] ?? '', /^claim it first\n$/);
  assert.equal(outputs[5], '1\n[ 1 ]\n');
});

test('the sample of mailboxes runs with the oldest Node', async () => {
  const tools = join(ROOT, 'node-20');
  await mkdir(tools);
  await writeFile(join(tools, 'package.json'), '{}');
  const name = `node-${process.platform}-${process.arch}`;
  const quick = ['--prefer-offline', '--no-audit', '--no-fund'];
  await execute('npm', ['install', ...quick, `${name}@20.19.0`], { cwd: tools });
  const code = samples.find((one) => one.includes('saveDraft')) ?? assert.fail('no sample');
  const { code: script } = await transform(code, { loader: 'ts', format: 'esm' });
  await writeFile(join(folder, 'oldest.js'), script);
  const output = await runSample('oldest.js', join(tools, 'node_modules', name, 'bin/node'));
  // It has no WebSocket.
  assert.match(output, /^polling 0 \[\]$/m);
});

test('the app of the guide reads, changes, and takes back', async () => {
  const { body } = await service.v2('POST', '/v2/domain', { user_id: 'u', domain: 'acme.test' });
  for (const { id } of body.domain.dns) {
    const mark = { user_id: 'u', id, status: 'verified' };
    await service.v2('POST', '/v2/domains/acme.test/dns/mark', mark);
  }
  const account = { user_id: 'u', domain: 'acme.test', local_part: 'ada', display_name: 'Ada' };
  const password = 'correct horse';
  await service.v2('POST', '/v2/email-accounts/create', { ...account, password });
  const mail = { from: 'bob@sender.test', to: 'ada@acme.test', subject: 'Hi', text: 'Hello, Ada.' };
  await service.send(mail);
  const output = await runSample('guide-0.ts');
  assert.match(output, /^\w+ 1 \[ 'Hi' \]\n(?:.*\n)*Hello, Ada\.$/m);
  assert.doesNotMatch(output, /^(?:move|flag|send) /m);
});

test('the backend of the guide follows events, and goes on where it was killed', async () => {
  const follow = guide.findIndex((code) => code.includes('user.events('));
  const environment = { POSTROOM_URL: service.url, POSTROOM_API_KEY: API_KEY };
  const user = { user_id: 'demo', display_name: 'A', domain: 'events.test' };
  const claim = { user_id: 'demo', domain: 'events.test' };
  const { body } = await service.v2('POST', '/v2/domain', claim);
  for (const { id } of body.domain.dns) {
    const mark = { user_id: 'demo', id, status: 'verified' };
    await service.v2('POST', '/v2/domains/events.test/dns/mark', mark);
  }
  /** Runs it until its last line is the one expected, and returns its lines. */
  const followUntil = async (line: string): Promise<string[]> => {
    const program = run(
      [process.execPath, join(folder, `guide-${follow}.ts`)],
      environment,
      'pipe',
    );
    while (!program.output().endsWith(`${line}\n`)) {
      assert.equal(program.child.exitCode, null, program.output());
      await once(program.child.stdout ?? program.child, 'data');
    }
    program.child.kill('SIGKILL');
    return (await program.ended()).output.trim().split('\n');
  };
  const first = 'domain.active events.test';
  assert.deepEqual(await followUntil(first), [first]);
  await service.v2('POST', '/v2/email-accounts/create', { ...user, local_part: 'ada' });
  const last = 'account.created ada@events.test';
  const lines = await followUntil(last);
  // It may have been killed before it kept the cursor of what it had done: at least once.
  assert.deepEqual(lines[0] === first ? lines.slice(1) : lines, [last]);
});

test('the receiver of the guide gets what is posted to it', async () => {
  const at = guide.findIndex((code) => code.includes('verifyEvent('));
  const port = await freePort();
  const file = join(folder, 'receiver.ts');
  await writeFile(file, (guide[at] ?? '').replace('9000', String(port)));
  const hook = { user_id: 'demo', url: `http://127.0.0.1:${port}/`, secret: 'a secret of both' };
  await service.v2('PUT', '/v2/event-hooks', hook);
  const program = run([process.execPath, file], { HOOK_SECRET: hook.secret }, 'pipe');
  const user = { user_id: 'demo', display_name: 'B', domain: 'events.test', local_part: 'bob' };
  const wait = async (line: string) => {
    while (!program.output().includes(line)) {
      assert.equal(program.child.exitCode, null, program.output());
      await once(program.child.stdout ?? program.child, 'data');
    }
  };
  await wait('receiver listens');
  await service.v2('POST', '/v2/email-accounts/create', user);
  await wait('account.created bob@events.test');
});

async function runSample(file: string, node = process.execPath): Promise<string> {
  const environment = { POSTROOM_URL: service.url, POSTROOM_API_KEY: API_KEY };
  const process_ = run([node, join(folder, file)], environment, 'pipe');
  const { code, output } = await process_.ended();
  assert.equal(code, 0, output);
  return output;
}

test('a program in CommonJS can require each entry point', async () => {
  const load = entryPoints.map((name) => `Object.keys(require('${name}')).length > 0`);
  await writeFile(join(folder, 'old.cjs'), `console.log([${load.join(', ')}].every(Boolean))`);
  assert.equal((await execute(process.execPath, ['old.cjs'], inFolder)).stdout, 'true\n');
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
    assert.doesNotMatch(Buffer.from(code).toString(), /\bnode:/);
  });
}
