/** Cancels a message before any of it was sent: it is a draft again. */
import {
  describeStored,
  type Mailstore,
  type MailUser,
} from '../../mailboxes/mailstore/mailstore.ts';
import type { Queries } from '../../platform/database/database.ts';
import { isRefusal, Refusal, when } from '../../platform/errors/errors.ts';
import type { Usage } from '../../tenants/usage/usage.ts';
import type { Queue } from '../queue/queue.ts';
import type { AcceptOptions } from './accept.ts';
import {
  type AfterCommit,
  findDraft,
  type Keeping,
  NOWHERE,
  type PinnedLocation,
} from './copies.ts';
import { sentUsage } from './new-send.ts';
import {
  cancelRecipients,
  cancelRow,
  findSend,
  readLocation,
  readRecipients,
  type SendRow,
  sendNotFound,
  writeDraft,
} from './send-rows.ts';

export interface CancelOptions
  extends Pick<AcceptOptions, 'database' | 'bodies' | 'copies' | 'trace' | 'now'> {
  readonly mailstore: Pick<Mailstore, 'listMailboxes' | 'fetchMessage'>;
  readonly queue: Pick<Queue, 'withdraw'>;
  /** Counts mail for billing. */
  readonly usage: Pick<Usage, 'count'>;
}

/**
 * Cancels a message: waiting deliveries are withdrawn, the copy in Sent is removed, and its draft is kept or created
 * again, in one transaction. A repeated cancel returns the same.
 *
 * @returns where the draft is
 * @throws Refusal send_not_found; already_sent where any of it was sent or is being sent
 */
export async function cancelSend(
  options: CancelOptions,
  user: MailUser,
  id: string,
): Promise<PinnedLocation> {
  const { database, bodies, copies } = options;
  const row = await findSend(database.read, user.accountId, { id });
  if (!row) throw sendNotFound({ id });
  const known = row.draft === null ? undefined : readLocation(row.draft);
  if (row.cancelled_at !== null && known) return known;
  const draft = known && (await isThere(options, user, known)) ? known : undefined;
  const { size = 0 } = (await bodies.find(row.body_id)) ?? {};
  const anew = draft ? undefined : await keepDraft(options, user, row);
  const cancelled = await copies
    .inLine([user.accountId], () =>
      database.write((tx) => write(options, tx, user, { row, size }, draft ?? anew)),
    )
    .catch(async (error: unknown) => {
      if (error instanceof Refusal) await anew?.undo();
      throw error;
    });
  if (!cancelled) {
    // Another request did it meanwhile.
    await anew?.undo();
    return cancelSend(options, user, id);
  }
  await Promise.all(cancelled.afterCommit.map(async (one) => one()));
  await bodies.removeFiles(cancelled.files);
  return cancelled.location;
}

async function write(
  { bodies, copies, queue, usage, trace, now }: CancelOptions,
  tx: Queries,
  user: MailUser,
  { row, size }: { readonly row: SendRow; readonly size: number },
  draft: PinnedLocation | Keeping | undefined,
) {
  // Another request that did it has removed what the draft would be made of.
  if (!(await cancelRow(tx, row.id, now()))) return undefined;
  if (!draft) throw alreadySent();
  const recipients = await readRecipients(tx, row.id);
  for (const deliveryId of new Set(recipients.map(({ delivery_id }) => delivery_id))) {
    if (!(await queue.withdraw(tx, deliveryId))) throw alreadySent();
  }
  // Some recipients of a delivery may have ended while others wait; after the withdrawal no more of them end.
  if (!(await cancelRecipients(tx, row.id))) throw alreadySent();
  const cancelled = { mailId: row.public_id, event: 'cancelled' };
  await trace?.write(
    tx,
    recipients.map(({ address: recipient }) => ({ ...cancelled, recipient })),
  );
  const afterCommit: AfterCommit[] = [];
  let location: PinnedLocation;
  if ('commit' in draft) {
    const kept = await draft.commit(tx, row.body_id);
    afterCommit.push(kept.afterCommit);
    location = kept.location;
  } else {
    location = draft;
  }
  await writeDraft(tx, row.id, location);
  const { mailbox, uid, uidvalidity, domain_id: domainId, body_id: bodyId } = row;
  const copy = { mailbox, uid, uidvalidity };
  // A mail program that submitted it has kept its own.
  if (uid !== NOWHERE.uid)
    afterCommit.push(await copies.remove(tx, user, copy, { domainId, bodyId }));
  await usage.count(tx, [sentUsage(user.accountId, -row.recipients, size)], row.created_at);
  // Where the copy in Sent was deleted, only its deliveries still named the body.
  return { afterCommit, location, files: await bodies.release(tx, [row.body_id]) };
}

/** Whether that draft still exists. */
async function isThere(
  { mailstore }: CancelOptions,
  user: MailUser,
  draft: PinnedLocation,
): Promise<boolean> {
  const isChanged = isRefusal('uidvalidity_changed', 'invalid_request');
  const found = await findDraft(mailstore, user, draft).catch(when(isChanged, undefined));
  return found !== undefined;
}

/** @returns undefined where the body was removed with the sent mail */
async function keepDraft(
  { bodies, copies }: CancelOptions,
  user: MailUser,
  row: SendRow,
): Promise<Keeping | undefined> {
  const body = await bodies.find(row.body_id);
  if (!body) return undefined;
  const texts = await describeStored(bodies, body);
  return copies.keep(user, { use: '\\Drafts', texts, body, always: true });
}

function alreadySent(): Refusal {
  return new Refusal('already_sent', 'the message went out, or is on its way');
}
