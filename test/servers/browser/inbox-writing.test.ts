/** Writing mail in the live inbox: answers, drafts, files, sending and taking back. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import type { Page, Route } from 'playwright-core';
import { openWatched } from './inbox-browser.ts';
import {
  assertAccessible,
  assertFits,
  DESKTOP,
  DOMAIN,
  goTo,
  type InboxPages,
  inPage,
  PHONE,
  roundTrip,
  row,
  startInboxPages,
} from './inbox-page.ts';

let pages: InboxPages;

before(async () => {
  pages = await startInboxPages();
});

after(async () => {
  await pages?.end();
});

type Account = Awaited<ReturnType<InboxPages['newAccount']>>;

/** Sent mail goes out ten seconds later. */
const GOES_OUT = { timeout: 40_000 };

async function countIn(account: Account, mailbox: string): Promise<number> {
  const { mailboxes } = await pages.callMail(account.id, 'GET', '/mail/mailboxes');
  return mailboxes.find((one: { mailbox: string }) => one.mailbox === mailbox).messages;
}

/** The newest message of a mailbox, as another device reads it, once there is one. */
async function newestIn(account: Account, mailbox: string) {
  for (;;) {
    const { changes } = await pages.callMail(account.id, 'POST', '/mail/sync', { mailbox });
    const uid = changes.added.at(-1)?.uid;
    const path = `/mail/content?mailbox=${mailbox}&uid=${uid}`;
    if (uid) return { ...(await pages.callMail(account.id, 'GET', path)), uid };
  }
}

async function write(page: Page, to: string, subject: string, text: string): Promise<void> {
  await page.getByRole('button', { name: 'Write' }).click();
  await page.getByLabel('To', { exact: true }).fill(to);
  await page.getByLabel('Subject').fill(subject);
  await page.getByLabel('Text').fill(text);
}

const SENDING = '**/mail/send';

/** Puts off what is sent from a page, until `unroute`: on a busy machine ten seconds may be over before it is taken back. */
function sendLater(page: Page): Promise<unknown> {
  return page.route(SENDING, (route) => {
    const body = { ...route.request().postDataJSON(), delaySeconds: 600 };
    return route.continue({ postData: JSON.stringify(body) });
  });
}

const send = (page: Page) => page.getByRole('button', { name: 'Send', exact: true }).click();
const addressesOf = (list: { address: string }[] = []) => list.map(({ address }) => address);

test('Enter in a field of one line sends nothing, and a message without a subject is asked about', async () => {
  const [ada, bob] = [await pages.newAccount(), await pages.newAccount()];
  const { page } = await pages.open(ada.address);
  await write(page, bob.address, '', 'No subject yet');
  const subject = page.getByLabel('Subject');
  await page.getByLabel('To', { exact: true }).press('Enter');
  await subject.press('Enter');
  const dialog = page.getByRole('dialog');
  await send(page);
  await dialog.getByText('without a subject').waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await page.locator('#compose-subject:focus').waitFor();
  await send(page);
  await dialog.getByRole('button', { name: 'Send it' }).click();
  await page.getByText('Sent.', { exact: true }).waitFor();
  const { text } = await newestIn(bob, 'INBOX');
  assert.match(text, /^No subject yet/);
  const { changes } = await pages.callMail(bob.id, 'POST', '/mail/sync', { mailbox: 'INBOX' });
  assert.equal(changes.added.length, 1, 'neither Enter sent it before');
});

