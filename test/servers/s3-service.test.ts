/** The service with its large bodies in a real S3 server: what clients see, on good days and on bad ones. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { createTransport } from 'nodemailer';
import { ConfigError } from '../../src/run/config/config.ts';
import { runHere } from '../support/commands.ts';
import { openTestDatabase } from '../support/databases.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { freePort } from '../support/free-port.ts';
import {
  environment,
  listening,
  type Process,
  ROOT,
  run as runProgram,
  start,
  startHere,
} from '../support/process.ts';
import { clientOf, commonVariables, type TestClient } from '../support/service.ts';
import { MailLoad } from './mail-load.ts';
import { startRedis } from './redis.ts';
import { RunningNodes } from './running-nodes.ts';
import { startS3 } from './s3.ts';

const API_KEY = 'key-of-the-s3-tests';
const s3 = await startS3();
const proxy = await startFaultProxy(s3.port);
after(async () => {
  await proxy.close();
  await s3.stop();
});
const { endpoint, bucket, region, accessKeyId, secretAccessKey } = s3.bucket;
const client = new S3Client({
  endpoint,
  region,
  forcePathStyle: true,
  credentials: { accessKeyId, secretAccessKey },
});
after(() => client.destroy());
const S3_URL = `${proxy.url.replace('//', `//${accessKeyId}:${secretAccessKey}@`)}/${bucket}?region=${region}`;

async function keys(): Promise<string[]> {
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: bucket }));
  return Contents.map(({ Key = '' }) => Key).filter((key) => key.includes('/'));
}

const settings = {
  ...(await environment('s3')),
  API_KEYS: API_KEY,
  RATE_LIMIT_PER_MINUTE: '0',
  DNS_SERVERS: '127.0.0.1:9',
};
const url = `http://127.0.0.1:${settings.PORT}`;
const attachment = randomBytes(3_600_000);
let token = '';

async function call(path: string, body?: object, key = false): Promise<Response> {
  return fetch(url + path, {
    headers: {
      'content-type': 'application/json',
      ...(key ? { 'x-api-key': API_KEY } : { authorization: `Bearer ${token}` }),
    },
    ...(body && { method: 'POST', body: JSON.stringify(body) }),
  });
}

async function setUp(): Promise<void> {
  const claimed = await call('/v2/domain', { user_id: 'u', domain: 'acme.test' }, true);
  const { domain } = (await claimed.json()) as { domain: { dns: { id: number }[] } };
  for (const { id } of domain.dns) {
    const mark = { user_id: 'u', id, status: 'verified' };
    await call('/v2/domains/acme.test/dns/mark', mark, true);
  }
  const account = { domain: 'acme.test', local_part: 'ann', display_name: 'A', user_id: 'u' };
  const made = await call(
    '/v2/email-accounts/create',
    { ...account, password: 'a good one' },
    true,
  );
  assert.equal(made.status, 201);
  const login = await call('/mail/token', { address: 'ann@acme.test', password: 'a good one' });
  ({ token } = (await login.json()) as { token: string });
}

/** Sends one message; answers the code of SMTP. */
async function send(subject: string, content?: Buffer): Promise<number> {
  const transport = createTransport({
    host: '127.0.0.1',
    port: Number(settings.SMTP_PORT),
    tls: { rejectUnauthorized: false },
  });
  const mail = { from: 'bob@example.test', to: 'ann@acme.test', subject, text: 'text' };
  return transport
    .sendMail({ ...mail, attachments: content ? [{ filename: 'a.bin', content }] : [] })
    .then(
      () => 250,
      (error: { responseCode?: number }) => error.responseCode ?? 0,
    );
}

async function readAttachment(uid: number): Promise<Buffer> {
  const answer = await call(`/mail/attachment?mailbox=INBOX&uid=${uid}&part=2`);
  assert.equal(answer.status, 200);
  return Buffer.from(await answer.arrayBuffer());
}

async function statusOf(path: string): Promise<number> {
  return (await call(path)).status;
}

async function readiness(): Promise<{ status: string; detail?: string }> {
  const answer = await call('/readyz');
  return (await answer.json()) as { status: string; detail?: string };
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 30_000;
  while (!(await holds())) {
    assert.ok(performance.now() < end, 'it does not come');
    await pause(100);
  }
}

const withBucket = { ...settings, S3_URL };

