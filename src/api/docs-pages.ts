/**
 * The public pages: the home page at `/` and `/docs`, files below `/docs/`, and what a browser sees
 * where there is nothing. Only files that lay in the site's folder when it was first shown are
 * served, each by its own name.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import helmet from '@fastify/helmet';
import fastifyStatic from '@fastify/static';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Refusal } from '../errors/errors.ts';
import type { SiteState } from '../site/site.ts';
import { notFound } from './answer-errors.ts';
import { fileAt, isHashedAsset, listSite, pageWithoutSlash, type SiteFiles } from './docs-files.ts';
import { noticeFor } from './docs-notice.ts';
import { type Api, credentials, type RouteGroup } from './server.ts';

/** What pages may load: files of their own host, inline scripts by their hash, no inline style. */
function pagePolicy(scripts: readonly string[]): string {
  return [
    "default-src 'self'",
    `script-src ${["'self'", ...scripts].join(' ')}`,
    "img-src 'self' data:",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join(';');
}

/**
 * The live inbox shows mail in a sandboxed frame without scripts, which inherits this policy: mail
 * styles itself inline, and pictures come from its own parts only (`data:`).
 */
const inboxPolicy = [
  "default-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "frame-src 'none'",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join(';');

const FOR_EVER = 'public, max-age=31536000, immutable';
/** Kept, but asked for again each time: the ETag makes that cheap. */
const CHECKED = 'public, no-cache';
/** Seconds after which a page that is being built may be there. */
const BUILT_SOON = 5;

/** What there is to show at the time of a request. */
export type ShownSite = () => SiteState;

/** The routes of the pages. */
export function docsRoutes(site: ShownSite): RouteGroup {
  return (app) => {
    secureHeaders(app);
    app.register(fastifyStatic, {
      serve: false,
      dotfiles: 'deny',
      index: false,
      cacheControl: false,
      preCompressed: true,
    });
    // After the plugin, which says the type of compressed files last.
    app.addHook('onSend', async (_request, reply) => {
      const type = reply.getHeader('content-type');
      if (typeof type !== 'string' || !type.startsWith('application/javascript')) return;
      // RFC 9239 section 6: application/javascript is obsolete.
      reply.header('content-type', 'text/javascript; charset=utf-8');
    });
    const open = rememberFiles();
    const send = (request: FastifyRequest, reply: FastifyReply, path: string) => {
      const state = site();
      if (state.kind !== 'built') return sendNotice(request, reply, state.kind, path === '');
      const files = open(state.directory);
      const name = fileAt(files, path);
      if (name === undefined) {
        const page = pageWithoutSlash(files, path);
        if (page === undefined) throw notFound();
        // Served there, its relative links would lead elsewhere.
        return reply.header('cache-control', CHECKED).redirect(`/docs/${page}`, 308);
      }
      const isInbox = name.startsWith('inbox/');
      reply.header('content-security-policy', isInbox ? inboxPolicy : pagePolicy(state.scripts));
      reply.header('cache-control', isHashedAsset(`/docs/${name}`) ? FOR_EVER : CHECKED);
      return reply.sendFile(name, state.directory);
    };
    const home = (request: FastifyRequest, reply: FastifyReply) => send(request, reply, '');
    app.get('/', { schema: homeSchema('home') }, home);
    app.get('/docs', { schema: homeSchema('docsHome') }, home);
    app.get<{ Params: { '*': string } }>('/docs/*', { schema: { hide: true } }, (request, reply) =>
      send(request, reply, request.params['*']),
    );
  };
}

/** Lists a folder when it is first asked for; what comes into it later is not served. */
function rememberFiles(): (directory: string) => SiteFiles {
  let last: { directory: string; files: SiteFiles } | undefined;
  return (directory) => {
    if (last?.directory !== directory) last = { directory, files: listSite(directory) };
    return last.files;
  };
}

/** Says why there is no page: to a browser in words, wherever it asks, else with an error's body. */
function sendNotice(
  request: FastifyRequest,
  reply: FastifyReply,
  kind: Exclude<SiteState['kind'], 'built'>,
  isHome: boolean,
): FastifyReply {
  if (!isHome && !wantsPage(request)) {
    if (kind !== 'building') throw notFound();
    throw new Refusal('unavailable', 'the documentation is being built', {
      retryAfter: BUILT_SOON,
    });
  }
  if (!isHome) reply.code(kind === 'building' ? 503 : 404);
  if (!isHome && kind === 'building') reply.header('retry-after', BUILT_SOON);
  const { html, policy } = noticeFor(kind);
  return reply
    .header('content-security-policy', policy)
    .type('text/html; charset=utf-8')
    .send(html);
}

function secureHeaders(app: Api): void {
  app.register(helmet, {
    // Each page has its own.
    contentSecurityPolicy: false,
    // Whether this host is reached by TLS is for the proxy in front to say.
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

/** Answers a browser for which there is nothing. */
export type NotFoundPage = (reply: FastifyReply) => void;

/** Answers with `404.html` of the site that is shown, or with what stands in for the site. */
export function notFoundPage(site: ShownSite): NotFoundPage {
  let last: { directory: string; page: Buffer } | undefined;
  return (reply) => {
    const state = site();
    reply.code(404).header('referrer-policy', 'no-referrer').type('text/html; charset=utf-8');
    if (state.kind !== 'built') {
      const { html, policy } = noticeFor(state.kind);
      reply.header('content-security-policy', policy).send(html);
      return;
    }
    const { directory, scripts } = state;
    if (last?.directory !== directory) {
      last = { directory, page: readFileSync(join(directory, '404.html')) };
    }
    reply.header('content-security-policy', pagePolicy(scripts)).send(last.page);
  };
}

/** Whether a request is a browser's, which wants to read a page (RFC 9110 section 12.5.1). */
export function wantsPage(request: FastifyRequest): boolean {
  const { method, headers } = request;
  return (method === 'GET' || method === 'HEAD') && (headers.accept ?? '').includes('text/html');
}
