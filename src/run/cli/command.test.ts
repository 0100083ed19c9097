import assert from 'node:assert/strict';
import { test } from 'node:test';
import { table } from './command.ts';

test('a table has as many rows as there are, and columns as wide as their widest cell', () => {
  const rows = Array.from({ length: 200_000 }, (_, at) => [at, null]);
  const lines = table(['id', 'name'], rows).split('\n');
  assert.deepEqual([lines.length, lines[0], lines.at(-1)], [200_001, 'id      name', '199999  -']);
});

test('a terminal that is narrower gets the widest column in several lines, and none of it is lost', () => {
  const rows = [
    [1, 'a'.repeat(30), 'end'],
    [2, 'b', null],
  ];
  const all = [
    `id  text${' '.repeat(28)}last`,
    `1   ${'a'.repeat(30)}  end`,
    `2   b${' '.repeat(31)}-`,
  ];
  assert.deepEqual(table(['id', 'text', 'last'], rows, 40).split('\n'), all);
  assert.deepEqual(table(['id', 'text', 'last'], rows, 30).split('\n'), [
    `id  text${' '.repeat(18)}last`,
    `1   ${'a'.repeat(20)}  end`,
    `    ${'a'.repeat(10)}`,
    `2   b${' '.repeat(21)}-`,
  ]);
});

test('wide characters take two cells of a terminal, and none is cut in two', () => {
  const rows = [
    ['日本語'.repeat(4), 'a'],
    ['👍'.repeat(12), 'b'],
    ['e\u0301'.repeat(20), 'c'],
  ];
  assert.deepEqual(table(['text', 'last'], rows, 23).split('\n'), [
    `text${' '.repeat(15)}last`,
    `${'日本語'.repeat(2)}日本   a`,
    '語日本語',
    `${'👍'.repeat(8)}${' '.repeat(3)}b`,
    '👍'.repeat(4),
    `${'e\u0301'.repeat(17)}  c`,
    'e\u0301'.repeat(3),
  ]);
});
