/** `postroom move`: a service with everything in it goes from SQLite to PostgreSQL, and nobody notices. */

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { ConfigError } from '../../src/run/config/config.ts';
import { atEnd } from '../support/at-end.ts';
import { runHere } from '../support/commands.ts';
import { freePort } from '../support/free-port.ts';
import { refusal, startFarEnd } from '../support/outbound/far-end.ts';
import { environment, type Process, ROOT, run, startHere } from '../support/process.ts';
import { API_KEY, callJson, clientOf, JWT_SECRET, type TestAccount } from '../support/service.ts';
import { makeBucket } from './s3.ts';

const PROGRAM = fileURLToPath(new URL('../../src/postroom.js', import.meta.url));
const SERVER = process.env.TEST_DATABASE_URL ?? '';

type Settings = Record<string, string>;

const admin = new Client({ connectionString: SERVER });
const databases: string[] = [];
/** A data folder with everything in it, of a service that is stopped. */
let settings: Settings;
let ada: TestAccount;
/** What clients knew before the move, and what the API answered. */
let known: string;
let sync = { uidvalidity: '', token: '' };
let rawUrl: string;
/** Ids of what was sent. */
const sends: string[] = [];

/** The URL of a new, empty database. */
async function newDatabase(): Promise<string> {
  const name = `move_${randomBytes(8).toString('hex')}`;
  await admin.query(`create database ${name}`);
  databases.push(name);
  const url = new URL(SERVER);
  url.pathname = `/${name}`;
  return url.href;
}

function postroom(args: readonly string[], where: Settings): Process {
  return run([process.execPath, PROGRAM, ...args], where, 'pipe');
}

async function succeed(args: readonly string[], where: Settings): Promise<string> {
  const { code, output } = await runHere(args, where);
  assert.equal(code, 0, output);
  return output;
}

async function refuse(args: readonly string[], where: Settings, why: RegExp): Promise<void> {
  const { code, output } = await runHere(args, where);
  assert.equal(code, 1, output);
  assert.match(output, why);
}

/** The start of a service is refused. */
async function refuseStart(where: Settings, why: RegExp): Promise<void> {
  await assert.rejects(startHere(where), (error: unknown) => {
    assert.ok(error instanceof ConfigError, String(error));
    assert.match(error.lines.join('\n'), why);
    return true;
  });
}

/** A copy of the data folder, to move. */
async function copyOf(name: string): Promise<Settings> {
  const own = { ...settings, ...(await portsOf()), DATA_DIR: join(ROOT, name) };
  await cp(settings.DATA_DIR ?? '', own.DATA_DIR, { recursive: true });
  return own;
}

async function portsOf(): Promise<Settings> {
  return { PORT: String(await freePort()), SMTP_PORT: String(await freePort()) };
}

const urlOf = ({ PORT }: Settings) => `http://127.0.0.1:${PORT}`;
const clientAt = (where: Settings) =>
  clientOf({ url: urlOf(where), smtpPort: Number(where.SMTP_PORT) });

