/** The live inbox in a real browser, against a running service. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { openWatched } from './inbox-browser.ts';
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
import { type InboxService, PASSWORD } from './inbox-service.ts';

let pages: InboxPages;
let service: InboxService;

before(async () => {
  pages = await startInboxPages();
  service = pages.service;
});

after(async () => {
  await pages?.end();
});

const newAccount = () => pages.newAccount();
const signIn = (page: Page, address: string) => pages.signIn(page, address);
const open = (address: string, options: Parameters<typeof openWatched>[2] = {}) =>
  pages.open(address, options);
const send = (to: string, subject: string, more: object = {}) => pages.send(to, subject, more);

/** How many records this browser keeps of an account, in all stores. */
function countKept(page: Page, address: string): Promise<number> {
  return inPage(
    page,
    `new Promise((resolve) => {
      const account = ${JSON.stringify(address)};
      const opening = indexedDB.open('postroom-inbox');
      opening.onsuccess = () => {
        const stores = ['positions', 'messages', 'bodies'];
        const transaction = opening.result.transaction(stores);
        const counts = stores.map((store) =>
          transaction.objectStore(store).count(IDBKeyRange.bound([account], [account, []])));
        transaction.oncomplete = () => {
          opening.result.close();
          resolve(counts.reduce((sum, { result }) => sum + result, 0));
        };
      };
    })`,
  );
}

test('a mail that is sent while the page is open appears at once, with its protocol', async () => {
  const { address } = await newAccount();
  const watched = await open(address);
  const { page } = watched;
  await page.getByText('No mail yet').waitFor();
  await assertAccessible(page);

  await send(address, 'Straight away');
  await row(page, 'Straight away').waitFor();
  await page
    .getByRole('status')
    .filter({ hasText: 'New message from Bob: Straight away' })
    .waitFor();
  assert.equal(await page.locator('.fresh').count(), 1);
  await page.locator('.entry', { hasText: 'mailbox_changed' }).first().waitFor();

  await page.locator('.entry', { hasText: 'POST /mail/token' }).locator('summary').click();
  await page.locator('.entry', { hasText: 'GET /ws' }).locator('summary').click();
  const log = page.locator('#entries pre');
  await log.filter({ hasText: '"password": "•••"' }).waitFor();
  await log.filter({ hasText: 'bearer.•••' }).waitFor();
  const everything = await page.content();
  assert.ok(
    !everything.includes(PASSWORD) && !/eyJ[\w-]{20}/.test(everything),
    'a secret is on the page',
  );

  await row(page, 'Straight away').click();
  await page.locator('#message-pane').getByText('Text of Straight away').waitFor();
  assert.equal(await page.locator('.fresh').count(), 0);
  await page.getByRole('button', { name: 'Headers' }).click();
  await page.getByText(/^Return-Path: /).waitFor();
  await assertAccessible(page);
  watched.assertQuiet();
  await watched.context.close();
});

test('the commands that an empty mailbox shows send it a mail', async () => {
  const { address } = await newAccount();
  const { page, context } = await open(address);
  const commands = page.locator('.command pre');
  await commands.first().waitFor();
  const texts = await commands.allTextContents();
  assert.equal(texts.length, 2);
  for (const [at, text] of texts.entries()) {
    const script = text.replace('127.0.0.1:2525', `127.0.0.1:${service.smtpPort}`);
    await promisify(execFile)('sh', ['-c', script]);
    await page.getByText(`${at + 1} message`).waitFor();
  }
  assert.equal(await row(page, 'Hello').count(), 2);
  await context.close();
});

