/** What becomes of mail when `DATABASE_URL` names a database without it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bodyFiles, folderWithMail, logged, readyz, send } from '../support/data-folder.ts';
import { openTestDatabase } from '../support/databases.ts';
import { startHere } from '../support/process.ts';

test('a start on an empty PostgreSQL beside a folder with mail accepts none and loses none', async () => {
  const { location } = await openTestDatabase('postgres');
  const env = await folderWithMail('empty-postgres');
  const files = await bodyFiles(env);
  const wrong = await startHere({ ...env, DATABASE_URL: location });
  assert.equal(await readyz(env), 503);
  assert.match(await send(env), /^451 4\.3\.0 /);
  await wrong.stop();
  assert.equal(logged(wrong.output()).length, 1);
  assert.deepEqual(await bodyFiles(env), files);
});