test('an answer to all has the right recipients, quotes, and marks the answered message', async () => {
  const [ada, bob, carol] = [
    await pages.newAccount(),
    await pages.newAccount(),
    await pages.newAccount(),
  ];
  await pages.service.send({
    from: '"Baker, Bob" <bob@sender.test>',
    replyTo: bob.address,
    to: [ada.address, carol.address],
    subject: 'Spring',
    text: 'First line\n\n> older\nLast line\n',
  });
  const watched = await pages.open(ada.address);
  const { page } = watched;
  await row(page, 'Spring').click();
  await page.getByRole('button', { name: 'Reply all' }).click();
  await page.getByRole('heading', { name: 'Reply' }).waitFor();
  assert.equal(await page.getByLabel('To', { exact: true }).inputValue(), bob.address);
  assert.equal(await page.getByLabel('Cc', { exact: true }).inputValue(), carol.address);
  assert.equal(await page.getByLabel('Subject').inputValue(), 'Re: Spring');
  // The cursor stands above what is quoted.
  await page.keyboard.type('Thank you! Grüße 你好');
  assert.match(
    await page.getByLabel('Text').inputValue(),
    /^Thank you! Grüße 你好\n\nOn .+, Baker, Bob wrote:\n> First line\n> \n>> older\n> Last line\n$/,
  );
  await assertAccessible(page);
  await page.keyboard.press('Control+Enter');
  await page.getByText('Sent.').waitFor();
  await page.locator('pre.text', { hasText: 'First line' }).waitFor();
  await page.locator('.about', { hasText: '\\Answered' }).waitFor();

  const other = await pages.open(carol.address);
  await row(other.page, 'Re: Spring').waitFor(GOES_OUT);
  const got = await newestIn(bob, 'INBOX');
  assert.deepEqual(addressesOf(got.envelope.to), [bob.address]);
  assert.deepEqual(addressesOf(got.envelope.cc), [carol.address]);
  const { envelope } = await newestIn(ada, 'INBOX');
  assert.equal(got.envelope.inReplyTo, envelope.messageId);
  assert.match(got.text, /Grüße 你好/);
  assert.equal(await countIn(ada, 'Sent'), 1);
  assert.equal(await countIn(ada, 'Drafts'), 0);
  watched.assertQuiet();
  await watched.context.close();
  await other.context.close();
});

test('a forwarded file is named, not sent through the browser, and arrives byte for byte', async () => {
  const [ada, bob] = [await pages.newAccount(), await pages.newAccount()];
  const content = randomBytes(200_000);
  await pages.send(ada.address, 'With a file', {
    attachments: [{ filename: 'Übersicht.bin', content }],
  });
  const watched = await pages.open(ada.address);
  const { page } = watched;
  await row(page, 'With a file').click();
  await page.locator('pre.text').waitFor();
  await page.keyboard.press('f');
  await page.getByLabel('To', { exact: true }).fill(bob.address);
  await page.locator('#compose-files', { hasText: 'Übersicht.bin' }).waitFor();
  const [request] = await Promise.all([
    page.waitForRequest((one) => one.url().endsWith('/mail/send')),
    send(page),
  ]);
  const [{ mailbox, ...file }] = request.postDataJSON().attachments;
  assert.deepEqual(file, { filename: 'Übersicht.bin', uid: 1, part: '2' });
  // Where the draft was saved before it was sent, the file is a part of the draft.
  assert.match(mailbox, /^(INBOX|Drafts)$/);
  const other = await pages.open(bob.address);
  await row(other.page, 'Fwd: With a file').click(GOES_OUT);
  const shown = other.page.locator('pre.text', { hasText: 'Forwarded message' });
  await shown.waitFor();
  assert.match((await shown.textContent()) ?? '', /From: Bob <bob@sender\.test>\n/);
  const [download] = await Promise.all([
    other.page.waitForEvent('download'),
    other.page.getByRole('button', { name: /Übersicht\.bin/ }).click(),
  ]);
  const chunks: Buffer[] = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  assert.deepEqual(Buffer.concat(chunks), content);
  watched.assertQuiet();
  await watched.context.close();
  await other.context.close();
});

