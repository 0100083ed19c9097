/** What somebody changes in the live inbox: flags, mailboxes, what is deleted; and what other tabs see of it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openWatched } from './inbox-browser.ts';
import {
  assertAccessible,
  assertFits,
  DESKTOP,
  goTo,
  type InboxPages,
  PHONE,
  row,
  startInboxPages,
  until,
} from './inbox-page.ts';

let pages: InboxPages;

before(async () => {
  pages = await startInboxPages();
});

after(async () => {
  await pages?.end();
});

/** An account with mails of these subjects, the last one on top. */
async function accountWith(...subjects: string[]) {
  const account = await pages.newAccount();
  for (const subject of subjects) await pages.send(account.address, subject);
  return account;
}

async function flagsOf(account: { id: number }, mailbox: string, uid: number): Promise<string[]> {
  const { flags } = await pages.callMail(
    account.id,
    'GET',
    `/mail/content?mailbox=${mailbox}&uid=${uid}`,
  );
  return flags;
}

const focusedText = `document.activeElement.closest('li')?.textContent ?? document.activeElement.id`;

test('a message that is opened is read, for every device, with one request', async () => {
  const account = await accountWith('One', 'Two');
  const first = await pages.open(account.address);
  const second = await pages.open(account.address);
  const { page } = first;
  await until(page, `document.title.startsWith('(2) Live inbox')`);
  await page.getByRole('link', { name: 'Inbox 2 unread' }).waitFor();
  const before = first.requests.length;
  await row(page, 'Two').click();
  await until(page, `document.title.startsWith('(1)')`);
  await until(second.page, `document.title.startsWith('(1)')`);
  assert.deepEqual(await flagsOf(account, 'INBOX', 2), ['\\Seen']);
  await page.locator('#message-pane').getByText('Text of Two').waitFor();
  const asked = first.requests.slice(before).map((url) => new URL(url).pathname);
  assert.deepEqual(
    asked.filter((path) => path !== '/mail/attachment' && path !== '/mail/content'),
    ['/mail/flags'],
  );

  await page.getByRole('button', { name: 'Unread' }).click();
  await until(page, `document.title.startsWith('(2)')`);
  await until(second.page, `document.title.startsWith('(2)')`);
  assert.deepEqual(await flagsOf(account, 'INBOX', 2), []);
  await row(page, 'One').click();
  await until(page, `document.title.startsWith('(1)')`);
  first.assertQuiet();
  second.assertQuiet();
  await first.context.close();
  await second.context.close();
});

test('a star is given in the list and in the message, and seen by another device', async () => {
  const account = await accountWith('Starry');
  const watched = await pages.open(account.address);
  const other = await pages.open(account.address);
  const { page } = watched;
  await row(page, 'Starry').hover();
  const star = page.getByRole('button', { name: 'Star' });
  await star.click();
  await page.locator('li.flagged').waitFor();
  await other.page.locator('li.flagged').waitFor();
  assert.deepEqual(await flagsOf(account, 'INBOX', 1), ['\\Flagged']);
  await row(page, 'Starry').click();
  await page.getByRole('toolbar').getByRole('button', { name: 'Star', pressed: true }).click();
  await page.getByRole('toolbar').getByRole('button', { name: 'Star', pressed: false }).waitFor();
  await other.page.locator('li.flagged').waitFor({ state: 'detached' });
  assert.deepEqual(await flagsOf(account, 'INBOX', 1), ['\\Seen']);
  watched.assertQuiet();
  await watched.context.close();
  await other.context.close();
});