test('keys move through the list, open a message and go back', async () => {
  const { address } = await newAccount();
  for (const subject of ['First', 'Second', 'Third']) await send(address, subject);
  const watched = await open(address);
  const { page } = watched;
  await row(page, 'Third').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.locator('#message-pane').getByText('Text of Second').waitFor();
  await page.locator('[aria-current].row', { hasText: 'Second' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByText('Choose a message').waitFor();
  await page.locator(':focus', { hasText: 'Second' }).waitFor();
  await page.keyboard.press('Enter');
  await page.locator('#message-pane').getByText('Text of Second').waitFor();
  // A key pressed while the list is read for the way back counts, and a mail that comes does not take
  // the focus away.
  await page.evaluate(`addEventListener('hashchange', () => {
    const end = new KeyboardEvent('keydown', { key: 'End', bubbles: true });
    document.activeElement.dispatchEvent(end);
  }, { once: true })`);
  await page.keyboard.press('Escape');
  await page.getByText('Choose a message').waitFor();
  await send(address, 'Fourth');
  await row(page, 'Fourth').waitFor();
  await page.locator(':focus', { hasText: 'First' }).waitFor();
  watched.assertQuiet();
  await watched.context.close();
});

test('an attachment is saved byte for byte, under a harmless name', async () => {
  const { address } = await newAccount();
  const content = randomBytes(300_000);
  await send(address, 'With a file', { attachments: [{ filename: '../../report.bin', content }] });
  const watched = await open(address);
  const { page } = watched;
  await row(page, 'With a file').click();
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: /report\.bin/ }).click(),
  ]);
  assert.doesNotMatch(download.suggestedFilename(), /[/\\]/);
  assert.match(download.suggestedFilename(), /report\.bin$/);
  assert.deepEqual(await readFile(await download.path()), content);
  watched.assertQuiet();
  await watched.context.close();
});

