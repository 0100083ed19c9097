/** Receivers of webhooks and of forwarded mail that fail in every way: nothing is lost by it. */
import assert from 'node:assert/strict';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, createServer as createListener, type Server } from 'node:net';
import { after, before, test } from 'node:test';
import { SMTPServer, type SMTPServerDataStream, type SMTPServerSession } from 'smtp-server';
import { readCertificate } from '../support/certificate.ts';
import { onEachEngine } from '../support/databases.ts';
import { type DnsServer, startDnsServer } from '../support/dns-server.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';

const MAX_MESSAGE_BYTES = 3 * 1024 * 1024;
const METADATA = 'http://169.254.169.254/latest/meta-data/';

interface Mail {
  readonly from: string;
  readonly to: string;
  readonly source: Buffer;
}

/** What the far ends do with mail to a local part; anything else is taken. */
const REPLIES: Record<string, Error> = {
  grey: Object.assign(new Error('4.7.1 come back later'), { responseCode: 451 }),
  refused: Object.assign(new Error('5.1.1 no such user'), { responseCode: 550 }),
};

const endless = (response: ServerResponse) => {
  const more = () => {
    while (response.writable && response.write('x'.repeat(16_384)));
  };
  response.on('drain', more);
  more();
};

/** What receivers do, by host name. */
const faults: Record<string, (response: ServerResponse) => void> = {
  'broken.example': (response) => response.writeHead(500).end('it broke'),
  'busy.example': (response) => response.writeHead(429, { 'retry-after': '120' }).end(),
  'absurd.example': (response) => response.writeHead(503, { 'retry-after': '9999999999' }).end(),
  'garbled.example': (response) => response.writeHead(429, { 'retry-after': '-1e9; soon' }).end(),
  'past.example': (response) =>
    response.writeHead(429, { 'retry-after': 'Sun, 06 Nov 1994 08:49:37 GMT' }).end(),
  'gone.example': (response) => response.writeHead(410).end('not here any more'),
  'redirect.example': (response) => response.writeHead(307, { location: METADATA }).end(),
  'endless.example': (response) => endless(response.writeHead(500)),
  'slow.example': (response) => {
    response.socket?.write('HTTP/1.1 200 OK\r\nx-slow: ');
    const timer = setInterval(() => response.socket?.write('x'), 1_000);
    response.socket?.once('close', () => clearInterval(timer));
  },
  'midway.example': (response) => {
    response.writeHead(200, { 'content-length': 1_000 }).flushHeaders();
    response.socket?.end('not all of it');
  },
  'cut.example': (response) => response.socket?.destroy(),
};

function portOf(server: Pick<Server, 'address'>): number {
  return (server.address() as AddressInfo).port;
}

function listen(server: Server, host: string, port = 0): Promise<void> {
  return new Promise((resolve) => server.listen(port, host, () => resolve()));
}

