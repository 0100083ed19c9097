/** Bodies in the bucket of a real S3 server: what is kept, read, swept, and what happens on a bad day. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import {
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { Bodies, openBodyStore, storeIdOf } from '../../src/mailboxes/bodies/bodies.ts';
import { checkBucket } from '../../src/run/cli/check-stores.ts';
import { readConfig } from '../../src/run/config/config.ts';
import { openTestDatabase } from '../support/databases.ts';
import { type Fault, type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import { startS3 } from './s3.ts';

const DAY = 86_400_000;
const MIB = 1024 * 1024;
const signal = new AbortController().signal;

const s3 = await startS3();
const proxy = await startFaultProxy(s3.port);
after(async () => {
  await proxy.close();
  await s3.stop();
});

/** The test's own look at the bucket, around the proxy. */
const { endpoint, bucket, region, accessKeyId, secretAccessKey } = s3.bucket;
const client = new S3Client({
  endpoint,
  region,
  forcePathStyle: true,
  credentials: { accessKeyId, secretAccessKey },
});
const Bucket = bucket;
after(() => client.destroy());

async function keys(): Promise<string[]> {
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket }));
  return Contents.map(({ Key = '' }) => Key).filter((key) => key.includes('/'));
}

async function uploads(): Promise<string[]> {
  const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket }));
  return Uploads.map(({ Key = '' }) => Key);
}

async function openStore(options: { deadlineMs?: number } = {}) {
  const { database, directory, location } = await openTestDatabase('postgres');
  const lines: string[] = [];
  const log = (...args: unknown[]) => void lines.push(String(args.at(-1)));
  let passed = 0;
  const store = await openBodyStore({
    folder: join(directory, 'bodies'),
    spool: join(directory, 'spool'),
    bucket: { ...s3.bucket, endpoint: proxy.url, ...options },
  });
  const now = () => Date.now() + passed;
  const bodies = new Bodies({ database, store, log: { info: log, warn: log, error: log }, now });
  return {
    database,
    directory,
    location,
    bodies,
    store,
    lines,
    pass(ms: number) {
      passed += ms;
    },
    async keep(content: Buffer) {
      const staged = await bodies.stage(Readable.from([content]), () => {});
      return database.write((tx) => bodies.commit(tx, staged));
    },
    async read(id: number, range?: { start: number; end: number }) {
      const body = await bodies.find(id);
      assert.ok(body);
      return Buffer.concat(await Array.fromAsync(bodies.read(body, range)));
    },
  };
}

async function until(
  holds: () => boolean | Promise<boolean>,
  what = () => 'it does not come',
): Promise<void> {
  const end = performance.now() + 30_000;
  while (!(await holds())) {
    assert.ok(performance.now() < end, what());
    await pause(50);
  }
}

/** An answer that takes longer than a second counts as none, and a busy machine may need that. */
function untilReady(bodies: Bodies): Promise<void> {
  return until(async () => (await bodies.readiness()) === true);
}

async function withFault(fault: FaultProxy['fault'], act: () => Promise<void>): Promise<void> {
  proxy.fault = fault;
  try {
    await act();
  } finally {
    proxy.fault = undefined;
  }
}

const shared = await openStore({ deadlineMs: 3_000 });

