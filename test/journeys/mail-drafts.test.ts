/** Saving drafts: messages that nobody gets yet, with what is missing and what is wrong in them, on every store. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import {
  type Answer,
  nodeCount,
  startTestService,
  type TestAccount,
  type TestService,
} from '../support/service.ts';

/** What writers type, and programs change on the way. */
const TEXT =
  'Dear Bob,  \n\n From the first line on:\nFrom here\n>quoted\n.\n..\n\tÄ – 🍒 =41 =?utf-8?q?x?=\n' +
  `${'long '.repeat(300)}\n${'x'.repeat(2_000)}\n-- \nAda\n\n\n`;

onEachEngine('saving drafts', (engine) => {
  let service: TestService;
  before(async () => {
    service = await startTestService(engine);
  });

  const call = (account: TestAccount, path: string, body: object) =>
    service.mail(account.token, 'POST', path, body);
  const save = (account: TestAccount, body: object) => call(account, '/mail/drafts', body);

  async function saveAgain(account: TestAccount, key: string, body: object): Promise<Answer> {
    const response = await fetch(`${service.url}/mail/drafts`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${account.token}`,
        'content-type': 'application/json',
        'idempotency-key': key,
      },
      body: JSON.stringify(body),
    });
    return { status: response.status, headers: response.headers, body: await response.json() };
  }

  async function saved(account: TestAccount, body: object) {
    const answer = await save(account, body);
    assert.equal(answer.status, 201, JSON.stringify(answer.body));
    return answer.body as {
      mailbox: string;
      uid: number;
      uidvalidity: string;
      parts: readonly string[];
    };
  }

  async function read(account: TestAccount, { mailbox, uid }: { mailbox: string; uid: number }) {
    const path = `/mail/content?mailbox=${mailbox}&uid=${uid}`;
    const { status, body } = await service.mail(account.token, 'GET', path);
    assert.equal(status, 200, JSON.stringify(body));
    return body;
  }

  async function fileOf(account: TestAccount, mailbox: string, uid: number, part: string) {
    const response = await fetch(
      `${service.url}/mail/attachment?mailbox=${mailbox}&uid=${uid}&part=${part}`,
      { headers: { authorization: `Bearer ${account.token}` } },
    );
    assert.equal(response.status, 200);
    return response.text();
  }

  /** Courier keeps every mailbox below INBOX. */
  const DRAFTS = /^(INBOX\.)?Drafts$/;
  const lookAtDrafts = async (account: TestAccount) =>
    new Map(
      [...(await service.look(account))].flatMap(([name, messages]) =>
        DRAFTS.test(name) ? [...messages] : [],
      ),
    );
  const draftsOf = async (account: TestAccount) =>
    [...(await lookAtDrafts(account)).keys()].sort((a, b) => a - b);

  test('a draft lacks what it lacks, and has its text as it was written', async () => {
    const ann = await service.makeAccount();
    const empty = await saved(ann, {});
    assert.match(empty.mailbox, DRAFTS);
    assert.equal((await read(ann, empty)).envelope.subject ?? '', '');
    assert.deepEqual((await lookAtDrafts(ann)).get(empty.uid), ['\\Draft', '\\Seen']);
    const whole = await saved(ann, { subject: 'Zwetschgen', text: TEXT, html: '<p>Ä</p>' });
    const { text, html, envelope, flags } = await read(ann, whole);
    assert.equal(text.replaceAll('\r\n', '\n'), TEXT);
    assert.equal(html.trim(), '<p>Ä</p>');
    assert.equal(envelope.subject, 'Zwetschgen');
    assert.equal(envelope.from[0].address, ann.address);
    assert.ok(flags.includes('\\Draft'));
  });

  test('recipients need not be addresses yet, and are no other field of the header', async () => {
    const ann = await service.makeAccount();
    const to = [
      { address: 'bob' },
      { address: 'bob@' },
      { name: 'Bob, the \u202eBuilder', address: 'bob@far.test' },
      { name: 'x\r\nX-Evil: 1', address: 'eve@far.test\r\nX-Evil: 2' },
      { name: 'Nobody', address: '' },
    ];
    const many = Array.from({ length: 200 }, (_, at) => ({ address: `r${at}@far.test` }));
    const stored = await saved(ann, { to, bcc: many, subject: 'a\r\nX-Evil: 3' });
    const { envelope } = await read(ann, stored);
    const written = envelope.to.map(({ name, address }: { name: string; address: string }) =>
      [name, address].filter(Boolean).join(' '),
    );
    assert.deepEqual(written.slice(0, 2), ['bob', 'bob@']);
    assert.match(written[2], / bob@far\.test$/);
    assert.equal(envelope.bcc.length, 200);
    const response = await fetch(
      `${service.url}/mail/message?mailbox=${stored.mailbox}&uid=${stored.uid}`,
      {
        headers: { authorization: `Bearer ${ann.token}`, accept: 'message/rfc822' },
      },
    );
    assert.doesNotMatch(await response.text(), /^X-Evil/m);
  });

  test('a draft takes the place of another one, whose files it names', async () => {
    const ann = await service.makeAccount();
    await service.send({
      ...{ from: 'bob@example.test', to: ann.address, subject: 'Plan', messageId: '<plan@x.test>' },
      ...{ text: 'a', attachments: [{ filename: 'plan.csv', content: 'a,b' }] },
    });
    const place = { mailbox: 'INBOX', uid: 1 };
    const file = { ...place, part: '2' };
    const own = { filename: 'mail.eml', contentType: 'message/rfc822', content: 'YQ==' };
    const body = { subject: 'Fwd: Plan', attachments: [file, own], inReplyTo: place };
    const first = await saved(ann, body);
    const { attachments, envelope } = await read(ann, first);
    assert.equal(envelope.inReplyTo, '<plan@x.test>');
    // A message within a message is a file.
    const types = attachments.map((one: { contentType: string }) => one.contentType);
    assert.deepEqual(types, ['text/csv', 'application/octet-stream']);
    const kept = attachments.map(({ part }: { part: string }) => ({ ...first, part }));
    const second = await saved(ann, { subject: 'Plan B', attachments: kept, draft: first });
    assert.deepEqual(await draftsOf(ann), [second.uid]);
    const files = (await read(ann, second)).attachments.map(
      async ({ filename, part }: { filename: string; part: string }) =>
        `${filename}: ${await fileOf(ann, second.mailbox, second.uid, part)}`,
    );
    assert.deepEqual(await Promise.all(files), ['plan.csv: a,b', 'mail.eml: a']);
    // Nobody was answered.
    assert.deepEqual((await service.look(ann)).get('INBOX')?.get(1), []);
  });

  test('the answer says which parts the files are, also beside pictures that the text shows', async () => {
    const ann = await service.makeAccount();
    const attachments = ['a', 'b', 'c'].map((contentId) => ({
      ...{ filename: contentId, content: Buffer.from(contentId).toString('base64') },
      ...(contentId === 'b' && { contentType: 'image/png', contentId, inline: true }),
    }));
    for (const html of [undefined, '<img src="cid:b">']) {
      const { mailbox, uid, parts } = await saved(ann, { ...(html && { html }), attachments });
      const files = parts.map((part) => fileOf(ann, mailbox, uid, part));
      assert.deepEqual(await Promise.all(files), ['a', 'b', 'c'], `${parts}`);
    }
    assert.deepEqual((await saved(ann, { text: 'a' })).parts, []);
    // The file is the whole message.
    const { parts, ...alone } = await saved(ann, { attachments: attachments.slice(0, 1) });
    const files = parts.map((part) => ({ ...alone, part }));
    const { parts: again, ...next } = await saved(ann, { attachments: files, draft: alone });
    assert.deepEqual(again, ['1']);
    assert.equal(await fileOf(ann, next.mailbox, next.uid, '1'), 'a');
  });

  test('what is no draft is not removed, and one that is gone is in nobody’s way', async () => {
    const ann = await service.makeAccount();
    await service.send({ from: 'bob@example.test', to: ann.address, subject: 'a', text: 'a' });
    const refused = await save(ann, { subject: 'b', draft: { mailbox: 'INBOX', uid: 1 } });
    assert.deepEqual([refused.status, refused.body.errors[0].field], [400, 'draft']);
    const { uidvalidity, ...first } = await saved(ann, { subject: 'b' });
    const other = await save(ann, { draft: { ...first, uidvalidity: `${uidvalidity}1` } });
    assert.deepEqual([other.status, other.body.code], [409, 'uidvalidity_changed']);
    await call(ann, '/mail/delete', { mailbox: first.mailbox, uids: [first.uid] });
    const second = await saved(ann, { subject: 'c', draft: first });
    assert.deepEqual(await draftsOf(ann), [second.uid]);
    const missing = { mailbox: 'INBOX', uid: 9 };
    for (const [body, code] of [
      [{ inReplyTo: missing }, 'message_not_found'],
      [{ attachments: [{ ...missing, part: '1' }] }, 'message_not_found'],
      [{ attachments: [{ mailbox: 'INBOX', uid: 1, part: '7' }] }, 'part_not_found'],
      [{ headers: { Received: 'x' } }, 'invalid_request'],
      [{ from: { address: 'eve@else.test' } }, 'invalid_request'],
    ] as const)
      assert.equal((await save(ann, body)).body.code, code);
    assert.deepEqual(await draftsOf(ann), [second.uid]);
  });

  test('the same request with its key is one draft, also when what it took the place of is gone', async () => {
    const ann = await service.makeAccount();
    const first = await saved(ann, {
      attachments: [
        { filename: 'a', content: 'YQ==' },
        { filename: 'b', content: 'Yg==' },
      ],
    });
    const body = { subject: 'b', draft: first, attachments: [{ ...first, part: '2' }] };
    const again = () => saveAgain(ann, 'draft-1', body);
    const answers = [...(await Promise.all([again(), again()])), await again()];
    for (const { status, body } of answers) {
      assert.equal(status, 201, JSON.stringify(body));
      assert.deepEqual(body, answers[0]?.body);
    }
    assert.deepEqual(await draftsOf(ann), [answers[0]?.body.uid]);
    const other = await saveAgain(ann, 'draft-1', { ...body, subject: 'c' });
    assert.deepEqual([other.status, other.body.code], [409, 'idempotency_key_reused']);
  });

  test('large files of other messages have a share, as large requests have', async () => {
    const ann = await service.makeAccount();
    // More than 1 MiB alone, and together.
    const content = Buffer.alloc(3 * 1024 * 1024, 'x').toString('base64');
    const file = {
      ...(await saved(ann, { text: 'a', attachments: [{ filename: 'a', content }] })),
      part: '2',
    };
    const [half, ...others] = await Promise.all(
      ['b', 'c', 'd'].map(async (filename) => {
        const some = { filename, content: content.slice(0, 800_000) };
        return { ...(await saved(ann, { text: 'a', attachments: [some] })), part: '2' };
      }),
    );
    // Each node counts its own.
    const large = Array.from({ length: 10 * nodeCount }, () => save(ann, { attachments: [file] }));
    const summed = save(ann, { attachments: [half, ...others] });
    const small = save(ann, { attachments: [half] });
    const sent = call(ann, '/mail/send', { to: [{ address: ann.address }], attachments: [file] });
    const refused = (await Promise.all([...large, summed, sent])).filter(
      ({ status }) => status === 429,
    );
    assert.ok(refused.length > 0);
    for (const { body, headers } of refused) {
      assert.deepEqual([body.code, headers.get('retry-after')], ['rate_limited', '2']);
    }
    assert.equal((await small).status, 201);
    await saved(ann, { attachments: [file] });
  });

  test('an account that may not send saves drafts; one that is suspended does not', async () => {
    const off = await startTestService(engine, { SEND_ENABLED: 'false' });
    const ann = await off.makeAccount();
    assert.equal((await off.mail(ann.token, 'POST', '/mail/drafts', { text: 'a' })).status, 201);
    const suspended = { user_id: ann.userId, status: 'suspended' };
    await off.v2('PUT', `/v2/email-accounts/${ann.id}`, suspended);
    assert.equal((await off.mail(ann.token, 'POST', '/mail/drafts', {})).status, 403);
  });
});
