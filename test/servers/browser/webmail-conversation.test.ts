/** Conversations in the webmail: as one row, what of a long one is in view, and mail of them that waits. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { inPage, type MailPages, PHONE, startMailPages, until } from './mail-pages.ts';
import { goTo, isLive, openWebmail, rowOf } from './webmail-page.ts';

let pages: MailPages;

before(async () => {
  pages = await startMailPages();
});
after(() => pages.end());

for (const [where, viewport] of [
  ['in a window', { width: 1440, height: 900 }],
  ['on a phone', PHONE],
] as const) {
  test(`a long conversation is opened where it goes on, ${where}`, async () => {
    const { id, address } = await pages.newAccount();
    const first = '<first@sender.test>';
    await pages.send(address, 'Offsite', { messageId: first });
    for (let at = 1; at < 20; at++) {
      await pages.send(address, `Re: Offsite ${at}`, { references: first });
    }
    const uids = Array.from({ length: 18 }, (_, at) => at + 1);
    const read = { mailbox: 'INBOX', uids, add: ['\\Seen'] };
    await pages.callMail(id, 'POST', '/mail/flags', read);
    await pages.send(address, 'Short');
    const { page, assertQuiet } = await openWebmail(pages, address, { viewport });
    const bodyOf = (subject: string) =>
      page.locator('.message-body').getByText(`Text of ${subject}`, { exact: true });
    const isSeen = async (subject: string) => {
      await bodyOf(subject).waitFor();
      const { y } = (await bodyOf(subject).boundingBox()) ?? assert.fail();
      return y > 0 && y < viewport.height;
    };
    // Where nothing but the row is: its number is at the end of the line.
    await rowOf(page, 'Offsite').click();
    // Two are unread.
    await bodyOf('Re: Offsite 19').waitFor();
    assert.ok(await isSeen('Re: Offsite 18'));
    // What was scrolled is the conversation that was open.
    await page.keyboard.press('k');
    assert.ok(await isSeen('Short'));
    await page.keyboard.press('j');
    assert.ok(await isSeen('Re: Offsite 19'));
    assertQuiet();
  });
}

test('of very many unread messages the newest are unfolded and read, and the others once they are pressed', async () => {
  const { id, address } = await pages.newAccount();
  const first = '<many@sender.test>';
  await pages.send(address, 'Many', { messageId: first });
  for (let at = 1; at < 30; at++)
    await pages.send(address, `Re: Many ${at}`, { references: first });
  const { page, assertQuiet } = await openWebmail(pages, address);
  await rowOf(page, 'Many').getByText('30').waitFor();
  await rowOf(page, 'Many').click();
  const card = (at: number) => page.locator('.thread .message').nth(at);
  const unread = () =>
    pages
      .callMail(id, 'POST', '/mail/search', { mailbox: 'INBOX', notFlags: ['\\Seen'], limit: 100 })
      .then(({ matches }) => matches.length);
  await card(20).getByText('Text of Re: Many 20').waitFor();
  await until(page, `document.querySelectorAll('.thread .message.unread').length === 20`);
  assert.equal(await page.locator('.thread .message-body').count(), 10);
  while ((await unread()) !== 20) await setTimeout(50);
  await card(3).getByRole('button').first().click();
  await card(3).locator('.message-body').getByText('Text of Re: Many 3').waitFor();
  while ((await unread()) !== 19) await setTimeout(50);
  // One that comes meanwhile is unfolded.
  await pages.send(address, 'Re: Many 30', { references: first });
  await card(30).locator('.message-body').getByText('Text of Re: Many 30').waitFor();
  while ((await unread()) !== 19) await setTimeout(50);
  assert.equal(await page.locator('.thread .message-body').count(), 12);
  // What is marked as unread elsewhere stays so, though it is unfolded here.
  const unmark = { mailbox: 'INBOX', uids: [30], remove: ['\\Seen'] };
  await pages.callMail(id, 'POST', '/mail/flags', unmark);
  await until(page, `document.querySelectorAll('.thread .message.unread').length === 20`);
  await pages.send(address, 'Re: Many 31', { references: first });
  await card(31).locator('.message-body').getByText('Text of Re: Many 31').waitFor();
  await until(page, `document.querySelectorAll('.thread .message.unread').length === 20`);
  while ((await unread()) !== 20) await setTimeout(50);
  assertQuiet();
});

test('what is marked as unread with others that are chosen is closed, and stays unread', async () => {
  const { id, address } = await pages.newAccount();
  for (const subject of ['First', 'Second']) await pages.send(address, subject);
  const { page, assertQuiet } = await openWebmail(pages, address);
  await rowOf(page, 'First').click();
  await page.locator('.message-body').getByText('Text of First').waitFor();
  const unread = () =>
    pages
      .callMail(id, 'POST', '/mail/search', { mailbox: 'INBOX', notFlags: ['\\Seen'], limit: 100 })
      .then(({ matches }) => matches.length);
  while ((await unread()) !== 1) await setTimeout(50);
  await page.keyboard.press('k');
  await page.locator('.message-body').getByText('Text of Second').waitFor();
  while ((await unread()) !== 0) await setTimeout(50);
  await page.keyboard.press('x');
  await page.keyboard.press('Shift+ArrowDown');
  await page.getByText('2 messages', { exact: true }).waitFor();
  assert.equal(await page.locator('.message-body').count(), 1);
  await page.keyboard.press('u');
  await page.locator('.message-body').waitFor({ state: 'detached' });
  while ((await unread()) !== 2) await setTimeout(50);
  assertQuiet();
});

test('a row of Sent goes by whom the mail is for', async () => {
  const { id, address } = await pages.newAccount();
  const to = [{ name: 'Zoe', address: 'zoe@sender.test' }];
  await pages.callMail(id, 'POST', '/mail/send', { to, subject: 'Sent to her', text: 'x' });
  const { page, assertQuiet } = await openWebmail(pages, address);
  await goTo(page, 'Sent');
  await rowOf(page, 'Sent to her').getByText('To: Zoe').waitFor();
  assert.equal(await rowOf(page, 'Sent to her').locator('.avatar').innerText(), 'Z');
  assertQuiet();
});

test('a search shows a conversation once, and the keys and numbers are of all that was found of it', async () => {
  const { id, address } = await pages.newAccount();
  await pages.send(address, 'Harbour');
  // More than one page of what is found, and copies of one message are one conversation.
  for (let have = 1; have < 128; have *= 2) {
    const uids = Array.from({ length: have }, (_, at) => at + 1);
    await pages.callMail(id, 'POST', '/mail/copy', { mailbox: 'INBOX', uids, to: 'INBOX' });
  }
  const { token } = await pages.service.call('POST', `/v2/email-accounts/${id}/token`, {
    user_id: 'u',
  });
  const old = await fetch(
    `${pages.service.url}/mail/append?mailbox=INBOX&internalDate=2020-01-01T00:00:00Z`,
    {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'message/rfc822' },
      body: 'Subject: Harbour of old\r\n\r\nText\r\n',
    },
  );
  assert.ok(old.ok, await old.text());
  const { page, assertQuiet } = await openWebmail(pages, address);
  await rowOf(page, 'Harbour of old').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('subject:harbour');
  await page.keyboard.press('Enter');
  await page.getByText('129 messages', { exact: true }).waitFor();
  assert.equal(await page.getByRole('row').count(), 2);
  await rowOf(page, 'Harbour').first().getByText('128', { exact: true }).waitFor();
  await page.keyboard.press('j');
  await page.locator('.row.active', { hasText: 'Harbour of old' }).waitFor();

  // What is chosen, what is said and what comes back are so many messages.
  await page.keyboard.press('Home');
  await page.keyboard.press('x');
  await page.locator('.list-bar').getByText('128 messages', { exact: true }).waitFor();
  // The conversation and its messages, which have rows of their own then.
  await page.getByRole('button', { name: '128 messages, unfold' }).click();
  await page.keyboard.press('Control+a');
  await page.locator('.list-bar').getByText('129 messages', { exact: true }).waitFor();
  await page.keyboard.press('e');
  await page.locator('.toast').getByText('Archived: 129 messages').waitFor();
  assertQuiet();
});

test('a press in the middle of a row opens it, however short its subject is', async () => {
  const { address } = await pages.newAccount();
  await pages.send(address, 'Is this so?', { messageId: '<so@sender.test>' });
  await pages.send(address, 'Re: Is this so?', { references: '<so@sender.test>' });
  const { page } = await openWebmail(pages, address, { viewport: { width: 800, height: 600 } });
  const row = rowOf(page, 'Is this so?');
  const [box, count] = [await row.boundingBox(), await row.locator('.count').boundingBox()];
  assert.ok(box && count);
  // The number is beside the date, whatever the subject is.
  const date = (await row.locator('time').boundingBox()) ?? assert.fail();
  assert.equal(Math.round(count.x + count.width), Math.round(date.x + date.width));
  await row.click();
  await page.locator('.message-body').getByText('Text of Re: Is this so?').waitFor();
});

test('an answer that goes out tomorrow is one card, which is cancelled and edited there', async () => {
  const { id, address } = await pages.newAccount();
  await pages.send(address, 'Question', { messageId: '<question@sender.test>' });
  // What waits is told after the copy in Sent is there.
  const routes = (tab: Page) =>
    tab.route('**/mail/sends/read', async (route) => {
      await setTimeout(1000);
      await route.continue();
    });
  const { page, assertQuiet } = await openWebmail(pages, address, { stay: true, routes });
  await rowOf(page, 'Question').click();
  await page.locator('.message-body').getByText('Text of Question').waitFor();
  await page.keyboard.press('r');
  const form = page.getByRole('dialog').filter({ has: page.getByLabel('Subject') });
  await form.getByLabel('Text', { exact: true }).fill('The answer');
  await form.getByText('Draft saved').waitFor();
  await page.getByText('change pending').waitFor({ state: 'detached' });
  // Not for a moment is it told of the one card while the other is there.
  await inPage(
    page,
    `new MutationObserver(() => {
      const cards = [...document.querySelectorAll('.thread .message')];
      if (cards.some((card) => card.textContent.includes('Goes out')) && cards.length > 2)
        document.body.dataset.twice = cards.length;
    }).observe(document.body, { subtree: true, childList: true, characterData: true })`,
  );
  await form.getByRole('button', { name: 'Send later' }).click();
  await page.getByRole('menuitem', { name: /^Tomorrow morning/ }).click();
  const cards = page.locator('.thread .message');
  const waiting = cards.filter({ hasText: /Goes out/ });
  const isOneCard = async () => {
    await waiting.getByRole('button', { name: 'Cancel sending, and edit' }).waitFor();
    await waiting.locator('.message-body').getByText('The answer').waitFor();
    assert.equal(await cards.count(), 2);
    assert.equal(await page.getByRole('button', { name: 'Go on writing' }).count(), 0);
  };
  await isOneCard();
  assert.equal(await page.locator('body').getAttribute('data-twice'), null);
  const wide = page.viewportSize();
  await page.setViewportSize({ width: 340, height: 700 });
  // When it goes out is not cut.
  const when = waiting.locator('.pill');
  const [told, line] = [await when.boundingBox(), await when.locator('..').boundingBox()];
  assert.ok(told && line && told.x + told.width <= line.x + line.width);
  if (wide) await page.setViewportSize(wide);
  await page.reload();
  await isLive(page);
  await isOneCard();
  for (const mailbox of ['Sent', 'Drafts']) {
    await goTo(page, mailbox);
    await rowOf(page, 'Question')
      .getByText(/^Goes out/)
      .waitFor();
  }
  // The draft is not written on beside what goes out.
  await rowOf(page, 'Question').click();
  await isOneCard();
  await waiting.getByRole('button', { name: 'Cancel sending, and edit' }).click();
  const text = form.getByLabel('Text', { exact: true });
  await text.waitFor();
  assert.match(await text.inputValue(), /^The answer/);
  await waiting.waitFor({ state: 'detached' });
  const sent = { mailbox: 'Sent', fields: ['envelope'] };
  const { changes } = await pages.callMail(id, 'POST', '/mail/sync', sent);
  assert.deepEqual(changes.added, []);
  assertQuiet();
});

test('what is dark on the screen has dark letters on paper, in mail without colours too', async () => {
  const { address } = await pages.newAccount();
  await pages.send(address, 'Plain', { html: '<p>Without colours</p>' });
  const { page } = await openWebmail(pages, address, { colorScheme: 'dark' });
  await rowOf(page, 'Plain').click();
  await page.frameLocator('iframe').getByText('Without colours').waitFor();
  const color = 'getComputedStyle(document.documentElement).color';
  const inFrame = () => page.frames()[1]?.evaluate<string>(color);
  assert.equal(await inFrame(), 'rgb(231, 232, 236)');
  await page.emulateMedia({ media: 'print' });
  await until(page, "getComputedStyle(document.body).color === 'rgb(31, 32, 36)'");
  assert.equal(await inFrame(), 'rgb(31, 35, 40)');
  await page.emulateMedia({ media: 'screen' });
  await until(page, "getComputedStyle(document.body).color === 'rgb(231, 232, 236)'");
});
