/**
 * Runs the samples of a page as a reader does who pastes them one after the other.
 *
 * - A `sh` block is run in the page's one shell: what it sets, later blocks find. It has to succeed
 *   and to write nothing to stderr.
 * - A `sh [another terminal]` block is run in the background until the page ends.
 * - A block labelled with a file name (`js [watch.mjs]`) is written to that file.
 * - Of samples in several languages (`sh [curl]`, `js [JavaScript]`, `python [Python]`) the reader follows one:
 *   {@link inLanguage}. A program has to succeed as a `sh` block has to.
 * - A `json`, `jsonl` or `text` block is the output of the `sh` block before it or, labelled
 *   `[another terminal]`, the next lines of what runs there, which are waited for.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { compareJson, compareLines, readJson } from './compare-output.ts';
import type { CodeBlock } from './doc-pages.ts';

const OTHER = 'another terminal';
const OUTPUT = new Set(['json', 'jsonl', 'text']);

export type Role =
  | 'run'
  | 'program'
  | 'background'
  | 'file'
  | 'output'
  | 'background output'
  /** Shows an answer that is not to be had here: held against the schema. */
  | 'answer'
  | 'other';

/** The languages that a sample is shown in, and what runs a file of each; the shell runs its own. */
const PROGRAMS: Readonly<Record<string, { readonly file: string; readonly command: string }>> = {
  JavaScript: { file: 'sample.mjs', command: 'node' },
  Python: { file: 'sample.py', command: 'python3' },
};
const SHELL = 'curl';
export type Language = 'curl' | 'JavaScript' | 'Python';
export const LANGUAGES: readonly Language[] = ['curl', 'JavaScript', 'Python'];

/**
 * The blocks that a reader of one language runs. The output that a page shows is that of curl: a program writes
 * what it wants.
 */
export function inLanguage(blocks: readonly CodeBlock[], language: Language): CodeBlock[] {
  let isProgram = false;
  return blocks.filter((block) => {
    const role = roleOf(block);
    if (isProgram && role === 'output') return false;
    const isOffered = LANGUAGES.some((one) => one === block.label);
    if (role === 'run' || role === 'program') isProgram = isOffered && language !== SHELL;
    return !isOffered || block.label === language;
  });
}

/** What becomes of a block. */
export function roleOf({ language, label, answers }: CodeBlock): Role {
  if (answers !== undefined) return 'answer';
  if (label !== undefined && PROGRAMS[label]) return 'program';
  if (label !== undefined && label !== OTHER && label !== SHELL) return 'file';
  if (language === 'sh') return label === OTHER ? 'background' : 'run';
  if (OUTPUT.has(language)) return label === OTHER ? 'background output' : 'output';
  return 'other';
}

export interface SessionOptions {
  /** Where the shell starts. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  /** Milliseconds for all of it. */
  readonly timeout?: number;
}

export interface Finding {
  readonly block: CodeBlock;
  readonly message: string;
}

