/** Whatever a server says, and whatever a message holds. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { LineEnds } from '../../message/message.ts';
import { DotTransparency, stuffDots } from '../../net/smtp-text.ts';
import { withLineEnds, withoutReturnPath } from './source-lines.ts';

const bytes = (...units: string[]) =>
  fc
    .array(fc.constantFrom(...units), { maxLength: 60 })
    .map((parts) => Buffer.from(parts.join('')));

/** Cuts that a network may make. */
const cuts = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 20 });

function* cut(source: Buffer, sizes: readonly number[]): Generator<Buffer> {
  for (let at = 0, turn = 0; at < source.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1;
    yield source.subarray(at, at + size);
    at += size;
  }
}

async function* cutLater(source: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer> {
  yield* cut(source, sizes);
}

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  return Buffer.concat(await Array.fromAsync(chunks)).toString('latin1');
}

function normalized(source: Buffer): string {
  const lineEnds = new LineEnds();
  return Buffer.concat([lineEnds.write(source), lineEnds.end()]).toString('latin1');
}

void suite('hostile bytes', () => {
  test('a message ends where it ends, and comes out as it went in', async () => {
    await fc.assert(
      fc.asyncProperty(
        bytes('.', '\r', '\n', '\r\n', '\r\n.', 'a'),
        cuts,
        async (source, sizes) => {
          const wire = await collect(stuffDots(withLineEnds(cutLater(source, sizes))));
          const taken = new DotTransparency().take(Buffer.from(`${wire}.\r\nQUIT`, 'latin1'));
          assert.equal(taken.rest?.toString(), 'QUIT');
          assert.equal(taken.content.toString('latin1'), normalized(source));
        },
      ),
      { numRuns: 2_000 },
    );
  });

  test('the Return-Path line is taken off, however it is cut, and nothing else', async () => {
    const rest = 'Received: here\r\nReturn-Path: <forged>\r\n\r\nHello.\r\n';
    for (const [source, expected] of [
      [`Return-Path: <bob@sender.test>\r\n${rest}`, rest],
      [rest, rest],
      ['Return-Path', 'Return-Path'],
      ['', ''],
    ] as const) {
      await fc.assert(
        fc.asyncProperty(cuts, async (sizes) => {
          const left = await collect(withoutReturnPath(cutLater(Buffer.from(source), sizes)));
          assert.equal(left, expected);
        }),
        { numRuns: 50 },
      );
    }
  });
});
