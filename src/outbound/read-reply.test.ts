import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isPermanent, readReply } from './read-reply.ts';

const replies: [reply: string, status: number, enhancedStatus: string | undefined, text: string][] =
  [
    ['550 5.1.1 no such user', 550, '5.1.1', 'no such user'],
    ['550-5.1.1 no such\n550 5.1.1 user', 550, '5.1.1', 'no such user'],
    ['550-5.7.1 one\r\n550-5.7.1 two\r\n550 5.7.1 three', 550, '5.7.1', 'one two three'],
    ['451 try later', 451, undefined, 'try later'],
    ['450 5.1.1 odd', 450, undefined, '5.1.1 odd'],
    ['550', 550, undefined, ''],
    ['550 5.1.1', 550, '5.1.1', ''],
    ['550 5.1.12345 odd', 550, undefined, '5.1.12345 odd'],
    ['550 \x1b[31mred\x07 \u2028 text', 550, undefined, '[31mred text'],
    [`554 ${'x'.repeat(5_000)}`, 554, undefined, 'x'.repeat(500)],
  ];
for (const [reply, status, enhancedStatus, text] of replies) {
  test(JSON.stringify(reply.slice(0, 40)), () => {
    assert.deepEqual(readReply(reply), { status, enhancedStatus, text });
  });
}

for (const reply of ['', 'hello', '55 x', '5500 x', '650 x', '550x']) {
  test(`${JSON.stringify(reply)} is no reply`, () => assert.equal(readReply(reply), undefined));
}

test('whatever comes, the text is one short line', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 2_000 }), (text) => {
      const shown = readReply(`550 ${text}`)?.text ?? '';
      assert.ok(shown.length <= 500 && shown.isWellFormed());
      assert.doesNotMatch(shown, /\p{Cc}/u);
    }),
  );
});

test('5xx is for good, but for the order of commands', () => {
  assert.deepEqual([550, 554, 503, 451, 250].map(isPermanent), [true, true, false, false, false]);
});
