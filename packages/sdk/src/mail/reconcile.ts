/** The server's list of mailboxes as changes of the copy. */
import type { Mailbox } from '../api-types.ts';
import type { Copy } from './copy.ts';
import type { Platform } from './platform.ts';
import { type MailboxRow, put } from './rows.ts';
import type { Change } from './store.ts';

export function reconcile(copy: Copy, listed: readonly Mailbox[], platform: Platform): Change[] {
  const left = new Set(copy.mailboxes.filter(({ gone }) => !gone));
  const changes: Change[] = [];
  for (const mailbox of listed) {
    const row = find(left, mailbox);
    if (row) left.delete(row);
    const { specialUse: _, mailboxId: __, ...rest } = row ?? blank(copy, platform);
    const isKept = rest.complete && rest.token !== undefined;
    const next: MailboxRow = {
      ...rest,
      name: mailbox.mailbox,
      ...(mailbox.mailboxId !== undefined && { mailboxId: mailbox.mailboxId }),
      ...(mailbox.specialUse !== undefined && { specialUse: mailbox.specialUse }),
      // Where the copy is whole, its own numbers fit to what it shows.
      serverTotal: isKept ? rest.serverTotal : mailbox.messages,
      serverUnseen: isKept ? rest.serverUnseen : mailbox.unseen,
    };
    if (JSON.stringify(next) !== JSON.stringify(row)) changes.push(put('mailboxes', next));
  }
  for (const row of left) changes.push(put('mailboxes', { ...row, gone: true }));
  return changes;
}

/** By its id, which outlives a new name; servers without ids know names alone. */
function find(
  rows: ReadonlySet<MailboxRow>,
  { mailbox, mailboxId }: Mailbox,
): MailboxRow | undefined {
  const all = [...rows];
  const same = mailboxId === undefined ? undefined : all.find((row) => row.mailboxId === mailboxId);
  const isOther = (row: MailboxRow) => row.mailboxId !== undefined && mailboxId !== undefined;
  return same ?? all.find((row) => row.name === mailbox && !isOther(row));
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
