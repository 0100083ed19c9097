import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LineParser, MAX_LINE_OCTETS } from './line-parser.ts';

/** A parser that writes down what it finds and goes on at once. */
function recorder(): { parser: LineParser; found: string[] } {
  const found: string[] = [];
  const parser = new LineParser();
  parser.oncommand = (line, resume) => {
    found.push(line.toString());
    resume?.();
  };
  parser.onfault = (fault, resume) => {
    found.push(`(${fault})`);
    if (fault === 'too long') resume();
  };
  return { parser, found };
}

function write(parser: LineParser, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    parser.write(Buffer.from(text), (error) => (error ? reject(error) : resolve()));
  });
}

test('lines are the same wherever the network cuts them', async () => {
  const wire = `A b\r\n\r\n${'x'.repeat(MAX_LINE_OCTETS - 2)}\r\n${'y'.repeat(MAX_LINE_OCTETS - 1)}\r\nC\r\n`;
  const expected = ['A b', '', 'x'.repeat(MAX_LINE_OCTETS - 2), '(too long)', 'C'];
  for (let cut = 0; cut < wire.length; cut++) {
    const { parser, found } = recorder();
    await write(parser, wire.slice(0, cut));
    await write(parser, wire.slice(cut));
    assert.deepEqual(found, expected, `cut at ${cut}`);
  }
  const { parser, found } = recorder();
  for (const byte of wire) await write(parser, byte);
  assert.deepEqual(found, expected);
});

test('a line that never ends is given up, and costs no memory', () => {
  const { parser, found } = recorder();
  const endless = Buffer.alloc(16 * 1024, 'x');
  for (let sent = 0; sent < 1_000_000; sent += endless.length) parser.write(endless);
  assert.deepEqual(found, ['(endless)']);
});

test('a bare LF ends no line, and nothing behind it is run', async () => {
  for (const wire of ['A\nB\r\nC\r\n', '\nA\r\n', 'A\r\nB\n\r\n', `${'x'.repeat(9000)}\nA\r\n`]) {
    const { parser, found } = recorder();
    parser.write(Buffer.from(wire));
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(found.at(-1), '(bare LF)', JSON.stringify(wire));
    assert.ok(!found.includes('C') && !found.includes(''), JSON.stringify(found));
  }
});

test('a line that the end of the connection cut short is not run', async () => {
  const { parser, found } = recorder();
  await write(parser, 'QUIT');
  await new Promise((resolve) => parser.end(resolve));
  assert.deepEqual(found, []);
});

test('nothing is run once the connection is closed', async () => {
  const { parser, found } = recorder();
  parser.oncommand = (line, resume) => {
    found.push(line.toString());
    parser.isClosed = true;
    resume?.();
  };
  await write(parser, 'A\r\nB\r\n');
  await write(parser, 'C\r\n');
  assert.deepEqual(found, ['A']);
});

test('thousands of pipelined commands neither overflow the stack nor hold others up', async () => {
  const { parser, found } = recorder();
  const written = write(parser, 'NOOP\r\n'.repeat(50_000));
  assert.ok(found.length < 50_000, 'others had no turn');
  await written;
  assert.equal(found.length, 50_000);
});

test('a message waits for its reader, and the commands behind it for the reply', async () => {
  const { parser, found } = recorder();
  const message = parser.startMessage(10_000_000);
  const chunk = Buffer.alloc(64 * 1024, 'x');
  let taken = 0;
  for (let i = 0; i < 100; i++) parser.write(Buffer.from(chunk), () => (taken += 1));
  parser.write(Buffer.from('\r\n.\r\nNEXT\r\n'));
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(taken <= 3, `${taken} chunks taken without a reader`);
  assert.ok(message.waitingBytes <= 4 * chunk.length);

  let octets = 0;
  for await (const part of message) octets += part.length;
  assert.equal(octets, 100 * chunk.length + 2);
  assert.equal(await message.arrived, true);
  assert.deepEqual(found, []);
  parser.continue();
  assert.deepEqual(found, ['NEXT']);
});

test('a message that nobody wants is skipped', async () => {
  const { parser, found } = recorder();
  const message = parser.startMessage(10_000_000);
  message.destroy();
  const chunk = Buffer.alloc(64 * 1024, 'x');
  for (let i = 0; i < 100; i++) parser.write(Buffer.from(chunk));
  parser.write(Buffer.from('\r\n.\r\nNEXT\r\n'));
  assert.equal(await message.arrived, true);
  parser.continue();
  assert.deepEqual(found, ['NEXT']);
});

test('a reader that gives up in the middle lets the rest be skipped', async () => {
  const { parser, found } = recorder();
  const message = parser.startMessage(10_000_000);
  for (let i = 0; i < 100; i++) parser.write(Buffer.alloc(64 * 1024, 'x'));
  parser.write(Buffer.from('\r\n.\r\nNEXT\r\n'));
  for await (const _ of message) break;
  assert.equal(await message.arrived, true);
  parser.continue();
  assert.deepEqual(found, ['NEXT']);
});
