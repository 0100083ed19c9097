import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type LogDestination, LogLines } from './log-lines.ts';

/** A destination with room for so many bytes; a write is done when the test says so. */
class Disk implements LogDestination {
  text = '';
  room = Number.POSITIVE_INFINITY;
  code = 'ENOSPC';
  readonly sizes: number[] = [];
  #pending: (() => void) | undefined;

  write(bytes: Uint8Array, done: (error: Error | null, written: number) => void): void {
    assert.equal(this.#pending, undefined, 'two writes at a time');
    this.#pending = () => {
      let written: number;
      try {
        written = this.writeSync(bytes);
      } catch (error) {
        assert.ok(error instanceof Error);
        done(error, 0);
        return;
      }
      done(null, written);
    };
  }

  /** As write(2) does: what there is room for, and an error where there is none. */
  writeSync(bytes: Uint8Array): number {
    const part = Buffer.from(bytes.subarray(0, this.room));
    if (part.length === 0) throw Object.assign(new Error(this.code), { code: this.code });
    this.room -= part.length;
    this.text += part.toString('latin1');
    this.sizes.push(part.length);
    return part.length;
  }

  /** Ends the write under way, if there is one; whether there was. */
  finish(): boolean {
    const pending = this.#pending;
    this.#pending = undefined;
    pending?.();
    return pending !== undefined;
  }

  finishAll(): void {
    while (this.finish());
  }
}

function open() {
  const disk = new Disk();
  return { disk, lines: new LogLines(disk) };
}

/** 100 characters, of which the first are the number. */
const numbered = (n: number) => `${String(n).padEnd(99, '.')}\n`;
const MANY = 30_000;

test('lines are written together, in their order, each once', () => {
  const { lines, disk } = open();
  lines.write('one\n');
  lines.write('two\n');
  assert.ok(!disk.finish());
  lines.flush();
  lines.flush();
  disk.finishAll();
  assert.deepEqual([disk.text, disk.sizes], ['one\ntwo\n', [8]]);
  lines.write('three\n');
  lines.flushSync();
  assert.equal(disk.text, 'one\ntwo\nthree\n');
});

test('many lines do not wait', () => {
  const { lines, disk } = open();
  for (let n = 0; n < 1_000; n++) {
    lines.write(numbered(n));
    disk.finish();
  }
  assert.ok(disk.sizes.length >= 6);
  lines.flush();
  disk.finishAll();
  assert.equal(disk.text.length, 100_000);
});

test('a line alone does not wait for others', (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const { lines, disk } = open();
  lines.write('one\n');
  context.mock.timers.tick(100);
  disk.finishAll();
  assert.equal(disk.text, 'one\n');
  lines.write('two\n');
  context.mock.timers.tick(100);
  disk.finishAll();
  assert.equal(disk.text, 'one\ntwo\n');
});

test('lines that come during a write are one write after it', (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const { lines, disk } = open();
  for (const line of ['one\n', 'two\n', 'three\n']) {
    lines.write(line);
    lines.flush();
  }
  disk.finishAll();
  assert.deepEqual([disk.text, disk.sizes], ['one\ntwo\nthree\n', [4, 10]]);
});

for (const code of ['ENOSPC', 'EAGAIN', 'EIO']) {
  test(`after ${code} the rest of the line and the lines after it are tried again`, (context) => {
    context.mock.timers.enable({ apis: ['setTimeout'] });
    const { lines, disk } = open();
    Object.assign(disk, { room: 2, code });
    lines.write('one\n');
    lines.flush();
    disk.finishAll();
    lines.write('two\n');
    for (let n = 0; n < 10; n++) {
      context.mock.timers.tick(100);
      disk.finishAll();
    }
    assert.equal(disk.text, 'on');
    disk.room = 100;
    context.mock.timers.tick(100);
    disk.finishAll();
    assert.equal(disk.text, 'one\ntwo\n');
  });
}

test('lines beyond a bound are lost, and their number is told in their place', (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const { lines, disk } = open();
  disk.room = 0;
  for (let n = 0; n < MANY; n++) lines.write(numbered(n));
  disk.finishAll();
  disk.room = Number.POSITIVE_INFINITY;
  context.mock.timers.tick(100);
  disk.finishAll();
  lines.write('after\n');
  context.mock.timers.tick(100);
  disk.finishAll();

  const written = disk.text.trimEnd().split('\n');
  assert.equal(written.pop(), 'after');
  const { time, ...told } = JSON.parse(written.pop() ?? '');
  const kept = written.length;
  assert.deepEqual(told, { level: 40, lines: MANY - kept, msg: 'log lines were lost' });
  assert.equal(typeof time, 'number');
  assert.ok(kept > 5_000 && kept < 15_000, `${kept} of ${MANY} were kept`);
  assert.deepEqual(
    written.map((line) => Number.parseInt(line, 10)),
    Array.from({ length: kept }, (_, n) => n),
  );
});

test('a line longer than the bound is no end of the log', () => {
  const { lines, disk } = open();
  lines.write(`${'x'.repeat(3_000_000)}\n`);
  disk.finishAll();
  lines.write('after\n');
  lines.flush();
  disk.finishAll();
  assert.ok(disk.text.endsWith('x\nafter\n'));
});

test('the end waits for the write under way, then writes the rest', async () => {
  const { lines, disk } = open();
  disk.room = 2;
  lines.write('one\n');
  lines.flush();
  lines.write('two\n');
  const ended = lines.end();
  assert.equal(disk.text, '');
  disk.finish();
  disk.room = 100;
  await ended;
  assert.equal(disk.text, 'one\ntwo\n');
});

test('the end tells of lost lines too', () => {
  const { lines, disk } = open();
  disk.room = 0;
  for (let n = 0; n < MANY; n++) lines.write(numbered(n));
  disk.finishAll();
  disk.room = Number.POSITIVE_INFINITY;
  lines.flushSync();
  assert.match(disk.text, /^0\.+\n1\.+\n.*\n\{[^\n]*"msg":"log lines were lost"\}\n$/s);
});

for (const code of ['ENOSPC', 'EAGAIN', 'EPIPE']) {
  test(`the end gives up what fails with ${code}`, async () => {
    const { lines, disk } = open();
    Object.assign(disk, { room: 0, code });
    lines.write('one\n');
    lines.flush();
    disk.finishAll();
    lines.write('two\n');
    await lines.end();
    lines.flushSync();
    assert.equal(disk.text, '');
  });
}

test('the end gives up a write that does not end', async () => {
  const { lines, disk } = open();
  lines.write('one\n');
  lines.flush();
  await lines.end();
  assert.equal(disk.text, '');
});
