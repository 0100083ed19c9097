/** Debian's Chromium with a watch on what pages say and ask for. */
import assert from 'node:assert/strict';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { atEnd } from '../../support/at-end.ts';

const CHROMIUM = '/usr/bin/chromium-headless-shell';

/** Those that run, by their arguments. */
const launched = new Map<string, Promise<Browser>>();

/**
 * Starts Chromium once for all tests of the process that want it alike; it ends with them.
 *
 * @param runsBriefly whether each page runs a script once and is left. Chromium optimizes its code then for nobody, again
 *   for each page: a sixth to a third of all processor time of a suite that looks at many pages by axe-core
 */
export function launchChromium({ runsBriefly = false, hosts = '' } = {}): Promise<Browser> {
  const unoptimized = '--js-flags=--no-turbofan,--no-maglev';
  const args = ['--no-sandbox', ...(runsBriefly ? [unoptimized] : [])];
  if (hosts) args.push(`--host-resolver-rules=${hosts}`);
  const key = args.join(' ');
  const running = launched.get(key);
  if (running) return running;
  const browser = chromium.launch({ executablePath: CHROMIUM, args });
  launched.set(key, browser);
  atEnd(async () => (await browser).close());
  return browser;
}

export interface WatchedPage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** What the console and uncaught errors said. */
  readonly complaints: string[];
  /** URLs that were asked for, all frames included. */
  readonly requests: string[];
  /**
   * Fails where the page complained or asked another host.
   *
   * @param expected complaints that may be there
   */
  assertQuiet(expected?: RegExp): void;
}

/** Opens a page of its own, with storage of its own. */
export async function openWatched(
  browser: Browser,
  origin: string,
  options: Parameters<Browser['newContext']>[0] = {},
): Promise<WatchedPage> {
  const context = await browser.newContext({
    viewport: { width: 1360, height: 820 },
    locale: 'en-GB',
    reducedMotion: 'reduce',
    ...options,
  });
  const page = await context.newPage();
  // A machine may be many times slower than this one: a test that fails is slow, never wrong.
  page.setDefaultTimeout(45_000);
  const complaints: string[] = [];
  const requests: string[] = [];
  page.on('console', (message) => {
    if (!['error', 'warning'].includes(message.type())) return;
    const { url } = message.location();
    // Of an answer the text says its status alone.
    const isAnswer = message.text().startsWith('Failed to load resource');
    complaints.push(isAnswer ? `${message.text()} ${url}` : message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  context.on('request', (request) => requests.push(request.url()));
  return {
    page,
    context,
    complaints,
    requests,
    assertQuiet(expected) {
      assert.deepEqual(
        complaints.filter((text) => !expected?.test(text)),
        [],
      );
      const foreign = requests.filter(
        (url) => !/^(data|blob|about):/.test(url) && new URL(url).origin !== origin,
      );
      assert.deepEqual(foreign, []);
    },
  };
}
