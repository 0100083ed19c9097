/** Suspending, resuming and deleting, on a running service: logins, replies to mail, and the audit log. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { before, test } from 'node:test';
import { WebSocket } from 'ws';
import { onEachEngine } from '../../../test/support/databases.ts';
import {
  API_KEY,
  startTestService,
  type TestAccount,
  type TestService,
} from '../../../test/support/service.ts';

onEachEngine('suspended by the operator', (engine) => {
  let service: TestService;
  let ada: TestAccount;

  before(async () => {
    service = await startTestService(engine);
    ada = await service.makeAccount('ada');
  });

  const post = (path: string, body: object) => service.v2('POST', `/v2/operator/${path}`, body);
  const audit = async () => (await service.v2('GET', '/v2/operator/audit?limit=20')).body.items;
  const login = ({ address, password }: TestAccount) =>
    service.mail('', 'POST', '/mail/token', { address, password });
  const sendTo = (to: string) =>
    service.send({ from: 'bob@sender.test', to, subject: 'hello', text: 'hello' });
  const refusalOf = async (to: string) => {
    const error = await sendTo(to).then(
      () => undefined,
      (error: unknown) => error,
    );
    return error instanceof Error && 'response' in error ? String(error.response) : undefined;
  };
  /** The end of an account's socket. */
  async function openSocket(token: string) {
    const url = `${service.url.replace('http', 'ws')}/ws`;
    const socket = new WebSocket(url, { headers: { authorization: `Bearer ${token}` } });
    const ended = new Promise<number>((resolve) => socket.once('close', resolve));
    await new Promise((resolve, reject) => {
      socket.once('message', resolve);
      socket.once('error', reject);
    });
    return { ended };
  }

  test('a suspended domain: no logins, sockets end, mail is deferred; resumed, all is as before', async () => {
    const { domain } = ada;
    const socket = await openSocket(ada.token);
    const suspended = await post('domains/suspend', { domain, reason: 'unpaid' });
    assert.equal(suspended.status, 200);
    assert.deepEqual(
      [suspended.body.suspended, suspended.body.suspend_reason, suspended.body.status],
      [true, 'unpaid', 'active'],
    );
    assert.equal(await socket.ended, 4403);
    const refused = await login(ada);
    assert.deepEqual([refused.status, refused.body.code], [403, 'account_inactive']);
    const synced = await service.mail(ada.token, 'POST', '/mail/sync', {});
    assert.equal(synced.status, 403);
    assert.match((await refusalOf(ada.address)) ?? '', /^450 4\.1\.2 /);
    const listed = await service.v2('GET', '/v2/operator/domains?status=suspended');
    assert.deepEqual(
      listed.body.items.map((one: { domain: string }) => one.domain),
      [domain],
    );
    const ofUser = await service.v2('GET', `/v2/email-accounts/${ada.id}?user_id=${ada.userId}`);
    assert.equal(ofUser.body.account.status, 'active', 'the account itself is not suspended');

    for (const late of [{}, { reason: 'of another operator' }]) {
      const { body } = await post('domains/suspend', { domain, ...late });
      assert.equal(body.suspended_at, suspended.body.suspended_at);
      assert.equal(body.suspend_reason, 'unpaid');
    }
    const resumed = await post('domains/resume', { domain });
    assert.deepEqual([resumed.status, resumed.body.suspended], [200, false]);
    assert.equal((await login(ada)).status, 200);
    await sendTo(ada.address);
    const [second, first] = await audit();
    assert.deepEqual([first.action, first.target], ['domain.suspend', domain]);
    assert.deepEqual([second.action, second.target], ['domain.resume', domain]);
    const actor = createHash('sha256').update(API_KEY).digest('hex').slice(0, 8);
    assert.equal(first.actor, actor);
  });

  test('a suspended account of any user', async () => {
    const bea = await service.addAccount(ada, 'bea');
    const suspended = await post('accounts/suspend', { id: bea.id });
    assert.deepEqual([suspended.status, suspended.body.suspended], [200, true]);
    assert.equal((await login(bea)).status, 403);
    assert.match((await refusalOf(bea.address)) ?? '', /^450 4\.2\.1 /);
    assert.equal((await login(ada)).status, 200, 'the others go on');
    // Nothing changes, and the log has what was changed.
    await post('accounts/suspend', { id: bea.id });
    const resumed = await post('accounts/resume', { account_id: bea.id });
    assert.equal(resumed.body.suspended, false);
    assert.equal((await login(bea)).status, 200);
    const named = { user_id: bea.userId, display_name: 'Bea', status: 'active' };
    await service.v2('PUT', `/v2/email-accounts/${bea.id}`, named);
    assert.deepEqual(
      (await audit()).slice(0, 3).map((one: { action: string }) => one.action),
      ['account.resume', 'account.suspend', 'account.create'],
    );
    for (const verb of ['suspend', 'resume']) {
      const { status, body } = await post(`accounts/${verb}`, { id: 999_999 });
      assert.deepEqual([status, body.code], [404, 'account_not_found']);
    }
  });

  test('a domain is deleted only if its name is repeated, and its counts are recorded', async () => {
    const cal = await service.makeAccount('cal');
    const { domain } = cal;
    await sendTo(cal.address);
    const dry = await post('domains/delete', { domain });
    assert.deepEqual([dry.status, Object.keys(dry.body)], [200, ['would_remove']]);
    const counts = dry.body.would_remove;
    assert.deepEqual([counts.accounts, counts.messages], [1, 1]);
    assert.ok(counts.bytes > 0);
    for (const confirm of ['', 'yes', ada.domain, `${domain}.`]) {
      const { status, body } = await post('domains/delete', { domain, confirm });
      assert.deepEqual([status, body.errors?.[0]?.field], [400, 'confirm'], confirm);
    }
    assert.equal((await login(cal)).status, 200, 'nothing was done');
    const deleted = await post('domains/delete', { domain, confirm: domain });
    assert.deepEqual(deleted.body, { deleted: domain, removed: counts });
    assert.equal((await login(cal)).status, 401);
    const [entry] = await audit();
    assert.deepEqual([entry.action, entry.target, entry.counts], ['domain.delete', domain, counts]);
    const gone = await post('domains/delete', { domain, confirm: domain });
    assert.equal(gone.status, 404);
  });

  test('deletions by a product are recorded as well', async () => {
    const dan = await service.makeAccount('dan');
    await sendTo(dan.address);
    const { userId: user_id, domain, id } = dan;
    await service.v2('POST', '/v2/email-accounts/delete', { id, user_id });
    await service.v2('POST', '/v2/domains/delete', { domain, user_id });
    const [ofDomain, ofAccount] = await audit();
    assert.deepEqual([ofAccount.action, ofAccount.target], ['account.delete', dan.address]);
    assert.equal(ofAccount.counts.messages, 1);
    assert.deepEqual([ofDomain.action, ofDomain.target], ['domain.delete', domain]);
    assert.equal(ofDomain.counts.accounts, 0);
  });

  test('a wrong field is refused by its name', async () => {
    const { domain } = ada;
    const cases = [
      ['domains/suspend', {}, 'domain'],
      ['domains/suspend', { domain, reason: 'a\nb' }, 'reason'],
      ['domains/suspend', { domain, reason: 'x'.repeat(501) }, 'reason'],
      ['accounts/suspend', {}, 'id'],
      ['accounts/suspend', { id: 'x' }, 'id'],
      ['accounts/suspend', { account_id: 'x' }, 'account_id'],
    ] as const;
    for (const [path, body, field] of cases) {
      const { status, body: said } = await post(path, body);
      assert.deepEqual([status, said.errors?.[0]?.field], [400, field], path);
    }
    assert.equal((await post('domains/suspend', { domain: 'nobody.test' })).status, 404);
  });

  test('settings in force and nodes are those of the service', async () => {
    const settings = await service.v2('GET', '/v2/operator/settings');
    const text = JSON.stringify(settings.body);
    assert.ok(!text.includes(API_KEY));
    const port = settings.body.items.find((one: { key: string }) => one.key === 'SMTP_PORT');
    assert.deepEqual([port.set, port.hidden], [true, false]);
    const { body } = await service.v2('GET', '/v2/operator/nodes');
    assert.ok(body.items.length >= 1);
    assert.ok(body.items.every((one: { running: boolean }) => one.running));
  });
});
