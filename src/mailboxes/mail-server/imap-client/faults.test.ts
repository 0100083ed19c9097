/** Requests while the IMAP server fails, by failure; and that the server is used again afterwards. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { readCertificate } from '../../../../test/support/certificate.ts';
import {
  type Command,
  type FakeServer,
  type Fault,
  startFakeServer,
} from '../../../../test/support/imap-client/fake-server.ts';
import { IMPATIENT, openImapStore } from '../../../../test/support/imap-client/open-store.ts';
import { Refusal } from '../../../platform/errors/errors.ts';
import type { MailUser } from '../../mailstore/mailstore.ts';

const ann: MailUser = { accountId: 1, address: 'ann@acme.test' };
const bob: MailUser = { accountId: 2, address: 'bob@acme.test' };
const inbox = { mailbox: 'INBOX' };

function isUnavailable(error: unknown): boolean {
  return error instanceof Refusal && error.code === 'unavailable';
}

async function collect(source: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of source) chunks.push(chunk);
  return Buffer.concat(chunks).toString('latin1');
}

async function open(options: Parameters<typeof openImapStore>[2] = {}) {
  const server = await startFakeServer();
  server.add('Subject: one\r\n\r\nText\r\n');
  return { server, ...(await openImapStore(server.port, {}, options)) };
}

/** Asks until the server has the command: on a slow machine the login may take all of the time first. */
async function failAt(name: string, server: FakeServer, ask: () => Promise<unknown>) {
  while (!server.commands.some((command) => command.name === name)) {
    await assert.rejects(ask(), isUnavailable);
    // It is not used for a moment after each failure.
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Asks until the server is used again; checks that each refusal meanwhile is the expected one. */
async function untilUp(ask: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await ask();
      return;
    } catch (error) {
      assert.ok(isUnavailable(error), String(error));
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

void suite('a server that cannot be used', () => {
  void test('is down: refused at once, logged, used when it is up again', async () => {
    const { server, store, logged } = await open();
    await server.stop();
    assert.equal(await store.answers(), false);
    await assert.rejects(store.sync(ann, inbox), isUnavailable);
    assert.deepEqual(
      logged.map(({ failure }) => failure),
      // Of the readiness, and of the sync.
      ['unreachable', 'unreachable'],
    );
    // It is not used for a while: no more attempts, no more log lines.
    await assert.rejects(store.sync(bob, inbox), (error) => {
      assert.ok(error instanceof Refusal && (error.retryAfter ?? 0) > 0);
      return isUnavailable(error);
    });
    assert.equal(logged.length, 2);
    await server.restart();
    assert.equal(await store.answers(), true);
    await untilUp(() => store.sync(ann, inbox));
  });

  const greetings: [string, string | undefined, string][] = [
    ['says nothing', undefined, 'no_greeting'],
    ['says BYE', '* BYE too many', 'dropped'],
    ['speaks another protocol', 'HTTP/1.1 400 Bad Request', 'no_greeting'],
  ];
  for (const [title, greeting, failure] of greetings) {
    void test(`${title} in place of a greeting`, async () => {
      const { server, store, logged } = await open(failure === 'no_greeting' ? IMPATIENT : {});
      server.greeting = greeting;
      await assert.rejects(store.sync(ann, inbox), isUnavailable);
      assert.equal(logged.at(-1)?.failure, failure);
      assert.equal(await store.answers(), false);
      server.greeting = '* OK ready';
      await untilUp(() => store.sync(ann, inbox));
    });
  }

  void test('refuses the login: only for that account, and not for ever', async () => {
    const { server, store, logged } = await open();
    server.fault = ({ name, user }) =>
      name === 'AUTHENTICATE' && user.startsWith('ann')
        ? { send: 'TAG NO [AUTHENTICATIONFAILED] no\r\n' }
        : undefined;
    await assert.rejects(store.sync(ann, inbox), isUnavailable);
    assert.deepEqual(
      logged.map(({ failure }) => failure),
      ['login_refused'],
    );
    await store.sync(bob, inbox);
    server.fault = () => undefined;
    await untilUp(() => store.sync(ann, inbox));
    assert.ok(!logged.some(({ line }) => line.includes(server.password)));
  });

  void test('refuses the master: not ready, and a line that says why, until it accepts it', async () => {
    const { server, store, logged } = await open({ someAccounts: async () => [ann, bob] });
    const { password } = server;
    server.password = 'another one';
    assert.equal(await store.answers(), false);
    assert.deepEqual(
      logged.map(({ failure }) => failure),
      ['login_refused', 'login_refused', undefined],
    );
    assert.match(logged.at(-1)?.text ?? '', /name or password in MAILSTORE_URL is wrong/);
    assert.equal(await store.answers(), false);
    assert.equal(logged.length, 3, 'told once while the accounts are left alone');
    server.password = password;
    await store.sync({ accountId: 3, address: 'cal@acme.test' }, inbox);
    assert.equal(await store.answers(), true);
  });

  void test('refuses the master after it accepted it: not ready, until it accepts it again', async () => {
    const { server, store, logged } = await open({ someAccounts: async () => [ann, bob] });
    await store.sync(ann, inbox);
    assert.equal(await store.answers(), true);
    const { password } = server;
    server.password = 'another one';
    await assert.rejects(store.sync({ accountId: 3, address: 'cal@acme.test' }, inbox));
    assert.equal(await store.answers(), false);
    assert.match(logged.at(-1)?.text ?? '', /name or password in MAILSTORE_URL is wrong/);
    // An open connection continues to work.
    await store.sync(ann, inbox);
    assert.equal(await store.answers(), false);
    server.password = password;
    await store.sync({ accountId: 4, address: 'dan@acme.test' }, inbox);
    assert.equal(await store.answers(), true);
  });

  void test('refuses one account after it accepted others: ready, and no line about the master', async () => {
    const { server, store, logged } = await open({ someAccounts: async () => [bob] });
    await store.sync(ann, inbox);
    server.fault = ({ name, user }) =>
      name === 'AUTHENTICATE' && user.startsWith('bob') ? { send: 'TAG NO no\r\n' } : undefined;
    await assert.rejects(store.sync(bob, inbox), isUnavailable);
    assert.equal(await store.answers(), true);
    assert.deepEqual(
      logged.map(({ failure }) => failure),
      ['login_refused'],
    );
  });

  void test('accepts the master for one account of several: ready', async () => {
    const { server, store } = await open({ someAccounts: async () => [ann, bob] });
    server.fault = ({ name, user }) =>
      name === 'AUTHENTICATE' && user.startsWith('ann') ? { send: 'TAG NO no\r\n' } : undefined;
    assert.equal(await store.answers(), true);
  });

  void test('is down before an account asks: one line says why it is not ready', async () => {
    const { server, store, logged } = await open();
    await server.stop();
    for (const _ of [1, 2]) assert.equal(await store.answers(), false);
    assert.deepEqual(
      logged.map(({ failure, text }) => [failure, text]),
      [['unreachable', 'the IMAP server cannot be reached']],
    );
  });

  void test('has a certificate for another name, or of an unknown authority', async () => {
    const tls = readCertificate('one');
    const server = await startFakeServer({ tls });
    for (const how of [{}, { ca: tls.cert }]) {
      const { store, logged } = await openImapStore(server.port, { tls: 'implicit', ...how });
      await assert.rejects(store.sync(ann, inbox), isUnavailable);
      assert.equal(logged.at(-1)?.failure, 'tls', JSON.stringify(logged));
      assert.equal(await store.answers(), false);
    }
    const insecure = { tls: 'implicit', verifyCertificate: false } as const;
    const { store } = await openImapStore(server.port, insecure);
    await store.sync(ann, inbox);
  });

  void test('offers no STARTTLS: no password is sent', async () => {
    const server = await startFakeServer();
    const { store, logged } = await openImapStore(server.port, { tls: 'starttls' });
    await assert.rejects(store.sync(ann, inbox), isUnavailable);
    assert.equal(logged.at(-1)?.failure, 'tls');
    const { store: implicit, logged: lines } = await openImapStore(server.port, {
      tls: 'implicit',
    });
    await assert.rejects(implicit.sync(ann, inbox), isUnavailable);
    assert.equal(lines.at(-1)?.failure, 'no_tls');
    assert.match(lines.at(-1)?.text ?? '', /speaks no TLS at this port: write imap:/);
  });

  void test('expects TLS on a plaintext connection: refused, with a line', async () => {
    const server = await startFakeServer({ tls: readCertificate('one') });
    for (const tls of ['off', 'starttls'] as const) {
      const { store, logged } = await openImapStore(server.port, { tls }, IMPATIENT);
      await assert.rejects(store.sync(ann, inbox), isUnavailable);
      assert.equal(logged.at(-1)?.failure, 'wants_tls');
      assert.match(logged.at(-1)?.text ?? '', /waits for TLS at this port: write imaps:/);
      const { store: unused, logged: lines } = await openImapStore(server.port, { tls }, IMPATIENT);
      assert.equal(await unused.answers(), false);
      assert.equal(lines.at(-1)?.failure, 'wants_tls');
    }
  });
});

/** Waits until the server has so many connections. */
async function untilOpen(server: FakeServer, connections: number): Promise<void> {
  while (server.open !== connections) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** The commands of a first sync with fields, after the login. */
const steps = ['ENABLE', 'EXAMINE', 'UID SEARCH', 'UID FETCH'];
const request = { mailbox: 'INBOX', fields: ['flags'] } as const;

/** A fault at the first command of a name. */
function once(name: string, fault: Fault): (command: Command) => Fault | undefined {
  let left = 1;
  return (command) => (command.name === name && left-- > 0 ? fault : undefined);
}

void suite('a server that fails at a command', () => {
  for (const name of steps) {
    void test(`drops the connection at ${name}: tried once more`, async () => {
      const { server, store, logged } = await open();
      server.fault = once(name, { after: 'drop' });
      const { changes } = await store.sync(ann, request);
      assert.deepEqual(changes.added, [{ uid: 1, flags: [], modseq: '2' }]);
      assert.equal(logged.length, 1);
      assert.equal(logged[0]?.failure, 'dropped');
    });

    void test(`never answers ${name}: refused in time, used again after`, async () => {
      const { server, store, logged } = await open(IMPATIENT);
      server.fault = once(name, {});
      await failAt(name, server, () => store.sync(ann, request));
      assert.equal(logged.at(-1)?.failure, 'silent');
      await untilUp(() => store.sync(ann, request));
    });

    void test(`answers BAD to ${name}`, async () => {
      const { server, store, logged } = await open();
      server.fault = once(name, { send: 'TAG BAD what?\r\n' });
      await assert.rejects(store.sync(ann, request), isUnavailable);
      assert.equal(logged.at(-1)?.failure, 'said_bad');
      assert.ok(logged.at(-1)?.line.includes(`"command":"${name}"`));
      await untilUp(() => store.sync(ann, request));
      // One that is not used any more would stay for good.
      if (name === 'ENABLE') await untilOpen(server, 1);
    });
  }

  void test('drops every connection: refused after the second', async () => {
    const { server, store, logged } = await open();
    server.fault = ({ name }) => (name === 'EXAMINE' ? { after: 'drop' } : undefined);
    await assert.rejects(store.sync(ann, request), isUnavailable);
    assert.deepEqual(
      logged.map(({ failure }) => failure),
      ['dropped', 'dropped'],
    );
  });

  void test('dropped idle connections cause no failure', async () => {
    const { server, store, logged } = await open();
    await store.sync(ann, inbox);
    server.drop();
    await store.sync(ann, inbox);
    await store.sync(ann, inbox);
    assert.ok(logged.length <= 1);
  });

  void test('NO to EXAMINE is a missing mailbox, unless the server says that it is not', async () => {
    const { server, store, logged } = await open();
    const other = { mailbox: 'Other' };
    server.fault = once('EXAMINE', { send: 'TAG NO no such mailbox\r\n' });
    await assert.rejects(store.sync(ann, other), { code: 'mailbox_not_found' });
    assert.equal(logged.length, 0);
    server.fault = once('EXAMINE', { send: 'TAG NO [UNAVAILABLE] later\r\n' });
    await assert.rejects(store.sync(ann, inbox), isUnavailable);
    assert.equal(logged.at(-1)?.failure, 'said_no');
    await store.sync(ann, inbox);
  });

  void test('denies the master INBOX: no mailbox is reported as missing', async () => {
    const { server, store, logged } = await open();
    const no = { send: 'TAG NO [NONEXISTENT] no such mailbox\r\n' };
    server.fault = ({ name }) => (['EXAMINE', 'STATUS'].includes(name) ? no : undefined);
    for (const mailbox of ['INBOX', 'Other']) {
      await assert.rejects(store.sync(ann, { mailbox }), isUnavailable, mailbox);
      assert.equal(logged.at(-1)?.failure, 'no_access');
      assert.match(logged.at(-1)?.text ?? '', /ACL/);
    }
    server.fault = once('EXAMINE', { send: 'TAG NO [NOPERM] not for you\r\n' });
    await assert.rejects(store.sync(ann, { mailbox: 'Other' }), isUnavailable);
    server.fault = () => undefined;
    await store.sync(ann, inbox);
  });

  const literal = '* 1 FETCH (UID 1 FLAGS () BODY[]<0> {100}\r\nSubject: on';
  void test('stops in the middle of a literal', async () => {
    const { server, store, logged } = await open(IMPATIENT);
    server.fault = once('UID FETCH', { send: literal });
    await failAt('UID FETCH', server, () => store.fetchMessage(ann, 'INBOX', 1));
    assert.equal(logged.at(-1)?.failure, 'silent');
    server.fault = once('UID FETCH', { send: literal, after: 'drop' });
    await untilUp(async () => {
      const message = await store.fetchMessage(ann, 'INBOX', 1);
      assert.equal(await collect(message.open()), 'Subject: one\r\n\r\nText\r\n');
    });
  });

  void test('announces a literal that is too long', async () => {
    const { server, store, logged } = await open();
    server.fault = once('UID FETCH', { send: '* 1 FETCH (UID 1 BODY[]<0> {999999999}\r\n' });
    await assert.rejects(store.fetchMessage(ann, 'INBOX', 1), isUnavailable);
    assert.equal(logged.at(-1)?.failure, 'garbled');
    await untilUp(() => store.fetchMessage(ann, 'INBOX', 1));
  });

  void test('says BYE in the middle of a session', async () => {
    const { server, store } = await open();
    server.fault = once('UID SEARCH', { send: '* BYE shutting down\r\n', after: 'drop' });
    assert.equal((await store.sync(ann, inbox)).changes.added.length, 1);
  });
});

void suite('a server whose answers cannot be right', () => {
  async function synced() {
    const opened = await open();
    for (const subject of ['two', 'three']) opened.server.add(`Subject: ${subject}\r\n\r\n`);
    const { uidvalidity, token } = await opened.store.sync(ann, inbox);
    return { ...opened, since: { ...inbox, uidvalidity, token } };
  }

  void test('lists more removals than possible: the client gets a reset', async () => {
    const { server, store, since } = await synced();
    server.messages.splice(0, 1);
    server.mailbox.modseq++;
    for (const vanished of ['1:2', '1:4294967295', '']) {
      server.vanished = vanished;
      const { reset, changes } = await store.sync(ann, since);
      assert.equal(reset, true, vanished);
      assert.deepEqual(changes.added, [{ uid: 2 }, { uid: 3 }]);
    }
    server.vanished = '1,4:4000000000';
    const { reset, changes } = await store.sync(ann, since);
    assert.equal(reset, undefined);
    assert.deepEqual(changes, { added: [], updated: [], removed: [{ uid: 1 }] });
  });

  void test('lists more messages than it has', async () => {
    for (const extensions of ['QRESYNC UIDPLUS', 'UIDPLUS']) {
      const { server, store, user, logged } = await open();
      server.capabilities = `IMAP4rev1 AUTH=PLAIN ENABLE CONDSTORE ESEARCH ${extensions}`;
      server.mailbox.uidnext = 5_000;
      const first = await store.sync(user, inbox);
      server.add('Subject: two\r\n\r\n');
      const list = '* ESEARCH (TAG "TAG") UID ALL 1:4999\r\nTAG OK done\r\n';
      server.fault = ({ name }) => (name === 'UID SEARCH' ? { send: list } : undefined);
      // A token from before all that the server knows: everything is listed again.
      const { uidvalidity } = first;
      const ask = { ...inbox, uidvalidity, token: '99-4-3' };
      if (extensions.includes('QRESYNC')) {
        await assert.rejects(store.sync(user, ask), isUnavailable, extensions);
        assert.equal(logged.at(-1)?.failure, 'garbled');
        server.fault = () => undefined;
      }
      // Without QRESYNC such a list only says that something has changed: then all flags are fetched.
      assert.equal((await store.sync(user, ask)).changes.added.length, 2);
    }
  });

  void test('reports more removals meanwhile than there were messages', async () => {
    const { server, store } = await open();
    server.mailbox.uidnext = 5_000;
    const list = '* ESEARCH (TAG "TAG") UID ALL 1\r\n* VANISHED 1:4294967294\r\nTAG OK done\r\n';
    server.fault = ({ name }) => (name === 'UID SEARCH' ? { send: list } : undefined);
    const { changes } = await store.sync(ann, inbox);
    assert.deepEqual(changes, { added: [{ uid: 1 }], updated: [], removed: [] });
  });

  void test('leaves removed messages out of its list, and reports them with the next command', async () => {
    const { server, store } = await open();
    server.add('Subject: two\r\n\r\n');
    server.fault = ({ name }) => {
      if (name === 'UID SEARCH')
        return { send: '* ESEARCH (TAG "TAG") UID ALL 1\r\nTAG OK done\r\n' };
      if (name === 'NOOP') return { send: '* VANISHED 2\r\nTAG OK done\r\n' };
      return undefined;
    };
    const { changes, uidvalidity, token } = await store.sync(ann, inbox);
    assert.deepEqual(changes.added, [{ uid: 1 }]);
    server.fault = () => undefined;
    server.expunge(2);
    const next = await store.sync(ann, { ...inbox, uidvalidity, token });
    assert.deepEqual(next.changes, { added: [], updated: [], removed: [{ uid: 2 }] });
  });

  void test('lists messages that came after it reported their number', async () => {
    const { server, store } = await open();
    server.mailbox.uidnext = 600;
    const list = '* ESEARCH (TAG "TAG") UID ALL 1:500\r\nTAG OK done\r\n';
    server.fault = ({ name }) => (name === 'UID SEARCH' ? { send: list } : undefined);
    assert.equal((await store.sync(ann, inbox)).changes.added.length, 500);
  });

  void test('says that it moved more messages than it was asked to', async () => {
    const { server, store } = await open();
    server.capabilities += ' MOVE';
    for (const [from, moved] of [
      ['1:3', []],
      ['2', []],
      ['1', [[1, 1]]],
    ] as const) {
      const ok = `* OK [COPYUID 7 ${from} ${from}] moved\r\nTAG OK done\r\n`;
      server.fault = ({ name }) => (name === 'UID MOVE' ? { send: ok } : undefined);
      const { uids } = await store.move(ann, { mailbox: 'INBOX', uids: [1] }, 'Archive');
      assert.deepEqual([...uids], moved, from);
    }
  });

  void test('has another UIDVALIDITY', async () => {
    const { server, store, since } = await synced();
    const message = await store.fetchMessage(ann, 'INBOX', 1);
    server.mailbox.uidvalidity++;
    const { reset, uidvalidity } = await store.sync(ann, since);
    assert.equal(reset, true);
    assert.equal(uidvalidity, '8');
    assert.equal(await collect(message.open()), 'Subject: one\r\n\r\nText\r\n');
  });

  void test('tokens of the future, of an event and of the embedded store get a reset', async () => {
    const { store, since } = await synced();
    for (const token of ['99-4-3', '4-99-3', '4', '0', '5.9.2', '0.99-4-3.1', '0-1-0']) {
      assert.equal((await store.sync(ann, { ...since, token })).reset, true, token);
    }
    for (const token of ['x', '1-2', '1-2-3-4', '-1-2-3', '01-2-3', '1-2-3.4-5-6', '']) {
      await assert.rejects(
        store.sync(ann, { ...since, token }),
        { code: 'invalid_request' },
        token,
      );
    }
    const { token } = since;
    await assert.rejects(store.sync(ann, { ...inbox, token }), { code: 'invalid_request' });
  });

  void test('a forged token causes no work', async () => {
    const { server, store, since } = await synced();
    server.mailbox.uidnext = 4_000_000_000;
    server.mailbox.modseq++;
    server.vanished = '4:3999999999';
    const token = '1-4000000000-3999999999';
    assert.equal((await store.sync(ann, { ...since, token })).reset, true);
  });

  void test('the message is removed while it is read', async () => {
    const { server, store } = await open();
    const long = server.add(`Subject: long\r\n\r\n${'x'.repeat(700_000)}`);
    const message = await store.fetchMessage(ann, 'INBOX', long.uid);
    server.messages.pop();
    await assert.rejects(collect(message.open()), { code: 'message_not_found' });
  });
});
