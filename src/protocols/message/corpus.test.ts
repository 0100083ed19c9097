import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  contentOf,
  leavesOf,
  outline,
  parse,
  readCorpus,
} from '../../../test/support/message/sample-messages.ts';
import {
  decodeText,
  findPart,
  hasAttachments,
  listAttachments,
  type MessagePart,
  partFilename,
  readMessageTexts,
} from './message.ts';

/** For each message of the corpus its parts: number, type, encoding, decoded size. */
const outlines: Record<string, string[]> = {
  'bare-cr': ['- multipart/mixed 7bit 33', '  1 text/plain 7bit 17'],
  'bare-lf': ['- multipart/mixed 7bit 24', '  1 text/plain 7bit 3', '  2 text/plain 7bit 3'],
  'body-without-header': ['1 text/plain 7bit 48'],
  bounce: [
    '- multipart/report 7bit 244',
    '  1 text/plain 7bit 10',
    '  2 message/delivery-status 7bit 111',
    '  3 text/rfc822-headers 7bit 15',
  ],
  'boundary-never-seen': ['1 multipart/mixed 7bit 19'],
  'boundary-padding': ['- multipart/mixed 7bit 26', '  1 text/plain 7bit 3'],
  'boundary-prefix': [
    '- multipart/mixed 7bit 142',
    '  1 multipart/alternative 7bit 50',
    '    1.1 text/plain 7bit 28',
    '  2 text/plain 7bit 5',
  ],
  'broken-base64': [
    '- multipart/mixed 7bit 204',
    '  1 application/octet-stream base64 13',
    '  2 application/octet-stream base64 0',
  ],
  'broken-quoted-printable': ['1 text/plain quoted-printable 26'],
  digest: [
    '- multipart/digest 7bit 110',
    '  1 message/rfc822 7bit 23',
    '    1.1 text/plain 7bit 5',
    '  2 text/plain 7bit 13',
    '  3 message/rfc822 7bit 16',
    '    3.1 text/plain 7bit 16',
  ],
  'eight-bit-headers-latin1': ['1 text/plain 8bit 7'],
  'eight-bit-headers-utf8': ['1 text/plain 8bit 9'],
  empty: ['1 text/plain 7bit 0'],
  'encoded-nested-message': ['1 message/rfc822 base64 25'],
  'file-names': [
    '- multipart/mixed 7bit 596',
    '  1 text/plain 7bit 1',
    '  2 text/plain 7bit 1',
    '  3 text/plain 7bit 1',
    '  4 application/pdf 7bit 1',
    '  5 text/plain 7bit 1',
    '  6 text/plain 7bit 1',
    '  7 text/plain 7bit 1',
  ],
  'flowed-delsp': ['1 text/plain 8bit 133'],
  'flowed-spaces': ['1 text/plain 7bit 96'],
  'header-cut-by-boundary': [
    '- multipart/mixed 7bit 56',
    '  1 text/html 7bit 0',
    '  2 text/plain 7bit 0',
    '  3 text/plain 7bit 5',
  ],
  'header-without-body': ['1 text/plain 7bit 0'],
  'headers-only': ['1 text/plain 7bit 0'],
  'hostile-addresses': ['1 text/plain 7bit 6'],
  'hostile-parameters': ['1 text/plain 7bit 6'],
  'html-meta-charset': ['1 text/html 8bit 151'],
  'inline-logo': ['- multipart/related 7bit 202', '  1 text/html 7bit 44', '  2 image/png 7bit 3'],
  'inner-closed-by-outer': [
    '- multipart/mixed 7bit 122',
    '  1 multipart/alternative 7bit 16',
    '    1.1 text/plain 7bit 5',
    '  2 text/plain 7bit 6',
  ],
  'mbox-from-line': ['1 text/plain 7bit 7'],
  'message-in-message': [
    '1 message/rfc822 7bit 75',
    '  1.1 message/rfc822 7bit 26',
    '    1.1.1 text/plain 7bit 7',
  ],
  'mixed-line-ends': [
    '- multipart/mixed 7bit 30',
    '  1 text/plain 7bit 4',
    '  2 text/plain 7bit 5',
  ],
  'nested-message': [
    '- multipart/mixed 7bit 311',
    '  1 text/plain 7bit 10',
    '  2 message/rfc822 7bit 149',
    '    - multipart/alternative 7bit 78',
    '      2.1 text/plain 7bit 5',
    '      2.2 text/html 7bit 11',
    '  3 message/rfc822 7bit 42',
    '    3.1 text/plain 7bit 23',
  ],
  'no-boundary': ['1 multipart/mixed 7bit 19'],
  'no-mime': ['1 text/plain 7bit 17'],
  'nul-bytes': ['1 text/plain 7bit 19'],
  'same-boundary-nested': [
    '- multipart/mixed 7bit 124',
    '  1 multipart/alternative 7bit 41',
    '    1.1 text/plain 7bit 9',
    '    1.2 text/plain 7bit 9',
    '  2 text/plain 7bit 9',
  ],
  'unclosed-boundary': [
    '- multipart/mixed 7bit 131',
    '  1 multipart/alternative 7bit 67',
    '    1.1 text/plain 7bit 5',
    '    1.2 text/html 7bit 13',
  ],
  'utf-32': ['1 text/plain base64 36'],
  'utf-7': ['1 text/plain 7bit 33'],
  'wrong-charsets': ['1 text/plain 7bit 9'],
};