/** What a product, an operator and an app read: all that has to be the same afterwards. */
async function ask(where: Settings) {
  const client = clientAt(where);
  const answers: Record<string, unknown> = {};
  const read = async (path: string) => {
    const { status, body } = await client.v2('GET', path);
    assert.equal(status, 200, `${path}: ${JSON.stringify(body)}`);
    answers[path] = body;
  };
  const user = `user_id=${ada.userId}`;
  for (const name of ['domains', 'accounts', 'queue', 'queue/deliveries', 'blocks', 'keys']) {
    await read(`/v2/operator/${name}`);
  }
  await read(`/v2/operator/trace?recipient=${ada.address}`);
  await read('/v2/operator/audit');
  await read('/v2/operator/usage');
  await read(`/v2/domains?${user}`);
  for (const name of ['info', 'dns', 'suppressions', 'deliveries', 'email-accounts']) {
    await read(`/v2/domains/${ada.domain}/${name}?${user}`);
  }
  const mail = async (path: string, request?: object) => {
    const answer = await client.mail(ada.token, request ? 'POST' : 'GET', path, request);
    assert.equal(answer.status, 200, `${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  answers.mailboxes = await mail('/mail/mailboxes');
  answers.sends = await Promise.all(sends.map((id) => mail(`/mail/sends/${id}`)));
  const fields = ['envelope', 'flags', 'size', 'internalDate', 'bodyStructure', 'preview'];
  const { mailboxes } = answers.mailboxes as { mailboxes: { mailbox: string }[] };
  for (const { mailbox } of mailboxes) {
    const first = await mail('/mail/sync', {
      mailbox,
      fields: [...fields, 'threadId', 'hasAttachment'],
      limit: 100,
    });
    answers[`sync ${mailbox}`] = first;
    for (const { uid } of first.changes.added) {
      const name = encodeURIComponent(mailbox);
      answers[`message ${mailbox} ${uid}`] = await mail(`/mail/message?mailbox=${name}&uid=${uid}`);
    }
  }
  return stable(answers);
}

/** Without what changes by itself while a service runs. */
function stable(answers: object): string {
  return JSON.stringify(
    answers,
    (key, value) =>
      ['next_check_at', 'last_used_at', 'waiting_seconds', 'stored_bytes'].includes(key)
        ? undefined
        : value,
    1,
  );
}

before(async () => {
  await admin.connect();
  const far = await startFarEnd({
    onRcptTo({ address }, _session, callback) {
      if (address.startsWith('nobody@')) return callback(refusal(550, '5.1.1 no such user'));
      if (address.startsWith('waits@')) return callback(refusal(451, '4.3.2 later'));
      return callback();
    },
  });
  const refuseHook = async (request: IncomingMessage, response: ServerResponse) => {
    rawUrl = /"raw_url":"([^"]+)"/.exec(await text(request))?.[1] ?? '';
    response.writeHead(503).end();
  };
  const hooks = createServer((request, response) => void refuseHook(request, response));
  const hookPort = await freePort();
  await once(hooks.listen(hookPort, '127.0.0.1'), 'listening');
  atEnd(() => void hooks.close());
  settings = {
    ...(await environment('source')),
    API_KEYS: API_KEY,
    JWT_SECRET,
    DNS_SERVERS: '127.0.0.1:9',
    SMTP_RELAY_URL: `smtp://127.0.0.1:${far.port}`,
    OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8',
    LOG_LEVEL: 'warn',
  };
  const service = await startHere(settings);
  const client = clientAt(settings);
  ada = await client.makeAccount('ada');
  const bob = await client.addAccount(ada, 'bob');
  const must = async (work: Promise<{ status: number; body: unknown }>) => {
    const { status, body } = await work;
    assert.ok(status < 300, JSON.stringify(body));
    return body;
  };
  const mail = (path: string, body: object) => must(client.mail(ada.token, 'POST', path, body));
  for (let number = 1; number <= 8; number++) {
    await client.send({
      from: 'Žofie <zofie@example.test>',
      to: [ada.address, bob.address],
      subject: `Nr. ${number} – „ž“ \u{1F4EC}`,
      text: `Text ${number}\n${'line\n'.repeat(number * 100)}`,
      ...(number % 4 === 0 && {
        attachments: [{ filename: 'ž.bin', content: randomBytes(200_000) }],
      }),
    });
  }
  await mail('/mail/mailboxes/create', { mailbox: 'Projekte/ž' });
  await mail('/mail/flags', { mailbox: 'INBOX', uids: [1, 2], add: ['\\Seen', 'label'] });
  await mail('/mail/copy', { mailbox: 'INBOX', uids: [2, 4], to: 'Projekte/ž' });
  const { uidvalidity, token } = (await mail('/mail/sync', { mailbox: 'INBOX' })) as typeof sync;
  sync = { uidvalidity, token };
  await mail('/mail/move', { mailbox: 'INBOX', uids: [3], to: 'Projekte/ž' });
  await mail('/mail/delete', { mailbox: 'INBOX', uids: [5] });
  const sent = (to: string, subject: string) =>
    must(
      callJson(
        `${urlOf(settings)}/mail/send`,
        { authorization: `Bearer ${ada.token}`, 'idempotency-key': `key-${to}` },
        'POST',
        { from: { address: ada.address }, to: [{ address: to }], subject, text: 'Hello.' },
      ),
    );
  for (const to of ['carl@far.test', 'nobody@far.test', 'waits@far.test']) {
    const { id } = (await sent(to, 'sent')) as { id: string };
    sends.push(id);
  }
  const later = { from: { address: ada.address }, to: [{ address: 'carl@far.test' }] };
  const at = new Date(Date.now() + 86_400_000).toISOString();
  await mail('/mail/send', { ...later, subject: 'tomorrow', text: 'x', sendAt: at });
  const hook = await client.makeAccount('hook');
  await must(
    client.v2('PUT', `/v2/domains/${hook.domain}/route`, {
      user_id: hook.userId,
      forward_mode: 'webhook',
      webhook_url: `http://127.0.0.1:${hookPort}/hook`,
    }),
  );
  await client.send({ from: 'z@example.test', to: hook.address, subject: 'hook', text: 'x' });
  await must(client.v2('POST', '/v2/operator/blocks', { kind: 'domain', value: 'spam.test' }));
  await must(client.v2('POST', '/v2/operator/keys', { name: 'moves', scope: 'product' }));
  await must(
    client.v2('POST', `/v2/email-accounts/${ada.id}/app-passwords`, {
      user_id: ada.userId,
      name: 'Phone',
    }),
  );
  // Of a user to whom nothing happens: nothing is posted.
  const eventHook = { user_id: 'quiet', url: `http://127.0.0.1:${hookPort}/events` };
  await must(client.v2('PUT', '/v2/event-hooks', eventHook));
  await must(
    client.v2('POST', '/v2/operator/accounts/quota', {
      account_id: bob.id,
      quota_bytes: 9_000_000_000,
    }),
  );
  // An account that is gone: its id is not given again.
  const gone = await client.addAccount(ada, 'gone');
  await must(client.v2('POST', '/v2/email-accounts/delete', { user_id: ada.userId, id: gone.id }));
  await settled(client);
  const idem = { 'x-api-key': API_KEY, 'idempotency-key': 'key-of-a-domain' };
  const claim = { user_id: ada.userId, domain: 'idem.test' };
  await must(callJson(`${urlOf(settings)}/v2/domain`, idem, 'POST', claim));
  known = await ask(settings);
  await service.stop();
  fillRest(join(settings.DATA_DIR ?? '', 'postroom.sqlite'));
});

