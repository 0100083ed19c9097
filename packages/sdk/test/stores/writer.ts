/**
 * A program that writes to a store until it is killed: each transaction has a row in each of three tables, and its
 * number is printed once it is durable. `node writer.ts sqlite|file PATH`, `count` to add 100 to
 * a number, or `lock` to hold a lock until it is killed.
 */
import { writeSync } from 'node:fs';
import type { Store } from '../../src/mail/store.ts';
import { fileStore } from '../../src/stores/file.ts';
import { sqliteStore } from '../../src/stores/sqlite.ts';

const [kind, path = '', task] = process.argv.slice(2);
const store = kind === 'sqlite' ? sqliteStore(path) : fileStore(path);

await (task === 'count' ? count(store) : task === 'lock' ? lock(store) : write(store));

async function lock(store: Store): Promise<void> {
  await store.lock?.('lead', new AbortController().signal, async () => {
    writeSync(1, 'locked\n');
    await new Promise((resolve) => setTimeout(resolve, 1_000_000));
  });
}

async function write(store: Store): Promise<void> {
  for (let seq = (await last(store)) + 1; ; seq++) {
    const more = { account: 'a', text: 'x'.repeat(500) };
    await store.update('accounts', ['a'], () => [
      { put: 'operations', row: { ...more, seq } },
      { put: 'mailboxes', row: { ...more, box: 1, seq } },
      { put: 'blobs', row: { account: 'a', blob: seq, bytes: new Uint8Array(100) } },
      ...(seq > 50 ? [{ remove: 'blobs', key: ['a', seq - 50] } as const] : []),
    ]);
    writeSync(1, `${seq}\n`);
  }
}

async function last(store: Store): Promise<number> {
  const query = { table: 'operations', prefix: ['a'], reverse: true, limit: 1 } as const;
  const [row] = await store.range(query);
  return Number(row?.seq ?? 0);
}

async function count(store: Store): Promise<void> {
  for (let i = 0; i < 100; i++) {
    await store.update('accounts', ['a'], (row) => [
      { put: 'accounts', row: { account: 'a', value: Number(row?.value ?? 0) + 1 } },
    ]);
  }
  await store.close();
}