const corpus = readCorpus();

test('every message of the corpus has the expected structure', async (t) => {
  assert.deepEqual([...corpus.keys()].toSorted(), Object.keys(outlines).toSorted());
  for (const [name, source] of corpus) {
    await t.test(name, () => assert.deepEqual(outline(parse(source).structure), outlines[name]));
  }
});

function read(name: string) {
  const source = corpus.get(name);
  assert.ok(source, name);
  const parsed = parse(source);
  const part = (number: string): MessagePart => {
    const found = findPart(parsed.structure, number);
    assert.ok(found, `part ${number}`);
    return found;
  };
  const text = (number: string) => decodeText(contentOf(source, part(number)));
  return { ...parsed, source, part, text };
}

test('8-bit headers are UTF-8 where they are valid UTF-8, else windows-1252', () => {
  const utf8 = read('eight-bit-headers-utf8');
  assert.equal(utf8.envelope.subject, 'Grüße');
  assert.deepEqual(utf8.envelope.from, [{ name: 'Jörg', address: 'joerg@example.org' }]);
  assert.deepEqual(utf8.envelope.to, [{ name: '', address: '用户@例え.example' }]);
  assert.equal(utf8.part('1').parameters?.name, 'Übersicht.txt');
  const latin1 = read('eight-bit-headers-latin1');
  assert.equal(latin1.envelope.subject, 'Grüße');
  assert.equal(latin1.envelope.from?.[0]?.name, 'Jörg');
  assert.equal(latin1.part('1').parameters?.name, 'Übersicht.txt');
});

test('unknown charsets, split characters and cut-off bytes still give readable text', () => {
  const { envelope, part, text } = read('wrong-charsets');
  assert.equal(envelope.subject, 'cut € offébad\ufffd');
  assert.equal(envelope.from?.[0]?.name, 'Jörg');
  assert.equal(part('1').parameters?.charset, 'no such charset');
  assert.equal(text('1'), 'Grüße\r\n');
});

/** The texts as a reader sees them. */
function seen(name: string) {
  const { source, structure } = read(name);
  return readMessageTexts(structure, 10_000, async function* ({ start, end }) {
    yield source.subarray(start, end);
  });
}

test('format=flowed: the lines of a paragraph are joined, with DelSp without the space', async () => {
  assert.equal(
    (await seen('flowed-delsp')).text,
    '日本語の長い文章は、途中で折り返される。\n\n> quotedtext\n>> deeper\nFrom here\n> From there\n-- \nAnn\n',
  );
  assert.equal(
    (await seen('flowed-spaces')).text,
    'This paragraph goes on.\n\n> A quoted one,\n>> a deeper \n> one.\n-- \n-- \nAnn Lee\n',
  );
});

test('UTF-7 and UTF-32 are read, and HTML by the charset that it names itself', async () => {
  assert.equal(read('utf-7').envelope.subject, 'Grüße');
  assert.equal((await seen('utf-7')).text, 'Grüße + 日本語, 1 + 1\n');
  assert.equal((await seen('utf-32')).text, 'Grüße 🎉\n');
  assert.match((await seen('html-meta-charset')).html ?? '', /<p>Привет<\/p>/);
});

