/**
 * The documentation as markdown, for readers that are programs: each page at its path with `.md`,
 * `llms.txt` (https://llmstxt.org) as the list of them, and `llms-full.txt` with all of it.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { sidebar } from './sidebar.ts';

/** What Postroom is, in a line. */
export const description =
  'Self-hosted, headless mail hosting: domains, mailboxes, sync and realtime over one HTTP API.';

interface Page {
  /** Below `/docs`, without an ending. */
  readonly link: string;
  readonly title: string;
  /** The first paragraph, on one line. */
  readonly summary: string;
  readonly text: string;
}

/**
 * Writes the texts.
 *
 * @param srcDir absolute path of `docs/`
 * @param outDir absolute path of the site
 * @param failure why the site has no other pages than these, as half a sentence
 */
export async function writeTexts(srcDir: string, outDir: string, failure?: string): Promise<void> {
  const note =
    failure === undefined
      ? ''
      : `> This is plain markdown, since the pages could not be built: ${failure}. Correct that, run \`npm run docs:build\` and start Postroom again.\n\n`;
  const groups = await Promise.all(
    sidebar.map(async ({ text, items }) => ({
      text,
      pages: await Promise.all(items.map(({ link }) => readPage(srcDir, link))),
    })),
  );
  const pages = groups.flatMap((group) => group.pages);
  const lists = groups.map(
    ({ text, pages: listed }) => `## ${text}\n\n${listed.map(writeEntry).join('\n')}\n`,
  );
  const head = `# Postroom\n\n> ${description}\n`;
  const list = `${head}\nAll of it in one file: [llms-full.txt](/docs/llms-full.txt). The API as OpenAPI 3.1: [openapi.json](/docs/openapi.json).\n\n${lists.join('\n')}`;
  await write(outDir, 'llms.txt', list);
  await write(outDir, 'index.md', note + list);
  await write(outDir, 'llms-full.txt', [head, ...pages.map(({ text }) => text)].join('\n'));
  for (const { link, text } of pages) await write(outDir, `${link.slice(1)}.md`, note + text);
}

async function write(outDir: string, name: string, text: string): Promise<void> {
  await mkdir(dirname(join(outDir, name)), { recursive: true });
  await writeFile(join(outDir, name), text);
}

function writeEntry({ link, title, summary }: Page): string {
  return `- [${title}](/docs${link}.md)${summary ? `: ${summary}` : ''}`;
}

async function readPage(srcDir: string, link: string): Promise<Page> {
  const file = join(srcDir, `${link}.md`);
  const text = plain(await readSource(srcDir, file), link);
  const described = await readDescriptionOf(file);
  const title = /^# (.+)$/m.exec(text)?.[1] ?? link;
  const paragraphs = text.split(/\n{2,}/).map((paragraph) => paragraph.trim());
  const first = paragraphs.find((paragraph) => /^[\w`*["]/.test(paragraph)) ?? '';
  return { link, title, summary: described ?? firstSentence(first), text: `${text.trim()}\n` };
}

function firstSentence(paragraph: string): string {
  const line = paragraph.replace(/\s+/g, ' ');
  return /^.*?[.!?](?=\s|$)/.exec(line)?.[0] ?? line;
}

/** What the front matter says the page is about. */
async function readDescriptionOf(file: string): Promise<string | undefined> {
  const matter = /^---\n([\s\S]*?)\n---\n/.exec(await readFile(file, 'utf8'))?.[1] ?? '';
  return /^description:\s*["']?(.+?)["']?$/m.exec(matter)?.[1];
}

/** A page without front matter, with what it includes. */
async function readSource(srcDir: string, path: string): Promise<string> {
  const source = (await readFile(path, 'utf8')).replace(/^---\n[\s\S]*?\n---\n/, '');
  const pieces = await Promise.all(
    source.split('\n').map(async (line) => {
      const included = /^<!--\s*@include:\s*(\S+?)\s*-->$/.exec(line)?.[1];
      if (included !== undefined) return readSource(srcDir, fileOf(srcDir, path, included));
      const snippet = /^<<<\s*([^\s{[#]+)(?:#\S+)?\s*(?:\{(\w+)\})?/.exec(line);
      if (!snippet) return line;
      const file = fileOf(srcDir, path, snippet[1] ?? '');
      const language = snippet[2] ?? file.split('.').at(-1);
      return `\`\`\`${language}\n${(await readFile(file, 'utf8')).trimEnd()}\n\`\`\``;
    }),
  );
  return pieces.join('\n');
}

/** Where an include of VitePress leads: `@` is the folder of the sources. */
function fileOf(srcDir: string, from: string, path: string): string {
  return path.startsWith('@') ? join(srcDir, path.slice(1)) : join(dirname(from), path);
}

/** A block of code, which stays as it is. */
const fence = /^(`{3,})[^\n]*\n[\s\S]*?^\1$/gm;

/** Leaves out what only the site can show, and gives links their place on the server. */
function plain(source: string, link: string): string {
  const blocks = source.match(fence) ?? [];
  // Nothing else has a NUL.
  const prose = plainProse(source.replace(fence, '\0'), link);
  return prose.replaceAll('\0', () => blocks.shift() ?? '');
}

function plainProse(source: string, link: string): string {
  return (
    source
      .replace(/^<script setup[\s\S]*?<\/script>\n/gm, '')
      .replace(/^<TryIt .*$/gm, '')
      .replace(/^<MessageWay \/>$/gm, '')
      // The blocks of a group stand one after the other.
      .replace(/^::: code-group\n([\s\0]*?)\n:::$/gm, '$1')
      .replace(/^<\/?div(?: class="(?:operation|about|examples)")?>$/gm, '')
      .replace(
        /<p class="endpoint">(?:<[^>]+>)*(\w+)<\/span> <code v-pre>(.*?)<\/code><\/p>/g,
        '`$1 $2`',
      )
      .replace(/<dt><code>(.*?)<\/code> (.*?)<\/dt>\n<dd>(.*?)<\/dd>/g, '- `$1` ($2): $3')
      .replace(/^<\/?dl.*$/gm, '')
      .replace(/<code(?: v-pre)?>(.*?)<\/code>/g, '`$1`')
      .replace(/<a href="[^"]*">(.*?)<\/a>/g, '$1')
      .replace(/<\/?(?:span|p)(?: class="[^"]*")?>/g, '')
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&amp;', '&')
      .replace(/^(#+ .*?) \{#[\w-]+\}$/gm, '$1')
      .replace(
        /\]\(\/(?!docs\/|\/)([^)#\s]*)/g,
        (_whole, path: string) => `](/docs/${markdownPath(path)}`,
      )
      .replace(
        /\]\((\.{1,2}\/[^)#\s]*|[\w-][\w./-]*\.md)/g,
        (_whole, path: string) => `](${new URL(path, `http://here/docs${link}`).pathname}`,
      )
      .replace(/\n{3,}/g, '\n\n')
  );
}

/** `concepts/sync` is a page; `openapi.json` and `inbox/`, which leads to the webmail, are not. */
function markdownPath(path: string): string {
  return /\.\w+$|\/$|^inbox\b|^$/.test(path) ? path : `${path}.md`;
}