test('an HTML mail runs no script and loads nothing', async (t) => {
  const asked = new Set<string>();
  const trap = createServer((request, response) => {
    asked.add(request.url ?? '');
    response.end();
  }).listen(0, '127.0.0.1');
  t.after(() => trap.close());
  await once(trap, 'listening');
  const bound = trap.address();
  const evil = `http://127.0.0.1:${typeof bound === 'object' ? bound?.port : 0}`;
  const { address } = await newAccount();
  const pixel = Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
    'base64',
  );
  const html = `<html manifest="${evil}/manifest"><head><base href="${evil}/"><meta http-equiv="refresh" content="0;url=${evil}/refresh">
    <link rel="stylesheet" href="${evil}/link.css"><link rel="preconnect" href="${evil}"><link rel="prefetch" href="${evil}/prefetch">
    <style>@import "${evil}/import.css"; @import url(${evil}/import2.css); body { background: url(${evil}/css) } p { background: u\\72l("${evil}/escaped") }
    @font-face { font-family: x; src: url(${evil}/font) } h1 { font-family: x; list-style: url('${evil}/list'); content: image-set("${evil}/set" 1x) }</style>
    <script>parent.pwned = 1; fetch('${evil}/fetch')</script></head>
    <body onload="parent.pwned = 2" background="${evil}/background"><h1 id="seen">Hello from HTML</h1>
    <img src="${evil}/img" srcset="${evil}/srcset 2x" alt="remote"><img src=x onerror="parent.pwned = 3"><img src="cid:pixel@x" id="inline" alt="inline">
    <picture><source srcset="${evil}/source"><img src="//127.0.0.1/relative"></picture>
    <p style="background-image: url(&quot;${evil}/style&quot;)">p</p><table background="${evil}/table"><tr><td>t</td></tr></table>
    <form action="${evil}/form" method="post"><input name="a" autofocus><button id="go">Send</button></form>
    <iframe src="${evil}/iframe"></iframe><iframe srcdoc="<script>top.pwned=4</script>"></iframe><object data="${evil}/object"></object><embed src="${evil}/embed">
    <video src="${evil}/video" poster="${evil}/poster" autoplay></video><audio src="${evil}/audio"></audio><input type="image" src="${evil}/input">
    <svg><image href="${evil}/svg"/><script>parent.pwned = 5</script><use href="${evil}/use#a"/></svg><math><mtext><style><img src=x onerror="parent.pwned=6"></style></mtext></math>
    <a id="js" href="javascript:parent.pwned=7">js</a><a id="link" href="${evil}/clicked" ping="${evil}/ping" target="_top">link</a><a id="self" href="${evil}/self">self</a>
    <marquee onstart="parent.pwned=8">m</marquee><details open ontoggle="parent.pwned=9">d</details></body></html>`;
  await send(address, '<img src=x onerror="window.pwned=10">', {
    html,
    from: '"<b onclick=alert(1)>Eve</b>" <eve@sender.test>',
    attachments: [{ filename: '<i>.png', content: pixel, cid: 'pixel@x' }],
  });
  const watched = await open(address);
  const { page } = watched;
  page.on('dialog', (dialog) => assert.fail(dialog.message()));
  await row(page, 'onerror').click();
  const frame = page.frameLocator('iframe.mail');
  await frame.locator('#seen').waitFor();
  await page.getByText(/^Remote content is blocked: \d+ items/).waitFor();
  // The picture that came with the mail is seen, and is a picture.
  assert.match(
    (await frame.locator('#inline').getAttribute('src')) ?? '',
    /^data:image\/png;base64,/,
  );
  const inline = frame.locator('#inline');
  while (!(await inline.evaluate((image) => 'naturalWidth' in image && image.naturalWidth === 1)));
  assert.equal(await frame.locator('#js').getAttribute('href'), null);
  const link = frame.locator('#link');
  assert.equal(await link.getAttribute('target'), '_blank');
  assert.match((await link.getAttribute('rel')) ?? '', /noopener/);
  assert.equal(await link.getAttribute('ping'), null);
  await frame.locator('#go').click();
  const sandbox = await page.locator('iframe.mail').getAttribute('sandbox');
  assert.ok(
    sandbox !== null && !/scripts|same-origin|forms|top-navigation/.test(sandbox),
    sandbox ?? '',
  );
  await roundTrip(page);
  assert.equal(await inPage(page, `'pwned' in window`), false);
  assert.deepEqual([...asked], []);
  const foreign = watched.requests.filter(
    (url) => /^https?:/.test(url) && !url.startsWith(`${service.url}/`),
  );
  assert.deepEqual(foreign, []);
  assert.equal(page.url().startsWith(`${service.url}/docs/inbox`), true);

  // Sandbox and policy hold by themselves as well: the same mail as it came, not cleaned.
  await inPage(
    page,
    `(() => {
      const frame = document.querySelector('iframe.mail');
      const head = frame.srcdoc.slice(0, frame.srcdoc.indexOf('<style>'));
      frame.srcdoc = head + ${JSON.stringify(html.replaceAll('seen', 'raw'))};
    })()`,
  );
  await frame.locator('#raw').waitFor({ state: 'attached' });
  await frame.locator('#go').click();
  await roundTrip(page);
  assert.equal(await inPage(page, `'pwned' in window`), false);
  assert.deepEqual([...asked], []);
  await frame.locator('#js').click();
  await frame.locator('#self').click();
  await roundTrip(page);
  assert.equal(await inPage(page, `'pwned' in window`), false);
  assert.deepEqual([...asked], []);

  await page.reload();
  // A link is followed when somebody clicks it, in a tab of its own that knows nothing of the page.
  const [tab] = await Promise.all([watched.context.waitForEvent('page'), link.click()]);
  await tab.waitForLoadState();
  assert.equal(await inPage(tab, `opener === null && document.referrer === ''`), true);
  assert.ok(asked.has('/clicked') && !asked.has('/ping'));
  await watched.context.close();
});

test('removed parts of a style sheet leave no markup behind', async (t) => {
  let connections = 0;
  const trap = createServer((_request, response) => response.end());
  trap.on('connection', () => connections++).listen(0, '127.0.0.1');
  t.after(() => trap.close());
  await once(trap, 'listening');
  const bound = trap.address();
  const evil = `http://127.0.0.1:${typeof bound === 'object' ? bound?.port : 0}`;
  const { address } = await newAccount();
  // No policy covers a connection made in advance, which would tell the sender who reads, and when.
  const lure = `<link rel="preconnect" href="${evil}"><b id="lure">x</b>`;
  const html = `<style></st@import x;yle>${lure}</style><style><@import x;/style>${lure}</style>
    <style>.gone { display: none }</style><p id="read">Read <i class="gone" id="gone">this</i></p>
    <img src="cid:constructor" alt="no picture"><a href="#x" target="_top" id="own">own</a>`;
  await send(address, 'Cut \u202edna\u2066 paste', {
    html,
    from: '"Eve \u202e" <eve@sender.test>',
  });
  const watched = await open(address);
  const { page } = watched;
  await row(page, 'Cut dna paste').click();
  const frame = page.frameLocator('iframe.mail');
  await frame.locator('#read').waitFor();
  await frame.locator('#gone').waitFor({ state: 'hidden' });
  assert.equal(await frame.locator('#lure, link').count(), 0);
  assert.equal(await frame.locator('#own').getAttribute('target'), null);
  await page.getByText('Eve <eve@sender.test>').waitFor();
  await page.getByRole('heading', { name: 'Cut dna paste' }).waitFor();
  await roundTrip(page);
  assert.equal(connections, 0);
  watched.assertQuiet();
  await watched.context.close();
});

