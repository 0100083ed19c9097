import assert from 'node:assert/strict';
import { access, mkdir, readdir, readFile, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  onEachEngine,
  openTestDatabase,
  type TestDatabase,
} from '../../../test/support/databases.ts';
import { Bodies, BodyFolder, GrowingBuffer, StoreUnavailable } from './bodies.ts';

const DAY = 86_400_000;
const signal = new AbortController().signal;

interface Store extends TestDatabase {
  readonly bodies: Bodies;
  readonly path: string;
  readonly lines: string[];
  /** Moves the clock of the bodies forward. */
  pass(ms: number): void;
  /** Stores a body as a file; returns its id and file. */
  keep(text: string): Promise<{ id: number; file: string }>;
  read(id: number): Promise<string>;
  exists(file: string): Promise<boolean>;
}

onEachEngine('bodies', (engine) => {
  async function openStore(isNew = true, given?: TestDatabase, folder?: string): Promise<Store> {
    const opened = given ?? (await openTestDatabase(engine));
    const { database, directory } = opened;
    const path = folder ?? join(directory, 'bodies');
    const lines: string[] = [];
    const log = (...args: unknown[]) => void lines.push(String(args.at(-1)));
    let passed = 0;
    const bodies = new Bodies({
      database,
      store: new BodyFolder(path),
      log: { info: log, warn: log, error: log },
      now: () => Date.now() + passed,
    });
    await bodies.checkStore(isNew);
    return {
      ...opened,
      bodies,
      path,
      lines,
      pass: (ms) => {
        passed += ms;
      },
      async keep(text) {
        const staged = await bodies.stage(chunksOf(text.repeat(100_000)), () => {});
        const id = await database.write((tx) => bodies.commit(tx, staged));
        assert.ok(staged.file);
        return { id, file: staged.file };
      },
      async read(id) {
        const body = await bodies.find(id);
        assert.ok(body);
        return Buffer.concat(await Array.fromAsync(bodies.read(body))).toString();
      },
      exists: (file) =>
        access(join(path, file)).then(
          () => true,
          () => false,
        ),
    };
  }

  test('a source that comes in single bytes is written in pieces', async () => {
    const opened = await openTestDatabase(engine);
    const store = new BodyFolder(join(opened.directory, 'bodies'));
    const create = store.create.bind(store);
    const written: number[] = [];
    store.create = async () => {
      const body = await create();
      const write = body.write.bind(body);
      body.write = (chunk) => {
        written.push(chunk.length);
        return write(chunk);
      };
      return body;
    };
    const log = { info() {}, warn() {}, error() {} };
    const bodies = new Bodies({ database: opened.database, store, log });
    await bodies.checkStore(true);
    const source = Buffer.from(Array.from({ length: 100_000 }, (_, index) => index % 251));
    async function* singly() {
      for (const byte of source) yield Buffer.of(byte);
      yield source;
      yield Buffer.of(7);
    }
    const staged = await bodies.stage(singly(), () => {});
    assert.ok(written.length < 10, `${written.length} writes`);
    const kept = Buffer.concat(await Array.fromAsync(bodies.read(staged)));
    assert.deepEqual(kept, Buffer.concat([source, source, Buffer.of(7)]));
  });

  async function* chunksOf(text: string): AsyncGenerator<Uint8Array> {
    yield Buffer.from(text);
  }

  const forget = ({ database }: TestDatabase, id: number) =>
    database.write((tx) => tx.deleteFrom('bodies').where('id', '=', id).execute());

  test('a missing body is reported, but not where its message was deleted meanwhile', async () => {
    const store = await openStore();
    const { bodies, database, lines } = store;
    const [lost, deleted] = [await store.keep('l'), await store.keep('d')];
    const found = await bodies.get(deleted.id);
    await rm(join(store.path, lost.file));
    await assert.rejects(store.read(lost.id), { code: 'body_unavailable' });
    assert.match(lines.at(-1) ?? '', /is missing: .* restore the file from a backup$/);
    // Another node deletes the message between the two steps of a reader, and keeps nothing.
    const other = new Bodies({ database, store: new BodyFolder(store.path), keepHours: 0 });
    await other.removeFiles(await database.write((tx) => bodies.release(tx, [deleted.id])));
    await assert.rejects(Array.fromAsync(bodies.read(found)), { code: 'body_unavailable' });
    assert.match(lines.at(-1) ?? '', /its message was deleted meanwhile/);
  });

  test('a folder that is gone is not made again: its bodies would be found by nobody', async () => {
    const store = await openStore();
    await rename(store.path, `${store.path}-elsewhere`);
    await assert.rejects(store.keep('a'), { code: 'unavailable' });
    await assert.rejects(access(store.path), { code: 'ENOENT' });
  });

  test('a folder that cannot be written defers large mail, is told once, and can be read', async (t) => {
    let now = 10_000;
    t.mock.method(performance, 'now', () => now);
    const store = await openStore();
    const kept = await store.keep('a');
    const line = "EROFS: read-only file system, open '/bodies/ab'";
    const readOnly = Object.assign(new Error(line), { code: 'EROFS' });
    const create = t.mock.method(BodyFolder.prototype, 'create', () => Promise.reject(readOnly));
    const ready = () => {
      now += 2_000;
      return store.bodies.readiness();
    };
    assert.equal(await ready(), true);
    for (let mail = 0; mail < 3; mail++) {
      await assert.rejects(store.keep('b'), { code: 'unavailable' });
      assert.equal(await ready(), 'degraded');
    }
    assert.equal((await store.read(kept.id)).length, 100_000);
    create.mock.restore();
    assert.equal(await ready(), true);
    assert.deepEqual(store.lines, [
      `a body could not be stored: ${line}; its mail is deferred, and no other failure is logged until one is stored`,
      'bodies are stored again',
    ]);
    assert.equal(await store.bodies.isUp(), true);
  });

  test('a folder that cannot be written is told at the start, before any large mail', async (t) => {
    const first = await openStore();
    const line = "EROFS: read-only file system, open '/bodies/ab'";
    const readOnly = Object.assign(new Error(line), { code: 'EROFS' });
    const create = t.mock.method(BodyFolder.prototype, 'create', () => Promise.reject(readOnly));
    const { bodies, lines } = await openStore(false, first, first.path);
    assert.deepEqual([await bodies.readiness(), await bodies.isUp()], ['degraded', false]);
    const told = [
      `a body could not be stored: ${line}; its mail is deferred, and no other failure is logged until one is stored`,
    ];
    assert.deepEqual(lines, told);
    create.mock.restore();
    await bodies.checkStore(false);
    assert.equal(await bodies.readiness(), true);
    assert.deepEqual(lines, [...told, 'bodies are stored again']);
  });

  test('a folder of bodies that an operator removed is made again by the next one of its name', async () => {
    const store = new BodyFolder((await openStore()).path);
    const keep = async (id: string) =>
      (await store.create(`ab/ab${id}-0000-4000-8000-000000000000`)).finish();
    await keep('000000');
    await rm(join(store.location, 'ab'), { recursive: true });
    await keep('000001');
    assert.deepEqual(await readdir(join(store.location, 'ab')), [
      'ab000001-0000-4000-8000-000000000000',
    ]);
  });

  test('small mail is taken while nobody can tell how much room its bodies have', async (t) => {
    const store = await openStore();
    const gone = Object.assign(new Error('ENOTCONN: socket is not connected, statfs'), {
      code: 'ENOTCONN',
      syscall: 'statfs',
    });
    t.mock.method(BodyFolder.prototype, 'freeBytes', () => Promise.reject(gone));
    assert.equal(await store.bodies.checkRoom(1_000), undefined);
    assert.equal((await store.bodies.checkRoom(100_000))?.code, 'unavailable');
    assert.equal(await store.bodies.isDiskFull(), false);
  });

  test('a disk of its own for the database needs room for mail, and does not end the time of removed bodies', async () => {
    const { database, path } = await openStore();
    const store = new BodyFolder(path);
    const bodies = new Bodies({ database, store, databaseBytes: async () => 2 ** 20 });
    assert.equal((await bodies.checkRoom(100_000))?.code, 'storage_full');
    assert.equal(await bodies.isDiskFull(), true);
    await mkdir(join(path, 'ab'));
    const file = 'ab/ab000000-0000-4000-8000-000000000000';
    await writeFile(join(path, file), 'a');
    await bodies.removeFiles([file]);
    assert.equal(await store.has(file), true);
    bodies.close();
  });

  test('a bucket that answers is ready, though the last body was not stored there', async (t) => {
    const { database, path } = await openStore();
    const store = new BodyFolder(path);
    Object.defineProperty(store, 'isRemote', { value: true });
    const bodies = new Bodies({ database, store });
    t.after(() => bodies.close());
    await bodies.checkStore(false);
    t.mock.method(store, 'create', () => Promise.reject(new StoreUnavailable('it answered 500')));
    await assert.rejects(
      bodies.stage(chunksOf('b'.repeat(100_000)), () => {}),
      {
        code: 'unavailable',
      },
    );
    assert.equal(await bodies.readiness(), true);
  });

  test('a new database and a new folder belong together after the first start', async () => {
    const store = await openStore();
    assert.equal(store.bodies.mismatch, undefined);
    await store.keep('a');
    const again = await openStore(false, store);
    assert.equal(again.bodies.mismatch, undefined);
  });

  test('a first start that was cut short is finished by the next', async () => {
    const store = await openStore();
    await rm(store.path, { recursive: true });
    await mkdir(join(store.path, 'lost+found'), { recursive: true });
    await writeFile(join(store.path, 'store-id.1f.tmp'), 'half of i');
    assert.equal((await openStore(true, store)).bodies.mismatch, undefined);
  });

  test('a folder beside the database of another store loses nothing and accepts nothing', async () => {
    const store = await openStore();
    const { file } = await store.keep('a');
    const id = (await readFile(join(store.path, 'store-id'), 'utf8')).trim();
    const foreign = await openStore(true, await openTestDatabase(engine), store.path);
    const { mismatch } = foreign.bodies;
    assert.match(
      mismatch ?? '',
      new RegExp(`^the database belongs to store \\S+, but the bodies in .* ${id}:`),
    );
    assert.deepEqual(foreign.lines, [mismatch]);
    await assert.rejects(foreign.keep('b'), { code: 'unavailable' });
    foreign.pass(30 * DAY);
    await foreign.bodies.files.sweep(signal);
    await foreign.bodies.files.expire(signal);
    await foreign.bodies.removeFiles([file]);
    assert.ok(await store.exists(file));
    // The operator can declare that the two belong together.
    const ours = /store (\S+),/.exec(mismatch ?? '')?.[1];
    await writeFile(join(store.path, 'store-id'), `${ours}\n`);
    assert.equal(await foreign.bodies.checkStore(false), undefined);
    assert.match(foreign.lines.at(-1) ?? '', /^database and bodies belong together again/);
    await foreign.keep('b');
  });

  test('an empty folder beside a database that is in use is not accepted as its store', async () => {
    const store = await openStore();
    await rm(store.path, { recursive: true });
    const { bodies } = await openStore(false, store);
    assert.match(bodies.mismatch ?? '', /have no store-id: they do not belong together/);
    assert.ok(!(await store.exists('store-id')));
  });

  const quarantined = (file: string) => join('quarantine', file);

  test('a released body stays for BODY_KEEP_HOURS, and can be read like any other', async () => {
    const store = await openStore();
    const { bodies, database } = store;
    const [named, released] = [await store.keep('a'), await store.keep('b')];
    const copied = await bodies.get(released.id);
    await bodies.removeFiles(await database.write((tx) => bodies.release(tx, [released.id])));
    assert.ok(await store.exists(quarantined(released.file)));
    const read = await Array.fromAsync(bodies.read(copied));
    assert.equal(Buffer.concat(read).toString(), 'b'.repeat(100_000));
    const folder = new BodyFolder(store.path);
    assert.deepEqual([await folder.has(named.file), await folder.has(released.file)], [true, true]);
    const nothing = { restored: 0, removed: 0 };
    store.pass(1.9 * DAY);
    assert.deepEqual(await bodies.files.expire(signal), nothing);
    store.pass(0.2 * DAY);
    assert.deepEqual(await bodies.files.expire(signal), { ...nothing, removed: 1 });
    assert.equal(await folder.has(released.file), false);
    await assert.rejects(Array.fromAsync(bodies.read(copied)), { code: 'body_unavailable' });
    assert.equal(await store.read(named.id), 'a'.repeat(100_000));
  });

  test('a quarantine that an operator has removed is made again', async () => {
    const { path } = await openStore();
    const folder = new BodyFolder(path);
    await mkdir(join(path, 'ab'), { recursive: true });
    for (const name of ['ab/first', 'ab/second']) await writeFile(join(path, name), 'text');
    assert.equal(await folder.quarantine(['ab/first'], Date.now()), 1);
    await rm(join(path, 'quarantine'), { recursive: true });
    assert.equal(await folder.quarantine(['ab/second', 'ab/none'], Date.now()), 1);
    await rm(join(path, 'ab'), { recursive: true });
    assert.equal(await folder.restore('ab/second'), true);
  });

  test('a body that is named again while it waits for its removal stays', async () => {
    const store = await openStore();
    const { bodies, database } = store;
    const kept = [await store.keep('a'), await store.keep('b')];
    const rows = await database.read.selectFrom('bodies').selectAll().execute();
    const files = await database.write((tx) =>
      bodies.release(
        tx,
        kept.map(({ id }) => id),
      ),
    );
    await bodies.removeFiles(files);
    // An older database is put back, which names the first of them.
    await database.write((tx) => tx.insertInto('bodies').values(rows.slice(0, 1)).execute());
    store.pass(2.1 * DAY);
    assert.deepEqual(await bodies.files.expire(signal), { restored: 1, removed: 1 });
    assert.match(store.lines.at(-1) ?? '', /a message names again were moved back/);
    assert.ok(await store.exists(kept[0]?.file ?? ''));
    assert.equal(await store.read(kept[0]?.id ?? 0), 'a'.repeat(100_000));
  });

  test('nothing is kept with BODY_KEEP_HOURS=0, where the disk is nearly full, or of what no row named', async () => {
    const store = await openStore();
    const { bodies, database, path } = store;
    const release = async (by: Bodies, id: number) =>
      by.removeFiles(await database.write((tx) => by.release(tx, [id])));
    const folder = new BodyFolder(path);
    const none = new Bodies({ database, store: folder, keepHours: 0 });
    const first = await store.keep('a');
    await release(none, first.id);
    assert.equal(await folder.has(first.file), false);

    const second = await store.keep('b');
    await release(bodies, second.id);
    assert.equal(await folder.has(second.file), true);
    const lines: string[] = [];
    const log = (...args: unknown[]) => void lines.push(String(args.at(-1)));
    const full = new (class extends BodyFolder {
      override freeBytes = async () => 500_000_000;
    })(path);
    const low = new Bodies({ database, store: full, log: { info: log, warn: log, error: log } });
    const third = await store.keep('c');
    await release(low, third.id);
    assert.equal(await folder.has(third.file), false);
    await bodies.files.relieveDisk(signal);
    assert.equal(await folder.has(second.file), true);
    // Milliseconds may be equal.
    await utimes(join(path, quarantined(second.file)), 1, 1);
    await low.files.relieveDisk(signal);
    assert.equal(await folder.has(second.file), false);
    assert.match(lines.join(), /the disk is nearly full/);

    const staged = await bodies.stage(chunksOf('d'.repeat(100_000)), () => {});
    await bodies.discard(staged);
    assert.equal(await folder.has(staged.file ?? ''), false);
  });

  test('a file that no row names is found after a day, and goes the same way', async () => {
    const store = await openStore();
    const { bodies } = store;
    const [named, orphan] = [await store.keep('a'), await store.keep('b')];
    await forget(store, orphan.id);
    await writeFile(join(store.path, named.file.slice(0, 2), 'foreign'), '');
    store.pass(0.9 * DAY);
    assert.equal(await bodies.files.sweep(signal), 0);
    store.pass(0.2 * DAY);
    assert.equal(await bodies.files.sweep(signal), 1);
    assert.ok(await store.exists(quarantined(orphan.file)));
    assert.match(store.lines.join(), /moved to quarantine/);
    store.pass(1.9 * DAY);
    assert.equal((await bodies.files.expire(signal)).removed, 0);
    store.pass(0.2 * DAY);
    assert.equal((await bodies.files.expire(signal)).removed, 1);
    assert.ok(!(await store.exists(quarantined(orphan.file))));
    assert.equal(await store.read(named.id), 'a'.repeat(100_000));
    assert.ok((await readdir(join(store.path, named.file.slice(0, 2)))).includes('foreign'));
  });

  test('a sweep can be stopped', async () => {
    const store = await openStore();
    const { id } = await store.keep('a');
    await forget(store, id);
    store.pass(2 * DAY);
    assert.equal(await store.bodies.files.sweep(AbortSignal.abort()), 0);
  });
});

test('pieces of any size become one piece, in memory of its own', () => {
  const whole = Buffer.from(Array.from({ length: 5_000 }, (_, index) => index % 251));
  for (const step of [1, 2, 7, 1_000, 4_999, 5_000]) {
    const buffer = new GrowingBuffer();
    for (let at = 0; at < whole.length; at += step) buffer.add(whole.subarray(at, at + step));
    assert.equal(buffer.size, whole.length);
    const taken = buffer.take();
    assert.equal(taken.buffer.byteLength, whole.length);
    assert.ok(whole.equals(taken));
    assert.equal(buffer.size, 0);
  }
});

test('without pieces the result is empty, and it can be used again', () => {
  const buffer = new GrowingBuffer();
  assert.equal(buffer.take().length, 0);
  buffer.add(Buffer.from('again'));
  assert.equal(Buffer.from(buffer.take()).toString(), 'again');
});
