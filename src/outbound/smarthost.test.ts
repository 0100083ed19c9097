import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';
import { setDefaultCACertificates } from 'node:tls';
import { generate } from 'selfsigned';
import { createMessageSender, type MessageSenderOptions, type Smarthost } from './outbound.ts';
import { dnsOf, outgoing, polite, replies, startFarEnd, startScript } from './testing/far-end.ts';

const MESSAGE = 'From: a@acme.test\r\nSubject: hi\r\n\r\nBody\r\n';
const login = { user: 'postroom', password: 'p:ä"ss' };

/** Certificates for localhost: one from an authority that is trusted in this process, one not. */
let trusted: { cert: string; key: string };
let stranger: { cert: string; key: string };

before(async () => {
  [trusted, stranger] = await Promise.all([makeCertificate(), makeCertificate()]);
  setDefaultCACertificates([trusted.cert]);
});

async function makeCertificate(): Promise<{ cert: string; key: string }> {
  const made = await generate([{ name: 'commonName', value: 'localhost' }], {
    keyType: 'rsa',
    keySize: 2048,
    algorithm: 'sha256',
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'subjectAltName', altNames: [{ type: 2, value: 'localhost' }] },
    ],
  });
  return { cert: made.cert, key: made.private };
}

function senderBy(smarthost: Partial<Smarthost>, options: Partial<MessageSenderOptions> = {}) {
  return createMessageSender({
    hostname: 'mail.postroom.test',
    dns: dnsOf({}),
    isAllowedAddress: () => false,
    smarthost: { host: 'localhost', port: 0, implicitTls: false, login: undefined, ...smarthost },
    ...options,
  });
}

const checksLogin = {
  authOptional: false,
  disabledCommands: [],
  onAuth(
    { username, password }: { username?: string | undefined; password?: string | null | undefined },
    _session: unknown,
    callback: (error: Error | null | undefined, response?: { user: string }) => void,
  ) {
    if (username === login.user && password === login.password)
      callback(null, { user: 'postroom' });
    else callback(Object.assign(new Error('5.7.8 bad login'), { responseCode: 535 }));
  },
};

suite('a smarthost', () => {
  test('takes mail without DNS and without a judgement of its address', async () => {
    const far = await startFarEnd();
    const outcome = await senderBy({ port: far.port }).sendMessage(outgoing(MESSAGE));
    assert.deepEqual(outcome, {
      result: 'delivered',
      host: 'localhost',
      detail: '250 2.0.0 queued as 4711',
    });
    assert.equal(far.received[0]?.secure, false);
  });

  test('is spoken to by STARTTLS where it offers that, its certificate verified', async () => {
    const far = await startFarEnd({ disabledCommands: ['AUTH'], ...trusted });
    const outcome = await senderBy({ port: far.port }).sendMessage(outgoing(MESSAGE));
    assert.equal(outcome.result, 'delivered', JSON.stringify(outcome));
    assert.equal(far.received[0]?.secure, true);
  });

  test('gets the login over STARTTLS', async () => {
    const far = await startFarEnd({ ...checksLogin, ...trusted });
    const outcome = await senderBy({ port: far.port, login }).sendMessage(outgoing(MESSAGE));
    assert.equal(outcome.result, 'delivered', JSON.stringify(outcome));
  });

  test('gets the login over TLS from the first byte', async () => {
    const far = await startFarEnd({ ...checksLogin, ...trusted, secure: true });
    const sender = senderBy({ port: far.port, login, implicitTls: true });
    const outcome = await sender.sendMessage(outgoing(MESSAGE));
    assert.equal(outcome.result, 'delivered', JSON.stringify(outcome));
    assert.equal(far.received[0]?.secure, true);
  });

  for (const implicitTls of [false, true]) {
    test(`with a strange certificate gets nothing${implicitTls ? ', from the first byte' : ''}`, async () => {
      const disabledCommands = implicitTls ? ['AUTH', 'STARTTLS'] : ['AUTH'];
      const far = await startFarEnd({ disabledCommands, ...stranger, secure: implicitTls });
      const outcome = await senderBy({ port: far.port, implicitTls }).sendMessage(
        outgoing(MESSAGE),
      );
      assert.equal(outcome.result, 'temporary');
      assert.match(outcome.error.text, /certificate/);
      assert.deepEqual([far.received.length, far.connections.count <= 1], [0, true]);
    });
  }

  test('without STARTTLS never sees the password', async () => {
    const said: string[] = [];
    const port = await startScript((socket) => {
      socket.on('data', (chunk: Buffer) => said.push(chunk.toString()));
      replies({ ...polite, EHLO: '250-far\r\n250 AUTH PLAIN LOGIN', STARTTLS: '502 what?' })(
        socket,
      );
    });
    const outcome = await senderBy({ port, login }).sendMessage(outgoing(MESSAGE));
    assert.equal(outcome.result, 'temporary');
    assert.doesNotMatch(said.join(''), /AUTH/);
  });

  test('that does not know the login is a matter for the operator', async () => {
    const far = await startFarEnd({ ...checksLogin, ...trusted });
    const wrong = { user: 'postroom', password: 'wrong' };
    const outcome = await senderBy({ port: far.port, login: wrong }).sendMessage(outgoing(MESSAGE));
    assert.equal(outcome.result, 'temporary');
    assert.equal(outcome.error.status, 535);
    assert.doesNotMatch(outcome.error.text, /wrong/);
  });

  const answers: [what: string, answers: Parameters<typeof replies>[0], expected: string][] = [
    ['wants a login', { MAIL: '530 5.7.0 authentication required' }, 'temporary'],
    ['refuses to talk', { GREETING: '554 5.7.1 not you' }, 'temporary'],
    ['refuses the recipient', { RCPT: '550 5.1.1 no such user' }, 'permanent'],
    ['is busy', { RCPT: '451 4.3.0 later' }, 'temporary'],
    ['has no room for it', { EHLO: '250-far\r\n250 SIZE 10' }, 'permanent'],
  ];
  for (const [what, script, expected] of answers) {
    test(`that ${what}: ${expected}`, async () => {
      const port = await startScript(replies({ ...polite, ...script }));
      const outcome = await senderBy({ port }).sendMessage(outgoing(MESSAGE));
      assert.equal(outcome.result, expected);
    });
  }
});
