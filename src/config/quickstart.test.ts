import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, describe, test } from 'node:test';
import {
  type BoundAddresses,
  describeStart,
  readConfig,
  type Secrets,
  type Start,
} from './config.ts';

const secrets: Secrets = {
  apiKey: `pr_${'A'.repeat(43)}`,
  jwtSecret: 'B'.repeat(43),
  mailserverWebhookSecret: 'C'.repeat(43),
  srsSecret: 'D'.repeat(43),
  linkSecret: 'E'.repeat(43),
};
const ownKey = 'a-key-of-the-operator';
const databasePassword = 's3cr3t';
const addresses: BoundAddresses = {
  http: { address: '127.0.0.1', port: 8080 },
  smtp: { address: '0.0.0.0', port: 2525 },
};

function startOf(changes: Partial<Omit<Start, 'config'>>, env: NodeJS.ProcessEnv = {}): Start {
  const config = readConfig({ DATA_DIR: '/srv/postroom', ...env }, '/nowhere');
  return { config, secrets, created: true, stdoutIsTty: true, addresses, ...changes };
}

/** The lines to paste. */
function commandsOf(description: string): string[] {
  return description.split('\n').filter((line) => /^(export|curl|for|printf) /.test(line));
}

describe('what a start may say', () => {
  const secretsOf = (text: string) =>
    [...Object.values(secrets), ownKey, databasePassword].filter((secret) => text.includes(secret));
  const onPostgres = { DATABASE_URL: `postgres://me:${databasePassword}@db:5432/mail` };

  test('the API key, at the first start on a terminal', () => {
    assert.deepEqual(secretsOf(describeStart(startOf({}))), [secrets.apiKey]);
    assert.deepEqual(secretsOf(describeStart(startOf({}, onPostgres))), [secrets.apiKey]);
  });

  test('no secret, where the operator set the keys', () => {
    const description = describeStart(startOf({}, { API_KEYS: ownKey }));
    assert.deepEqual(secretsOf(description), []);
    assert.match(description, /^export URL=\S+ KEY='<one of API_KEYS>'$/m);
  });

  for (const [created, stdoutIsTty] of [
    [true, false],
    [false, true],
    [false, false],
  ] as const) {
    for (const env of [{}, onPostgres, { API_KEYS: ownKey }]) {
      const place = `${created ? 'a first' : 'a later'} start, ${stdoutIsTty ? 'a' : 'no'} terminal`;
      test(`${place}, ${Object.keys(env)[0] ?? 'defaults'}: two lines without a secret`, () => {
        const description = describeStart(startOf({ created, stdoutIsTty }, env));
        assert.deepEqual(secretsOf(description), []);
        assert.match(description, /^[^\n]+\n[^\n]+\n$/);
        const where = env === onPostgres ? 'the PostgreSQL database' : '/srv/postroom/secrets.json';
        assert.ok(description.includes(where), description);
      });
    }
  }
});

test('what listens where, and where the data is', () => {
  const all: BoundAddresses = {
    http: { address: '::', port: 80 },
    smtp: { address: '::1', port: 25 },
    lmtp: { address: '127.0.0.1', port: 24 },
    metrics: { address: '127.0.0.1', port: 9090 },
  };
  const later = { created: false, addresses: all };
  assert.equal(
    describeStart(startOf(later, { DATABASE_URL: 'postgres://me:s3cr3t@db/mail?x=y' })),
    'Postroom listens: HTTP http://localhost:80, SMTP [::1]:25, LMTP 127.0.0.1:24, metrics 127.0.0.1:9090\n' +
      'Data: /srv/postroom, PostgreSQL at postgres://***@db/mail; secrets: the PostgreSQL database\n',
  );
  assert.equal(
    describeStart(startOf({ created: false, addresses: { http: addresses.http } })),
    'Postroom listens: HTTP http://127.0.0.1:8080\n' +
      'Data: /srv/postroom (SQLite); secrets: /srv/postroom/secrets.json\n',
  );
});

test('the first start without SMTP pastes no line for it', () => {
  const description = describeStart(startOf({ addresses: { http: addresses.http } }));
  assert.match(description, /^ {2}SMTP +off$/m);
  assert.deepEqual(
    commandsOf(description).map((line) => line.slice(0, line.indexOf(' '))),
    ['export', 'curl', 'for', 'curl', 'export', 'curl'],
  );
});

test('each trial mailbox has a password of its own', () => {
  const passwords = [1, 2].map(
    () => /"password":"([\w-]{16})"/.exec(describeStart(startOf({})))?.[1],
  );
  assert.ok(passwords[0] !== undefined && passwords[1] !== undefined);
  assert.notEqual(passwords[0], passwords[1]);
});

/** One call as the server saw it. */
interface Call {
  readonly request: string;
  readonly key: string | undefined;
  readonly authorization: string | undefined;
  readonly body: unknown;
}

