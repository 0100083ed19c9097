/** JSON bodies are limited before they are parsed. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type RunningApi, startApi } from '../../../test/support/api/start-api.ts';

let api: RunningApi;

before(async () => {
  api = await startApi('sqlite');
});

const post = (more: string) =>
  api.call('POST', '/v2/email-accounts/delete', `{"id":999999,"user_id":"demo",${more}}`);

test('a body of too many values is refused, wherever they are', async () => {
  for (const more of [
    `"x":[${'1,'.repeat(20_000)}1]`,
    `"x":${'['.repeat(20_000)}${']'.repeat(20_000)}`,
    `"x":{${'"":1,'.repeat(20_000)}"":1}`,
    `"x\\\\":[${'1,'.repeat(20_000)}1]`,
  ]) {
    const { status, body } = await post(more);
    assert.equal(status, 400);
    assert.equal(body.code, 'invalid_request');
    assert.equal(body.detail, 'the body must have at most 20000 members and items');
  }
});

test('characters in a string do not count', async () => {
  assert.equal((await post(`"x":"\\"${',:[{'.repeat(20_000)}\\\\"`)).status, 404);
  assert.equal((await post(`"x":[${'1,'.repeat(19_000)}1]`)).status, 404);
});