/** Moves the bodies into the bucket, as a process of its own. */
function moveBodies(...more: string[]): Process {
  const program = join(import.meta.dirname, '../../src/postroom.js');
  const args = ['move', '--bodies', 's3', ...more];
  return runProgram([process.execPath, program, ...args], withBucket, 'pipe');
}

test('bodies go from the folder to the bucket, through a kill, and mail continues there', async () => {
  let service = await startHere(settings);
  await setUp();
  for (const subject of ['1', '2', '3']) assert.equal(await send(subject, attachment), 250);
  const refused = await runHere(['move', '--bodies', 's3'], withBucket);
  assert.equal(refused.code, 1, refused.output);
  assert.match(refused.output, /^DATA_DIR: .* is in use by another Postroom/);
  await service.stop();

  let uploads = 0;
  const killed = moveBodies();
  proxy.fault = (method, path) =>
    method === 'PUT' && /partNumber|[0-9a-f]{12}\?/.test(path) && ++uploads > 1
      ? 'silent'
      : undefined;
  await until(async () => uploads > 1);
  killed.child.kill('SIGKILL');
  await killed.ended();
  proxy.fault = undefined;
  const moved = await moveBodies('--json').ended();
  assert.equal(moved.code, 0, moved.output);
  assert.match(moved.output, /"ok":true,"bodies":3,.*"missing":\[\]/);
  assert.ok(!moved.output.includes(secretAccessKey));
  assert.equal((await keys()).length, 3);

  // With the old settings it takes nothing, and says so.
  service = await startHere(settings);
  assert.equal(await statusOf('/readyz'), 503);
  assert.equal(await send('x'), 451);
  await service.stop();

  service = await startHere(withBucket);
  assert.equal(await statusOf('/readyz'), 200);
  for (const uid of [1, 2, 3]) assert.ok(attachment.equals(await readAttachment(uid)));
  assert.equal(await send('4', attachment), 250);
  assert.ok(attachment.equals(await readAttachment(4)));
  const part = await fetch(`${url}/mail/attachment?mailbox=INBOX&uid=4&part=2`, {
    headers: { authorization: `Bearer ${token}`, range: 'bytes=3000000-3000009' },
  });
  assert.equal(part.status, 206);
  assert.ok(
    attachment.subarray(3_000_000, 3_000_010).equals(Buffer.from(await part.arrayBuffer())),
  );
  const removed = await call('/mail/delete', { mailbox: 'INBOX', uids: [1] });
  assert.equal(removed.status, 200);
  // Its body stays for BODY_KEEP_HOURS.
  const isKept = (key: string) => key.startsWith('quarantine/');
  await until(async () => (await keys()).filter(isKept).length === 1);
  assert.equal((await keys()).filter((key) => !isKept(key)).length, 3);
  await service.stop();
});

test('while S3 is down large mail is deferred, small mail continues, and readyz says so', async () => {
  const service = await startHere(withBucket);
  for (const fault of [{ answer: 503 }, 'reset'] as const) {
    proxy.fault = () => fault;
    assert.equal(await send('large', attachment), 451);
    assert.equal(await send('small'), 250);
    assert.deepEqual(await readiness(), { status: 'degraded', detail: 'bodies' });
    assert.equal(await statusOf('/mail/message?mailbox=INBOX&uid=4'), 503);
    assert.equal(await statusOf('/mail/attachment?mailbox=INBOX&uid=4&part=2'), 503);
    assert.equal((await call('/mail/sync', {})).status, 200);
    proxy.fault = undefined;
    await until(async () => (await readiness()).status === 'ready');
    assert.ok(attachment.equals(await readAttachment(4)));
  }
  await service.stop();
  const lines = service.output().split('\n');
  const said = lines.filter((line) =>
    /cannot be read; smaller|body store answers again/.test(line),
  );
  assert.equal(said.length, 4, said.join('\n'));
  assert.ok(!service.output().includes(secretAccessKey));
});

