/** Writing in the webmail: recipients, drafts, files, formatting, and a message that is sent or taken back. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Page } from 'playwright-core';
import type { SendMessageBody } from '../../../packages/sdk/src/api-types.ts';
import type { StoredMail } from '../../../packages/sdk/src/testing/mailbox.ts';
import { assertAccessible, assertFits, inPage, PHONE, until } from './mail-pages.ts';
import { startWebmailParts, type WebmailParts } from './webmail-parts.ts';

let parts: WebmailParts;

before(async () => {
  parts = await startWebmailParts();
});

const LETTER = {
  subject: 'Plans',
  text: 'Shall we meet?\n-- \nBob',
  html: '<p>Shall we <b onclick="pwned.push(1)">meet</b>?</p><img src="https://a.test/x.png" onerror="pwned.push(2)"><script>pwned.push(3)</script>',
  attachments: [{ filename: 'plan.pdf', contentType: 'application/pdf', content: btoa('PDF') }],
};

const HOURS_AWAY = 7_200_000;
/** Sets the clock of a page ahead. Playwright's own clock stands still, or has timers of its own. */
const setAhead = `{
  const Real = Date;
  window.Date = class extends Real {
    constructor(...parts) {
      super(...(parts.length === 0 ? [Date.now()] : parts));
    }
    static now() {
      return Real.now() + ${HOURS_AWAY};
    }
  };
}`;

async function open(kind: string, options: Parameters<WebmailParts['open']>[0] = {}) {
  const watched = await parts.open(options);
  const { page } = watched;
  await inPage(page, `show(${JSON.stringify([LETTER])}).then(() => compose('${kind}', 1))`);
  const form = page.getByRole('dialog').filter({ has: page.getByLabel('Subject') });
  await form.getByLabel('Text', { exact: true }).waitFor();
  /** Bodies of the requests that reached the server. */
  const requests = (path: string) =>
    inPage<SendMessageBody[]>(
      page,
      `server.requests.filter((one) => one.path === '${path}').map(({ body }) => body)`,
    );
  const sent = async () => {
    await until(page, `server.requests.some(({ path }) => path === '/mail/send')`);
    return (await requests('/mail/send'))[0];
  };
  /** The draft that the server has of a subject. */
  const draftOf = async (subject: string) => {
    const found = `mailbox.mailbox('Drafts').existing(mailbox.mailbox('Drafts').uids)
      .find(({ envelope }) => envelope.subject === '${subject}')`;
    await until(page, found);
    return await inPage<StoredMail>(page, found);
  };
  return { ...watched, form, requests, sent, draftOf };
}

/** Pastes as a user does. Written as text, since the page has other globals than Node. */
function paste(page: Page, selector: string, type: string, text: string): Promise<void> {
  return inPage(
    page,
    `(() => { const clipboardData = new DataTransfer();
      clipboardData.setData('${type}', ${JSON.stringify(text)});
      document.querySelector('${selector}').dispatchEvent(
        new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true })); })()`,
  );
}

test('recipients are suggested, pasted as a list and corrected; Ctrl+Enter sends, once', async () => {
  const { page, context, form, sent, requests, assertQuiet } = await open('new');
  await until(page, `document.activeElement.getAttribute('role') === 'combobox'`);
  await page.keyboard.type('bob');
  await form.getByRole('option', { name: 'Bobby Tables bobby@school.test' }).waitFor();
  await assertAccessible(page);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await form.getByRole('button', { name: 'Edit Bobby Tables' }).waitFor();
  const list = '"Baker, Ann" <ann@b.test>; nobody\ncarol@shop.test';
  await paste(page, '.recipients input', 'text/plain', list);
  await form.getByLabel('Subject').fill('Hello');
  await form.getByLabel('Subject').press('Enter');
  await page.keyboard.press('Control+Enter');
  await form.getByText('"nobody" is not an address.').waitFor();
  await assertAccessible(page);
  await form.getByRole('button', { name: 'Remove nobody' }).click();
  await form.getByLabel('Text', { exact: true }).fill('Hi');
  await page.keyboard.press('Control+Enter');
  await page.keyboard.press('Control+Enter');
  const mail = await sent();
  assert.deepEqual(mail?.to, [
    { name: 'Bobby Tables', address: 'bobby@school.test' },
    { name: 'Baker, Ann', address: 'ann@b.test' },
    { address: 'carol@shop.test' },
  ]);
  assert.equal(mail?.text, 'Hi\n');
  await form.waitFor({ state: 'detached' });
  // Taken back, all of it is in the form again.
  await page.getByRole('button', { name: 'Undo' }).click();
  await form.getByRole('button', { name: 'Edit Baker, Ann' }).waitFor();
  assert.equal(await form.getByLabel('Text', { exact: true }).inputValue(), 'Hi');
  assert.equal((await requests('/mail/send')).length, 1);
  assertQuiet(/inline event handler/);
  await context.close();
});

