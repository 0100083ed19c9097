/**
 * The process is killed (SIGKILL) while accounts send or are made, and while mail comes: nothing is lost, and nothing is
 * done twice. A start costs seconds of a processor, so that one kill is for as much as it can be.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { createTransport } from 'nodemailer';
import { CERTIFICATE } from '../support/certificate.ts';
import { freePort } from '../support/free-port.ts';
import { type FarEnd, refusal, startFarEnd } from '../support/outbound/far-end.ts';
import { type Process, ROOT, start } from '../support/process.ts';

const KEY = 'key-of-the-crash-test';
const ROUNDS = 2;
const AT_ONCE = 4;
/** Recipients of one message, of which the far end takes three at a time. */
const IN_PARTS = Array.from({ length: 8 }, (_, at) => `r${at}`);

const port = await freePort();
const smtpPort = await freePort();
const url = `http://127.0.0.1:${port}`;
let far: FarEnd;
/** The one that runs; tests kill it and start it again. */
let service: Process;
let token = '';
/** What the far end does with a recipient, by how many of this transaction it has taken. */
let onRecipient: (address: string, taken: number) => Promise<keyof typeof REPLIES> = async () =>
  'take';
const REPLIES = {
  take: null,
  later: refusal(451, '4.3.0 later'),
  full: refusal(452, '4.5.3 too many recipients'),
};

async function startService(): Promise<Process> {
  const service = start({
    DATA_DIR: join(ROOT, 'data'),
    PORT: String(port),
    SMTP_PORT: String(smtpPort),
    DNS_SERVERS: '127.0.0.1:9',
    API_KEYS: KEY,
    RATE_LIMIT_PER_MINUTE: '0',
    SEND_RECIPIENTS_PER_DAY: '0',
    SMTP_RELAY_URL: `smtp://127.0.0.1:${far.port}`,
    LOG_LEVEL: 'error',
    ...CERTIFICATE,
  });
  while (!(await fetch(`${url}/readyz`).catch(() => undefined))?.ok) {
    assert.equal(service.child.exitCode, null, service.output());
    await pause(20);
  }
  return service;
}

async function kill({ child }: Process): Promise<void> {
  const exit = once(child, 'exit');
  child.kill('SIGKILL');
  await exit;
}

