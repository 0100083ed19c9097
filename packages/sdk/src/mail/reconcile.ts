/** The server's list of mailboxes as changes of the copy. */
import type { Mailbox } from '../api-types.ts';
import type { Copy } from './copy.ts';
import { settledIn } from './outbox.ts';
import type { Platform } from './platform.ts';
import { type MailboxRow, put, putChanged, type Reading } from './rows.ts';
import type { Change } from './store.ts';

export function reconcile(copy: Copy, listed: readonly Mailbox[], platform: Platform): Change[] {
  const rows = copy.mailboxes.filter(({ gone }) => !gone);
  const found = match(rows, listed);
  const changes: Change[] = [];
  for (const mailbox of listed) {
    const row = found.get(mailbox);
    const before = row ?? blank(copy, platform);
    const next: MailboxRow = {
      ...before,
      name: mailbox.mailbox,
      mailboxId: mailbox.mailboxId,
      specialUse: mailbox.specialUse,
      serverTotal: mailbox.messages,
      serverUnseen: mailbox.unseen,
    };
    changes.push(...putChanged(next, row));
  }
  const kept = new Set(found.values());
  const gone = rows.filter((row) => !kept.has(row));
  for (const row of gone) changes.push(put('mailboxes', { ...row, gone: true }));
  // Nothing is synced any more of what is gone: who waits for it would wait for good.
  const over = new Set<Reading>(['list', ...gone.map(({ box }) => box)]);
  for (const operation of copy.operations) {
    const settled = operation.awaits?.filter((one) => over.has(one)) ?? [];
    if (operation.state !== 'acked' || settled.length === 0) continue;
    changes.push(put('operations', settled.reduce(settledIn, operation)));
  }
  return changes;
}

/**
 * By their ids, which outlive a new name; then by name, as servers without ids know names alone. One that was deleted
 * and made anew keeps its box: changes that wait name it, and its list shows what it had until the first page is in.
 */
function match(
  rows: readonly MailboxRow[],
  listed: readonly Mailbox[],
): ReadonlyMap<Mailbox, MailboxRow> {
  const found = new Map<Mailbox, MailboxRow>();
  const left = new Set(rows);
  const take = (isSame: (row: MailboxRow, mailbox: Mailbox) => boolean) => {
    for (const mailbox of listed) {
      const row = found.has(mailbox) ? undefined : [...left].find((one) => isSame(one, mailbox));
      if (!row) continue;
      found.set(mailbox, row);
      left.delete(row);
    }
  };
  take((row, { mailboxId }) => mailboxId !== undefined && row.mailboxId === mailboxId);
  take((row, { mailbox }) => row.name === mailbox);
  return found;
}

function blank({ account }: Copy, platform: Platform): Omit<MailboxRow, 'name'> {
  return {
    account,
    // Tables are shared by all accounts of a store: a number that no other mailbox has.
    box: Math.floor(platform.random() * 2 ** 52),
    paging: false,
    complete: false,
    generation: 0,
    total: 0,
    unseen: 0,
    serverTotal: 0,
    serverUnseen: 0,
  };
}
