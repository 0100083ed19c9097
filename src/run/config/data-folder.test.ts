import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { syncFolder } from '../../platform/files/files.ts';
import { ConfigError, ensureDataDir, watchPaths } from './config.ts';

const isLinux = process.platform === 'linux';
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

test('existing files are kept, and closed to other users', async () => {
  const path = mkdtempSync(join(parent, 'there-'));
  const modes = {
    'postroom.sqlite': 0o644,
    'postroom.sqlite-wal': 0o664,
    'secrets.json': 0o604,
    bodies: 0o755,
    tls: 0o750,
    'tls/key.pem': 0o640,
  };
  for (const [name, mode] of Object.entries(modes)) {
    if (mode & 0o100) mkdirSync(join(path, name));
    else writeFileSync(join(path, name), 'kept');
    chmodSync(join(path, name), mode);
  }
  chmodSync(path, 0o755);
  assert.deepEqual(await ensureDataDir(path), []);
  assert.equal(statSync(path).mode & 0o777, 0o700);
  for (const [name, mode] of Object.entries(modes)) {
    assert.equal(statSync(join(path, name)).mode & 0o777, mode & 0o700, name);
  }
  assert.equal(readFileSync(join(path, 'secrets.json'), 'utf8'), 'kept');
});

test('a file that stays open to others is reported', { skip: !isLinux }, async () => {
  const path = mkdtempSync(join(parent, 'immutable-'));
  // Nobody can change the mode of files in /proc.
  symlinkSync('/proc/self/status', join(path, 'secrets.json'));
  assert.deepEqual(await ensureDataDir(path), [join(path, 'secrets.json')]);
});

describe('a place that is watched', () => {
  const changes: Record<string, (path: string) => void> = {
    renamed: (path) => renameSync(path, `${path}-elsewhere`),
    removed: (path) => rmSync(path, { recursive: true }),
    'replaced by another': (path) => {
      renameSync(path, `${path}-elsewhere`);
      mkdirSync(path);
    },
  };
  for (const [what, change] of Object.entries(changes)) {
    test(`is noticed when it is ${what}`, async () => {
      const path = mkdtempSync(join(parent, 'watched-'));
      mkdirSync(join(path, 'data'));
      const { promise, resolve } = Promise.withResolvers<string>();
      await watchPaths([path, join(path, 'data'), join(path, 'never there')], resolve);
      // Writing to it is no change.
      writeFileSync(join(path, 'data', 'file'), '');
      change(join(path, 'data'));
      assert.equal(await promise, join(path, 'data'));
    });
  }
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
    test(what, { skip: path.startsWith('/proc') && !isLinux }, async () => {
      const shown = JSON.stringify(path.length > 200 ? `${path.slice(0, 200)}...` : path);
      assert.deepEqual(await refusalOf(path), [
        `DATA_DIR: expected a writable folder, got ${shown} (${reason})`,
      ]);
    });
  }
});

test('a file system without fsync for folders does not prevent the start', async () => {
  await syncFolder(isLinux ? '/proc' : parent);
});
