/**
 * Checks the dependency rule of ARCHITECTURE.md, part of `npm run lint`: imports go down the rows,
 * folders of one row never import each other, and a folder is entered by its public file alone. The
 * table of the rows is read from ARCHITECTURE.md, so that the rule is written once. Tests and what
 * stands in `testing/` may import anything. Cycles are found by Biome.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const source = join(root, 'src');

/** The row of each folder, from the lines `<row>  <folder> <folder> ...` of the rule's table. */
function readRows(): Map<string, number> {
  const page = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8');
  const [, section = ''] = page.split('\n## The dependency rule\n');
  const rows = new Map<string, number>();
  for (const [, row, names = ''] of section.matchAll(/^ {4}(\d) {2}(.+)$/gm)) {
    for (const name of names.trim().split(/\s+/)) rows.set(name, Number(row));
  }
  return rows;
}

const rows = readRows();

function rowOf(folder: string): number {
  const row = rows.get(folder);
  if (row === undefined) throw new Error(`ARCHITECTURE.md has no row for src/${folder}`);
  return row;
}

/** Why `file` may not import `target` (paths below src/), or undefined where it may. */
function judge(file: string, target: string): string | undefined {
  const [from = '', ...below] = file.split('/');
  const [to = '', ...rest] = target.split('/');
  if (below.length === 0) return undefined;
  if (rest.length === 0) return 'the processes (main.ts, notifier.ts) are imported by nobody';
  if (from === to) return undefined;
  if (rest.join('/') !== `${to}.ts`) return `${to}/ is entered by ${to}/${to}.ts alone`;
  // errors/ and files/ stand below the others of their row, which refuse and write files.
  if (to === 'errors' || to === 'files') return undefined;
  if (rowOf(to) < rowOf(from)) return undefined;
  return `${from}/ is of row ${rowOf(from)}, ${to}/ of row ${rowOf(to)}: imports go down only`;
}

const isTest = (file: string) => file.endsWith('.test.ts') || file.includes('/testing/');
const files = readdirSync(source, { recursive: true, encoding: 'utf8' })
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => file.endsWith('.ts') && !isTest(file));

const wrong: string[] = [];
for (const file of files) {
  const text = readFileSync(join(source, file), 'utf8');
  for (const [, path = ''] of text.matchAll(/(?:from|import)\s*\(?\s*'(\.{1,2}\/[^']+)'/g)) {
    const target = relative(source, join(source, dirname(file), path)).replaceAll('\\', '/');
    const reason = judge(file, target);
    if (reason !== undefined) wrong.push(`src/${file} imports src/${target}: ${reason}`);
  }
}
for (const line of wrong) process.stderr.write(`${line}\n`);
process.exitCode = wrong.length === 0 ? 0 : 1;
