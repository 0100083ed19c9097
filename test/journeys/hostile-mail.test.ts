/** Mail that nobody should send is stored to the last byte, and the service stays up. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';

const MULTIPART = 'Content-Type: multipart/mixed; boundary=b\r\n\r\n';

function nest(levels: number): string {
  let message = 'Content-Type: text/plain\r\n\r\ninnermost\r\n';
  for (let level = 0; level < levels; level++) {
    message = `Content-Type: multipart/mixed; boundary=b${level}\r\n\r\n--b${level}\r\n${message}\r\n--b${level}--\r\n`;
  }
  return message;
}

/** Name and source of each; a source may be bytes. None names an author, so all come into Junk. */
const messages: [string, string | Buffer][] = [
  ['no boundary parameter', 'Content-Type: multipart/mixed\r\n\r\n--b\r\n\r\ntext\r\n'],
  ['an unclosed boundary', `${MULTIPART}--b\r\n\r\nfirst\r\n--b\r\n\r\nsecond`],
  ['a boundary that never comes', `${MULTIPART}just text\r\n`],
  ['1,000 nested parts', nest(1_000)],
  ['5,000 parts', `${MULTIPART}${'--b\r\n\r\nx\r\n'.repeat(5_000)}--b--\r\n`],
  ['100,000 headers', `${'X-Header: value\r\n'.repeat(100_000)}\r\nbody\r\n`],
  ['a header line of 1 MB', `Subject: ${'s'.repeat(1_000_000)}\r\n\r\nbody\r\n`],
  ['100,000 addresses', `To: ${'a@b.test, '.repeat(100_000)}\r\n\r\nbody\r\n`],
  ['bare CR and LF', 'Subject: bare\n\nline\rline\nline\r\n'],
  ['a dot after a bare LF', 'Subject: dots\r\n\r\nx\n.\nx\n..\r\n.leading\r\n'],
  [
    'an unknown charset',
    'Subject: =?x-none?B?gYE=?=\r\nContent-Type: text/plain; charset=x-none\r\n\r\n\r\n',
  ],
  ['broken base64', 'Content-Transfer-Encoding: base64\r\n\r\n!!=A=BC\r\nD\u00e9=\r\n'],
  [
    '8-bit headers',
    Buffer.from('Subject: gr\xfc\xdfe\r\nFrom: \xff\xfe\r\n\r\n\xff\r\n', 'latin1'),
  ],
  ['NULs', 'Subject: a\0b\r\nContent-Type: text/\0\r\n\r\n\0\0\r\n'],
  ['headers only', 'Subject: no body\r\n'],
  ['no headers', 'this is no header\r\nand neither is this\r\n'],
  ['prototype names', 'Content-Type: text/plain; __proto__=x; constructor=y\r\n\r\nx\r\n'],
  ['an empty message', ''],
];

/** Sends exact bytes; clients such as nodemailer would mend line ends. */
async function sendExactly(service: TestService, to: string, source: Buffer): Promise<string> {
  const socket = connect(service.smtpPort, '127.0.0.1');
  let replies = '';
  socket.setEncoding('latin1').on('data', (text: string) => {
    replies += text;
  });
  const stuffed = Buffer.from(
    `\r\n${source.toString('latin1')}`.replaceAll('\r\n.', '\r\n..').slice(2),
    'latin1',
  );
  const ending = source.length === 0 || source.toString('latin1').endsWith('\r\n') ? '' : '\r\n';
  socket.write(`EHLO test\r\nMAIL FROM:<b@example.test>\r\nRCPT TO:<${to}>\r\nDATA\r\n`);
  while (!/^354 /m.test(replies)) await once(socket, 'data');
  socket.write(Buffer.concat([stuffed, Buffer.from(`${ending}.\r\nQUIT\r\n`)]));
  await once(socket, 'close');
  return replies;
}

