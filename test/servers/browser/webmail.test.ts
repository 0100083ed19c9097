/** The webmail in a real browser: what a user does in it, with mouse, keyboard and phone. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { findViolations } from './accessibility.ts';
import { assertFits, inPage, type MailPages, PHONE, startMailPages, until } from './mail-pages.ts';
import { fillSignIn, goTo, isLive, openWebmail, rowOf } from './webmail-page.ts';

let pages: MailPages;

before(async () => {
  pages = await startMailPages();
});
after(() => pages.end());

const subjectsOf = (id: number, mailbox: string) =>
  pages
    .callMail(id, 'POST', '/mail/sync', { mailbox, fields: ['envelope', 'flags'] })
    .then(({ changes }) =>
      changes.added.map((one: { envelope: { subject: string } }) => one.envelope.subject),
    );

/** Waits until the server has what the page shows already. */
async function serverHas(id: number, mailbox: string, subjects: readonly string[]): Promise<void> {
  const deadline = Date.now() + 45_000;
  for (;;) {
    const now = (await subjectsOf(id, mailbox)).toSorted();
    if (JSON.stringify(now) === JSON.stringify(subjects.toSorted())) return;
    assert.ok(Date.now() < deadline, `${mailbox} has ${now}, not ${subjects}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test('a day with mail: it comes by itself, is read, archived and brought back, found, and sorted into folders', async () => {
  const { id, address } = await pages.newAccount();
  await pages.send(address, 'Report', { messageId: '<r1@sender.test>' });
  const { page, assertQuiet } = await openWebmail(pages, address);
  await rowOf(page, 'Report').waitFor();
  await pages.send(address, 'Re: Report', {
    inReplyTo: '<r1@sender.test>',
    references: '<r1@sender.test>',
  });
  await rowOf(page, 'Re: Report').waitFor();
  await pages.send(address, 'Invoice', { attachments: [{ filename: 'a.pdf', content: 'pdf' }] });
  await rowOf(page, 'Invoice').getByText('Has attachments').waitFor();
  assert.equal(await page.getByRole('treegrid').getAttribute('aria-rowcount'), '2');
  assert.match(await page.title(), /^\(3\) Inbox · Mail$/);
  assert.deepEqual(await findViolations(page), []);

  await rowOf(page, 'Re: Report').click();
  await page.locator('.message-body').getByText('Text of Re: Report').waitFor();
  await until(page, "document.title.startsWith('(1)')");
  assert.equal(await page.locator('.thread .message').count(), 2);
  assert.deepEqual(await findViolations(page), []);
  await page.getByRole('toolbar', { name: 'This conversation' }).getByLabel('Archive').click();
  await rowOf(page, 'Report').waitFor({ state: 'detached' });
  await serverHas(id, 'Archive', ['Report', 'Re: Report']);
  await page.getByRole('button', { name: 'Undo' }).click();
  await rowOf(page, 'Re: Report').waitFor();
  await serverHas(id, 'Archive', []);
  await serverHas(id, 'INBOX', ['Report', 'Re: Report', 'Invoice']);

  await page.getByLabel('Search mail').fill('subject:invoice has:attachment is:read');
  await page.keyboard.press('Enter');
  await page.getByText('1 message', { exact: true }).waitFor();
  await rowOf(page, 'Invoice').click();
  await page.getByText('a.pdf').waitFor();
  // Two messages of one conversation are found: they are one row, and the keys go on to the next.
  await page.getByLabel('Search mail').fill('text');
  await page.keyboard.press('Enter');
  await page.getByText('3 messages', { exact: true }).waitFor();
  assert.equal(await page.getByRole('row').count(), 2);
  for (const key of ['Home', 'Enter']) await page.keyboard.press(key);
  await page.locator('.row.open', { hasText: 'Invoice' }).waitFor();
  await page.keyboard.press('j');
  await page.locator('.row.open.active', { hasText: 'Re: Report' }).waitFor();
  await page.locator('.message-body').getByText('Text of Re: Report').waitFor();
  await page.keyboard.press('k');
  await page.locator('.row.open.active', { hasText: 'Invoice' }).waitFor();
  await page.getByLabel('End the search').click();

  await page.getByRole('button', { name: 'New folder' }).click();
  await page.getByLabel('Name').fill('Bills');
  await page.keyboard.press('Enter');
  await page.locator('.mailboxes a', { hasText: 'Bills' }).waitFor();
  // One within it stands below it by its own name.
  await pages.callMail(id, 'POST', '/mail/mailboxes/create', { mailbox: 'Bills/Paid' });
  const within = page.getByRole('link', { name: 'Paid', exact: true });
  await within.waitFor();
  assert.equal(await within.getAttribute('title'), 'Bills/Paid');
  await pages.callMail(id, 'POST', '/mail/mailboxes/delete', { mailbox: 'Bills/Paid' });
  await within.waitFor({ state: 'detached' });
  await rowOf(page, 'Invoice').click();
  await page.getByText('a.pdf').waitFor();
  await page.getByRole('toolbar', { name: 'This conversation' }).getByLabel('Move to').click();
  await page.getByRole('combobox').pressSequentially('bil');
  assert.deepEqual(await findViolations(page, 'structure'), []);
  await page.keyboard.press('Enter');
  await serverHas(id, 'Bills', ['Invoice']);
  await goTo(page, 'Bills');
  await rowOf(page, 'Invoice').waitFor();
  // A row whose drag ended without a word is not dropped with the next thing.
  const isIgnored = `(() => {
    const tell = (element, type, dataTransfer) =>
      element.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer }));
    tell(document.querySelector('[role=row][draggable]'), 'dragstart', new DataTransfer());
    const file = new DataTransfer();
    file.setData('text/plain', 'of another program');
    return tell(document.querySelector('.mailboxes li'), 'dragover', file);
  })()`;
  assert.ok(await inPage<boolean>(page, isIgnored));
  // Back by the mouse.
  const inbox = page.locator('.mailboxes li', { hasText: 'Inbox' });
  await rowOf(page, 'Invoice').dragTo(page.locator('.mailboxes li', { hasText: 'Sent' }));
  await rowOf(page, 'Invoice').dragTo(inbox);
  await rowOf(page, 'Invoice').waitFor({ state: 'detached' });
  await serverHas(id, 'Bills', []);
  assert.equal(await inbox.evaluate((one) => one.classList.contains('over')), false);
  assertQuiet();
});

test('all of a long folder is dragged to another one: what comes later is not chosen', async () => {
  const { id, address } = await pages.newAccount();
  await pages.callMail(id, 'POST', '/mail/mailboxes/create', { mailbox: 'Long' });
  const { token } = await pages.service.call('POST', `/v2/email-accounts/${id}/token`, {
    user_id: 'u',
  });
  const append = async (subject: string) => {
    const response = await fetch(`${pages.service.url}/mail/append?mailbox=Long`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'message/rfc822' },
      body: `Subject: ${subject}\r\n\r\nText\r\n`,
    });
    assert.ok(response.ok, await response.text());
  };
  const { page, assertQuiet } = await openWebmail(pages, address);
  await goTo(page, 'Long');
  // One more than the list reads at first.
  for (let at = 0; at < 201; at++) await append(`Old ${at}`);
  await rowOf(page, 'Old 200').waitFor();
  await page.getByLabel('Choose all').click();
  await page.getByRole('button', { name: 'All 201' }).click();
  await rowOf(page, 'Old 200').dragTo(page.locator('.mailboxes li', { hasText: 'Inbox' }));
  await rowOf(page, 'Old').first().waitFor({ state: 'detached' });
  await append('New');
  await rowOf(page, 'New').waitFor();
  assert.equal(await rowOf(page, 'New').getAttribute('aria-selected'), 'false');
  assertQuiet();
});

const IN_LIST = "document.activeElement?.getAttribute('role') === 'treegrid'";

test('the focus is never lost: after a file, an undo, and with accounts that come and go', async () => {
  const { address } = await pages.newAccount();
  const { address: second } = await pages.newAccount();
  await pages.send(address, 'Hello');
  const { page, context } = await openWebmail(pages, address);
  await rowOf(page, 'Hello').waitFor();
  await page.keyboard.press('c');
  const form = page.getByRole('dialog').filter({ has: page.getByLabel('Subject') });
  await form
    .getByLabel('Attach files')
    .setInputFiles({ name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('a') });
  await form.getByRole('button', { name: 'Remove a.txt' }).press('Enter');
  await until(page, "document.activeElement?.getAttribute('aria-label') === 'Text'");
  await page.keyboard.press('Escape');
  await form.waitFor({ state: 'detached' });
  await until(page, IN_LIST);
  await page.keyboard.press('e');
  await page.getByRole('button', { name: 'Undo' }).press('Enter');
  await rowOf(page, 'Hello').waitFor();
  await until(page, IN_LIST);
  const choose = async (item: string) => {
    await page.getByRole('button', { name: 'Account' }).press('Enter');
    await page.getByRole('menuitem', { name: item }).press('Enter');
  };
  await choose('Add an account');
  await fillSignIn(page, second, false);
  await until(page, IN_LIST);
  await choose(address);
  await rowOf(page, 'Hello').waitFor();
  await until(page, IN_LIST);
  for (const next of [IN_LIST, "document.activeElement?.name === 'address'"]) {
    await choose('Sign out');
    await until(page, next);
  }
  await context.close();
});

test('who signs out in one tab is signed out in the others, and the other account stays', async () => {
  const { address } = await pages.newAccount();
  const { address: second } = await pages.newAccount();
  await pages.send(address, 'Of the first');
  const { page, context } = await openWebmail(pages, address, { stay: true });
  await page.getByRole('button', { name: 'Account' }).click();
  await page.getByRole('menuitem', { name: 'Add an account' }).click();
  await fillSignIn(page, second, true);
  const other = await context.newPage();
  await other.goto(page.url());
  await isLive(other);
  await page.getByRole('button', { name: 'Account' }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  for (const tab of [page, other]) await rowOf(tab, 'Of the first').waitFor();
  await other.getByText(`${second} was signed out in another tab`).first().waitFor();
  await other.getByRole('button', { name: 'Account' }).click();
  assert.equal(await other.getByRole('menuitem', { name: second }).count(), 0);
  await context.close();
});

test('all of it with the keyboard alone, and the focus stays in the list', async () => {
  const { id, address } = await pages.newAccount();
  for (const subject of ['First', 'Second', 'Third']) await pages.send(address, subject);
  const { page, assertQuiet } = await openWebmail(pages, address);
  await rowOf(page, 'Third').waitFor();
  await until(page, IN_LIST);
  const active = () =>
    inPage<string>(
      page,
      "document.getElementById(document.querySelector('[role=treegrid]').getAttribute('aria-activedescendant'))?.textContent",
    );
  assert.match(await active(), /Third/);
  await page.keyboard.press('j');
  assert.match(await active(), /Second/);
  await page.keyboard.press('#');
  await rowOf(page, 'Second').waitFor({ state: 'detached' });
  assert.match(await active(), /First/, 'the row that took its place');
  assert.ok(await inPage(page, "document.activeElement?.getAttribute('role') === 'treegrid'"));
  await serverHas(id, 'Trash', ['Second']);
  await page.keyboard.press('z');
  await rowOf(page, 'Second').waitFor();
  await page.getByRole('status').getByText('Undone').waitFor({ state: 'attached' });
  await page.keyboard.press('c');
  await page.getByRole('combobox', { name: 'To' }).waitFor();
  await until(page, "document.activeElement?.getAttribute('role') === 'combobox'");
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.ok(await inPage(page, "document.activeElement?.getAttribute('role') === 'treegrid'"));
  await page.keyboard.press('Home');
  await page.keyboard.press('x');
  await page.keyboard.press('Shift+ArrowDown');
  await page.getByText('2 messages', { exact: true }).waitFor();
  await page.keyboard.press('s');
  await until(page, "document.querySelectorAll('.star.on').length === 2");
  await page.keyboard.press('Escape');
  await page.keyboard.press('Home');
  await page.keyboard.press('Enter');
  await page.locator('.message-body').getByText('Text of Third').waitFor();
  await page.keyboard.press('e');
  await serverHas(id, 'Archive', ['Third']);
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await page.keyboard.press('e');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.ok(
    await inPage(page, "document.activeElement?.getAttribute('role') === 'treegrid'"),
    'a dialog that closes gives the focus back',
  );
  await page.keyboard.press('/');
  await page.keyboard.type('e in:archive');
  await page.keyboard.press('Enter');
  await page
    .getByRole('heading', { name: /^Search/ })
    .or(page.getByText('Nothing found'))
    .first()
    .waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('i');
  await page.getByRole('heading', { name: /^Inbox/ }).waitFor();
  await serverHas(id, 'INBOX', ['First', 'Second']);
  // On what Enter presses, it is no key of the page.
  await page.locator('.mailboxes a', { hasText: 'Trash' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: /^Trash/ }).waitFor();
  // The message that opens is on its way back: it may be asked for where it was, and then where it is.
  assertQuiet(/status of 404 .*\/mail\/content\?mailbox=Trash&uid=1$/);
});

test('on a phone there is one pane, Back closes it, and what is pressed is large enough', async () => {
  const { address } = await pages.newAccount();
  const long = `A subject ${'that does not fit into a row '.repeat(4)}`;
  await pages.send(address, long, { messageId: '<long@sender.test>' });
  await pages.send(address, long, { references: '<long@sender.test>' });
  await pages.send(address, 'On the way');
  const { page, assertQuiet } = await openWebmail(pages, address, {
    viewport: PHONE,
    hasTouch: true,
    isMobile: true,
    colorScheme: 'dark',
  });
  await rowOf(page, 'On the way').waitFor();
  await assertFits(page);
  assert.deepEqual(await findViolations(page), []);
  // As narrow as a page may be (WCAG 1.4.10), what can be done with chosen rows is still within it.
  await page.setViewportSize({ width: 320, height: 568 });
  await page.getByLabel('Choose all').tap();
  const chosen = page.getByRole('toolbar', { name: 'Chosen messages' });
  const last = (await chosen.getByLabel('Move to').boundingBox()) ?? assert.fail();
  assert.ok(last.x + last.width <= 320, `${last.x}`);
  await page.getByLabel('Choose none').tap();
  await page.setViewportSize(PHONE);
  // The number of messages is seen, however long the subject is, and pressed by a finger that is a bit beside it.
  const unfold = page.getByRole('button', { name: '2 messages, unfold' });
  const { x, y } = (await unfold.boundingBox()) ?? assert.fail();
  await page.touchscreen.tap(x - 8, y - 8);
  await page.locator('[aria-level="2"]').nth(1).waitFor();
  await unfold.tap();
  await rowOf(page, 'On the way').tap();
  await page.locator('.message-body').getByText('Text of On the way').waitFor();
  const small = await inPage<string[]>(
    page,
    `[...document.querySelectorAll('.thread-bar button, .answers button, .message header button')]
      .filter((button) => button.checkVisibility())
      .filter((button) => button.getBoundingClientRect().height < 44)
      .map((button) => button.outerHTML)`,
  );
  assert.deepEqual(small, []);
  await assertFits(page);
  await page.goBack();
  await page.locator('.reading-pane').waitFor({ state: 'hidden' });
  // Without a way through the mailboxes.
  await page.getByRole('button', { name: 'Write' }).tap();
  await page.getByRole('dialog').getByLabel('Subject').waitFor();
  await page.getByRole('button', { name: 'Save and close' }).tap();
  await page.getByRole('button', { name: 'Mailboxes' }).tap();
  await goTo(page, 'Sent');
  await page.getByText('No mail here').waitFor();
  await page.getByRole('button', { name: 'Mailboxes' }).tap();
  await page.getByRole('button', { name: 'Account' }).tap();
  await page.getByRole('menuitem', { name: 'What the app says' }).tap();
  // Nothing lies over it: it is pressed where it is seen.
  await page.getByRole('button', { name: 'Close the protocol' }).tap();
  await page.getByRole('complementary', { name: 'Protocol' }).waitFor({ state: 'detached' });
  assertQuiet();
});

test('the key of the search leads to its box wherever that is seen, on a phone too', async () => {
  const { id, address } = await pages.newAccount();
  await pages.send(address, 'Question');
  const { page, assertQuiet } = await openWebmail(pages, address, { viewport: PHONE });
  const box = page.getByLabel('Search mail');
  const hasFocus = () => inPage<boolean>(page, "document.activeElement?.id === 'search'");
  await rowOf(page, 'Question').click();
  await page.locator('.message-body').getByText('Text of Question').waitFor();
  // What is open is in front of it.
  await page.keyboard.press('/');
  await page.locator('.reading-pane').waitFor({ state: 'hidden' });
  assert.ok(await hasFocus());
  await page.keyboard.type('first words');
  await page.keyboard.press('Enter');
  await page.getByText('Nothing found').waitFor();
  // The words of before give way to those that are typed.
  await page.keyboard.press('/');
  await page.keyboard.type('question');
  assert.equal(await box.inputValue(), 'question');
  await page.keyboard.press('Enter');
  await rowOf(page, 'Question').waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await page.keyboard.press('/');
  assert.equal(await hasFocus(), false);
  await page.keyboard.press('Escape');
  // A form that covers the page takes the keys, also where its text does not have the focus.
  await page.keyboard.press('c');
  const form = page.getByRole('dialog', { name: 'New message' });
  await form.getByLabel('Subject').waitFor();
  await inPage(page, 'document.activeElement.blur()');
  for (const key of ['/', '#']) await page.keyboard.press(key);
  assert.equal(await hasFocus(), false);
  await form.getByRole('button', { name: 'Save and close' }).click();
  await rowOf(page, 'Question').waitFor();
  await serverHas(id, 'INBOX', ['Question']);
  assertQuiet();
});

test('on a phone the longest address is within the window, where accounts are listed', async () => {
  const long = 'abcdefghij'.repeat(6);
  await pages.service.makeAccount(long, 'acme.test');
  const { address } = await pages.newAccount();
  const { page, assertQuiet } = await openWebmail(pages, `${long}@acme.test`, {
    viewport: PHONE,
    hasTouch: true,
    isMobile: true,
  });
  const openMenu = async () => {
    await page.getByRole('button', { name: 'Mailboxes' }).tap();
    await page.getByRole('button', { name: 'Account' }).tap();
  };
  await openMenu();
  await page.getByRole('menuitem', { name: 'Add an account' }).tap();
  await fillSignIn(page, address, false);
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await openMenu();
  await page.getByRole('menuitem', { name: long }).waitFor();
  const menu = (await page.getByRole('menu', { name: 'Account' }).boundingBox()) ?? assert.fail();
  assert.ok(menu.x >= 0 && menu.x + menu.width <= PHONE.width, JSON.stringify(menu));
  assertQuiet();
});

test('a finger moves a row to the side: it is archived or deleted, with a way back', async () => {
  const { id, address } = await pages.newAccount();
  await pages.send(address, 'Moved');
  const { page, context, assertQuiet } = await openWebmail(pages, address, {
    viewport: PHONE,
    hasTouch: true,
    isMobile: true,
  });
  const fingers = await context.newCDPSession(page);
  const move = async (by: number, down = 0) => {
    const box = (await rowOf(page, 'Moved').boundingBox()) ?? assert.fail();
    const at = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
    const touch = (type: 'touchStart' | 'touchMove' | 'touchEnd', touchPoints: (typeof at)[]) =>
      fingers.send('Input.dispatchTouchEvent', { type, touchPoints });
    await touch('touchStart', [at]);
    const to = (part: number) => [{ x: at.x + by * part, y: at.y + down * part }];
    for (const part of [0.25, 0.5, 0.75, 1]) await touch('touchMove', to(part));
    await touch('touchEnd', []);
  };
  await rowOf(page, 'Moved').waitFor();
  // Too little, and along the list: nothing happens, and nothing is opened.
  await move(100);
  await move(10, 200);
  await page.locator('.swiped').waitFor({ state: 'detached' });
  await page.locator('.reading-pane').waitFor({ state: 'hidden' });
  for (const [by, mailbox] of [
    [170, 'Archive'],
    [-170, 'Trash'],
  ] as const) {
    await move(by);
    await rowOf(page, 'Moved').waitFor({ state: 'detached' });
    await serverHas(id, mailbox, ['Moved']);
    await page.getByRole('button', { name: 'Undo' }).tap();
    await rowOf(page, 'Moved').waitFor();
    await serverHas(id, mailbox, []);
  }
  await page.locator('.reading-pane').waitFor({ state: 'hidden' });
  assertQuiet();
});

test('an action is for the messages that were there when it was asked for, and a key that is held for one', async () => {
  const { id, address } = await pages.newAccount();
  for (const subject of ['First', 'Second', 'Third', 'Fourth']) await pages.send(address, subject);
  const { page, assertQuiet } = await openWebmail(pages, address);
  await rowOf(page, 'Fourth').waitFor();
  // Pressed again while it is down, a key repeats.
  for (const key of ['e', 'e', 'e']) await page.keyboard.down(key);
  await page.keyboard.up('e');
  await serverHas(id, 'Archive', ['Fourth']);
  await rowOf(page, 'Third').waitFor();
  // Another device takes the row away while somebody looks for a mailbox.
  await page.keyboard.press('v');
  const mailbox = page.getByRole('combobox', { name: 'Mailbox' });
  await mailbox.fill('spam');
  await pages.callMail(id, 'POST', '/mail/move', { mailbox: 'INBOX', uids: [3], to: 'Archive' });
  await rowOf(page, 'Third').waitFor({ state: 'detached' });
  await mailbox.press('Enter');
  await serverHas(id, 'Archive', ['Third', 'Fourth']);
  await page.getByText('Moved to Spam').first().waitFor();
  await serverHas(id, 'INBOX', ['First', 'Second']);
  // Back shows something else than what the dialog is about.
  await rowOf(page, 'First').click();
  await page.locator('.message-body').getByText('Text of First').waitFor();
  await page.keyboard.press('v');
  await mailbox.waitFor();
  await page.goBack();
  await mailbox.waitFor({ state: 'detached' });
  await serverHas(id, 'Junk', []);
  assertQuiet();
});

test('what a search found in Trash is gone for good only after a question', async () => {
  const { id, address } = await pages.newAccount();
  for (const subject of ['Thrown away', 'Not thrown away']) await pages.send(address, subject);
  const { page } = await openWebmail(pages, address);
  await rowOf(page, 'Not thrown away').waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('#');
  await serverHas(id, 'Trash', ['Thrown away']);
  await page.getByText('change pending').waitFor({ state: 'detached' });
  await page.getByLabel('Search mail').fill('thrown');
  await page.keyboard.press('Enter');
  await page.getByText('2 messages', { exact: true }).waitFor();
  // Of both, the one that is not there yet goes there.
  await page.keyboard.press('Control+a');
  await page.keyboard.press('#');
  await serverHas(id, 'Trash', ['Thrown away', 'Not thrown away']);
  await serverHas(id, 'INBOX', []);
  await page.getByText('change pending').waitFor({ state: 'detached' });
  await page.getByLabel('Search mail').fill('subject:thrown');
  await page.keyboard.press('Enter');
  await page.getByText('2 messages', { exact: true }).waitFor();
  await page.keyboard.press('#');
  const question = page.getByRole('dialog', { name: 'Delete for good?' });
  await question.getByText('1 message of Trash will be gone').waitFor();
  await page.keyboard.press('Escape');
  await question.waitFor({ state: 'detached' });
  await serverHas(id, 'Trash', ['Thrown away', 'Not thrown away']);
  await page.keyboard.press('#');
  await question.getByRole('button', { name: 'Delete for good' }).click();
  await until(page, "document.querySelectorAll('.row').length === 1");
});

test('what was closed leaves no step for Back that does nothing', async () => {
  const { address } = await pages.newAccount();
  await pages.send(address, 'Read on the way');
  const { page, assertQuiet } = await openWebmail(pages, address, {
    viewport: PHONE,
    hasTouch: true,
    isMobile: true,
  });
  for (const mailbox of ['Sent', 'Inbox']) {
    await page.getByRole('button', { name: 'Mailboxes' }).tap();
    await goTo(page, mailbox);
  }
  const heading = (name: string) => page.getByRole('heading', { name: new RegExp(`^${name}`) });
  for (const close of [
    () => page.getByRole('button', { name: 'Back to the list' }).tap(),
    () => page.keyboard.press('Escape'),
  ]) {
    await rowOf(page, 'Read on the way').tap();
    await page.locator('.message-body').getByText('Text of Read on the way').waitFor();
    await close();
    await page.locator('.reading-pane').waitFor({ state: 'hidden' });
    await heading('Inbox').waitFor();
    await page.goBack();
    await heading('Sent').waitFor();
    await page.goForward();
    await heading('Inbox').waitFor();
  }
  assertQuiet();
});

test('a short message can be used over a dialog, and after it', async () => {
  const { id, address } = await pages.newAccount();
  await pages.send(address, 'Back again');
  const { page, assertQuiet } = await openWebmail(pages, address);
  await rowOf(page, 'Back again').waitFor();
  const undo = page.getByRole('button', { name: 'Undo' });
  for (const isOver of [false, true]) {
    await page.keyboard.press('e');
    await rowOf(page, 'Back again').waitFor({ state: 'detached' });
    await page.keyboard.press('?');
    const dialog = page.getByRole('dialog', { name: 'Keys' });
    await dialog.waitFor();
    if (isOver) {
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
    }
    await undo.click();
    await rowOf(page, 'Back again').waitFor({ state: 'attached' });
    if (!isOver) {
      assert.deepEqual(await findViolations(page), []);
      await page.keyboard.press('Escape');
    }
    await dialog.waitFor({ state: 'detached' });
    await serverHas(id, 'INBOX', ['Back again']);
  }
  assertQuiet();
});

test('two tabs show one mailbox; without a network mail is read and sorted, and the server gets it later', async () => {
  const { id, address } = await pages.newAccount();
  for (const subject of ['Keep', 'Sort']) await pages.send(address, subject);
  const { page, context } = await openWebmail(pages, address, { stay: true });
  await rowOf(page, 'Sort').waitFor();
  // Its text is fetched ahead.
  await rowOf(page, 'Sort').click();
  await page.locator('.message-body').getByText('Text of Sort').waitFor();
  const other = await context.newPage();
  await other.goto(`${pages.service.url}/webmail`);
  await rowOf(other, 'Keep').waitFor();

  // Chromium leaves open WebSockets alone: the first request shows that there is no network.
  await context.setOffline(true);
  await page.keyboard.press('e');
  await rowOf(page, 'Sort').waitFor({ state: 'detached' });
  await page.getByText('changes pending').waitFor();
  await page.locator('.list-bar').getByText('Offline').waitFor();
  await rowOf(other, 'Sort').waitFor({ state: 'detached' });
  await serverHas(id, 'INBOX', ['Keep', 'Sort']);
  await context.setOffline(false);
  await isLive(page);
  await serverHas(id, 'Archive', ['Sort']);
  await page.getByText('changes pending').waitFor({ state: 'detached' });

  await page.close();
  await pages.send(address, 'After the other tab');
  await rowOf(other, 'After the other tab').waitFor();
  // A reload needs no password: the browser remembers the login.
  await other.reload();
  await rowOf(other, 'After the other tab').waitFor();
  await isLive(other);
  await other.getByRole('button', { name: 'Account' }).click();
  await other.getByRole('menuitem', { name: 'Sign out' }).click();
  await other.getByLabel('Address').waitFor();
  await context.close();
});

test('mail for tomorrow is still listed after a reload, and becomes a draft when it is cancelled', async () => {
  const { id, address } = await pages.newAccount();
  const { page, assertQuiet } = await openWebmail(pages, address, { stay: true });
  await page.getByRole('button', { name: 'Write' }).click();
  const form = page.getByRole('dialog').filter({ has: page.getByLabel('Subject') });
  await form.getByRole('combobox', { name: 'To' }).fill('dan@shop.test');
  await form.getByLabel('Subject').fill('Lunch');
  await form.getByLabel('Text', { exact: true }).fill('At noon?');
  await form.getByText('Draft saved').waitFor();
  await serverHas(id, 'Drafts', ['Lunch']);
  await form.getByLabel('Text', { exact: true }).fill('At noon? I bring soup.');
  await form.getByRole('button', { name: 'Send later' }).click();
  await page.getByRole('menuitem', { name: /^Tomorrow morning/ }).click();
  await page.getByText('It will be sent on').first().waitFor();
  await form.waitFor({ state: 'detached' });
  await page.reload();
  await isLive(page);
  await page.getByRole('button', { name: 'Account' }).click();
  await page.getByRole('menuitem', { name: 'Outgoing mail' }).click();
  const list = page.getByRole('dialog', { name: 'Outgoing mail' });
  await list.getByText('Lunch').waitFor();
  await list.getByText(/^Goes out/).waitFor();
  assert.deepEqual(await findViolations(page, 'structure'), []);
  await list.getByRole('button', { name: 'Cancel sending' }).click();
  await list.getByText('Cancelled', { exact: true }).first().waitFor();
  await serverHas(id, 'Drafts', ['Lunch']);
  await list.getByRole('button', { name: 'Close' }).first().click();
  await goTo(page, 'Drafts');
  await rowOf(page, 'Lunch').getByText('To: dan@shop.test').waitFor();
  await rowOf(page, 'Lunch').click();
  await form.getByLabel('Text', { exact: true }).waitFor();
  const text = await form.getByLabel('Text', { exact: true }).inputValue();
  assert.equal(text, 'At noon? I bring soup.');
  assertQuiet();
});

test('a search whose newest mail is not indexed yet is made again', async () => {
  const { address } = await pages.newAccount();
  await pages.send(address, 'Fresh');
  const json = { matches: [], indexing: true };
  let searches = 0;
  const { page, context } = await openWebmail(pages, address, {
    routes: (each) =>
      each.route('**/mail/search', (route) =>
        searches++ === 0 ? route.fulfill({ json }) : route.continue(),
      ),
  });
  await rowOf(page, 'Fresh').waitFor();
  await page.getByLabel('Search mail').fill('subject:fresh');
  await page.keyboard.press('Enter');
  await page.getByText('New mail is still being indexed').waitFor();
  await rowOf(page, 'Fresh').waitFor();
  await page.getByText('1 message', { exact: true }).waitFor();
  await context.close();
});

test('what a search found is in the list again when the server refuses to move it', async () => {
  const { address } = await pages.newAccount();
  await pages.send(address, 'Stuck');
  const refusal = { code: 'invalid_request', title: 'No', status: 400, detail: 'it is stuck' };
  const { page, context } = await openWebmail(pages, address, {
    routes: (each) =>
      each.route('**/mail/move', (route) => route.fulfill({ status: 400, json: refusal })),
  });
  await rowOf(page, 'Stuck').waitFor();
  await page.getByLabel('Search mail').fill('subject:stuck');
  await page.keyboard.press('Enter');
  await page.getByText('1 message', { exact: true }).waitFor();
  await rowOf(page, 'Stuck').getByText('Inbox', { exact: true }).waitFor();
  await page.keyboard.press('e');
  await page.getByText('it is stuck').first().waitFor();
  await rowOf(page, 'Stuck').waitFor();
  await page.getByRole('button', { name: '1 refused' }).click();
  await page
    .getByRole('dialog')
    .getByText(/^Moving messages: .*it is stuck/)
    .waitFor();
  await context.close();
});

test('an answer that was left as a draft is still an answer when it is sent, and its file was sent once', async () => {
  const { id, address } = await pages.newAccount();
  await pages.send(address, 'Question', { messageId: '<question@sender.test>' });
  const { page, requests, assertQuiet } = await openWebmail(pages, address);
  const buffer = Buffer.alloc(300_000, 'The plan. ');
  const inBase64 = buffer.toString('base64');
  const bodies: string[] = [];
  page.on('request', (request) => bodies.push(request.postData() ?? ''));
  await rowOf(page, 'Question').click();
  await page.locator('.message-body').getByText('Text of Question').waitFor();
  await page.keyboard.press('r');
  const form = page.getByRole('dialog').filter({ has: page.getByLabel('Subject') });
  await form
    .getByLabel('Attach files')
    .setInputFiles({ name: 'plan.txt', mimeType: 'text/plain', buffer });
  await form.getByText('Draft saved').waitFor();
  await form.getByLabel('Text', { exact: true }).fill('Half an answer');
  await form.getByRole('button', { name: 'Save and close' }).click();
  await form.waitFor({ state: 'detached' });
  await serverHas(id, 'Drafts', ['Re: Question']);
  await page.getByText('change pending').waitFor({ state: 'detached' });
  await goTo(page, 'Drafts');
  await rowOf(page, 'Re: Question').click();
  await form.getByText('bob', { exact: false }).first().waitFor();
  await form.getByLabel('Text', { exact: true }).fill('All of it');
  await form.getByText('Draft saved').waitFor();
  // Whoever throws it away and wants it again has its file.
  await form.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Throw away' }).click();
  await form.waitFor({ state: 'detached' });
  await serverHas(id, 'Drafts', []);
  await page.getByRole('button', { name: 'Undo' }).last().click();
  await form.getByText('plan.txt').waitFor();
  await form.getByRole('button', { name: 'Send', exact: true }).click();
  await serverHas(id, 'Sent', ['Re: Question']);
  const { changes } = await pages.callMail(id, 'POST', '/mail/sync', {
    mailbox: 'Sent',
    fields: ['envelope'],
  });
  const [{ uid, envelope }] = changes.added;
  assert.equal(envelope.inReplyTo, '<question@sender.test>');
  const sent = await pages.callMail(id, 'GET', `/mail/content?mailbox=Sent&uid=${uid}`);
  assert.deepEqual(
    sent.attachments.map((file: { filename: string; size: number }) => [file.filename, file.size]),
    [['plan.txt', buffer.length]],
  );
  assert.equal(bodies.filter((body) => body.includes(inBase64)).length, 1);
  assert.ok(!requests.some((url) => url.includes('/mail/attachment')));
  assertQuiet();
});

test('a server that restarts interrupts nothing, and two accounts stay apart', async () => {
  const { address } = await pages.newAccount();
  const { address: second } = await pages.newAccount();
  await pages.send(address, 'Before');
  await pages.send(second, 'Of the second');
  const { page, context } = await openWebmail(pages, address, { stay: true });
  await rowOf(page, 'Before').waitFor();
  await page.getByRole('button', { name: 'Account' }).click();
  await page.getByRole('menuitem', { name: 'Add an account' }).click();
  await fillSignIn(page, second, true);
  await rowOf(page, 'Of the second').waitFor();
  assert.equal(await rowOf(page, 'Before').count(), 0);

  await pages.service.stop();
  await page.locator('[data-state=offline]').waitFor();
  await pages.service.start();
  await pages.send(second, 'After');
  await rowOf(page, 'After').waitFor();
  await page.reload();
  await rowOf(page, 'After').waitFor();
  await page.getByRole('button', { name: 'Account' }).click();
  await page.getByRole('menuitem', { name: address }).click();
  await rowOf(page, 'Before').waitFor();
  assert.equal(await rowOf(page, 'After').count(), 0);
  await context.close();
});

test('a mailbox of 10,000 messages scrolls to its end, and is emptied at once', async () => {
  const { id, address } = await pages.newAccount();
  await pages.send(address, 'One of many');
  for (let have = 1; have < 10_000; ) {
    const uids = Array.from(
      { length: Math.min(have, 1000, 10_000 - have) },
      (_, index) => index + 1,
    );
    await pages.callMail(id, 'POST', '/mail/copy', { mailbox: 'INBOX', uids, to: 'INBOX' });
    have += uids.length;
  }
  const { page } = await openWebmail(pages, address);
  // They are copies of one message, and so one conversation.
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Messages by conversation').uncheck();
  await page.keyboard.press('Escape');
  await until(
    page,
    "document.querySelector('[role=treegrid]').getAttribute('aria-rowcount') === '10000'",
  );
  assert.ok((await page.getByRole('row').count()) < 60, 'only rows in sight are drawn');
  const end = "document.querySelector('.list').scrollTop = 1e9";
  await until(page, `(${end}, document.querySelector('[aria-rowindex="10000"]'))`);
  await page.getByLabel('Choose all').click();
  const all = page.getByRole('button', { name: 'All 10,000' });
  if (await all.isVisible()) await all.click();
  // What is said is gone after some seconds, in which a page that has so much to do may not answer.
  await inPage(
    page,
    `(window.said = [], new MutationObserver(() => said.push(document.querySelector('.toast p')?.textContent))
      .observe(document.body, { childList: true, subtree: true }))`,
  );
  await page.getByRole('toolbar', { name: 'Chosen messages' }).getByLabel('Archive').click();
  await page.getByText('No mail here').waitFor();
  await until(page, "said.includes('Archived: 10,000 messages')");
  await serverHas(id, 'INBOX', []);
});
