/** The documentation site: what VitePress makes of the pages in `docs/`. `build.ts` runs it. */
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';
import { codeTheme, stylesAsClasses } from './code-styles.ts';
import { rootHomeLinks } from './home-links.ts';
import { writeReference } from './reference/pages.ts';
import { nameRows } from './row-anchors.ts';
import { searchRoles } from './search-roles.ts';
import { renderForSearch } from './search-text.ts';
import { referenceFirst, sidebar } from './sidebar.ts';
import { description } from './texts.ts';

/** Paths below `/docs/` that the server answers by itself: links to them leave the site's router. */
const served = /^\/(?:inbox|openapi\.json|llms\.txt|llms-full\.txt)(?:[/?#]|$)/;

writeReference(fileURLToPath(new URL('..', import.meta.url)));

export default defineConfig({
  lang: 'en',
  title: 'Postroom',
  description,
  base: '/docs/',
  cleanUrls: true,
  // Else every page carries the whole configuration inline.
  metaChunk: true,
  lastUpdated: false,
  srcExclude: ['public/**'],
  // A page with a dead link is better than none; test/servers/browser finds them all.
  ignoreDeadLinks: true,
  // The switch would add a <style> element, which the Content-Security-Policy refuses.
  appearance: { disableTransition: false },
  head: [
    ['link', { rel: 'icon', href: '/docs/postroom.svg', type: 'image/svg+xml' }],
    ['meta', { name: 'color-scheme', content: 'light dark' }],
    ['meta', { name: 'theme-color', content: '#ffffff', media: '(prefers-color-scheme: light)' }],
    ['meta', { name: 'theme-color', content: '#17161a', media: '(prefers-color-scheme: dark)' }],
  ],
  vite: { plugins: [searchRoles] },
  markdown: {
    theme: codeTheme,
    codeTransformers: [stylesAsClasses],
    config(markdown) {
      nameRows(markdown);
      rootHomeLinks(markdown);
      markdown.core.ruler.push('served_links', ({ tokens }) => {
        for (const token of tokens.flatMap(({ children }) => children ?? [])) {
          const href = token.type === 'link_open' ? token.attrGet('href') : null;
          const path = href?.replace(/^\/docs(?=\/)/, '');
          if (!path || !served.test(path)) continue;
          // VitePress leaves a link with a target as it is.
          token.attrSet('target', '_self');
          token.attrSet('href', `/docs${path}`);
        }
      });
    },
  },
  themeConfig: {
    logo: { src: '/postroom.svg', alt: '', width: 26, height: 26 },
    nav: [
      { text: 'Quickstart', link: '/quickstart' },
      { text: 'Concepts', link: '/concepts/domains-and-dns', activeMatch: '^/concepts/' },
      { text: 'Guides', link: '/guides/inbox-client', activeMatch: '^/guides/' },
      { text: 'API reference', link: '/reference/api', activeMatch: '^/reference/' },
      { text: 'Webmail', link: '/inbox/', target: '_self' },
    ],
    // The reference begins with itself, so that its operations are in view.
    sidebar: { '/reference/api': referenceFirst, '/': sidebar },
    outline: { level: [2, 3], label: 'On this page' },
    search: {
      provider: 'local',
      options: {
        detailedView: 'auto',
        _render: renderForSearch,
        miniSearch: {
          searchOptions: { fuzzy: 0.15, prefix: true, boost: { title: 4, text: 2, titles: 1 } },
        },
      },
    },
    docFooter: { prev: 'Previous', next: 'Next' },
    notFound: {
      title: 'Nothing is here',
      quote: 'The page may have moved. Search finds everything that is written here.',
      linkText: 'To the start',
      linkLabel: 'To the start',
    },
    externalLinkIcon: true,
  },
});
