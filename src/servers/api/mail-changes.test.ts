/** The answer to a change where its sync fails, or the answer to its commit is lost. */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { before, test } from 'node:test';
import { type RunningApi, startApi } from '../../../test/support/api/start-api.ts';
import { onEachEngine } from '../../../test/support/databases.ts';
import { EmbeddedMailstore } from '../../mailboxes/mailstore/mailstore.ts';
import { Refusal } from '../../platform/errors/errors.ts';

onEachEngine('changes and their answers', (engine) => {
  let api: RunningApi;
  let user: { accountId: number; address: string };
  let authorization: string;

  before(async () => {
    api = await startApi(engine);
    await api.activateDomain('demo', 'acme.test');
    const owner = { userId: 'demo', domain: 'acme.test', localPart: 'ada' };
    const { account } = await api.accounts.create(owner);
    user = { accountId: account.id, address: account.address };
    authorization = `Bearer ${(await api.tokens.issue(account)).token}`;
  });

  async function append(): Promise<number> {
    const source = Readable.from([Buffer.from('Subject: kept\r\n\r\nHello.\r\n')]);
    const request = { mailbox: 'INBOX', octets: 1024 };
    return (await api.mailstore.appendMessage(user, request, source)).uid;
  }

  const changes = [
    ['/mail/flags', { add: ['\\Seen'] }],
    ['/mail/move', { to: 'Archive' }],
    ['/mail/copy', { to: 'Archive' }],
    ['/mail/delete', {}],
  ] as const;

  test('an invalid since is refused, and nothing is changed', async () => {
    const uid = await append();
    const before = await api.mailstore.listMailboxes(user);
    for (const [path, more] of changes) {
      for (const [since, field] of [
        [{ token: 'zz', uidvalidity: '1' }, 'since.token'],
        [{ token: '1' }, 'since.uidvalidity'],
      ] as const) {
        const body = { mailbox: 'INBOX', uids: [uid], since, ...more };
        const answer = await api.call('POST', path, body, { authorization });
        assert.equal(answer.status, 400, path);
        assert.equal(answer.body.errors[0].field, field);
      }
    }
    assert.deepEqual(await api.mailstore.listMailboxes(user), before);
  });

  test('a list of too many or no messages is refused in the words of other fields', async () => {
    for (const [path, more] of changes) {
      for (const [count, expected] of [
        [0, 'must not be empty'],
        [1001, 'must have at most 1000 items'],
      ] as const) {
        const uids = Array.from({ length: count }, (_, index) => index + 1);
        const body = { mailbox: 'INBOX', uids, ...more };
        const answer = await api.call('POST', path, body, { authorization });
        assert.deepEqual(answer.body.errors, [{ field: 'uids', message: expected }]);
      }
    }
  });

  test('a since without a state is a first sync, as in /mail/sync', async () => {
    const uid = await append();
    for (const state of [{}, { token: '', uidvalidity: '' }, { token: null, uidvalidity: null }]) {
      const body = { mailbox: 'INBOX', uids: [uid], since: state };
      const { status, body: answer } = await api.call('POST', '/mail/flags', body, {
        authorization,
      });
      assert.equal(status, 200, JSON.stringify(answer));
      const first = await api.call('POST', '/mail/sync', state, { authorization });
      assert.deepEqual(answer.sync, first.body);
    }
  });

  test('a message has 64 keywords at most; system flags do not count', async () => {
    const uid = await append();
    const flag = async (change: object) => {
      const body = { mailbox: 'INBOX', uids: [uid], ...change };
      return api.call('POST', '/mail/flags', body, { authorization });
    };
    const keywords = Array.from({ length: 64 }, (_, index) => `k${index}`);
    assert.equal((await flag({ add: keywords })).status, 200);
    const read = await flag({ add: ['\\Seen'] });
    assert.equal(read.body.updated?.[0].flags.length, 65, JSON.stringify(read.body));
    const exchanged = await flag({ add: ['other'], remove: ['K0'] });
    assert.equal(exchanged.body.updated?.[0].flags.length, 65, JSON.stringify(exchanged.body));
    const refused = await flag({ add: ['one-more'] });
    assert.equal(refused.status, 400);
    const message = 'would give a message more than 64 keywords';
    assert.deepEqual(refused.body.errors, [{ field: 'add', message }]);
  });

  test('the name of a new mailbox has 255 characters, whatever their size in memory', async () => {
    const make = (mailbox: string) =>
      api.call('POST', '/mail/mailboxes/create', { mailbox }, { authorization });
    assert.equal((await make('\u{1f4ec}'.repeat(255))).status, 201);
    const { status, body } = await make('\u{1f4ec}'.repeat(256));
    assert.deepEqual([status, body.errors[0].field], [400, 'mailbox']);
  });

  test('a change succeeds also where the sync after it fails', async (t) => {
    t.mock.method(EmbeddedMailstore.prototype, 'sync', async () => {
      throw new Refusal('unavailable', 'the database cannot be reached right now');
    });
    for (const [path, more] of changes) {
      const body = { mailbox: 'INBOX', uids: [await append()], since: {}, ...more };
      const answer = await api.call('POST', path, body, { authorization });
      assert.equal(answer.status, 200, path);
      assert.equal('sync' in answer.body, false);
    }
  });

  test('a change whose commit is not answered is made once', async (t) => {
    const uid = await append();
    const write = api.database.write.bind(api.database);
    const repeated: [path: string, body: object | string, type: string][] = [
      ['/mail/copy', { mailbox: 'INBOX', uids: [uid], to: 'Junk' }, 'application/json'],
      ['/mail/append?mailbox=Junk', 'Subject: once\r\n\r\nHello.\r\n', 'message/rfc822'],
      ['/mail/flags', { mailbox: 'INBOX', uids: [uid], add: ['once'] }, 'application/json'],
      ['/mail/move', { mailbox: 'INBOX', uids: [uid], to: 'Junk' }, 'application/json'],
      ['/mail/delete', { mailbox: 'Junk', uids: [1] }, 'application/json'],
      ['/mail/mailboxes/create', { mailbox: 'Once' }, 'application/json'],
      ['/mail/mailboxes/rename', { mailbox: 'Once', to: 'Twice' }, 'application/json'],
      ['/mail/mailboxes/delete', { mailbox: 'Twice' }, 'application/json'],
    ];
    for (const [path, body, type] of repeated) {
      const headers = { authorization, 'content-type': type, 'idempotency-key': path };
      let writes = 0;
      // The first begins the request, the second makes the change, the third gives the key up.
      const mock = t.mock.method(
        api.database,
        'write',
        async (work: Parameters<typeof write>[0]) => {
          const made = await write(work);
          if (++writes === 2) throw new Error('the connection was lost');
          return made;
        },
      );
      const first = await api.call('POST', path, body, headers);
      assert.equal(first.status, 500, JSON.stringify(first.body));
      assert.equal(writes, 3);
      mock.mock.restore();
      const before = await api.mailstore.listMailboxes(user);
      const again = await api.call('POST', path, body, headers);
      assert.ok(again.status < 300, JSON.stringify(again.body));
      const { copied, moved, updated, removed } = again.body;
      assert.equal((copied ?? moved ?? updated ?? removed ?? [again.body]).length, 1, path);
      assert.deepEqual(await api.mailstore.listMailboxes(user), before);
      const third = await api.call('POST', path, body, headers);
      assert.deepEqual([third.status, third.body], [again.status, again.body]);
    }
  });
});