test('a draft is saved once, and is continued after a reload and from its row', async () => {
  const ada = await pages.newAccount();
  await pages.send(ada.address, 'To answer');
  const watched = await pages.open(ada.address);
  const { page } = watched;
  await row(page, 'To answer').click();
  await page.locator('pre.text').waitFor();
  await page.keyboard.press('r');
  await page
    .getByLabel('Subject')
    .fill('Größer als "=?x?=" \u{1F600} und so lang, dass es nicht auf eine Zeile passt');
  const name = `it's "Ünï" (1).txt`;
  await page
    .locator('#compose-file')
    .setInputFiles([{ name, mimeType: 'text/plain', buffer: Buffer.from('Bytes\r\nof a file') }]);
  await page.getByText('Draft saved').waitFor();
  await page
    .getByLabel('To', { exact: true })
    .fill('"Baker, Bob" <bob@sender.test>, Ünal <u@sender.test>');
  await page.getByText('Draft saved').waitFor();
  const kept = await newestIn(ada, 'Drafts');
  assert.deepEqual(kept.flags.toSorted(), ['\\Draft', '\\Seen']);
  assert.equal(kept.attachments[0].filename, name);
  await page.reload();
  await page.getByRole('heading', { name: 'Draft' }).waitFor();
  assert.equal(
    await page.getByLabel('To', { exact: true }).inputValue(),
    '"Baker, Bob" <bob@sender.test>, Ünal <u@sender.test>',
  );
  assert.match(
    await page.getByLabel('Subject').inputValue(),
    /^Größer als "=\?x\?=" \u{1F600} und so lang, dass es nicht auf eine Zeile passt$/u,
  );
  await page.getByLabel('Text').fill('Line one\n\nLine three');
  await page.keyboard.press('Escape');
  await page.locator('#done').getByText('Draft saved.').waitFor();
  assert.equal(await countIn(ada, 'Drafts'), 1);
  await page.locator('[data-state=live]').waitFor();
  await goTo(page, 'Drafts');
  // Each saving is another message: the row of the one before may stand there for a moment.
  const { uid } = await newestIn(ada, 'Drafts');
  const newest = page.locator(`.row[href="#/Drafts/${uid}/write"]`);
  await newest.getByText('To: Baker, Bob, Ünal').waitFor();
  await newest.click();
  await page.getByRole('heading', { name: 'Draft' }).waitFor();
  assert.equal(await page.getByLabel('Text').inputValue(), 'Line one\n\nLine three');
  await page.getByLabel('To', { exact: true }).fill(ada.address);
  const [request] = await Promise.all([
    page.waitForRequest((one) => one.url().endsWith('/mail/send')),
    send(page),
  ]);
  // It is still the answer that it was, and the file goes from where the draft is.
  const body = request.postDataJSON();
  assert.deepEqual(body.inReplyTo, { mailbox: 'INBOX', uid: 1 });
  assert.equal(body.attachments[0].mailbox, 'Drafts');
  assert.equal(body.attachments[0].content, undefined);
  await page.getByText('Sent.').waitFor();
  await goTo(page, 'Inbox');
  await row(page, 'Größer').click(GOES_OUT);
  await page.locator('pre.text', { hasText: 'Line three' }).waitFor();
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: /Ünï/ }).click(),
  ]);
  const chunks: Buffer[] = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  assert.equal(Buffer.concat(chunks).toString(), 'Bytes\r\nof a file');
  while ((await countIn(ada, 'Drafts')) > 0);
  watched.assertQuiet();
  await watched.context.close();
});

test('a file that is chosen while a draft is being saved stays, beside those that the draft had', async () => {
  const ada = await pages.newAccount();
  await pages.send(ada.address, 'Has a file', {
    attachments: [{ filename: 'first.txt', content: 'first' }],
  });
  const { page, context } = await pages.open(ada.address);
  await row(page, 'Has a file').click();
  await page.locator('pre.text').waitFor();
  let isDeaf = true;
  await page.route('**/mail/sync', (route) => (isDeaf ? undefined : route.continue()));
  await page.keyboard.press('f');
  await page.getByLabel('To', { exact: true }).fill(ada.address);
  await page.getByText('Draft saved').waitFor();
  // Gone on with after a reload, of which no sync has told so far: the file is a part of the draft that is replaced by
  // each saving.
  isDeaf = false;
  await page.reload();
  await page.getByRole('heading', { name: 'Draft' }).waitFor();
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const held = page.waitForRequest('**/mail/append?*');
  await page.route('**/mail/append?*', async (route) => {
    await released;
    await route.continue();
  });
  await page.getByLabel('Subject').fill('Two files');
  await held;
  await page
    .locator('#compose-file')
    .setInputFiles([{ name: 'second.txt', mimeType: 'text/plain', buffer: Buffer.from('second') }]);
  release();
  await page.getByText('Draft saved').waitFor();
  const { subject, files } = await newestIn(ada, 'Drafts').then(({ envelope, attachments }) => ({
    subject: envelope.subject,
    files: attachments.map(({ filename }: { filename: string }) => filename),
  }));
  assert.deepEqual(
    { subject, files },
    { subject: 'Two files', files: ['first.txt', 'second.txt'] },
  );
  assert.equal(await countIn(ada, 'Drafts'), 1);
  await context.close();
});