test('two nodes continue with small mail while S3 answers 503 or nothing at all', async (t) => {
  const { location } = await openTestDatabase('postgres');
  await client.send(new CreateBucketCommand({ Bucket: 'nodes' }));
  const redis = await startRedis();
  t.after(() => redis.stop());
  const environment = {
    DATABASE_URL: location,
    REDIS_URL: redis.url,
    S3_URL: S3_URL.replace(`/${bucket}?`, '/nodes?'),
    // All mail is for two mailboxes. On a busy machine it may wait for its turn longer than it may by default.
    DATABASE_TIMEOUT_SECONDS: '60',
  };
  const nodes = await RunningNodes.start(environment, (cleanup) => t.after(cleanup));
  const small = await nodes.balanced.makeAccount();
  const account = await nodes.balanced.addAccount(small, 'ben');
  const load = new MailLoad(t, nodes, small);
  const sendLarge = (node: TestClient, subject: string) =>
    node
      .send({
        from: 'bob@example.test',
        to: account.address,
        subject,
        attachments: [{ filename: 'a.bin', content: randomBytes(300_000) }],
      })
      .then(
        () => 250,
        (error: { responseCode?: number }) => error.responseCode ?? 0,
      );
  const sendToEach = (subject: string) =>
    Promise.all(nodes.each.map((node, at) => sendLarge(node, `${subject} ${at}`)));
  /** What each node answers to whoever asks for each large message. */
  const readFromEach = async () => {
    const { body } = await nodes.balanced.mail(account.token, 'POST', '/mail/sync', {
      fields: ['envelope'],
    });
    const added: { uid: number; envelope: { subject: string } }[] = body.changes.added;
    const asked = nodes.each.flatMap((node) =>
      added.map(async ({ uid, envelope }) => {
        const path = `/mail/message?mailbox=INBOX&uid=${uid}`;
        const { status } = await node.mail(account.token, 'GET', path);
        return `${envelope.subject}: ${status}`;
      }),
    );
    return [...new Set(await Promise.all(asked))].toSorted();
  };
  assert.deepEqual(await sendToEach('large first'), [250, 250]);
  const kept = ['large first 0', 'large first 1'];
  for (const fault of [{ answer: 503 }, 'silent'] as const) {
    const name = typeof fault === 'string' ? fault : String(fault.answer);
    proxy.fault = () => fault;
    assert.deepEqual(await sendToEach(`large refused ${name}`), [451, 451]);
    await nodes.readiness.until(/^degraded: bodies$/);
    await nodes.readiness.saysOnly(/^degraded: bodies$/, async () => {
      await load.flows();
      const answers = await readFromEach();
      assert.deepEqual(
        answers,
        kept.map((subject) => `${subject}: 503`),
      );
    });
    proxy.fault = undefined;
    await nodes.readiness.untilReady();
    assert.deepEqual(await sendToEach(`large later ${name}`), [250, 250]);
    kept.push(`large later ${name} 0`, `large later ${name} 1`);
    assert.deepEqual(
      await readFromEach(),
      kept.map((subject) => `${subject}: 200`),
    );
  }
  assert.equal(load.counts.refused, 0, 'small mail was refused');
  assert.equal(load.counts.unavailable, 0, 'a sync was refused');
  await load.check();
  await nodes.end();
});

test('a node whose own disk is full takes small mail, and leaves the rest to others', async (t) => {
  const disk = await mkdtemp(join(ROOT, 'small-disk-'));
  const otherDisk = await mkdtemp(join(ROOT, 'other-disk-'));
  for (const folder of [disk, otherDisk]) {
    // Little more than what is kept free of mail.
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=90m', 'tmpfs', folder]);
    if (mounted.status !== 0) {
      return t.skip(`NOT TESTED, no tmpfs can be mounted: ${mounted.stderr}`);
    }
    t.after(() => execFileSync('umount', ['--lazy', folder]));
  }
  const { location } = await openTestDatabase('postgres');
  await client.send(new CreateBucketCommand({ Bucket: 'disks' }));
  const redis = await startRedis();
  t.after(() => redis.stop());
  const nodeWith = async (folder: string): Promise<Record<string, string>> => ({
    ...(await commonVariables(join(folder, 'data'))),
    DATABASE_URL: location,
    REDIS_URL: redis.url,
    S3_URL: S3_URL.replace(`/${bucket}?`, '/disks?'),
    PORT: String(await freePort()),
  });
  const environment = await nodeWith(disk);
  const node = await startHere(environment);
  const at = (port: string | undefined) => `http://127.0.0.1:${port}`;
  const { PORT, SMTP_PORT } = environment;
  const own = clientOf({ url: at(PORT), smtpPort: Number(SMTP_PORT) });
  const { address } = await own.makeAccount();
  const take = (octets: number) =>
    own.send({ from: 'bob@far.test', to: address, subject: 'a', text: 'a'.repeat(octets) }).then(
      () => 250,
      (error: { responseCode?: number }) => error.responseCode ?? 0,
    );
  const isReady = async (port = PORT) => {
    const answer = await fetch(`${at(port)}/readyz`);
    const { status, detail } = (await answer.json()) as { status: unknown; detail?: string };
    return `${status}: ${detail}`;
  };
  assert.equal(await take(300_000), 250);
  await writeFile(join(disk, 'full'), Buffer.alloc(30_000_000));
  await until(async () => (await isReady()) === 'degraded: disk');
  for (let mail = 0; mail < 3; mail++) {
    assert.equal(await take(10), 250);
    assert.equal(await take(300_000), 452);
  }

  const theirs = await nodeWith(otherDisk);
  const other = await startHere(theirs);
  await until(async () => (await isReady()) === '503: not ready: disk');
  assert.equal(await take(10), 250);
  // Where the disks of all are full, each still serves what needs none.
  await writeFile(join(otherDisk, 'full'), Buffer.alloc(30_000_000));
  await until(async () => {
    const both = [await isReady(), await isReady(theirs.PORT)];
    return both.every((said) => said === 'degraded: disk');
  });
  await rm(join(disk, 'full'));
  await until(async () => (await isReady()) === 'ready: undefined');
  assert.equal(await take(300_000), 250);
  await other.stop();
  await node.stop();
  const lines = node.output().split('\n');
  const said = lines.filter((line) =>
    /"level":50|is full: mail|the disk has space again/.test(line),
  );
  assert.equal(said.length, 2, said.join('\n'));
  assert.match(said[0] ?? '', /is full: mail above 64 KiB is deferred/);
  assert.match(said[1] ?? '', /has space again/);
});

