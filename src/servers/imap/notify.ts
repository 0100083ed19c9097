/** NOTIFY (RFC 5465), and what clients are told unasked: of the selected mailbox, and of others where they want it. */
import type { OpenMailbox } from '../../mailboxes/mailstore/mailstore.ts';
import { isRefusal, when } from '../../platform/errors/errors.ts';
import { aboveThose, type Entry, oldName, readNames, writeList } from './list.ts';
import { readNotify } from './parse-notify.ts';
import { type Command, No, type Session } from './session.ts';
import { type StatusItem, writeStatus } from './status.ts';
import { tellChanges } from './tell-changes.ts';
import { NOTHING, parentOf, type Told, UNTOLD, Watches } from './watches.ts';
import type { Output } from './write.ts';

/** Names of which one session keeps what it was told. */
const TOLD_MAX = 500;

export const notify: Command = {
  // What was held back until now, as NOOP does (section 3.1).
  tells: 'everything',
  async *run(session, command) {
    const request = readNotify(command);
    const before = session.watches;
    const watches = new Watches(request);
    // Before mailboxes are read for the first time, so that nothing is missed that comes meanwhile.
    session.watches = watches;
    try {
      if (request.watches.length > 0) yield* tellFirst(session, watches);
    } catch (error) {
      session.watches = before;
      throw error;
    }
    if (request.selected?.fetch?.items.some(({ kind }) => kind === 'MODSEQ')) {
      yield session.enableCondstore();
    }
    session.isBehind = true;
    return request === NOTHING ? 'Nothing will be told' : 'Changes will be told';
  },
};

/**
 * Tells what changed: in the selected mailbox, and of others what the client wants to know.
 *
 * @param withRemovals whether sequence numbers may change now
 * @throws Bye where the selected mailbox is not the one that was selected any more
 */
export async function* tellNews(session: Session, withRemovals: boolean): AsyncGenerator<Output> {
  const { watches, view } = session;
  const selected = watches?.request.selected;
  const isImmediate = selected?.isDelayed === false;
  if (view && (selected || !watches)) yield* tellChanges(session, withRemovals || isImmediate);
  else {
    session.isBehind = false;
    session.told.clear();
  }
  if (!watches?.isBehind) return;
  try {
    yield* tellWatched(session, watches);
  } catch (error) {
    // It is read again with the next change, or with the check after a minute.
    watches.onChange();
    throw error;
  }
}

/** Reads what is there at the beginning, and tells it as STATUS where the client wants it (section 3.1). */
async function* tellFirst(session: Session, watches: Watches): AsyncGenerator<string> {
  const names = await readNames(session);
  watches.told = toldOf(watches, names);
  if (watches.told.size > TOLD_MAX) {
    throw new No('NOTIFICATIONOVERFLOW', `At most ${TOLD_MAX} mailboxes are watched`);
  }
  if (!watches.request.tellsStatus) return;
  for (const [name, { mailbox, isSubscribed }] of names) {
    if (!mailbox || name === session.view?.mailbox.name) continue;
    const { tellsNew, tellsRemoved, tellsFlags } = wantedOf(watches, name, isSubscribed);
    const items: StatusItem[] = [];
    if (tellsNew || tellsRemoved) items.push('MESSAGES');
    if (tellsNew) items.push('UIDNEXT');
    if (tellsNew || tellsFlags) items.push('UIDVALIDITY');
    if (tellsFlags) items.push('HIGHESTMODSEQ');
    if (items.length > 0) yield await writeStatus(session, mailbox, items);
  }
}

function wantedOf(watches: Watches, name: string, isSubscribed: boolean) {
  return {
    tellsNew: watches.wants('MessageNew', name, isSubscribed),
    tellsRemoved: watches.wants('MessageExpunge', name, isSubscribed),
    tellsFlags: watches.wants('FlagChange', name, isSubscribed),
  };
}

