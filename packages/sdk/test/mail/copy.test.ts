/** What one copy sees of what another one wrote into the same store. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Copy, StaleEpochError } from '../../src/mail/copy.ts';
import { type AccountRow, type MailboxRow, put } from '../../src/mail/rows.ts';
import { memoryStore } from '../../src/mail.ts';

async function openTwo() {
  const store = memoryStore();
  const options = { store, origin: 'https://mail.test', address: 'a@b.test', changed() {} };
  const copies = [new Copy(options), new Copy(options)] as const;
  for (const copy of copies) await copy.open();
  const { account } = copies[0];
  /** As a leader says something in the account's row. */
  const say = (said: Partial<AccountRow>) =>
    store.update('accounts', [account], (row) => [
      put('accounts', { ...(row as AccountRow), ...said }),
    ]);
  const write = (copy: Copy, epoch: number, ...names: string[]) =>
    copy.write(epoch, 'relaxed', () =>
      names.map((name) => put('mailboxes', { account, box: name.length, name } as MailboxRow)),
    );
  return { store, copies, say, write };
}

const namesIn = ({ mailboxes }: Copy) => mailboxes.map(({ name }) => name);

test('each write of a leader is seen with the next look, whoever led before, and no write of one that leads no more is made', async () => {
  const { copies, say, write } = await openTwo();
  const [before, next] = copies;
  for (const name of ['a', 'bb', 'ccc']) await write(before, 1, name);
  await say({ epoch: 2 });
  await next.reload();
  await write(next, 2, 'four');
  await assert.rejects(write(before, 1, 'fifth'), StaleEpochError);
  await before.reload();
  assert.deepEqual(namesIn(before), ['a', 'bb', 'ccc', 'four']);
});

test('a look where nothing was written reads the row of the account alone, also while changes wait', async (t) => {
  const { store, copies, write } = await openTwo();
  const [leader, other] = copies;
  await write(leader, 1, 'a');
  await leader.add(() => [{ kind: 'mailbox', action: 'create', mailbox: 'Work', ids: [] }]);
  await other.reload();
  const { mock } = t.mock.method(store, 'range');
  for (const copy of copies) assert.deepEqual(await copy.consistent(() => namesIn(copy)), ['a']);
  assert.equal(mock.callCount(), 0);
});

test('what is shown while changes wait is of one time, also where ten pages are written meanwhile', async () => {
  const { copies, write } = await openTwo();
  const [leader, other] = copies;
  await leader.add(() => [{ kind: 'mailbox', action: 'create', mailbox: 'Work', ids: [] }]);
  await other.reload();
  let length = 0;
  for (const copy of copies) {
    let left = 10;
    const seen = await copy.consistent(async () => {
      const names = namesIn(copy);
      if (--left >= 0) await write(leader, 1, 'x'.repeat(++length));
      return names;
    });
    assert.deepEqual(seen, namesIn(leader));
  }
});

test('what a look could not read, the next one reads', async (t) => {
  const { store, copies } = await openTwo();
  const [one, other] = copies;
  await other.reload();
  await one.add(() => [{ kind: 'mailbox', action: 'create', mailbox: 'Work', ids: [] }]);
  t.mock.method(store, 'range').mock.mockImplementationOnce(async () => {
    throw new Error('the store is busy');
  });
  await assert.rejects(other.reload());
  await other.reload();
  assert.equal(other.operations.length, 1);
});

test('a change that is stored has not failed, whatever can be read after it', async (t) => {
  const { store, copies } = await openTwo();
  const [one, other] = copies;
  for (const copy of copies) await copy.reload();
  const create = (mailbox: string) => [
    { kind: 'mailbox', action: 'create', mailbox, ids: [] } as const,
  ];
  await one.add(() => create('Work'));
  t.mock.method(store, 'range').mock.mockImplementationOnce(async () => {
    throw new Error('the store is busy');
  });
  await other.add(() => create('Home'));
  await other.reload();
  assert.deepEqual(
    other.operations.map(({ mailbox }) => mailbox),
    ['Work', 'Home'],
  );
});
