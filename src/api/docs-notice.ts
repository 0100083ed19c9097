/**
 * What stands in for the documentation while there is none: a page that reloads itself.
 */
import { createHash } from 'node:crypto';
import type { SiteState } from '../site/site.ts';

/** A page, and what it may load. */
export interface Notice {
  readonly html: string;
  readonly policy: string;
}

type Missing = Exclude<SiteState['kind'], 'built'>;

/** Seconds after which the page asks again: a build takes some ten seconds, a failed one stays so. */
const RELOAD = { building: 3, failed: 60, absent: 60 } as const;

const sentences: Readonly<Record<Missing, readonly [title: string, text: string]>> = {
  building: [
    'The documentation is being built',
    'This takes a few seconds after the first start. The page reloads by itself.',
  ],
  failed: [
    'The documentation could not be built',
    'The log of the server says why. The next start tries again.',
  ],
  absent: [
    'The documentation has not been built',
    'Run <code>npm run docs:build</code>, or start with <code>DOCS_BUILD=true</code>.',
  ],
};

const style = `:root{color-scheme:light dark}body{margin:18vh auto;max-width:34rem;padding:0 1.5rem;font:1.0625rem/1.6 system-ui,sans-serif}h1{font-size:1.6rem;line-height:1.25}code{font-family:ui-monospace,monospace;font-size:.95em}`;
const styleSource = `'sha256-${createHash('sha256').update(style).digest('base64')}'`;

const policy = `default-src 'none';style-src ${styleSource};base-uri 'none';form-action 'none';frame-ancestors 'none'`;

/** The page for a state. */
export function noticeFor(kind: Missing): Notice {
  const [title, text] = sentences[kind];
  const html = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="${RELOAD[kind]}">
<title>${title} - Postroom</title>
<style>${style}</style>
<main>
<h1>${title}</h1>
<p>${text}</p>
<p>The API works: its description is at <a href="/docs/openapi.json">/docs/openapi.json</a>.</p>
</main>
</html>
`;
  return { html, policy };
}
