import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readWhole } from './read-whole.ts';

class Source {
  read = 0;
  isGivenUp = false;

  async *chunks(count: number): AsyncGenerator<Uint8Array> {
    try {
      for (; this.read < count; this.read++) yield Buffer.alloc(10, String(this.read % 10));
    } finally {
      this.isGivenUp = this.read < count;
    }
  }
}

async function join(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  return Buffer.concat(await Array.fromAsync(chunks)).toString();
}

test('a source that is small enough comes whole, in memory of its own', async () => {
  const { whole } = await readWhole(new Source().chunks(3), 30);
  assert.ok(whole);
  assert.equal(whole.buffer.byteLength, 30);
  assert.equal(
    Buffer.from(whole).toString(),
    `${'0'.repeat(10)}${'1'.repeat(10)}${'2'.repeat(10)}`,
  );
  assert.equal((await readWhole(new Source().chunks(0), 30)).whole?.length, 0);
});

test('one byte more, and it is read no further than it has to be; all of it can still be had', async () => {
  const source = new Source();
  const { whole, begun } = await readWhole(source.chunks(9), 29);
  assert.equal(whole, undefined);
  assert.equal(source.read, 2);
  assert.equal((await join(begun)).length, 90);
});

test('what came whole can also be read as a source', async () => {
  const { begun } = await readWhole(new Source().chunks(2), 30);
  assert.equal(await join(begun), `${'0'.repeat(10)}${'1'.repeat(10)}`);
});

test('who stops early gives the source up', async () => {
  const source = new Source();
  const { begun } = await readWhole(source.chunks(9), 25);
  for await (const _ of begun) break;
  assert.equal(source.isGivenUp, true);
});

test('what the source throws is thrown, early and late', async () => {
  async function* failing(after: number): AsyncGenerator<Uint8Array> {
    for (let count = 0; count < after; count++) yield Buffer.alloc(10);
    throw new Error('gone');
  }
  await assert.rejects(readWhole(failing(1), 30), /gone/);
  const { begun } = await readWhole(failing(5), 30);
  await assert.rejects(join(begun), /gone/);
});