test('S3 is killed during uploads, and started again', async () => {
  const service = await startHere(withBucket);
  let uploads = 0;
  proxy.fault = (method) => {
    if (method === 'PUT') uploads++;
    return undefined;
  };
  const sending = ['a', 'b', 'c'].map((name) => send(`killed ${name}`, randomBytes(6_000_000)));
  await until(async () => uploads > 0);
  await s3.kill();
  const codes = await Promise.all(sending);
  assert.ok(
    codes.every((code) => code === 250 || code === 451),
    codes.join(),
  );
  assert.equal(await send('large', attachment), 451);
  assert.equal(await send('small'), 250);
  assert.deepEqual(await readiness(), { status: 'degraded', detail: 'bodies' });
  await s3.restart();
  await until(async () => (await readiness()).status === 'ready');
  const { changes } = (await (await call('/mail/sync', { fields: ['envelope'] })).json()) as {
    changes: { added: { uid: number; envelope: { subject: string } }[] };
  };
  const kept = changes.added.filter(({ envelope }) => envelope.subject.startsWith('killed'));
  assert.equal(kept.length, codes.filter((code) => code === 250).length);
  for (const { uid } of kept) assert.equal((await readAttachment(uid)).length, 6_000_000);
  assert.ok(attachment.equals(await readAttachment(4)));
  assert.equal(await send('large', attachment), 250);
  await service.stop();
});

test('a node that is killed between upload and commit loses nothing that it accepted', async () => {
  const before = await keys();
  const killed = start(withBucket);
  await listening(killed);
  proxy.fault = (method) => (method === 'PUT' ? 'lose answer' : undefined);
  const sending = send('lost', randomBytes(1_000_000));
  await until(async () => (await keys()).length > before.length);
  killed.child.kill('SIGKILL');
  await killed.ended();
  proxy.fault = undefined;
  assert.equal(await sending, 0);
  const service = await startHere(withBucket);
  // The sender comes again; what the first attempt left is swept once it is a day old.
  assert.equal(await send('lost', randomBytes(1_000_000)), 250);
  const found = await call('/mail/sync', { fields: ['envelope'] });
  const { changes } = (await found.json()) as {
    changes: { added: { envelope: { subject: string } }[] };
  };
  const lost = changes.added.filter(({ envelope }) => envelope.subject === 'lost');
  assert.equal(lost.length, 1);
  assert.equal((await keys()).length, before.length + 2);
  await service.stop();
});

