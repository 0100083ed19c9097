/** Logins for mail programs: what is sent to a server, and what its answers mean. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { createSecureContext, TLSSocket } from 'node:tls';
import { readCertificate } from '../../../../test/support/certificate.ts';
import { ImapFailure } from './failure.ts';
import { openRaw } from './log-in.ts';
import type { ImapLogin } from './open-link.ts';

const LOGIN: ImapLogin = { user: 'ann@acme.test*postroom', pass: 'secret' };

/**
 * Plays a server that says its texts in turn, each after a line has come.
 *
 * @returns what came, and what became of the login
 */
async function play(texts: readonly string[], login = LOGIN, { timeoutMs = 5_000 } = {}) {
  let heard = '';
  let far: Socket | undefined;
  const server = createServer((socket) => {
    far = socket;
    const [greeting, ...answers] = texts;
    if (greeting !== undefined) socket.write(greeting);
    socket.setEncoding('utf8').on('data', (text: string) => {
      heard += text;
      for (const _ of text.matchAll(/\n/g)) {
        const answer = answers.shift();
        if (answer === undefined) socket.end();
        else socket.write(answer, 'latin1');
      }
    });
    socket.on('error', () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const address = { host: '127.0.0.1', port, tls: 'off', verifyCertificate: true } as const;
  try {
    const opened = await openRaw({
      server: address,
      login,
      client: '192.0.2.7',
      timeoutMs,
    });
    opened.destroy();
    return { heard, opened };
  } catch (error) {
    return { heard, failure: error };
  } finally {
    server.close();
    far?.destroy();
  }
}

const failureOf = async (...given: Parameters<typeof play>) => {
  const { failure } = await play(...given);
  assert.ok(failure instanceof ImapFailure, String(failure));
  return failure;
};

test('a server that says much is asked little', async () => {
  const { heard, opened } = await play([
    '* OK [CAPABILITY IMAP4rev1 SASL-IR ID AUTH=PLAIN] hello\r\n',
    '* ID ("name" "x")\r\npostroom1 OK\r\n',
    '* OK hi\r\npostroom2 OK [CAPABILITY IMAP4rev1 IDLE] in\r\n* OK more\r\n',
  ]);
  const initial = Buffer.from('\0ann@acme.test*postroom\0secret').toString('base64');
  assert.equal(
    heard,
    'postroom1 ID ("name" "postroom" "x-originating-ip" "192.0.2.7")\r\n' +
      `postroom2 AUTHENTICATE PLAIN ${initial}\r\n`,
  );
  assert.equal(opened?.capabilities, 'IMAP4rev1 IDLE');
  assert.equal(opened?.early.toString(), '* OK more\r\n');
});

test('a server that says little is asked, and gets names in quotes and others as literals', async () => {
  const login = { user: 'a"b\\c@acme.test*postroom', pass: 'sécret\r\nx LOGOUT' };
  const { heard, opened } = await play(
    [
      '* OK hello\r\n',
      '* CAPABILITY IMAP4rev1\r\npostroom1 OK\r\n',
      '+ go on\r\n',
      // The password has a line end, which is no line of a command.
      '',
      'postroom2 OK in\r\n',
      '* CAPABILITY IMAP4rev1 XAFTER\r\npostroom3 OK\r\n',
    ],
    login,
  );
  assert.equal(
    heard,
    'postroom1 CAPABILITY\r\n' +
      'postroom2 LOGIN "a\\"b\\\\c@acme.test*postroom" {17}\r\nsécret\r\nx LOGOUT\r\n' +
      'postroom3 CAPABILITY\r\n',
  );
  assert.equal(opened?.capabilities, 'IMAP4rev1 XAFTER');
});

test('an authorization identity is given by SASL, also without an initial answer', async () => {
  const { heard } = await play(
    [
      '* OK [CAPABILITY IMAP4rev1] hello\r\n',
      '+ \r\n',
      'postroom1 OK [CAPABILITY IMAP4rev1] in\r\n',
    ],
    { user: 'postroom', pass: 'secret', authzid: 'ann@acme.test' },
  );
  const answer = Buffer.from('ann@acme.test\0postroom\0secret').toString('base64');
  assert.equal(heard, `postroom1 AUTHENTICATE PLAIN\r\n${answer}\r\n`);
});

for (const no of ['NO [CLIENTBUG] not before the login', 'BAD what?']) {
  test(`a server that refuses to hear a name is logged in to: ${no}`, async () => {
    const { heard, opened } = await play([
      '* OK [CAPABILITY IMAP4rev1 SASL-IR ID AUTH=PLAIN] hello\r\n',
      `postroom1 ${no}\r\n`,
      'postroom2 OK [CAPABILITY IMAP4rev1 IDLE] in\r\n',
    ]);
    assert.match(heard, /^postroom1 ID .*\r\npostroom2 AUTHENTICATE PLAIN /);
    assert.equal(opened?.capabilities, 'IMAP4rev1 IDLE');
  });
}

test('a server that ends at its name is not logged in to', async () => {
  const { heard, failure } = await play([
    '* OK [CAPABILITY IMAP4rev1 SASL-IR ID AUTH=PLAIN] hello\r\n',
    '* BYE no names\r\n',
  ]);
  assert.doesNotMatch(heard, /AUTHENTICATE/);
  assert.ok(failure instanceof ImapFailure && failure.kind === 'dropped');
});

test('capabilities may come before the greeting, and between the answers to a login', async () => {
  const { heard, opened } = await play([
    '* CAPABILITY IMAP4rev1 AUTH=PLAIN SASL-IR\r\n* ok hello\r\n',
    '* CAPABILITY IMAP4rev1 IDLE\r\npostroom1 OK\r\n',
  ]);
  assert.match(heard, /^postroom1 AUTHENTICATE PLAIN \S+\r\n$/);
  assert.equal(opened?.capabilities, 'IMAP4rev1 IDLE');
});

test('nothing with a NUL is sent', async () => {
  const greeting = '* OK [CAPABILITY IMAP4rev1 AUTH=PLAIN SASL-IR] hello\r\n';
  const { heard, failure } = await play([greeting], { ...LOGIN, user: 'ann\0bob' });
  assert.equal(heard, '');
  assert.ok(failure instanceof ImapFailure && failure.kind === 'login_refused');
});

const GREETING = '* OK [CAPABILITY IMAP4rev1 AUTH=PLAIN SASL-IR] hello\r\n';
for (const [title, texts, kind] of [
  ['NO', [GREETING, 'postroom1 NO [AUTHENTICATIONFAILED] no\r\n'], 'login_refused'],
  ['NO for now', [GREETING, 'postroom1 NO [UNAVAILABLE] too many\r\n'], 'said_no'],
  ['BYE to the login', [GREETING, '* BYE too many of ann\r\n'], 'login_refused'],
  ['BYE for now', [GREETING, '* BYE [UNAVAILABLE] restarting\r\n'], 'said_no'],
  ['nothing more', [GREETING], 'login_refused'],
  [
    'OK with UNAUTHENTICATE',
    [GREETING, 'postroom1 OK [CAPABILITY UNAUTHENTICATE]\r\n'],
    'may_leave',
  ],
  ['BYE as a greeting', ['* BYE full\r\n'], 'dropped'],
  ['PREAUTH', ['* PREAUTH hello\r\n'], 'dropped'],
  ['a line without end', [`* OK ${'x'.repeat(17_000_000)}`], 'garbled'],
] as const) {
  test(`${title}: ${kind}`, async () => {
    assert.equal((await failureOf(texts)).kind, kind);
  });
}

test('how far it came is told where it takes too long', async () => {
  /** What is told once all of it came in time: on a slow machine less may. */
  const toldOf = async (texts: readonly string[], ...less: readonly string[]) => {
    for (;;) {
      const { kind } = await failureOf(texts, LOGIN, { timeoutMs: 50 });
      if (!less.includes(kind)) return kind;
    }
  };
  assert.equal(await toldOf([], 'unreachable'), 'no_greeting');
  const halfway = [GREETING, '* OK wait\r\n'];
  assert.equal(await toldOf(halfway, 'unreachable', 'no_greeting'), 'silent');
});

/** A server that offers STARTTLS. @param more sent with its OK, before TLS */
async function startTls(more: string, host = 'localhost') {
  const { cert, key } = readCertificate('one');
  const heard: string[] = [];
  const names: (string | false | null)[] = [];
  const server = createServer((plain) => {
    plain.on('error', () => {});
    plain.write('* OK [CAPABILITY IMAP4rev1 STARTTLS LOGINDISABLED] hello\r\n');
    plain.once('data', (text) => {
      heard.push(text.toString());
      plain.write(`postroom1 OK go on\r\n${more}`);
      const secureContext = createSecureContext({ cert, key });
      const socket = new TLSSocket(plain, { isServer: true, secureContext });
      socket.on('error', () => {});
      socket.on('data', (line: Buffer) => {
        names.push(socket.servername);
        heard.push(line.toString());
        const [tag = ''] = line.toString().split(' ');
        socket.write(`* CAPABILITY IMAP4rev1 AUTH=PLAIN SASL-IR\r\n${tag} OK\r\n`);
      });
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const options = { host, port, tls: 'starttls', ca: cert } as const;
  try {
    const opened = await openRaw({
      server: { ...options, verifyCertificate: true },
      login: LOGIN,
      client: '192.0.2.7',
      timeoutMs: 30_000,
    });
    opened.destroy();
    return { heard, names, opened };
  } catch (failure) {
    return { heard, names, failure };
  } finally {
    server.close();
  }
}

test('STARTTLS comes before the login, and what was said without it is forgotten', async () => {
  const { heard, names, opened } = await startTls('');
  assert.deepEqual(
    heard.map((line) => line.split(' ').slice(1, 2).join('').trim()),
    ['STARTTLS', 'CAPABILITY', 'AUTHENTICATE'],
  );
  assert.equal(names[0], 'localhost', 'the server can choose its certificate');
  assert.equal(opened?.capabilities, 'IMAP4rev1 AUTH=PLAIN SASL-IR');
});

test('STARTTLS with more before TLS, or with a certificate of another name, ends it', async () => {
  const more = await startTls('* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n');
  assert.ok(more.failure instanceof ImapFailure && more.failure.kind === 'garbled');
  const other = await startTls('', '127.0.0.1');
  assert.ok(other.failure instanceof ImapFailure && other.failure.kind === 'tls');
  for (const { heard } of [more, other]) assert.equal(heard.length, 1);
});
