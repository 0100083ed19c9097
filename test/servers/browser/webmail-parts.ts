/** Chromium with the parts of the webmail that read and write mail, on a mailbox in memory and with the service's policy. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser } from 'playwright-core';
import { build } from 'vite';
import { appConfig } from '../../../console/app-config.ts';
import { webmailPolicy } from '../../../src/servers/api/docs-pages.ts';
import { atEnd } from '../../support/at-end.ts';
import { launchChromium, openWatched, type WatchedPage } from './watched-page.ts';

const TESTING = fileURLToPath(new URL('../../../packages/webmail/testing', import.meta.url));
const TYPES: Readonly<Record<string, string>> = { '.js': 'text/javascript', '.css': 'text/css' };
const PAGE = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Parts</title>
  <meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/style.css">
  <script type="module" src="/page.js"></script></head><body><div id="webmail"></div></body></html>`;

export interface WebmailParts {
  readonly browser: Browser;
  readonly url: string;
  open(options?: Parameters<typeof openWatched>[2]): Promise<WatchedPage>;
}

/** Listens on a free port of loopback. */
export async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const bound = server.address();
  return `http://127.0.0.1:${typeof bound === 'object' ? bound?.port : 0}`;
}

let started: Promise<WebmailParts> | undefined;

/** Builds the parts once for all tests of the process, and serves them until these have ended. */
export function startWebmailParts(): Promise<WebmailParts> {
  started ??= start();
  return started;
}

async function start(): Promise<WebmailParts> {
  const built = await mkdtemp(join(tmpdir(), 'postroom-webmail-'));
  const { rollupOptions, ...options } = appConfig('/').build ?? {};
  await build({
    ...appConfig('/'),
    configFile: false,
    logLevel: 'warn',
    root: TESTING,
    build: {
      ...options,
      outDir: join(built, 'site'),
      emptyOutDir: true,
      minify: false,
      cssCodeSplit: false,
      rollupOptions: {
        ...rollupOptions,
        input: join(TESTING, 'page.tsx'),
        output: {
          entryFileNames: 'page.js',
          chunkFileNames: '[name].js',
          assetFileNames: '[name][extname]',
        },
      },
    },
  });
  const names = await readdir(join(built, 'site'));
  const files = new Map(names.map((name) => [name, readFileSync(join(built, 'site', name))]));
  const server = createServer(({ url = '/' }, response) => {
    const name = url.replace(/\?.*/, '').slice(1);
    const type = TYPES[extname(name)] ?? 'text/html';
    response.setHeader('content-security-policy', webmailPolicy);
    response.setHeader('content-type', `${type}; charset=utf-8`);
    response.end(name === '' ? PAGE : files.get(name));
  });
  const url = await listen(server);
  atEnd(async () => {
    server.close();
    await rm(built, { recursive: true, force: true });
  });
  const browser = await launchChromium();
  return {
    browser,
    url,
    async open(given) {
      const watched = await openWatched(browser, url, given);
      await watched.page.goto(url);
      await watched.page.getByRole('heading', { name: 'Messages' }).waitFor();
      return watched;
    },
  };
}