async function call(path: string, body: unknown, headers: Record<string, string>) {
  const response = await fetch(url + path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  // biome-ignore lint/suspicious/noExplicitAny: tests assert on whatever JSON came back
  return { status: response.status, body: (await response.json()) as any };
}

const mail = (path: string, body?: unknown, headers = {}) =>
  call(path, body, { authorization: `Bearer ${token}`, ...headers });

before(async () => {
  far = await startFarEnd({
    onRcptTo({ address }, { envelope }, callback) {
      onRecipient(address, envelope.rcptTo.length).then(
        (what) => callback(REPLIES[what]),
        callback,
      );
    },
  });
  service = await startService();
  const v2 = (path: string, body: object) =>
    call(path, { user_id: 'u', ...body }, { 'x-api-key': KEY });
  const created = await v2('/v2/domain', { domain: 'acme.test' });
  for (const { id } of created.body.domain.dns) {
    await v2('/v2/domains/acme.test/dns/mark', { id, status: 'verified' });
  }
  const ada = { domain: 'acme.test', local_part: 'ada', password: 'a good password' };
  assert.equal((await v2('/v2/email-accounts/create', ada)).status, 201);
  const login = { address: 'ada@acme.test', password: ada.password };
  token = (await call('/mail/token', login, {})).body.token;
});

const sendOf = (name: string) => ({
  to: [{ address: `${name}@far.test` }],
  subject: name,
  // Beyond 64 KiB a body is a file of its own.
  text: name.endsWith('0') ? `${name}\n`.repeat(20_000) : name,
});

const arrived = (name: string) =>
  far.received.filter(({ to }) => to.includes(`${name}@far.test`)).length;

/** Subjects of the copies in Sent. */
async function copies(): Promise<string[]> {
  const { body } = await mail('/mail/sync', { mailbox: 'Sent', fields: ['envelope'] });
  return body.changes.added.map((one: { envelope: { subject: string } }) => one.envelope.subject);
}

/** What failed is due at the next start, not in a minute. */
function makeAllDue(): void {
  const database = new DatabaseSync(join(ROOT, 'data', 'postroom.sqlite'));
  database.exec("update deliveries set next_attempt_at = 0 where status = 'queued'");
  database.close();
}

test('killed between commit and answer, while a request comes in, once an account is made, between two transfers', async (t) => {
  const [attempted, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  onRecipient = async (address, taken) => {
    const parts = address !== 'unheard@far.test';
    if (parts && address !== 'r3@far.test') return taken < 3 ? 'take' : 'full';
    if (parts && taken === 3) return 'full';
    (parts ? second : attempted).resolve();
    // Kept waiting: the attempt, or the second transfer of one, is under way when the process dies.
    return new Promise(() => {});
  };
  const inParts = await mail('/mail/send', {
    to: IN_PARTS.map((name) => ({ address: `${name}@far.test` })),
    subject: 'parts',
    text: 'parts',
  });
  await second.promise;
  const body = JSON.stringify(sendOf('unheard'));
  const unheard = request('/mail/send', 'application/json', 'unheard', body.length, body);
  // It is attempted only after the commit; the answer is never read.
  await attempted.promise;
  const source = 'Subject: cut off\r\n\r\nnever whole\r\n';
  const append = '/mail/append?mailbox=Drafts';
  const cutOff = request(append, 'message/rfc822', 'cut-off', source.length, 'Subj');
  while (!hasKey('cut-off')) await pause(20);
  const create = () => {
    const wanted = { user_id: 'u', domain: 'acme.test', local_part: 'ben' };
    const headers = { 'x-api-key': KEY, 'idempotency-key': 'ben' };
    return call('/v2/email-accounts/create', wanted, headers);
  };
  // The answer is lost, or comes just before.
  const lost = create().catch(() => undefined);
  while (!hasRow('select id from accounts where local_part = ?', 'ben')) await pause(1);
  await kill(service);
  await lost;
  for (const socket of [unheard, cutOff]) socket.destroy();

  onRecipient = async (_, taken) => (taken < 3 ? 'take' : 'full');
  service = await startService();
  await t.test('the same key is answered, and sent once', async () => {
    const again = await mail('/mail/send', sendOf('unheard'), { 'idempotency-key': 'unheard' });
    assert.equal(again.status, 202);
    const found = await mail('/mail/sends?key=unheard');
    assert.equal(found.body.id, again.body.id);
    const path = `/mail/sends/${again.body.id}`;
    while ((await mail(path)).body.status !== 'delivered') await pause(20);
    assert.equal(arrived('unheard'), 1);
    assert.deepEqual(await copies(), ['parts', 'unheard']);
  });
  await t.test('the key of a request that was cut off is free again at once', async () => {
    const again = await fetch(url + append, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'message/rfc822',
        'idempotency-key': 'cut-off',
      },
      body: source,
    });
    assert.equal(again.status, 201, await again.text());
  });
  await t.test('the same key tells the generated password of the account', async () => {
    const { status, body } = await create();
    assert.equal(status, 201, JSON.stringify(body));
    const { password } = body;
    const login = await call('/mail/token', { address: 'ben@acme.test', password }, {});
    assert.equal(login.status, 200);
  });
  await t.test('each recipient of a message that was under way in parts gets it once', async () => {
    const path = `/mail/sends/${inParts.body.id}`;
    while ((await mail(path)).body.status !== 'delivered') await pause(20);
    const transfers = far.received.map(({ to }) => to.map((address) => address.split('@')[0]));
    assert.deepEqual(
      transfers.filter(([first = '']) => IN_PARTS.includes(first)),
      [IN_PARTS.slice(0, 3), IN_PARTS.slice(3, 6), IN_PARTS.slice(6)],
    );
  });
});

