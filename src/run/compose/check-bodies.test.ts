import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { openTestDatabase } from '../../../test/support/databases.ts';
import { Bodies, BodyFolder } from '../../mailboxes/bodies/bodies.ts';
import { checkBodies } from './check-bodies.ts';

test('a node waits until the first one has marked the new store, and logs nothing', async () => {
  const { database, directory } = await openTestDatabase('sqlite');
  const lines: string[] = [];
  const log = (line: unknown) => void lines.push(String(line));
  const open = () =>
    new Bodies({
      database,
      store: new BodyFolder(join(directory, 'bodies')),
      log: { info: log, warn: log, error: log },
    });
  const [first, second] = [open(), open()];
  const seen: (string | undefined)[] = [];
  const early: Pick<Bodies, 'checkStore'> = {
    async checkStore(...asked) {
      const mismatch = await second.checkStore(...asked);
      // The second one looks first, and only then the first one marks the store.
      if (seen.push(mismatch) === 1) await checkBodies(first, { isAlone: true }, true);
      return mismatch;
    },
  };
  await checkBodies(early, { isAlone: false }, true);
  assert.match(seen[0] ?? '', /have no store-id/);
  assert.equal(second.mismatch, undefined);
  assert.deepEqual(lines, []);
});
