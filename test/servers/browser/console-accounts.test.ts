/** Accounts in the operator's console: one that sends too much, with mail that waits, and its colleagues. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { DatabaseSync } from 'node:sqlite';
import { before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { freePort } from '../../support/free-port.ts';
import { ImapLines } from '../../support/imap-lines.ts';
import { startTestService, type TestAccount, type TestService } from '../../support/service.ts';
import { findViolations } from './accessibility.ts';
import { type Look, lookAtConsole, PHONE, rowsInSight } from './console-page.ts';
import { launchChromium } from './watched-page.ts';

const HOUR = 3_600_000;
const WAITING = 12;
const REASON = 'connect ECONNREFUSED 192.0.2.1:25';

let service: TestService;
let browser: Browser;
let signedIn: Look;
let spammer: TestAccount;
let colleague: TestAccount;

/** As the service counts what an account sent in this hour and what of it bounced. */
function count(database: DatabaseSync, { id }: TestAccount, out: number, bounced: number): void {
  database
    .prepare(
      `insert into usage_hours (hour, domain_id, account_id, messages_in, messages_out, bounced, refused)
       select ?, domain_id, id, 2, ?, ?, 0 from accounts where id = ?`,
    )
    .run(Math.floor(Date.now() / HOUR) * HOUR, out, bounced, id);
}

/** Rows as a worker leaves them whose receiver did not answer. */
function fill(database: DatabaseSync, { id, address }: TestAccount, amount: number): void {
  const account =
    database.prepare('select domain_id, user_id from accounts where id = ?').get(id) ??
    assert.fail();
  const body = database.prepare('insert into bodies (size, content) values (1, ?)').run('x');
  const insert = database.prepare(
    `insert into deliveries (kind, domain_id, destination, sender, body_id, public_id, status, attempts, next_attempt_at,
      attempted_at, last_error, reason, mail_from, recipient, subject, created_at, updated_at)
     values ('send', ?, 'dead.test', ?, ?, ?, 'queued', 3, ?, ?, ?, ?, ?, ?, 'Offer', ?, ?)`,
  );
  const pay = database.prepare(
    "insert into delivery_payloads (delivery_id, payload) values (?, '{}')",
  );
  const now = Date.now();
  for (let number = 0; number < amount; number++) {
    const { lastInsertRowid } = insert.run(
      ...[Number(account.domain_id), `${account.domain_id}/${id}/${account.user_id}`],
      ...[Number(body.lastInsertRowid), randomUUID(), now + HOUR, now - 60_000],
      ...[JSON.stringify({ text: REASON }), REASON, address, `someone${number}@dead.test`],
      ...[now - 2 * HOUR, now],
    );
    pay.run(lastInsertRowid);
  }
}

before(async () => {
  service = await startTestService('sqlite', {
    QUOTA_BYTES: '2000',
    IMAP_PORT: String(await freePort()),
  });
  const quiet: TestAccount[] = [];
  for (let made = 0; made < 10; made++) quiet.push(await service.makeAccount(`quiet${made}`));
  colleague = await service.makeAccount('colleague');
  spammer = await service.makeAccount('spammer');
  const database = new DatabaseSync(service.databaseLocation, { timeout: 10_000 });
  database.exec('begin immediate');
  count(database, spammer, 118, 3);
  count(database, colleague, 60, 30);
  fill(database, spammer, WAITING);
  fill(database, colleague, 1);
  database.exec('commit');
  database.close();
  await service.send({ from: 'bob@elsewhere.test', to: colleague.address, subject: 'Invoice' });
  browser = await launchChromium();
  ({ signedIn } = lookAtConsole(browser, service.url));
});

const row = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name });
/** The addresses of the first rows, in their order. */
const first = (page: Page, amount: number) =>
  page
    .locator('.data tbody tr a')
    .allTextContents()
    .then((all) => all.slice(0, amount));

test('those who send most come first, and each number sorts', async () => {
  await signedIn('/accounts', async (page) => {
    await row(page, spammer.address).filter({ hasText: '3, 2.5 % of 118' }).waitFor();
    assert.deepEqual(await first(page, 2), [spammer.address, colleague.address]);
    await row(page, colleague.address).getByRole('meter', { name: 'Quota used' }).waitFor();
    assert.deepEqual(await findViolations(page), []);
    const sorted = async (head: string, sort: string, top: string) => {
      await page.getByRole('columnheader', { name: head }).getByRole('button').click();
      await page.waitForURL(new RegExp(`sort=${sort}$`));
      await page.locator('.data tbody tr').first().filter({ hasText: top }).waitFor();
    };
    await sorted('Bounced 24 h', '-bounced_24h', colleague.address);
    await sorted('Waiting', '-waiting', spammer.address);
    await sorted('Stored', '-quota_used', colleague.address);
    await sorted('Address', 'address', colleague.address);
    await page.getByLabel('Search accounts').fill(`domain:${spammer.domain}`);
    await row(page, colleague.address).waitFor({ state: 'detached' });
    await row(page, spammer.address).waitFor();
    await page.getByLabel('Search accounts').fill(`-domain:${spammer.domain}`);
    await page.getByRole('alert').filter({ hasText: '-domain: is not possible here' }).waitFor();
  });
});

