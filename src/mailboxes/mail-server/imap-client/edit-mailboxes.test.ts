/** Mailbox names that apps choose, as servers with other separators and prefixes write them. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { startFakeServer } from '../../../../test/support/imap-client/fake-server.ts';
import { openImapStore } from '../../../../test/support/imap-client/open-store.ts';
import { toServerName } from './edit-mailboxes.ts';

void suite('names of new mailboxes', () => {
  void test('get the separator and the prefix of the server', () => {
    const courier = { prefix: 'INBOX.', separator: '.' };
    const plain = { prefix: '', separator: '/' };
    for (const [name, namespace, expected] of [
      ['Work', courier, 'INBOX.Work'],
      ['Work/Größe', courier, 'INBOX.Work.Größe'],
      ['INBOX.Work', courier, 'INBOX.Work'],
      ['INBOX/Work', courier, 'INBOX.Work'],
      ['INBOX', courier, 'INBOX'],
      ['Work/Größe', plain, 'Work/Größe'],
      ['a.b', plain, 'a.b'],
    ] as const) {
      assert.equal(toServerName(name, namespace), expected);
    }
  });

  void test('come from NAMESPACE, else from LIST', async () => {
    for (const [capability, expected] of [
      ['', 'Work.Sub'],
      [' NAMESPACE', 'INBOX.Work.Sub'],
    ] as const) {
      const server = await startFakeServer();
      server.capabilities += capability;
      server.fault = ({ name }) => {
        if (name === 'LIST') return { send: '* LIST (\\Noselect) "." ""\r\nTAG OK done\r\n' };
        return name === 'NAMESPACE'
          ? { send: '* NAMESPACE (("INBOX." ".")("#mh/" "/")) NIL NIL\r\nTAG OK done\r\n' }
          : undefined;
      };
      const { store, user } = await openImapStore(server.port);
      const { state } = await store.createMailbox(user, 'Work/Sub');
      assert.equal(state.mailbox, expected);
      const created = server.commands.filter(({ name }) => name === 'CREATE');
      assert.deepEqual(
        created.map(({ args }) => args),
        [`"${expected}"`],
      );
    }
  });

  void test('are refused below the mailbox that is renamed', async () => {
    const server = await startFakeServer();
    const { store, user } = await openImapStore(server.port);
    await assert.rejects(store.renameMailbox(user, 'Top', 'Top/Below'), {
      code: 'invalid_request',
    });
    await assert.rejects(store.renameMailbox(user, 'inbox', 'inbox/Below'), {
      code: 'mailbox_protected',
    });
    assert.ok(!server.commands.some(({ name }) => name === 'RENAME'));
  });
});