/** Runs the blocks of a page and says what did not come as the page says; empty if all did. */
export async function runSamples(
  blocks: readonly CodeBlock[],
  { folder, env, timeout = 150_000 }: SessionOptions,
): Promise<Finding[]> {
  const notes = join(folder, '.samples');
  await mkdir(notes, { recursive: true });
  const plan = blocks.map((block) => ({ block, role: roleOf(block) }));
  const script = [WAIT];
  let other = -1;
  let otherLines = 0;
  for (const [index, { block, role }] of plan.entries()) {
    const at = join(notes, String(index));
    await writeFile(at, block.text);
    if (role === 'file') script.push(`cp ${at} ${join(folder, block.label ?? '')}`);
    if (role === 'run') script.push(`source ${at} >${at}.out 2>${at}.err; echo $? >${at}.code`);
    const program = role === 'program' && PROGRAMS[block.label ?? ''];
    if (program) {
      script.push(`cp ${at} ${program.file}`);
      script.push(`${program.command} ${program.file} >${at}.out 2>${at}.err; echo $? >${at}.code`);
    }
    if (role === 'background') {
      script.push(`source ${at} >${at}.out 2>${at}.err &`);
      [other, otherLines] = [index, 0];
    }
    if (role === 'background output') {
      otherLines += valuesOf(block).length;
      script.push(`wait_for ${join(notes, String(other))}.out ${otherLines}`);
    }
  }
  const shell = spawn('bash', ['--noprofile', '--norc', '-c', script.join('\n')], {
    cwd: folder,
    env,
    // A group of its own: what runs in the background ends with it.
    detached: true,
    stdio: 'ignore',
  });
  const late = AbortSignal.timeout(timeout);
  late.addEventListener('abort', () => end(shell.pid));
  const [code] = await once(shell, 'exit');
  end(shell.pid);
  const findings = await judge(plan, notes);
  if (code !== null || !late.aborted) return findings;
  // Samples after this one did not begin: only it says why.
  const [stuck] = findings.filter(({ message }) => message.startsWith(UNFINISHED));
  return stuck ? [{ ...stuck, message: `after ${timeout} ms it ${stuck.message}` }] : findings;
}

/** What is said of a sample that did not end. */
const UNFINISHED = 'had not ended';

/** Waits for so many lines of a file, a minute at most: programs may take long to start on a busy machine. */
const WAIT = `wait_for() {
  for _ in $(seq 600); do
    [ "$(wc -l <"$1")" -ge "$2" ] && return
    sleep 0.1
  done
}`;

function end(group: number | undefined): void {
  if (group === undefined) return;
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // Nothing was left of it.
  }
}

function valuesOf({ language, text }: CodeBlock): string[] {
  return language === 'json' ? [text] : text.trimEnd().split('\n');
}

async function judge(
  plan: readonly { readonly block: CodeBlock; readonly role: Role }[],
  notes: string,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  let output = '';
  let other: string[] = [];
  for (const [index, { block, role }] of plan.entries()) {
    const at = join(notes, String(index));
    const find = (message: string | undefined) => {
      if (message !== undefined) findings.push({ block, message });
    };
    if (role === 'run' || role === 'program') {
      output = await read(`${at}.out`);
      const code = (await read(`${at}.code`)).trim();
      const complaint = await read(`${at}.err`);
      const outcome = code === '' ? UNFINISHED : `ended with ${code}`;
      if (code !== '0') find(`${outcome}: ${complaint}${output}`);
      else if (complaint) find(`said ${complaint}`);
      const shown = plan[index + 1]?.role === 'output';
      if (!shown && /"code": ?"/.test(output)) find(`failed: ${output}`);
    } else if (role === 'background') {
      other = (await read(`${at}.out`)).split('\n');
      const complaint = await read(`${at}.err`);
      if (complaint) find(`said ${complaint}`);
    } else if (role === 'output') find(compare(block, output));
    else if (role === 'background output') {
      find(compare(block, other.splice(0, valuesOf(block).length).join('\n')));
    }
  }
  return findings;
}

async function read(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '');
}

/** How an output differs from the one that the page shows. */
function compare(block: CodeBlock, output: string): string | undefined {
  if (block.language === 'text') return compareLines(block.text, output);
  const lines = output.trimEnd().split('\n');
  if (block.language === 'json') {
    // Of several calls, the page shows what the last answered.
    const actual = readJson(output) ?? readJson(lines.at(-1) ?? '');
    if (actual === undefined) return `is not JSON: ${output}`;
    const difference = compareJson(JSON.parse(block.text), actual.value);
    return difference && `${difference} in ${output}`;
  }
  const expected = valuesOf(block);
  if (expected.length !== lines.length) return `has ${lines.length} lines: ${output}`;
  for (const [index, line] of expected.entries()) {
    const actual = readJson(lines[index] ?? '');
    if (actual === undefined) return `line ${index + 1} is not JSON: ${lines[index]}`;
    const difference = compareJson(JSON.parse(line), actual.value);
    if (difference) return `line ${index + 1}: ${difference}`;
  }
  return undefined;
}
