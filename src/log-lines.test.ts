import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LogLines } from './log-lines.ts';

function open() {
  const written: string[] = [];
  let synced = 0;
  const lines = new LogLines({
    write: (text) => written.push(text),
    flushSync: () => {
      synced++;
    },
  });
  return { lines, written, synced: () => synced };
}

test('lines are written together, in their order, each once', () => {
  const { lines, written, synced } = open();
  lines.write('one\n');
  lines.write('two\n');
  assert.deepEqual(written, []);
  lines.flush();
  lines.flush();
  assert.deepEqual(written, ['one\ntwo\n']);
  lines.write('three\n');
  lines.flushSync();
  assert.deepEqual(written, ['one\ntwo\n', 'three\n']);
  assert.equal(synced(), 1);
});

test('many lines do not wait', () => {
  const { lines, written } = open();
  for (let n = 0; n < 1_000; n++) lines.write(`${'x'.repeat(99)}\n`);
  assert.ok(written.length >= 6);
  lines.flush();
  assert.equal(written.join('').length, 100_000);
});

test('a line alone does not wait for others', (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const { lines, written } = open();
  lines.write('one\n');
  context.mock.timers.tick(100);
  assert.deepEqual(written, ['one\n']);
  lines.write('two\n');
  context.mock.timers.tick(100);
  assert.deepEqual(written, ['one\n', 'two\n']);
});
