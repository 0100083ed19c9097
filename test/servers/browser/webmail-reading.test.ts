/** What the webmail shows of a message: no script of it runs, nothing is asked for, and it is as high as its text. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import type { Frame, Page } from 'playwright-core';
import type { DeliverOptions, NewMail } from '../../../packages/sdk/src/testing/testing.ts';
import { HOSTILE_MAILS } from './hostile-mails.ts';
import { assertAccessible, assertFits, inPage, PHONE, until } from './mail-pages.ts';
import { listen, startWebmailParts, type WebmailParts } from './webmail-parts.ts';

const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

const FORGED = { spf: 'fail', dkim: 'fail', dmarc: 'fail' };

/** A server of a stranger, which answers everything with a picture. */
const asked: { path: string; referrer: string | undefined }[] = [];
let connections = 0;
const stranger = createServer(({ url = '', headers }, response) => {
  asked.push({ path: url, referrer: headers.referer });
  response.setHeader('content-type', 'image/png');
  response.end(Buffer.from(PIXEL, 'base64'));
}).on('connection', () => connections++);

let parts: WebmailParts;
let evil: string;

before(async () => {
  evil = await listen(stranger);
  parts = await startWebmailParts();
});

after(() => {
  stranger.close();
  stranger.closeAllConnections();
});

function show(page: Page, given: readonly (NewMail & DeliverOptions)[]): Promise<void> {
  return inPage(page, `show(${JSON.stringify(given)})`);
}

/** Waits until the script beside each mail has told a height. */
async function sized(page: Page, frames: number): Promise<void> {
  const told = `[...document.querySelectorAll('.mail-frame')].filter((one) => one.dataset.sized)`;
  await until(page, `${told}.length === ${frames}`);
}

function mailFrames(page: Page): Frame[] {
  return page.frames().filter((frame) => frame.parentFrame() === page.mainFrame());
}

/** A hostile mail with the marks by which the test knows that its text is seen. */
function hostile(mail: string): string {
  const script = `parent.postMessage('pwned','*');top.postMessage('pwned','*')`;
  return mail
    .replaceAll('EVILHOST', new URL(evil).host)
    .replaceAll('EVIL', evil)
    .replaceAll('JS', script);
}

/** Presses whatever there is to press, except links that a reader may follow. */
async function pressEverything(page: Page, links: string): Promise<void> {
  for (const frame of mailFrames(page)) {
    await frame.evaluate(
      `for (const one of Document.prototype.querySelectorAll.call(document, '${links}, area:not([href^=http]), button, input, summary, select, [tabindex]')) { one.focus?.(); one.click?.(); }`,
    );
  }
}

test('of 70 hostile mails no script runs and nothing is asked for, also where the cleaner is not there', async () => {
  assert.ok(HOSTILE_MAILS.length >= 60);
  const { page, context, complaints, requests } = await parts.open();
  page.on('dialog', (dialog) => assert.fail(dialog.message()));
  await show(
    page,
    HOSTILE_MAILS.map((mail) => ({ html: hostile(mail), text: 'x' })),
  );
  await sized(page, HOSTILE_MAILS.length);
  assert.equal(mailFrames(page).length, HOSTILE_MAILS.length);
  // Nothing was attempted: the policy of the frames had nothing to refuse (that of the page speaks of what the cleaner
  // parsed), and not even a connection was made.
  assert.deepEqual(
    complaints.filter((text) => !/inline event handler.*script-src 'self'|base URI/.test(text)),
    [],
  );
  assert.equal(connections, 0);
  for (const frame of mailFrames(page)) {
    assert.equal(frame.url(), 'about:srcdoc');
    const found = await frame.evaluate<string>(
      `[...document.querySelectorAll('script, link, iframe, object, embed, base, form[action], svg, math, template')].map((one) => one.outerHTML).join()`,
    );
    assert.match(found, /^<script>\(\(\) => \{\n {2}const root[\s\S]*\}\)\(\);<\/script>$/);
  }
  await pressEverything(page, 'a:not([href^=http])');
  assert.deepEqual(await inPage(page, 'pwned'), []);
  assert.equal(connections, 0);

  const foreign = requests.filter((url) => /^https?:/.test(url) && !url.startsWith(parts.url));
  assert.deepEqual(foreign, []);

  // Sandbox and policies hold by themselves: the same mails as they came, below the head of the document.
  await inPage(
    page,
    `(() => { const mails = ${JSON.stringify(HOSTILE_MAILS.map(hostile)).replaceAll('</', '<\\/')};
      const frames = [...document.querySelectorAll('.mail-frame')];
      window.raw = new Set();
      addEventListener('message', ({ source }) => raw.add(source));
      frames.forEach((frame, at) => {
        frame.srcdoc = frame.srcdoc.slice(0, frame.srcdoc.indexOf('<style>')) + mails[at];
      }); })()`,
  );
  // Each of them tells its height, apart from what the browser shows where it refused to go on.
  await until(page, `raw.size >= 60`);
  await pressEverything(page, 'a');
  await page.waitForTimeout(300);
  assert.deepEqual(await inPage(page, 'pwned'), []);
  assert.deepEqual(asked, []);
  assert.equal(new URL(page.url()).origin, parts.url);
  assert.equal(context.pages().length, 1);
  await context.close();
});

