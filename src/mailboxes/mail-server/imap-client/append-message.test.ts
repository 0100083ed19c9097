/** Mail that is added by IMAP: what is written, and what happens after a NO of the server. */

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { FakeServer } from '../../../../test/support/imap-client/fake-server.ts';
import { openFakeStore } from '../../../../test/support/imap-client/open-store.ts';
import { imapDateTime } from '../../../protocols/imap-syntax/imap-syntax.ts';

const source = 'Subject: one\r\n\r\nText with {3}\r\n';
const message = {
  open: async function* () {
    yield Buffer.from(source.slice(0, 5));
    yield Buffer.from(source.slice(5));
  },
  size: source.length,
  flags: ['\\Seen'],
  internalDate: Date.UTC(2026, 10, 2, 3, 4, 5),
  signal: new AbortController().signal,
};

const givenUp = new Error('given up');

function appendsOf({ commands }: FakeServer): number {
  return commands.filter(({ name }) => name === 'APPEND').length;
}

function refuse(server: FakeServer, code: string): void {
  server.fault = ({ name }) => (name === 'APPEND' ? { send: `TAG NO ${code}no\r\n` } : undefined);
}

void suite('a message added by IMAP', () => {
  void test('has its flags and its date, and every byte', async () => {
    const { server, store, user } = await openFakeStore();
    await store.appendByImap(user, 'inbox', message);
    assert.deepEqual(
      server.commands.at(-1)?.args,
      `"INBOX" (\\Seen) " 2-Nov-2026 03:04:05 +0000" {${source.length}}\r\n${source}`,
    );
    assert.equal(imapDateTime(0), ' 1-Jan-1970 00:00:00 +0000');
  });

  void test('is refused for good only where the server says that it is final', async () => {
    const { server, store, user } = await openFakeStore();
    const outcomes = [
      ['[OVERQUOTA] ', 'mailbox_full'],
      ['[CANNOT] ', 'mailbox_refused'],
      ['[UNAVAILABLE] ', 'unavailable'],
      ['', 'unavailable'],
    ] as const;
    for (const [code, refusal] of outcomes) {
      refuse(server, code);
      await assert.rejects(store.appendByImap(user, 'INBOX', message), { code: refusal }, code);
    }
    server.fault = () => undefined;
    await store.appendByImap(user, 'INBOX', message);
  });

  void test('is not added again automatically where the connection broke', async () => {
    const { server, store, user } = await openFakeStore();
    server.fault = ({ name }) => (name === 'APPEND' ? { after: 'drop' } : undefined);
    await assert.rejects(store.appendByImap(user, 'INBOX', message), { code: 'unavailable' });
    assert.equal(appendsOf(server), 1);
  });

  void test('does not wait for a stalled one of another account', async () => {
    const { server, store, user } = await openFakeStore();
    let held = 0;
    server.fault = ({ name, user: login }) => {
      if (name !== 'APPEND' || !login.startsWith('stalled@')) return undefined;
      held++;
      return {};
    };
    const stalled = { accountId: 1_000_000, address: 'stalled@acme.test' };
    const ends = [1, 2, 3].map(() => store.appendByImap(stalled, 'INBOX', message));
    const ended = Promise.allSettled(ends);
    while (held === 0) await new Promise((resolve) => setImmediate(resolve));
    await store.appendByImap(user, 'INBOX', message);
    assert.equal(held, 1);
    store.close();
    for (const end of await ended) assert.equal(end.status, 'rejected');
  });

  void test('is not added after the end of its attempt', async () => {
    const { server, store, user } = await openFakeStore();
    const giving = new AbortController();
    // The first one stalls, the others wait for it.
    const stalled = new Promise<void>((resolve) => {
      server.fault = ({ name }) => {
        if (name !== 'APPEND') return undefined;
        resolve();
        return {};
      };
    });
    const attempts = [1, 2, 3, 4].map(() =>
      store.appendByImap(user, 'INBOX', { ...message, signal: giving.signal }),
    );
    const ended = Promise.allSettled(attempts);
    await stalled;
    server.fault = () => undefined;
    giving.abort(givenUp);
    for (const end of await ended) {
      assert.ok(end.status === 'rejected');
      assert.equal(end.reason, givenUp);
    }
    assert.equal(store.load.open, 0);
    await store.appendByImap(user, 'INBOX', message);
    assert.equal(appendsOf(server), 2);
  });

  void test('is not waited for after the end of its attempt where its source stalls', async () => {
    const { server, store, user } = await openFakeStore();
    const giving = new AbortController();
    const stalls = async function* () {
      yield Buffer.from(source.slice(0, 10));
      giving.abort(givenUp);
      await new Promise(() => {});
    };
    const stalled = { ...message, open: stalls, signal: giving.signal };
    await assert.rejects(store.appendByImap(user, 'INBOX', stalled), givenUp);
    await store.appendByImap(user, 'INBOX', message);
    assert.equal(appendsOf(server), 1);
  });

  void test('is not added where its source fails, which is no failure of the server', async () => {
    const { server, store, user } = await openFakeStore();
    const gone = new Error('the body is gone');
    const broken = async function* () {
      yield Buffer.from(source.slice(0, 5));
      throw gone;
    };
    const failing = store.appendByImap(user, 'INBOX', { ...message, open: broken });
    await assert.rejects(failing, gone);
    assert.equal(appendsOf(server), 0);
    // The server is not left alone for it.
    await store.appendByImap(user, 'INBOX', message);
    assert.equal(appendsOf(server), 1);
  });

  void test('is not added where the server answers OK before it has come', async () => {
    const { server, store, user } = await openFakeStore();
    server.goOn = 'TAG OK done';
    await assert.rejects(store.appendByImap(user, 'INBOX', message), { code: 'unavailable' });
  });

  void test('is not added where its attempt ends before the command', async () => {
    const { server, store, user } = await openFakeStore();
    const giving = new AbortController();
    const read = async function* () {
      giving.abort(givenUp);
      yield Buffer.from(source);
    };
    const late = { ...message, open: read, signal: giving.signal };
    await assert.rejects(store.appendByImap(user, 'INBOX', late), givenUp);
    await assert.rejects(store.appendByImap(user, 'INBOX', late), givenUp);
    await store.appendByImap(user, 'INBOX', message);
    assert.equal(appendsOf(server), 1);
  });

  void test('a signal after the message was added has no effect', async () => {
    const { server, store, user } = await openFakeStore();
    const giving = new AbortController();
    await store.appendByImap(user, 'INBOX', { ...message, signal: giving.signal });
    giving.abort(givenUp);
    await store.appendByImap(user, 'INBOX', message);
    assert.deepEqual(
      server.commands.filter(({ name }) => name === 'APPEND').map(({ connection }) => connection),
      [1, 1],
    );
  });

  void test('is found by the id of its Received field', async () => {
    const { server, store, user } = await openFakeStore();
    assert.equal(await store.hasReceived(user, 'INBOX', 'id-1'), false);
    server.add(source);
    assert.equal(await store.hasReceived(user, 'INBOX', 'id-1'), true);
    assert.match(
      server.commands.at(-1)?.args ?? '',
      /^RETURN \(ALL\) SINCE \d{1,2}-\w{3}-\d{4} HEADER "Received" "id-1"$/,
    );
  });

  void test('is searched where it was added: in the mailbox of the same use', async () => {
    const { server, store, user } = await openFakeStore();
    server.add(source);
    const list = '* LIST (\\HasNoChildren) "." "INBOX.Junk"\r\nTAG OK done\r\n';
    server.fault = ({ name, args }) => {
      if (name === 'LIST') return { send: list };
      const isOther = name === 'EXAMINE' && !args.startsWith('"INBOX.Junk"');
      return isOther ? { send: 'TAG NO there is none\r\n' } : undefined;
    };
    await store.appendByImap(user, 'Junk', message);
    assert.match(server.commands.at(-1)?.args ?? '', /^"INBOX\.Junk" /);
    assert.equal(await store.hasReceived(user, 'Junk', 'id-1'), true);
    // A mailbox that does not exist yet has no messages: otherwise the message would wait in vain.
    assert.equal(await store.hasReceived(user, 'Lists', 'id-1'), false);
  });

  void test('a client gets the UID, with and without UIDPLUS', async () => {
    const { server, store, user } = await openFakeStore();
    const request = { mailbox: 'inbox', flags: ['\\seen'], octets: 100 };
    const append = () => store.appendMessage(user, request, message.open());
    server.add('Subject: older\r\n\r\n');
    server.fault = ({ name }) =>
      name === 'APPEND' ? { send: 'TAG OK [APPENDUID 7 4711] done\r\n' } : undefined;
    const told = await append();
    assert.equal(told.uid, 4711);
    assert.deepEqual(
      told.changes.map(({ mailbox, token }) => [mailbox, token]),
      [['INBOX', told.state.token]],
    );
    server.fault = ({ name }) => {
      if (name === 'APPEND') server.add(source);
      return undefined;
    };
    assert.equal((await append()).uid, 2);
    server.fault = ({ name }) =>
      name === 'APPEND' ? { send: 'TAG NO [TRYCREATE] no\r\n' } : undefined;
    await assert.rejects(append(), { code: 'mailbox_not_found' });
    const sent = server.commands.filter(({ name }) => name === 'APPEND').map(({ args }) => args);
    assert.equal(sent.at(-1), `"INBOX" (\\Seen) {${source.length}}\r\n${source}`);
  });

  void test("a client's message takes one command between two looks", async () => {
    const { server, store, user } = await openFakeStore();
    const request = { mailbox: 'INBOX', octets: 100 };
    const append = async () => {
      server.commands.length = 0;
      const { state } = await store.appendMessage(user, request, message.open());
      const { modseq, uidnext } = server.mailbox;
      assert.equal(state.token, `${modseq}-${uidnext}-${server.messages.length}`);
      return server.commands.map(({ name }) => name).filter((name) => name !== 'ENABLE');
    };
    server.fault = ({ name }) => {
      if (name !== 'APPEND') return undefined;
      const { uid } = server.add(source);
      return { send: `TAG OK [APPENDUID 7 ${uid}] done\r\n` };
    };
    await append();
    assert.deepEqual(await append(), ['STATUS', 'APPEND', 'STATUS']);
    const { token } = await store.sync(user, { mailbox: 'INBOX' });
    assert.equal(token, `${server.mailbox.modseq}-3-2`);
    // STATUS of a mailbox that is open would tell what the session saw last.
    assert.deepEqual(await append(), ['EXAMINE', 'UNSELECT', 'APPEND', 'STATUS']);
  });

  void test('no shadow is kept for a deleted account', async () => {
    const { server, store } = await openFakeStore();
    server.capabilities = 'IMAP4rev1 AUTH=PLAIN';
    const gone = { accountId: 4711, address: 'gone@acme.test' };
    await assert.rejects(store.sync(gone, { mailbox: 'INBOX' }), { code: 'account_not_found' });
  });
});
