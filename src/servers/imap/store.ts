/** STORE and UID STORE (RFC 9051 section 6.4.6, RFC 7162 section 3.1.3). */
import type { Flagged, FlagStore } from '../../mailboxes/mailstore/mailstore.ts';
import { BadCommand, type Cursor } from './cursor.ts';
import { type Answer, type Command, gone, No, type Session } from './session.ts';
import { numberSet } from './write.ts';

interface StoreRequest {
  readonly change: FlagStore;
  readonly isSilent: boolean;
}

/** Messages in one transaction. */
const AT_A_TIME = 1_000;

export function storing(isByUid: boolean): Command {
  return {
    tells: isByUid ? 'everything' : 'no removals',
    async *run(session, command) {
      const set = command.space().sequenceSet();
      const request = readStore(command.space());
      refuseReadOnly(session);
      if (request.change.unchangedSince !== undefined) yield session.enableCondstore();
      const uids = session.selected.resolve(set, isByUid);
      return yield* storeAll(session, uids, request, isByUid);
    },
  };
}

export function refuseReadOnly({ selected }: Session): void {
  if (selected.isReadOnly) throw new No('CANNOT', 'The mailbox was opened by EXAMINE');
}

function readStore(command: Cursor): StoreRequest {
  let unchangedSince: number | undefined;
  if (command.has('(UNCHANGEDSINCE ')) {
    unchangedSince = command.number('a MODSEQ');
    command.expect(') ');
  }
  const sign = command.has('+') ? 'add' : command.has('-') ? 'remove' : 'replace';
  command.expect('FLAGS');
  const isSilent = command.has('.SILENT');
  const flags = readFlags(command.space());
  command.end();
  const since = unchangedSince === undefined ? {} : { unchangedSince };
  return { change: { [sign]: flags, ...since }, isSilent };
}

/** Flags, in parentheses or not. `\Recent` cannot be set. */
export function readFlags(command: Cursor): string[] {
  if (command.sees('(')) return command.list(() => readFlag(command), true);
  return [readFlag(command), ...command.others(() => readFlag(command))];
}

function readFlag(command: Cursor): string {
  const flag = `${command.has('\\') ? '\\' : ''}${command.atom('a flag')}`;
  if (flag.toLowerCase() === '\\recent') throw new BadCommand('\\Recent cannot be changed');
  return flag;
}

async function* storeAll(
  session: Session,
  uids: readonly number[],
  { change, isSilent }: StoreRequest,
  isByUid: boolean,
): Answer {
  const view = session.selected;
  const modified: number[] = [];
  let found = 0;
  for (let at = 0; at < uids.length; at += AT_A_TIME) {
    session.channel.signal.throwIfAborted();
    const set = session.setOf(uids.slice(at, at + AT_A_TIME));
    const flagged = await session.services.mailstore.setFlags(session.user, set, change);
    modified.push(...(flagged.modified ?? []));
    found += flagged.updated.length + (flagged.modified?.length ?? 0);
    for (const { uid, flags, modseq } of flagged.updated) {
      const tellsFlags = !isSilent || (!change.replace && isNews(session, uid, flagged.before));
      session.told.set(uid, modseq);
      const number = view.numberOf(uid);
      const text = flags.join(' ');
      // With CONDSTORE also a silent STORE tells the new MODSEQ (RFC 7162 section 3.1.3).
      const items = [
        ...(isByUid || session.condstore ? [`UID ${uid}`] : []),
        ...(tellsFlags ? [`FLAGS (${view.flagsOf(uid, text)})`] : []),
        ...(session.condstore ? [`MODSEQ (${modseq})`] : []),
      ];
      if (number === 0 || !(tellsFlags || session.condstore)) continue;
      yield `${view.announce(text)}* ${number} FETCH (${items.join(' ')})\r\n`;
    }
  }
  if (modified.length > 0) {
    const numbers = isByUid ? modified : modified.map((uid) => view.numberOf(uid));
    return `[MODIFIED ${numberSet(numbers)}] Some had changed`;
  }
  // A program that stores by numbers takes OK for all of them (RFC 2180 section 4.2).
  if (found < uids.length && !isByUid) {
    session.isBehind = true;
    throw gone();
  }
  return 'The flags are changed';
}

/**
 * Whether others changed a message before, and the client was not told: then it cannot know the flags that a silent STORE
 * leads to (RFC 9051 section 6.4.6). One that does not want to be told of flags is not.
 */
function isNews(session: Session, uid: number, before: Flagged['before']): boolean {
  const { selected: view, told } = session;
  const modseq = before?.get(uid) ?? 0;
  const isKnown = modseq <= Number(view.token) || told.get(uid) === String(modseq);
  return !isKnown && view.flagsToken === undefined;
}
