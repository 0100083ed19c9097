/** Reads the pages of the documentation: their code, headings and links. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const repository = fileURLToPath(new URL('../..', import.meta.url));

/** A fenced block of code. */
export interface CodeBlock {
  /** The first word after the fence; empty where there is none. */
  readonly language: string;
  /** What stands in brackets after it: `watch.mjs` of "```js [watch.mjs]". */
  readonly label: string | undefined;
  readonly text: string;
  /** Whose answer it shows, by `<!-- answers: POST /mail/sync 200 -->` on the line before. */
  readonly answers: string | undefined;
  /** Line of the page on which the fence opens, from 1. */
  readonly line: number;
}

export interface Heading {
  readonly level: number;
  readonly text: string;
  /** What a link names it by. */
  readonly anchor: string;
}

export interface Page {
  /** From the folder of the repository, such as `docs/quickstart.md`. */
  readonly path: string;
  readonly text: string;
  readonly blocks: readonly CodeBlock[];
  readonly headings: readonly Heading[];
  /** Targets of links outside of code, as they are written. */
  readonly links: readonly string[];
}

/** What programs write: the references of the API and of the SDK. */
const written = /^reference\/(?:api(?:\.md$|\/)|sdk\/)/;

/** Every page of `docs/` that is a source, in the order of their paths. */
export function readPages(): Page[] {
  return readdirSync(`${repository}docs`, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !name.startsWith('.') && !written.test(name))
    .sort()
    .map((name) => readPage(`docs/${name}`));
}

/** @param path from the folder of the repository */
export function readPage(path: string): Page {
  const text = readFileSync(`${repository}${path}`, 'utf8');
  const blocks: CodeBlock[] = [];
  const prose: string[] = [];
  let open: OpenBlock | undefined;
  for (const [index, line] of text.split('\n').entries()) {
    const [, indent = '', fence, info = ''] = /^( *)(`{3,})(.*)$/.exec(line) ?? [];
    if (open) {
      if (fence?.startsWith(open.fence) && info.trim() === '') {
        blocks.push(toBlock(open));
        open = undefined;
      } else open.lines.push(line.slice(Math.min(open.indent, line.search(/\S|$/))));
    } else if (fence) {
      const [, answers] = /^<!-- answers: (.+) -->$/.exec(prose.at(-1) ?? '') ?? [];
      open = {
        fence,
        indent: indent.length,
        info: info.trim(),
        answers,
        line: index + 1,
        lines: [],
      };
    } else prose.push(line);
  }
  if (open) throw new Error(`${path}:${open.line}: the code never ends`);
  const outside = prose.join('\n');
  return { path, text, blocks, headings: findHeadings(prose), links: findLinks(outside) };
}

interface OpenBlock {
  readonly fence: string;
  /** Of the fence, which its lines share. */
  readonly indent: number;
  readonly info: string;
  readonly answers: string | undefined;
  readonly line: number;
  readonly lines: string[];
}

function toBlock({ info, answers, line, lines }: OpenBlock): CodeBlock {
  const [, language = '', label] = /^([\w-]*)[^[]*(?:\[(.+)\])?/.exec(info) ?? [];
  return { language, label, answers, line, text: `${lines.join('\n')}\n` };
}

function findHeadings(lines: readonly string[]): Heading[] {
  const seen = new Map<string, number>();
  return lines.flatMap((line) => {
    const [, marks, title, id] = /^(#{1,6}) +(.*?)(?: *\{#([\w-]+)\})? *$/.exec(line) ?? [];
    if (marks === undefined || title === undefined) return [];
    const text = title.replace(/[`*]|\[([^\]]*)\]\([^)]*\)/g, '$1');
    const base = id ?? anchorOf(text);
    const count = seen.get(base) ?? 0;
    seen.set(base, count + 1);
    const anchor = count === 0 ? base : `${base}-${count}`;
    return [{ level: marks.length, text, anchor }];
  });
}

/** The anchor that VitePress gives a heading (`slugify` of @mdit-vue/shared). */
function anchorOf(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    .replace(/[\s~`!@#$%^&*()\-_+=[\]{}|\\;:"'“”‘’<>,.?/]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .replace(/^(\d)/, '_$1')
    .toLowerCase();
}

function findLinks(prose: string): string[] {
  const text = prose.replace(/`[^`\n]*`/g, '');
  const inline = text.matchAll(/\]\(<?([^)\s>]+)>?(?: "[^"]*")?\)/g);
  // Links of the front matter: `link: /quickstart`.
  const listed = text.matchAll(/^ *link: *(\S+)$/gm);
  return [...inline, ...listed].flatMap(([, target]) => (target === undefined ? [] : [target]));
}
