/** Requests that are made again with the same Idempotency-Key. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import {
  type Answer,
  API_KEY,
  callJson,
  startTestService,
  type TestAccount,
  type TestService,
} from '../support/service.ts';

onEachEngine('requests that are made again', (engine) => {
  let service: TestService;
  before(async () => {
    service = await startTestService(engine);
  });

  async function post(
    account: TestAccount,
    path: string,
    key: string,
    body: object | string,
  ): Promise<Answer> {
    const isSource = typeof body === 'string';
    const response = await fetch(service.url + path, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${account.token}`,
        'content-type': isSource ? 'message/rfc822' : 'application/json',
        'idempotency-key': key,
      },
      body: isSource ? body : JSON.stringify(body),
    });
    return { status: response.status, headers: response.headers, body: await response.json() };
  }

  async function uids(account: TestAccount, mailbox: string): Promise<number[]> {
    const { body } = await service.mail(account.token, 'POST', '/mail/sync', { mailbox });
    return body.changes.added.map(({ uid }: { uid: number }) => uid);
  }

  async function accountWithMail(): Promise<TestAccount> {
    const account = await service.makeAccount();
    await service.send({ from: 'bob@example.test', to: account.address, subject: 'a', text: 'a' });
    return account;
  }

  const copy = { mailbox: 'INBOX', uids: [1], to: 'Archive' };

  test('a copy is made once, also where both requests come at once', async () => {
    const ann = await accountWithMail();
    const make = () => post(ann, '/mail/copy', 'copy-1', copy);
    const answers = [...(await Promise.all([make(), make(), make()])), await make()];
    for (const { status, body } of answers) {
      assert.equal(status, 200, JSON.stringify(body));
      assert.deepEqual(body, answers[0]?.body);
    }
    assert.deepEqual(await uids(ann, 'Archive'), [1]);
    // Another key is another request.
    assert.deepEqual((await post(ann, '/mail/copy', 'copy-2', copy)).body.copied, [
      { uid: 1, toUid: 2 },
    ]);
  });

  test('another request with the same key is refused', async () => {
    const ann = await accountWithMail();
    await post(ann, '/mail/copy', 'k', copy);
    const others: [path: string, body: object][] = [
      ['/mail/copy', { ...copy, to: 'Trash' }],
      ['/mail/move', copy],
    ];
    for (const [path, body] of others) {
      const refused = await post(ann, path, 'k', body);
      assert.equal(refused.status, 409);
      assert.equal(refused.body.code, 'idempotency_key_reused');
    }
    // The key is the account's own.
    const ben = await service.addAccount(ann, 'ben');
    assert.equal((await post(ben, '/mail/copy', 'k', copy)).status, 200);
    const bad = await post(ann, '/mail/copy', 'a b', copy);
    assert.equal(bad.body.errors[0].field, 'idempotency-key');
  });

  test('a refused request can be repeated with its key', async () => {
    const ann = await accountWithMail();
    const missing = { ...copy, to: 'Projects' };
    assert.equal((await post(ann, '/mail/copy', 'k', missing)).body.code, 'mailbox_not_found');
    const made = await post(ann, '/mail/mailboxes/create', 'make', { mailbox: 'Projects' });
    assert.equal(made.status, 201);
    const again = await post(ann, '/mail/mailboxes/create', 'make', { mailbox: 'Projects' });
    assert.deepEqual([again.status, again.body], [201, made.body]);
    assert.equal((await post(ann, '/mail/copy', 'k', missing)).status, 200);
    assert.equal((await post(ann, '/mail/copy', 'k', missing)).status, 200);
    assert.deepEqual(await uids(ann, 'Projects'), [1]);
  });

  test('a message is put into a mailbox once', async () => {
    const ann = await accountWithMail();
    const source = `Subject: a\r\n\r\n${'text\r\n'.repeat(30_000)}`;
    const append = (body: string) => post(ann, '/mail/append?mailbox=Archive', 'append-1', body);
    const [first, second] = await Promise.all([append(source), append(source)]);
    assert.equal(first.status, 201, JSON.stringify(first.body));
    assert.deepEqual(second.body, first.body);
    assert.deepEqual((await append(source)).body, first.body);
    assert.equal((await append(`${source}.`)).body.code, 'idempotency_key_reused');
    assert.deepEqual(await uids(ann, 'Archive'), [first.body.uid]);
  });

  /** Calls /v2 as a product does. */
  const v2 = (path: string, key: string, body: object) =>
    callJson(service.url + path, { 'x-api-key': API_KEY, 'idempotency-key': key }, 'POST', body);

  const login = ({ address, password }: { address: string; password: string }) =>
    callJson(`${service.url}/mail/token`, {}, 'POST', { address, password });

  test('an account is made once, and its generated password is told again', async () => {
    const { userId, domain, address } = await service.makeAccount();
    const wanted = { user_id: userId, domain, local_part: 'ben' };
    const make = () => v2('/v2/email-accounts/create', 'ben', wanted);
    const answers = [...(await Promise.all([make(), make(), make()])), await make()];
    const [first] = answers;
    for (const { status, body } of answers) {
      assert.equal(status, 201, JSON.stringify(body));
      assert.deepEqual(body, first?.body);
    }
    const { account, password } = first?.body ?? {};
    assert.equal((await login({ address: account.address, password })).status, 200);
    const { body: listed } = await service.v2('GET', `/v2/email-accounts?user_id=${userId}`);
    const addresses = listed.items.map((one: { address: string }) => one.address);
    assert.deepEqual(addresses, [address, account.address]);
    // A key without a request of its own: another body, another path.
    const others: [path: string, body: object][] = [
      ['/v2/email-accounts/create', { ...wanted, local_part: 'cleo' }],
      [`/v2/email-accounts/${account.id}/password/reset`, { user_id: userId }],
    ];
    for (const [path, body] of others) {
      const refused = await v2(path, 'ben', body);
      assert.equal(refused.status, 409);
      assert.equal(refused.body.code, 'idempotency_key_reused');
    }
    // A late repetition does not make again what was deleted since.
    const deleted = { id: account.id, user_id: userId };
    const remove = () => v2('/v2/email-accounts/delete', 'remove', deleted);
    const removed = await remove();
    assert.equal(removed.status, 200);
    assert.deepEqual((await remove()).body, removed.body);
    assert.deepEqual((await make()).body, first?.body);
    assert.equal((await login({ address: account.address, password })).status, 401);
  });

  test('a password is reset once, and the new one is told again', async () => {
    const { id, userId, address } = await service.makeAccount();
    const reset = (key: string) =>
      v2(`/v2/email-accounts/${id}/password/reset`, key, { user_id: userId });
    const [first, second] = await Promise.all([reset('1'), reset('1')]);
    assert.equal(first.status, 200, JSON.stringify(first.body));
    assert.deepEqual(second.body, first.body);
    assert.equal((await login({ address, password: first.body.password })).status, 200);
    assert.notEqual((await reset('2')).body.password, first.body.password);
    assert.equal((await login({ address, password: first.body.password })).status, 401);
    // What is repeated is the answer, not the change.
    assert.deepEqual((await reset('1')).body, first.body);
    assert.equal((await login({ address, password: first.body.password })).status, 401);
  });

  test('users do not share keys, and a refused request leaves its key free', async () => {
    const [ann, ben] = [await service.makeAccount(), await service.makeAccount()];
    const name = `new-${ann.domain}`;
    const claim = (userId: string) => v2('/v2/domain', 'claim', { user_id: userId, domain: name });
    const [ofAnn, ofBen] = [await claim(ann.userId), await claim(ben.userId)];
    assert.deepEqual([ofAnn.status, ofBen.status], [201, 201]);
    assert.notDeepEqual(ofAnn.body.domain.dns, ofBen.body.domain.dns, 'each has a DKIM key');
    assert.deepEqual((await claim(ann.userId)).body, ofAnn.body);
    const wanted = { user_id: ann.userId, domain: name, local_part: 'ann' };
    const make = () => v2('/v2/email-accounts/create', 'ann', wanted);
    assert.equal((await make()).body.code, 'domain_not_active');
    for (const { id } of ofAnn.body.domain.dns) {
      const mark = { user_id: ann.userId, id, status: 'verified' };
      await service.v2('POST', `/v2/domains/${name}/dns/mark`, mark);
    }
    const made = await make();
    assert.equal(made.status, 201);
    assert.deepEqual((await make()).body, made.body);
    const remove = () => v2('/v2/domains/delete', 'delete', { user_id: ann.userId, domain: name });
    const removed = await remove();
    assert.deepEqual(removed.body, { ok: true, deleted: name });
    const again = await remove();
    assert.deepEqual([again.status, again.body], [200, removed.body]);
    const bad = await v2('/v2/domains/delete', 'a b', { user_id: ann.userId, domain: name });
    assert.equal(bad.body.errors[0].field, 'idempotency-key');
  });
});
