/** What others do to an account meanwhile: who sends it mail, its other apps, and its server. */
import { isLive, readLocalId, uidOf } from '../../src/mail/rows.ts';
import type { MessageId } from '../../src/mail.ts';
import type { FakeAccount } from '../../src/testing/account.ts';
import type { Rows } from './replay.ts';
import type { Step } from './steps.ts';
import type { World } from './world.ts';

const KINDS = [
  'deliver',
  'other flags',
  'other removes',
  'other moves',
  'forget',
  'recreate',
  'remake',
] as const;
type OthersStep = Extract<Step, { do: (typeof KINDS)[number] }>;

export function isOfOthers(one: Step): one is OthersStep {
  return KINDS.some((kind) => kind === one.do);
}

/** @param subject of the next mail */
export async function happen(one: OthersStep, world: World, subject: () => string): Promise<void> {
  const { account } = world;
  if (one.do === 'deliver') {
    for (let i = 0; i < one.count; i++) account.deliver('INBOX', { subject: subject() });
  } else if (one.do === 'forget') account.mailbox(one.box).forgetRemoved();
  else if (one.do === 'recreate') account.recreate(one.box);
  else if (one.do === 'remake') {
    account.delete(one.box);
    await world.pass(one.ms);
    account.create(one.box);
  } else if ('pick' in one) {
    const { uids } = account.mailbox(one.box);
    const uid = uids[one.pick % uids.length];
    if (!uid) return;
    if (one.do === 'other flags')
      account.flag(one.box, [uid], one.on ? [one.flag] : [], one.on ? [] : [one.flag]);
    else if (one.do === 'other removes') account.remove(one.box, [uid]);
    else if (one.box !== 'Archive') account.relocate(one.box, [uid], 'Archive', true);
  }
}

/**
 * Whether the server has a message under the name that the copy has for it. What others removed, or is in a mailbox that
 * they made anew, it does not know: a change of it is refused, or changes nothing.
 */
export function hasMessage(
  account: FakeAccount,
  { mailboxes, operations }: Pick<Rows, 'mailboxes' | 'operations'>,
  name: string,
  id: MessageId,
  uidvalidity = mailboxes.find((row) => row.name === name && !row.gone)?.uidvalidity,
): boolean {
  const mailbox = account.mailbox(name);
  if (uidvalidity !== mailbox.uidvalidity) return false;
  if (typeof id === 'number') return mailbox.find(id) !== undefined;
  const { seq, index = 0 } = readLocalId(id) ?? {};
  const made = operations.find((one) => one.seq === seq);
  const [before, uid] = [made?.ids[index], made?.placed?.[index]];
  if (!made || before === undefined || uid !== undefined)
    return uid === undefined || mailbox.find(uid) !== undefined;
  return hasMessage(account, { mailboxes, operations }, made.mailbox, before, made.uidvalidity);
}

/** The mailboxes that a message was in, the last first, since the one where the server has it. */
export function wayOf(
  rows: Pick<Rows, 'operations'>,
  name: string,
  id: MessageId,
): readonly string[] {
  const { seq, index = 0 } = readLocalId(id) ?? {};
  const made = rows.operations.find((one) => one.seq === seq);
  const before = made?.ids[index];
  if (!made || before === undefined || made.placed?.[index] !== undefined) return [name];
  return [name, ...wayOf(rows, made.mailbox, before)];
}

/** Whether another process took a message away, which the one that shows it may not have read yet. */
export function isTaken(
  { operations }: Pick<Rows, 'operations'>,
  name: string,
  id: MessageId,
): boolean {
  const takes = operations.filter(({ kind }) => kind === 'move' || kind === 'delete');
  // The same message may have a UID here, and there the id of the change that brought it.
  const isSame = (own: MessageId) =>
    own === id || (uidOf(own, operations) || own) === (uidOf(id, operations) || id);
  return takes.some((one) => one.mailbox === name && one.ids.some(isSame) && isLive(one));
}
