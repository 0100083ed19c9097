/**
 * Runs test files, those of one group of folders in one process: loading the service takes longer than most of them
 * do, and what the files before used is compiled. A group that passes has one line; of one that fails everything is
 * shown, and at the end of all once more why.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import pLimit from 'p-limit';
import { TIME_MARK } from './file-times.ts';

interface Suites {
  /** In the order in which they begin: what takes longest should not be what begins last. */
  readonly groups: readonly Group[];
  /** Processes at once. */
  readonly processes: number;
  /** After which one test fails. */
  readonly timeoutMs: number;
  readonly environment?: NodeJS.ProcessEnv;
}

/** Files that one process runs, one after the other. */
export interface Group {
  readonly name: string;
  readonly files: readonly string[];
  /** Beside that of all. */
  readonly environment?: NodeJS.ProcessEnv;
}

interface Grouping {
  /** Those that take longest, and begin first. */
  readonly longest?: readonly string[];
  /** Those that share a process although they would have one of their own, by its name. */
  readonly together?: Readonly<Record<string, readonly string[]>>;
  /** Folders that share a process: what they load is the same. */
  readonly folders?: readonly (readonly string[])[];
}

/** Milliseconds after which a process is killed, whose tests ended long ago: what they left open keeps it. */
const GROUP_MS = 1_800_000;

/** Files of which the end says how long their tests took. */
const SLOWEST = 10;

/** Characters that the end of a run shows of why the tests of one process failed. */
const REASONS = 6000;

const COUNTS = ['tests', 'pass', 'fail', 'cancelled', 'skipped'] as const;
type Counts = Record<(typeof COUNTS)[number], number>;

/**
 * Runs all files, and says at the end how many tests there were, in the words of Node's own summary.
 *
 * @returns whether all passed
 */
export async function runSuites(suites: Suites): Promise<boolean> {
  const started = performance.now();
  const limit = pLimit(suites.processes);
  const outcomes = await Promise.all(
    suites.groups.map((group) => limit(() => runGroup(group, suites))),
  );
  const times = outcomes.flatMap((outcome) => outcome.times).toSorted((a, b) => b.ms - a.ms);
  console.log(`The ${SLOWEST} files whose tests took longest:`);
  for (const { ms, file } of times.slice(0, SLOWEST)) {
    console.log(`  ${(ms / 1000).toFixed(1).padStart(6)} s  ${relative(process.cwd(), file)}`);
  }
  const total = (name: keyof Counts) => outcomes.reduce((sum, { counts }) => sum + counts[name], 0);
  for (const { reasons } of outcomes) if (reasons) console.log(reasons);
  for (const name of COUNTS) console.log(`ℹ ${name} ${total(name)}`);
  console.log(`ℹ duration_ms ${Math.round(performance.now() - started)}`);
  return outcomes.every(({ passed }) => passed);
}

async function runGroup(group: Group, { timeoutMs, environment }: Suites) {
  const { name, files } = group;
  const started = performance.now();
  const program = [
    ...['--import', import.meta.resolve('./support/cheap-secrets.ts')],
    // The runner does not heed its own option for tests of its process.
    `--test-timeout=${timeoutMs}`,
    fileURLToPath(new URL('run-files.ts', import.meta.url)),
  ];
  const child = spawn(process.execPath, [...program, ...files], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: GROUP_MS,
    killSignal: 'SIGKILL',
    env: {
      ...process.env,
      NODE_COMPILE_CACHE: resolve('node_modules/.cache/compiled'),
      ...environment,
      ...group.environment,
    },
  });
  const [written, errors, [code, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ]);
  const { output, times } = takeTimes(written);
  const counts = readCounts(output);
  // Tests that never ran, because the process ended before, are not among the counts.
  const passed = code === 0 && counts.tests > 0;
  if (!passed && counts.fail + counts.cancelled === 0) counts.fail = 1;
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  // The word of Node's summary stands in the output of each process: only the sums are to have it.
  const shown = output.replaceAll(/^ℹ (?=\w+ \d)/gm, '  ');
  if (!passed) console.log(shown + errors);
  console.log(
    `${passed ? '✔' : '✖'} ${name}: ${counts.pass} of ${counts.tests} passed, ${seconds} s`,
  );
  const reasons = passed ? '' : `✖ ${name} (${code ?? signal})\n${readReasons(shown + errors)}`;
  return { passed, counts, times, reasons };
}

