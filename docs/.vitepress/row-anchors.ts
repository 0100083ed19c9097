/**
 * Anchors for the rows of tables that explain names: a row whose first cell is one piece of code alone is named by
 * it, so that an error's `type` leads to its row (`/docs/reference/errors#rate_limited`).
 */
import type { MarkdownRenderer } from 'vitepress';

export function nameRows(markdown: MarkdownRenderer): void {
  markdown.core.ruler.push('row_anchors', ({ tokens }) => {
    // Headings have theirs already.
    const named = new Set(tokens.map((token) => token.attrGet('id')));
    for (const [index, token] of tokens.entries()) {
      if (token.type !== 'tr_open' || tokens[index + 1]?.type !== 'td_open') continue;
      const [code, ...others] = tokens[index + 2]?.children ?? [];
      const isName = code?.type === 'code_inline' && others.length === 0;
      if (!isName || !/^\w+$/.test(code.content) || named.has(code.content)) continue;
      named.add(code.content);
      token.attrSet('id', code.content);
    }
  });
}