test('a backup leaves the bodies in the bucket, misses none of them, and is restored beside it', async () => {
  const [backup, cutShort] = [join(ROOT, 's3-backup'), join(ROOT, 's3-backup-cut-short')];
  const refuse = async (args: string[], where: Record<string, string>, why: RegExp) => {
    const { code, output } = await runHere(args, where);
    assert.equal(code, 1, output);
    assert.match(output, why);
  };
  const succeed = async (args: string[], where: Record<string, string> = withBucket) => {
    const { code, output } = await runHere([...args, '--json'], where);
    assert.equal(code, 0, output);
    return JSON.parse(output);
  };
  let service = await startHere(withBucket);
  proxy.fault = (method, path) =>
    method === 'HEAD' && /[0-9a-f]{12}/.test(path) ? { answer: 503 } : undefined;
  await refuse(['backup', cutShort], withBucket, /503/);
  proxy.fault = undefined;
  await refuse(['verify-backup', cutShort], withBucket, /it has no backup\.json/);
  const known = new Set(await keys());
  assert.equal(await send('to be lost', randomBytes(1_000_000)), 250);
  const made = await succeed(['backup', backup]);
  assert.ok(made.bodies > 0);
  assert.deepEqual(made.missing, []);
  await service.stop();
  await succeed(['verify-backup', backup]);
  await refuse(['verify-backup', backup], settings, /set S3_URL/);

  // Some of the others belong to no message: their nodes were killed after the upload.
  const Key = (await keys()).find((key) => !known.has(key));
  const lost = await client.send(new GetObjectCommand({ Bucket: bucket, Key }));
  const Body = await lost.Body?.transformToByteArray();
  assert.ok(Body);
  await client.send(new DeleteObjectCommand({ Bucket: bucket, Key }));
  await refuse(
    ['verify-backup', backup],
    withBucket,
    /1 of \d+ bodies are missing:\n {2}body \S+ is not in /,
  );
  await client.send(new PutObjectCommand({ Bucket: bucket, Key, Body }));

  const restored = { ...withBucket, DATA_DIR: join(ROOT, 's3-restored') };
  await refuse(['restore', backup], { ...settings, DATA_DIR: restored.DATA_DIR }, /set S3_URL/);
  await succeed(['restore', backup], restored);
  service = await startHere(restored);
  const before = token;
  const login = await call('/mail/token', { address: 'ann@acme.test', password: 'a good one' });
  ({ token } = (await login.json()) as { token: string });
  for (const uid of [2, 3, 4]) assert.ok(attachment.equals(await readAttachment(uid)));
  await service.stop();
  token = before;
});

test('a wrong key is refused at the start by the name of the setting', async () => {
  const wrong = { ...settings, S3_URL: S3_URL.replace(secretAccessKey, 'wrong') };
  await assert.rejects(startHere(wrong), (error: unknown) => {
    assert.ok(error instanceof ConfigError, String(error));
    assert.match(
      error.lines.join('\n'),
      /^S3_URL: expected a bucket that Postroom can access, got "http\S+ answered \w+ \(403\)"/,
    );
    return true;
  });
});

test('bodies come back from the bucket to the folder', async () => {
  const moved = await runHere(['move', '--bodies', 'folder'], withBucket);
  assert.equal(moved.code, 0, moved.output);
  assert.match(moved.output, /Start the service without S3_URL/);
  const service = await startHere(settings);
  for (const uid of [2, 3, 4]) assert.ok(attachment.equals(await readAttachment(uid)));
  await service.stop();
});

test('on PostgreSQL bodies are moved as well, while no node runs', async () => {
  const { location } = await openTestDatabase('postgres');
  await client.send(new CreateBucketCommand({ Bucket: 'moved' }));
  const own = { ...settings, DATA_DIR: join(ROOT, 'postgres'), DATABASE_URL: location };
  const inBucket = { ...own, S3_URL: S3_URL.replace(`/${bucket}?`, '/moved?') };
  let service = await startHere(own);
  await setUp();
  assert.equal(await send('1', attachment), 250);
  const refused = await runHere(['move', '--bodies', 's3'], inBucket);
  assert.equal(refused.code, 1, refused.output);
  assert.match(refused.output, /the service is running on .*: stop it/);
  await service.stop();
  const moved = await runHere(['move', '--bodies', 's3'], inBucket);
  assert.equal(moved.code, 0, moved.output);
  service = await startHere(inBucket);
  assert.ok(attachment.equals(await readAttachment(1)));
  assert.equal(await send('2', attachment), 250);
  await service.stop();
  const back = await runHere(['move', '--bodies', 'folder'], inBucket);
  assert.equal(back.code, 0, back.output);
  service = await startHere(own);
  for (const uid of [1, 2]) assert.ok(attachment.equals(await readAttachment(uid)));
  await service.stop();
});
