/** Where a domain's route sends its mail: to a webhook, to a webhook and the mailbox, on to an address. */
import assert from 'node:assert/strict';
import { readdir, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { SMTPServer, type SMTPServerDataStream } from 'smtp-server';
import { Webhook } from 'standardwebhooks';
import { onEachEngine } from '../support/databases.ts';
import {
  nodeCount,
  startTestService,
  type TestAccount,
  type TestService,
} from '../support/service.ts';

interface Posted {
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** A queue of what arrived, for tests that wait for the next. */
class Arrivals<T> {
  readonly #arrived: T[] = [];
  readonly #waiting: ((item: T) => void)[] = [];

  add(item: T): void {
    const next = this.#waiting.shift();
    if (next) next(item);
    else this.#arrived.push(item);
  }

  next(): Promise<T> {
    const item = this.#arrived.shift();
    return item === undefined
      ? new Promise((resolve) => this.#waiting.push(resolve))
      : Promise.resolve(item);
  }
}

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

onEachEngine('routes', (engine) => {
  let service: TestService;
  let status = 200;
  const posts = new Arrivals<Posted>();
  const mails = new Arrivals<{ from: string; to: string; source: string }>();
  let refuse: Error | undefined;
  const receiver = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    request.on('end', () => {
      // Heeded with 503: no second attempt comes while a test looks at the first.
      response.writeHead(status, { 'retry-after': '3600' }).end('said by the receiver');
      posts.add({ headers: request.headers, body });
    });
  });
  const farEnd = new SMTPServer({
    disabledCommands: ['AUTH', 'STARTTLS'],
    logger: false,
    onRcptTo: (_address, _session, done) => done(refuse),
    onData(stream: SMTPServerDataStream, session, done) {
      let source = '';
      stream.setEncoding('latin1').on('data', (text: string) => {
        source += text;
      });
      stream.on('end', () => {
        const { mailFrom, rcptTo } = session.envelope;
        const from = mailFrom === false ? '' : mailFrom.address;
        mails.add({ from, to: rcptTo[0]?.address ?? '', source });
        done();
      });
    },
  });
  const url = () => `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;

  before(async () => {
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    await new Promise<void>((resolve) => farEnd.listen(0, '127.0.0.1', () => resolve()));
    const farPort = (farEnd.server.address() as AddressInfo).port;
    service = await startTestService(engine, {
      OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8',
      SMTP_RELAY_URL: `smtp://127.0.0.1:${farPort}`,
    });
  });
  after(() => {
    receiver.close();
    receiver.closeAllConnections();
    farEnd.close();
  });

  const route = (account: TestAccount, body: object) =>
    service.v2('PUT', `/v2/domains/${account.domain}/route`, { user_id: account.userId, ...body });
  const deliveries = async (account: TestAccount) =>
    (await service.v2('GET', `/v2/domains/${account.domain}/deliveries?user_id=${account.userId}`))
      .body.items;
  const count = async (account: TestAccount, mailbox = 'INBOX') =>
    (await service.mail(account.token, 'POST', '/mail/sync', { mailbox })).body.changes.added
      .length;
  const verify = ({ headers, body }: Posted) =>
    // biome-ignore lint/suspicious/noExplicitAny: whatever JSON was posted
    new Webhook(SECRET).verify(body, headers as Record<string, string>) as any;

  async function until(check: () => Promise<boolean>): Promise<void> {
    while (!(await check())) await new Promise((resolve) => setTimeout(resolve, 10));
  }

  test('webhook: signed by the open standard, with a link to the source', async () => {
    const ann = await service.makeAccount();
    status = 200;
    await route(ann, { forward_mode: 'webhook', webhook_url: url(), webhook_secret: SECRET });
    await service.send({
      from: 'Bob <bob@example.test>',
      to: [`anybody@${ann.domain}`, ann.address],
      subject: 'To the webhook',
      text: 'Hello.',
      html: '<p>Hello.</p>',
      attachments: [{ filename: 'a.txt', content: 'attached' }],
    });
    const { type, data } = verify(await posts.next());
    assert.equal(type, 'message.received');
    assert.equal(data.domain, ann.domain);
    assert.deepEqual(data.envelope.to, [`anybody@${ann.domain}`, ann.address]);
    assert.equal(data.subject, 'To the webhook');
    assert.equal(data.text.trim(), 'Hello.');
    assert.equal(data.attachments[0].filename, 'a.txt');
    const link = new URL(data.raw_url);
    const raw = await fetch(service.url + link.pathname + link.search);
    assert.equal(raw.headers.get('content-type'), 'message/rfc822');
    assert.match(await raw.text(), /Subject: To the webhook/);
    const file = new URL(data.attachments[0].url);
    const open = (headers: Record<string, string> = {}, from = file) =>
      fetch(service.url + from.pathname + from.search, { headers });
    const attached = await open();
    assert.equal(await attached.text(), 'attached');
    assert.equal(attached.headers.get('content-type'), 'application/octet-stream');
    assert.equal(attached.headers.get('content-disposition'), 'attachment; filename=a.txt');
    assert.equal(attached.headers.get('x-content-type-options'), 'nosniff');
    const ranged = await open({ range: 'bytes=2-4' });
    assert.deepEqual([ranged.status, await ranged.text()], [206, 'tac']);
    // A link is for its one part.
    const other = new URL(file);
    other.pathname = other.pathname.replace(/[^/]*$/, '1');
    assert.equal((await open({}, other)).status, 403);
    link.searchParams.set('expires', '9999999999');
    const forged = await fetch(service.url + link.pathname + link.search);
    assert.equal(forged.status, 403);
    await until(async () => (await deliveries(ann))[0].status === 'delivered');
    assert.equal(await count(ann), 0);
  });

  test('webhook: a new secret signs beside the one before, also what was accepted under that', async () => {
    const ann = await service.makeAccount();
    const mail = { from: 'bob@example.test', to: ann.address, text: 'x' };
    // Not attempted again by the schedule: what the next test waits for would be that post.
    status = 503;
    const settings = { forward_mode: 'webhook', webhook_url: url() };
    await route(ann, { ...settings, webhook_secret: SECRET });
    await service.send(mail);
    verify(await posts.next());
    await until(async () => (await deliveries(ann))[0].last_error !== undefined);
    await route(ann, { ...settings, webhook_secret: 'the new one' });
    const again = `/v2/domains/${ann.domain}/deliveries/${(await deliveries(ann))[0].id}/retry`;
    status = 200;
    assert.equal((await service.v2('POST', again, { user_id: ann.userId })).status, 200);
    const retried = await posts.next();
    const fresh = new Webhook('the new one', { format: 'raw' });
    fresh.verify(retried.body, retried.headers as Record<string, string>);
    verify(retried);
  });

  const skip = nodeCount > 1 && 'a bucket has no file';
  test('webhook: a link to a source whose file is missing is answered 503', { skip }, async () => {
    const ann = await service.makeAccount();
    status = 200;
    await route(ann, { forward_mode: 'webhook', webhook_url: url(), webhook_secret: SECRET });
    const large = { filename: 'a.bin', content: Buffer.alloc(200_000, 'x') };
    const mail = { from: 'bob@example.test', to: ann.address, text: 'x', attachments: [large] };
    await service.send(mail);
    const { data } = verify(await posts.next());
    const bodies = join(service.config.dataDir, 'bodies');
    const files = (await readdir(bodies, { recursive: true })).filter((name) =>
      /^[0-9a-f]{2}\//.test(name),
    );
    assert.equal(files.length, 1);
    for (const file of files) await rm(join(bodies, file));
    const link = new URL(data.raw_url);
    const answer = await fetch(service.url + link.pathname + link.search);
    assert.equal(answer.status, 503);
    assert.match(await answer.text(), /"code":"body_unavailable"/);
  });

  test('webhook: given up for good, it is stored for accounts and bounced for others', async () => {
    const ann = await service.makeAccount();
    status = 410;
    await route(ann, { forward_mode: 'webhook', webhook_url: url() });
    await service.send({
      from: 'bob@example.test',
      to: [ann.address, `nobody@${ann.domain}`],
      subject: 'Gone',
      text: 'x',
    });
    await posts.next();
    const bounce = await mails.next();
    assert.equal(bounce.from, '');
    assert.equal(bounce.to, 'bob@example.test');
    assert.match(bounce.source, /multipart\/report/);
    assert.match(bounce.source, new RegExp(`Final-Recipient: rfc822; nobody@${ann.domain}`));
    assert.doesNotMatch(bounce.source, new RegExp(`Final-Recipient: rfc822; ${ann.address}`));
    assert.equal(await count(ann), 1);
    const [failed] = (await deliveries(ann)).filter(
      ({ kind }: { kind: string }) => kind === 'webhook',
    );
    assert.equal(failed.status, 'failed');
    assert.deepEqual(failed.last_error, { status: 410, text: 'said by the receiver' });

    status = 200;
    const path = `/v2/domains/${ann.domain}/deliveries/${failed.id}/retry`;
    const retried = await service.v2('POST', path, { user_id: ann.userId });
    assert.equal(retried.status, 200);
    const again = await posts.next();
    assert.equal(again.headers['webhook-id'], failed.webhook_id);
    await until(async () =>
      (await deliveries(ann)).every(({ status: s }: { status: string }) => s === 'delivered'),
    );
    assert.equal(await count(ann), 1, 'a replay stores nothing once more');
    const strange = await service.v2('POST', path, { user_id: 'somebody else' });
    assert.equal(strange.body.code, 'domain_not_found');
  });

  test('webhook_then_store: stored after the first attempt, whatever its result', async () => {
    const ann = await service.makeAccount();
    status = 503;
    await route(ann, { forward_mode: 'webhook_then_store', webhook_url: url() });
    const messageId = '<both@example.test>';
    const mail = { from: 'bob@example.test', to: ann.address, subject: 'Both', text: 'x' };
    await service.send({ ...mail, messageId });
    const post = await posts.next();
    const { data } = JSON.parse(post.body);
    assert.equal(data.mailbox, 'INBOX');
    await until(async () => (await count(ann)) === 1);
    await service.send({ ...mail, subject: 'Another' });
    // Whoever got the webhook finds its delivery by the header.
    const id = String(post.headers['webhook-id']);
    const path = `/v2/domains/${ann.domain}/deliveries?user_id=${ann.userId}&webhook_id=`;
    const [delivery, ...others] = (await service.v2('GET', path + id)).body.items;
    assert.deepEqual(others, []);
    assert.deepEqual((await service.v2('GET', `${path}0`)).body.items, []);
    assert.deepEqual([delivery.message_id, delivery.subject], [messageId, 'Both']);
    assert.deepEqual(delivery.stored, [{ address: ann.address, mailbox: 'INBOX', uid: 1 }]);
    assert.equal(delivery.status, 'queued');
    assert.equal(delivery.attempts, 1);
    assert.ok(Date.parse(delivery.next_attempt_at) > Date.now());
    assert.equal(delivery.last_error.status, 503);
  });

  test('forward_email: sent on with a rewritten sender, and a bounce finds its way back', async () => {
    const ann = await service.makeAccount();
    await route(ann, { forward_mode: 'forward_email', forward_to_email: 'me@elsewhere.example' });
    await service.send({ from: 'bob@example.test', to: ann.address, subject: 'On', text: 'x' });
    const forwarded = await mails.next();
    assert.equal(forwarded.to, 'me@elsewhere.example');
    assert.match(forwarded.from, new RegExp(`^SRS0=.*=example\\.test=bob@${ann.domain}$`, 'i'));
    assert.match(forwarded.source, /^ARC-Seal: i=1; [\s\S]*\r\nDKIM-Signature: /);
    assert.match(forwarded.source, new RegExp(`Delivered-To: ${ann.address}`));
    assert.equal(await count(ann), 0);

    // The far end bounces it: from the null sender, to the rewritten address.
    await service.send({
      envelope: { from: '', to: forwarded.from },
      raw: 'Subject: Undelivered\r\n\r\nsorry\r\n',
    });
    const returned = await mails.next();
    assert.equal(returned.to, 'bob@example.test');
    assert.equal(returned.from, '');
    assert.match(returned.source, /Subject: Undelivered/);

    // What was forwarded once is not forwarded again.
    await assert.rejects(
      service.send({
        envelope: { from: 'bob@example.test', to: ann.address },
        raw: forwarded.source,
      }),
      /554 5\.4\.6/,
    );
  });

  test('forward_email: to another domain that is hosted here', async () => {
    const [ann, ben] = [await service.makeAccount(), await service.makeAccount('ben')];
    await route(ann, { forward_mode: 'forward_email', forward_to_email: ben.address });
    await service.send({ from: 'bob@example.test', to: ann.address, subject: 'On', text: 'x' });
    await until(async () => (await count(ben)) === 1);
    assert.equal(await count(ann), 0);
  });

  test('forward_email: refused for good by the far end, the sender gets a bounce', async () => {
    const ann = await service.makeAccount();
    await route(ann, { forward_mode: 'forward_email', forward_to_email: 'no@elsewhere.example' });
    refuse = Object.assign(new Error('5.1.1 no such user'), { responseCode: 550 });
    await service.send({ from: 'bob@example.test', to: ann.address, subject: 'No', text: 'x' });
    await until(async () => (await deliveries(ann))[0]?.status === 'failed');
    refuse = undefined;
    const { body: ofDomain } = await service.v2('GET', `/v2/operator/domains/${ann.domain}`);
    assert.deepEqual([ofDomain.sent_24h, ofDomain.bounced_24h], [1, 1]);
    const path = `/v2/domains/${ann.domain}/deliveries?user_id=${ann.userId}`;
    // The DSN may have met the refusal, too: then it waits for its next attempt or ended.
    const { body } = await service.v2('GET', path);
    const bounce = body.items.find(({ kind }: { kind: string }) => kind === 'bounce');
    assert.equal(bounce.destination, 'example.test');
  });

  test('deliveries are shown only with the API key', async () => {
    const ann = await service.makeAccount();
    const path = `/v2/domains/${ann.domain}/deliveries`;
    for (const key of [undefined, '', 'wrong']) {
      const headers = key === undefined ? undefined : { 'x-api-key': key };
      const listed = await fetch(`${service.url}${path}?user_id=${ann.userId}`, {
        ...(headers && { headers }),
      });
      assert.equal(listed.status, 401);
      const retried = await fetch(`${service.url}${path}/1/retry`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify({ user_id: ann.userId }),
      });
      assert.equal(retried.status, 401);
    }
  });
});