void suite('bodies in a bucket', () => {
  const { bodies, store, database, lines } = shared;
  const large = randomBytes(12 * MIB);
  const middle = randomBytes(MIB);
  after(() => bodies.close());

  void test('a new bucket becomes that of the new database, and of no other', async () => {
    assert.equal(await bodies.checkStore(true), undefined);
    await untilReady(bodies);
    const foreign = await openStore();
    assert.match((await foreign.bodies.checkStore(true)) ?? '', /bodies in http.*belong to store/);
    await assert.rejects(foreign.keep(large), { code: 'unavailable' });
    assert.equal(await foreign.bodies.readiness(), false);
    foreign.bodies.close();
  });

  void test('a stored body is read back, whole and in parts, and can be removed', async () => {
    const id = await shared.keep(large);
    assert.ok(large.equals(await shared.read(id)));
    for (const [start, end] of [
      [0, 1],
      [5 * MIB - 3, 5 * MIB + 3],
      [12 * MIB - 1, 12 * MIB],
    ] as const) {
      assert.ok(large.subarray(start, end).equals(await shared.read(id, { start, end })));
    }
    const small = await shared.keep(middle.subarray(0, 65_537));
    assert.ok(middle.subarray(0, 65_537).equals(await shared.read(small)));
    assert.equal((await keys()).length, 2);
    assert.deepEqual(await readdir(join(shared.directory, 'spool')), []);
    const files = await database.write((tx) => bodies.release(tx, [id, small]));
    await bodies.removeFiles(files);
    assert.deepEqual((await keys()).sort(), files.map((name) => `quarantine/${name}`).sort());
    for (const name of files) assert.ok(await store.has(name));
    const [name = ''] = files;
    const whole = { start: 0, end: large.length, size: large.length, reuse: false };
    assert.ok(large.equals(Buffer.concat(await Array.fromAsync(store.read(name, whole)))));
    assert.equal((await bodies.files.expire(signal)).removed, 0);
    const later = new Bodies({ database, store, now: () => Date.now() + 2.1 * DAY });
    await later.checkStore(false);
    assert.equal((await later.files.expire(signal)).removed, 2);
    assert.deepEqual(await keys(), []);
    assert.equal(await store.has(name), false);
  });

  void test('a body that no row names is found after a day, and one that is named again stays', async () => {
    const staged = await bodies.stage(Readable.from([middle]), () => {});
    const named = await shared.keep(middle);
    const late = new Bodies({ database, store, now: () => Date.now() + 1.1 * DAY });
    const later = new Bodies({ database, store, now: () => Date.now() + 2.1 * DAY });
    for (const one of [late, later]) await one.checkStore(false);
    assert.equal(await bodies.files.sweep(signal), 0);
    assert.equal(await late.files.sweep(signal), 1);
    assert.ok((await keys()).includes(`quarantine/${staged.file}`));
    assert.equal(await late.files.sweep(signal), 0);
    assert.deepEqual(await late.files.expire(signal), { restored: 0, removed: 0 });
    // A database that is put back names it.
    const again = await database.write((tx) => bodies.commit(tx, staged));
    assert.ok(middle.equals(await shared.read(again)));
    assert.deepEqual(await later.files.expire(signal), { restored: 1, removed: 0 });
    assert.ok((await keys()).includes(staged.file ?? ''));
    await database.write((tx) => tx.deleteFrom('bodies').where('id', '=', again).execute());
    assert.equal(await late.files.sweep(signal), 1);
    assert.deepEqual(await later.files.expire(signal), { restored: 0, removed: 1 });
    assert.ok(middle.equals(await shared.read(named)));
    const files = await database.write((tx) => bodies.release(tx, [named]));
    await store.remove(files);
    assert.deepEqual(await keys(), []);
  });

  void test('an upload in parts that was cut short is ended by the sweep, and not a new one', async () => {
    const Key = '00/00000000-0000-4000-8000-000000000000';
    for (const key of [Key, 'of-somebody-else']) {
      await client.send(new CreateMultipartUploadCommand({ Bucket, Key: key }));
    }
    await bodies.files.sweep(signal);
    assert.deepEqual((await uploads()).length, 2);
    const late = new Bodies({ database, store, now: () => Date.now() + 1.1 * DAY });
    await late.checkStore(false);
    await late.files.sweep(signal);
    assert.deepEqual(await uploads(), ['of-somebody-else']);
  });

  void test('an answer that is cut or stalls is continued', async () => {
    const id = await shared.keep(large);
    for (const then of ['end', 'silence'] as const) {
      let cuts = 0;
      await withFault(
        (method) =>
          method === 'GET' && cuts++ < 3 ? { cutAnswer: 2 * MIB + cuts, then } : undefined,
        async () => assert.ok(large.equals(await shared.read(id))),
      );
      assert.ok(cuts > 3, `${cuts}`);
    }
  });

  void test('a damaged, a cut and a missing object are reported, and never returned as whole', async () => {
    const id = await shared.keep(middle);
    const body = await bodies.find(id);
    assert.ok(body?.file);
    const Key = body.file;
    await withFault(
      (method) => (method === 'GET' ? 'damage' : undefined),
      async () => {
        let octets = 0;
        const readAll = async () => {
          for await (const chunk of bodies.read(body)) octets += chunk.length;
        };
        await assert.rejects(readAll, { code: 'body_unavailable' });
        assert.ok(octets > 0 && octets < MIB);
        // Whoever asks again is told at once, so that a mail program comes to the messages behind it.
        octets = 0;
        const again = () => assert.rejects(readAll, { code: 'body_unavailable' });
        await Promise.all([again(), again()]);
        assert.equal(octets, 0);
      },
    );
    assert.match(lines.at(-1) ?? '', /is damaged.*restore the file from a backup/);
    assert.ok(middle.equals(await shared.read(id)), 'what was put back is read');
    await client.send(new PutObjectCommand({ Bucket, Key, Body: middle.subarray(0, 1000) }));
    for (const range of [undefined, { start: 10, end: 20 }, { start: 2000, end: 2010 }]) {
      await assert.rejects(shared.read(id, range), { code: 'body_unavailable' });
    }
    await store.remove([Key]);
    await assert.rejects(shared.read(id), { code: 'body_unavailable' });
    assert.match(lines.at(-1) ?? '', /is missing/);
    await untilReady(bodies);
  });

  const away: [string, Fault][] = [
    ['503', { answer: 503 }],
    ['wrong key', { answer: 403 }],
    ['silent', 'silent'],
    ['reset', 'reset'],
  ];
  for (const [name, fault] of away) {
    void test(`an outage of the server (${name}) is one line, and its end another one`, async () => {
      const id = await shared.keep(middle);
      const before = await keys();
      lines.length = 0;
      const asked: string[] = [];
      await withFault(
        (method, path) => {
          asked.push(`${method} ${path}`);
          return fault;
        },
        async () => {
          const began = performance.now();
          await assert.rejects(shared.keep(middle), { code: 'unavailable' });
          await assert.rejects(shared.read(id), { code: 'unavailable' });
          assert.equal(await bodies.readiness(), 'degraded');
          assert.ok(performance.now() - began < 60_000);
          // From then on whoever asks is told at once: no body is asked for.
          asked.length = 0;
          await assert.rejects(shared.keep(middle), { code: 'unavailable' });
          await assert.rejects(shared.read(id), { code: 'unavailable' });
          assert.equal((await bodies.checkRoom(100_000))?.code, 'unavailable');
          assert.equal(await bodies.checkRoom(1_000), undefined);
          const text = await shared.read(await shared.keep(Buffer.from('small')));
          assert.equal(text.toString(), 'small');
          assert.deepEqual(
            asked.filter((request) => /-[0-9a-f]{12}/.test(request)),
            [],
          );
          await bodies.removeFiles(['00/00000000-0000-4000-8000-000000000000']);
        },
      );
      await until(
        () => lines.some((line) => line.includes('again')),
        () => lines.join('\n'),
      );
      await untilReady(bodies);
      assert.equal(lines.length, 2, lines.join('\n'));
      assert.match(lines[0] ?? '', /^http.*mail above 64 KiB is deferred/);
      assert.ok(!lines.join().includes(secretAccessKey));
      assert.ok(middle.equals(await shared.read(id)));
      assert.deepEqual(await keys(), before);
    });
  }

  void test('an upload that breaks off leaves neither an object nor parts', async () => {
    const before = await keys();
    await withFault(
      (method, path) =>
        method === 'PUT' && /partNumber=2/.test(path) ? { cutRequest: MIB } : undefined,
      () => assert.rejects(shared.keep(large), { code: 'unavailable' }),
    );
    assert.deepEqual(await keys(), before);
    assert.deepEqual(await uploads(), ['of-somebody-else']);
  });

  void test('a start during an outage of the server continues after it', async () => {
    proxy.fault = () => 'reset';
    const late = new Bodies({ database, store });
    assert.equal(await late.checkStore(false), undefined);
    await assert.rejects(
      late.stage(Readable.from([middle]), () => {}),
      { code: 'unavailable' },
    );
    proxy.fault = undefined;
    await until(async () => (await late.readiness()) === true);
    await late.discard(await late.stage(Readable.from([middle]), () => {}));
    late.close();
  });

  void test('a key that may only read is told at the start and by doctor, and what is there can be read', async () => {
    const kept = await shared.keep(middle);
    const before = await keys();
    const told: string[] = [];
    const tell = (line: string) => void told.push(line);
    const late = new Bodies({ database, store, log: { info: tell, warn: tell, error: tell } });
    const readOnly = (method: string) => (method === 'PUT' ? { answer: 403 } : undefined);
    await withFault(readOnly, async () => {
      assert.equal(await late.checkStore(false), undefined);
      await until(() => told.length > 0);
      const found = await late.find(kept);
      assert.ok(found);
      assert.deepEqual(Buffer.concat(await Array.fromAsync(late.read(found))), middle);
      const url = new URL(`${proxy.url}/${bucket}?region=${region}`);
      url.username = encodeURIComponent(accessKeyId);
      url.password = encodeURIComponent(secretAccessKey);
      const settings = {
        DATA_DIR: shared.directory,
        DATABASE_URL: shared.location,
        S3_URL: url.href,
      };
      const { result, detail, advice } = await checkBucket(readConfig(settings, shared.directory));
      assert.deepEqual([result, detail.includes('(403)')], ['failed', true]);
      assert.match(advice ?? '', /the right to read, write, list and delete/);
    });
    assert.match(
      told.join(),
      /^a body could not be stored: \S+ answered .*\(403\); its mail is deferred/,
    );
    // Once the key has its rights nobody has to send a large mail for that to be known.
    await until(async () => (await late.readiness()) && told.includes('bodies are stored again'));
    late.close();
    assert.deepEqual(await keys(), before);
  });

  void test('a key without access is refused at the start, without the secret', async () => {
    const wrong = await openBodyStore({
      folder: '',
      spool: join(shared.directory, 'spool'),
      bucket: { ...s3.bucket, secretAccessKey: 'not-the-secret' },
    });
    await assert.rejects(new Bodies({ database, store: wrong }).checkStore(false), (error) => {
      assert.match(String(error), /^StoreUnavailable: http\S+ answered \w+ \(403\)$/);
      return true;
    });
  });

  void test('doctor says whether the bucket answers and is that of the database, takes objects, and leaves nothing in it', async () => {
    const foreign = await openStore();
    const look = async (location: string, wrong: Partial<typeof s3.bucket> = {}) => {
      const named = { ...s3.bucket, ...wrong };
      const url = new URL(`${named.endpoint}/${named.bucket}?region=${named.region}`);
      url.username = encodeURIComponent(named.accessKeyId);
      url.password = encodeURIComponent(named.secretAccessKey);
      const { directory: DATA_DIR } = shared;
      const config = readConfig({ DATA_DIR, DATABASE_URL: location, S3_URL: url.href }, DATA_DIR);
      const { result, detail, advice = '' } = await checkBucket(config);
      assert.ok(!`${detail}${advice}`.includes(named.secretAccessKey));
      return `${result}: ${detail.replaceAll(endpoint, '')}`;
    };
    assert.equal(
      await look(shared.location),
      `ok: /${bucket} answers, takes objects, and belongs to the database`,
    );
    assert.match(
      await look(shared.location, { secretAccessKey: 'not-the-secret' }),
      /^failed: \S+ answered SignatureDoesNotMatch \(403\)$/,
    );
    assert.equal(
      await look(shared.location, { bucket: 'no-such-bucket' }),
      'failed: /no-such-bucket answered NoSuchBucket (404)',
    );
    assert.match(
      await look(foreign.location),
      new RegExp(`^failed: the database is new, but the bodies in /${bucket} belong to store `),
    );
    await client.send(new CreateBucketCommand({ Bucket: 'new-bucket' }));
    assert.equal(
      await look(foreign.location, { bucket: 'new-bucket' }),
      'ok: /new-bucket answers; the next start makes it the store of the new database',
    );
    const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: 'new-bucket' }));
    assert.deepEqual(Contents, []);
    assert.equal(await storeIdOf(foreign.database), undefined);
    await foreign.bodies.checkStore(false);
    assert.match(
      await look(foreign.location),
      /^failed: the database belongs to store .* belong to store .* do not belong together/,
    );
    foreign.bodies.close();
  });
});