test('deleted mail goes to Trash, comes back, and is deleted there for good', async () => {
  const account = await accountWith('Keep', 'Throw away', 'Newest');
  const watched = await pages.open(account.address);
  const { page } = watched;
  await row(page, 'Throw away').click();
  await page.locator('#message-pane').getByText('Text of Throw away').waitFor();
  await page.getByRole('toolbar').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('Moved to Trash.').waitFor();
  await row(page, 'Throw away').waitFor({ state: 'detached' });
  // The focus is on what came after it, so that the keyboard goes on from there.
  await until(page, `${focusedText}.includes('Keep')`);
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('Back in Inbox.').waitFor();
  // It is where it was, although its UID there is a new one.
  await row(page, 'Throw away').waitFor();
  const subjects = await page.locator('.row .subject').allTextContents();
  assert.deepEqual(subjects, ['Newest', 'Throw away', 'Keep']);

  await row(page, 'Throw away').focus();
  await page.keyboard.press('Delete');
  await row(page, 'Throw away').waitFor({ state: 'detached' });
  await goTo(page, 'Trash');
  await row(page, 'Throw away').click();
  await page.locator('#message-pane').getByText('Text of Throw away').waitFor();
  await page.keyboard.press('#');
  await page.getByRole('dialog').getByText('for good').waitFor();
  await assertAccessible(page);
  await page.keyboard.press('Escape');
  await page.locator('#message-pane').getByText('Text of Throw away').waitFor();
  await page.keyboard.press('#');
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.getByText('Deleted for good.').waitFor();
  await page.getByText('Nothing in here.').waitFor();
  const { mailboxes } = await pages.callMail(account.id, 'GET', '/mail/mailboxes');
  const counts = mailboxes.map((one: { mailbox: string; messages: number }) => one.messages);
  assert.deepEqual(counts, [2, 0, 0, 0, 0, 0]);
  watched.assertQuiet();
  await watched.context.close();
});

test('mail is archived, and moved into a mailbox that is made for it', async () => {
  const account = await accountWith('To archive', 'To project');
  const watched = await pages.open(account.address);
  const { page } = watched;
  await row(page, 'To archive').focus();
  await page.keyboard.press('e');
  await page.getByText('Moved to Archive.').waitFor();
  await row(page, 'To project').focus();
  await page.keyboard.press('m');
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Or to a new mailbox').fill('Projects/Spring <b>');
  await assertAccessible(page);
  await page.keyboard.press('Enter');
  await page.getByText('Moved to Projects/Spring <b>.').waitFor();
  await goTo(page, 'Projects/Spring <b>');
  await row(page, 'To project').click();
  await page.locator('#message-pane').getByText('Text of To project').waitFor();
  // A name that is refused is said, and nothing is moved.
  await page.keyboard.press('m');
  await dialog.getByLabel('Or to a new mailbox').fill('trash');
  await dialog.getByRole('button', { name: 'Create and move' }).click();
  await page.getByText(/^Nothing was changed\./).waitFor();
  await row(page, 'To project').waitFor();
  assert.match(watched.complaints.join(), /^[^,]*409 \(Conflict\)$/);
  await watched.context.close();
});

test('mailboxes that another device makes, renames and deletes appear and disappear', async () => {
  const account = await accountWith('One');
  const watched = await pages.open(account.address);
  const { page } = watched;
  const link = (name: string) => page.getByRole('link', { name, exact: true });
  await link('Archive').waitFor();
  const change = (path: string, body: object) =>
    pages.callMail(account.id, 'POST', `/mail/mailboxes/${path}`, body);
  await change('create', { mailbox: 'Taxes' });
  await link('Taxes').waitFor();
  await change('rename', { mailbox: 'Taxes', to: 'Taxes 2026' });
  await link('Taxes 2026').waitFor();
  await link('Taxes').waitFor({ state: 'detached' });
  await change('delete', { mailbox: 'Taxes 2026' });
  await link('Taxes 2026').waitFor({ state: 'detached' });
  // A mailbox may go between the event that tells of it and the sync that asks for it; Chromium logs each 404.
  watched.assertQuiet(/status of 404/);
  await watched.context.close();
});

test('two tabs of one browser see what the other changes', async () => {
  const account = await accountWith('Shared', 'Other');
  const watched = await pages.open(account.address);
  const { page, context } = watched;
  const tab = await context.newPage();
  await pages.signIn(tab, account.address);
  await row(tab, 'Shared').click();
  await tab.locator('#message-pane').getByText('Text of Shared').waitFor();
  await page.locator('li.unseen-mail', { hasText: 'Shared' }).waitFor({ state: 'detached' });
  await row(page, 'Shared').focus();
  await page.keyboard.press('#');
  await row(tab, 'Shared').waitFor({ state: 'detached' });
  await tab.getByText('This message is not there any more.').waitFor();
  await page.getByText('Moved to Trash.').waitFor();
  await page.keyboard.press('z');
  await row(tab, 'Shared').waitFor();
  watched.assertQuiet();
  await context.close();
});

