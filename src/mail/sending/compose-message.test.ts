import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../test/support/any-character.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import {
  decodeWords,
  fieldValue,
  MessageParser,
  readHeader,
} from '../../protocols/message/message.ts';
import {
  type Composition,
  checkComposition,
  checkDraft,
  composeMessage,
  recipientsOf,
} from './compose-message.ts';

const base: Composition = {
  from: { name: 'Ada Lovelace', address: 'ada@acme.test' },
  to: [{ address: 'bob@far.test' }],
  cc: [],
  bcc: [],
  replyTo: [],
  subject: 'Hello',
  attachments: [],
  headers: {},
  messageId: '<1@mail.localhost>',
  date: new Date('2026-11-22T08:00:00Z'),
};

async function write(composition: Partial<Composition>): Promise<Buffer> {
  const whole = { ...base, ...composition };
  checkComposition(whole);
  return buffer((await composeMessage(whole)).source);
}

function parse(source: Buffer) {
  const parser = new MessageParser();
  parser.write(source);
  return parser.end();
}

function refusedField(composition: Partial<Composition>): string | undefined {
  try {
    checkComposition({ ...base, ...composition });
  } catch (error) {
    assert.ok(error instanceof Refusal);
    assert.equal(error.code, 'invalid_request');
    return error.errors?.[0]?.field;
  }
  return undefined;
}

test('text, HTML and attachments become one message', async () => {
  const source = await write({
    subject: 'Größe ✓',
    cc: [{ name: 'Čapek, K.', address: 'karel@far.test' }],
    bcc: [{ address: 'hidden@far.test' }],
    text: 'Hello,\nAda.\n.\n',
    html: '<p>Hello</p><img src="cid:logo@acme">',
    attachments: [
      { filename: 'größe.csv', contentType: 'text/csv', open: () => Readable.from(['1,2,3\n']) },
      {
        contentType: 'image/png',
        contentId: 'logo@acme',
        inline: true,
        open: () => Readable.from(['png']),
      },
    ],
    headers: { 'X-Campaign': 'spring' },
    inReplyTo: '<0@far.test>',
    references: ['<00@far.test>', '<0@far.test>'],
  });
  const { envelope, structure } = parse(source);
  assert.equal(envelope.subject, 'Größe ✓');
  assert.equal(envelope.messageId, '<1@mail.localhost>');
  assert.equal(envelope.inReplyTo, '<0@far.test>');
  assert.deepEqual(envelope.cc, [{ name: 'Čapek, K.', address: 'karel@far.test' }]);
  assert.deepEqual(envelope.bcc, [{ name: '', address: 'hidden@far.test' }]);
  assert.equal(structure.type, 'multipart/mixed');
  const text = source.toString('latin1');
  assert.match(text, /^X-Campaign: spring\r$/m);
  assert.match(text, /^References: <00@far.test> <0@far.test>\r$/m);
  assert.match(text, /^Date: Sun, 22 Nov 2026 08:00:00 \+0000\r$/m);
  assert.doesNotMatch(text, /[^\r]\n/);
});

test('a Content-ID has any character that is printed, as in mail of others', async () => {
  const ascii = String.fromCharCode(...Array.from({ length: 94 }, (_, at) => at + 33));
  for (const contentId of ['image(1)[2]@x', ascii.replace(/[<>]/g, '')]) {
    const open = () => Readable.from(['png']);
    const attachments = [{ contentType: 'image/png', contentId, inline: true, open }];
    const { structure } = parse(await write({ html: '<p>x</p>', attachments }));
    assert.ok(JSON.stringify(structure).includes(JSON.stringify(`<${contentId}>`)));
  }
});

test('a message with only a subject has an empty text', async () => {
  const { structure } = parse(await write({}));
  assert.equal(structure.type, 'text/plain');
});