test('a draft that is chosen while another is written is opened, and a deleted one is reported', async () => {
  const ada = await pages.newAccount();
  const { page, context } = await pages.open(ada.address);
  const list = page.locator('#messages');
  for (const subject of ['First', 'Second']) {
    await write(page, '', subject, `Text of ${subject}`);
    await page.getByText('Draft saved', { exact: true }).waitFor();
    await page.keyboard.press('Escape');
    // It is told, although it was saved before the form was closed.
    await page.locator('#done').getByText('Draft saved.').waitFor();
    await page.locator('#compose-pane').waitFor({ state: 'hidden' });
  }
  await goTo(page, 'Drafts');
  await row(page, 'First').click();
  await page.getByLabel('Text').fill('More of it');
  await row(page, 'Second').click();
  while ((await page.getByLabel('Subject').inputValue()) !== 'Second');
  const kept = await newestIn(ada, 'Drafts');
  assert.equal(kept.text.trim(), 'More of it');
  assert.equal(await countIn(ada, 'Drafts'), 2);
  await page.keyboard.press('Escape');
  await page.locator('body[data-pane=list]').waitFor();

  // The row of a draft that was saved again meanwhile.
  await list.locator(`.row[href="#/Drafts/${kept.uid}/write"]`).waitFor();
  await inPage(page, `void (location.hash = '#/Drafts/1/write')`);
  await page.locator('#done').getByText('This draft was changed, sent or deleted').waitFor();
  await page.locator('body[data-pane=list]').waitFor();
  assert.equal(await page.locator('#compose-pane').isVisible(), false);
  await context.close();
});

test('leaving the form while a mail is sent leaves no draft behind, and a failure is reported', async () => {
  const [ada, bob] = [await pages.newAccount(), await pages.newAccount()];
  const { page, context, requests } = await pages.open(ada.address);
  const appends = () => requests.filter((url) => url.includes('/mail/append')).length;
  let asked = Promise.withResolvers<Route>();
  await page.route('**/mail/send', (route) => asked.resolve(route));
  await write(page, bob.address, 'On its way', 'x');
  await send(page);
  const lost = await asked.promise;
  const saved = appends();
  asked = Promise.withResolvers<Route>();
  await page.getByRole('link', { name: 'Archive' }).click();
  await roundTrip(page);
  await lost.abort();
  await page.getByRole('alert').filter({ hasText: 'It was not sent.' }).waitFor();
  await send(page);
  const sent = await asked.promise;
  await page.getByRole('link', { name: 'Archive' }).click();
  await roundTrip(page);
  await sent.continue();
  await page.getByText('Sent.').waitFor();
  await page.getByText('Nothing in here.').waitFor();
  assert.equal(await page.locator('#compose-pane').isVisible(), false);
  assert.equal(appends(), saved);
  await context.close();
});

