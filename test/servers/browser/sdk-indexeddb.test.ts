/** The SDK's store in the browser's database, in Chromium: the contract of stores, and what only browsers do to it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { launchChromium } from './watched-page.ts';

const sdk = fileURLToPath(new URL('../../../packages/sdk', import.meta.url));
/** What the pages run; the store and the contract as a product would bundle them. */
const PAGE = `
  export { indexedDbStore } from './src/stores/indexeddb.ts';
  export { contract } from './test/stores/contract.ts';
`;

let browser: Browser;
let context: BrowserContext;
let url: string;
let server: Server;

before(async () => {
  const bundled = await build({
    stdin: { contents: PAGE, resolveDir: sdk, loader: 'ts' },
    bundle: true,
    format: 'iife',
    globalName: 'sdk',
    write: false,
  });
  const script = bundled.outputFiles[0]?.text ?? '';
  server = createServer((request, response) => {
    const isScript = request.url === '/sdk.js';
    response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html');
    response.end(
      isScript ? script : '<!doctype html><title>app</title><script src="/sdk.js"></script>',
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  browser = await launchChromium();
  context = await browser.newContext();
});

after(async () => {
  server.close();
});

async function openPage(): Promise<Page> {
  const page = await context.newPage();
  await page.goto(url);
  return page;
}

test('it keeps the contract of stores', async () => {
  const page = await openPage();
  const failed = await page.evaluate<string[]>(`(async () => {
    const failed = [];
    for (const [what, check] of Object.entries(sdk.contract)) {
      const open = async () => sdk.indexedDbStore({ name: what });
      await check({ open, stays: true, isShared: true }).catch((error) => failed.push(what + ': ' + error));
    }
    return failed;
  })()`);
  assert.deepEqual(failed, []);
  await page.close();
});

/** Puts a row, and looks for it, in a store of this name; `lost` has what onLost was told. */
const STORE = `
  const lost = [];
  const store = sdk.indexedDbStore({ name: NAME });
  store.onLost = (reason) => lost.push(reason.name + ': ' + reason.message);
  const put = (blob, size = 1) => store.update('accounts', ['a'], () =>
    [{ put: 'blobs', row: { account: 'a', blob, bytes: new Uint8Array(size) } }]);
  const count = async () => (await store.range({ table: 'blobs', prefix: ['a'] })).length;
  const told = (work) => work.then(() => 'done', (error) => error.name + ': ' + error.message);
`;

const run = <T>(page: Page, name: string, steps: string): Promise<T> =>
  page.evaluate<T>(`(async () => { const NAME = '${name}'; ${STORE} ${steps} })()`);

test('it opens again where the browser closed it', async () => {
  const page = await openPage();
  const found = await run(
    page,
    'closed',
    `const opened = [];
    const open = indexedDB.open.bind(indexedDB);
    indexedDB.open = (...args) => {
      const request = open(...args);
      request.addEventListener('success', () => opened.push(request.result));
      return request;
    };
    await put(1);
    opened[0].close();
    await put(2);
    opened[1].close();
    opened[1].dispatchEvent(new Event('close'));
    return [await count(), opened.length, lost];`,
  );
  assert.deepEqual(found, [2, 3, []]);
  await page.close();
});

test('a page that is left asks for nothing until it is shown again', async () => {
  const page = await openPage();
  const found = await run(
    page,
    'left',
    `await put(1);
    const asked = [];
    for (const one of [IDBDatabase, LockManager]) for (const name of ['transaction', 'request']) {
      const before = one.prototype[name];
      if (before) one.prototype[name] = function (...args) { asked.push(name); return before.apply(this, args); };
    }
    dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }));
    const later = Promise.all([put(2), count(), store.lock('left', AbortSignal.timeout(5000), async () => {})]);
    await new Promise((resolve) => setTimeout(resolve, 100));
    const whileLeft = [...asked];
    dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));
    await later;
    return [whileLeft, asked.toSorted(), await count()];`,
  );
  assert.deepEqual(found, [[], ['request', 'transaction', 'transaction'], 2]);
  await page.close();
});

test('what a page does while it is left is undone, and done when it is shown again', async () => {
  const page = await openPage();
  const found = await run(
    page,
    'undone',
    `await put(1);
    const begin = IDBDatabase.prototype.transaction;
    const ends = [];
    IDBDatabase.prototype.transaction = function (...args) {
      const transaction = begin.apply(this, args);
      for (const end of ['abort', 'complete']) transaction.addEventListener(end, () => ends.push(end));
      return transaction;
    };
    const later = [put(2), count()];
    await new Promise((resolve) => queueMicrotask(() => queueMicrotask(() => queueMicrotask(resolve))));
    dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }));
    await new Promise((resolve) => setTimeout(resolve, 100));
    const whileLeft = [...ends];
    dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));
    await Promise.all(later);
    return [whileLeft, [...ends], await count(), lost];`,
  );
  assert.deepEqual(found, [['abort', 'abort'], ['abort', 'abort', 'complete', 'complete'], 2, []]);
  await page.close();
});

test('it lets go where another tab has a newer version, and says so', async () => {
  const [older, newer] = [await openPage(), await openPage()];
  await older.evaluate(`(async () => {
    const NAME = 'newer'; ${STORE}
    await put(1);
    Object.assign(globalThis, { lost, put, told });
  })()`);
  await newer.evaluate(`new Promise((resolve, reject) => {
    const request = indexedDB.open('newer', 2);
    request.onsuccess = () => { request.result.close(); resolve(); };
    request.onerror = () => reject(request.error);
  })`);
  const lost = await older.evaluate(`lost`);
  const reason = 'Error: another tab has a newer version: reload this one';
  assert.deepEqual(lost, [reason]);
  assert.equal(await older.evaluate(`told(put(2))`), reason);
  const again = await run(older, 'newer', `return [await told(put(1)), lost.length];`);
  assert.match(String(again), /^VersionError: .*,1$/);
  await older.close();
  await newer.close();
});

test('it does not wait for ever for a tab that keeps an older version', async () => {
  const [older, newer] = [await openPage(), await openPage()];
  await older.evaluate(`new Promise((resolve) => {
    const request = indexedDB.open('blocked', 1);
    request.onsuccess = () => { globalThis.kept = request.result; resolve(); };
  })`);
  const found = await run(
    newer,
    'blocked',
    `const open = indexedDB.open.bind(indexedDB);
    indexedDB.open = (name) => open(name, 2);
    const later = setTimeout;
    globalThis.setTimeout = (work, ms) => later(work, ms / 50);
    return [await told(put(1)), lost];`,
  );
  const reason = 'Error: another tab keeps an older version of the database: close it';
  assert.deepEqual(found, [reason, [reason]]);
  await older.close();
  await newer.close();
});

test('it is lost where there is no room', async () => {
  const page = await openPage();
  // As Chromium does at the commit: it ends the transaction, whose error then says why.
  const found = await run<[string, string[], string, number]>(
    page,
    'full',
    `await put(1);
    const full = new DOMException('no room', 'QuotaExceededError');
    Object.defineProperty(IDBTransaction.prototype, 'error', { get: () => full });
    const before = IDBTransaction.prototype.commit;
    IDBTransaction.prototype.commit = IDBTransaction.prototype.abort;
    const first = await told(put(2));
    IDBTransaction.prototype.commit = before;
    return [first, lost, await told(put(3))];`,
  );
  const reason = 'QuotaExceededError: no room';
  assert.deepEqual(found, [reason, [reason], reason]);
  await page.close();
});