test('text that a header cannot contain is refused with its field', () => {
  const evil = 'x\r\nBcc: victim@far.test';
  assert.equal(refusedField({ subject: evil }), 'subject');
  assert.equal(refusedField({ from: { name: evil, address: 'ada@acme.test' } }), 'from.name');
  assert.equal(refusedField({ to: [{ address: `bob@far.test${evil}` }] }), 'to.0.address');
  assert.equal(refusedField({ cc: [{ name: 'a\nb', address: 'bob@far.test' }] }), 'cc.0.name');
  assert.equal(refusedField({ headers: { 'X-A': evil } }), 'headers.X-A');
  assert.equal(refusedField({ headers: { 'X-A: b\r\nC': 'd' } })?.startsWith('headers.'), true);
  assert.equal(refusedField({ headers: { 'DKIM-Signature': 'v=1' } }), 'headers.DKIM-Signature');
  assert.equal(refusedField({ headers: { 'Content-Type': 'text/html' } }), 'headers.Content-Type');
  for (const name of [
    'X-Spam-Status',
    'x-spam',
    'X-Rspamd-Score',
    'Errors-To',
    'Apparently-From',
  ]) {
    assert.equal(refusedField({ headers: { [name]: 'x' } }), `headers.${name}`);
  }
  for (const name of ['Subject', 'TO', 'date', 'MIME-Version']) {
    assert.equal(refusedField({ headers: { [name]: 'x' } }), `headers.${name}`);
  }
  const open = () => Readable.from(['x']);
  const file = (more: object) => ({ attachments: [{ contentType: 'text/csv', open, ...more }] });
  assert.equal(refusedField(file({ filename: 'a\r\nb' })), 'attachments.0.filename');
  assert.equal(refusedField(file({ contentType: 'text/csv; x=y' })), 'attachments.0.contentType');
  assert.equal(refusedField(file({ contentType: 'multipart/mixed' })), 'attachments.0.contentType');
  assert.equal(refusedField(file({ contentId: 'a>b' })), 'attachments.0.contentId');
});

test('text that hides something from readers is refused with its field', () => {
  for (const evil of [
    'ada\u202exe',
    'a\u200bda',
    '\u2066ada\u2069',
    'ad\u2028a',
    'a\u00adda',
    'a\ufeff',
  ]) {
    assert.equal(refusedField({ from: { name: evil, address: 'ada@acme.test' } }), 'from.name');
    assert.equal(refusedField({ to: [{ address: `${evil}@far.test` }] }), 'to.0.address');
    assert.equal(refusedField({ replyTo: [{ address: `x@${evil}.test` }] }), 'replyTo.0.address');
    // Many readers decode these in quotes, too.
    const name = `=?utf-8?b?${Buffer.from(evil).toString('base64')}?=`;
    assert.equal(refusedField({ cc: [{ name, address: 'bob@far.test' }] }), 'cc.0.name');
  }
  assert.equal(refusedField({ to: [{ address: 'b\u3000ob@far.test' }] }), 'to.0.address');
  assert.equal(refusedField({ subject: 'a\u2028b' }), 'subject');
  assert.equal(refusedField({ subject: 'txt.\u202eexe' }), 'subject');
});

test('characters that languages and emoji need are sent', async () => {
  for (const text of [
    'علی می‌خواهم',
    'ශ්‍රී',
    '👩🏽‍💻 Ada',
    '🏳️‍🌈',
    'אבי (IT)\u200e',
    '葛\u{e0100}',
    'Čapek, K.',
  ]) {
    const { envelope } = parse(
      await write({ subject: text, to: [{ name: text, address: 'bob@far.test' }] }),
    );
    assert.equal(envelope.subject, text);
    assert.equal(envelope.to?.[0]?.name, text);
  }
});

test('a subject that looks like an encoded word arrives unchanged', async () => {
  for (const subject of [
    '=?utf-8?q?x?=',
    'Re: =?utf-8?B?eA==?= and more',
    '=?utf-8?q?x?= =?utf-8?q?y?=',
    `=?utf-8?q?${'long '.repeat(40)}ü?=`,
    '=?',
  ]) {
    const source = await write({ subject });
    assert.equal(parse(source).envelope.subject, subject);
    for (const line of String(source).split('\r\n')) assert.ok(line.length <= 78, line);
  }
});

