/** Readers of long messages: each holds its connection while it reads on, and releases it afterwards. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { startFakeServer } from '../../../../test/support/imap-client/fake-server.ts';
import { openImapStore } from '../../../../test/support/imap-client/open-store.ts';

/** A piece has 512 KiB. */
const PIECES = 6;

async function open(messages: number) {
  const server = await startFakeServer();
  for (let count = 0; count < messages; count++) {
    server.add(`Subject: long\r\n\r\n${'x'.repeat(PIECES * 512 * 1024)}`);
  }
  const { store, user } = await openImapStore(server.port);
  const sources = await Promise.all(
    server.messages.map(({ uid }) => store.fetchMessage(user, 'INBOX', uid)),
  );
  server.commands.splice(0);
  return { server, store, user, sources };
}

async function drain(source: AsyncIterable<Uint8Array>): Promise<number> {
  let size = 0;
  for await (const chunk of source) size += chunk.length;
  return size;
}

void suite('reading long messages', () => {
  void test('five at a time seldom alternate on a connection', async () => {
    const { server, sources } = await open(5);
    const sizes = await Promise.all(sources.map((message) => drain(message.open())));
    assert.deepEqual(
      sizes,
      server.messages.map(({ source }) => source.length),
    );
    const fetches = server.commands.filter(({ name }) => name === 'UID FETCH');
    assert.equal(fetches.length, 5 * PIECES);
    const last = new Map<number, string>();
    let changes = 0;
    for (const { connection, args } of fetches) {
      const [uid = ''] = args.split(' ');
      if (last.get(connection) !== uid) changes++;
      last.set(connection, uid);
    }
    // Five starts; a reader that takes too long lets another one in between.
    assert.ok(changes < fetches.length / 2, `${changes} changes in ${fetches.length} pieces`);
  });

  void test('a reader that pauses blocks no other', async () => {
    const { store, user, sources } = await open(4);
    const readers = sources.map((message) => message.open()[Symbol.asyncIterator]());
    // As many as the account may have connections, and one more.
    for (const reader of readers) {
      await reader.next();
      await reader.next();
    }
    await store.sync(user, { mailbox: 'INBOX' });
    for (const reader of readers) assert.equal((await reader.next()).done, false);
    for (const reader of readers) await reader.return?.();
  });

  void test('a mailbox that is created again during a read ends the message', async () => {
    const { server, sources } = await open(1);
    const [message] = sources;
    const reader = message?.open()[Symbol.asyncIterator]() ?? assert.fail();
    await reader.next();
    await reader.next();
    // The session continues with the old mailbox, as real sessions do.
    server.makeAnew();
    await assert.rejects(
      async () => {
        while (!(await reader.next()).done);
      },
      { code: 'message_not_found' },
    );
  });
});

const STAND_IN =
  'From: System Administrator <root@localhost>\nSubject: message unavailable\n\n' +
  'This message is no longer available on the server.\n';

void suite('a message that is removed while it is read', () => {
  /** Like Courier: where the file was removed, FETCH returns a text of the server's own. */
  async function openCourier() {
    const server = await startFakeServer();
    const { store, user } = await openImapStore(server.port);
    /** Before the nth FETCH from now on another session expunges the message. */
    const expungeBefore = (nth: number, uid: number) => {
      let fetches = 0;
      server.fault = ({ name, args }) => {
        if (name !== 'UID FETCH' || ++fetches !== nth) return undefined;
        server.expunge(uid);
        server.messages.push({ uid, flags: '', modseq: 1, source: STAND_IN });
        const rows = server.rowsOf(args);
        server.messages.pop();
        return { send: `${rows}TAG OK done\r\n` };
      };
    };
    return { server, store, user, expungeBefore };
  }

  void test('does not exist, whatever text the server sends in its place', async () => {
    const { server, store, user, expungeBefore } = await openCourier();
    const { uid } = server.add('Subject: hello\r\n\r\nhello\r\n');
    expungeBefore(1, uid);
    await assert.rejects(store.fetchMessage(user, 'INBOX', uid), { code: 'message_not_found' });
  });

  void test('breaks off where its end was removed', async () => {
    const { server, store, user, expungeBefore } = await openCourier();
    const { uid } = server.add(`Subject: long\r\n\r\n${'x'.repeat(3 * 512 * 1024)}`);
    const message = await store.fetchMessage(user, 'INBOX', uid);
    expungeBefore(2, uid);
    await assert.rejects(drain(message.open()), { code: 'message_not_found' });
  });

  void test('a message that has exactly this text is read', async () => {
    const { server, store, user } = await openCourier();
    const { uid } = server.add(STAND_IN.replaceAll('\n', '\r\n'));
    const message = await store.fetchMessage(user, 'INBOX', uid);
    assert.equal(await drain(message.open()), STAND_IN.replaceAll('\n', '\r\n').length);
  });
});
