import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readWritten, shiftParsed, textsOf, writeMessage } from './message.ts';
import { lines, parse, readCorpus } from './sample-messages.ts';

const samples = [
  ...readCorpus().values(),
  // Names that an object has in another order than they came, or inherits from.
  lines('Content-Type: text/plain; b=1; 10=x; 2=y; __proto__=z; constructor=c', '', 'text'),
  lines('Subject: =?utf-16?B?2AA=?= \u2028', 'From: "a\\"b" <a@b.test>', '', ''),
];

test('a message that was written is the same when it is read, to the byte', () => {
  for (const sample of samples) {
    const parsed = parse(sample);
    const stored = {
      envelope: JSON.stringify(parsed.envelope),
      structure: JSON.stringify(parsed.structure),
    };
    const read = readWritten(structuredClone(writeMessage(parsed)));
    const { envelope, structure } = textsOf(read);
    assert.deepEqual({ envelope, structure }, stored);
    // As a part of what is queued, before and after it was looked into.
    assert.equal(JSON.stringify(read), JSON.stringify(parsed));
    assert.deepEqual(read, parsed);
    assert.equal(JSON.stringify(read), JSON.stringify(parsed));
    assert.deepEqual(textsOf(parsed), stored);
    assert.deepEqual(writeMessage(read), writeMessage(parsed));
  }
});

test('what is made of it has its own texts', () => {
  const parsed = parse(lines('Subject: one', '', 'text'));
  const read = readWritten(writeMessage(parsed));
  const changed = { ...read, envelope: { ...read.envelope, subject: 'two' } };
  assert.equal(textsOf(changed).envelope, '{"subject":"two"}');
  assert.equal(textsOf(read).envelope, '{"subject":"one"}');
  assert.deepEqual(shiftParsed(read, 10), shiftParsed(parsed, 10));
  assert.equal(
    textsOf(shiftParsed(read, 10)).structure,
    textsOf(shiftParsed(parsed, 10)).structure,
  );
});

test('nothing is parsed before somebody looks, and then once', () => {
  const read = readWritten({
    size: 9,
    envelope: 'not JSON',
    structure: '{"type":"a/b"}',
    headerEnd: 4,
  });
  assert.deepEqual([read.size, read.headerEnd, textsOf(read).envelope], [9, 4, 'not JSON']);
  assert.equal(read.structure, read.structure);
  assert.throws(() => read.envelope, SyntaxError);
});