test('a multipart without a boundary, or without parts, is read as text and is no attachment', async () => {
  for (const name of ['no-boundary', 'boundary-never-seen']) {
    const { source, structure, headerEnd } = read(name);
    const { text } = await seen(name);
    assert.equal(text, source.toString('utf8', headerEnd).replaceAll('\r\n', '\n'), name);
    assert.equal(hasAttachments(structure), false);
  }
});

test('a picture that the HTML shows is listed, and is no attachment', () => {
  const { structure } = read('inline-logo');
  assert.equal(hasAttachments(structure), false);
  assert.deepEqual(
    listAttachments(structure).map(({ part, inline, contentId }) => [part, inline, contentId]),
    [['2', true, 'logo@example.org']],
  );
});

test('broken base64 gives everything that can be decoded', () => {
  assert.equal(read('broken-base64').text('1'), 'Hello world!A');
});

test('broken quoted-printable keeps text that is not an escape', () => {
  assert.equal(read('broken-quoted-printable').text('1'), 'été = not =ZZ\r\nsoftbreak');
});

test('lines end at LF only: a CR alone starts no delimiter', () => {
  assert.equal(read('bare-cr').text('1'), 'one\r--b\rstill one');
  assert.equal(read('mixed-line-ends').text('1'), 'one\n');
  assert.equal(read('mixed-line-ends').text('2'), 'two\r\n');
});

test('a boundary that starts like another is not mistaken for it', () => {
  const { text } = read('boundary-prefix');
  assert.equal(text('1.1'), 'inner\r\n--part1x\r\nstill inner');
  assert.equal(text('2'), 'outer');
});

test('a nested message is one part, and its parts are numbered below it', () => {
  const { text } = read('nested-message');
  assert.equal(text('2.2'), '<p>html</p>');
  assert.equal(text('3.1'), 'Body of the single part');
  assert.equal(text('3'), 'Subject: Single\r\n\r\nBody of the single part');
});

test('file names are found in every place where senders put them, and made safe', () => {
  const { structure } = read('file-names');
  assert.deepEqual(leavesOf(structure).map(partFilename), [
    'plain.txt',
    'Übersicht €.pdf',
    'café %41.txt',
    'Café.pdf',
    '....etcpasswd',
    'my file (1).txt',
    'unclosed',
  ]);
});

test('parameters named like properties of Object.prototype do no harm', () => {
  const { parameters } = read('hostile-parameters').part('1');
  assert.equal(Object.getPrototypeOf(parameters), Object.prototype);
  assert.deepEqual(parameters, { constructor: 'c', tostring: 't', charset: 'utf-8' });
  assert.equal(Reflect.get({}, 'polluted'), undefined);
});

test('addresses come from addresses, not from names, comments or encoded words', () => {
  const { envelope } = read('hostile-addresses');
  assert.deepEqual(envelope, {
    subject: 'first',
    from: [{ name: 'a@evil.example', address: 'real@example.org' }],
    sender: [{ name: 'comment <no@example.org>', address: 's@example.org' }],
    to: [{ name: '', address: 'late@example.org' }],
    cc: [
      { name: 'a@b, c', address: 'c@example.org' },
      { name: '', address: 'd@example.org' },
      { name: '', address: 'e@example.org' },
    ],
    bcc: [
      { name: '', address: 'x@example.org' },
      { name: '', address: 'y@example.org' },
    ],
  });
});

test('a message from before MIME is plain text with its envelope', () => {
  assert.deepEqual(read('no-mime').envelope, {
    date: '1997-11-21T14:55:06.000Z',
    subject: 'Before MIME',
    inReplyTo: '<one@example.org> <two@example.org>',
    messageId: '<three@example.org>',
  });
});

test('messages without header, body, or both have their offsets right', () => {
  assert.equal(read('empty').headerEnd, 0);
  assert.equal(read('empty').size, 0);
  assert.deepEqual(read('empty').envelope, { subject: '' });
  assert.equal(read('body-without-header').headerEnd, 0);
  assert.equal(read('header-without-body').headerEnd, 26);
  assert.equal(read('headers-only').headerEnd, 45);
  assert.equal(read('headers-only').envelope.subject, 'No blank line');
  assert.equal(read('mbox-from-line').envelope.subject, 'Out of a mailbox file');
});
