import assert from 'node:assert/strict';
import { test } from 'node:test';
import { table } from './command.ts';

test('a table has as many rows as there are, and columns as wide as their widest cell', () => {
  const rows = Array.from({ length: 200_000 }, (_, at) => [at, null]);
  const lines = table(['id', 'name'], rows).split('\n');
  assert.deepEqual([lines.length, lines[0], lines.at(-1)], [200_001, 'id      name', '199999  -']);
});
