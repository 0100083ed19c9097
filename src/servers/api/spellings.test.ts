/** Another spelling of a known name is reported; any other unknown name is ignored. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type RunningApi, startApi } from '../../../test/support/api/start-api.ts';

let api: RunningApi;
let authorization: { authorization: string };

before(async () => {
  api = await startApi('sqlite');
  await api.activateDomain('demo', 'acme.test');
  const owner = { userId: 'demo', domain: 'acme.test', localPart: 'ada' };
  const { account } = await api.accounts.create(owner);
  authorization = { authorization: `Bearer ${(await api.tokens.issue(account)).token}` };
});

test('another spelling of a known member is refused by its name', async () => {
  for (const [written, meant] of [
    ['userId', 'user_id'],
    ['USER_ID', 'user_id'],
    ['user-id', 'user_id'],
    ['displayName', 'display_name'],
    ['local-part', 'local_part'],
    ['doMain', 'domain'],
  ] as const) {
    const body = { domain: 'acme.test', local_part: 'bob', user_id: 'demo', [written]: 'x' };
    const { status, body: problem } = await api.call('POST', '/v2/email-accounts/create', body);
    assert.equal(status, 400, written);
    assert.equal(problem.code, 'invalid_request');
    const message = `is not known: did you mean ${meant}?`;
    assert.deepEqual(problem.errors, [{ field: written, message }]);
    assert.equal(problem.detail, `${written} ${message}`);
  }
});

test('of thousands of unknown members only the first are compared with known ones', async () => {
  const unknown = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`x${at}`, 1]));
  const body = { id: 999_999, user_id: 'demo', ...unknown, userId: 'x' };
  assert.equal((await api.call('POST', '/v2/email-accounts/delete', body)).status, 404);
});

test('other unknown names are ignored, as a newer client may send them', async () => {
  const body = { user_id: 'demo', comment: 'x', uid: 1, users_id: 'x', ids: 1 };
  const reset = { id: 999_999, ...body };
  assert.equal((await api.call('POST', '/v2/email-accounts/delete', reset)).status, 404);
  const listed = await api.call('GET', '/v2/email-accounts?user_id=demo&page=2&limits=1');
  assert.equal(listed.status, 200);
});

test('parameters of a query are checked, too', async () => {
  for (const [query, field, meant] of [
    ['user_id=demo&Limit=5', 'Limit', 'limit'],
    ['userid=demo', 'userid', 'user_id'],
    ['user_id=demo&off_set=1&off_set=2', 'off_set', 'offset'],
  ] as const) {
    const { status, body } = await api.call('GET', `/v2/email-accounts?${query}`);
    assert.equal(status, 400, query);
    assert.deepEqual(body.errors, [{ field, message: `is not known: did you mean ${meant}?` }]);
  }
});

test('members of members are named by their path', async () => {
  const since = { uidValidity: '1', token: '1', extra: true };
  const flags = { mailbox: 'INBOX', uids: [1], since };
  const { status, body } = await api.call('POST', '/mail/flags', flags, authorization);
  assert.equal(status, 400);
  assert.deepEqual(body.errors, [
    {
      field: 'since.uidValidity',
      message: 'is not known: did you mean since.uidvalidity?',
    },
  ]);
});

test('a sync with the contract’s members is accepted, and another spelling of one is reported', async () => {
  const sync = { mailbox: 'INBOX', mailboxId: 'm1', uidvalidity: '', token: '' };
  assert.equal((await api.call('POST', '/mail/sync', sync, authorization)).status, 200);
  const slip = await api.call('POST', '/mail/sync', { mailBox: 'INBOX' }, authorization);
  assert.equal(slip.body.errors[0].field, 'mailBox');
});

test('an answer names at most twenty spellings', async () => {
  const members = Array.from({ length: 500 }, (_, i) => [`user_id_${'_'.repeat(i)}`, i]);
  const body = { user_id: 'demo', domain: 'acme.test', ...Object.fromEntries(members) };
  const { status, body: problem } = await api.call('POST', '/v2/domains/delete', body);
  assert.equal(status, 400);
  assert.ok(problem.errors.length === 20);
});
