import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { holdBody } from '../bodies/bodies.ts';
import { holdMessage, stageMessage } from './stage-message.ts';

const head = Buffer.from('Received: from a by b\r\n');

/** Stages a stream as `Bodies` does, in memory. */
async function streamed(chunks: readonly Uint8Array[]) {
  const source = (async function* () {
    yield* chunks;
  })();
  const bodies: Parameters<typeof stageMessage>[0] = {
    async stage(content, observe) {
      const pieces: Uint8Array[] = [];
      for await (const chunk of content) {
        observe(chunk);
        pieces.push(chunk);
      }
      return holdBody(pieces);
    },
  };
  return stageMessage(bodies, source, head);
}

function cut(text: string, ...at: number[]): Buffer[] {
  const bytes = Buffer.from(text);
  return [0, ...at].map((start, index) => bytes.subarray(start, at[index]));
}

const cases: [text: string, staged: string][] = [
  ['Subject: hi\r\n\r\nHello.\r\n', 'Subject: hi\r\n\r\nHello.\r\n'],
  ['\r\nHello.\r\n', '\r\nHello.\r\n'],
  ['\nHello.\n', '\nHello.\n'],
  ['From me Mon Jan  5\r\nSubject: hi\r\n', 'From me Mon Jan  5\r\nSubject: hi\r\n'],
  ['Hello, you.\r\nSubject: hi\r\n', '\r\nHello, you.\r\nSubject: hi\r\n'],
  ['Hello', '\r\nHello'],
  ['', ''],
];

for (const [text, staged] of cases) {
  test(`behind header lines: ${JSON.stringify(text)}`, async () => {
    for (let at = 0; at <= text.length; at++) {
      const pieces = cut(text, Math.floor(at / 2), at);
      const whole = holdMessage(pieces, head);
      assert.equal(whole.body.content.toString(), `${head}${staged}`);
      assert.equal(whole.body.size, head.length + staged.length);
      assert.deepEqual(whole.parsed, (await streamed(pieces)).parsed);
    }
  });
}

test('what is all there is staged as what streams in', async () => {
  const text = fc
    .array(fc.constantFrom('Subject', ':', ' ', '\r\n', '\n', '\r', 'From ', 'a', 'é', '\0'))
    .map((parts) => parts.join(''));
  await fc.assert(
    fc.asyncProperty(text, fc.nat(), async (message, at) => {
      const pieces = cut(message, at);
      const [whole, stream] = [holdMessage(pieces, head), await streamed(pieces)];
      assert.deepEqual(whole.parsed, stream.parsed);
      assert.deepEqual(whole.body.content, stream.body.content);
    }),
  );
});
