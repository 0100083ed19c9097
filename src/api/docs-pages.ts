/**
 * The public pages: the home page at `/` and `/docs`, files below `/docs/`, and what a browser sees
 * where there is nothing. Files are served as they lie in the folder, outside of it nothing is.
 */
import { readFileSync, realpathSync } from 'node:fs';
import { join, sep } from 'node:path';
import helmet from '@fastify/helmet';
import fastifyStatic from '@fastify/static';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Api, credentials, type RouteGroup } from './server.ts';

/** What pages may load: files of their own host, no inline script or style. */
const pagePolicy = {
  'default-src': ["'self'"],
  'img-src': ["'self'", 'data:'],
  'object-src': ["'none'"],
  'base-uri': ["'none'"],
  'form-action': ["'none'"],
  'frame-ancestors': ["'none'"],
};

const FOR_EVER = 'public, max-age=31536000, immutable';
/** Kept, but asked for again each time: the ETag makes that cheap. */
const CHECKED = 'public, no-cache';

/** `app.BxK4d9_1.js`: the name changes with the content, so that it is good for ever. */
const hashedName = /^\/docs\/assets\/[\w./-]{1,200}\.[\w-]{8,64}\.[a-z0-9]{2,5}$/;

/** Whether a URL names a content-hashed asset, of which one page may need dozens. */
export function isHashedAsset(url: string): boolean {
  return url.startsWith('/docs/assets/') && hashedName.test(url.split('?', 1)[0] ?? '');
}

/**
 * The routes of the pages.
 *
 * @param directory absolute path of their folder; `index.html` is the home page
 */
export function docsRoutes(directory: string): RouteGroup {
  return (app) => {
    const root = realpathSync(directory);
    secureHeaders(app);
    app.register(fastifyStatic, {
      root,
      prefix: '/docs/',
      dotfiles: 'ignore',
      extensions: ['html'],
      cacheControl: false,
      allowedPath: (path) => liesInside(root, path),
      setHeaders: (response, path) => {
        const hashed = isHashedAsset(`/docs/${path.slice(root.length + 1)}`);
        response.header('cache-control', hashed ? FOR_EVER : CHECKED);
        // RFC 9239 section 6: application/javascript is obsolete.
        if (/\.m?js$/.test(path)) response.header('content-type', 'text/javascript; charset=utf-8');
      },
    });
    const home = (_request: FastifyRequest, reply: FastifyReply) => reply.sendFile('index.html');
    app.get('/', { schema: homeSchema('home') }, home);
    app.get('/docs', { schema: homeSchema('docsHome') }, home);
  };
}

function secureHeaders(app: Api): void {
  app.register(helmet, {
    contentSecurityPolicy: { useDefaults: false, directives: pagePolicy },
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

/** Whether a path below the root, links resolved, still lies there; one that is not there does. */
function liesInside(root: string, path: string): boolean {
  try {
    const real = realpathSync(join(root, path));
    return real === root || real.startsWith(root + sep);
  } catch {
    return true;
  }
}

/** Answers a browser for which there is nothing; undefined where there is no page for that. */
export type NotFoundPage = (reply: FastifyReply) => void;

/** Reads `404.html` of the pages. */
export function readNotFoundPage(directory: string): NotFoundPage {
  const page = readFileSync(join(directory, '404.html'));
  const policy = Object.entries(pagePolicy).map(
    ([name, sources]) => `${name} ${sources.join(' ')}`,
  );
  return (reply) => {
    reply
      .code(404)
      .header('content-security-policy', policy.join(';'))
      .header('referrer-policy', 'no-referrer')
      .type('text/html; charset=utf-8')
      .send(page);
  };
}

/** Whether a request is a browser's, which wants to read a page (RFC 9110 section 12.5.1). */
export function wantsPage(request: FastifyRequest): boolean {
  const { method, headers } = request;
  return (method === 'GET' || method === 'HEAD') && (headers.accept ?? '').includes('text/html');
}
