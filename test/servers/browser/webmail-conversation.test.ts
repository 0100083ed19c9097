/** Conversations in the webmail: what of a long one is in view, and who a row is about. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type MailPages, PHONE, startMailPages } from './mail-pages.ts';
import { goTo, openWebmail, rowOf } from './webmail-page.ts';

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
    // Beside its number, which unfolds it in the list.
    await rowOf(page, 'Offsite').click({ position: { x: 80, y: 15 } });
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