test('a mail whose body is a frameset opens, with its text for browsers without frames', async (t) => {
  const asked = new Set<string>();
  const trap = createServer((request, response) => {
    asked.add(request.url ?? '');
    response.end();
  }).listen(0, '127.0.0.1');
  t.after(() => trap.close());
  await once(trap, 'listening');
  const bound = trap.address();
  const evil = `http://127.0.0.1:${typeof bound === 'object' ? bound?.port : 0}`;
  const { address } = await newAccount();
  const frames = `<frame src="${evil}/a"><frame src="javascript:parent.pwned=1">`;
  const told = `<body onload="parent.pwned=2"><frameset><frame src="${evil}/b"></frameset><p id="told">Read it here</p><img src="${evil}/c">`;
  await send(address, 'In frames', {
    html: `<html><frameset cols="50%,50%" onload="parent.pwned=3">${frames}<noframes>${told}</noframes></frameset></html>`,
  });
  await send(address, 'Frames alone', { html: `<frameset>${frames}</frameset>` });
  const watched = await open(address);
  const { page } = watched;
  const frame = page.frameLocator('iframe.mail');
  await row(page, 'In frames').click();
  await frame.locator('#told').waitFor();
  await page.getByText('Remote content is blocked: 3 items were not loaded.').waitFor();
  await row(page, 'Frames alone').click();
  await frame.getByText('This mail is made of frames alone.').waitFor();
  await page.getByText('Remote content is blocked: 2 items were not loaded.').waitFor();
  await roundTrip(page);
  assert.equal(await inPage(page, `'pwned' in window`), false);
  assert.deepEqual([...asked], []);
  await watched.context.close();
});

test('of a very long mail the beginning is shown, in its own charset', async () => {
  const { address } = await newAccount();
  // Three bytes each: the limit lies within one of them.
  await send(address, 'Long', { text: `Hier: ${'€'.repeat(600_000)}`, encoding: 'base64' });
  const watched = await open(address);
  const { page } = watched;
  await row(page, 'Long').click();
  await page.getByText('Only the beginning is shown').waitFor();
  const shown = (await page.locator('pre.text').textContent()) ?? '';
  assert.match(shown, /^Hier: €{300000,}$/);
  watched.assertQuiet();
  await watched.context.close();
});

test('neither attachments nor a subject without end push the text out of sight', async () => {
  const { address } = await newAccount();
  const attachments = Array.from({ length: 2_000 }, (_, at) => ({
    filename: `${at}`,
    content: 'x',
  }));
  await send(address, `Much ${'and more '.repeat(500)}`, { text: 'Here it is.', attachments });
  const watched = await open(address);
  const { page } = watched;
  await row(page, 'Much').click();
  await page.locator('#message-pane').getByText('Here it is.').waitFor();
  const box = await page.locator('#message-pane').getByText('Here it is.').boundingBox();
  assert.ok(box && box.y + box.height < 820, `the text stands at ${box?.y}`);
  await assertAccessible(page);
  watched.assertQuiet();
  await watched.context.close();
});

test('it outlives a restart of the server, and shows what came meanwhile', async () => {
  const { address } = await newAccount();
  await send(address, 'Before');
  const watched = await open(address);
  const { page, context } = watched;
  await row(page, 'Before').click();
  await page.locator('#message-pane').getByText('Text of Before').waitFor();
  await page.keyboard.press('Escape');
  await service.stop();
  await page.locator('[data-state=reconnecting]').waitFor();
  // What was read once is still there to read.
  await row(page, 'Before').click();
  await page.locator('#message-pane').getByText('Text of Before').waitFor();
  await context.setOffline(true);
  await service.start();
  await send(address, 'Meanwhile');
  await context.setOffline(false);
  await row(page, 'Meanwhile').waitFor();
  await page.locator('[data-state=live]').waitFor();
  await send(address, 'After');
  await row(page, 'After').waitFor();
  assert.equal(await page.locator('.row').count(), 3);
  await context.close();
});

