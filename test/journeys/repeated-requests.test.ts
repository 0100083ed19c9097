/** Requests that are made again with the same Idempotency-Key. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import {
  type Answer,
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
});
