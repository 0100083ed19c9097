import assert from 'node:assert/strict';
import { test } from 'node:test';
import { firstOnDisks } from './files.ts';

test('of folders the first on each disk is found, without those that are not there', {
  skip: process.platform !== 'linux',
}, async () => {
  const { dirname: here } = import.meta;
  const folders = [here, `${here}/..`, '/proc', `${here}/nothing`, '/proc/self'];
  assert.deepEqual(await firstOnDisks(folders), [here, '/proc']);
});