test('fifty recipients leave room for the text, and what is wrong is said beside Send', async () => {
  const { page, context, form, sent } = await open('new', { viewport: PHONE });
  const people = Array.from({ length: 50 }, (_, at) => `person${at}@school.test`);
  await paste(page, '.recipients input', 'text/plain', [...people, 'nobody'].join(', '));
  await form.getByRole('button', { name: 'Remove nobody' }).waitFor();
  const text = await form.getByLabel('Text', { exact: true }).boundingBox();
  assert.ok(text && text.y + text.height < PHONE.height && text.height > 150, JSON.stringify(text));
  await form.getByRole('button', { name: 'Send', exact: true }).click();
  const trouble = form.getByText('"nobody" is not an address.');
  assert.ok(((await trouble.boundingBox())?.y ?? PHONE.height) < PHONE.height);
  await form.getByRole('button', { name: 'Remove nobody' }).click();
  await form.getByLabel('Subject').fill('Hello');
  // Who is only typed gets it, too.
  await form.getByRole('combobox', { name: 'To' }).fill('last@school.test');
  await page.keyboard.press('Control+Enter');
  assert.deepEqual((await sent())?.to?.at(-1), { address: 'last@school.test' });
  await context.close();
});

test('a second press on Undo takes back no other mail', async () => {
  const { page, context, form, requests } = await open('new');
  for (const subject of ['One', 'Two']) {
    if (subject === 'Two') await inPage(page, `compose('new', 1)`);
    await form.getByRole('combobox', { name: 'To' }).fill('bob@sender.test');
    await form.getByLabel('Subject').fill(subject);
    await page.keyboard.press('Control+Enter');
    await form.waitFor({ state: 'detached' });
  }
  await until(page, `server.requests.filter(({ path }) => path === '/mail/send').length === 2`);
  await page.getByRole('button', { name: 'Undo' }).first().dblclick();
  await form.waitFor();
  assert.equal(await form.getByLabel('Subject').inputValue(), 'Two');
  assert.equal((await requests('/mail/sends/cancel')).length, 1);
  await context.close();
});

test('an answer to all quotes below a fold, is saved as a draft, and asks about what was forgotten', async () => {
  const { page, context, form, sent, draftOf, assertQuiet } = await open('reply-all', {
    viewport: PHONE,
  });
  assert.equal(await form.getByLabel('Subject').inputValue(), 'Re: Plans');
  await form.getByRole('button', { name: 'Edit Bob Baker' }).waitFor();
  await form.getByRole('button', { name: 'Edit carol@shop.test' }).waitFor();
  await form.getByLabel('Text', { exact: true }).fill('Yes, see attached');
  await form.getByText('Draft saved').waitFor();
  const draft = await draftOf('Re: Plans');
  assert.match(
    draft.text ?? '',
    /^Yes, see attached\n\nOn .*, Bob Baker wrote:\n> Shall we meet\?\n$/,
  );
  assert.equal(draft.html, undefined);
  await assertFits(page);
  await assertAccessible(page);
  await form.getByRole('button', { name: 'Send', exact: true }).click();
  const question = page.getByRole('dialog', { name: /The text says "attached"/ });
  await question.getByRole('button', { name: 'Cancel' }).click();
  await form.getByLabel('Attach files').setInputFiles({
    name: 'plan.txt',
    mimeType: 'text/plain',
    buffer: Buffer.from('The plan'),
  });
  await form.getByText('plan.txt').waitFor();
  await form.getByRole('button', { name: 'Send', exact: true }).click();
  const mail = await sent();
  assert.deepEqual(mail?.cc, [{ address: 'carol@shop.test' }]);
  assert.equal(mail?.attachments?.[0]?.filename, 'plan.txt');
  assert.equal(mail?.draft?.mailbox, 'Drafts');
  assert.deepEqual([mail?.inReplyTo?.mailbox, mail?.inReplyTo?.uid], ['INBOX', 1]);
  assertQuiet(/inline event handler/);
  await context.close();
});

test('with formatting, nothing that is pasted or quoted runs or loads in the page', async () => {
  const { page, context, form, sent, assertQuiet } = await open('reply');
  await form.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Formatting' }).click();
  const text = form.getByRole('textbox', { name: 'Text' });
  await form.getByRole('button', { name: 'Bold' }).and(page.locator(':enabled')).waitFor();
  await text.click();
  await form.getByRole('button', { name: 'Bold' }).click();
  await page.keyboard.type('Bold');
  const hostile = `<p>Pasted<img src=x onerror="pwned.push(4)"><img src="https://evil.test/p.png"><a href="javascript:pwned.push(5)">link</a>
    <svg><script>pwned.push(6)</script></svg><span style="background: url(https://evil.test/css); position: fixed">x</span><form><input name=childNodes></form><style>@import "https://evil.test/i.css"</style></p>`;
  await paste(page, '.rich .text', 'text/html', hostile);
  await text.getByText('Pasted').waitFor();
  assert.equal(
    await text.evaluate(
      (field) => field.querySelectorAll('img, svg, script, style, a[href], [onerror]').length,
    ),
    0,
  );
  await form.getByText('Quoted text').click();
  await form.frameLocator('.mail-frame').getByText('meet').waitFor();
  await assertAccessible(page);
  await page.keyboard.press('Control+Enter');
  const mail = await sent();
  assert.match(
    mail?.html ?? '',
    /<b>Bold[\s\S]*Pasted[\s\S]*<blockquote type="cite"><p>Shall we <b>meet<\/b>/,
  );
  assert.doesNotMatch(mail?.html ?? '', /onclick|onerror|script|evil/);
  assert.match(mail?.text ?? '', /Bold[\s\S]*Pasted[\s\S]*> Shall we meet\?/);
  assert.deepEqual(await inPage(page, 'pwned'), []);
  assertQuiet(/inline event handler/);
  await context.close();
});

