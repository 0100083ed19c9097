/** What a product does with the SDK, on a whole service with a DNS of its own. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { before, mock, test } from 'node:test';
import { atEnd } from '../../../test/support/at-end.ts';
import { type DnsServer, startDnsServer } from '../../../test/support/dns-server.ts';
import { API_KEY, startTestService, type TestService } from '../../../test/support/service.ts';
import { ApiError, type DnsRecord, Postroom } from '../src/index.ts';
import { verifyWebhook, type WebhookEvent } from '../src/webhooks.ts';

let dns: DnsServer;
let service: TestService;
let postroom: Postroom;

before(async () => {
  dns = await startDnsServer();
  atEnd(() => dns.stop());
  service = await startTestService('sqlite', {
    DNS_SERVERS: dns.address,
    OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8',
  });
  postroom = new Postroom({ baseUrl: service.url, apiKey: API_KEY });
});

/** Publishes what the API asks for. */
function publish(domain: string, records: readonly DnsRecord[]): void {
  dns.publish(
    records.map(({ host, record_type, expected_value, priority }) => [
      host === '@' ? domain : `${host}.${domain}`,
      record_type === 'MX' ? 'MX' : 'TXT',
      record_type === 'MX' ? `${priority} ${expected_value}` : expected_value,
    ]),
  );
}

test('a domain is claimed, published and active, and has an account whose app gets a token', async () => {
  const user = postroom.user('u_42');
  const { domain } = await user.domains.create({ domain: 'acme.test', organization_id: 'o' });
  publish('acme.test', domain.dns);
  const checks: string[] = [];
  const active = await user.domains.waitUntilActive('acme.test', {
    onCheck: (found) => checks.push(found.domain.status),
  });
  assert.equal(active.domain.status, 'active');
  assert.deepEqual(checks, ['active']);

  const { account, password } = await user.accounts.create({
    domain: 'acme.test',
    local_part: 'ada',
    display_name: 'Ada',
  });
  assert.ok(password.length >= 8);
  const { token } = await user.accounts.token(account.id);
  const answer = await service.mail(token, 'GET', '/mail/mailboxes');
  assert.equal(answer.status, 200);
});

test('a wait that is over says which records were not found', async () => {
  const user = postroom.user('u_43');
  await user.domains.create({ domain: 'unpublished.test' });
  await assert.rejects(
    user.domains.waitUntilActive('unpublished.test', { timeoutMs: 0 }),
    /unpublished\.test is not active:\nMX @: /,
  );
});

test('of two users each sees his own', async () => {
  await postroom.user('eve').domains.create({ domain: 'eve.test' });
  const [mine] = await postroom.user('eve').domains.list().toArray({ max: 10 });
  assert.equal(mine?.domain, 'eve.test');
  await assert.rejects(
    postroom.user('eve').domains.get('acme.test'),
    (error) => error instanceof ApiError && error.code === 'domain_not_found',
  );
});

test('a password whose answer was lost comes again', async () => {
  let lose = true;
  const send: typeof fetch = async (url, init) => {
    const response = await fetch(url, init);
    if (lose) {
      lose = false;
      await response.arrayBuffer();
      throw new TypeError('fetch failed', { cause: new Error('other side closed') });
    }
    return response;
  };
  const losing = new Postroom({ baseUrl: service.url, apiKey: API_KEY, fetch: send });
  mock.method(Math, 'random', () => 0);
  const { account, password } = await losing
    .user('u_42')
    .accounts.create({ domain: 'acme.test', local_part: 'bob', display_name: 'Bob' });
  mock.restoreAll();
  const login = { address: account.address, password };
  assert.equal((await service.mail('', 'POST', '/mail/token', login)).status, 200);
});

test('a list is gone through page by page, no id twice, while items go', async () => {
  const user = postroom.user('many');
  for (let i = 0; i < 9; i++) await user.domains.create({ domain: `m${i}.test` });
  const seen: string[] = [];
  for await (const { domain } of user.domains.list({ limit: 2 })) {
    seen.push(domain);
    if (domain === 'm1.test') await user.domains.delete('m0.test');
  }
  assert.deepEqual(
    seen,
    Array.from({ length: 9 }, (_, i) => `m${i}.test`),
  );
  const page = await user.domains.list({ limit: 3 });
  assert.deepEqual([page.items.length, page.offset], [3, 0]);
  assert.equal((await user.domains.list().toArray({ max: 5 })).length, 5);
});

test('operators reach every operation by its id, and go through lists by their cursor', async () => {
  const names: string[] = [];
  for await (const { domain } of postroom.list('listAllDomains', { query: { limit: 3 } })) {
    names.push(domain);
  }
  assert.equal(new Set(names).size, names.length);
  assert.ok(names.length >= 10, names.join(' '));
  const { checks } = await postroom.call('getAttention', {});
  assert.ok(checks.length > 5);
});

test('a mail that came in reaches a webhook, which the SDK checks', async () => {
  const secret = `whsec_${Buffer.alloc(24, 'k').toString('base64')}`;
  let received: (event: WebhookEvent) => void;
  const event = new Promise<WebhookEvent>((resolve) => {
    received = resolve;
  });
  const receiver = createServer((request, response) => {
    void buffer(request)
      .then((body) => verifyWebhook(body, request.headers, secret))
      .then(received)
      .finally(() => response.writeHead(204).end());
  }).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  atEnd(async () => {
    receiver.close();
  });
  const { port } = receiver.address() as AddressInfo;
  await postroom.user('u_42').domains.setRoute('acme.test', {
    forward_mode: 'webhook',
    webhook_url: `http://127.0.0.1:${port}/hook`,
    webhook_secret: secret,
  });
  await service.send({
    from: 'bob@sender.test',
    to: 'ada@acme.test',
    subject: 'Hi',
    text: 'Hello',
  });
  const { type, data, id } = await event;
  assert.equal(type, 'message.received');
  assert.equal(data.subject, 'Hi');
  const delivery = postroom.user('u_42').deliveries.list('acme.test');
  const ids = (await delivery.toArray({ max: 10 })).map((one) => JSON.stringify(one));
  assert.ok(
    ids.some((one) => one.includes(id)),
    `${id} in ${ids}`,
  );
});
