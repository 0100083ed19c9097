import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { openTestDatabase } from '../../../test/support/databases.ts';

test('a page of suppressed addresses reads no more of a long list, and sorts nothing', async () => {
  const { database } = await openTestDatabase('sqlite');
  const page = database.read
    .selectFrom('suppressions')
    .selectAll()
    .where('domain_id', '=', 1)
    .where('id', '>', 7)
    .orderBy('id')
    .limit(50);
  const plan = JSON.stringify(await page.explain(undefined, sql`query plan`));
  assert.match(plan, /suppressions_in_order/);
  assert.doesNotMatch(plan, /TEMP B-TREE/);
});
