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
