/** Removes rows that nothing leads to any more, a few at a time: no transaction is long. */
import type { Copy } from './copy.ts';
import { type MailboxRow, removal } from './rows.ts';
import type { Change, RangeQuery, Store } from './store.ts';

const MOST = 1000;
/** Bodies are large. */
const MOST_BODIES = 50;

/** @returns whether there may be more */
export async function sweep(copy: Copy, epoch: number): Promise<boolean> {
  for (const { account, box, generation, gone } of copy.mailboxes) {
    if (!gone && generation === 0) continue;
    const old = { prefix: [box], ...(!gone && { before: [generation] }) };
    const removed = await removals(copy.store, old);
    if (removed.length === 0 && !gone) continue;
    const last: Change[] =
      removed.length === 0 ? [{ remove: 'mailboxes', key: [account, box] }] : removed;
    await copy.write(epoch, 'relaxed', () => last);
    return true;
  }
  return false;
}

/** Of messages and their texts. */
async function removals(
  store: Store,
  query: Pick<RangeQuery, 'prefix' | 'before'>,
): Promise<Change[]> {
  const messages = await store.range({ table: 'messages', ...query, limit: MOST });
  const bodies = await store.range({ table: 'bodies', ...query, limit: MOST_BODIES });
  return [
    ...messages.map((row) => removal('messages', row)),
    ...bodies.map((row) => removal('bodies', row)),
  ];
}

/**
 * All that is stored of an account that signed out; nothing of others. Its own row goes last, so that a sweep that was broken
 * off goes on where the account is opened again.
 */
export async function sweepSignedOut(store: Store, account: string): Promise<void> {
  const remove = (changes: readonly Change[]) => store.update('accounts', [account], () => changes);
  const row = await store.get('accounts', [account]);
  if (!row?.signedOut) return;
  const mailboxes = (await store.range({ table: 'mailboxes', prefix: [account] })) as MailboxRow[];
  for (const { box } of mailboxes) {
    const next = () => removals(store, { prefix: [box] });
    for (let old = await next(); old.length > 0; old = await next()) await remove(old);
  }
  for (const table of ['blobs', 'operations', 'mailboxes', 'accounts'] as const) {
    const rows = await store.range({ table, prefix: [account] });
    await remove(rows.map((row) => removal(table, row)));
  }
}