/** Rows of the tables that a service with mailboxes of its own leaves empty, or soon empties. */
function fillRest(file: string): void {
  const database = new DatabaseSync(file);
  database.exec(`
    insert into console_sessions (secret_hash, key_proof, actor, expires_at) values ('a', '', 'b', 9007199254740991);
    insert into deleted_accounts (id, deleted_at) values (1000, 0);
    insert into deleted_domains (id, deleted_at) values (1000, 0);
    insert into mailserver_events (event_id, received_at) values ('"\\''\u{1F4EC}', -1);
    insert into remembered_logins values ('a', ${ada.accountId}, 1, 2, 3);
    insert into subscriptions values (${ada.accountId}, 'Ž', 1);
    insert into imap_texts select min(id), '(NIL)', '("text" "plain")', 'ž' from bodies;
    insert into imap_headers select min(id), 'Subject: ž' from bodies;
    insert into imap_numbers select min(id), 1, 2, x'00ff27' from mailboxes;
    insert into search_queue (account_id, body_id, gone) values (1, 2, 1);
    insert into search_unread (account_id, body_id, next_at) values (1, 2, 3);
    insert into shadow_mailboxes (account_id, name, uidvalidity, uidnext, messages, unseen, modseq, oldest_modseq)
      values (1, 'Ž', '18446744073709551615', 2, 3, 4, 5, 6);
    insert into shadow_messages values (1, 1, 1, 1, '');
    insert into shadow_tombstones values (1, 1, 1, 1, 1);
  `);
  database.close();
}

/** Waits for the first attempts, and holds what waits for the next: nothing changes by itself then. */
async function settled(client: ReturnType<typeof clientAt>): Promise<void> {
  const end = performance.now() + 60_000;
  for (;;) {
    const { body } = await client.v2('GET', '/v2/operator/queue/deliveries');
    const said = JSON.stringify(body);
    if (/no such user/.test(said) && /later/.test(said) && /503/.test(said)) break;
    assert.ok(performance.now() < end, said);
    await pause(50);
  }
  const { body } = await client.v2('POST', '/v2/operator/queue/hold', { state: 'pending' });
  assert.equal(body.changed, 3, JSON.stringify(body));
}

after(async () => {
  for (const name of databases) await admin.query(`drop database if exists ${name} with (force)`);
  await admin.end();
});

