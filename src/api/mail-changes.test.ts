/** The answer to a change where its sync fails. */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { before, test } from 'node:test';
import { Refusal } from '../errors/errors.ts';
import { EmbeddedMailstore } from '../mailstore/mailstore.ts';
import { type RunningApi, startApi } from './testing/start-api.ts';

let api: RunningApi;
let user: { accountId: number; address: string };
let authorization: string;

before(async () => {
  api = await startApi('sqlite');
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
