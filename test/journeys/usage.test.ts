/** Quotas, usage and the overview, as operators see them. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { startFarEnd } from '../support/outbound/far-end.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';

interface Point {
  readonly received: number;
  readonly delivered: number;
  readonly deferred: number;
  readonly refused: Readonly<Record<string, number>>;
}

onEachEngine('what operators see of usage', (engine) => {
  let service: TestService;
  let ann: TestAccount;
  before(async () => {
    const far = await startFarEnd({});
    service = await startTestService(engine, { SMTP_RELAY_URL: `smtp://127.0.0.1:${far.port}` });
    ann = await service.makeAccount();
  });

  const operator = async (path: string) => {
    const answer = await service.v2('GET', `/v2/operator/${path}`);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body;
  };
  const deliver = (to: string) =>
    service.send({ from: 'bob@far.test', to, subject: 'Hello', text: 'x'.repeat(2_000) });
  const quota = (quota_bytes: number | null, id = ann.id) =>
    service.v2('POST', '/v2/operator/accounts/quota', { id, quota_bytes });
  const call = (path: string, body: object) => service.mail(ann.token, 'POST', path, body);
  const append = (text: string) =>
    fetch(`${service.url}/mail/append?mailbox=Archive`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ann.token}`, 'content-type': 'message/rfc822' },
      body: text,
    });
  const letter = { to: [{ address: 'eve@far.test' }, { address: 'fay@far.test' }], text: 'Hi' };
  const totals = async (query: string) => {
    const { items } = await operator(`usage?${query}`);
    const sum = (name: string) =>
      items.reduce((all: number, one: Record<string, number>) => all + (one[name] ?? 0), 0);
    // A row for each day: the test may run at midnight.
    const names = new Set(
      items.map((one: Record<string, string>) => one.address ?? one.domain ?? one.user_id),
    );
    return { in: sum('messages_in'), out: sum('messages_out'), names: [...names] };
  };

  test('a quota limits mail that comes in, is added, copied and sent', async () => {
    await deliver(ann.address);
    const set = await quota(5_000);
    assert.deepEqual([set.status, set.body.address], [200, ann.address]);
    const [entry] = (await operator('audit')).items;
    assert.deepEqual(
      [entry.action, entry.target, entry.counts],
      ['account.quota', ann.address, { quota_bytes: 5_000 }],
    );
    assert.equal((await append('Subject: x\r\n\r\nShort.\r\n')).status, 201);
    assert.equal((await append(`Subject: x\r\n\r\n${'x'.repeat(4_000)}\r\n`)).status, 507);
    await quota(2_500);
    await assert.rejects(deliver(ann.address), { responseCode: 452 });
    const copied = await call('/mail/copy', { mailbox: 'INBOX', uids: [1], to: 'Archive' });
    assert.deepEqual([copied.status, copied.body.code], [507, 'quota_exceeded']);
    const sent = await call('/mail/send', { ...letter, text: 'x'.repeat(1_000) });
    assert.deepEqual([sent.status, sent.body.code], [507, 'quota_exceeded']);
    const draft = await call('/mail/drafts', { text: 'x'.repeat(1_000) });
    assert.deepEqual([draft.status, draft.body.code], [507, 'quota_exceeded']);
    const moved = await call('/mail/move', { mailbox: 'INBOX', uids: [1], to: 'Archive' });
    assert.equal(moved.status, 200, 'what is there may be moved');
    const lifted = await quota(null);
    const named = { id: ann.id, address: ann.address };
    assert.deepEqual(lifted.body, { ...named, account_id: ann.id, email: ann.address });
    for (const [body, status] of [
      [{ id: ann.id, quota_bytes: -1 }, 400],
      [{ id: ann.id, quotaBytes: 1 }, 400],
      [{ quota_bytes: 1 }, 400],
      [{ id: 99_999, quota_bytes: 1 }, 404],
    ] as const) {
      const answer = await service.v2('POST', '/v2/operator/accounts/quota', body);
      assert.equal(answer.status, status);
    }
  });

  test('sent mail counts for each recipient, and cancelled mail does not', async () => {
    assert.equal((await call('/mail/send', letter)).status, 202);
    const later = await call('/mail/send', { ...letter, delaySeconds: 3_600 });
    assert.equal((await totals(`by=account&domain=${ann.domain}`)).out, 4);
    assert.equal((await call('/mail/sends/cancel', { id: later.body.id })).status, 200);
    for (const by of ['account', 'domain', 'user']) {
      const { in: came, out, names } = await totals(`by=${by}&user_id=${ann.userId}`);
      assert.deepEqual([by, came, out, names.length], [by, 1, 2, 1]);
    }
  });

  test('the overview has incoming and refused mail', async () => {
    await assert.rejects(deliver(`nobody@${ann.domain}`), { responseCode: 550 });
    const { series, before, now } = await operator('overview?hours=1');
    assert.deepEqual(before, { received: 0, refused: 0, deferred: 0, sent: 0, bounced: 0 });
    // What was sent may be on its way, have ended or wait.
    assert.deepEqual(Object.keys(now.queue), ['queued', 'held']);
    const all = (count: (point: Point) => number) =>
      series.reduce((sum: number, point: Point) => sum + count(point), 0);
    assert.equal(series.length, 12);
    assert.equal(
      all(({ received }) => received),
      1,
    );
    assert.equal(
      all(({ delivered }) => delivered),
      1,
    );
    assert.equal(
      all(({ refused }) => refused.account_not_found ?? 0),
      1,
    );
    assert.equal(
      all(({ deferred }) => deferred),
      1,
      'the full mailbox',
    );
    assert.ok(series.some(({ smtp_p95_ms: ms }: { smtp_p95_ms?: number }) => Number(ms) > 0));
    assert.ok(series.some(({ http_p95_ms: ms }: { http_p95_ms?: number }) => Number(ms) > 0));
    assert.equal((await service.v2('GET', '/v2/operator/overview?hours=0')).status, 400);
    assert.equal((await service.v2('GET', '/v2/operator/usage?from=yesterday')).status, 400);
    assert.equal((await service.v2('GET', '/v2/operator/usage?cursor=x')).status, 400);
  });

  test('usage keeps the name of a deleted account', async () => {
    const gone = { user_id: ann.userId, id: ann.id };
    assert.equal((await service.v2('POST', '/v2/email-accounts/delete', gone)).status, 200);
    const { in: came, names } = await totals('by=account');
    assert.deepEqual([names, came], [[ann.address], 1]);
  });
});