/** Begins a request, whose answer nobody reads. */
function request(path: string, type: string, key: string, length: number, sent: string): Socket {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n` +
      `Content-Type: ${type}\r\nIdempotency-Key: ${key}\r\nContent-Length: ${length}\r\n\r\n${sent}`,
  );
  return socket;
}

/** Whether a request with the key has begun. */
const hasKey = (key: string) => hasRow('select key from idempotency_keys where key = ?', key);

/** Whether a query for a value finds something that is committed. */
function hasRow(query: string, value: string): boolean {
  const path = join(ROOT, 'data', 'postroom.sqlite');
  const database = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
  const row = database.prepare(query).get(value);
  database.close();
  return row !== undefined;
}

/** Sends mail to Ada by SMTP until the process is killed; of each that was answered 250 the subject is kept. */
async function writeToAda(round: number, answered: Set<string>): Promise<void> {
  const transport = createTransport({
    ...{ host: '127.0.0.1', port: smtpPort, ignoreTLS: true },
    ...{ pool: true, maxConnections: 5 },
  });
  let sent = 0;
  const write = async () => {
    for (;;) {
      const subject = `${round}-${sent++}`;
      // Some beyond what lies in the row: those are files.
      const text = 'x'.repeat(sent % 4 === 0 ? 200_000 : 2_000);
      await transport.sendMail({ from: 'b@example.test', to: 'ada@acme.test', subject, text });
      answered.add(subject);
    }
  };
  await Promise.allSettled(Array.from({ length: 5 }, write));
  transport.close();
}

/** Whether INBOX has every message that was answered, and none twice; each is read. */
async function readInbox(answered: ReadonlySet<string>): Promise<void> {
  const { body } = await mail('/mail/sync', { mailbox: 'INBOX', fields: ['envelope'] });
  const { added } = body.changes;
  const stored = new Set<string>(
    added.map(({ envelope }: { envelope: { subject: string } }) => envelope.subject),
  );
  for (const subject of answered) assert.ok(stored.has(subject), `${subject} is lost`);
  assert.equal(stored.size, added.length, 'a message is there twice');
  for (const { uid } of added) {
    assert.equal((await mail(`/mail/message?uid=${uid}`)).status, 200);
  }
}

test('killed again and again under load: each message is sent once, and what was answered 250 is there', async () => {
  // Nothing is taken before the end: what arrives then twice was sent twice.
  onRecipient = async () => 'later';
  const waiting = new Set<string>();
  const answers = new Map<string, string>();
  const answered = new Set<string>();
  const send = async (name: string) => {
    const { status, body } = await mail('/mail/send', sendOf(name), { 'idempotency-key': name });
    assert.equal(status, 202, JSON.stringify(body));
    assert.equal(answers.get(name) ?? body.id, body.id);
    answers.set(name, body.id);
    waiting.delete(name);
  };
  let names = 0;
  for (let round = 0; round < ROUNDS; round++) {
    let isOver = false;
    const load = Array.from({ length: AT_ONCE }, async () => {
      while (!isOver) {
        const name = `m${names++}`;
        waiting.add(name);
        await send(name).catch((error: unknown) => {
          // The connection broke: whether it was sent is not known.
          if (!(error instanceof TypeError)) throw error;
        });
      }
    });
    const coming = writeToAda(round, answered);
    const [{ size }, enough] = [answers, answered.size + 8];
    while (answers.size === size || answered.size < enough) await pause(20);
    await pause(100 * round);
    await kill(service);
    isOver = true;
    await Promise.all([...load, coming]);
    if (round === ROUNDS - 1) {
      onRecipient = async () => 'take';
      makeAllDue();
    }
    service = await startService();
    await Promise.all([...waiting].map(send));
  }
  for (const [name, id] of answers) {
    while ((await mail(`/mail/sends/${id}`)).body.status !== 'delivered') await pause(20);
    assert.equal(arrived(name), 1, name);
  }
  assert.ok(answers.size > ROUNDS * AT_ONCE, `only ${answers.size} messages were sent`);
  assert.deepEqual((await copies()).toSorted(), ['parts', 'unheard', ...answers.keys()].toSorted());
  await readInbox(answered);
  const { wrong, out } = countedAndThere();
  assert.deepEqual(wrong, [], 'counters of mailboxes say what is in them');
  assert.equal(out, answers.size + 1 + IN_PARTS.length, 'each recipient was counted once');
});

/** Mailboxes whose counters differ from their rows, and how many messages were counted as sent. */
function countedAndThere(): { readonly wrong: unknown[]; readonly out: unknown } {
  const database = new DatabaseSync(join(ROOT, 'data', 'postroom.sqlite'), {
    readOnly: true,
    timeout: 5_000,
  });
  const wrong = database
    .prepare(
      `select id, messages, octets from mailboxes where messages <> (
        select count(*) from messages where mailbox_id = mailboxes.id
      ) or octets <> (
        select coalesce(sum(size), 0) from messages where mailbox_id = mailboxes.id)`,
    )
    .all();
  const counted = database.prepare('select sum(messages_out) as out from usage_days').get();
  database.close();
  return { wrong, out: counted?.out };
}