test('what clients know and what the API answers is the same after the move', async () => {
  const own = await copyOf('moved');
  const DATABASE_URL = await newDatabase();
  // As a process of its own, which has to end when it is done.
  const { code, output } = await postroom(['move', '--to', DATABASE_URL], own).ended();
  assert.equal(code, 0, output);
  assert.match(output, /^copied \d+ rows of messages$/m);
  assert.match(output, /^compared \d+ rows of \d+ tables by their digests$/m);
  assert.deepEqual(await compareRows(own, DATABASE_URL), [], 'of these nothing was tried');

  await refuseStart(own, /^DATA_DIR: the data in ".*" was moved to postgres:.*set DATABASE_URL/m);
  await refuse(['backup', join(ROOT, 'old-backup')], own, /was moved to postgres:/);
  await refuse(['rotate', 'link-secret'], own, /was moved to postgres:/);
  await refuseStart(
    { ...own, DATABASE_URL: await newDatabase() },
    /^DATABASE_URL: the data of DATA_DIR was moved to another database, postgres:/m,
  );
  assert.match(await succeed(['move', '--to', DATABASE_URL], own), /was moved to .* already/);
  const third = ['move', '--to', await newDatabase()];
  await refuse(third, own, /--to: expected postgres:.*, got another database.*pg_restore\s*$/);

  const moved = { ...own, DATABASE_URL };
  const service = await startHere(moved);
  const client = clientAt(moved);
  assert.equal(await ask(moved), known);

  // A token of before: what changed since then, and nothing twice.
  const changes = await client.mail(ada.token, 'POST', '/mail/sync', { mailbox: 'INBOX', ...sync });
  assert.equal(changes.status, 200);
  assert.equal(changes.body.reset, undefined);
  const removed = changes.body.changes.removed.map(({ uid }: { uid: number }) => uid);
  const uids = (added: { uid: number }[]) => added.map(({ uid }) => uid);
  // The last is the bounce of what nobody@ was sent.
  assert.deepEqual([removed, uids(changes.body.changes.added)], [[3, 5], [9]]);
  const source = await fetch(rawUrl.replace(/^https?:\/\/[^/]+/, urlOf(moved)));
  assert.equal(source.status, 200);
  assert.match(await source.text(), /^Subject: hook\r$/m);
  // The request of before is answered as it was then.
  const again = await callJson(
    `${urlOf(moved)}/mail/send`,
    { authorization: `Bearer ${ada.token}`, 'idempotency-key': 'key-carl@far.test' },
    'POST',
    {
      from: { address: ada.address },
      to: [{ address: 'carl@far.test' }],
      subject: 'sent',
      text: 'Hello.',
    },
  );
  assert.equal(again.body.id, sends[0]);
  const login = { address: ada.address, password: ada.password };
  assert.equal((await client.mail('', 'POST', '/mail/token', login)).status, 200);

  // New mail comes, under ids and UIDs that were never given.
  await client.send({ from: 'z@example.test', to: ada.address, subject: 'new', text: 'x' });
  const found = await client.mail(ada.token, 'POST', '/mail/sync', {
    mailbox: 'INBOX',
    uidvalidity: changes.body.uidvalidity,
    token: changes.body.token,
  });
  assert.deepEqual(uids(found.body.changes.added), [10]);
  const next = await client.addAccount(ada, 'next');
  assert.equal(next.id, ada.id + 4);
  for (;;) {
    const answer = await client.mail(ada.token, 'POST', '/mail/search', { text: 'line' });
    if (answer.body.indexing) continue;
    assert.equal(answer.body.matches.length, 9);
    break;
  }
  await service.stop();
});

/** Each row of both databases, read without the code of the move. @returns tables without rows */
async function compareRows(own: Settings, url: string): Promise<string[]> {
  const empty: string[] = [];
  const source = new DatabaseSync(join(own.DATA_DIR ?? '', 'postroom.sqlite'), { readOnly: true });
  const target = new Client({ connectionString: url });
  await target.connect();
  const tables = source
    .prepare(
      "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' and name not like 'kysely_%'",
    )
    .all();
  for (const { name } of tables) {
    const rows = source.prepare(`select * from ${name}`).all();
    if (rows.length === 0) empty.push(String(name));
    const found = await target.query(`select * from ${name}`);
    const inOrder = (all: readonly object[]) =>
      all.map((row) => JSON.stringify(textsOf(row))).toSorted();
    const theirs =
      name === 'settings' ? found.rows.filter((row) => row.name !== 'secrets') : found.rows;
    assert.deepEqual(inOrder(theirs), inOrder(rows), String(name));
  }
  source.close();
  await target.end();
  return empty;
}

