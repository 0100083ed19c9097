/**
 * The public pages: the home page at `/` and `/docs`, files below `/docs/`, the operator's console at `/console`,
 * the webmail at `/webmail`, and the page for unknown paths in a browser. The site is built at installation (`docs/.vitepress/build.ts`), as
 * pages or, where that failed, as markdown. Only files that were in its folder at the start are served.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import helmet from '@fastify/helmet';
import fastifyStatic from '@fastify/static';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { clientKey, enterTurn } from '../../platform/net/net.ts';
import { notFound } from './answer-errors.ts';
import { fileAt, isHashedAsset, pageWithoutSlash, type Site } from './docs-files.ts';
import { type Api, credentials, type RouteGroup } from './route-tools.ts';

/** What pages may load: files of their own host, inline scripts by their hash, no inline style. */
function pagePolicy(scripts: readonly string[], rest = ["img-src 'self' data:"]): string {
  return [
    "default-src 'self'",
    `script-src ${["'self'", ...scripts].join(' ')}`,
    ...rest,
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join(';');
}

/**
 * The script that runs beside a mail in the webmail: it tells the page how high the mail is, and which keys were pressed
 * in it. A constant of `packages/webmail/reading/frame-script.ts`, with which a test compares it.
 */
const FRAME_SCRIPT_HASH = 'sha256-sPmtNj4rKohoVmyHCZnidAZ7wfu5jR0O69S8qfSUNIs=';

/**
 * Of every page of the webmail. It shows mail in a sandboxed frame without an origin, which inherits this policy: mail
 * has inline styles. No script of a mail runs, since only the script of that hash may. The frame's own policy allows
 * pictures only from the mail's parts (`data:`) until the reader of a message requests its remote pictures, which this
 * policy has to allow, too.
 */
export const webmailPolicy: string = pagePolicy(
  [`'${FRAME_SCRIPT_HASH}'`],
  [
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob: https: http:",
    // The frame may show what the page wrote into it, and go nowhere from there.
    "frame-src 'none'",
  ],
);

const FOR_EVER = 'public, max-age=31536000, immutable';
/** Cached, but checked each time: the ETag makes that cheap. */
const CHECKED = 'public, no-cache';
/** The text of the home page without a site. */
const NOT_BUILT =
  'The pages have not been built. Run "npm run docs:build" and start Postroom again.\n' +
  'The API is described at /docs/openapi.json.\n';

/** Whether there is a webmail, and how it looks. */
export interface WebmailOptions {
  readonly isOn: boolean;
  readonly name: string;
  /** `#rrggbb`; the usual one where undefined. */
  readonly color: string | undefined;
}

/** Milliseconds of a turn of the event loop, for one client and for all who read pages. */
const OF_A_TURN = { client: 2, readers: 5 };

/** Whoever reads pages gives no credentials: a hundred requests for a large one would hold everybody else for the sum. */
export async function waitForTurn({ clientAddress }: FastifyRequest): Promise<void> {
  const waits = enterTurn([
    { name: `reader ${clientKey(clientAddress)}`, most: OF_A_TURN.client },
    { name: 'readers of pages', most: OF_A_TURN.readers },
  ]);
  if (waits) await waits;
}

/** The routes of the pages. */
export function docsRoutes(site: Site, webmail: WebmailOptions): RouteGroup {
  return (app) => {
    secureHeaders(app);
    app.register(fastifyStatic, {
      serve: false,
      dotfiles: 'deny',
      index: false,
      cacheControl: false,
      preCompressed: true,
    });
    // After the plugin, which sets the type of compressed files last.
    app.addHook('onSend', async (request, reply) => {
      const type = reply.getHeader('content-type');
      if (typeof type !== 'string') return;
      // RFC 9239 section 6: application/javascript is obsolete.
      if (type.startsWith('application/javascript')) {
        reply.header('content-type', 'text/javascript; charset=utf-8');
      }
      // Browsers show plain text, and save markdown as a file: it is sent as markdown only for a URL that asks for it.
      if (type.startsWith('text/markdown') && !/\.md(?:\?|$)/.test(request.url)) {
        reply.header('content-type', 'text/plain; charset=utf-8');
      }
    });
    const home = (_request: FastifyRequest, reply: FastifyReply) =>
      site.files.size > 0
        ? sendFile(site, reply, '')
        : reply.type('text/plain; charset=utf-8').send(NOT_BUILT);
    app.get('/', { schema: homeSchema('home') }, home);
    app.get('/docs', { schema: homeSchema('docsHome') }, home);
    app.get('/docs/', { schema: { hide: true } }, home);
    app.get<{ Params: { '*': string } }>('/docs/*', { schema: { hide: true } }, (request, reply) =>
      sendFile(site, reply, request.params['*']),
    );
    addApp(app, site, 'console', webmail.isOn ? undefined : consoleAlone(site));
    if (webmail.isOn) addApp(app, site, 'webmail', brandPage(site, webmail));
    // Where the live inbox was, which showed the protocol beside the mail. Pages link to it, which are built before anybody
    // knows whether there is a webmail: without one it leads to its guide.
    const inbox = webmail.isOn ? '/webmail/#/?protocol' : '/docs/guides/webmail';
    for (const path of ['/docs/inbox', '/docs/inbox/']) {
      app.get(path, { schema: { hide: true } }, (_request, reply) => reply.redirect(inbox, 302));
    }
  };
}

/** The page of the console that says that there is no webmail to link to. */
function consoleAlone(site: Site): string | undefined {
  const file = 'console/index.html';
  if (!site.files.has(file)) return undefined;
  const page = readFileSync(join(site.directory, file), 'utf8');
  return page.replace('</title>', '</title>\n    <meta name="webmail" content="off">');
}

/** The page of the webmail with the operator's name and colour; undefined where it has not been built. */
function brandPage(site: Site, { name, color }: WebmailOptions): string | undefined {
  const file = 'webmail/index.html';
  if (!site.files.has(file)) return undefined;
  const text = name.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
  const fields = [
    `<title>${text}</title>`,
    `<meta name="webmail-name" content="${text}">`,
    ...(color === undefined ? [] : [`<meta name="webmail-color" content="${color}">`]),
  ];
  const page = readFileSync(join(site.directory, file), 'utf8');
  // As a function: `$` in a name means nothing.
  return page.replace(/<title>[^<]*<\/title>/, () => fields.join('\n    '));
}

/**
 * Serves console or webmail; all screens of each are one page, which reads from its address what to show.
 *
 * @param page sent in place of its file
 */
function addApp(app: Api, site: Site, folder: 'console' | 'webmail', page?: string): void {
  const send = (reply: FastifyReply, path: string) => {
    const name = site.files.has(`${folder}/${path}`) ? `${folder}/${path}` : `${folder}/index.html`;
    if (path.startsWith('assets/') && name !== `${folder}/${path}`) throw notFound();
    if (!site.files.has(name)) return reply.type('text/plain; charset=utf-8').send(NOT_BUILT);
    if (page !== undefined && name === `${folder}/index.html`) {
      reply.header('content-security-policy', policyOf(site, name));
      return reply.header('cache-control', CHECKED).type('text/html; charset=utf-8').send(page);
    }
    return sendNamed(site, reply, name, `/${folder}/${path}`);
  };
  app.get(`/${folder}`, { schema: { hide: true } }, (_request, reply) => send(reply, ''));
  app.get<{ Params: { '*': string } }>(
    `/${folder}/*`,
    { schema: { hide: true } },
    (request, reply) => send(reply, request.params['*']),
  );
}

/** Sends the file that a path below `/docs/` names. */
function sendFile(site: Site, reply: FastifyReply, path: string): FastifyReply {
  const name = fileAt(site, path);
  if (name === undefined) {
    const page = pageWithoutSlash(site, path);
    if (page === undefined) throw notFound();
    // Served at this path, its relative links would be wrong.
    return reply.header('cache-control', CHECKED).redirect(`/docs/${page}`, 308);
  }
  return sendNamed(site, reply, name, `/docs/${name}`);
}

/** Sends a file of the site that is reached by a URL. */
function sendNamed(site: Site, reply: FastifyReply, name: string, url: string): FastifyReply {
  reply.header('content-security-policy', policyOf(site, name));
  reply.header('cache-control', isHashedAsset(url) ? FOR_EVER : CHECKED);
  return reply.sendFile(name, site.directory);
}

function policyOf(site: Site, name: string): string {
  if (name.startsWith('webmail/')) return webmailPolicy;
  // The console's page has no inline script.
  return pagePolicy(name.startsWith('console/') ? [] : site.scripts);
}

function secureHeaders(app: Api): void {
  app.register(helmet, {
    // Each page has its own.
    contentSecurityPolicy: false,
    // Only the proxy in front knows whether this host is reached by TLS.
    strictTransportSecurity: false,
  });
}

function homeSchema(operationId: string) {
  return {
    tags: ['Documentation'],
    summary: 'The home page',
    operationId,
    security: credentials.none,
    response: { 200: { content: { 'text/html': { schema: { type: 'string' } } } } },
  };
}

/** Answers a browser's request for an unknown path. */
export type NotFoundPage = (reply: FastifyReply) => void;

/** Answers with `404.html` of the site; undefined where the site has no pages. */
export function notFoundPage(site: Site): NotFoundPage | undefined {
  if (!site.files.has('404.html')) return undefined;
  const page = readFileSync(join(site.directory, '404.html'));
  return (reply) =>
    void reply
      .code(404)
      .header('referrer-policy', 'no-referrer')
      .header('content-security-policy', pagePolicy(site.scripts))
      .type('text/html; charset=utf-8')
      .send(page);
}

const busyStyle =
  ':root{color-scheme:light dark;font-family:sans-serif;line-height:1.5}body{max-width:36rem;margin:15vh auto;padding:0 1rem}';
/** Nothing is loaded: each file would be one more request. */
const busyPolicy = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(busyStyle).digest('base64')}'; frame-ancestors 'none'`;

/** Answers a browser that sent too many requests with a page that reloads itself. */
export function sendBusyPage(reply: FastifyReply, retryAfter: number): void {
  const seconds = Math.ceil(retryAfter);
  const wait = seconds === 1 ? '1 second' : `${seconds} seconds`;
  reply
    .code(429)
    .header('retry-after', seconds)
    .header('content-security-policy', busyPolicy)
    .type('text/html; charset=utf-8')
    .send(
      '<!doctype html><html lang="en"><head><meta charset="utf-8">' +
        '<meta name="viewport" content="width=device-width, initial-scale=1">' +
        `<meta http-equiv="refresh" content="${seconds}">` +
        `<title>Too many requests</title><style>${busyStyle}</style></head><body><main>` +
        '<h1>Too many requests</h1><p>Your network address sent more requests than are allowed in a ' +
        `minute. This page loads again by itself in ${wait}.</p></main></body></html>`,
    );
}

/** Whether a request comes from a browser that wants to show a page (RFC 9110 section 12.5.1). */
export function wantsPage(request: FastifyRequest): boolean {
  const { method, headers } = request;
  return (method === 'GET' || method === 'HEAD') && (headers.accept ?? '').includes('text/html');
}