/** Reads from Node's output why tests failed; where no test did, how it ended. */
function readReasons(output: string): string {
  const at = output.lastIndexOf('✖ failing tests:');
  return at < 0 ? output.slice(-REASONS) : output.slice(at, at + REASONS);
}

/** Takes the lines of `file-times.ts` out of what a process wrote. */
function takeTimes(written: string) {
  const lines = new RegExp(`^${TIME_MARK} (\\d+) (.*)\n`, 'gm');
  const times = Array.from(written.matchAll(lines), ([, ms, file = '']) => ({
    ms: Number(ms),
    file,
  }));
  return { output: written.replaceAll(lines, ''), times };
}

/** Reads the summary at the end of Node's output. */
function readCounts(output: string): Counts {
  const read = (name: string) =>
    Number(new RegExp(`^ℹ ${name} (\\d+)$`, 'm').exec(output)?.[1] ?? 0);
  return Object.fromEntries(COUNTS.map((name) => [name, read(name)])) as Counts;
}

/**
 * Journeys that share a process: to load the service takes longer than most of them do. The first two groups start no
 * other process and measure no time.
 */
export const journeysTogether = {
  'journeys of products and apps': pathsOf([
    'console-search',
    'deploy',
    'dns-verification',
    'documentation',
    'domains',
    'email-accounts',
    'errors',
    'flood',
    'hostile-mail',
    'mail',
    'mail-append',
    'mail-changes',
    'mail-content',
    'mail-drafts',
    'mail-lists',
    'mail-search',
    'metrics',
    'missing-body',
    'openapi',
    'realtime',
    'reference-examples',
    'repeated-requests',
    'routes',
    'spam',
    'two-devices',
    'usage',
  ]),
  'journeys of mail programs': pathsOf([
    'client-settings',
    'imap',
    'imap-extensions',
    'imap-mailboxes',
    'imap-model',
    'imap-notify',
    'imap-order',
    'mail-send',
    'submission',
  ]),
  'journeys of the process and its folder': pathsOf(['start', 'data-folder']),
  'journeys of commands': pathsOf(['backup', 'program']),
};

function pathsOf(names: readonly string[]): string[] {
  return names.map((name) => `test/journeys/${name}.test.ts`);
}

/**
 * Groups files by folder, those first that take longest, then journeys and large ones: what begins last should not
 * be what takes longest.
 */
export function groupFiles(
  files: readonly string[],
  { longest = [], together = {}, folders = [] }: Grouping,
): Group[] {
  const shared = new Map(
    Object.entries(together).flatMap(([name, members]) => members.map((one) => [one, name])),
  );
  const groups = Map.groupBy(files, (file) => {
    const own = processOf(file, shared.get(file));
    return (folders.find((one) => one.includes(own)) ?? [own]).join(', ');
  });
  const sizeOf = (group: Group) => group.files.reduce((sum, file) => sum + statSync(file).size, 0);
  const rankOf = ({ name }: Group) =>
    Number(name.startsWith('test/')) + Number(longest.includes(name));
  return [...groups]
    .map(([name, members]) => ({ name, files: members }))
    .toSorted((a, b) => rankOf(b) - rankOf(a) || sizeOf(b) - sizeOf(a));
}

function processOf(file: string, shared: string | undefined): string {
  if (shared !== undefined) return shared;
  if (standsAlone(file)) return file;
  return file.startsWith('src/') ? file.split('/').slice(0, 2).join('/') : dirname(file);
}

/**
 * Whether a file has a process of its own: a journey, whose service would run beside those of the others; hooks
 * around each test, which would run around those of the others; a built-in module that is replaced; garbage that is
 * collected on request, which takes the longer the more the others have loaded. Journeys that do not mind are named in
 * {@link Grouping.together}.
 */
function standsAlone(file: string): boolean {
  const source = readFileSync(file, 'utf8');
  return (
    file.startsWith('test/') ||
    /^(before|after)Each\(|syncBuiltinESMExports|--expose-gc/m.test(source)
  );
}
