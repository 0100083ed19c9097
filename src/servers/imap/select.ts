/** SELECT and EXAMINE with their parameters (RFC 9051 section 6.3.2, RFC 7162), UNSELECT, STATUS, ENABLE. */
import { hasFlag } from '../../mailboxes/mailstore/mailstore.ts';
import { UidSet } from '../../protocols/imap-syntax/imap-syntax.ts';
import { BadCommand, type Cursor } from './cursor.ts';
import { fetchFlags } from './fetch.ts';
import { tellMailbox } from './list.ts';
import type { Answer, Command, Session } from './session.ts';
import { readSince, vanished } from './since.ts';
import { readStatusItems, writeStatus } from './status.ts';
import { View } from './view.ts';
import type { Output } from './write.ts';

/** What a client knows of the mailbox (RFC 7162 section 3.2.5). */
interface Resync {
  readonly uidvalidity: number;
  readonly modseq: number;
  readonly known: UidSet | undefined;
}

export const select = opening(false);
export const examine = opening(true);

function opening(isReadOnly: boolean): Command<Answer> {
  return {
    tells: 'nothing',
    async *run(session, command) {
      const name = command.space().mailbox();
      const resync = command.has(' ') ? readParameters(session, command) : undefined;
      command.end();
      // A mailbox that was selected is closed, also where the next one cannot be opened.
      const { closed } = session;
      if (closed !== '') yield closed;
      await session.closeMailbox();
      try {
        return yield* open(session, name, isReadOnly, resync);
      } catch (error) {
        // It may fail where it is open already: after NO no mailbox is selected (RFC 9051 section 6.3.2).
        await session.closeMailbox();
        throw error;
      }
    },
  };
}

function readParameters(session: Session, command: Cursor): Resync | undefined {
  let resync: Resync | undefined;
  command.list(() => {
    const name = command.atom('a parameter').toUpperCase();
    if (name === 'CONDSTORE') session.condstore = true;
    else if (name === 'QRESYNC' && session.qresync) resync = readResync(command);
    else throw new BadCommand('The parameter is not known, or not enabled');
  });
  return resync;
}

function readResync(command: Cursor): Resync {
  command.expect(' (');
  const uidvalidity = command.number('a UIDVALIDITY');
  const modseq = command.space().number('a MODSEQ');
  let known: UidSet | undefined;
  if (command.has(' ')) {
    // The pairs of sequence numbers and UIDs help servers without tombstones.
    if (!command.sees('(')) known = UidSet.parse(command.sequenceSet());
    if (command.has(' ') || command.sees('(')) readPairs(command);
  }
  command.expect(')');
  return { uidvalidity, modseq, known };
}

function readPairs(command: Cursor): void {
  command.expect('(');
  command.sequenceSet();
  command.space().sequenceSet();
  command.expect(')');
}

async function* open(
  session: Session,
  name: string,
  isReadOnly: boolean,
  resync: Resync | undefined,
): Answer {
  // The state of the list of messages; what comes after it is told after the command.
  const { imap } = session.services.mailstore;
  const user = { ...session.user, hasLeft: () => session.channel.signal.aborted };
  const { index, mailbox } = await imap.select(user, name);
  const token = String(mailbox.highestmodseq);
  const keywords = await imap.keywords(mailbox);
  // IMAP4rev2 has neither \Recent nor UNSEEN, but LIST (RFC 9051 section 6.3.2).
  const { isRev2 } = session;
  const recent = isRev2 ? undefined : session.services.recents.open(mailbox, isReadOnly);
  const view = new View({ mailbox, uids: index.uids, token, isReadOnly, keywords, recent });
  session.openMailbox(view);
  const hasUnseen = !isRev2 && mailbox.unseen > 0;
  const first = hasUnseen ? index.flags.findIndex((flags) => !hasFlag(flags, '\\Seen')) + 1 : 0;
  // In one piece: each that is yielded passes several generators.
  yield [
    view.tellKeywords() + view.tellSize(),
    first > 0 ? `* OK [UNSEEN ${first}] The first unread message\r\n` : '',
    `* OK [UIDVALIDITY ${mailbox.uidvalidity}] UIDs are valid\r\n`,
    `* OK [UIDNEXT ${Math.max(mailbox.uidnext, view.lastUid + 1)}] The next UID\r\n`,
    `* OK [HIGHESTMODSEQ ${token}] Changes have numbers\r\n`,
    `* OK [MAILBOXID (${imap.objectIds.mailbox(mailbox)})] Stays when it is renamed\r\n`,
    isRev2 ? await tellMailbox(session, mailbox.name, name) : '',
  ].join('');
  if (resync?.uidvalidity === mailbox.uidvalidity) yield* tellSince(session, view, resync);
  return `[${isReadOnly ? 'READ-ONLY' : 'READ-WRITE'}] The mailbox is open`;
}

/** What changed since the client was here last (RFC 7162 section 3.2.5.1). */
async function* tellSince(
  session: Session,
  view: View,
  { modseq, known }: Resync,
): AsyncGenerator<Output> {
  const { gone, changed } = await readSince(session, view, { modseq, known });
  yield vanished(gone);
  // Told again: ImapTest counts what it knew the last time, less what vanished, and panics at a FETCH beyond that.
  if (changed.length > 0) yield `* ${view.size} EXISTS\r\n`;
  // As the client reads: lines of many messages are not held.
  yield* fetchFlags(session, changed);
}

export const status: Command = {
  tells: 'no removals',
  async *run(session, command) {
    const name = command.space().mailbox();
    const items = readStatusItems(command.space());
    command.end();
    if (items.includes('HIGHESTMODSEQ')) yield session.enableCondstore();
    const mailbox = await session.services.mailstore.imap.open(session.user, name);
    yield await writeStatus(session, mailbox, items);
    return 'That is all';
  },
};

export const unselect: Command = {
  tells: 'nothing',
  async run(session, command) {
    command.end();
    await session.closeMailbox();
    return 'Closed';
  },
};

/** RFC 5161. */
export const enable: Command = {
  tells: 'nothing',
  async *run(session, command) {
    const enabled: string[] = [];
    for (const name of command.others(() => command.atom('a capability').toUpperCase())) {
      if (session.services.disabled?.has(name)) continue;
      if (name === 'CONDSTORE' || name === 'QRESYNC') yield session.enableCondstore();
      if (name === 'QRESYNC') session.qresync = true;
      // Not while a mailbox is open, of which the client was told otherwise (RFC 5161 section 3.1).
      if ((name === 'IMAP4REV2' || name === 'UTF8=ACCEPT') && !session.view) {
        session.isUtf8 = true;
        session.isRev2 ||= name === 'IMAP4REV2';
        enabled.push(name === 'IMAP4REV2' ? 'IMAP4rev2' : name);
      }
      // Who has QRESYNC has CONDSTORE too, and some clients look for both (RFC 7162 section 3.2.3).
      if (name === 'QRESYNC') enabled.push('QRESYNC', 'CONDSTORE');
      else if (name === 'CONDSTORE') enabled.push(name);
    }
    command.end();
    const told = ['ENABLED', ...new Set(enabled)].join(' ');
    yield `* ${told}\r\n`;
    return 'That is all';
  },
};