onEachEngine('hostile mail', (engine) => {
  let service: TestService;
  let ann: TestAccount;
  before(async () => {
    service = await startTestService(engine);
    ann = await service.makeAccount();
  });

  for (const [name, text] of messages) {
    test(`${name}: stored, synced with its structure, read back`, async () => {
      const source = Buffer.isBuffer(text) ? text : Buffer.from(text);
      const mailbox = 'Junk';
      const before = (await service.mail(ann.token, 'POST', '/mail/sync', { mailbox })).body;
      const replies = await sendExactly(service, ann.address, source);
      assert.match(replies, /^250 2\.\d\.\d .*\r\n221 /m, replies.slice(-300));
      const { body } = await service.mail(ann.token, 'POST', '/mail/sync', {
        mailbox,
        uidvalidity: before.uidvalidity,
        token: before.token,
        fields: ['envelope', 'bodyStructure', 'size'],
      });
      assert.equal(body.changes.added.length, 1);
      const [{ uid, size }] = body.changes.added;
      const message = await service.mail(ann.token, 'GET', `/mail/message?mailbox=Junk&uid=${uid}`);
      assert.equal(message.status, 200);
      const stored = Buffer.from(message.body.rfc822, message.body.rfc822Encoding);
      assert.equal(stored.length, size);
      const ending =
        source.length === 0 || source.toString('latin1').endsWith('\r\n') ? '' : '\r\n';
      const sent = Buffer.concat([source, Buffer.from(ending)]);
      assert.ok(stored.subarray(stored.length - sent.length).equals(sent), 'other bytes came back');
      const part = await fetch(`${service.url}/mail/attachment?mailbox=Junk&uid=${uid}&part=1`, {
        headers: { authorization: `Bearer ${ann.token}` },
      });
      assert.ok(part.status === 200 || part.status === 404);
      await part.arrayBuffer();
    });
  }

  test('mails with as many addresses and parts as are returned are synced page by page', async () => {
    const ben = await service.makeAccount();
    const addresses = Array.from({ length: 1_000 }, (_, index) => `"n${index}" <a${index}@b.test>`);
    const fields = ['Sender', 'Reply-To', 'To', 'Cc', 'Bcc'].map(
      (name) => `${name}: ${addresses.join(',\r\n ')}\r\n`,
    );
    const parts = `--b\r\nContent-Type: text/plain; name="${'x'.repeat(100)}"\r\n\r\n`.repeat(990);
    const source = Buffer.from(
      `From: b@example.test\r\n${fields.join('')}${MULTIPART}${parts}--b--\r\n`,
    );
    for (let sent = 0; sent < 10; sent++) {
      assert.match(await sendExactly(service, ben.address, source), /^250 2\.0\.0 /m);
    }
    const wanted = { fields: ['envelope', 'bodyStructure'] };
    const first = await service.mail(ben.token, 'POST', '/mail/sync', wanted);
    assert.equal(first.body.hasMore, true);
    const { uidvalidity, token } = first.body;
    const next = { uidvalidity, token, ...wanted };
    const second = await service.mail(ben.token, 'POST', '/mail/sync', next);
    assert.equal(second.body.hasMore, undefined);
    const added = [...first.body.changes.added, ...second.body.changes.added];
    assert.deepEqual(
      added.map(({ uid }) => uid),
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    );
    const { body } = await service.mail(ben.token, 'GET', '/mail/message?uid=9');
    for (const { envelope, bodyStructure } of added) {
      assert.deepEqual(envelope, body.envelope);
      assert.deepEqual(bodyStructure, body.bodyStructure);
    }
  });

  test('a client that vanishes in DATA leaves nothing', async () => {
    const { body } = await service.mail(ann.token, 'POST', '/mail/sync', {});
    const socket = connect(service.smtpPort, '127.0.0.1');
    let replies = '';
    socket.setEncoding('latin1').on('data', (text: string) => {
      replies += text;
    });
    socket.write(`EHLO test\r\nMAIL FROM:<b@example.test>\r\nRCPT TO:<${ann.address}>\r\nDATA\r\n`);
    while (!/^354 /m.test(replies)) await once(socket, 'data');
    socket.write(`Subject: half\r\n\r\n${'x'.repeat(500_000)}`);
    socket.resetAndDestroy();
    await once(socket, 'close');
    await service.send({ from: 'b@example.test', to: ann.address, subject: 'whole', text: 'x' });
    const next = await service.mail(ann.token, 'POST', '/mail/sync', {
      uidvalidity: body.uidvalidity,
      token: body.token,
      fields: ['envelope'],
    });
    assert.deepEqual(
      next.body.changes.added.map(
        ({ envelope }: { envelope: { subject: string } }) => envelope.subject,
      ),
      ['whole'],
    );
  });
});