test('an account shows what it sends, where to, and why its mail waits', async () => {
  await signedIn('/accounts', async (page) => {
    await page.getByRole('link', { name: spammer.address }).click();
    await page.getByRole('heading', { level: 1, name: spammer.address }).waitFor();
    await page.locator('.facts').getByText('3 (2.5 % of 118)').waitFor();
    await page.getByRole('img', { name: 'By hour: Sent 118, Received 2, Bounced 3' }).waitFor();
    await page.getByRole('img', { name: /^By day .*: Sent 118, Received 2, Bounced 3$/ }).waitFor();
    await row(page, 'dead.test')
      .filter({ hasText: String(WAITING) })
      .filter({ hasText: REASON })
      .waitFor();
    await row(page, '127.0.0.1').waitFor();
    assert.deepEqual(await findViolations(page), []);
    await row(page, 'dead.test').getByRole('link').click();
    await page.getByRole('heading', { level: 1, name: 'dead.test' }).waitFor();
    await page.goto(`${service.url}/console/accounts/999999`);
    await page.getByRole('alert').filter({ hasText: 'there is no account 999999' }).waitFor();
  });
});

test('the mail programs of an account are shown; a session is ended, an app password is revoked', async () => {
  const made = await service.v2('POST', `/v2/email-accounts/${colleague.id}/app-passwords`, {
    user_id: colleague.userId,
    name: 'Phone',
  });
  const connect = async (program: string, password: string) => {
    const client = await ImapLines.connect(service.addresses.imap?.port ?? 0);
    await client.ok(`ID ("name" "${program}")`);
    await client.ok(`LOGIN ${colleague.address} "${password}"`);
    return client;
  };
  const phone = await connect('K-9 Mail', made.body.password);
  const laptop = await connect('<b>mbsync</b>', colleague.password);
  await laptop.ok('SELECT INBOX');
  await signedIn(`/accounts/${colleague.id}`, async (page) => {
    const sessions = page.getByRole('table', { name: 'Mail programs now' });
    const session = (name: string) => sessions.getByRole('row').filter({ hasText: name });
    await session('<b>mbsync</b>').filter({ hasText: 'in INBOX, without TLS' }).waitFor();
    await session('K-9 Mail').filter({ hasText: 'by Phone' }).waitFor();
    await row(page, 'Phone').getByRole('button', { name: 'Revoke Phone' }).waitFor();
    assert.deepEqual(await findViolations(page), []);
    await session('mbsync').getByRole('button', { name: 'End' }).click();
    const asked = page.getByRole('dialog', { name: 'End the session of <b>mbsync</b> from 127' });
    await asked.getByRole('button', { name: 'End' }).click();
    await session('mbsync').waitFor({ state: 'detached' });
    assert.match(await laptop.next(), /^\* BYE The session was ended by the operator/);

    const passwords = page.getByRole('table', { name: 'App passwords' });
    await passwords.getByRole('button', { name: 'Revoke Phone' }).click();
    const dialog = page.getByRole('dialog', { name: `Revoke Phone of ${colleague.address}?` });
    assert.deepEqual(await findViolations(page), []);
    await dialog.getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('It has none').waitFor();
    await page.getByText('No mail program is connected').waitFor();
    assert.match(await phone.next(), /^\* BYE The app password was revoked/);
  });
});

test('on a phone the numbers say what they count', async () => {
  await signedIn(
    '/accounts',
    async (page) => {
      await row(page, spammer.address).filter({ hasText: '118 sent' }).waitFor();
      await row(page, spammer.address)
        .filter({ hasText: `${WAITING} wait` })
        .waitFor();
      assert.ok((await rowsInSight(page)) >= 8, 'eight rows are seen');
      assert.deepEqual(await findViolations(page), []);
      await page.getByRole('link', { name: spammer.address }).click();
      await page.getByRole('heading', { level: 1, name: spammer.address }).waitFor();
      await row(page, 'dead.test').waitFor();
      assert.deepEqual(await findViolations(page), []);
      const [width, seen] = await page.evaluate<[number, number]>(
        '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
      );
      assert.ok(width <= seen, `${width} wide on a screen of ${seen}`);
    },
    PHONE,
  );
});

test('a suspended account keeps its waiting mail, or has it dropped, as the button says', async () => {
  const waiting = async () => {
    const { body } = await service.v2('GET', '/v2/operator/queue/summary?status=waiting');
    return body.counts.queued;
  };
  await signedIn(`/accounts?q=${colleague.address}`, async (page) => {
    await page.getByRole('button', { name: `Actions of ${colleague.address}` }).click();
    await page.getByRole('menuitem', { name: 'Suspend' }).click();
    const dialog = page.getByRole('dialog', { name: `Suspend ${colleague.address}?` });
    await dialog.getByText('1 message that it sent waits for its receiver').waitFor();
    await dialog.getByRole('button', { name: 'Suspend and keep' }).click();
    await row(page, colleague.address).getByText('Suspended').waitFor();
    assert.equal(await waiting(), WAITING + 1);

    await page.goto(`${service.url}/console/accounts/${spammer.id}`);
    await page.getByRole('button', { name: 'Suspend', exact: true }).click();
    const other = page.getByRole('dialog', { name: `Suspend ${spammer.address}?` });
    await other.getByLabel('Drop').check();
    assert.deepEqual(await findViolations(page), []);
    await other.getByRole('button', { name: 'Suspend and drop' }).click();
    const strip = page.getByRole('region', { name: /^Drop 12 deliveries/ });
    await strip.getByText('12 of 12 are dropped.').waitFor();
    await page.getByText('Nothing waits').waitFor();
    await page.locator('.facts').getByText('Suspended').waitFor();
    assert.equal(await waiting(), 1, 'that of the colleague stays');
    await page.getByRole('button', { name: `Actions of ${spammer.address}` }).click();
    await page.getByRole('menuitem', { name: 'Resume' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click();
    await page.locator('.facts').getByText('Active').waitFor();
  });
});
