/** Writing a message: recipients, quotes, what is sent, and when it is saved. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { MailMessage } from '../../sdk/src/mail/client.ts';
import {
  isAddress,
  parseAddresses,
  toCorrespondents,
  writeAddresses,
} from '../compose/addresses.ts';
import { FILES_MAX, findMissingFile, findTrouble } from '../compose/checks.ts';
import {
  draftContent,
  emptyContent,
  forwardContent,
  isUnwritten,
  type Readable,
  replyContent,
  type TextOf,
  toOutgoing,
} from '../compose/content.ts';
import {
  forwardSubject,
  quoteText,
  replyRecipients,
  replySubject,
  textToHtml,
} from '../compose/reply.ts';
import { laterTimes, toLocalInput } from '../compose/send-later.ts';
import { formatFull } from '../ui/format.ts';

const textOf: TextOf = (html) => html.replace(/<[^>]*>/g, '');

const message: MailMessage = {
  id: 7,
  mailbox: 'INBOX',
  envelope: {
    subject: 'Plans',
    from: [{ name: 'Bob', address: 'bob@sender.test' }],
    to: [{ address: 'ada@acme.test' }, { name: 'Carol', address: 'carol@shop.test' }],
    cc: [{ address: 'Ada+list@acme.test' }, { address: 'dan@shop.test' }],
  },
  flags: [],
  size: 1000,
  internalDate: '2026-05-01T10:00:00Z',
  preview: 'Hello',
  threadId: 't',
  hasAttachment: false,
  pending: false,
};

const WHEN = formatFull(message.internalDate);

const read: Readable = {
  message,
  text: 'Hello\r\nAda\r\n-- \r\nBob, Sender Inc.',
  html: '<p>Hello <img src="cid:p@x"></p>',
  truncated: false,
  attachments: [
    { part: '2', filename: 'plan.pdf', contentType: 'application/pdf', size: 9, inline: false },
    { part: '3', contentType: 'image/png', size: 5, contentId: '<p@x>', inline: true },
  ],
  auth: undefined,
  inReplyTo: undefined,
};

test('a pasted list becomes addresses, and what is none can be corrected', () => {
  assert.deepEqual(parseAddresses('Bob <bob@a.test>, "Baker, Ann" <ann@b.test>; c@d.test'), [
    { name: 'Bob', address: 'bob@a.test' },
    { name: 'Baker, Ann', address: 'ann@b.test' },
    { address: 'c@d.test' },
  ]);
  assert.deepEqual(
    parseAddresses('a@a.test b@b.test\nmailto:c@c.test\r\nno address').map(
      ({ address }) => address,
    ),
    ['a@a.test', 'b@b.test', 'c@c.test', 'no address'],
  );
  assert.equal(parseAddresses('x@y.test,'.repeat(10_000)).length, 500);
  assert.ok(isAddress('ü@exämple.test') && !isAddress('a@b@c') && !isAddress('a b@c.test'));
});

test('property: addresses that are written are read again', () => {
  const word = fc.stringMatching(/^[a-z0-9]{1,10}$/);
  const name = fc.string({ maxLength: 20 }).map((text) => text.replace(/[\n\r<>]/g, '').trim());
  fc.assert(
    fc.property(fc.array(fc.tuple(name, word, word), { maxLength: 5 }), (people) => {
      const addresses = toCorrespondents(
        people.map(([shown, local, host]) => ({ name: shown, address: `${local}@${host}.test` })),
      ).map(({ name: shown, address }) => ({
        // A name in quotes is read without them.
        ...(shown && /[^"'\\]/.test(shown) && { name: shown.replace(/["'\\]/g, '') || 'x' }),
        address,
      }));
      const trimmed = addresses.map(({ name: shown, address }) => ({
        ...(shown?.trim() && { name: shown.trim() }),
        address,
      }));
      assert.deepEqual(parseAddresses(writeAddresses(trimmed)), trimmed);
    }),
  );
});

test('an answer to all goes to everybody but oneself, each once', () => {
  const { envelope } = message;
  assert.deepEqual(replyRecipients(envelope, ['ada@acme.test'], true), {
    to: [{ name: 'Bob', address: 'bob@sender.test' }],
    cc: [{ name: 'Carol', address: 'carol@shop.test' }, { address: 'dan@shop.test' }],
  });
  assert.deepEqual(replyRecipients(envelope, ['ada@acme.test'], false).cc, []);
  const listed = { ...envelope, replyTo: [{ address: 'list@shop.test' }] };
  assert.deepEqual(replyRecipients(listed, ['ada@acme.test'], false).to, [
    { address: 'list@shop.test' },
  ]);
  const own = { ...envelope, from: [{ address: 'ADA@acme.test' }] };
  assert.deepEqual(
    replyRecipients(own, ['ada@acme.test'], false).to.map(({ address }) => address),
    ['ada@acme.test', 'carol@shop.test'],
  );
});

test('a subject has one prefix, however often it was answered', () => {
  assert.equal(replySubject('Plans'), 'Re: Plans');
  assert.equal(replySubject('AW: Re[2]: RE: Plans'), 'Re: Plans');
  assert.equal(replySubject('Review: done'), 'Re: Review: done');
  assert.equal(forwardSubject('Fwd: FW: Plans'), 'Fwd: Plans');
  assert.equal(replySubject(''), 'Re:');
});

test('a quote has a mark before each line and no signature', () => {
  assert.equal(quoteText('a\r\n\n> b\n-- \nBob'), '> a\n>\n>> b');
  assert.equal(
    textToHtml('a < b\n\n  c'),
    '<div>a &#60; b</div><div><br></div><div> &nbsp;c</div>',
  );
});

test('a plain answer stays plain; one with form quotes the HTML', () => {
  const content = replyContent(read, {
    own: ['ada@acme.test'],
    signature: 'Ada',
    toAll: false,
  });
  assert.equal(content.subject, 'Re: Plans');
  assert.equal(content.text, '\n\n-- \nAda\n');
  const plain = toOutgoing({ ...content, text: 'Yes' }, textOf);
  assert.equal(plain.text, `Yes\n\nOn ${WHEN}, Bob wrote:\n> Hello\n> Ada\n`);
  assert.equal(plain.html, undefined);
  assert.deepEqual(plain.inReplyTo, { mailbox: 'INBOX', id: 7 });
  const rich = toOutgoing({ ...content, html: '<div>Yes</div>' }, textOf);
  assert.match(rich.html ?? '', /^<div>Yes<\/div><br>.*<blockquote type="cite"><p>Hello/);
  assert.match(rich.text ?? '', /^Yes\n\nOn /);
});

test('a forwarded message keeps its form, its files and its pictures', () => {
  const content = forwardContent(read, '');
  const { text, html, attachments, inReplyTo } = toOutgoing({ ...content, text: 'See' }, textOf);
  assert.match(text ?? '', /^See\n\n-{10} Forwarded message -{10}\nFrom: Bob <bob@sender.test>/);
  assert.match(html ?? '', /<img src="cid:p@x">/);
  assert.equal(inReplyTo, undefined);
  assert.deepEqual(attachments, [
    {
      filename: 'plan.pdf',
      contentType: 'application/pdf',
      from: { mailbox: 'INBOX', id: 7, part: '2' },
    },
    {
      filename: 'part-3',
      contentType: 'image/png',
      from: { mailbox: 'INBOX', id: 7, part: '3' },
      contentId: 'p@x',
      inline: true,
    },
  ]);
});

test('a draft goes on where it was left', () => {
  const { html, ...plain } = read;
  const { envelope } = message;
  const unfinished = { ...envelope, to: [{ name: 'bob', address: '' }] };
  const again = draftContent({ ...read, message: { ...message, envelope: unfinished } });
  assert.deepEqual(again.to, [{ address: 'bob' }]);
  const content = draftContent({ ...plain, html: undefined, text: 'Dear Bob,\n' });
  assert.equal(content.text, 'Dear Bob,');
  assert.deepEqual(content.kept, { mailbox: 'INBOX', id: 7 });
  assert.equal(draftContent(read).html, html);
  assert.deepEqual(toOutgoing(content, textOf).draft, { mailbox: 'INBOX', id: 7 });
});

test('nothing is asked or saved of a form that was only opened', () => {
  assert.ok(isUnwritten(emptyContent('Ada'), 'Ada'));
  assert.ok(!isUnwritten({ ...emptyContent('Ada'), text: 'x' }, 'Ada'));
});

test('what keeps a message from being sent is said', () => {
  const content = emptyContent('');
  assert.equal(findTrouble(content), 'Enter a recipient.');
  assert.match(findTrouble({ ...content, cc: [{ address: 'nobody' }] }) ?? '', /"nobody"/);
  const to = [{ address: 'a@b.test' }];
  assert.equal(findTrouble({ ...content, to }), undefined);
  const many = Array.from({ length: 101 }, (_, at) => ({ address: `a${at}@b.test` }));
  assert.match(findTrouble({ ...content, to: many }) ?? '', /100 recipients/);
  const large = { size: FILES_MAX + 1 };
  assert.match(findTrouble({ ...content, to, files: [{ ...large, content: 1 }] }) ?? '', /11 MB/);
  // A part of another message is named, not sent again.
  assert.equal(findTrouble({ ...content, to, files: [large] }), undefined);
  assert.match(findTrouble({ ...content, to, files: Array(101).fill(large) }) ?? '', /100 files/);
});

test('a forgotten attachment is noticed, except in what is quoted', () => {
  const content = emptyContent('');
  assert.equal(findMissingFile({ ...content, text: 'I attached the plan.' }), 'attached');
  assert.equal(findMissingFile({ ...content, text: 'Der Plan ist im Anhang.' }), 'im Anhang');
  assert.equal(findMissingFile({ ...content, text: 'Danke, siehe Anhang.' }), 'siehe Anhang');
  assert.equal(findMissingFile({ ...content, text: 'Thanks!\n> see attachment' }), undefined);
  assert.equal(
    findMissingFile({ ...content, subject: 'Re: attached plan', text: 'Ok' }),
    undefined,
  );
  assert.equal(findMissingFile({ ...content, text: 'attached', files: [{ size: 1 }] }), undefined);
});

test('times to send at lie in the future, nearest first', () => {
  for (let hour = 0; hour < 24 * 8; hour++) {
    const now = new Date(2026, 4, 1, hour, 59);
    const times = laterTimes(now).map(({ at }) => at.getTime());
    assert.ok(times.every((time) => time > now.getTime()));
    assert.deepEqual(
      times,
      times.toSorted((one, other) => one - other),
    );
  }
  assert.equal(toLocalInput(new Date(2026, 0, 2, 3, 4)), '2026-01-02T03:04');
});