test('a click that has begun on a mailbox counts, although mail comes before it ends', async () => {
  const account = await accountWith('One');
  const watched = await pages.open(account.address);
  const { page } = watched;
  const archive = page.locator('#mailboxes a', { hasText: 'Archive' });
  await page.getByRole('link', { name: 'Inbox 1 unread' }).waitFor();
  await archive.hover();
  await page.mouse.down();
  await pages.send(account.address, 'Two');
  await page.getByRole('link', { name: 'Inbox 2 unread' }).waitFor();
  await page.mouse.up();
  await archive.and(page.locator('[aria-current]')).waitFor();
  await page.getByText('Nothing in here.').waitFor();
  watched.assertQuiet();
  await watched.context.close();
});

test('the focus is in the list after signing in, and where one was after Esc', async () => {
  const account = await accountWith('First', 'Second', 'Third');
  const watched = await pages.open(account.address);
  const { page } = watched;
  await until(page, `${focusedText}.includes('Third')`);
  await page.keyboard.press('j');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.locator('#message-pane').getByText('Text of First').waitFor();
  await page.keyboard.press('Escape');
  await page.getByText('Choose a message').waitFor();
  await until(page, `${focusedText}.includes('First')`);
  await page.keyboard.press('?');
  await page.getByRole('dialog').getByText('back to the list').waitFor();
  await assertAccessible(page);
  await page.keyboard.press('Escape');
  await until(page, `${focusedText}.includes('First')`);
  watched.assertQuiet();
  await watched.context.close();
});

test('a change without a connection is reported as not made; "Retry now" does not wait', async () => {
  const account = await accountWith('Stays here');
  const { page, context } = await openWatched(pages.browser, pages.service.url);
  await page.clock.install();
  await pages.signIn(page, account.address);
  await row(page, 'Stays here').waitFor();
  const retry = page.getByRole('button', { name: 'Retry now' });
  assert.equal(await retry.isVisible(), false);
  await pages.service.stop();
  await retry.waitFor();
  // From here on no attempt comes by itself.
  await page.clock.pauseAt(new Date(Date.now() + 60_000));
  // That it cannot be marked as read is no trouble of the reader.
  await row(page, 'Stays here').click();
  await page.locator('.content').getByText('The server does not answer.').waitFor();
  assert.equal(await page.locator('#done').isVisible(), false);
  await page.keyboard.press('Escape');
  await page.locator('.row:focus', { hasText: 'Stays here' }).waitFor();
  await page.keyboard.press('#');
  await page.getByText('Nothing was changed. The server does not answer.').waitFor();
  await row(page, 'Stays here').waitFor();
  await pages.service.start();
  await retry.click();
  await page.locator('[data-state=live]').waitFor();
  await retry.waitFor({ state: 'hidden' });
  await context.close();
});

for (const [name, viewport] of Object.entries({ PHONE, DESKTOP })) {
  for (const colorScheme of ['light', 'dark'] as const) {
    test(`tools, notice and dialogs fit and are accessible: ${name}, ${colorScheme}`, async () => {
      const account = await accountWith('On a small screen');
      const watched = await pages.open(account.address, { viewport, colorScheme });
      const { page } = watched;
      await row(page, 'On a small screen').click();
      await page.locator('#message-pane').getByText('Text of On a small screen').waitFor();
      await assertFits(page);
      await assertAccessible(page);
      await page.getByRole('button', { name: 'Move' }).click();
      await page.getByRole('dialog').waitFor();
      await assertFits(page);
      await assertAccessible(page);
      await page.getByRole('dialog').getByRole('button', { name: 'Junk' }).click();
      await page.getByText('Moved to Junk.').waitFor();
      await assertFits(page);
      await assertAccessible(page);
      await page.locator('body[data-pane=list]').waitFor();
      watched.assertQuiet();
      await watched.context.close();
    });
  }
}
