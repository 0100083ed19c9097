/** Changes of messages: what is sent for them, and their answers while another client changes the mailbox. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  type FakeServer,
  startFakeServer,
} from '../../../../test/support/imap-client/fake-server.ts';
import { openImapStore } from '../../../../test/support/imap-client/open-store.ts';

async function open(more = '') {
  const server = await startFakeServer();
  server.capabilities += more;
  for (const subject of ['one', 'two', 'three']) server.add(`Subject: ${subject}\r\n\r\n`);
  const { store, user } = await openImapStore(server.port);
  const { uidvalidity } = await store.sync(user, { mailbox: 'INBOX' });
  server.commands.length = 0;
  const sync = async () => (await store.sync(user, { mailbox: 'INBOX' })).token;
  const set = (...uids: number[]) => ({ mailbox: 'INBOX', uids, uidvalidity });
  return { server, store, user, sync, set };
}

const namesOf = ({ commands }: FakeServer) => commands.map(({ name }) => name);
const seen = { add: ['\\Seen'] };

void suite('a change of flags', () => {
  void test('takes one command after the mailbox is open', async () => {
    const { server, store, user, sync, set } = await open();
    const { state, updated, changes } = await store.setFlags(user, set(1, 3), seen);
    assert.deepEqual(namesOf(server), ['SELECT', 'UID STORE']);
    assert.deepEqual(updated, [
      { uid: 1, modseq: '5', flags: ['\\Seen'] },
      { uid: 3, modseq: '6', flags: ['\\Seen'] },
    ]);
    assert.equal(state.token, await sync());
    assert.deepEqual(
      changes.map(({ token }) => token),
      [state.token],
    );
  });

  void test('fetches only messages that have the flags already', async () => {
    const { server, store, user, sync, set } = await open();
    server.setFlags(2, '\\Seen');
    const { updated, changes } = await store.setFlags(user, set(1, 2, 99), seen);
    assert.deepEqual(namesOf(server), ['SELECT', 'UID STORE', 'UID FETCH']);
    assert.equal(server.commands.at(-1)?.args, '2,99 (UID FLAGS MODSEQ)');
    assert.deepEqual(
      updated.map(({ uid, modseq }) => [uid, modseq]),
      [
        [1, '6'],
        [2, '5'],
      ],
    );
    assert.equal(changes.length, 1);
    const again = await store.setFlags(user, set(1, 2, 99), seen);
    assert.deepEqual([again.updated, again.changes], [updated, []]);
    assert.equal(again.state.token, await sync());
  });

  void test('adds and removes, and a flag of both is removed', async () => {
    const { server, store, user, sync, set } = await open();
    server.setFlags(1, '\\Seen $Old');
    const change = { add: ['$New', '\\Seen'], remove: ['$Old', '\\Seen'] };
    const { state, updated } = await store.setFlags(user, set(1), change);
    assert.deepEqual(updated, [{ uid: 1, modseq: '7', flags: ['$New'] }]);
    assert.equal(state.token, await sync());
  });

  const races: Readonly<Record<string, (server: FakeServer) => void>> = {
    'a flag of the message': (server) => server.setFlags(1, '\\Flagged'),
    'the same flag': (server) => server.setFlags(1, '\\Seen'),
    'a flag of another message': (server) => server.setFlags(3, '\\Flagged'),
    'a message that came': (server) => server.add('Subject: late\r\n\r\n'),
    'a message that was removed': (server) => server.expunge(3),
    'the message itself, removed': (server) => server.expunge(1),
    'one message that came and one that was removed': (server) => {
      server.add('Subject: late\r\n\r\n');
      server.expunge(2);
    },
  };
  for (const [name, change] of Object.entries(races)) {
    void test(`tells the state of the mailbox after a change by others: ${name}`, async () => {
      const { server, store, user, sync, set } = await open();
      server.fault = ({ name: command }) => {
        if (command !== 'UID STORE') return undefined;
        server.fault = () => undefined;
        change(server);
        return undefined;
      };
      const { state, updated } = await store.setFlags(user, set(1), seen);
      assert.equal(state.token, await sync());
      const now = server.messages.filter(({ uid }) => uid === 1);
      assert.deepEqual(
        updated.map(({ uid, modseq, flags }) => ({ uid, modseq, flags: flags.join(' ') })),
        now.map(({ uid, modseq, flags }) => ({
          uid,
          modseq: `${modseq}`,
          flags: flags.split(' ').sort().join(' '),
        })),
      );
    });
  }

  void test('is refused in a mailbox that was created again', async () => {
    const { server, store, user, set } = await open();
    server.makeAnew();
    server.add('Subject: new\r\n\r\n');
    await assert.rejects(store.setFlags(user, set(1), seen), { code: 'uidvalidity_changed' });
    assert.equal(server.messages[0]?.flags, '');
  });
});

void suite('a move', () => {
  /** Moves message 1 as a server with MOVE does, after what another client does. */
  function moveOf(server: FakeServer, others: () => string, code: () => string): void {
    server.fault = ({ name }) => {
      if (name !== 'UID MOVE') return undefined;
      const news = others();
      server.expunge(1);
      const moved = '* OK [COPYUID 8 1 20] moved\r\n* VANISHED 1\r\n';
      return { send: `${news}${moved}TAG OK ${code()}done\r\n` };
    };
  }

  async function moved(others: (server: FakeServer) => string = () => '', told = true) {
    const opened = await open(' MOVE');
    const { server, store, user, set } = opened;
    const code = () => (told ? `[HIGHESTMODSEQ ${server.mailbox.modseq}] ` : '');
    moveOf(server, () => others(server), code);
    const { uids, changes } = await store.move(user, set(1, 99), 'Archive');
    assert.deepEqual([...uids], [[1, 20]]);
    const names = namesOf(server);
    // The other mailbox of this server has the same messages.
    assert.deepEqual(
      changes.map(({ mailbox }) => mailbox),
      ['INBOX', 'Archive'],
    );
    assert.equal(changes[0]?.token, await opened.sync());
    return names;
  }
  const quick = ['EXAMINE', 'SELECT', 'UID MOVE', 'EXAMINE'];

  void test('takes one command between looks at the mailbox that the messages go to', async () => {
    assert.deepEqual(await moved(), quick);
  });

  void test('looks again where the server does not tell the state', async () => {
    assert.deepEqual(await moved(undefined, false), [...quick, 'EXAMINE']);
  });

  void test('looks again after a change by others, but not after a change of flags', async () => {
    const flagged = await moved((server) => {
      server.setFlags(2, '\\Seen');
      return server.rowsOf('2 (FLAGS)');
    });
    assert.deepEqual(flagged, quick);
    const came = await moved((server) => {
      server.add('Subject: late\r\n\r\n');
      return '* 4 EXISTS\r\n';
    });
    assert.deepEqual(came, [...quick, 'EXAMINE']);
    const gone = await moved((server) => {
      server.expunge(3);
      server.add('Subject: late\r\n\r\n');
      return '* VANISHED 3\r\n* 3 EXISTS\r\n';
    });
    assert.deepEqual(gone, [...quick, 'EXAMINE']);
  });

  void test('is done for the messages that exist where the server refuses the others', async () => {
    const { server, store, user, set } = await open(' MOVE');
    server.fault = ({ name, args }) => {
      if (name !== 'UID MOVE') return undefined;
      const ok = '* OK [COPYUID 8 1 20] moved\r\nTAG OK done\r\n';
      return { send: args.startsWith('1 ') ? ok : 'TAG NO there is no such message\r\n' };
    };
    const { uids } = await store.move(user, set(1, 99), 'Archive');
    assert.deepEqual([...uids], [[1, 20]]);
    const none = await store.move(user, set(98, 99), 'Archive');
    assert.deepEqual([none.uids.size, none.changes], [0, []]);
    server.fault = ({ name }) =>
      name === 'UID MOVE' ? { send: 'TAG NO [NOPERM] not here\r\n' } : undefined;
    await assert.rejects(store.move(user, set(1), 'Archive'), { code: 'mail_server_refused' });
  });
});