function toldOf(watches: Watches, names: readonly [string, Entry][]): Map<string, Told> {
  return new Map(
    names
      .filter(([name, { mailbox, isSubscribed }]) => {
        const isThere = mailbox !== undefined || isSubscribed;
        return isThere && watches.keeps(name, isSubscribed);
      })
      .map(([name, { mailbox, isSubscribed }]) => [name, toldAs(mailbox, isSubscribed)]),
  );
}

function toldAs(mailbox: OpenMailbox | undefined, isSubscribed: boolean): Told {
  if (!mailbox) return { ...UNTOLD, isSubscribed };
  const { id, uidvalidity, uidnext, messages, unseen, highestmodseq } = mailbox;
  return { id, uidvalidity, uidnext, messages, unseen, highestmodseq, isSubscribed };
}

const toNone = when(isRefusal('mailbox_not_found'), undefined);

async function* tellWatched(session: Session, watches: Watches): AsyncGenerator<string> {
  const { imap } = session.services.mailstore;
  const { mailboxes, own } = watches.take();
  const before = watches.told ?? new Map<string, Told>();
  const now = new Map(before);
  watches.told = now;
  if (mailboxes) {
    for (const name of mailboxes) {
      const known = before.get(name);
      const mailbox = await imap.open(session.user, name).catch(toNone);
      // One that went is told with the list.
      if (!known || !mailbox) continue;
      now.set(name, toldAs(mailbox, known.isSubscribed));
      const { isSubscribed } = known;
      yield await tellStatus(session, watches, { before: known, mailbox, isSubscribed, own });
    }
    return;
  }
  const names = await readNames(session);
  const all = toldOf(watches, names);
  if (all.size > TOLD_MAX) {
    // Section 5.8: as if the client had said NOTIFY NONE.
    session.watches = new Watches(NOTHING);
    yield `* OK [NOTIFICATIONOVERFLOW] More than ${TOLD_MAX} mailboxes: nothing is told any more\r\n`;
    return;
  }
  watches.told = all;
  const oldNames = new Map(Array.from(before, ([name, { id }]) => [id, name]));
  const ids = new Set(names.flatMap(([, { mailbox }]) => (mailbox ? [mailbox.id] : [])));
  yield* tellNames(session, watches, { before, names: new Map(names), oldNames, ids, own });
  for (const [name, { mailbox, isSubscribed }] of names) {
    if (!mailbox || !all.has(name)) continue;
    const known = before.get(name) ?? UNTOLD;
    yield await tellStatus(session, watches, { before: known, mailbox, isSubscribed, own });
  }
}

interface StatusNews {
  readonly before: Told;
  readonly mailbox: OpenMailbox;
  readonly isSubscribed: boolean;
  /** Names of mailboxes that this client wrote. */
  readonly own: ReadonlySet<string>;
}

/** New, changed and removed messages of a mailbox that is not selected (sections 5.1 to 5.3). */
async function tellStatus(
  session: Session,
  watches: Watches,
  { before, mailbox, isSubscribed, own }: StatusNews,
): Promise<string> {
  const { name, uidnext, uidvalidity, messages, unseen, highestmodseq } = mailbox;
  if (name === session.view?.mailbox.name) return '';
  const { tellsNew, tellsRemoved, tellsFlags } = wantedOf(watches, name, isSubscribed);
  // One write is one MODSEQ: nobody else has written meanwhile.
  if (own.has(name) && highestmodseq === before.highestmodseq + 1) return '';
  const hasMessages =
    uidnext !== before.uidnext ||
    messages !== before.messages ||
    // Of a mailbox that is new and empty there is nothing to tell.
    (uidvalidity !== before.uidvalidity && before.id !== 0);
  const hasFlags =
    unseen !== before.unseen || (session.condstore && highestmodseq !== before.highestmodseq);
  const isWanted = (hasMessages && (tellsNew || tellsRemoved)) || (hasFlags && tellsFlags);
  if (!isWanted) return '';
  const items: StatusItem[] = ['MESSAGES', 'UIDNEXT', 'UIDVALIDITY'];
  if (tellsFlags) items.push('UNSEEN');
  if (session.condstore) items.push('HIGHESTMODSEQ');
  return writeStatus(session, mailbox, items);
}

