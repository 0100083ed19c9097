import assert from 'node:assert/strict';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { syncFolder } from '../files/files.ts';
import { ConfigError, ensureDataDir } from './config.ts';

const parent = mkdtempSync(join(tmpdir(), 'postroom-data-'));
after(() => rmSync(parent, { recursive: true }));

async function refusalOf(path: string): Promise<readonly string[]> {
  try {
    await ensureDataDir(path);
    return [];
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    return error.lines;
  }
}

test('a missing folder is made with its parents, for its owner alone', async () => {
  const path = join(parent, 'one/two/data');
  const umask = process.umask(0);
  try {
    await ensureDataDir(path);
  } finally {
    process.umask(umask);
  }
  for (const folder of [path, join(parent, 'one/two'), join(parent, 'one')]) {
    assert.equal(statSync(folder).mode & 0o777, 0o700, folder);
  }
  assert.deepEqual(readdirSync(path), []);
});

test('a folder that is there keeps its mode and what it holds', async () => {
  const path = mkdtempSync(join(parent, 'there-'));
  mkdirSync(join(path, 'data'), { mode: 0o750 });
  writeFileSync(join(path, 'data/kept'), '');
  await ensureDataDir(join(path, 'data'));
  assert.equal(statSync(join(path, 'data')).mode & 0o777, 0o750);
  assert.deepEqual(readdirSync(join(path, 'data')), ['kept']);
});

test('several starts may make the same folder at once', async () => {
  const path = join(parent, 'many/data');
  await Promise.all(Array.from({ length: 20 }, () => ensureDataDir(path)));
  assert.deepEqual(readdirSync(path), []);
});

describe('a place that is not a writable folder', () => {
  const file = join(parent, 'file');
  writeFileSync(file, '');
  const dangling = join(parent, 'dangling');
  symlinkSync(join(parent, 'gone/away'), dangling);
  const cases = [
    ['a file', file, 'ENOTDIR: not a directory'],
    ['below a file', join(file, 'data'), 'ENOTDIR: not a directory'],
    ['a link to nowhere', dangling, 'ENOENT: no such file or directory'],
    // Where root may not write either.
    ['in /proc', '/proc/postroom/data', 'ENOENT: no such file or directory'],
    ['/proc itself', '/proc', 'ENOENT: no such file or directory'],
    ['a name that is too long', join(parent, 'x'.repeat(256)), 'ENAMETOOLONG: name too long'],
  ] as const;
  for (const [what, path, reason] of cases) {
    test(what, { skip: path.startsWith('/proc') && process.platform !== 'linux' }, async () => {
      const shown = JSON.stringify(path.length > 200 ? `${path.slice(0, 200)}...` : path);
      assert.deepEqual(await refusalOf(path), [
        `DATA_DIR: expected a writable folder, got ${shown} (${reason})`,
      ]);
    });
  }
});

test('a file system without fsync for folders does not stop the start', async () => {
  await syncFolder(process.platform === 'linux' ? '/proc' : parent);
});