test('a mailbox that was reset is shown again', async () => {
  const { id, address } = await newAccount();
  for (const subject of ['Stays', 'Goes']) await send(address, subject);
  const watched = await open(address);
  const { page, context } = watched;
  await row(page, 'Goes').waitFor();
  // One position of each mailbox, and the messages; the test's timeout ends it otherwise.
  const positions = await page.locator('#mailboxes a').count();
  while ((await countKept(page, address)) !== positions + 2);
  await context.setOffline(true);
  await service.stop();
  const database = new DatabaseSync(join(service.directory, 'postroom.sqlite'));
  const { changes } = database
    .prepare(
      'update mailboxes set uidvalidity = uidvalidity + 1000 where account_id = ? and name = ?',
    )
    .run(id, 'INBOX');
  assert.equal(changes, 1);
  const gone = database
    .prepare(
      'delete from messages where uid = 2 and mailbox_id = (select id from mailboxes where account_id = ? and name = ?)',
    )
    .run(id, 'INBOX');
  assert.equal(gone.changes, 1);
  database.close();
  await service.start();
  await context.setOffline(false);
  await page.locator('[data-state=live]').waitFor();
  await row(page, 'Goes').waitFor({ state: 'detached' });
  await row(page, 'Stays').waitFor();
  assert.equal(await page.locator('.row').count(), 1);
  assert.equal(await countKept(page, address), positions + 1);
  await page
    .locator('.entry', { hasText: 'POST /mail/sync INBOX' })
    .first()
    .locator('summary')
    // Not by mouse: more entries may push it down at that moment.
    .press('Enter');
  await page.getByText('"reset": true').waitFor();
  await context.close();
});

test('two tabs share one cache; signing out leaves nothing behind', async () => {
  const { address } = await newAccount();
  await send(address, 'One');
  const watched = await open(address);
  const { page, context } = watched;
  await row(page, 'One').click();
  await page.locator('#message-pane').getByText('Text of One').waitFor();
  const other = await context.newPage();
  await signIn(other, address);
  for (let at = 0; at < 5; at++) await send(address, `More ${at}`);
  for (const tab of [page, other]) {
    await row(tab, 'More 4').waitFor();
    await tab.getByText('6 messages').waitFor();
  }
  // A reload goes on where it was.
  await page.reload();
  await page.locator('#message-pane').getByText('Text of One').waitFor();
  await page.locator('[data-state=live]').waitFor();
  await other.close();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Address').waitFor();
  assert.equal(await countKept(page, address), 0);
  assert.equal(await inPage(page, 'sessionStorage.length + localStorage.length'), 0);
  assert.ok(!(await page.content()).includes('Text of One'));
  await page.reload();
  await page.getByLabel('Address').waitFor();
  watched.assertQuiet();
  await context.close();
});

test('a user who stays signed in needs no password in a new tab, until the sign-out', async () => {
  const { address } = await newAccount();
  await send(address, 'One');
  const watched = await openWatched(pages.browser, service.url, { viewport: PHONE });
  const { page, context } = watched;
  await page.goto(`${service.url}/docs/inbox`);
  await page.getByLabel('Address').fill(address);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('Stay signed in').check();
  await assertAccessible(page);
  await assertFits(page);
  await page.keyboard.press('Enter');
  await page.locator('[data-state=live]').waitFor();
  const [cookie] = await context.cookies(`${service.url}/mail/token`);
  assert.ok(cookie?.httpOnly);
  assert.ok(!(await inPage<string>(page, 'JSON.stringify(localStorage)')).includes(PASSWORD));
  const opened = await context.newPage();
  await opened.goto(`${service.url}/docs/inbox`);
  await row(opened, 'One').waitFor();
  await opened.locator('[data-state=live]').waitFor();
  await opened.getByRole('button', { name: 'Sign out' }).click();
  await opened.getByLabel('Address').waitFor();
  assert.deepEqual(await context.cookies(`${service.url}/mail/token`), []);
  assert.equal(await inPage(opened, 'sessionStorage.length + localStorage.length'), 0);
  const later = await context.newPage();
  await later.goto(`${service.url}/docs/inbox`);
  await later.getByLabel('Address').waitFor();
  watched.assertQuiet();
  await context.close();
});