test('a frame is as high as its mail, tells keys and addresses, and folds what is quoted', async () => {
  const { page, context, assertQuiet } = await parts.open();
  await show(page, [
    {
      html: `<p style="height: 1234px; margin: 0" id=tall>Tall</p><a href="mailto:carol@shop.test?subject=Hi">mail</a><input id=field>`,
    },
    {
      html: '<p>Yes.</p><div class="gmail_quote">On Monday<blockquote style="height: 900px">Plans</blockquote></div>',
    },
    {
      html: '<style>html, body { height: 100% } body { padding: 30px; min-height: 100vh }</style><p style="height: 400px">x</p>',
    },
  ]);
  await sized(page, 3);
  const heightOf = (at: number) =>
    inPage<number>(page, `document.querySelectorAll('.mail-frame')[${at}].offsetHeight`);
  // Its first height may be from before its style was applied.
  await until(
    page,
    `Math.abs(document.querySelectorAll('.mail-frame')[0].offsetHeight - 1280) < 20`,
  );
  assert.ok((await heightOf(1)) < 200);
  assert.ok((await heightOf(2)) < 600, `${await heightOf(2)}`);
  const [first, second] = [0, 1].map((at) => page.frameLocator('.mail-frame').nth(at));
  await second?.getByText('Quoted text').click();
  await until(page, `document.querySelectorAll('.mail-frame')[1].offsetHeight > 900`);

  await first?.locator('#tall').click();
  // Pressed again while it is down, a key repeats: it is told once.
  for (const key of ['j', 'j', 'j']) await page.keyboard.down(key);
  await page.keyboard.up('j');
  await first?.locator('#field').focus();
  await page.keyboard.press('#');
  await first?.locator('#tall').click();
  await page.keyboard.press('#');
  await until(page, `pressed.length >= 2`);
  assert.deepEqual(await inPage(page, 'pressed'), ['j', '#']);
  await first?.getByText('mail', { exact: true }).click();
  await until(page, `document.querySelector('output').textContent === '"new"'`);
  // What another window says is not of a mail.
  await inPage(page, `postMessage({ height: 9999 }, '*')`);
  await inPage(page, `postMessage({ key: 'j' }, '*')`);
  await page.waitForTimeout(50);
  assert.deepEqual(await inPage(page, 'pressed'), ['j', '#']);
  assertQuiet();
  await context.close();
});

test('a link to another part of its mail scrolls there, and the mail stays', async () => {
  const { page, context, assertQuiet } = await parts.open();
  const to = (href: string) => `<a href="${href}">${href}</a>`;
  const html = `${to('#far%20away')} ${to('#none')} ${to('#%')}<p style="height: 3000px">x</p><h2 id="far away">Far</h2>
    <p style="height: 3000px">y</p>${to('#')}<a name=documentElement></a><img name=querySelector>`;
  await show(page, [{ html }]);
  await sized(page, 1);
  const mail = page.frameLocator('.mail-frame');
  await mail.getByText('#none').click();
  await mail.getByText('#far%20away').click();
  const distance = `document.querySelector('.mail-frame').getBoundingClientRect().top`;
  await until(page, `${distance} < -2900 && ${distance} > -3200`);
  await mail.getByText('#', { exact: true }).click();
  await until(page, `Math.abs(${distance}) < 5`);
  await mail.getByRole('heading', { name: 'Far' }).waitFor();
  assertQuiet();
  await context.close();
});

