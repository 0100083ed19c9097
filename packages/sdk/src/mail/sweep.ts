/** Removes rows that nothing leads to any more, a few at a time: no transaction is long. */
import type { Copy } from './copy.ts';
import { removal } from './rows.ts';
import type { Change, RangeQuery } from './store.ts';

const MOST = 1000;
/** Bodies are large. */
const MOST_BODIES = 50;

/** @returns whether there may be more */
export async function sweep(copy: Copy, epoch: number): Promise<boolean> {
  for (const { account, box, generation, gone } of copy.mailboxes) {
    if (!gone && generation === 0) continue;
    const old = { prefix: [box], ...(!gone && { before: [generation] }) };
    const removed = [
      ...(await removals(copy, 'messages', old)),
      ...(await removals(copy, 'bodies', old)),
    ];
    if (removed.length === 0 && !gone) continue;
    const last: Change[] =
      removed.length === 0 ? [{ remove: 'mailboxes', key: [account, box] }] : removed;
    await copy.write(epoch, 'relaxed', () => last);
    return true;
  }
  return false;
}

async function removals(
  { store }: Copy,
  table: 'messages' | 'bodies',
  query: Pick<RangeQuery, 'prefix' | 'before'>,
): Promise<Change[]> {
  const rows = await store.range({
    table,
    ...query,
    limit: table === 'bodies' ? MOST_BODIES : MOST,
  });
  return rows.map((row) => removal(table, row));
}

/** All that is stored of an account; its own row goes last, so that a sweep that was broken off goes on. */
export async function sweepAccount({ store, account, mailboxes }: Copy): Promise<void> {
  const transact = (changes: readonly Change[]) =>
    store.transact({ account, durability: 'strict' }, changes);
  for (const { box } of mailboxes) {
    for (const table of ['messages', 'bodies'] as const) {
      for (let full = true; full; ) {
        const rows = await store.range({ table, prefix: [box], limit: MOST });
        full = rows.length > 0;
        if (full) await transact(rows.map((row) => removal(table, row)));
      }
    }
  }
  for (const table of ['blobs', 'operations', 'mailboxes', 'accounts'] as const) {
    const rows = await store.range({ table, prefix: [account] });
    await transact(rows.map((row) => removal(table, row)));
  }
}