test('a message is forwarded with its files, scheduled, or thrown away and had again', async () => {
  const { page, context, form, sent, draftOf } = await open('forward');
  assert.equal(await form.getByLabel('Subject').inputValue(), 'Fwd: Plans');
  await form.getByText('plan.pdf').waitFor();
  await form.getByRole('combobox', { name: 'To' }).fill('dan@shop.test');
  await form.getByLabel('Text', { exact: true }).fill('For you');
  // Escape closes the menu alone.
  await form.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Throw away' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('menuitem', { name: 'Throw away' }).waitFor({ state: 'detached' });
  await form.getByRole('button', { name: 'More', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Throw away' }).click();
  await page.getByRole('button', { name: 'Undo' }).click();
  await form.getByRole('button', { name: 'Edit dan@shop.test' }).waitFor();
  await form.getByRole('button', { name: 'Send later' }).click();
  await page.getByRole('menuitem', { name: /^Tomorrow morning/ }).click();
  const mail = await sent();
  assert.ok(Date.parse(mail?.sendAt ?? '') > Date.now());
  assert.deepEqual(
    mail?.attachments?.map(({ uidvalidity: _, ...file }) => file),
    [
      {
        filename: 'plan.pdf',
        contentType: 'application/pdf',
        mailbox: 'INBOX',
        uid: 1,
        part: '2',
      },
    ],
  );
  assert.match(mail?.html ?? '', /^<div>For you<\/div><br>/);
  await page
    .getByText(/It will be sent on/)
    .first()
    .waitFor();
  // Closing keeps what was written.
  await inPage(page, `compose('new', 0)`);
  await form.getByLabel('Subject').fill('Kept');
  await page.keyboard.press('Escape');
  await form.waitFor({ state: 'detached' });
  await draftOf('Kept');
  await context.close();
});

test('an hour later is an hour after the menu was opened, however long the message was written', async () => {
  const { page, context, form, sent } = await open('forward');
  await form.getByRole('combobox', { name: 'To' }).fill('dan@shop.test');
  await form.getByLabel('Text', { exact: true }).fill('For you');
  const later = Date.now() + HOURS_AWAY;
  await inPage(page, setAhead);
  await form.getByRole('button', { name: 'Send later' }).click();
  await page.getByRole('menuitem', { name: /^In an hour/ }).click();
  assert.ok(Date.parse((await sent())?.sendAt ?? '') >= later + 3_600_000);
  await context.close();
});

test('the panel shows what app and server say without what grants access; failed mail has its reason', async () => {
  const { page, context, assertQuiet } = await parts.open({ viewport: PHONE });
  await inPage(
    page,
    `show([]).then(() => {
      account.client.on = (_, tell) => { window.tell = tell; return () => {}; };
      part('protocol');
    })`,
  );
  const panel = page.getByRole('complementary', { name: 'Protocol' });
  await panel.getByRole('heading').waitFor();
  const told = [
    {
      direction: 'sent',
      channel: 'http',
      title: 'POST /mail/token',
      body: { address: 'ada@acme.test', password: 'a good password' },
      at: 0,
    },
    { direction: 'received', channel: 'http', title: '429 POST /mail/sync', body: '', at: 0 },
    { direction: 'received', channel: 'websocket', title: 'hello', body: { user: 'ada' }, at: 0 },
  ];
  await inPage(page, `${JSON.stringify(told)}.forEach((event) => tell(event))`);
  assert.deepEqual(await panel.locator('.title').allTextContents(), [
    'WS hello',
    '429 POST /mail/sync',
    'POST /mail/token',
  ]);
  assert.equal(await panel.locator('.title.bad').count(), 1);
  assert.equal(await panel.locator('pre').count(), 0);
  await panel.getByText('POST /mail/token').click();
  await panel.getByText('"password": "•••"').waitFor();
  await assertAccessible(page);
  await assertFits(page);
  await panel.getByRole('button', { name: 'Clear' }).click();
  assert.equal(await panel.locator('li').count(), 0);

  const lunch = { to: [{ address: 'no@nobody.invalid' }], subject: 'Lunch', text: 'Noon?' };
  await inPage(
    page,
    `account.client.send(${JSON.stringify(lunch)})
      .then(({ sendId }) => sendId)
      .then(() => server.clock.advance(0))
      .then(() => part('outgoing'))`,
  );
  await page.getByRole('dialog').getByText('550 5.1.1 no such user').waitFor();
  await assertAccessible(page);
  assertQuiet();
  await context.close();
});
