/**
 * The pages `docs/reference/sdk/*.md`, one for each entry point, made of its declarations. They are in the repository, since
 * an installation without a compiler shows them, too; `npm run sdk:build` writes them, and a test compares.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Declaration, EntryPoint } from './describe-types.ts';

/** Writes those that changed. @param folder absolute path of the pages @returns all of them as one text */
export function writeReference(folder: string, entryPoints: readonly EntryPoint[]): string {
  mkdirSync(folder, { recursive: true });
  const pages = entryPoints.map((entryPoint) => {
    const path = join(folder, pageNameOf(entryPoint.name));
    const page = writePage(entryPoint);
    if (readIfThere(path) !== page) writeFileSync(path, page);
    return page;
  });
  return pages.join('\n').replaceAll(/ \{#\w+\}$/gm, '');
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** `mail.md` of `@postroom/sdk/mail`; of `@postroom/sdk` itself `backend.md`. */
function pageNameOf(name: string): string {
  return `${name.split('/')[2] ?? 'backend'}.md`;
}

const isValue = ({ code }: Declaration) =>
  /^export declare (?:abstract )?(?:class|function|const) /.test(code);

function writePage({ name, docs, declarations, hasApiTypes }: EntryPoint): string {
  const values = declarations.filter(isValue);
  const types = declarations.filter((one) => !isValue(one));
  const imports = `import { ${values.map((one) => one.name).join(', ')} } from '${name}';`;
  const rows = [...values, ...types].map(
    (one) => `| [\`${one.name}\`](#${one.name}) | ${firstSentence(one.docs)} |`,
  );
  return [
    `# ${name}`,
    writeProse(docs.replace(/^`[^`]*`: /, '').replace(/^./, (first) => first.toUpperCase())),
    `\`\`\`ts\n${imports}\n\`\`\``,
    ...(hasApiTypes
      ? [
          'It also has the types of all bodies and answers of the [API](../api.md), by the names there.',
        ]
      : []),
    ['| | |', '|---|---|', ...rows].join('\n'),
    ...[...values, ...types].map(writeSection),
  ]
    .filter(Boolean)
    .join('\n\n')
    .concat('\n');
}

function writeSection({ name, docs, code }: Declaration): string {
  const shown = code.replaceAll(/^export (?:declare )?/gm, '').replaceAll(/^ +#private;\n/gm, '');
  return [`## ${name} {#${name}}`, writeProse(docs), `\`\`\`ts\n${shown}\n\`\`\``]
    .filter(Boolean)
    .join('\n\n');
}

/** Of a docstring, for a table. */
function firstSentence(docs: string): string {
  const [first = ''] = writeProse(docs).split(/\n\n|(?<=[.:])\s/, 1);
  return first.replaceAll('\n', ' ').replaceAll('|', '\\|').replace(/:$/, '.');
}

/** A docstring as markdown: its tags as a list. */
function writeProse(docs: string): string {
  const [text = '', ...tags] = docs.split(/(?:^|\s)(?=@(?:param|returns|throws)\b)/);
  const items = tags.map((tag) => {
    const [, kind, rest = ''] = /^@(\w+)\s+(.*)$/s.exec(tag.trim()) ?? [];
    if (kind === 'param') return `- ${rest.replace(/^(\S+)/, '`$1`:')}`;
    return kind === 'returns' ? `- Returns ${rest}` : `- Throws ${rest}`;
  });
  return [text.trim(), items.join('\n')]
    .filter(Boolean)
    .join('\n\n')
    .replaceAll(/\{@link (\w+)\}/g, '`$1`')
    .split(/(`[^`]*`)/)
    .map((part) => (part.startsWith('`') ? part : part.replaceAll('<', '&lt;')))
    .join('');
}
