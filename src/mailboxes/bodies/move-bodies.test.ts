import assert from 'node:assert/strict';
import { truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { openTestDatabase } from '../../../test/support/databases.ts';
import { Bodies, BodyFolder, moveBodies } from './bodies.ts';

/** A database with three bodies in one folder, and another folder. */
async function openStores() {
  const { database, directory } = await openTestDatabase('sqlite');
  const [from, to] = ['old', 'new'].map((name) => new BodyFolder(join(directory, name)));
  assert.ok(from && to);
  const bodies = new Bodies({ database, store: from });
  await bodies.checkStore(true);
  const kept: { id: number; file: string; text: string }[] = [];
  for (const letter of 'abc') {
    const text = letter.repeat(100_000);
    const staged = await bodies.stage(Readable.from([Buffer.from(text)]), () => {});
    const body = { ...staged, size: staged.size + 6, content: Buffer.from('head\r\n') };
    const id = await database.write((tx) => bodies.commit(tx, body));
    kept.push({ id, file: staged.file ?? '', text: `head\r\n${text}` });
  }
  const checkStopped = async () => {};
  const onProgress = () => {};
  return { database, from, to, kept, given: { database, from, to, checkStopped, onProgress } };
}

type Stores = Awaited<ReturnType<typeof openStores>>;

async function readAll({ database, kept }: Stores, store: BodyFolder): Promise<void> {
  const bodies = new Bodies({ database, store });
  assert.equal(await bodies.checkStore(false), undefined);
  for (const { id, text } of kept) {
    const body = await bodies.find(id);
    assert.ok(body);
    assert.equal(Buffer.concat(await Array.fromAsync(bodies.read(body))).toString(), text);
  }
}

test('moved bodies are read from the new store, and are in quarantine of the old one', async () => {
  const stores = await openStores();
  const { from, to, given, kept } = stores;
  // It belongs to a delivery that ended long ago.
  const emptied = { size: 100_006, content: null, file: null };
  await given.database.write((tx) => tx.insertInto('bodies').values(emptied).execute());
  assert.deepEqual(await moveBodies(given), { bodies: 3, octets: 300_000, missing: [] });
  await readAll(stores, to);
  assert.equal((await Array.fromAsync(from.listQuarantined(Date.now() + 1))).flat().length, 3);
  assert.match(
    (await new Bodies({ database: given.database, store: from }).checkStore(false)) ?? '',
    /have no store-id/,
  );
  // A second run changes nothing, and all bodies can be moved back.
  assert.deepEqual(await moveBodies(given), { bodies: 3, octets: 0, missing: [] });
  await moveBodies({ ...given, from: to, to: from });
  await readAll(stores, from);
  assert.equal(kept.length, 3);
});

test('the next run continues one that was cut short, and copies its half-done bodies again', async () => {
  const stores = await openStores();
  const { from, to, given, kept } = stores;
  const cut = new Error('cut');
  const checkStopped = () => Promise.reject(cut);
  await assert.rejects(moveBodies({ ...given, checkStopped }), cut);
  await readAll(stores, from);
  // As if it had ended before it noted its progress, in the middle of two bodies.
  await to.removeNote('moved-up-to');
  const [first, second] = kept;
  assert.ok(first && second);
  await truncate(join(to.location, first.file), 10);
  await writeFile(join(to.location, second.file), 'x'.repeat(100_000));
  assert.deepEqual(await moveBodies(given), { bodies: 3, octets: 200_000, missing: [] });
  await readAll(stores, to);
});

test('a service that starts when the old store loses its id keeps that store', async () => {
  const stores = await openStores();
  const { from, to, given } = stores;
  const started = new Error('started');
  const checkStopped = async () => {
    if ((await from.readNote('store-id')) === '') throw started;
  };
  await assert.rejects(moveBodies({ ...given, checkStopped }), started);
  await readAll(stores, from);
  assert.deepEqual(await moveBodies(given), { bodies: 3, octets: 0, missing: [] });
  await readAll(stores, to);
});

test('a new store that returns other bytes loses nothing', async () => {
  const stores = await openStores();
  const { from, to, given } = stores;
  class Forgetful extends BodyFolder {
    override async *read() {
      yield Buffer.alloc(100_000);
    }
  }
  await assert.rejects(moveBodies({ ...given, to: new Forgetful(to.location) }), {
    name: 'MoveRefused',
    message: /was written to .*, but reading it back gave other content/,
  });
  await readAll(stores, from);
});

test('stores of another database are refused, and a missing body is named', async () => {
  const { given, to, from, kept } = await openStores();
  await to.writeNote('store-id', 'another');
  await assert.rejects(moveBodies(given), { name: 'MoveRefused' });
  await to.removeNote('store-id');
  const id = await from.readNote('store-id');
  await from.removeNote('store-id');
  await assert.rejects(moveBodies(given), { message: /has no store-id: its bodies were moved/ });
  await from.writeNote('store-id', id);
  const file = kept[1]?.file ?? '';
  await from.remove([file]);
  assert.deepEqual(await moveBodies(given), { bodies: 2, octets: 200_000, missing: [file] });
});
