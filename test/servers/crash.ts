/**
 * Kills the process again and again while mail comes in by all four routes, and then looks for every
 * message that was answered 250 where its route says it is, and for every event at the product's backend. A process of its own for each engine:
 * `crash.test.ts`, `crash-postgres.test.ts`.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createTransport } from 'nodemailer';
import { SMTPServer, type SMTPServerDataStream } from 'smtp-server';
import { Webhook } from 'standardwebhooks';
import { freePort } from '../support/free-port.ts';
import { bareEnvironment } from '../support/process.ts';
import { clientOf } from '../support/service.ts';
import { EventBackend } from './event-backend.ts';
import { Follower, KnownInbox } from './follower.ts';
import { until } from './mail-load.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const CONNECTIONS = 6;
/** From the first mail of a round that is answered 250 to its kill, in milliseconds. */
const FLOW_MAX_MS = 700;
/** What one round may take, and all that is not a round. */
const TIMES_MS = { round: 20_000, rest: 120_000 };
/** A slow machine makes fewer kills: a third may fall away where a round takes longer than this. */
const USUAL_ROUND_MS = 5_000;
/** One kill in so many comes before the process listens, or right after, without any mail. */
const EARLY_KILLS = 8;
const EARLY_MAX_MS = 1_500;
/** In one of so many rounds the product's backend, which follows the events, is killed as well. */
const BACKEND_KILLS = 3;

/** A process that is told to end does so within this time. */
const ENDS_WITHIN_MS = 15_000;

const USER = 'u';
const KEY = 'key-of-the-crash-test';
const PASSWORD = 'a good password';
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

const modes = ['store', 'webhook', 'webhook_then_store', 'forward_email'] as const;
type Mode = (typeof modes)[number];

const domainOf = (mode: Mode) => `${mode.replaceAll('_', '-')}.test`;
const addressOf = (mode: Mode) => `ann@${domainOf(mode)}`;

/** A subject says all of its message: how many lines its text has, and so what they are. */
interface Subject {
  readonly mode: Mode;
  readonly subject: string;
}

let made = 0;

function makeSubject(): Subject {
  made++;
  const mode = modes[made % modes.length] ?? 'store';
  // Beyond 64 KiB a body is a file of its own.
  const lines = randomInt(6) === 0 ? randomInt(900, 3_000) : randomInt(1, 60);
  return { mode, subject: `${mode} ${made} ${lines}` };
}

function textOf(subject: string): string {
  const lines = Number(subject.split(' ')[2]);
  return Array.from({ length: lines }, (_, at) => `${subject}: ${at} `.padEnd(76, 'x')).join('\n');
}

function sourceOf({ mode, subject }: Subject): string {
  const header = [
    'From: Bob <bob@sender.example>',
    `To: ${addressOf(mode)}`,
    `Subject: ${subject}`,
    `Message-ID: <${subject.replaceAll(' ', '.')}@sender.example>`,
    'Content-Type: text/plain; charset=us-ascii',
  ].join('\r\n');
  return `${header}\r\n\r\n${textOf(subject).replaceAll('\n', '\r\n')}\r\n`;
}

/** What became of messages at one place, by subject. */
class Arrived {
  readonly copies = new Map<string, number>();
  readonly mutilated: string[] = [];

  add(subject: string, text: string): void {
    this.copies.set(subject, (this.copies.get(subject) ?? 0) + 1);
    if (text.replaceAll('\r\n', '\n').trimEnd() !== textOf(subject)) this.mutilated.push(subject);
  }

  addSource(source: string): void {
    const end = source.indexOf('\r\n\r\n');
    const subject =
      /^Subject: (.*)\r$/m.exec(source.slice(0, end + 2))?.[1] ?? source.slice(0, end);
    this.add(subject, source.slice(end + 4));
  }

  /** Which of these are not here at all. */
  missing(subjects: Iterable<string>): string[] {
    return [...subjects].filter((subject) => !this.copies.has(subject));
  }