/** Answers with the shapes of the interface; four records, ids among other numbers. */
const dnsRecords = ['MX', 'TXT', 'TXT', 'TXT'].map((record_type, index) => ({
  id: 41 + index,
  record_type,
  host: '@',
  expected_value: 'v=1 id:7',
  status: 'pending',
}));
const details = {
  domain: { domain: 'acme.test', status: 'pending' },
  dns: dnsRecords,
  route: { domain: 'acme.test', forward_mode: 'store' },
  mx: { host: 'mail.localhost', priority: 10 },
};
const account = { id: 5, user_id: 'demo', domain: 'acme.test', address: 'ada@acme.test' };
const responses: Readonly<Record<string, object>> = {
  'POST /v2/domain': { message: 'created', domain: details },
  'GET /v2/domains/acme.test/info?user_id=demo': details,
  'POST /v2/domains/acme.test/dns/mark': details,
  'POST /v2/email-accounts/create': { account, password: 'x', note: 'save it' },
  'POST /mail/token': { token: 'header.payload-_.signature', expires_in: 3600 },
  'POST /mail/sync': { mailbox: 'INBOX', uidvalidity: '1', token: '2', changes: { added: [] } },
};

async function listen(server: Server): Promise<AddressInfo> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return address;
}

function recordCalls(calls: Call[]): Server {
  const answer = async (request: IncomingMessage): Promise<object> => {
    const body = await text(request);
    const { 'x-api-key': key, authorization, 'content-type': type } = request.headers;
    const line = `${request.method} ${request.url}`;
    if (body !== '') assert.equal(type, 'application/json');
    assert.ok(key === undefined || typeof key === 'string');
    calls.push({
      request: line,
      key,
      authorization,
      body: body === '' ? undefined : JSON.parse(body),
    });
    return responses[line] ?? { title: 'There is no such path' };
  };
  return createServer((request, response) => {
    answer(request).then(
      (body) => response.setHeader('content-type', 'application/json').end(JSON.stringify(body)),
      (error: unknown) => response.destroy(error instanceof Error ? error : undefined),
    );
  });
}

/** Takes one message by SMTP (RFC 5321) and keeps what the client said. */
function recordMail(dialogue: string[]): Server {
  return createTcpServer((socket) => {
    let buffered = '';
    let inMessage = false;
    socket.setEncoding('latin1').write('220 mail.localhost\r\n');
    socket.on('data', (chunk: string) => {
      buffered += chunk;
      for (let end = buffered.indexOf('\r\n'); end !== -1; end = buffered.indexOf('\r\n')) {
        const line = buffered.slice(0, end);
        buffered = buffered.slice(end + 2);
        dialogue.push(line);
        if (inMessage && line !== '.') continue;
        inMessage = line === 'DATA';
        socket.write(inMessage ? '354 go on\r\n' : '250 ok\r\n');
      }
    });
  });
}

const hasCurl = spawnSync('curl', ['--version']).status === 0;

test('the lines work as pasted into sh', { skip: !hasCurl && 'curl is not there' }, async () => {
  const calls: Call[] = [];
  const dialogue: string[] = [];
  const servers = [recordCalls(calls), recordMail(dialogue)] as const;
  after(() => {
    for (const server of servers) server.close();
  });
  const bound = { http: await listen(servers[0]), smtp: await listen(servers[1]) };
  const commands = commandsOf(describeStart(startOf({ addresses: bound })));
  assert.equal(commands.length, 7);

  const shell = spawn('sh', [], { env: { PATH: process.env.PATH }, stdio: 'pipe' });
  shell.stdin.end(`${commands.join('\n')}\n`);
  const [stdout, stderr] = await Promise.all([text(shell.stdout), text(shell.stderr)]);
  assert.equal(stderr, '');

  const password = /"password":"([\w-]+)"/.exec(commands.join())?.[1];
  const asOperator = { key: secrets.apiKey, authorization: undefined };
  const asApp = { key: undefined, authorization: 'Bearer header.payload-_.signature' };
  assert.deepEqual(calls, [
    {
      request: 'POST /v2/domain',
      ...asOperator,
      body: { domain: 'acme.test', user_id: 'demo' },
    },
    { request: 'GET /v2/domains/acme.test/info?user_id=demo', ...asOperator, body: undefined },
    ...dnsRecords.map(({ id }) => ({
      request: 'POST /v2/domains/acme.test/dns/mark',
      ...asOperator,
      body: { user_id: 'demo', id, status: 'verified' },
    })),
    {
      request: 'POST /v2/email-accounts/create',
      ...asOperator,
      body: {
        domain: 'acme.test',
        local_part: 'ada',
        display_name: 'Ada',
        user_id: 'demo',
        password,
      },
    },
    {
      request: 'POST /mail/token',
      ...asApp,
      authorization: undefined,
      body: { address: 'ada@acme.test', password },
    },
    { request: 'POST /mail/sync', ...asApp, body: { mailbox: 'INBOX' } },
  ]);
  assert.match(stdout, /^record 41: 200\nrecord 42: 200\nrecord 43: 200\nrecord 44: 200$/m);
  assert.deepEqual(
    dialogue.slice(1).map((line) => line.replace(/ SIZE=\d+$/, '')),
    [
      'MAIL FROM:<bob@sender.test>',
      'RCPT TO:<ada@acme.test>',
      'DATA',
      'From: Bob <bob@sender.test>',
      'To: Ada <ada@acme.test>',
      'Subject: Hello',
      '',
      'Hello, Ada.',
      '.',
      'QUIT',
    ],
  );
});
