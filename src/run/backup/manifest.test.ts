import assert from 'node:assert/strict';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { readManifest } from './manifest.ts';

test('a folder that is missing is told apart from a file, and from one that cannot be looked into', async (context) => {
  const folder = await mkdtemp(join(tmpdir(), 'postroom-manifest-'));
  context.after(() => rm(folder, { recursive: true }));
  const [missing, loop] = [join(folder, 'missing'), join(folder, 'loop')];
  await symlink(loop, loop);
  await assert.rejects(readManifest(missing), { message: `there is no folder ${missing}` });
  await assert.rejects(readManifest(loop), /cannot be read: .*ELOOP/);
  const file = import.meta.filename;
  await assert.rejects(readManifest(file), {
    message: `${file} is no folder: expected one that "postroom backup" made`,
  });
});
