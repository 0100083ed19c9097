import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore } from '../../../test/support/mail.ts';
import type { Hit } from '../search/search.ts';
import { EmbeddedMailstore } from './mailstore.ts';

onEachEngine('searches at once', (engine) => {
  test('leave slots for others, however many an account or a user makes', async () => {
    const { database, bodies, makeUser } = await openTestMailstore(engine);
    const asked: number[] = [];
    const stalled = Promise.withResolvers<Hit[]>();
    const others: number[] = [];
    const search = {
      isBehind: () => Promise.resolve(false),
      find: ({ accountId }: { readonly accountId: number }): Promise<Hit[]> => {
        asked.push(accountId);
        return others.includes(accountId) ? Promise.resolve([]) : stalled.promise;
      },
    };
    const mailstore = new EmbeddedMailstore({ database, bodies, search, idSecret: 'secret' });
    const [one, two, three, other] = await Promise.all([1, 2, 3, 4].map(() => makeUser()));
    assert.ok(one && two && three && other);
    others.push(other.accountId);
    for (const user of [one, two, three, other]) await mailstore.listMailboxes(user);
    const find = (user: typeof one, userId: string) =>
      mailstore.search({ ...user, userId }, { texts: { text: 'invoice' }, limit: 10 });
    const flood = [one, two, three].flatMap((user) =>
      Array.from({ length: 25 }, () => find(user, 'user-1')),
    );
    const ends = Promise.allSettled(flood);
    while (asked.length < 4) await turn();
    assert.deepEqual((await find(other, 'user-2')).matches, []);
    assert.equal(asked.length, 5);
    stalled.resolve([]);
    const codes = (await ends).map((end) =>
      end.status === 'fulfilled' ? 'found' : end.reason.code,
    );
    assert.equal(codes.filter((code) => code === 'found').length, 60);
    assert.equal(codes.filter((code) => code === 'rate_limited').length, 15);
  });
});
