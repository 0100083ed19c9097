/**
 * Checks the dependency rule of ARCHITECTURE.md, part of `npm run lint`: an import goes to a group below, or within its
 * group to a folder at the right of a `>`; folders that no `>` parts never
 * import each other; and a folder is entered by its public file alone. The table of the groups is read from
 * ARCHITECTURE.md, so that the rule is written once. Tests may import anything; what only they
 * need is in `test/support/`, which nothing else imports. Cycles are found by Biome.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const source = join(root, 'src');

/** Where a folder stands: the row of its group, and its step within the group, counted from the left. */
interface Position {
  readonly row: number;
  readonly step: number;
}

/** The position of each folder (`group/folder`), from lines such as `5  mail  delivery > sending webhooks > queue`. */
function readPositions(): Map<string, Position> {
  const page = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8');
  const [, section = ''] = page.split('\n## The dependency rule\n');
  const positions = new Map<string, Position>();
  for (const [, row, group, line = ''] of section.matchAll(/^ {4}(\d) {2}(\w+) +(.+)$/gm)) {
    for (const [step, names] of line.split('>').entries()) {
      for (const name of names.trim().split(/\s+/)) {
        positions.set(`${group}/${name}`, { row: Number(row), step });
      }
    }
  }
  return positions;
}

const positions = readPositions();

function positionOf(folder: string): Position {
  const position = positions.get(folder);
  if (position === undefined) throw new Error(`ARCHITECTURE.md has no place for src/${folder}`);
  return position;
}

/** Why `file` may not import `target` (paths below src/), or undefined where it may. */
function judge(file: string, target: string): string | undefined {
  const [fromGroup = '', fromName = '', ...below] = file.split('/');
  const [toGroup = '', toName = '', ...rest] = target.split('/');
  if (below.length === 0) return undefined;
  if (rest.length === 0) return 'the processes (main.ts, notifier.ts) are imported by nobody';
  const from = `${fromGroup}/${fromName}`;
  const to = `${toGroup}/${toName}`;
  if (from === to) return undefined;
  if (rest.join('/') !== `${toName}.ts`) return `${to}/ is entered by ${to}/${toName}.ts alone`;
  const [importer, imported] = [positionOf(from), positionOf(to)];
  if (imported.row < importer.row) return undefined;
  if (imported.row > importer.row)
    return `${toGroup}/ is above ${fromGroup}/: imports go down only`;
  if (imported.step > importer.step) return undefined;
  return `within ${toGroup}/ imports go to the right of a ">" only: ${toName}/ is not there`;
}

const files = readdirSync(source, { recursive: true, encoding: 'utf8' })
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'));

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
