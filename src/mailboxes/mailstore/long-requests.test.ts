import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore, sampleMessage } from '../../../test/support/mail.ts';
import type { Hit } from '../search/search.ts';
import { EmbeddedMailstore } from './mailstore.ts';

/** A store whose searches do not end, so that two of them hold what long requests an account may have. */
async function openStalled(engine: Parameters<typeof openTestMailstore>[0]) {
  const store = await openTestMailstore(engine);
  const { database, bodies } = store;
  const stalled = Promise.withResolvers<Hit[]>();
  const search = { isBehind: () => Promise.resolve(false), find: () => stalled.promise };
  const mailstore = new EmbeddedMailstore({ database, bodies, search, idSecret: 'secret' });
  const user = await store.makeUser();
  const deliver = async (mailbox: string) =>
    store.append(await store.stage(sampleMessage('one')), [{ user, mailbox }]);
  const takeSlots = () => {
    const searches = [1, 2].map(() => mailstore.search(user, { texts: { text: 'x' }, limit: 1 }));
    return () => {
      stalled.resolve([]);
      return Promise.all(searches);
    };
  };
  return { mailstore, user, deliver, takeSlots };
}

onEachEngine('long requests', (engine) => {
  test('a copy of many messages leaves others their turn, and keeps the order of these', async () => {
    let turns = 0;
    let begun = 0;
    const store = await openTestMailstore(engine, () => {
      // It is asked for the time before the first one is written.
      begun = turns;
      return 1_000;
    });
    const { mailstore } = store;
    const user = await store.makeUser();
    await store.append(await store.stage(sampleMessage('one')), [{ user, mailbox: 'INBOX' }]);
    const all = [1];
    while (all.length < 800) {
      const copied = await mailstore.copy(user, { mailbox: 'INBOX', uids: all }, 'INBOX');
      all.push(...copied.uids.values());
    }
    let isOver = false;
    let ended = 0;
    const counting = (async () => {
      for (; !isOver; turns++) await turn();
    })();
    const uids = [7, ...all.toReversed(), 7];
    const { uids: moved } = await mailstore.copy(
      user,
      { mailbox: 'INBOX', uids },
      'Trash',
      async () => {
        ended = turns;
      },
    );
    isOver = true;
    await counting;
    assert.deepEqual([...moved.keys()], all);
    assert.deepEqual([...moved.values()], all);
    assert.ok(ended - begun >= all.length / 100, `${ended - begun} turns`);
  });

  test('of searches leave slots for others, however many an account or a user makes', async () => {
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
      Array.from({ length: 55 }, () => find(user, 'user-1')),
    );
    const ends = Promise.allSettled(flood);
    while (asked.length < 4) await turn();
    assert.deepEqual((await find(other, 'user-2')).matches, []);
    assert.equal(asked.length, 5);
    stalled.resolve([]);
    const codes = (await ends).map((end) =>
      end.status === 'fulfilled' ? 'found' : end.reason.code,
    );
    assert.equal(codes.filter((code) => code === 'found').length, 150);
    assert.equal(codes.filter((code) => code === 'rate_limited').length, 15);
  });

  test('are syncs and changes of many messages too, and short ones do not wait for them', async () => {
    const { mailstore, user, deliver, takeSlots } = await openStalled(engine);
    const sync = (request: object) => mailstore.sync(user, { mailbox: 'INBOX', ...request });
    const empty = await sync({});
    const uids = Array.from({ length: 250 }, (_, index) => index + 1);
    for (const _ of uids) await deliver('INBOX');
    const giveBack = takeSlots();
    const ended: string[] = [];
    const note = async <T>(name: string, work: Promise<T>) => {
      const result = await work;
      ended.push(name);
      return result;
    };
    const { uidvalidity } = empty;
    // Thought to be short, since it has a token, until it has more than one piece.
    const large = note('sync', sync({ uidvalidity, token: empty.token, fields: ['envelope'] }));
    const first = note('first sync', sync({ fields: ['envelope'] }));
    const changed = note(
      'change',
      mailstore.setFlags(user, { mailbox: 'INBOX', uids }, { add: ['\\Seen'] }),
    );
    const one = await mailstore.setFlags(
      user,
      { mailbox: 'INBOX', uids: [7] },
      { add: ['\\Flagged'] },
    );
    assert.equal(one.updated.length, 1);
    const short = await sync({ uidvalidity, token: empty.token, fields: ['envelope'], limit: 100 });
    assert.equal(short.changes.added.length, 100);
    assert.deepEqual(ended, []);
    const over = giveBack();
    for (const result of [await large, await first]) {
      assert.deepEqual(
        result.changes.added.map(({ uid }) => uid),
        uids,
      );
    }
    assert.equal((await changed).updated.length, 250);
    await over;
  });

  test('whose client has left are not begun, and are no reason to refuse another', async () => {
    const { mailstore, user, takeSlots } = await openStalled(engine);
    await mailstore.listMailboxes(user);
    const giveBack = takeSlots();
    let hasLeft = false;
    const find = (who: typeof user) => mailstore.search(who, { texts: { text: 'x' }, limit: 1 });
    const gone = { message: 'the client left before its turn' };
    const waiting = assert.rejects(find({ ...user, hasLeft: () => hasLeft }), gone);
    const behind = find(user);
    hasLeft = true;
    await giveBack();
    await waiting;
    assert.deepEqual((await behind).matches, []);
  });

  test('are not what a first sync of a small mailbox waits for, nor a large one that IMAP knows', async () => {
    const { mailstore, user, deliver, takeSlots } = await openStalled(engine);
    await deliver('INBOX');
    await mailstore.createMailbox(user, 'Large');
    await deliver('Large');
    for (let uids = [1]; uids.length <= 5_000; ) {
      const { state } = await mailstore.copy(user, { mailbox: 'Large', uids }, 'Large');
      assert.equal(state.mailbox, 'Large');
      uids = Array.from({ length: 2 * uids.length }, (_, at) => at + 1);
    }
    const { mailbox, index } = await mailstore.imap.select(user, 'Large');
    await deliver('Large');
    const giveBack = takeSlots();
    const { changes } = await mailstore.sync(user, { mailbox: 'INBOX' });
    assert.equal(changes.added.length, 1);
    const now = await mailstore.imap.index(user, mailbox);
    assert.equal(now.uids.length, index.uids.length + 1);
    await giveBack();
  });
});
