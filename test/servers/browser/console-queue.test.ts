/** The queue in the operator's console: 2,000 deliveries of one account that wait for dead receivers, and those of a colleague. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { DatabaseSync } from 'node:sqlite';
import { before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { startTestService, type TestAccount, type TestService } from '../../support/service.ts';
import { findViolations } from './accessibility.ts';
import { type Look, lookAtConsole, PHONE } from './console-page.ts';
import { launchChromium } from './watched-page.ts';

const WAITING = 2_000;
const OF_COLLEAGUE = 40;

let service: TestService;
let browser: Browser;
let signedIn: Look;
let spammer: TestAccount;
let colleague: TestAccount;

/** Rows as a worker leaves them whose receivers did not answer. */
function fill(database: DatabaseSync, address: string, count: number): void {
  const [local = '', domain = ''] = address.split('@');
  const account =
    database
      .prepare(
        'select id, domain_id, user_id from accounts where local_part = ? and domain_name = ?',
      )
      .get(local, domain) ?? assert.fail();
  const body = database.prepare('insert into bodies (size, content) values (1, ?)').run('x');
  const insert = database.prepare(
    `insert into deliveries (kind, domain_id, destination, sender, body_id, public_id, status, attempts, next_attempt_at,
      attempted_at, last_error, reason, mail_from, recipient, subject, created_at, updated_at)
     values ('send', ?, ?, ?, ?, ?, 'queued', 3, ?, ?, ?, ?, ?, ?, 'Offer', ?, ?)`,
  );
  const pay = database.prepare(
    "insert into delivery_payloads (delivery_id, payload) values (?, '{}')",
  );
  const now = Date.now();
  const text = 'connect ECONNREFUSED 192.0.2.1:25';
  for (let number = 0; number < count; number++) {
    const destination = `dead${number % 4}.test`;
    const { lastInsertRowid } = insert.run(
      ...[Number(account.domain_id), destination],
      ...[`${account.domain_id}/${account.id}/${account.user_id}`, Number(body.lastInsertRowid)],
      ...[randomUUID(), now + 3_600_000, now - 60_000, JSON.stringify({ text }), text, address],
      ...[`someone${number}@${destination}`, now - 7_200_000, now],
    );
    pay.run(lastInsertRowid);
  }
}

before(async () => {
  service = await startTestService('sqlite');
  spammer = await service.makeAccount('spammer');
  colleague = await service.makeAccount('colleague');
  const database = new DatabaseSync(service.databaseLocation, { timeout: 10_000 });
  database.exec('begin immediate');
  fill(database, spammer.address, WAITING);
  fill(database, colleague.address, OF_COLLEAGUE);
  database.exec('commit');
  database.close();
  browser = await launchChromium();
  ({ signedIn } = lookAtConsole(browser, service.url));
});

const row = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name });

test('a receiver says what waits, since when and why, and what it consists of', async () => {
  await signedIn('/queue', async (page) => {
    const dead = row(page, 'dead1.test');
    await dead.filter({ hasText: '510' }).filter({ hasText: '2 h ago' }).waitFor();
    await dead.filter({ hasText: '510 of 510: connect ECONNREFUSED' }).waitFor();
    assert.deepEqual(await findViolations(page), []);
    await dead.getByRole('link', { name: 'dead1.test' }).click();
    await page.getByRole('heading', { level: 1, name: 'dead1.test' }).waitFor();
    await row(page, spammer.address).filter({ hasText: '500' }).first().waitFor();
    await row(page, colleague.address).filter({ hasText: '10' }).first().waitFor();
    assert.deepEqual(await findViolations(page), []);
    await page.getByRole('link', { name: spammer.address }).click();
    await page.getByLabel('Search deliveries').and(page.locator('[value*="from:"]')).waitFor();
  });
});

test('what a search does not understand is said, and nothing is asked for', async () => {
  await signedIn('/queue?q=-to:dead1.test', async (page) => {
    await page.getByRole('alert').filter({ hasText: '-to: is not possible here' }).waitFor();
    assert.equal(await page.getByRole('table').count(), 0);
  });
});

test('on a phone a receiver is two lines', async () => {
  await signedIn(
    '/queue',
    async (page) => {
      await row(page, 'dead1.test').filter({ hasText: '510' }).waitFor();
      const name = await page.getByRole('link', { name: 'dead1.test' }).boundingBox();
      assert.ok((name?.width ?? 0) > 40, 'its name is seen');
      assert.deepEqual(await findViolations(page), []);
    },
    PHONE,
  );
});

test('2,000 waiting deliveries of one account are dropped in 3 clicks, and no others', async () => {
  await signedIn(`/queue?q=account:${spammer.address}`, async (page) => {
    await row(page, 'dead1.test').filter({ hasText: '500' }).waitFor();
    await page.getByLabel('Choose all rows').click();
    await page
      .getByRole('region', { name: 'Chosen rows' })
      .getByRole('button', { name: 'Drop' })
      .click();
    const dialog = page.getByRole('dialog', { name: 'Drop 2,000 deliveries?' });
    await dialog.getByText('connect ECONNREFUSED').waitFor();
    assert.deepEqual(await findViolations(page), []);
    await dialog.getByLabel('Type drop to confirm').fill('drop');
    await dialog.getByRole('button', { name: 'Drop' }).click();
    const strip = page.getByRole('region', { name: /^Drop 2,000 deliveries/ });
    await strip.getByText('2,000 of 2,000 are dropped.').waitFor();
    await page.getByText('Nothing waits').waitFor();
    await page.goto(`${service.url}/console/queue`);
    await row(page, 'dead1.test').filter({ hasText: '10 of 10' }).waitFor();
    await page.getByRole('button', { name: 'Failed' }).click();
    await row(page, 'dead1.test').filter({ hasText: 'dropped by an operator' }).waitFor();
  });
  const { body } = await service.v2('GET', '/v2/operator/queue/summary?status=waiting');
  assert.equal(body.counts.queued, OF_COLLEAGUE);
});