interface Lists {
  readonly before: ReadonlyMap<string, Told>;
  readonly names: ReadonlyMap<string, Entry>;
  /** By the ids of their mailboxes, before. */
  readonly oldNames: ReadonlyMap<number, string>;
  /** Of the mailboxes that are there now. */
  readonly ids: ReadonlySet<number>;
  readonly own: ReadonlySet<string>;
}

/** Mailboxes that were made, deleted and renamed, and subscriptions (sections 5.4 and 5.5). */
function* tellNames(session: Session, watches: Watches, lists: Lists): Generator<string> {
  const { before, names, own } = lists;
  /** Names to tell, with the old one where there is one. */
  const affected = new Map<string, string | undefined>();
  for (const [name, old] of changedNames(lists)) {
    const isOwn = own.has(name) || (old !== undefined && own.has(old));
    const isWanted = [name, old ?? name].some((one) =>
      watches.wants('MailboxName', one, names.get(one)?.isSubscribed ?? false),
    );
    if (!isOwn && isWanted) affected.set(name, old);
  }
  for (const name of new Set([...before.keys(), ...names.keys()])) {
    if (own.has(name) || affected.has(name) || !changesSubscription(lists, name)) continue;
    if (watches.wants('SubscriptionChange', name, true)) affected.set(name, undefined);
  }
  if (affected.size === 0) return;
  const withMailboxes = [...names].filter(([, { mailbox }]) => mailbox).map(([name]) => name);
  const parents = aboveThose(withMailboxes);
  for (const [name, old] of affected) {
    const { mailbox, isSubscribed = false } = names.get(name) ?? {};
    const info = old === undefined ? '' : oldName(session, old);
    const hasChildren = parents.has(name);
    yield writeList(session, name, { mailbox, isSubscribed, hasChildren, info });
  }
}

/** Whether a name is subscribed now and was not, or the other way round. With a mailbox, its subscription is renamed. */
function changesSubscription({ before, names, oldNames, ids }: Lists, name: string): boolean {
  const { mailbox, isSubscribed: is = false } = names.get(name) ?? {};
  const known = before.get(name);
  const was = known ?? before.get((mailbox && oldNames.get(mailbox.id)) ?? '');
  const hasLeft = !is && !mailbox && known !== undefined && ids.has(known.id);
  return is !== (was?.isSubscribed ?? false) && !hasLeft;
}

/** Names whose mailbox is another one than before, with their old names. */
function* changedNames({
  before,
  names,
  oldNames,
  ids,
  own,
}: Lists): Generator<readonly [name: string, old?: string]> {
  for (const [name, { mailbox }] of names) {
    if (!mailbox) continue;
    const old = oldNames.get(mailbox.id);
    if (old === name) continue;
    if (old === undefined) {
      yield [name];
      // What a mailbox is directly below is affected, too.
      if (!own.has(name) && parentOf(name) !== '') yield [parentOf(name)];
    } else if (!isRenamedWithParent(old, name, before, names)) yield [name, old];
  }
  for (const [name, { id }] of before) {
    if (id === 0 || ids.has(id)) continue;
    yield [name];
    if (!own.has(name) && parentOf(name) !== '') yield [parentOf(name)];
  }
}

/** Whether the mailbox above was renamed, and this one with it: nothing is told of those below (section 5.4). */
function isRenamedWithParent(
  old: string,
  name: string,
  before: Lists['before'],
  names: Lists['names'],
): boolean {
  const [from, to] = [parentOf(old), parentOf(name)];
  const id = before.get(from)?.id ?? 0;
  const isSameName = old.slice(from.length) === name.slice(to.length);
  return from !== to && isSameName && id !== 0 && names.get(to)?.mailbox?.id === id;
}
