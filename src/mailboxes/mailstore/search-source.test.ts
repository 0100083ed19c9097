import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KyselyPlugin } from 'kysely';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore, sampleMessage } from '../../../test/support/mail.ts';
import { forgetInSearch } from './search-source.ts';

onEachEngine('what the index of search forgets', (engine) => {
  test('is looked up with one row for a body, however many copies the account has', async () => {
    const { database, mailstore, makeUser, stage, append } = await openTestMailstore(engine);
    const user = await makeUser();
    for (const name of ['a', 'b']) {
      await append(await stage(sampleMessage(name)), [{ user, mailbox: 'INBOX' }]);
    }
    for (let count = 2; count < 64; count *= 2) {
      const uids = Array.from({ length: count }, (_, at) => at + 1);
      await mailstore.copy(user, { mailbox: 'INBOX', uids }, 'INBOX');
    }
    const bodies = await database.read.selectFrom('bodies').select('id').execute();
    const ids = bodies.map(({ id }) => id);
    let rows = 0;
    const counting: KyselyPlugin = {
      transformQuery: ({ node }) => node,
      transformResult: async ({ result }) => {
        rows += result.rows.length;
        return result;
      },
    };
    await database.write((tx) => forgetInSearch(tx.withPlugin(counting), user.accountId, ids));
    assert.equal(rows, ids.length);
  });
});
