import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startApi } from '../../../test/support/api/start-api.ts';

test('the description is a copy: what a route takes stays as it is once somebody has read it', async () => {
  const api = await startApi('sqlite');
  assert.equal((await fetch(`${api.url}/docs/openapi.json`)).status, 200);
  await api.activateDomain('ann', 'acme.test');
  const wanted = {
    userId: 'ann',
    domain: 'acme.test',
    localPart: 'ada',
    password: 'correct horse',
  };
  const { account } = await api.accounts.create(wanted);
  const { token } = await api.tokens.issue(account);
  const answer = await fetch(`${api.url}/mail/append?mailbox=INBOX`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'message/rfc822' },
    body: 'Subject: Hello\r\n\r\nHello.\r\n',
  });
  assert.equal(answer.status, 201, await answer.text());
});
