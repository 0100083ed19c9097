/** What one copy sees of what another one wrote into the same store. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Copy } from '../../src/mail/copy.ts';
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

test('who led before, and wrote what the account tells nothing of, sees the first write of the next leader', async () => {
  const { copies, say, write } = await openTwo();
  const [before, next] = copies;
  for (const name of ['a', 'bb', 'ccc']) await write(before, 1, name);
  await say({ epoch: 2 });
  for (const copy of copies) await copy.reload();
  await write(next, 2, 'four');
  await say({ revision: next.revision });
  await before.reload();
  assert.deepEqual(namesIn(before), ['a', 'bb', 'ccc', 'four']);
});

test('where a leader does not count what it wrote, as one of before does not, every look reads it', async () => {
  const { copies, write } = await openTwo();
  const [leader, other] = copies;
  await other.reload();
  await write(leader, 1, 'a');
  await other.reload();
  assert.deepEqual(namesIn(other), ['a']);
});

test('what a look could not read, the next one reads', async (t) => {
  const { store, copies, say } = await openTwo();
  const [one, other] = copies;
  await say({ revision: 0 });
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
  const { store, copies, say } = await openTwo();
  const [one, other] = copies;
  await say({ revision: 0 });
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
