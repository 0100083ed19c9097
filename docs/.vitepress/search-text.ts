/**
 * What the index of the search is made of: the pages without the colours of their code. VitePress renders each page
 * twice for it, and colours took most of that; the index holds words alone, and is the same without them.
 */
import type { MarkdownEnv, MarkdownOptions } from 'vitepress';

/** What is used of markdown-it. */
interface Markdown {
  readonly options: { highlight?: MarkdownOptions['highlight'] | null };
  render(source: string, env: MarkdownEnv): string;
}

/** Renders a page as VitePress does for its search, in place of that. */
export function renderForSearch(source: string, env: MarkdownEnv, markdown: Markdown): string {
  const { options } = markdown;
  const { highlight } = options;
  options.highlight = plainCode;
  try {
    const html = markdown.render(source, env);
    return env.frontmatter?.search === false ? '' : html;
  } finally {
    options.highlight = highlight;
  }
}

/** A block of code, with the escapes of the highlighter. */
function plainCode(code: string): string {
  const escaped = code.trimEnd().replace(/[&<]/g, (one) => (one === '&' ? '&#x26;' : '&#x3C;'));
  return `<pre><code>${escaped}</code></pre>`;
}
