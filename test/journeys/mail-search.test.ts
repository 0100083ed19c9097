/** Searching the mail of an account, on every store. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';

onEachEngine('searching mail', (engine) => {
  let service: TestService;
  before(async () => {
    service = await startTestService(engine);
  });

  /** Asks until everything is indexed. */
  async function search(account: TestAccount, body: object) {
    for (;;) {
      const answer = await service.mail(account.token, 'POST', '/mail/search', body);
      if (answer.body.indexing !== true) return answer;
    }
  }

  async function found(account: TestAccount, body: object): Promise<string[]> {
    const { status, body: answer } = await search(account, body);
    assert.equal(status, 200, JSON.stringify(answer));
    return answer.matches.map((one: { envelope: { subject: string } }) => one.envelope.subject);
  }

  const mails: [subject: string, from: string, text: string][] = [
    ['Invoice 4711', 'Carol Black <carol@shop.test>', 'Please pay 30 EUR by Friday.'],
    ['Lunch?', 'Bob <bob@example.test>', 'The café at noon. Bring the invoice.'],
    ['会议', 'Li <li@example.test>', '请检查文件系统。'],
  ];

  async function accountWithMail(): Promise<TestAccount> {
    const account = await service.makeAccount();
    for (const [subject, from, text] of mails) {
      await service.send({ from, to: account.address, subject, text });
    }
    return account;
  }

  test('words are found in every field, newest first', async () => {
    const ann = await accountWithMail();
    assert.deepEqual(await found(ann, { text: 'INVOICE' }), ['Lunch?', 'Invoice 4711']);
    assert.deepEqual(await found(ann, { subject: 'invoice' }), ['Invoice 4711']);
    assert.deepEqual(await found(ann, { body: 'cafe' }), ['Lunch?']);
    assert.deepEqual(await found(ann, { from: 'carol@shop.test' }), ['Invoice 4711']);
    assert.deepEqual(await found(ann, { text: 'fri*' }), ['Invoice 4711']);
    assert.deepEqual(await found(ann, { text: '文件' }), ['会议']);
    assert.deepEqual(await found(ann, { text: 'invoice friday' }), ['Invoice 4711']);
    assert.deepEqual(await found(ann, { text: 'absent' }), []);
    const { matches } = (await search(ann, { text: 'lunch' })).body;
    assert.equal(matches[0].preview, 'The café at noon. Bring the invoice.');
    assert.equal(matches[0].mailbox, 'INBOX');
    assert.deepEqual(matches[0].flags, []);
  });

  test('flags, sizes, dates and mailboxes are filters, with words and without', async () => {
    const ann = await accountWithMail();
    const change = (path: string, body: object) => service.mail(ann.token, 'POST', path, body);
    await change('/mail/flags', { mailbox: 'INBOX', uids: [1], add: ['\\Seen'] });
    await change('/mail/move', { mailbox: 'INBOX', uids: [3], to: 'Archive' });
    assert.deepEqual(await found(ann, { notFlags: ['\\Seen'] }), ['会议', 'Lunch?']);
    assert.deepEqual(await found(ann, { flags: ['\\seen'] }), ['Invoice 4711']);
    assert.deepEqual(await found(ann, { mailbox: 'Archive' }), ['会议']);
    assert.deepEqual(await found(ann, { text: 'invoice', notFlags: ['\\Seen'] }), ['Lunch?']);
    assert.deepEqual(await found(ann, { text: 'invoice', larger: 100_000 }), []);
    assert.deepEqual(await found(ann, { before: '2020-01-01' }), []);
    assert.equal((await found(ann, { since: '2020-01-01T00:00:00Z' })).length, 3);
    assert.deepEqual(await found(ann, { text: 'invoice', before: '2020-01-01' }), []);
    assert.deepEqual(await found(ann, { hasAttachment: true }), []);
    await change('/mail/delete', { mailbox: 'INBOX', uids: [2] });
    assert.deepEqual(await found(ann, { text: 'invoice' }), ['Invoice 4711']);
  });

  test('pages have every match once', async () => {
    const ann = await accountWithMail();
    for (const query of [{}, { text: 'invoice' }]) {
      const all = await found(ann, query);
      const paged: string[] = [];
      let cursor: string | undefined;
      do {
        const { body } = await search(ann, { ...query, limit: 1, ...(cursor && { cursor }) });
        paged.push(
          ...body.matches.map((one: { envelope: { subject: string } }) => one.envelope.subject),
        );
        cursor = body.cursor;
      } while (cursor);
      assert.deepEqual(paged, all);
    }
  });

  test('nothing of another account is found', async () => {
    await accountWithMail();
    const eve = await service.makeAccount();
    assert.deepEqual(await found(eve, { text: 'invoice' }), []);
    assert.deepEqual(await found(eve, {}), []);
  });

  const refusals: [title: string, body: object, code: string, field: string][] = [
    ['a quote alone', { text: '"' }, 'nothing_to_search', 'text'],
    ['a star alone', { text: '*' }, 'nothing_to_search', 'text'],
    ['10 KB of text', { text: 'x'.repeat(10_000) }, 'search_too_long', 'text'],
    [
      '100 terms',
      { body: Array.from({ length: 100 }, (_, n) => `w${n}`).join(' ') },
      'too_many_words',
      'body',
    ],
    ['a date that is none', { since: 'yesterday' }, 'invalid_request', 'since'],
    ['a day that is not', { since: '2026-02-30' }, 'invalid_request', 'since'],
    ['an hour that is not', { before: '2026-01-31T24:00:00Z' }, 'invalid_request', 'before'],
    ['a cursor of nobody', { cursor: 'x' }, 'invalid_request', 'cursor'],
    ['a limit of 501', { limit: 501 }, 'invalid_request', 'limit'],
    ['a flag that is none', { flags: ['\\Sene'] }, 'invalid_request', 'flags'],
    ['a keyword with a space', { notFlags: ['a b'] }, 'invalid_request', 'notFlags'],
  ];
  test('an invalid search is refused with the reason', async () => {
    const ann = await service.makeAccount();
    for (const [title, body, code, field] of refusals) {
      const answer = await search(ann, body);
      assert.deepEqual(
        [answer.status, answer.body.code, answer.body.errors?.[0]?.field],
        [400, code, field],
        title,
      );
    }
    assert.equal((await search(ann, { mailbox: 'None' })).body.code, 'mailbox_not_found');
  });
});
