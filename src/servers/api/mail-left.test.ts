/** What is only read is not read any more where the client is gone; a change is made all the same. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { startApi } from '../../../test/support/api/start-api.ts';
import type { MailUser } from '../../mailboxes/mailstore/mailstore.ts';

test('a search, a sync and a change know whether their client is still there', async (t) => {
  const api = await startApi('sqlite');
  await api.activateDomain('demo', 'acme.test');
  const owner = { userId: 'demo', domain: 'acme.test', localPart: 'ada' };
  const { account } = await api.accounts.create(owner);
  const { token } = await api.tokens.issue(account);
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  for (const [method, path, body] of [
    ['search', '/mail/search', '{}'],
    ['sync', '/mail/sync', '{}'],
    ['setFlags', '/mail/flags', '{"mailbox":"INBOX","uids":[1],"add":["a"]}'],
  ] as const) {
    const begun = Promise.withResolvers<MailUser>();
    const answer = Promise.withResolvers<never>();
    t.mock.method(api.mailstore, method, (user: MailUser) => {
      begun.resolve(user);
      return answer.promise;
    });
    const client = request(`${api.url}${path}`, { method: 'POST', headers });
    client.on('error', () => undefined).end(body);
    const user = await begun.promise;
    assert.ok(!user.hasLeft?.(), path);
    client.destroy();
    const isRead = method !== 'setFlags';
    while (isRead && !user.hasLeft?.()) await turn();
    assert.equal(user.hasLeft !== undefined, isRead, path);
    answer.reject(new Error('the end of the test'));
  }
});
