/** Stores a message that an app writes, before it is sent: in the mailbox of drafts, in place of the draft before it. */
import {
  describeMessage,
  type MailUser,
  type StagedMessage,
} from '../../mailboxes/mailstore/mailstore.ts';
import type { InTransaction } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { AcceptOptions } from './accept.ts';
import type { PinnedLocation } from './copies.ts';

/** Where a draft is, with the part numbers of its files, in the order in which it was given them. */
export interface SavedDraft extends PinnedLocation {
  readonly parts: readonly string[];
}

interface NewDraft extends Pick<SavedDraft, 'parts'> {
  readonly user: MailUser;
  readonly domainId: number;
  readonly staged: StagedMessage;
  /** Where an earlier attempt may have stored it and died. */
  readonly messageId: string | undefined;
  /** The draft that it takes the place of. */
  readonly replaced: PinnedLocation | undefined;
}

/**
 * In our own mailboxes all of it is one transaction. To a mail server it is added before that, and the one that it
 * replaces is removed after it, as the draft of a sent message is (`server-copies.ts`).
 *
 * @param within is part of the transaction
 * @throws Refusal account_not_found, quota_exceeded; then nothing was stored
 */
export async function saveDraft(
  { database, bodies, copies }: Pick<AcceptOptions, 'database' | 'bodies' | 'copies'>,
  { user, domainId, staged, messageId, replaced, parts }: NewDraft,
  within?: InTransaction<SavedDraft>,
): Promise<SavedDraft> {
  const { body } = staged;
  const texts = await describeMessage(bodies, staged);
  const copy = await copies.keep(user, { use: '\\Drafts', texts, body, messageId });
  const write = () =>
    database.write(async (tx) => {
      const bodyId = await bodies.commit(tx, body);
      const { location, afterCommit } = await copy.commit(tx, bodyId);
      const saved = { ...location, parts };
      const removed = replaced && (await copies.remove(tx, user, replaced, { domainId, bodyId }));
      await within?.(tx, saved);
      // A mail server keeps the message: nothing here names its body.
      return { saved, afterCommit, removed, files: await bodies.release(tx, [bodyId]) };
    });
  const stored = await copies.inLine([user.accountId], write).catch(async (error: unknown) => {
    if (error instanceof Refusal) await copy.undo();
    throw error;
  });
  await stored.afterCommit();
  await stored.removed?.();
  await bodies.removeFiles(stored.files);
  return stored.saved;
}