test('no line of a header is longer than 998 octets, whatever the text', async () => {
  const long = 'x'.repeat(4_000);
  for (const text of [
    long,
    `${long.slice(10)} ü`,
    `ü ${long.slice(10)}`,
    `${'a b '.repeat(50)}${'y'.repeat(1_000)}`,
  ]) {
    const name = `X-${'n'.repeat(74)}`;
    const source = await write({ subject: text, headers: { [name]: text } });
    const { envelope } = parse(source);
    assert.equal(envelope.subject, text);
    const field = (await readHeader(Readable.from([source]))).fields.find(
      (one) => one.name === name.toLowerCase(),
    );
    assert.equal(field && decodeWords(fieldValue(field)), text);
    for (const line of String(source).split('\r\n')) assert.ok(line.length <= 998, line);
  }
});

test('property: no line of a header is longer than 998 octets', async () => {
  const unit = fc.constantFrom(
    'x'.repeat(300),
    'ü',
    '=?',
    ' ',
    '"',
    '\\',
    '<',
    '\u00a0',
    'y'.repeat(900),
  );
  const text = fc.string({ unit, maxLength: 10 });
  await fc.assert(
    fc.asyncProperty(text, text, text, async (subject, name, value) => {
      const to = [{ name, address: `${'l'.repeat(64)}@${'d.'.repeat(90)}test` }];
      const composition = { subject, to, headers: { [`X-${'n'.repeat(74)}`]: value } };
      if (refusedField(composition) !== undefined) return;
      const source = await write({ ...composition, text: 'x' });
      for (const line of String(source).split('\r\n')) {
        assert.ok(Buffer.byteLength(line) <= 998, line);
      }
    }),
    { numRuns: 300 },
  );
});

test('the number of recipients is limited, and each is a single address', () => {
  assert.equal(refusedField({ to: [] }), 'to');
  const many = Array.from({ length: 101 }, (_, n) => ({ address: `u${n}@far.test` }));
  assert.equal(refusedField({ to: many.slice(0, 60), bcc: many.slice(60) }), 'to');
  assert.equal(refusedField({ to: many.slice(0, 60), bcc: many.slice(60, 100) }), undefined);
  const twice = [{ address: 'bob@far.test' }, { address: 'bob@FAR.test' }];
  assert.equal(recipientsOf({ to: twice, cc: twice, bcc: [] }).length, 1);
});

test('property: text that passes the check adds no field to the header', async () => {
  const line = fc.string({ unit: anyCharacter, maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(line, line, line, async (subject, name, value) => {
      const composition = {
        subject,
        from: { name, address: 'ada@acme.test' },
        headers: { 'X-Value': value },
      };
      if (refusedField(composition) !== undefined) return;
      const header = String(await write({ ...composition, text: 'x' })).split('\r\n\r\n')[0] ?? '';
      const names = header
        .split('\r\n')
        .filter((one) => !/^[ \t]/.test(one))
        .map((one) => one.split(':')[0]?.toLowerCase())
        .sort();
      const known = [
        'content-transfer-encoding',
        'content-type',
        'date',
        'from',
        'message-id',
        'mime-version',
        'subject',
        'to',
        'x-value',
      ];
      assert.deepEqual(
        names.filter((one) => !known.includes(one ?? '')),
        [],
      );
    }),
    { numRuns: 300 },
  );
});

test('a draft may be unfinished, but the composer never gets a header of many megabytes', () => {
  const draft = (given: Partial<Composition>) => checkDraft({ ...base, ...given });
  const long = 'x'.repeat(128 * 1024);
  draft({ to: [{ address: 'bob' }, { name: long.slice(0, 100_000), address: '' }] });
  const people = [{ address: 'bob@far.test' }, { name: long, address: 'eve@far.test' }];
  for (const given of [
    { subject: long },
    { from: { name: long, address: base.from.address } },
    { to: people },
    { cc: people },
    { bcc: people },
    { replyTo: [{ address: long }] },
  ]) {
    assert.throws(
      () => draft(given),
      (error) => error instanceof Refusal && error.code === 'message_too_large',
    );
  }
});