test('a sent message is cancelled, and a discarded draft restored', async () => {
  const [ada, bob] = [await pages.newAccount(), await pages.newAccount()];
  const watched = await pages.open(ada.address);
  const { page } = watched;
  await sendLater(page);
  await write(page, bob.address, 'Too early', 'Wait');
  await send(page);
  await page.getByText('Sent.').waitFor();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.unroute(SENDING);
  await page.getByRole('heading', { name: 'New message' }).waitFor();
  assert.equal(await page.getByLabel('Subject').inputValue(), 'Too early');
  assert.equal(await countIn(ada, 'Sent'), 0);
  assert.equal(await countIn(ada, 'Drafts'), 1);
  await page.getByRole('button', { name: 'Throw the draft away' }).click();
  await page.getByText('Draft thrown away.').waitFor();
  while ((await countIn(ada, 'Drafts')) !== 0);
  await page.keyboard.press('z');
  await page.getByRole('heading', { name: 'New message' }).waitFor();
  assert.equal(await page.getByLabel('Text').inputValue(), 'Wait');
  await page.getByLabel('Text').fill('Now');
  await send(page);
  await page.getByText('Sent.').waitFor();
  const other = await pages.open(bob.address);
  await row(other.page, 'Too early').waitFor(GOES_OUT);
  assert.equal(await other.page.locator('.row').count(), 1);
  watched.assertQuiet();
  await watched.context.close();
  await other.context.close();
});

test('a mail whose answer was lost is sent again, and arrives once', async () => {
  const [ada, bob] = [await pages.newAccount(), await pages.newAccount()];
  const { page, context } = await pages.open(ada.address);
  await write(page, bob.address, 'Only once', 'Once');
  let lost = 0;
  await page.route('**/mail/send', async (route) => {
    if (lost++ > 0) return route.continue();
    await route.fetch();
    await route.abort();
  });
  await send(page);
  await page.getByRole('alert').filter({ hasText: 'It was not sent.' }).waitFor();
  assert.equal(await page.getByLabel('Text').inputValue(), 'Once');
  await send(page);
  await page.getByText('Sent.').waitFor();
  const other = await pages.open(bob.address);
  await row(other.page, 'Only once').waitFor(GOES_OUT);
  assert.equal(await countIn(ada, 'Sent'), 1);
  assert.equal(await countIn(bob, 'INBOX'), 1);
  await context.close();
  await other.context.close();
});

test('a user who writes before all mailboxes were read keeps the focus', async () => {
  const ada = await pages.newAccount();
  const { page, context } = await openWatched(pages.browser, pages.service.url);
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  await page.route('**/mail/sync', async (route) => {
    asked.resolve();
    await answer.promise;
    await route.continue();
  });
  await pages.signIn(page, ada.address);
  await asked.promise;
  await page.getByRole('button', { name: 'Write' }).click();
  await page.locator('#compose-to:focus').waitFor();
  answer.resolve();
  // An empty list says so once every mailbox was read, which is when the list took the focus.
  await page.getByText('No mail yet').waitFor({ state: 'attached' });
  await roundTrip(page);
  await page.locator('#compose-to:focus').waitFor();
  await context.close();
});

test('an error in a field is shown beside it, in the form', async () => {
  const ada = await pages.newAccount();
  const { page, context } = await pages.open(ada.address);
  const alert = page.locator('#compose-notice');
  await write(page, '', 'To nobody', 'x');
  await send(page);
  await alert.getByText('Enter a recipient.').waitFor();
  await page.locator('#compose-to:focus').waitFor();
  await page.getByLabel('To', { exact: true }).fill('ann@acme.test, bob');
  await send(page);
  await alert.getByText('"bob" is not an address.').waitFor();
  await page.getByLabel('To', { exact: true }).fill('ann@nowhere..test');
  await send(page);
  await alert.getByText(/^It was not sent\. /).waitFor();
  await assertAccessible(page);
  // A time to send it at: it waits in Drafts and Sent, and can be taken back.
  await page.getByLabel('To', { exact: true }).fill(ada.address);
  await page.getByText('Later', { exact: true }).click();
  const day = new Date(Date.now() + 60 * 86_400_000);
  await page.getByLabel('Send at').fill(`${day.toISOString().slice(0, 10)}T12:00`);
  await assertAccessible(page);
  await send(page);
  const shown = day.toLocaleDateString('en-GB', { timeZone: 'UTC', dateStyle: 'long' });
  await page.getByText(new RegExp(`^It will be sent on [A-Z][a-z]+,? ${shown}`)).waitFor();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByRole('heading', { name: 'New message' }).waitFor();
  assert.equal(await countIn(ada, 'Sent'), 0);
  await context.close();
});