test('a paragraph begins where its language does, and a wide table keeps its words', async () => {
  const cell = '<td>a rather wide cell</td>';
  const { page, context, assertQuiet } = await parts.open({ viewport: PHONE });
  await show(page, [
    { text: 'مرحبا، شكرا.\n\nHello.' },
    { html: `<table><tr>${cell.repeat(30)}</tr></table>` },
  ]);
  await sized(page, 1);
  const gaps = await inPage<{ left: number; right: number }[]>(
    page,
    `(() => {
      const block = document.querySelector('.plain-text > *');
      const { left, right } = block.getBoundingClientRect();
      const range = document.createRange();
      range.selectNodeContents(block);
      const lines = [...range.getClientRects()].filter(({ width }) => width > 20);
      return lines.map((line) => ({ left: line.left - left, right: right - line.right }));
    })()`,
  );
  assert.deepEqual(
    gaps.map(({ left, right }) => left < right),
    [false, true],
  );
  const width = await mailFrames(page)[0]?.evaluate<number>(
    `document.querySelector('td').offsetWidth`,
  );
  assert.ok(Number(width) > 40, `${width}`);
  assertQuiet();
  await context.close();
});

test('pictures from elsewhere come when the reader asks, and for senders that were chosen and verified', async () => {
  asked.length = 0;
  const html = `<p>Pictures</p><img src="${evil}/a.png" alt="a"><p style="background: url(${evil}/b.png)">b</p>
    <img src="${evil}/track.gif" width=1 height=1><iframe src="${evil}/frame"></iframe><img src="cid:p%40x" alt="within">`;
  const attachments = [{ contentType: 'image/png', contentId: 'p@x', content: PIXEL }];
  const { page, context } = await parts.open();
  await show(page, [{ html, attachments }]);
  await sized(page, 1);
  const within = page.frameLocator('.mail-frame').getByAltText('within');
  assert.match((await within.getAttribute('src')) ?? '', /^data:image\/png;base64,/);
  await assertAccessible(page);
  assert.deepEqual(asked, []);
  await page.getByRole('button', { name: 'Show pictures' }).click();
  while (asked.length < 2) await page.waitForTimeout(20);
  assert.deepEqual(asked.map(({ path }) => path).toSorted(), ['/a.png', '/b.png']);
  assert.ok(asked.every(({ referrer }) => referrer === undefined));

  await show(page, [{ html: `<img src="${evil}/c.png">` }]);
  await page.getByRole('button', { name: 'Always from bob@sender.test' }).click();
  while (asked.length < 3) await page.waitForTimeout(20);
  await page.reload();
  // The choice holds for that sender, where the checks say that it is; and is not offered where they do not.
  await show(page, [
    { html: `<img src="${evil}/d.png">` },
    { html: `<img src="${evil}/forged.png">`, auth: FORGED },
    { html: `<img src="${evil}/other.png">`, from: { address: 'eve@sender.test' } },
  ]);
  await sized(page, 3);
  while (asked.length < 4) await page.waitForTimeout(20);
  await page.getByRole('button', { name: 'Always from eve@sender.test' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Show pictures' }).count(), 2);
  assert.equal(await page.getByRole('button', { name: 'Always from' }).count(), 1);
  await page.getByText('Sender may be forged', { exact: true }).waitFor();
  assert.deepEqual(asked.map(({ path }) => path).toSorted(), [
    '/a.png',
    '/b.png',
    '/c.png',
    '/d.png',
  ]);
  await context.close();
});

test('pictures come also where the reader asks before the mail is loaded', async () => {
  asked.length = 0;
  const { page, context } = await parts.open();
  // Chromium loses a srcdoc that is set in a short moment of the load before it: one look may miss that moment.
  for (let id = 1; id <= 20; id++) {
    await show(page, [{ html: `<img src="${evil}/${id}.png">` }]);
    await page.getByRole('button', { name: 'Show pictures' }).click();
    const deadline = Date.now() + 10_000;
    while (asked.length < id && Date.now() < deadline) await page.waitForTimeout(20);
    assert.equal(asked.length, id, 'the picture was not asked for');
  }
  await context.close();
});

test('plain text has its links, files are saved under harmless names, and a list lets go', async () => {
  const { page, context, assertQuiet } = await parts.open({ viewport: PHONE });
  await show(page, [
    {
      text: 'See https://a.test/x. javascript:alert(1)\n\nOn Monday, Bob wrote:\n> one\n> two\n> three\n> four',
      attachments: [
        { filename: '../..\u202e/plan.png', contentType: 'image/png', content: PIXEL },
        { filename: 'page.html', contentType: 'text/html', content: btoa('<script>') },
      ],
    },
    {
      html: `<table width=600 style="width: 600px; min-width: 600px"><tr><td width=300 nowrap style="white-space: nowrap">One long line of the letter that does not wrap</td><td>b</td></tr></table>`,
    },
    { html: `${'<div>'.repeat(30_000)}<p>Deep</p>` },
  ]);
  await sized(page, 2);
  const link = page.getByRole('link', { name: 'https://a.test/x' });
  assert.match((await link.getAttribute('rel')) ?? '', /noopener noreferrer/);
  assert.equal(await page.locator('.quoted[open]').count(), 0);
  await page.getByText('Quoted text').click();
  await page.locator('.quoted[open]', { hasText: '> three' }).waitFor();
  const width = await page
    .frameLocator('.mail-frame')
    .first()
    .locator('html')
    .evaluate((root) => root.scrollWidth);
  assert.ok(width <= PHONE.width, `the mail is ${width} px wide`);
  await assertFits(page);
  await assertAccessible(page);

  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByTitle('Save page.html').click(),
  ]);
  assert.equal(download.suggestedFilename(), 'page.html');
  await page.getByTitle('Open ....plan.png').click();
  await page.getByRole('dialog').getByRole('img').waitFor();
  await assertAccessible(page);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'More about this message' }).first().click();
  const menu = await page.getByRole('menu').filter({ visible: true }).boundingBox();
  assert.ok(menu && menu.width < 300, 'a menu is as wide as its longest item');
  await page.getByRole('menuitem', { name: 'Unsubscribe' }).click();
  const page2 = page.getByRole('dialog').getByRole('link', { name: 'Open list.test' });
  assert.equal(await page2.getAttribute('href'), 'https://list.test/leave');
  await page.keyboard.press('Escape');
  // A button with a long address.
  const address = `${'a'.repeat(60)}@sender.test`;
  await show(page, [{ html: '<img src="https://a.test/x.png">', from: { address } }]);
  await page.getByRole('button', { name: `Always from ${address}` }).waitFor();
  await assertFits(page);
  assertQuiet();
  await context.close();
});

