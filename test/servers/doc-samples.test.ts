/** The samples of the documentation, run as a reader would against a service of their own. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { startDnsServer } from '../support/dns-server.ts';
import { notRun } from '../support/doc-not-run.ts';
import {
  type CodeBlock,
  type Page,
  readPage,
  readPages,
  repository,
} from '../support/doc-pages.ts';
import {
  inLanguage,
  LANGUAGES,
  type Language,
  roleOf,
  runSamples,
} from '../support/doc-session.ts';
import { freePort } from '../support/free-port.ts';

/** What a page tells its reader to start Postroom with, where it differs from `npm start`. */
const started: Readonly<Record<string, Record<string, string>>> = {
  'docs/guides/webhooks.md': { OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8' },
  'docs/reference/metrics.md': { METRICS_PORT: '9464' },
};
/** The ports that samples name; each page is run on others, which are free. */
const PORTS = ['8080', '2525', '8081', '9000', '9464'];

const ROOT = await mkdtemp(join(tmpdir(), 'postroom-samples-'));
const services = new Set<ChildProcess>();
after(async () => {
  for (const service of services) service.kill('SIGKILL');
  await rm(ROOT, { recursive: true, force: true });
});

/** What was compiled for the page before; a reader's second start has that too. */
const faster = { NODE_COMPILE_CACHE: join(ROOT, 'compiled') };

/** Knows no name, as the DNS knows none below .test (RFC 6761 section 6.2). */
const dns = await startDnsServer();
const pages = [readPage('README.md'), ...readPages()];
/** What every page takes for granted: the quickstart was done. */
const quickstart = runnable(pages.find(({ path }) => path === 'docs/quickstart.md'));

/** Files that some page shows: where another page uses one, it says where it is from. */
const files = pages.flatMap((page) => runnable(page).filter((block) => roleOf(block) === 'file'));

function runnable(page: Page | undefined): CodeBlock[] {
  assert.ok(page);
  return page.blocks.filter((block) => !notRun(page.path, block));
}

/** A folder as a reader has it before the first start: the repository without data. */
async function makeFolder(name: string): Promise<string> {
  const folder = await mkdtemp(join(ROOT, `${name.replace(/\W+/g, '-')}-`));
  for (const part of ['src', 'docs', 'node_modules', 'package.json', '.env.example', 'postroom']) {
    await symlink(join(repository, part), join(folder, part));
  }
  return folder;
}

async function startService(folder: string, env: Record<string, string>): Promise<ChildProcess> {
  const service = spawn(process.execPath, ['src/main.ts'], {
    cwd: folder,
    env: { ...faster, ...env, DNS_SERVERS: dns.address, LOG_LEVEL: 'warn' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  services.add(service);
  let output = '';
  service.stdout?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  const ended = once(service, 'exit');
  while (!output.includes('Postroom listens')) {
    assert.ok(service.stdout && service.exitCode === null, `the service ended: ${output}`);
    await Promise.race([once(service.stdout, 'data'), ended]);
  }
  return service;
}

async function stopService(service: ChildProcess): Promise<void> {
  service.kill('SIGTERM');
  const [code] = await once(service, 'exit');
  services.delete(service);
  assert.equal(code, 0);
}

/** A page once for each language that it has samples in. */
const readings = pages.flatMap((page) => {
  const blocks = runnable(page);
  const hasPrograms = blocks.some((block) => roleOf(block) === 'program');
  const languages: readonly Language[] = hasPrograms ? LANGUAGES : ['curl'];
  return languages.map((language) => ({ page, language, own: inLanguage(blocks, language) }));
});

const hasSamples = (blocks: readonly CodeBlock[]) =>
  blocks.some((block) => ['run', 'program'].includes(roleOf(block)));
const isFirst = (page: Page) => ['README.md', 'docs/quickstart.md'].includes(page.path);

/** A service that runs samples, each time on other ports. */
async function startReading(name: string, settings: Record<string, string>) {
  const ports = new Map<string, string>();
  while (ports.size < PORTS.length || new Set(ports.values()).size < PORTS.length) {
    for (const port of PORTS) ports.set(port, String(await freePort()));
  }
  const local = (text: string) =>
    text.replace(/\b\d{4}\b/g, (number) => ports.get(number) ?? number);
  const folder = await makeFolder(name);
  const env: Record<string, string> = { PORT: local('8080'), SMTP_PORT: local('2525') };
  for (const [key, value] of Object.entries(settings)) env[key] = local(value);
  const service = await startService(folder, env);
  const run = (blocks: readonly CodeBlock[], timeout?: number) =>
    runSamples(
      blocks.map((block) => ({ ...block, text: local(block.text) })),
      {
        folder,
        env: {
          ...faster,
          ...env,
          PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
          HOME: folder,
          LANG: 'C.UTF-8',
        },
        ...(timeout !== undefined && { timeout }),
      },
    );
  return { service, run };
}

for (const { page, language, own } of readings) {
  if (!hasSamples(own)) continue;
  test(`the samples of ${page.path} do what the page says (${language})`, async () => {
    const { service, run } = await startReading(page.path, started[page.path] ?? {});
    const findings = await run(isFirst(page) ? own : [...quickstart, ...files, ...own]);
    await stopService(service);
    const said = findings.map(({ block, message }) => `line ${block.line}: ${message}`);
    assert.deepEqual(said, []);
  });
}

/** Milliseconds that the samples of all pages may take, one after the other, on a busy machine. */
const ALL_MS = 900_000;

test('the samples of the pages do their work in any order, after each other', {
  timeout: ALL_MS + 60_000,
}, async (t) => {
  const some = readings.filter(
    ({ page, language, own }) =>
      language === 'curl' && hasSamples(own) && !isFirst(page) && !started[page.path],
  );
  const order = some
    .map((reading) => ({ reading, at: Math.random() }))
    .toSorted((one, other) => one.at - other.at);
  t.diagnostic(order.map(({ reading }) => reading.page.path).join(' '));
  // All in one minute, which no reader is.
  const { service, run } = await startReading('any order', { RATE_LIMIT_PER_MINUTE: '6000' });
  const blocks = [...quickstart, ...files, ...order.flatMap(({ reading }) => reading.own)];
  const findings = await run(blocks, ALL_MS);
  await stopService(service);
  // UIDs and tokens go on from what the pages before made; what fails or lacks something does not work.
  const failed = findings.filter(({ message }) =>
    /^(?:ended|said|after|had)|is not (?:there|JSON)/.test(message),
  );
  assert.deepEqual(
    failed.map(({ block, message }) => `line ${block.line} (${block.text}): ${message}`),
    [],
  );
});
