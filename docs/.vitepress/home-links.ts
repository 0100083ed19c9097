/**
 * Links of the home page, which is served at `/` and `/docs`, too: relative ones would lead from there to paths that are
 * not below `/docs/`. VitePress puts the base in front of those that begin with a slash.
 */
import type { MarkdownRenderer } from 'vitepress';

const HOME = 'index.md';
const relative = /^(?![a-z][a-z0-9+.-]*:|[/#])/i;

export function rootHomeLinks(markdown: MarkdownRenderer): void {
  markdown.core.ruler.push('home_links', ({ tokens, env }) => {
    if (env.relativePath !== HOME) return;
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      const href = token.type === 'link_open' ? token.attrGet('href') : null;
      if (href && relative.test(href)) token.attrSet('href', `/${href}`);
    }
  });
}
