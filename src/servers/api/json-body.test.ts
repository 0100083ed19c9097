/** JSON bodies are limited before they are parsed; text that no database can store is refused by its field. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type RunningApi, startApi } from '../../../test/support/api/start-api.ts';

let api: RunningApi;

before(async () => {
  api = await startApi('sqlite');
});

const post = (more: string) =>
  api.call('POST', '/v2/email-accounts/delete', `{"id":999999,"user_id":"demo",${more}}`);

const members = (count: number) =>
  Array.from({ length: count }, (_, index) => `"k${index}":1`).join();

test('a body of too many values is refused, wherever they are', async () => {
  for (const more of [
    `"x":[${'1,'.repeat(10_000)}1]`,
    `"x":${'['.repeat(10_000)}${']'.repeat(10_000)}`,
    `"x":{${'"":1,'.repeat(10_000)}"":1}`,
    `"x\\\\":[${'1,'.repeat(10_000)}1]`,
    // Three members of its own, and those before it.
    `"x":{${members(9_998)}}`,
    `"x":[${'{},'.repeat(9_997)}{ }]`,
    `"x":[${'1,'.repeat(9_995)}{ "y": 1 }, []]`,
  ]) {
    const { status, body } = await post(more);
    assert.equal(status, 400);
    assert.equal(body.code, 'invalid_request');
    assert.equal(body.detail, 'the body must have at most 10000 members and items');
  }
});

test('as many values as are allowed are read, whatever they are', async () => {
  for (const more of [
    `"x":{${members(9_997)}}`,
    `"x":[${'{},'.repeat(9_996)}[ ]]`,
    `"x":[${'1,'.repeat(9_994)}{ "y": 1 }, []]`,
    `"x":[${'1,'.repeat(9_996)}1]`,
  ]) {
    assert.equal((await post(more)).status, 404, more.slice(-30));
  }
});

test('a body that is not JSON is refused with the place, and nothing else of it', async () => {
  for (const [text, detail] of [
    ['{\n "id": 1,\n}', 'the body is not JSON: line 3 column 1'],
    ["{ 'secret': 1 }", 'the body is not JSON: line 1 column 3'],
    ['{"secret": [1, ]}', "the body is not JSON: unexpected ']'"],
    ['{"secret": \u{1f4ec}', "the body is not JSON: unexpected '\ufffd'"],
    ['{"secret": [1,', 'the body is not JSON: it ends too early'],
    ['NaN', 'the body is not JSON: unexpected word'],
    ['secret', "the body is not JSON: unexpected 's'"],
    ['\ufeff{"id": 1,}', 'the body is not JSON: line 1 column 10'],
    ['{"__proto__": 1}', 'the body must have no members __proto__ or constructor.prototype'],
    ['', 'the body is empty'],
  ] as const) {
    const { status, body } = await api.call('POST', '/v2/email-accounts/delete', text);
    assert.deepEqual([status, body.code, body.detail], [400, 'invalid_request', detail]);
  }
});

test('characters in a string do not count', async () => {
  assert.equal((await post(`"x":"\\"${',:[{'.repeat(20_000)}\\\\"`)).status, 404);
});

test('text that cannot be stored is refused, and the answer names the field', async () => {
  for (const [more, field] of [
    [String.raw`"x":"a\u0000b"`, 'x'],
    [String.raw`"x":[1,{"y":"\ud800"}]`, 'x.1.y'],
    [String.raw`"x":{"\u0000":1}`, 'x'],
    [String.raw`"\udfff":1`, 'body'],
    [String.raw`"x":${'['.repeat(9_000)}"\u0000"${']'.repeat(9_000)}`, `x${'.0'.repeat(99)}.`],
  ] as const) {
    const { status, body } = await post(more);
    assert.equal(status, 400);
    const message = 'must have no NUL characters or unpaired surrogates';
    assert.deepEqual(body.errors, [{ field, message }]);
  }
});

test('text of a URL that cannot be stored or decoded is refused by its field', async () => {
  for (const [path, field] of [
    ['/v2/domains?user_id=a%00', 'user_id'],
    ['/v2/domains?user_id=a&%6cimit=%00', 'limit'],
    ['/v2/domains?user_id=%ed%a0%80', 'user_id'],
    ['/v2/domains?user_id=a&x=100%', 'x'],
    ['/v2/domains?%ff=1', 'query'],
    ['/v2/domains/a%00/info?user_id=a', 'domain'],
  ] as const) {
    const { status, body } = await api.call('GET', path);
    assert.equal(status, 400, path);
    assert.deepEqual(
      body.errors?.map((error: { field: string }) => error.field),
      [field],
      path,
    );
  }
});

test('a member that is null counts as absent at any depth, an item does not', async () => {
  await api.activateDomain('nulls', 'nulls.test');
  const wanted = { userId: 'nulls', domain: 'nulls.test', localPart: 'ada' };
  const { account } = await api.accounts.create(wanted);
  const authorization = `Bearer ${(await api.tokens.issue(account)).token}`;
  const flag = (body: object) =>
    api.call('POST', '/mail/flags', { mailbox: 'INBOX', ...body }, { authorization });
  const since = { uidvalidity: null, token: null };
  const changed = await flag({ uids: [1], add: null, since });
  assert.equal(changed.status, 200, JSON.stringify(changed.body));
  const lacking = await flag({ uids: [1], since: { uidvalidity: null, token: '1' } });
  const message = 'is required together with token';
  assert.deepEqual(lacking.body.errors, [{ field: 'since.uidvalidity', message }]);
  const item = await flag({ uids: [null] });
  assert.equal(item.body.errors[0].field, 'uids.0');
  // As deep as a small body can be.
  assert.equal((await post(`"x":${'{"y":'.repeat(3_000)}null${'}'.repeat(3_000)}`)).status, 404);
});