test('an empty mailbox sends itself a test mail, whose sender is checked', async () => {
  const ada = await pages.newAccount();
  const watched = await pages.open(ada.address);
  const { page } = watched;
  await page.getByRole('button', { name: 'Send yourself a test mail' }).click();
  await row(page, 'It works').click();
  await page.locator('pre.text', { hasText: 'This is a test mail' }).waitFor();
  await pages.send(ada.address, 'From a stranger');
  await row(page, 'From a stranger').click();
  await page.locator('.verdict', { hasText: 'SPF' }).waitFor();
  await page.locator('.verdict', { hasText: 'DMARC' }).waitFor();
  await assertAccessible(page);
  watched.assertQuiet();
  await watched.context.close();
});

for (const [name, viewport] of Object.entries({ PHONE, DESKTOP })) {
  for (const colorScheme of ['light', 'dark'] as const) {
    test(`writing fits and is accessible: ${name}, ${colorScheme}`, async () => {
      const ada = await pages.newAccount();
      await pages.send(ada.address, 'Before');
      const watched = await pages.open(ada.address, { viewport, colorScheme });
      const { page } = watched;
      await row(page, 'Before').waitFor();
      await assertAccessible(page);
      await write(page, `x@${DOMAIN}`, 'A subject', 'A text');
      await page.getByRole('button', { name: 'Cc, Bcc' }).click();
      await page.locator('#compose-file').setInputFiles([
        {
          name: `${'a name that is longer than the screen '.repeat(4)}.txt`,
          mimeType: 'text/plain',
          buffer: Buffer.from('x'),
        },
      ]);
      await page.getByText('Later', { exact: true }).click();
      await assertFits(page);
      await assertAccessible(page);
      // The browser's own back button leaves the form; what was written is kept.
      await page.goBack();
      await page.locator('#done').getByText('Draft saved.').waitFor();
      await row(page, 'Before').waitFor();
      assert.equal(await page.locator('#compose-pane').isVisible(), false);
      assert.equal(await countIn(ada, 'Drafts'), 1);
      watched.assertQuiet();
      await watched.context.close();
    });
  }
}

test('outgoing mail is shown until it was sent, with the reason if it failed', async () => {
  const [ada, bob] = [await pages.newAccount(), await pages.newAccount()];
  const watched = await pages.open(ada.address, { viewport: PHONE });
  const { page } = watched;
  const waiting = page.getByRole('list', { name: 'Mail on its way' });
  const item = (subject: string) => waiting.getByRole('listitem').filter({ hasText: subject });
  await sendLater(page);
  await write(page, bob.address, 'Taken back', 'x');
  await send(page);
  await item('Taken back').getByText('Goes out: ').waitFor();
  await page.unroute(SENDING);
  await write(page, `nobody@${DOMAIN}, ${bob.address}`, 'To nobody', 'x');
  await send(page);
  await item('To nobody').waitFor();
  await page.reload();
  await item('To nobody').waitFor();
  await item('Taken back').getByText('Goes out: ').waitFor();
  await page.locator('[data-state=live]').waitFor();
  await waiting.getByRole('button', { name: 'Cancel: Taken back' }).press('Enter');
  await page.getByText('It is a draft again').waitFor();
  await item('Taken back').waitFor({ state: 'detached' });
  assert.equal(await countIn(ada, 'Drafts'), 1);

  const failed = item('To nobody').getByText(
    `Failed. nobody@${DOMAIN}: 550 5.1.1 there is no mailbox nobody@${DOMAIN}`,
  );
  await failed.waitFor(GOES_OUT);
  await assertAccessible(page);
  await assertFits(page);
  await waiting.getByRole('button', { name: 'Hide: To nobody' }).click();
  await waiting.waitFor({ state: 'hidden' });

  await write(page, bob.address, 'Arrives', 'x');
  await send(page);
  await item('Arrives').getByText('Sent', { exact: true }).waitFor(GOES_OUT);
  await waiting.waitFor({ state: 'hidden' });
  assert.equal(await countIn(bob, 'INBOX'), 2);
  watched.assertQuiet();
  await watched.context.close();
});
