import assert from 'node:assert/strict';
import { mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { openSqlite } from './sqlite.ts';

const folder = mkdtempSync(join(tmpdir(), 'postroom-sqlite-'));
after(() => rmSync(folder, { recursive: true }));

test('snapshots go on after moments in which no file could be opened', async () => {
  const path = join(folder, 'descriptors.sqlite');
  const database = await openSqlite({ path });
  const look = () => database.snapshot((tx) => tx.selectFrom('counters').selectAll().execute());
  // As without a free descriptor: SQLite cannot open the file.
  renameSync(path, `${path}-away`);
  for (let times = 0; times < 20; times++) await assert.rejects(look(), /unable to open/);
  renameSync(`${path}-away`, path);
  await Promise.all(Array.from({ length: 20 }, look));
  await database.close();
});
