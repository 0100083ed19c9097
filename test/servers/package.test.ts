/** The package as people install it: packed, installed into an empty folder from the registry, and run there. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { environment, ROOT, run, stop } from '../support/process.ts';

const repository = fileURLToPath(new URL('../../', import.meta.url));
const folder = join(ROOT, 'installed');
const program = join(folder, 'node_modules/.bin/postroom');

async function npm(cwd: string, ...args: string[]): Promise<string> {
  return (await promisify(execFile)('npm', args, { cwd, encoding: 'utf8' })).stdout;
}

before(async () => {
  await mkdir(folder);
  const packed = await npm(repository, 'pack', '--json', '--silent', '--pack-destination', folder);
  const file = /"filename": "([^"]+)"/.exec(packed)?.[1] ?? '';
  // `npm ci` has most of what it needs in npm's cache.
  const quick = ['--prefer-offline', '--no-audit', '--no-fund'];
  await npm(folder, 'install', '--prefix', folder, ...quick, join(folder, file));
});

test('the installed program tells its version', async () => {
  const { version } = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8'));
  assert.deepEqual(await run([program, '--version'], {}, 'pipe').ended(), {
    code: 0,
    output: `${version}\n`,
  });
});

test('it runs on the Node that was installed with it, where the own one of the machine is too old', async () => {
  const old = join(ROOT, 'old');
  await mkdir(old);
  await promisify(execFile)('ln', ['-s', '/bin/false', join(old, 'node')]);
  const PATH = `${old}:/usr/bin:/bin`;
  const { code, output } = await run([program, 'backup', '--help'], { PATH }, 'pipe').ended();
  assert.equal(code, 0, output);
  assert.match(output, /^Usage: postroom backup/);
});

test('it keeps what it compiled, and runs where it can keep nothing', async () => {
  const inTheWay = join(folder, 'node_modules/postroom/node_modules/.cache');
  const kept = join(inTheWay, 'compiled');
  await rm(inTheWay, { recursive: true, force: true });
  await mkdir(dirname(inTheWay), { recursive: true });
  await writeFile(inTheWay, 'a file');
  // The folder that the runner of the suites names would be used in place of the program's own.
  const env = { PATH: '/usr/bin:/bin', NODE_COMPILE_CACHE: '' };
  const help = () => run([program, 'backup', '--help'], env, 'pipe').ended();
  const { code, output } = await help();
  assert.equal(code, 0, output);
  assert.match(output, /^Usage: postroom backup/);
  await rm(inTheWay);
  assert.deepEqual(await help(), { code, output });
  assert.notDeepEqual(await readdir(kept), []);
});

test('every module of it loads', async () => {
  const load = `
    import { readdirSync } from 'node:fs';
    const root = ${JSON.stringify(join(folder, 'node_modules/postroom/dist'))};
    // Processes and threads run when they are loaded.
    const alone = /^(?:main|notifier|postroom)\\.js$|-thread\\.js$/;
    const names = readdirSync(root, { recursive: true });
    const modules = names.filter((name) => name.endsWith('.js') && !alone.test(name));
    for (const name of modules) await import(root + '/' + name);
    console.log(modules.length);`;
  const command = [process.execPath, '--input-type=module', '-e', load];
  const { code, output } = await run(command, {}, 'pipe').ended();
  assert.equal(code, 0, output);
  assert.ok(Number.parseInt(output, 10) > 200, output);
});

/** Subjects of what is found, once everything is indexed. */
async function search(url: string, token: string, text: string): Promise<string[]> {
  for (;;) {
    const answer = await fetch(`${url}/mail/search`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ text }),
    });
    assert.equal(answer.status, 200);
    // An answer of ours; what is looked up in it is asserted.
    const body = (await answer.json()) as {
      indexing?: boolean;
      matches: { envelope: { subject: string } }[];
    };
    if (!body.indexing) return body.matches.map(({ envelope }) => envelope.subject);
  }
}

test('its demo accepts and finds a message, serves the pages, and makes a backup', async () => {
  const env = { ...(await environment('demo')), DNS_SERVERS: '127.0.0.1:9' };
  const demo = run([program, 'demo', '--json'], env, 'pipe');
  while (!demo.output().includes('\n')) {
    assert.ok(demo.child.stdout && demo.child.exitCode === null, demo.output());
    await Promise.race([once(demo.child.stdout, 'data'), once(demo.child, 'close')]);
  }
  const { url, token } = JSON.parse(demo.output());
  assert.deepEqual(await search(url, token, 'Ada'), ['Hello']);
  for (const [path, title] of [
    ['docs/quickstart', 'Quickstart'],
    ['console', 'Console'],
    ['webmail', 'Mail'],
  ] as const) {
    const page = await fetch(`${url}/${path}`);
    const html = await page.text();
    assert.match(html, new RegExp(`<title>${title}`), path);
    const script = /src="(\/(?:docs|console|webmail)\/assets\/[^"]+\.js)"/.exec(html)?.[1];
    assert.ok(script, html);
    assert.equal((await fetch(`${url}${script}`)).status, 200, script);
  }
  const { code, output } = await run(
    [program, 'backup', join(ROOT, 'backup')],
    env,
    'pipe',
  ).ended();
  assert.equal(code, 0, output);
  await stop(demo);
});
