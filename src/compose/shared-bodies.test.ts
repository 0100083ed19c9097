import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { checkBodies } from './shared-bodies.ts';

const self = { id: 'own', isAlone: true, now: Date.now, list: async () => [] };

test('a node starts where it cannot write its file into the folder of bodies', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'postroom-shared-'));
  t.after(() => rm(folder, { recursive: true }));
  // A file in place of the folder: as on a full disk, nothing can be written there.
  await writeFile(join(folder, 'nodes'), '');
  const lines: unknown[] = [];
  const options = {
    config: { bodies: { folder, spool: folder, bucket: undefined } },
    database: { engine: 'postgres' as const },
    bodies: { checkStore: async () => undefined },
    nodes: self,
    log: { warn: (...args: unknown[]) => void lines.push(args.at(-1)) },
    isNew: false,
  };
  const stop = await checkBodies(options);
  assert.match(String(lines), /^this node could not write its file into the folder of bodies/);
  await stop().catch(() => {});
  await rm(join(folder, 'nodes'));
  const stopAgain = await checkBodies(options);
  assert.deepEqual(await readdir(join(folder, 'nodes')), ['own']);
  assert.equal(lines.length, 1);
  await stopAgain();
  assert.deepEqual(await readdir(join(folder, 'nodes')), []);
});
