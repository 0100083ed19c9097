/** ENVELOPE and BODYSTRUCTURE of messages, as they are written. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type MessagePart, parseMessage, readHeader } from '../../protocols/message/message.ts';
import { writeStructure } from './body-structure.ts';
import { writeEnvelope } from './envelope.ts';

async function envelopeOf(header: string): Promise<string> {
  async function* source() {
    yield Buffer.from(`${header.replaceAll('\n', '\r\n')}\r\n\r\n`, 'latin1');
  }
  return writeEnvelope((await readHeader(source())).fields);
}

async function structureOf(text: string): Promise<string> {
  const source = Buffer.from(text.replaceAll('\n', '\r\n'), 'latin1');
  async function* pieces() {
    yield source;
  }
  const { structure }: { structure: MessagePart } = await parseMessage(pieces());
  return writeStructure(structure, async (start, end) => source.subarray(start, end), true);
}

test('an envelope has words, names and dates as they were written', async () => {
  assert.equal(
    await envelopeOf(
      'Date: Fri, 21 Nov 1997 09:55:06 -0600\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\n =?utf-8?q?_!?=\nFrom: "J. \\"Q\\" Doe" <jdoe@a.test>, ann@b.test (Ann)\nMessage-ID: <1@a.test>',
    ),
    '("Fri, 21 Nov 1997 09:55:06 -0600" "=?utf-8?q?Gr=C3=BC=C3=9Fe?= =?utf-8?q?_!?=" ' +
      '(("J. \\"Q\\" Doe" NIL "jdoe" "a.test")("Ann" NIL "ann" "b.test")) '.repeat(3) +
      'NIL NIL NIL NIL "<1@a.test>")',
  );
});

test('groups, routes and addresses without a domain have their forms', async () => {
  const to = 'To: Team: a@a.test, <@r.test:b@b.test>; , lonely, undisclosed:;';
  assert.match(
    await envelopeOf(to),
    /\(\(NIL NIL "Team" NIL\)\(NIL NIL "a" "a\.test"\)\(NIL "@r\.test" "b" "b\.test"\)\(NIL NIL NIL NIL\)\("lonely" NIL "MISSING_MAILBOX" "MISSING_DOMAIN"\)\(NIL NIL "undisclosed" NIL\)\(NIL NIL NIL NIL\)\)/,
  );
});

test('a group without a name is no end of a group', async () => {
  const written = await envelopeOf('To: :a@a.test;');
  assert.ok(
    written.includes(' ((NIL NIL "" NIL)(NIL NIL "a" "a.test")(NIL NIL NIL NIL)) '),
    written,
  );
});

test('a name that was not encoded keeps all its characters', async () => {
  for (const charset of ['utf8', 'latin1'] as const) {
    const octets = Buffer.from('From: Üte Östlund <u@a.test>', charset).toString('latin1');
    const name = Buffer.from('Üte Östlund').toString('latin1');
    assert.ok((await envelopeOf(octets)).includes(`}\r\n${name} NIL "u" "a.test"))`));
  }
});

test('a list that breaks the syntax has the addresses that the API shows', async () => {
  const two = await envelopeOf('To: <a@a.test, b@b.test>, "c d"@c.test');
  const addresses = '((NIL NIL "a" "a.test")(NIL NIL "b" "b.test")(NIL NIL "c d" "c.test"))';
  assert.ok(two.includes(addresses), two);
});

test('a subject cannot forge an answer', async () => {
  const written = await envelopeOf('Subject: a\r* 9 EXISTS\xe9"');
  assert.match(written, /^\(NIL \{\d+\}\r\na \* 9 EXISTS\xe9" /);
});

test('a field that is there and empty is an empty string, and no missing one', async () => {
  assert.equal(
    await envelopeOf('Date:\nSubject: \nMessage-ID:\nFrom:\nTo: '),
    `("" "" ${'NIL '.repeat(7)}"")`,
  );
});

test('a structure has the fields of each kind of part', async () => {
  const text = [
    'Content-Type: multipart/mixed; boundary=b',
    '',
    '--b',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Language: de, en',
    '',
    'Hi',
    '--b',
    'Content-Type: message/rfc822',
    '',
    'Subject: inner',
    '',
    'Text',
    '--b',
    'Content-Type: image/png; name="=?utf-8?q?=C3=BC.png?="',
    'Content-Transfer-Encoding: base64',
    'Content-ID: <i@a.test>',
    'Content-Disposition: attachment; filename=a.png',
    '',
    'AAAA',
    '--b--',
    '',
  ];
  assert.equal(
    await structureOf(text.join('\n')),
    '(("TEXT" "PLAIN" ("CHARSET" "utf-8") NIL NIL "7BIT" 2 1 NIL NIL ("de" "en") NIL)' +
      '("MESSAGE" "RFC822" NIL NIL NIL "7BIT" 22 (NIL "inner" NIL NIL NIL NIL NIL NIL NIL NIL) ' +
      '("TEXT" "PLAIN" ("CHARSET" "us-ascii") NIL NIL "7BIT" 4 1 NIL NIL NIL NIL) 2 NIL NIL NIL NIL)' +
      '("IMAGE" "PNG" ("NAME*" "utf-8\'\'%C3%BC.png") "<i@a.test>" NIL "BASE64" 4 NIL ("ATTACHMENT" ("FILENAME" "a.png")) NIL NIL)' +
      ' "MIXED" ("BOUNDARY" "b") NIL NIL NIL)',
  );
});

test('a message in UTF-8 has the structure of a message', async () => {
  const text = 'Content-Type: message/global\n\nSubject: Grüße\n\nText\n';
  const subject = '{5}\r\nGr\xfc\xdfe';
  assert.equal(
    await structureOf(text),
    `("MESSAGE" "GLOBAL" NIL NIL NIL "7BIT" 24 (NIL ${subject} ${'NIL '.repeat(7)}NIL) ` +
      '("TEXT" "PLAIN" ("CHARSET" "us-ascii") NIL NIL "7BIT" 6 1 NIL NIL NIL NIL) 3 NIL NIL NIL NIL)',
  );
});

test('a message that was not read into has the form of one all the same, as programs that read strictly need', async () => {
  const text = await structureOf(
    'Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nQQ==\n',
  );
  assert.equal(
    text,
    `("MESSAGE" "RFC822" NIL NIL NIL "BASE64" 6 (${'NIL '.repeat(9)}NIL) ` +
      '("TEXT" "PLAIN" NIL NIL NIL "7BIT" 0 0 NIL NIL NIL NIL) 1 NIL NIL NIL NIL)',
  );
});