test('a user who lost access is told why', async () => {
  const { id, address } = await newAccount();
  await send(address, 'Private');
  const { page, context } = await open(address);
  await row(page, 'Private').waitFor();
  await service.call('POST', `/v2/email-accounts/${id}/password/reset`, { user_id: 'u' });
  await page.getByRole('alert').filter({ hasText: 'Sign in again' }).waitFor();
  await service.call('POST', `/v2/email-accounts/${id}/password/reset`, {
    user_id: 'u',
    password: PASSWORD,
  });
  assert.equal(await page.getByLabel('Address').inputValue(), address);
  // Somebody else who signs in now sees nothing of it, although it is still cached.
  const other = await newAccount();
  await page.getByLabel('Address').fill(other.address);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByRole('button', { name: 'Open the mailbox' }).click();
  await page.getByText('No mail yet').waitFor();
  assert.equal(await row(page, 'Private').count(), 0);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Address').fill(address);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByRole('button', { name: 'Open the mailbox' }).click();
  await page.locator('[data-state=live]').waitFor();
  await service.call('PUT', `/v2/email-accounts/${id}`, { user_id: 'u', status: 'suspended' });
  await page.getByRole('alert').filter({ hasText: 'suspended' }).waitFor();
  await context.close();
});

test('a token opens the mailbox as well; a bad one is refused with a reason', async () => {
  const { id, address } = await newAccount();
  const { token } = await service.call('POST', `/v2/email-accounts/${id}/token`, { user_id: 'u' });
  const { page, context } = await openWatched(pages.browser, service.url);
  await page.goto(`${service.url}/docs/inbox/`);
  await page.getByRole('button', { name: 'Token' }).click();
  await page.getByLabel('Mailbox token').fill('not.a.token');
  await page.getByRole('button', { name: 'Open the mailbox' }).click();
  await page.getByRole('alert').filter({ hasText: 'did not open' }).waitFor();
  await page.getByLabel('Mailbox token').fill(token);
  await page.getByRole('button', { name: 'Open the mailbox' }).click();
  await page.locator('[data-state=live]').waitFor();
  await page.locator('#account', { hasText: address }).waitFor();
  await context.close();
});

for (const colorScheme of ['light', 'dark'] as const) {
  test(`on a phone, ${colorScheme}: list, message and protocol, one at a time`, async () => {
    const { address } = await newAccount();
    const html = '<p>Hello, <b>Ada</b>.</p>';
    await send(address, 'A subject that is longer than the screen of a telephone is wide', {
      html,
    });
    const watched = await open(address, { viewport: PHONE, colorScheme });
    const { page } = watched;
    const fits = () => inPage(page, 'document.documentElement.scrollWidth <= innerWidth');
    await page.locator('.row').first().waitFor();
    await assertAccessible(page);
    assert.ok(await fits());
    await page.locator('.row').first().click();
    await page.frameLocator('iframe.mail').getByText('Ada').waitFor();
    assert.equal(await page.locator('#list-pane').isVisible(), false);
    assert.ok(await fits());
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Protocol' }).click();
    await page.locator('.entry', { hasText: 'hello' }).locator('summary').click();
    assert.equal(await page.locator('#message-pane').isVisible(), false);
    assert.ok(await fits());
    await assertAccessible(page);
    await page.getByRole('button', { name: 'Close' }).click();
    // The browser's own back button goes to the list.
    await page.goBack();
    await page.locator('.row').first().waitFor();
    assert.equal(await page.locator('#message-pane').isVisible(), false);
    const paper = await inPage(page, 'getComputedStyle(document.body).backgroundColor');
    assert.equal(paper === 'rgb(255, 255, 255)', colorScheme === 'light');
    watched.assertQuiet();
    await watched.context.close();
  });
}
