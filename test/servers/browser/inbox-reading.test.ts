/** Finding and reading mail in the live inbox: search, links, remote pictures, mails that are made badly. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, before, type TestContext, test } from 'node:test';
import {
  assertAccessible,
  assertFits,
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

const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

/** A server of a stranger, which answers everything with a picture. */
async function startStranger(t: TestContext) {
  const asked: { path: string; referrer: string | undefined }[] = [];
  const server = createServer(({ url = '', headers }, response) => {
    asked.push({ path: url, referrer: headers.referer });
    response.writeHead(200, { 'content-type': 'image/png' });
    response.end(PIXEL);
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const bound = server.address();
  return { url: `http://127.0.0.1:${typeof bound === 'object' ? bound?.port : 0}`, asked };
}

test('mail is found by words, sender and flags in every mailbox, and changed in the results', async () => {
  const account = await pages.newAccount();
  await pages.send(account.address, 'Invoice one', { from: 'Carol <carol@shop.test>' });
  await pages.send(account.address, 'Invoice two');
  await pages.send(account.address, 'Something else');
  await pages.callMail(account.id, 'POST', '/mail/move', {
    mailbox: 'INBOX',
    uids: [1],
    to: 'Archive',
  });
  const watched = await pages.open(account.address);
  const { page } = watched;
  await row(page, 'Something else').waitFor();
  await page.keyboard.press('/');
  const field = page.getByRole('searchbox', { name: 'Search mail' });
  const list = page.locator('#list-pane');
  /** The index takes mail in after it has come. */
  const find = async (query: string, found: string) => {
    for (;;) {
      await field.fill('');
      await field.press('Enter');
      await list.getByText('2 messages').waitFor();
      await field.fill(query);
      await field.press('Enter');
      const outcome = list.getByText(/\d found\.|Nothing found\./).filter({ visible: true });
      await outcome.waitFor();
      if ((await outcome.textContent()) === found) return;
    }
  };
  await find('INVOICE', '2 found.');
  await row(page, 'Invoice one').getByText('Archive').waitFor();
  await assertAccessible(page);
  await find('invoice from:carol', '1 found.');
  await row(page, 'Invoice one').click();
  await page.locator('pre.text', { hasText: 'Text of Invoice one' }).waitFor();
  await page.getByRole('toolbar').getByRole('button', { name: 'Star' }).click();
  await page.locator('li.flagged').waitFor();
  await page.keyboard.press('Escape');
  // The list of results is still there, and the focus on the one that was open.
  await page.locator('.row:focus', { hasText: 'Invoice one' }).waitFor();
  await page.keyboard.press('#');
  await page.getByText('Moved to Trash.').waitFor();
  await page.getByText('Nothing found.').waitFor();
  await page.getByText('Moved to Trash.').waitFor();
  await find('is:unread in:inbox subject:"something else"', '1 found.');
  await field.fill('a*');
  await field.press('Enter');
  await page.getByRole('alert').filter({ hasText: 'at least 2 letters' }).waitFor();
  await field.press('ArrowDown');
  await page.keyboard.press('Escape');
  await page.getByText('2 messages').waitFor();
  await watched.context.close();
});

test('links in plain text lead where they say, and nowhere else', async () => {
  const account = await pages.newAccount();
  const text = [
    'See https://a.test/path?q=1&r=2#x, (or http://b.test/c_(d)).',
    'Write to help@acme.test. <https://c.test/>',
    'javascript:alert(1) data:text/html,x https://bank.test@evil.test/ https:// http://[::1',
    '<a href="https://evil.test">https://good.test</a> https://d.test/\u202Egnp.exe',
    `https://e.test/${'x'.repeat(5_000)} ${'a@'.repeat(5_000)}`,
  ].join('\n');
  await pages.send(account.address, 'Links', { text });
  const watched = await pages.open(account.address);
  const { page } = watched;
  await row(page, 'Links').click();
  await page.locator('pre.text').waitFor();
  const links = await inPage<[string, string, string, string][]>(
    page,
    `[...document.querySelectorAll('pre.text a')].map((a) => [a.textContent, a.href, a.target, a.rel])`,
  );
  for (const [, href, target, rel] of links) {
    assert.match(href, /^(https?|mailto):/);
    assert.equal(target, '_blank');
    assert.match(rel, /noopener noreferrer/);
  }
  assert.deepEqual(links.map(([shown]) => shown).slice(0, 4), [
    'https://a.test/path?q=1&r=2#x',
    'http://b.test/c_(d)',
    'help@acme.test',
    'https://c.test/',
  ]);
  const hosts = links.slice(4).map(([, href]) => new URL(href).host);
  assert.deepEqual(hosts, ['evil.test', 'good.test', 'd.test', 'e.test']);
  assert.equal(await page.locator('pre.text').textContent(), `${text}\n`.replaceAll('\r', ''));
  await assertAccessible(page);
  watched.assertQuiet();
  await watched.context.close();
});

test('remote pictures are loaded when the reader asks, only for that message, and nothing else is', async (t) => {
  const { url, asked } = await startStranger(t);
  const account = await pages.newAccount();
  const html = `<p id="seen">Pictures</p><img src="${url}/a.png" alt="a"><p style="background: url(${url}/b.png)">b</p>
    <link rel="stylesheet" href="${url}/link.css"><style>@import "${url}/import.css"; @font-face { font-family: x; src: url(${url}/font) }
    p { font-family: x }</style><iframe src="${url}/frame"></iframe><video src="${url}/video" autoplay></video>
    <script src="${url}/script"></script><img src=x onerror="parent.pwned=1"><object data="${url}/object"></object>
    <img src="${url}/track.gif" width="1" height="1">`;
  await pages.send(account.address, 'With pictures', { html });
  await pages.send(account.address, 'Other pictures', {
    html: `<img src="${url}/other.png" alt="">x`,
  });
  const watched = await pages.open(account.address);
  const { page } = watched;
  await row(page, 'With pictures').click();
  const frame = page.frameLocator('iframe.mail');
  await frame.locator('#seen').waitFor();
  await roundTrip(page);
  assert.deepEqual(asked, []);
  await page.getByRole('button', { name: 'Load images' }).click();
  await frame.locator('#seen').waitFor();
  const picture = frame.getByAltText('a', { exact: true });
  while (!(await picture.evaluate((image) => 'naturalWidth' in image && image.naturalWidth === 1)));
  while (asked.length < 2) await roundTrip(page);
  assert.equal(await page.getByRole('button', { name: 'Load images' }).count(), 0);
  await row(page, 'Other pictures').click();
  await page.getByRole('button', { name: 'Load images' }).waitFor();
  await roundTrip(page);
  assert.deepEqual(asked.map(({ path }) => path).toSorted(), ['/a.png', '/b.png']);
  assert.deepEqual(
    asked.map(({ referrer }) => referrer),
    [undefined, undefined],
  );
  assert.equal(await inPage(page, `'pwned' in window`), false);
  await watched.context.close();
});

test('a mail of 30,000 nested elements opens like any other', async () => {
  const account = await pages.newAccount();
  const deep = '<div>'.repeat(30_000);
  await pages.send(account.address, 'Nested', {
    html: `${deep}<p>Deep <b>inside</b></p>${'</div>'.repeat(30_000)}<p>After it</p>`,
  });
  await pages.send(account.address, 'Slanted', { html: `${'<b><i>'.repeat(15_000)}Deep inside` });
  const watched = await pages.open(account.address);
  const { page } = watched;
  for (const subject of ['Nested', 'Slanted']) {
    await row(page, subject).waitFor();
    // How long the page stands still, told by a timer that should come every 10 ms.
    await inPage(
      page,
      `(() => { let last = performance.now(); window.stood = 0;
        window.timer = setInterval(() => { const now = performance.now(); stood = Math.max(stood, now - last); last = now; }, 10); })()`,
    );
    await row(page, subject).click();
    await page
      .frameLocator('iframe.mail')
      .getByText(/Deep\s*inside/)
      .first()
      .waitFor();
    const stood = await inPage<number>(page, `(clearInterval(timer), stood)`);
    // It was 6 s and more; this leaves room for a slow machine.
    assert.ok(stood < 2_500, `the page stood still for ${stood} ms`);
  }
  watched.assertQuiet();
  await watched.context.close();
});

test('a newsletter made for 600 px is not cut off on a phone', async () => {
  const account = await pages.newAccount();
  const html = `<table width="600" style="width: 600px; min-width: 600px"><tr><td colspan="2"><img src="https://a.test/x.png" width="600" height="90" alt="Header"></td></tr>
    <tr><td width="300" style="width: 300px; padding: 20px"><h1>The spring collection</h1></td>
    <td width="300" nowrap style="white-space: nowrap">One long line of the letter that does not wrap</td></tr></table>
    <div style="width: 640px; border: 1px solid">A box of 640 px</div>`;
  await pages.send(account.address, 'Newsletter', { html });
  const watched = await pages.open(account.address, { viewport: PHONE });
  const { page } = watched;
  await row(page, 'Newsletter').click();
  const frame = page.frameLocator('iframe.mail');
  await frame.getByText('A box of').waitFor();
  const width = await frame.locator('html').evaluate((root) => root.scrollWidth);
  assert.ok(width <= PHONE.width, `the mail is ${width} px wide`);
  await assertFits(page);
  await assertAccessible(page);
  watched.assertQuiet();
  await watched.context.close();
});

test('rows of the protocol stand on one line, those of the WebSocket, too', async () => {
  const account = await pages.newAccount();
  const { page, context } = await pages.open(account.address);
  await pages.service.stop();
  const closed = page.locator('.entry', { hasText: 'WS closed' }).first();
  await closed.waitFor();
  const boxes = await closed.locator('summary > span').evaluateAll((spans) =>
    spans.map((span) => {
      const { left, right, top, bottom } = span.getBoundingClientRect();
      return { left, right, top, bottom };
    }),
  );
  for (const [at, box] of boxes.entries()) {
    const next = boxes[at + 1];
    assert.ok(box.bottom - box.top < 24, `row ${at} is ${box.bottom - box.top} px high`);
    if (next) assert.ok(box.right <= next.left, `${box.right} lies over ${next.left}`);
  }
  await pages.service.start();
  await context.close();
});

test('the list has one row for a conversation, which opens by keyboard; or single messages', async () => {
  const { address } = await pages.newAccount();
  const first = '<plans@sender.test>';
  await pages.send(address, 'Plans', { messageId: first });
  await pages.send(address, 'Alone');
  await pages.send(address, 'Re: Plans', { references: first, text: 'An answer' });
  const watched = await pages.open(address, { viewport: PHONE });
  const { page } = watched;
  const subjects = () => page.locator('#messages .subject').allTextContents();
  const thread = page.getByRole('button', { name: '2 messages of this conversation' });
  await thread.waitFor();
  assert.deepEqual(await subjects(), ['Re: Plans', 'Alone']);
  await assertAccessible(page);
  await assertFits(page);

  await row(page, 'Re: Plans').focus();
  await page.keyboard.press('t');
  await row(page, 'Plans').nth(1).waitFor();
  assert.deepEqual(await subjects(), ['Re: Plans', 'Plans', 'Alone']);
  assert.equal(await thread.getAttribute('aria-expanded'), 'true');
  await assertAccessible(page);
  // Closed from within, the focus is on the row that stays.
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('t');
  await row(page, 'Plans').nth(1).waitFor({ state: 'detached' });
  assert.equal(
    await inPage(page, `document.activeElement.querySelector('.subject').textContent`),
    'Re: Plans',
  );
  // An answer that comes is the row of the conversation then, which stays where it was opened.
  await thread.click();
  await pages.send(address, 'Re: Re: Plans', { references: first });
  await page.getByRole('button', { name: '3 messages of this conversation' }).waitFor();
  assert.deepEqual(await subjects(), ['Re: Re: Plans', 'Re: Plans', 'Plans', 'Alone']);

  const byThread = page.getByRole('button', { name: 'Threads' });
  await byThread.click();
  await page.locator('#by-thread[aria-pressed=false]').waitFor();
  assert.deepEqual(await subjects(), ['Re: Re: Plans', 'Re: Plans', 'Alone', 'Plans']);
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.reload();
  await row(page, 'Alone').waitFor();
  assert.deepEqual(await subjects(), ['Re: Re: Plans', 'Re: Plans', 'Alone', 'Plans']);
  await assertAccessible(page);
  watched.assertQuiet();
  await watched.context.close();
});