test('a file that is on its way is not fetched a second time', async () => {
  const { page, context } = await parts.open();
  const file = { filename: 'plan.pdf', contentType: 'application/pdf', content: PIXEL };
  await show(page, [{ text: 'Plans', attachments: [file] }]);
  await inPage(
    page,
    `server.fault = ({ path }) => path === '/mail/attachment' ? { delayMs: Infinity } : undefined`,
  );
  await page.getByTitle('Save plan.pdf').dblclick();
  const files = `server.requests.filter(({ path }) => path === '/mail/attachment').length`;
  await until(page, files);
  assert.equal(await inPage(page, files), 1);
  await context.close();
});

test('the files of a message with very many have a box that scrolls', async () => {
  const { page, context } = await parts.open({ viewport: PHONE });
  const files = Array.from({ length: 300 }, (_, at) => {
    return {
      filename: `scan ${at}.pdf`,
      contentType: 'application/pdf',
      content: PIXEL,
    };
  });
  await show(page, [{ text: 'All scans', attachments: files }]);
  const list = page.getByRole('list', { name: 'Attachments' });
  const box = await list.boundingBox();
  assert.ok(box && box.height <= PHONE.height / 2, `the list is ${box?.height} px high`);
  await page.getByTitle('Save scan 299.pdf').scrollIntoViewIfNeeded();
  assert.ok(await list.evaluate((one) => one.scrollTop > 0));
  await assertFits(page);
  await assertAccessible(page);
  await context.close();
});

test('on paper there is the message alone, with all its addresses', async () => {
  const { page, context } = await parts.open();
  await show(page, [
    {
      html: '<p style="height: 700px">Printed</p><img src="https://a.test/x.png">',
      subject: 'Plans',
    },
    { text: 'Not printed' },
  ]);
  await sized(page, 1);
  await inPage(
    page,
    `window.print = () => { window.printed = [...document.body.children].map((one) => [one.className || one.id, one.querySelector('iframe')?.offsetHeight]); }`,
  );
  await page.getByRole('button', { name: 'Show pictures' }).waitFor();
  await page.emulateMedia({ media: 'print' });
  const pressed = `[...document.querySelectorAll('.message-body button')].filter((one) => one.checkVisibility()).map((one) => one.outerHTML).join()`;
  assert.equal(await inPage(page, pressed), '');
  await inPage(page, `document.querySelector('[aria-haspopup=menu]').click()`);
  await page.emulateMedia({ media: 'screen' });
  await page.getByRole('menuitem', { name: 'Print' }).click();
  await until(page, 'window.printed');
  const sheet = (await inPage<[string, number][]>(page, 'printed')).find(
    ([name]) => name === 'print-sheet',
  );
  assert.ok((sheet?.[1] ?? 0) >= 700, JSON.stringify(sheet));
  await until(page, `!document.querySelector('.print-sheet')`);
  await context.close();
});
