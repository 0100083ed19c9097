/** The API reference, and its forms against the running server. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { readDescription } from '../../../docs/.vitepress/reference/openapi.ts';
import { API_KEY, type TestAccount, WEBHOOK_SECRET } from '../../support/service.ts';
import { findViolations } from './accessibility.ts';
import { type SiteService, startSiteService } from './site-service.ts';
import { launchChromium, openWatched, type WatchedPage } from './watched-page.ts';

let service: SiteService;
let browser: Browser;
let account: TestAccount;
let watched: WatchedPage;

before(async () => {
  service = await startSiteService();
  account = await service.makeAccount();
  browser = await launchChromium({ runsBriefly: true });
  watched = await openWatched(browser, service.url);
});

/** Opens the form of an operation. */
async function openForm(page: Page, id: string) {
  const operation = page.locator(`h2#${id} + .operation`);
  const form = operation.locator('.try-it');
  await form.locator('summary').click();
  return {
    fill: (label: string | RegExp, text: string) => form.getByLabel(label).fill(text),
    async send() {
      await form.getByRole('button', { name: 'Send' }).click();
      await form.locator('.status').waitFor();
      const body = form.locator('.outcome pre').first();
      return {
        status: (await form.locator('.status').textContent()) ?? '',
        body: JSON.parse((await body.textContent()) ?? 'null'),
      };
    },
  };
}

test('every operation is listed, with its errors and examples', async () => {
  const { page } = watched;
  const description = readDescription();
  await page.goto(`${service.url}/docs/reference/api`, { waitUntil: 'networkidle' });
  const overview = (await page.locator('.vp-doc').textContent()) ?? '';
  const links = await page
    .locator('.vp-doc td a')
    .evaluateAll((found) => found.map((link) => String(link.getAttribute('href'))));
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, { operationId, tags, responses }] of Object.entries(methods)) {
      if (tags[0] === 'Documentation') continue;
      assert.ok(overview.includes(path), path);
      const link = links.find((href) => href.endsWith(`#${operationId}`));
      assert.ok(link, operationId);
      // Operations of one page follow each other.
      const at = new URL(link, service.url);
      if (new URL(page.url()).pathname !== at.pathname) {
        await page.goto(at.href, { waitUntil: 'networkidle' });
      }
      const text = (await page.locator(`h2#${operationId} + .operation`).textContent()) ?? '';
      assert.ok(text.includes(path) && text.includes(method.toUpperCase()), operationId);
      for (const answer of Object.values(responses)) {
        for (const [, code = ''] of answer.description.matchAll(/`([a-z_]+)`: /g)) {
          assert.ok(text.includes(code), `${operationId}: ${code}`);
        }
      }
      if (path !== '/ws') assert.ok(text.includes('curl'), operationId);
    }
  }
  watched.assertQuiet();
});

test('a domain is claimed by its form', async () => {
  const { page } = watched;
  await page.goto(`${service.url}/docs/reference/api/domains`, { waitUntil: 'networkidle' });
  const create = await openForm(page, 'createDomain');
  await create.fill('API key', API_KEY);
  await create.fill('Body', JSON.stringify({ domain: 'tried.test', user_id: 'reader' }));
  const made = await create.send();
  assert.match(made.status, /^201/);
  assert.equal(made.body.domain.domain.domain, 'tried.test');
  const known = await service.v2('GET', '/v2/domains/tried.test/info?user_id=reader');
  assert.equal(known.status, 200);
  // What was entered once is there in the next form.
  const read = await openForm(page, 'getDomain');
  await read.fill(/^domain/, 'tried.test');
  await read.fill(/^user_id/, 'reader');
  const details = await read.send();
  assert.deepEqual(await findViolations(page), [], 'of open forms and their answers');
  assert.match(details.status, /^200/);
  assert.equal(details.body.domain.status, 'pending');
  watched.assertQuiet();
});

test('a form that is opened before the scripts of the page ran is filled in by them', async () => {
  const { page } = watched;
  const released = Promise.withResolvers<void>();
  await page.route('**/*.js', (route) => released.promise.then(() => route.continue()));
  await page.goto(`${service.url}/docs/reference/api/domains`, { waitUntil: 'commit' });
  const form = page.locator('h2#getDomain + .operation .try-it');
  await form.locator('summary').click();
  await page.locator('h2#getDomain + .operation .try-it[open]').waitFor();
  released.resolve();
  await form.getByLabel('API key').waitFor();
  await page.unroute('**/*.js');
  watched.assertQuiet();
});

test('a failure is shown with its code', async () => {
  const { page } = watched;
  await page.goto(`${service.url}/docs/reference/api/domains`, { waitUntil: 'networkidle' });
  const read = await openForm(page, 'getDomain');
  await read.fill('API key', 'a key of nobody');
  const refused = await read.send();
  assert.match(refused.status, /^401/);
  assert.equal(refused.body.code, 'unauthorized');
  assert.match(watched.complaints.splice(0).join(), /^Failed to load resource.*401[^,]*$/);
});

test('a mailbox is synced by its form, and events are signed by theirs', async () => {
  const { page } = watched;
  await page.goto(`${service.url}/docs/reference/api/mail`, { waitUntil: 'networkidle' });
  const sync = await openForm(page, 'syncMailbox');
  await sync.fill('Mailbox token', account.token);
  await sync.fill('Body', JSON.stringify({ mailbox: 'INBOX' }));
  const synced = await sync.send();
  assert.match(synced.status, /^200/);
  assert.deepEqual(synced.body.changes, { added: [], updated: [], removed: [] });
  await page.goto(`${service.url}/docs/reference/api/mail-server`, { waitUntil: 'networkidle' });
  const events = await openForm(page, 'takeMailserverEvents');
  await events.fill(/^Webhook secret/, WEBHOOK_SECRET);
  await events.fill(
    'Body',
    JSON.stringify({
      event_id: 'e1',
      user: account.address,
      event_type: 'MailboxesChanged',
      mailbox: 'INBOX',
      uidvalidity: '1',
      highestmodseq: '1',
    }),
  );
  const taken = await events.send();
  assert.match(taken.status, /^200/);
  assert.deepEqual(taken.body, { ok: true, accepted: 1 });
  watched.assertQuiet();
});