onEachEngine('hostile receivers', (engine) => {
  let service: TestService;
  let dns: DnsServer;
  let httpsPort: number;
  const bodies: { host: string; body: string }[] = [];
  const mails: Mail[] = [];
  let vanishes = true;

  const answer: RequestListener = (request, response) => {
    const host = (request.headers.host ?? '').split(':')[0] ?? '';
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    request.on('error', () => {});
    request.on('end', () => {
      bodies.push({ host, body });
      const fault = faults[host];
      if (fault) fault(response);
      else response.writeHead(200, { connection: 'close' }).end();
    });
  };
  const receiver = createServer(answer);
  let secure: ReturnType<typeof createTlsServer> | undefined;
  const farEnd = new SMTPServer({
    disabledCommands: ['AUTH', 'STARTTLS'],
    logger: false,
    closeTimeout: 100,
    onRcptTo: ({ address }, _session, done) => done(REPLIES[address.split('@')[0] ?? '']),
    onData(stream: SMTPServerDataStream, session: SMTPServerSession, done) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const { mailFrom, rcptTo } = session.envelope;
        const from = mailFrom === false ? '' : mailFrom.address;
        const to = rcptTo[0]?.address ?? '';
        mails.push({ from, to, source: Buffer.concat(chunks) });
        // It has taken the message, and is gone before it could say so.
        if (to.startsWith('vanishes') && vanishes) closeAll();
        else done();
      });
    },
  });
  farEnd.on('error', () => {});
  const closeAll = () => {
    for (const connection of farEnd.connections) connection.close();
  };
  /** Takes connections and says nothing. */
  const tarpit = createListener((socket) => socket.on('error', () => {}).unref());

  before(async () => {
    await listen(receiver, '127.0.0.1');
    secure = createTlsServer(readCertificate('one'), answer);
    await listen(secure, '127.0.0.1');
    httpsPort = portOf(secure);
    await new Promise<void>((resolve) => farEnd.listen(0, '127.0.0.1', () => resolve()));
    const mxPort = portOf(farEnd.server);
    await listen(tarpit, '127.0.0.2', mxPort);
    dns = await startDnsServer([
      ...Object.keys(faults).map((host) => [host, 'A', '127.0.0.1'] as const),
      ['fine.example', 'A', '127.0.0.1'],
      ['tls.example', 'A', '127.0.0.1'],
      ['rebound.example', 'A', '127.0.0.1'],
      ['mixed.example', 'A', '127.0.0.1'],
      ['mixed.example', 'A', '10.0.0.1'],
      ['mapped.example', 'AAAA', '::ffff:10.0.0.1'],
      ['sender.example', 'MX', '10 mx.elsewhere.example'],
      ['elsewhere.example', 'MX', '10 mx.elsewhere.example'],
      ['mx.elsewhere.example', 'A', '127.0.0.1'],
      ['inside.example', 'MX', '10 mx.inside.example'],
      ['mx.inside.example', 'A', '192.168.7.7'],
      ...[1, 2, 3, 4, 5, 6, 7].map((n) => [`tar${n}.example`, 'MX', '10 mx.tar.example'] as const),
      ['mx.tar.example', 'A', '127.0.0.2'],
    ]);
    dns.faults = (name) => (name === 'dead.example' ? 'silent' : undefined);
    service = await startTestService(engine, {
      DNS_SERVERS: dns.address,
      MX_PORT: String(mxPort),
      OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8',
      MAX_MESSAGE_BYTES: String(MAX_MESSAGE_BYTES),
    });
  });
  after(() => {
    receiver.close();
    receiver.closeAllConnections();
    secure?.close();
    secure?.closeAllConnections();
    closeAll();
    farEnd.close();
    tarpit.close();
  });

  const routeTo = async (body: object): Promise<TestAccount> => {
    const account = await service.makeAccount();
    const path = `/v2/domains/${account.domain}/route`;
    const set = await service.v2('PUT', path, { user_id: account.userId, ...body });
    assert.equal(set.status, 200, JSON.stringify(set.body));
    return account;
  };
  const hookAt = (host: string) =>
    routeTo({
      forward_mode: 'webhook_then_store',
      webhook_url: host.includes('/') ? host : `http://${host}:${portOf(receiver)}/hook`,
    });
  const forwardTo = (address: string) =>
    routeTo({ forward_mode: 'forward_email', forward_to_email: address });
  const send = (account: TestAccount, more: object = {}) =>
    service.send({
      envelope: { from: 'bob@sender.example', to: account.address },
      from: 'bob@sender.example',
      to: account.address,
      subject: 'Hello',
      text: 'x',
      ...more,
    });
  const deliveries = async ({ domain, userId }: TestAccount) =>
    (await service.v2('GET', `/v2/domains/${domain}/deliveries?user_id=${userId}`)).body.items;
  const stored = async ({ token }: TestAccount): Promise<number> =>
    (await service.mail(token, 'POST', '/mail/sync', {})).body.changes.added.length;

  async function until<T>(look: () => Promise<T | undefined> | T | undefined): Promise<T> {
    for (;;) {
      const found = await look();
      if (found) return found;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** The first delivery, once its first attempt is over. */
  const firstAttempt = (account: TestAccount) =>
    until(async () => {
      const [first] = await deliveries(account);
      return first?.attempts > 0 ? first : undefined;
    });

  test('a webhook that fails says why, is retried, and the mailbox has the message', async () => {
    const expected: [string, number | undefined, RegExp][] = [
      ['broken.example', 500, /^it broke$/],
      ['busy.example', 429, /^$/],
      ['absurd.example', 503, /^$/],
      ['garbled.example', 429, /^$/],
      ['past.example', 429, /^$/],
      ['gone.example', 410, /not here any more/],
      ['redirect.example', 307, /redirects are not followed/],
      ['endless.example', 500, /^x{500}$/],
      ['slow.example', undefined, /no answer within 15 s/],
      ['cut.example', undefined, /closed before the answer/],
      [`https://tls.example:${httpsPort}/`, undefined, /certificate/],
      ['mixed.example', undefined, /the address of mixed.example is private/],
      ['mapped.example', undefined, / is private: /],
      ['nowhere.example', undefined, /no address/],
      ['http://0xa9fea9fe/', undefined, / is link-local: /],
      ['http://0/', undefined, / is unspecified: /],
      ['http://[::ffff:10.0.0.1]/', undefined, / is private: /],
      ['http://[64:ff9b::a9fe:a9fe]/', undefined, / is link-local: /],
    ];
    const accounts = await Promise.all(expected.map(([host]) => hookAt(host)));
    await Promise.all(accounts.map((account) => send(account)));
    // At the same time: one of them takes 15 s, and others have had more attempts by then.
    const attempted = await Promise.all(
      accounts.map(async (account) => [account, await firstAttempt(account)] as const),
    );
    for (const [index, [host, status, text]] of expected.entries()) {
      const [account, delivery] = attempted[index] ?? assert.fail();
      assert.equal(delivery.last_error.status, status, host);
      assert.match(delivery.last_error.text, text, host);
      assert.equal(delivery.status, host === 'gone.example' ? 'failed' : 'queued', host);
      assert.equal(await stored(account), 1, host);
      // On a busy machine the second attempt may be over as well, or under way: then none is the next.
      const { attempts, next_attempt_at: next } = delivery;
      if (delivery.status !== 'queued' || attempts > 1 || next === undefined) continue;
      const waits = Date.parse(next) - Date.parse(delivery.updated_at);
      const asked = { 'busy.example': 120, 'absurd.example': 86_400 }[host] ?? 5;
      assert.ok(waits >= asked * 1_000 && waits <= asked * 1_100 + 1, `${host}: ${waits}`);
    }
  });

  test('a webhook with a 2xx is delivered, whatever happens to the rest of the answer', async () => {
    const account = await hookAt('midway.example');
    await send(account);
    assert.equal((await firstAttempt(account)).status, 'delivered');
  });

  test('a name whose address changes is checked again', async () => {
    const account = await hookAt('rebound.example');
    await send(account);
    assert.equal((await firstAttempt(account)).status, 'delivered');
    dns.remove('rebound.example');
    dns.add(['rebound.example', 'A', '169.254.169.254']);
    await send(account);
    const again = await until(async () =>
      (await deliveries(account)).find(({ status }: { status: string }) => status === 'queued'),
    );
    const refused = await until(async () => {
      const { items } = (
        await service.v2(
          'GET',
          `/v2/domains/${account.domain}/deliveries?user_id=${account.userId}&status=queued`,
        )
      ).body;
      return items[0]?.last_error;
    });
    assert.equal(again.kind, 'webhook');
    assert.match(refused.text, / is link-local: /);
    assert.equal(bodies.filter(({ host }) => host === 'rebound.example').length, 1);
  });

  test('a receiver whose name servers are dead delays no other', async () => {
    const dead = await hookAt('dead.example');
    const fine = await hookAt('fine.example');
    for (let n = 0; n < 40; n++) await send(dead);
    await until(() => dns.asked.some(({ name }) => name === 'dead.example'));
    await send(fine);
    assert.equal((await firstAttempt(fine)).status, 'delivered');
    const last = (await deliveries(dead)).at(-1);
    assert.equal(last.attempts, 0, 'its questions are still open');
  });

  test('far ends that do not answer delay no other', async () => {
    const slow = await Promise.all(
      [1, 2, 3, 4, 5, 6, 7].map((n) => forwardTo(`a@tar${n}.example`)),
    );
    // In turn for each account: all at once would be more connections than one client may have.
    for (const account of slow) {
      await Promise.all(Array.from({ length: 20 }, () => send(account)));
    }
    const fine = await forwardTo('quick@elsewhere.example');
    await send(fine);
    assert.equal((await firstAttempt(fine)).status, 'delivered');
    for (const account of slow) assert.equal((await deliveries(account))[0].attempts, 0);
  });

  test('one account that writes to 500 domains that say nothing delays the mail of no other', async () => {
    const domains = Array.from({ length: 500 }, (_, n) => `deaf${n}.example`);
    dns.add(...domains.map((name) => [name, 'MX', '10 mx.tar.example'] as const));
    const one = await service.makeAccount();
    const others = [await service.addAccount(one, 'ben'), await service.makeAccount()];
    const write = async ({ token }: TestAccount, to: string[]) => {
      const sent = await service.mail(token, 'POST', '/mail/send', {
        to: to.map((address) => ({ address })),
        subject: 'Hello',
        text: 'x',
      });
      assert.equal(sent.status, 202, JSON.stringify(sent.body));
      return sent.body.id;
    };
    const flood: string[] = [];
    for (let at = 0; at < 500; at += 100) {
      flood.push(
        await write(
          one,
          domains.slice(at, at + 100).map((name) => `a@${name}`),
        ),
      );
    }
    const before = mails.length;
    for (const account of others) {
      await write(
        account,
        [1, 2, 3, 4].map((n) => `n${n}@elsewhere.example`),
      );
    }
    // One for the recipients of one destination.
    await until(() => mails.length >= before + others.length);
    for (const id of flood) {
      const { recipients } = (await service.mail(one.token, 'GET', `/mail/sends/${id}`)).body;
      const waiting = recipients.filter(({ status }: { status: string }) => status === 'queued');
      assert.equal(waiting.length, 100, 'none has ended: they still hold what they have');
    }
  });

  test('deferred mail is retried, also where it may have been accepted', async () => {
    const grey = await forwardTo('grey@elsewhere.example');
    await send(grey);
    const putOff = await firstAttempt(grey);
    assert.deepEqual([putOff.status, putOff.last_error.status], ['queued', 451]);
    assert.match(putOff.last_error.text, /come back later/);

    const account = await forwardTo('vanishes@elsewhere.example');
    await send(account);
    const unclear = await firstAttempt(account);
    assert.equal(unclear.status, 'queued');
    assert.match(unclear.last_error.text, /it may have been accepted/);
    vanishes = false;
    const path = `/v2/domains/${account.domain}/deliveries/${unclear.id}/retry`;
    await service.v2('POST', path, { user_id: account.userId });
    await until(async () => (await deliveries(account))[0].status === 'delivered');

    const inside = await forwardTo('a@inside.example');
    await send(inside);
    assert.match((await firstAttempt(inside)).last_error.text, /not a public address/);
  });

  test('mail that is refused for good: the sender gets a bounce, the null sender does not', async () => {
    const account = await forwardTo('refused@elsewhere.example');
    const isBounce = ({ from, to }: Mail) => from === '' && to === 'carl@sender.example';
    await send(account, { envelope: { from: '', to: account.address } });
    assert.equal((await firstAttempt(account)).status, 'failed');
    const to = [account.address, `another@${account.domain}`];
    await send(account, { envelope: { from: 'carl@sender.example', to } });
    const dsn = await until(() => mails.find(isBounce));
    assert.match(dsn.source.toString(), /Status: 5\.1\.1/);
    for (const recipient of to) {
      assert.match(dsn.source.toString(), new RegExp(`Final-Recipient: rfc822; ${recipient}`));
    }
    // Where mail goes on to is not told.
    assert.doesNotMatch(dsn.source.toString(), /refused@elsewhere/);
    const listed = await deliveries(account);
    const kinds = listed.map(({ kind }: { kind: string }) => kind);
    assert.deepEqual(kinds, ['forward', 'forward', 'bounce']);
  });

  test('two domains that forward to each other: round once, then the sender gets a bounce', async () => {
    const one = await service.makeAccount();
    const other = await forwardTo(`x@${one.domain}`);
    await service.v2('PUT', `/v2/domains/${one.domain}/route`, {
      user_id: one.userId,
      forward_mode: 'forward_email',
      forward_to_email: `y@${other.domain}`,
    });
    // Neither lets us send for it: between the two of them that does not count.
    for (const { domain } of [one, other]) dns.add([domain, 'TXT', 'v=spf1 -all']);
    await send(one, { envelope: { from: 'dora@sender.example', to: one.address } });
    const dsn = await until(() => mails.find(({ to }) => to === 'dora@sender.example'));
    assert.equal(dsn.from, '');
    assert.match(dsn.source.toString(), /5\.4\.6/);
    await until(async () =>
      [...(await deliveries(one)), ...(await deliveries(other))].every(
        ({ status }) => status !== 'queued',
      ),
    );
    const itself = await service.v2('PUT', `/v2/domains/${one.domain}/route`, {
      user_id: one.userId,
      forward_mode: 'forward_email',
      forward_to_email: `z@${one.domain}`,
    });
    assert.equal(itself.body.errors[0].field, 'forward_to_email');
  });

  test('a changed return address accepts nothing', async () => {
    const account = await forwardTo('kept@elsewhere.example');
    await send(account);
    const { from } = await until(() => mails.find(({ to }) => to === 'kept@elsewhere.example'));
    const returned = (to: string, sender = '') =>
      service.send({
        envelope: { from: sender, to },
        raw: 'Subject: Undelivered\r\n\r\nsorry\r\n',
      });
    const forged = from.replace('=bob@', '=eve@');
    assert.notEqual(forged, from);
    await assert.rejects(returned(forged), /550 5\.7\.1/);
    await assert.rejects(returned(`SRS0=AAAAAAAA=AA=sender.example=bob@${account.domain}`), /550/);
    await assert.rejects(returned(`SRS1=AAAAAAAA=sender.example==x@${account.domain}`), /550/);
    await assert.rejects(returned(from, 'bob@sender.example'), /550 5\.7\.1/);
    await returned(from.toLowerCase());
    await until(() => mails.find(({ source }) => source.includes('Subject: Undelivered')));
  });

  test('a message of the largest size is sent by webhook and forwarded', async () => {
    const line = `${'x'.repeat(76)}\r\n`;
    const head = 'From: bob@sender.example\r\nSubject: Large\r\n\r\n';
    const room = MAX_MESSAGE_BYTES - head.length - '\r\n'.length;
    const lines = line.repeat(Math.floor(room / line.length) - 1);
    const raw = `${head}${lines}${'y'.repeat(room - lines.length)}\r\n`;
    const hooked = await hookAt('fine.example');
    const forwarded = await forwardTo('large@elsewhere.example');
    for (const account of [hooked, forwarded]) await send(account, { raw });
    const { source } = await until(() => mails.find(({ to }) => to === 'large@elsewhere.example'));
    const arrived = source.toString('latin1');
    assert.ok(arrived.slice(arrived.indexOf('\r\n\r\n') + 4).startsWith(lines));
    const { body } = await until(() => bodies.find((hook) => hook.body.includes('"Large"')));
    const { data } = JSON.parse(body);
    assert.ok(Buffer.byteLength(body) < 1_000_000);
    assert.equal(data.text_truncated, true);
    const link = new URL(data.raw_url);
    const whole = await (await fetch(service.url + link.pathname + link.search)).text();
    assert.ok(whole.includes(lines));
    await assert.rejects(send(hooked, { raw: `y${raw}` }), /552 5\.3\.4/);
  });
});