  /** What is here more than once. */
  get repeated(): string[] {
    return [...this.copies].flatMap(([subject, copies]) => (copies > 1 ? [subject] : []));
  }
}

const hooks = new Arrived();
/** Each combination of webhook-id and body, by subject. */
const hookForms = new Map<string, Set<string>>();
const hookIds = new Set<string>();
const unsigned: string[] = [];

const receiver = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  // A request that is cut off by a kill has no end, and counts for nothing.
  request.on('error', () => {});
  request.on('end', () => {
    const body = Buffer.concat(chunks).toString();
    const id = String(request.headers['webhook-id']);
    try {
      new Webhook(SECRET).verify(body, request.headers as Record<string, string>);
    } catch (error) {
      unsigned.push(`${id}: ${String(error)}`);
    }
    const { data } = JSON.parse(body);
    hooks.add(data.subject, data.text);
    hookIds.add(id);
    const forms = hookForms.get(data.subject) ?? new Set();
    hookForms.set(data.subject, forms);
    forms.add(`${id} ${createHash('sha256').update(body).digest('hex')}`);
    response.end();
  });
});

const forwarded = new Arrived();
const farEnd = new SMTPServer({
  disabledCommands: ['AUTH', 'STARTTLS'],
  logger: false,
  onData(stream: SMTPServerDataStream, _session, done) {
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('end', () => {
      forwarded.addSource(Buffer.concat(chunks).toString('latin1'));
      done();
    });
  },
});
// Connections that a kill resets.
farEnd.on('error', () => {});

let folder = '';
let environment: Record<string, string> = {};
const children = new Set<ChildProcess>();

async function prepare(databaseUrl: string | undefined): Promise<void> {
  folder = await mkdtemp(join(tmpdir(), 'postroom-crash-'));
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  await new Promise<void>((resolve) => farEnd.listen(0, '127.0.0.1', () => resolve()));
  environment = {
    DATA_DIR: join(folder, 'data'),
    PORT: String(await freePort()),
    SMTP_PORT: String(await freePort()),
    LOG_LEVEL: 'warn',
    API_KEYS: KEY,
    RATE_LIMIT_PER_MINUTE: '0',
    // Nothing listens there: no test asks the DNS of the machine.
    DNS_SERVERS: '127.0.0.1:9',
    OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8',
    SMTP_RELAY_URL: `smtp://127.0.0.1:${portOf(farEnd.server.address())}`,
    ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl }),
  };
}

after(async () => {
  for (const child of children) child.kill('SIGKILL');
  receiver.close();
  receiver.closeAllConnections();
  farEnd.close();
  await rm(folder, { recursive: true, force: true });
});

function portOf(address: unknown): number {
  assert.ok(typeof address === 'object' && address && 'port' in address);
  return Number(address.port);
}

/** What the processes said beyond that they listen, and that there is no DNS here. */
const complaints: string[] = [];

interface Running {
  readonly child: ChildProcess;
  /** The process said that everything listens. */
  readonly listening: Promise<void>;
  kill(): Promise<void>;
  /** Ends it by SIGTERM. */
  stop(): Promise<void>;
}

