/** The samples of the documentation, run as a reader would against a service of their own. */
import assert from 'node:assert/strict';
import { cp, mkdtemp, readdir, readFile, symlink } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { before, test } from 'node:test';
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
  type Finding,
  inLanguage,
  LANGUAGES,
  type Language,
  roleOf,
  runSamples,
} from '../support/doc-session.ts';
import { freePort } from '../support/free-port.ts';
import { listening, ROOT, start, startHere, stop } from '../support/process.ts';

/** What a page tells its reader to start Postroom with, where it differs from `npm start`. */
const started: Readonly<Record<string, Record<string, string>>> = {
  'docs/guides/webhooks.md': { OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8' },
  'docs/reference/metrics.md': { METRICS_PORT: '9464' },
};
const QUICKSTART = 'docs/quickstart.md';
/** Shows what the process that ran the quickstart has counted since. */
const COUNTS = 'docs/reference/metrics.md';
/** The ports that samples name; they are run on others, which are free. */
const PORTS = ['8080', '2525', '8081', '9000', '9464'];

/** What was compiled before; a reader's second start has that too. */
const { NODE_COMPILE_CACHE = join(ROOT, 'compiled') } = process.env;
const faster = { NODE_COMPILE_CACHE };

/** The number of each port as it is here: one after the other, services listen on the same. */
const ports = new Map<string, string>();
while (new Set(ports.values()).size < PORTS.length) {
  for (const port of PORTS) ports.set(port, String(await freePort()));
}
const local = (text: string) => text.replace(/\b\d{4}\b/g, (number) => ports.get(number) ?? number);

/** Knows no name, as the DNS knows none below .test (RFC 6761 section 6.2). */
const dns = await startDnsServer();
const pages = [readPage('README.md'), ...readPages()];

/** Files that some page shows: where another page uses one, it says where it is from. */
const files = pages.flatMap((page) => runnable(page).filter((block) => roleOf(block) === 'file'));

function runnable(page: Page): CodeBlock[] {
  return page.blocks
    .filter((block) => !notRun(page.path, block))
    .map((block) => ({ ...block, text: local(block.text) }));
}

/** A folder as a reader has it before the first start: the repository without data. */
async function makeFolder(name: string): Promise<string> {
  const folder = await mkdtemp(join(ROOT, `${name.replace(/\W+/g, '-')}-`));
  for (const part of ['src', 'docs', 'node_modules', 'package.json', '.env.example', 'postroom']) {
    await symlink(join(repository, part), join(folder, part));
  }
  return folder;
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
const samplesOf = (path: string) => readings.find(({ page }) => page.path === path)?.own ?? [];
/** Pages whose reader has done nothing before. */
const isFirst = (page: Page) => ['README.md', QUICKSTART].includes(page.path);

/** @param settings as a page says them */
function environmentOf(folder: string, settings: Record<string, string>): Record<string, string> {
  const env: Record<string, string> = { PORT: local('8080'), SMTP_PORT: local('2525') };
  for (const [key, value] of Object.entries(settings)) env[key] = local(value);
  return { ...env, DATA_DIR: join(folder, 'data'), DNS_SERVERS: dns.address, LOG_LEVEL: 'warn' };
}

function runIn(
  folder: string,
  settings: Record<string, string>,
  blocks: readonly CodeBlock[],
  timeout?: number,
) {
  return runSamples(blocks, {
    folder,
    env: {
      ...faster,
      ...environmentOf(folder, settings),
      PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
      HOME: folder,
      LANG: 'C.UTF-8',
    },
    ...(timeout !== undefined && { timeout }),
  });
}

/** Runs samples from the first start on, as the reader of a first page does. */
async function readFirst(name: string, blocks: readonly CodeBlock[]): Promise<Finding[]> {
  const folder = await makeFolder(name);
  const service = await startHere(environmentOf(folder, {}));
  const findings = await runIn(folder, {}, blocks);
  await service.stop();
  return findings;
}

/** What every page takes for granted: a folder in which the quickstart was done. */
interface Quickstarted {
  readonly folder: string;
  /** Samples that set again what it had set. */
  readonly again: readonly CodeBlock[];
  /** What was found in its samples, and in those of {@link COUNTS}, which are run after them. */
  readonly findings: readonly Finding[];
}

let quickstarted: Quickstarted;
before(async () => {
  const kept = 'set-by-the-quickstart';
  const sample = (text: string): CodeBlock => ({
    language: 'sh',
    label: undefined,
    answers: undefined,
    line: 0,
    text,
  });
  const keep = sample(`export -p | grep -E ' (URL|KEY|TOKEN)=' >${kept}\n`);
  const settings = started[COUNTS] ?? {};
  const folder = await makeFolder('quickstart');
  // A process, of which nothing but the quickstart is counted.
  const service = start({ ...faster, ...environmentOf(folder, settings) });
  await listening(service);
  const blocks = [...samplesOf(QUICKSTART), keep, ...samplesOf(COUNTS)];
  const findings = await runIn(folder, settings, blocks);
  await stop(service);
  quickstarted = { folder, again: [sample(`source ${kept}\n`), ...files], findings };
});

/** Runs samples for a reader who did the quickstart: in a copy of its folder. */
async function readOn(
  name: string,
  settings: Record<string, string>,
  blocks: readonly CodeBlock[],
  timeout?: number,
): Promise<Finding[]> {
  const folder = await makeFolder(name);
  for (const part of ['data', 'set-by-the-quickstart']) {
    await cp(join(quickstarted.folder, part), join(folder, part), { recursive: true });
  }
  const service = await startHere(environmentOf(folder, settings));
  const findings = await runIn(folder, settings, [...quickstarted.again, ...blocks], timeout);
  await service.stop();
  assert.deepEqual(await refusals(folder), [], 'answers that samples kept in files');
  return findings;
}

/** The answers in files of a folder that are errors: curl succeeds, and nobody sees them. */
async function refusals(folder: string): Promise<string[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.json'));
  const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')));
  return texts.filter((text) => text.startsWith('{"type":"/docs/reference/errors#'));
}

for (const { page, language, own } of readings) {
  if (!hasSamples(own)) continue;
  test(`the samples of ${page.path} do what the page says (${language})`, async () => {
    let findings: readonly Finding[];
    if ([QUICKSTART, COUNTS].includes(page.path)) {
      findings = quickstarted.findings.filter(({ block }) => own.includes(block));
    } else if (isFirst(page)) findings = await readFirst(page.path, own);
    else findings = await readOn(page.path, started[page.path] ?? {}, own);
    const said = findings.map(({ block, message }) => `line ${block.line}: ${message}`);
    assert.deepEqual(said, []);
  });
}

/** Milliseconds that the samples of all pages may take, one after the other, on a busy machine. */
const ALL_MS = 900_000;

const follow = readings.filter(
  ({ page, language, own }) =>
    language === 'curl' && hasSamples(own) && !isFirst(page) && !started[page.path],
);
// Each page comes before each other page in one of the two.
for (const [order, some] of [
  ['first to last', follow],
  ['last to first', follow.toReversed()],
] as const) {
  test(
    `the samples of the pages do their work after each other, ${order}`,
    {
      timeout: ALL_MS + 60_000,
    },
    () => readAll(order, some),
  );
}

async function readAll(name: string, some: typeof readings): Promise<void> {
  // All in one minute, which no reader is.
  const settings = { RATE_LIMIT_PER_MINUTE: '6000' };
  const blocks = some.flatMap(({ own }) => own);
  const findings = await readOn(name, settings, blocks, ALL_MS);
  // UIDs and tokens go on from what the pages before made; what fails or lacks something does not work.
  const failed = findings.filter(({ message }) =>
    /^(?:ended|said|after|had)|is not (?:there|JSON)/.test(message),
  );
  assert.deepEqual(
    failed.map(({ block, message }) => `line ${block.line} (${block.text}): ${message}`),
    [],
  );
}
