import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stageMessage } from './stage-message.ts';

const head = Buffer.from('Received: from a by b\r\n');

/** Stages the pieces as `Bodies` does, in memory. */
async function stage(pieces: readonly Uint8Array[]) {
  const source = (async function* () {
    yield* pieces;
  })();
  const bodies: Parameters<typeof stageMessage>[0] = {
    async stage(content, observe) {
      const kept: Uint8Array[] = [];
      for await (const chunk of content) {
        observe(chunk);
        kept.push(chunk);
      }
      const whole = Buffer.concat(kept);
      return { size: whole.length, content: whole };
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
    const { parsed } = await stage([Buffer.from(text)]);
    assert.equal(parsed.size, head.length + staged.length);
    for (let at = 0; at <= text.length; at++) {
      const pieces = await stage(cut(text, Math.floor(at / 2), at));
      assert.equal(pieces.body.content.toString(), `${head}${staged}`);
      assert.deepEqual(pieces.parsed, parsed);
    }
  });
}

test('other work gets a turn while a long message is staged', async () => {
  let turns = 0;
  const chunk = Buffer.from('x'.repeat(64 * 1024));
  const count = () => new Promise<void>((resolve) => setImmediate(() => resolve(void turns++)));
  const counting = (async () => {
    for (let n = 0; n < 8; n++) await count();
  })();
  await stage(Array.from({ length: 64 }, () => chunk));
  assert.ok(turns >= 8, `${turns} turns`);
  await counting;
});