function start(): Running {
  const child = spawn(process.execPath, [MAIN], {
    cwd: folder,
    env: { ...bareEnvironment(), ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.add(child);
  const listens = Promise.withResolvers<void>();
  // A kill before that is no failure of whoever does not wait for it.
  listens.promise.catch(() => {});
  let output = '';
  const hear = (text: string) => {
    output += text;
    if (output.includes('Postroom listens')) listens.resolve();
  };
  child.stdout?.setEncoding('utf8').on('data', hear);
  child.stderr?.setEncoding('utf8').on('data', hear);
  const closed = once(child, 'close').then(() => {
    children.delete(child);
    listens.reject(new Error(`ended before it listened: ${output}`));
    const lines = output
      .split('\n')
      .filter(
        (line) =>
          !/"msg":"(?:Postroom listens|Data: |New secrets were generated|DNS does not answer)|^$/.test(
            line,
          ),
      );
    complaints.push(...lines);
  });
  return {
    child,
    listening: listens.promise,
    async kill() {
      child.kill('SIGKILL');
      await closed;
      assert.equal(child.signalCode, 'SIGKILL', `it ended by itself: ${output}`);
    },
    async stop() {
      child.kill('SIGTERM');
      const late = setTimeout(() => child.kill('SIGKILL'), ENDS_WITHIN_MS);
      await closed;
      clearTimeout(late);
      assert.equal(child.exitCode, 0, `it does not end by SIGTERM: ${output}`);
    },
  };
}

async function call(method: string, path: string, body?: object, headers: object = {}) {
  const response = await fetch(`http://127.0.0.1:${environment.PORT}${path}`, {
    method,
    headers: {
      'x-api-key': KEY,
      ...(body && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  // biome-ignore lint/suspicious/noExplicitAny: whatever JSON came
  return JSON.parse(text) as any;
}

async function makeDomain(mode: Mode): Promise<void> {
  const domain = domainOf(mode);
  const url = `http://127.0.0.1:${portOf(receiver.address())}/hook`;
  const created = await call('POST', '/v2/domain', { user_id: USER, domain });
  for (const { id } of created.domain.dns) {
    const mark = { user_id: USER, id, status: 'verified' };
    await call('POST', `/v2/domains/${domain}/dns/mark`, mark);
  }
  const account = { user_id: USER, domain, local_part: 'ann', password: PASSWORD };
  await call('POST', '/v2/email-accounts/create', account);
  await call('PUT', `/v2/domains/${domain}/route`, {
    user_id: USER,
    forward_mode: mode,
    ...(mode.startsWith('webhook') && { webhook_url: url, webhook_secret: SECRET }),
    ...(mode === 'forward_email' && { forward_to_email: 'me@elsewhere.example' }),
  });
}

/** Subjects of the messages that were answered 250. */
const acknowledged = new Map<Mode, Set<string>>(modes.map((mode) => [mode, new Set()]));
const ofMode = (mode: Mode) => acknowledged.get(mode) ?? new Set<string>();

/** Sends over several connections, until some of each mode was answered and, a random while later, the process is killed. */
async function sendUntilKilled(running: Running): Promise<void> {
  const transport = createTransport({
    host: '127.0.0.1',
    port: Number(environment.SMTP_PORT),
    ignoreTLS: true,
    pool: true,
    maxConnections: CONNECTIONS,
    maxMessages: Number.POSITIVE_INFINITY,
    // A message that got no answer is not sent again.
    maxRequeues: 0,
  });
  let isKilled = false;
  const flows = Promise.withResolvers<void>();
  const answered = new Set<Mode>();
  const send = async () => {
    while (!isKilled) {
      const message = makeSubject();
      const envelope = { from: 'bob@sender.example', to: addressOf(message.mode) };
      try {
        const { response } = await transport.sendMail({ envelope, raw: sourceOf(message) });
        assert.match(response, /^250 /);
        ofMode(message.mode).add(message.subject);
        answered.add(message.mode);
        if (answered.size === modes.length) flows.resolve();
      } catch (error) {
        if (!isKilled) throw error;
      }
    }
  };
  const sending = Promise.all(Array.from({ length: CONNECTIONS }, send));
  const [, sent] = await Promise.allSettled([
    // However slow the machine is, some mail of each mode; an unexpected end of the sending is told below.
    Promise.race([flows.promise, sending.catch(() => {})])
      .then(() => wait(randomInt(FLOW_MAX_MS)))
      .then(() => {
        isKilled = true;
        return running.kill();
      }),
    sending,
  ]);
  transport.close();
  if (sent.status === 'rejected') throw sent.reason;
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

interface ListedDelivery {
  readonly kind: string;
  readonly status: string;
  readonly webhook_id: string;
}

const deliveriesPath = (mode: Mode) => `/v2/domains/${domainOf(mode)}/deliveries?user_id=${USER}`;

async function listDeliveries(mode: Mode): Promise<ListedDelivery[]> {
  const all: ListedDelivery[] = [];
  for (;;) {
    const path = `${deliveriesPath(mode)}&limit=1000&offset=${all.length}`;
    const { items } = await call('GET', path);
    all.push(...items);
    if (items.length < 1000) return all;
  }
}

async function drain(): Promise<void> {
  for (const mode of modes) {
    while ((await call('GET', `${deliveriesPath(mode)}&status=queued&limit=1`)).items.length > 0) {
      await wait(100);
    }
  }
}

/** Everything in the INBOX of a mode's account, read to its end. */
async function readMailbox(mode: Mode): Promise<Arrived> {
  const login = { address: addressOf(mode), password: PASSWORD };
  const { token } = await call('POST', '/mail/token', login);
  const bearer = { authorization: `Bearer ${token}` };
  const found = new Arrived();
  let page = { hasMore: true };
  let position = {};
  while (page.hasMore) {
    const request = { fields: ['envelope'], limit: 1000, ...position };
    const answer = await call('POST', '/mail/sync', request, bearer);
    for (const { uid, envelope } of answer.changes.added) {
      const { rfc822 } = await call('GET', `/mail/message?uid=${uid}`, undefined, bearer);
      assert.match(rfc822, new RegExp(`^Subject: ${envelope.subject}\r$`, 'm'));
      found.addSource(rfc822);
    }
    page = answer;
    position = { token: answer.token, uidvalidity: answer.uidvalidity };
  }
  return found;
}

export interface CrashOptions {
  /** Kills, on a machine that is quick enough. */
  readonly rounds: number;
  /** PostgreSQL; SQLite when left out. */
  readonly databaseUrl?: string;
}

/** Declares the test; once in a process. */
export function declareCrashTest({ rounds, databaseUrl }: CrashOptions): void {
  before(() => prepare(databaseUrl));
  const title = 'every message that was answered 250 is where its route says, whatever was killed';
  void test(title, { timeout: TIMES_MS.rest + rounds * TIMES_MS.round }, (t) => crash(t, rounds));
}

async function crash(t: TestContext, rounds: number): Promise<void> {
  let step: string | undefined = 'the first start';
  // The runner only says that the time was over.
  t.signal.addEventListener('abort', () => {
    if (step) process.stderr.write(`the time was over at ${step}\n`);
  });
  const first = start();
  await first.listening;
  const backend = new EventBackend({
    url: `http://127.0.0.1:${environment.PORT}`,
    apiKey: KEY,
    userId: USER,
    file: join(folder, 'cursors'),
  });
  t.after(() => backend.stop());
  await backend.start();
  for (const mode of modes) await makeDomain(mode);
  const login = { address: addressOf('store'), password: PASSWORD };
  const { token } = await call('POST', '/mail/token', login);
  const { PORT, SMTP_PORT } = environment;
  const client = clientOf({ url: `http://127.0.0.1:${PORT}`, smtpPort: Number(SMTP_PORT) });
  // An app that is there all the time: each kill breaks its socket.
  const app = new Follower(client, { token });
  t.after(() => app.stop());
  await first.kill();

  const end = performance.now() + rounds * USUAL_ROUND_MS;
  let round = 0;
  for (; round < rounds && (round < (rounds * 2) / 3 || performance.now() < end); round++) {
    const running = start();
    step = `start ${round} of ${rounds}`;
    if (round % EARLY_KILLS === EARLY_KILLS - 1) {
      await wait(randomInt(EARLY_MAX_MS));
      await running.kill();
    } else {
      await running.listening;
      step = `the mail of round ${round}`;
      // It is killed, too, while the node goes on.
      if (round % BACKEND_KILLS === 0) backend.restart();
      await sendUntilKilled(running);
    }
  }

  step = 'the last start';
  const last = start();
  await last.listening;
  assert.deepEqual(await call('GET', '/readyz'), { status: 'ready' });
  step = 'the end of the queue';
  await drain();
  step = 'the look at all mail';
  const stored = await readMailbox('store');
  const storedAfterHook = await readMailbox('webhook_then_store');
  step = undefined;
  const counts = modes.map((mode) => `${mode} ${ofMode(mode).size}`).join(', ');
  t.diagnostic(`${round} kills, ${made} messages begun, answered 250: ${counts}`);
  t.diagnostic(
    `repeated: ${hooks.repeated.length} webhooks, ${forwarded.repeated.length} forwarded messages`,
  );
  for (const mode of modes) assert.ok(ofMode(mode).size > round / 4, `too little mail: ${counts}`);

  await t.test('store: once in the mailbox', () => {
    assert.deepEqual(stored.missing(ofMode('store')), []);
    assert.deepEqual(stored.repeated, []);
  });
  await t.test('webhook: received, each time with the same webhook-id and body', () => {
    assert.deepEqual(hooks.missing(ofMode('webhook')), []);
    const differing = [...hookForms].filter(([, forms]) => forms.size > 1);
    assert.deepEqual(differing, []);
    assert.deepEqual(unsigned, []);
  });
  await t.test('webhook_then_store: received, and once in the mailbox', () => {
    assert.deepEqual(hooks.missing(ofMode('webhook_then_store')), []);
    assert.deepEqual(storedAfterHook.missing(ofMode('webhook_then_store')), []);
    assert.deepEqual(storedAfterHook.repeated, []);
    const hooked = [...hooks.copies.keys()].filter((name) => name.startsWith('webhook_then_store'));
    assert.deepEqual(storedAfterHook.missing(hooked), [], 'not stored, though received');
  });
  await t.test('forward_email: at the far end', () => {
    assert.deepEqual(forwarded.missing(ofMode('forward_email')), []);
  });
  await t.test('nowhere is anything that is not whole, or in the wrong place', () => {
    const places: [Arrived, Mode[]][] = [
      [stored, ['store']],
      [hooks, ['webhook', 'webhook_then_store']],
      [storedAfterHook, ['webhook_then_store']],
      [forwarded, ['forward_email']],
    ];
    for (const [place, expected] of places) {
      assert.deepEqual(place.mutilated, []);
      const names: string[] = expected;
      const strange = [...place.copies.keys()].filter(
        (subject) => !names.includes(subject.split(' ')[0] ?? ''),
      );
      assert.deepEqual(strange, []);
    }
  });
  await t.test('mailboxes of the other routes hold nothing', async () => {
    assert.deepEqual([...(await readMailbox('webhook')).copies], []);
    assert.deepEqual([...(await readMailbox('forward_email')).copies], []);
  });
  await t.test('every delivery is listed as delivered, its webhook-id was received', async () => {
    for (const mode of modes) {
      const listed = await listDeliveries(mode);
      assert.deepEqual(
        listed.filter(({ status }) => status !== 'delivered'),
        [],
      );
      if (mode === 'store') assert.deepEqual(listed, []);
      if (!mode.startsWith('webhook')) continue;
      // Where leases had to run out first, mailboxes did not wait for the webhook.
      const hooked = listed.filter(({ kind }) => kind === 'webhook');
      const ids = hooked.map(({ webhook_id }) => webhook_id);
      assert.equal(new Set(ids).size, ids.length);
      assert.deepEqual(
        ids.filter((id) => !hookIds.has(id)),
        [],
      );
    }
  });
  await t.test('a backend that was killed, too, has every event, in order and once', async () => {
    const count = await backend.check();
    t.diagnostic(`${count} events`);
    assert.ok(count > ofMode('store').size, `${count} events`);
    backend.stop();
  });
  await t.test('an app that was there all the time has what the mailbox has', async () => {
    const mailbox = new KnownInbox();
    while ((await mailbox.sync(client, { token })).body.hasMore);
    const isInStep = () => app.inbox.uids.symmetricDifference(mailbox.uids).size === 0;
    assert.ok(mailbox.uids.size > 0);
    await until('the app has what the mailbox has', isInStep, 60_000);
    assert.deepEqual(app.unexpected, []);
    app.stop();
  });
  await t.test('the last process ends by SIGTERM', () => last.stop());
  await t.test('no process complained', () => assert.deepEqual(complaints, []));
}