function textsOf(row: object): [string, string][] {
  return Object.entries(row)
    .map(([name, value]): [string, string] => {
      return [name, value instanceof Uint8Array ? Buffer.from(value).toString('hex') : `${value}`];
    })
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
}

/** Runs a move that a hook in its process kills: it goes not one step further, however slow this process is. */
async function killBy(hook: string, args: readonly string[], where: Settings): Promise<void> {
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(hook)}`;
  const { code, output } = await postroom(['move', ...args], { ...where, NODE_OPTIONS }).ended();
  assert.equal(code, null, output);
}

/** Runs a move that is killed when it writes a line. */
async function killAfter(line: RegExp, args: readonly string[], where: Settings): Promise<void> {
  const hook = `
    const { write } = process.stderr;
    process.stderr.write = function (text, ...rest) {
      if (${line}.test(text)) process.kill(process.pid, 'SIGKILL');
      return write.call(this, text, ...rest);
    };`;
  await killBy(hook, args, where);
}

/** Runs a move that is killed before or after the note in the folder becomes final. */
async function killAtNote(when: 'before' | 'after', args: readonly string[], where: Settings) {
  const hook = `
    import fs from 'node:fs/promises';
    import { syncBuiltinESMExports } from 'node:module';
    const { rename } = fs;
    fs.rename = async (from, to) => {
      const isIt = String(to).endsWith('moved.json');
      if (isIt && ${when === 'before'}) process.kill(process.pid, 'SIGKILL');
      await rename(from, to);
      if (isIt) process.kill(process.pid, 'SIGKILL');
    };
    syncBuiltinESMExports();`;
  await killBy(hook, args, where);
}

const unfinished = /^DATABASE_URL: a move into this database was interrupted, or is still running/m;

async function startsAndStops(where: Settings): Promise<void> {
  const service = await startHere(where);
  await service.stop();
}

test('a move that is killed goes on, and at no time two places start', async () => {
  const own = await copyOf('killed');
  const DATABASE_URL = await newDatabase();
  const args = ['--to', DATABASE_URL];
  await killAfter(/^copied \d+ rows of accounts$/m, args, own);
  await refuseStart({ ...own, DATABASE_URL }, unfinished);
  await killAfter(/^copied \d+ rows of bodies$/m, args, own);
  await refuseStart({ ...own, DATABASE_URL }, unfinished);
  await refuse(['restore', join(ROOT, 'none')], { ...own, DATABASE_URL }, /none/);
  await killAtNote('before', args, own);
  await refuseStart({ ...own, DATABASE_URL }, unfinished);
  await killAtNote('after', args, own);
  // From here on only the new place may start, and not before the command was run to its end.
  await refuseStart({ ...own, DATABASE_URL }, unfinished);
  await refuseStart(own, /^DATA_DIR: the data in ".*" was moved to postgres:/m);
  await refuse(
    ['move', '--to', await newDatabase()],
    own,
    /^--to: expected postgres:.*, which has all data of this folder since it was moved/,
  );
  const output = await succeed(['move', ...args], own);
  assert.ok(!output.includes('copied'), output);
  await compareRows(own, DATABASE_URL);
  await startsAndStops({ ...own, DATABASE_URL });
});

test('a service that was started between two runs lets the move begin again', async () => {
  const own = await copyOf('used');
  const DATABASE_URL = await newDatabase();
  const args = ['--to', DATABASE_URL];
  await killAtNote('before', args, own);
  const service = await startHere(own);
  const client = clientAt(own);
  const inbox = { mailbox: 'INBOX', uids: [1] };
  const changed = await client.mail(ada.token, 'POST', '/mail/flags', { ...inbox, add: ['later'] });
  assert.equal(changed.status, 200);
  await client.send({ from: 'z@example.test', to: ada.address, subject: 'between', text: 'x' });
  await refuse(['move', ...args], own, /is in use by another Postroom/);
  await service.stop();
  assert.match(await succeed(['move', ...args], own), /^copied \d+ rows of messages$/m);
  await compareRows(own, DATABASE_URL);
});

test('rows that were changed on the way are noticed, and copied again', async () => {
  const own = await copyOf('changed');
  const DATABASE_URL = await newDatabase();
  await killAfter(/^copied \d+ rows of messages$/m, ['--to', DATABASE_URL], own);
  const target = new Client({ connectionString: DATABASE_URL });
  await target.connect();
  await target.query("update messages set flags = 'other' where uid = 4");
  await target.end();
  await refuse(
    ['move', '--to', DATABASE_URL],
    own,
    /table messages was copied, and has other values: .*begins from the start\n.*starts there as before/,
  );
  await succeed(['move', '--to', DATABASE_URL], own);
  await compareRows(own, DATABASE_URL);
});

test('a wrong target gets one line, and nothing changes', async () => {
  const own = await copyOf('refused');
  const url = await newDatabase();
  const to = (change: (url: URL) => void) => {
    const other = new URL(url);
    change(other);
    return ['move', '--to', other.href];
  };
  const intact = /\nNothing changed in DATA_DIR, and the service starts there as before/;
  const refused = async (args: readonly string[], why: RegExp, where: Settings = own) => {
    const { code, output } = await runHere(args, where);
    assert.equal(code, args.length === 1 ? 2 : 1, output);
    assert.match(output, why);
    assert.ok(!output.includes('    at '), output);
    assert.equal(existsSync(join(own.DATA_DIR ?? '', 'moved.json')), false);
    return output;
  };
  await refused(['move'], /^expected --to, --bodies or both, got neither/);
  await refused(['move', '--to', 'postgre://x'], /^--to: expected postgres:\/\/user/);
  assert.match(
    await refused(
      to((one) => {
        one.pathname = '/none';
      }),
      /^--to: .*database "none" does not exist/,
    ),
    intact,
  );
  assert.match(
    await refused(
      to((one) => {
        one.port = '1';
      }),
      /^--to: .*ECONNREFUSED/,
    ),
    intact,
  );
  await refused(
    to((one) => {
      one.hostname = 'nowhere.invalid';
    }),
    /^--to: .*nowhere\.invalid/,
  );
  await refused(['move', '--to', url], /^DATABASE_URL: the service is on PostgreSQL/, {
    ...own,
    DATABASE_URL: url,
  });
  await refused(['move', '--to', url], /has no database of SQLite/, {
    ...own,
    DATA_DIR: join(ROOT, 'nothing'),
  });
  assert.equal(existsSync(join(ROOT, 'nothing')), false);
  await refused(['move', '--bodies', 's3://x'], /^--bodies: expected https:\/\/KEY:SECRET/);
  await refused(['move', '--bodies', 's3'], /^S3_URL: expected the bucket/);
  await refused(['move', '--bodies', 'folder'], /^S3_URL: expected the bucket/);

  const taken = await newDatabase();
  const other = new Client({ connectionString: taken });
  await other.connect();
  await other.query('create table theirs (id int)');
  assert.match(
    await refused(
      ['move', '--to', taken],
      /^--to: expected an empty database, got one with table theirs/,
    ),
    intact,
  );
  await other.query('drop table theirs');
  await other.query('create role powerless login');
  await other.query('revoke create on schema public from public');
  const poor = new URL(taken);
  poor.username = 'powerless';
  assert.match(
    await refused(['move', '--to', poor.href], /^--to: expected a user who may make tables/),
    intact,
  );
  await other.query('drop role powerless');
  await other.end();
  const name = `move_${randomBytes(8).toString('hex')}`;
  await admin.query(`create database ${name} encoding 'LATIN1' locale 'C' template template0`);
  databases.push(name);
  await refused(
    to((one) => {
      one.pathname = `/${name}`;
    }),
    /encoding UTF8, got LATIN1/,
  );

  await startsAndStops(own);
});

test('bodies go to a bucket with the rows, through a kill, and back to the folder', async () => {
  const own = await copyOf('bucket');
  const DATABASE_URL = await newDatabase();
  const S3_URL = await makeBucket();
  const args = ['--to', DATABASE_URL, '--bodies', S3_URL];
  await killAtNote('after', args, own);
  await refuse(['move', '--to', DATABASE_URL], own, /was begun with --bodies http/);
  await refuseStart(
    own,
    /set DATABASE_URL to that database, and S3_URL to http.* go back .*`postroom move --bodies folder`\), then drop/,
  );
  await succeed(['move', ...args], own);
  const moved = { ...own, DATABASE_URL, S3_URL };
  const service = await startHere(moved);
  assert.equal(await ask(moved), known);
  await service.stop();
  const back = await succeed(['move', '--bodies', 'folder', '--json'], moved);
  assert.match(back, /"ok":true,"bodies":2,.*"missing":\[\]/);
  const there = await startHere({ ...own, DATABASE_URL });
  assert.equal(await ask(own), known);
  await there.stop();
});
