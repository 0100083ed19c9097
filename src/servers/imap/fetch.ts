/** FETCH and UID FETCH (RFC 9051 section 6.4.5): rows are read in pieces, so that no mailbox is in memory. */
import { setImmediate as turn } from 'node:timers/promises';
import type { ImapRow, OpenMailbox } from '../../mailboxes/mailstore/mailstore.ts';
import { UidSet } from '../../protocols/imap-syntax/imap-syntax.ts';
import { HeaderReader, type MessagePart } from '../../protocols/message/message.ts';
import { writeStructure } from './body-structure.ts';
import { writeEnvelope } from './envelope.ts';
import { type FetchItem, type FetchRequest, readFetch } from './parse-fetch.ts';
import { cut, findSection, type Section, selectFields } from './sections.ts';
import { vanished } from './select.ts';
import { type Answer, type Command, No, type Session } from './session.ts';
import { dateTime, type Output } from './write.ts';

/** Messages whose rows are read at once: with their structures, of which one may have half a megabyte, and without. */
const WITH_TEXTS = 32;
const WITHOUT = 500;

type Columns = 'modseq' | 'flags' | 'size' | 'internal_date' | 'body_id' | 'structure';
type Message = ImapRow<Columns>;

export const fetch = fetching(false);
export const uidFetch = fetching(true);

function fetching(isByUid: boolean): Command {
  return {
    states: ['selected'],
    // A client may use the sequence numbers of the next answers only if these stay (RFC 9051 section 5.5).
    tells: isByUid ? 'everything' : 'no removals',
    async *run(session, command) {
      command.expect(' ');
      const set = command.sequenceSet();
      command.expect(' ');
      const request = readFetch(command, isByUid);
      const uids = session.selected.resolve(set, isByUid);
      if (request.items.some(({ kind }) => kind === 'MODSEQ')) yield session.enableCondstore();
      if (request.vanished) yield await tellVanished(session, set, request);
      return yield* fetchAll(session, uids, request, isByUid);
    },
  };
}

/** What of a set was removed since (RFC 7162 section 3.2.6). */
async function tellVanished(session: Session, set: string, request: FetchRequest): Promise<string> {
  const { mailbox, uids } = session.selected;
  const asked = UidSet.parse(set.replaceAll('*', String(mailbox.uidnext - 1))) ?? UidSet.empty;
  const page = await session.services.mailstore.sync(session.user, {
    mailbox: mailbox.name,
    uidvalidity: String(mailbox.uidvalidity),
    token: String(request.changedSince),
  });
  const gone = page.reset
    ? UidSet.between(1, mailbox.uidnext - 1).without(UidSet.of(uids))
    : UidSet.of(page.changes.removed.map(({ uid }) => uid));
  return vanished(gone.without(gone.without(asked)));
}

async function* fetchAll(
  session: Session,
  uids: readonly number[],
  request: FetchRequest,
  isByUid: boolean,
): Answer {
  const view = session.selected;
  const { imap } = session.services.mailstore;
  const needsTexts = request.items.some(needsText);
  const marksSeen =
    !view.isReadOnly && request.items.some((item) => item.kind === 'section' && item.marksSeen);
  const size = needsTexts ? WITH_TEXTS : WITHOUT;
  const columns = ['modseq', 'flags', 'size', 'internal_date', 'body_id'] as const;
  let missing = 0;
  for (let at = 0; at < uids.length; at += size) {
    const piece = uids.slice(at, at + size);
    // Other connections have their turn, however fast this client reads.
    await turn();
    const read = needsTexts
      ? await imap.rows(view.mailbox, piece, [...columns, 'structure'])
      : (await imap.rows(view.mailbox, piece, columns)).map((row) => ({ ...row, structure: '' }));
    missing += piece.length - read.length;
    const since = request.changedSince ?? 0;
    const wanted = read.filter(({ modseq }) => modseq > since);
    const seen = marksSeen ? await markSeen(session, wanted) : new Map<number, Flagged>();
    for (const row of wanted) {
      const flagged = seen.get(row.uid);
      yield* writeMessage(session, { ...row, ...flagged }, request.items, flagged !== undefined);
    }
  }
  // Those that somebody removed: told when that is allowed (RFC 5530).
  if (missing > 0 && !isByUid) throw new No('EXPUNGEISSUED', 'Some of the messages are gone');
  return 'That is all';
}

interface Flagged {
  readonly flags: string;
  readonly modseq: number;
}

/** Sets `\Seen` where it lacks, in one change. @returns the new flags, by UID */
async function markSeen(session: Session, rows: readonly Message[]): Promise<Map<number, Flagged>> {
  const unread = rows.filter(({ flags }) => !flags.split(' ').includes('\\Seen'));
  if (unread.length === 0) return new Map();
  const set = session.setOf(unread.map(({ uid }) => uid));
  const { updated } = await session.services.mailstore.setFlags(session.user, set, {
    add: ['\\Seen'],
  });
  for (const { uid, modseq } of updated) session.told.set(uid, modseq);
  return new Map(
    updated.map(({ uid, flags, modseq }) => [
      uid,
      { flags: flags.join(' '), modseq: Number(modseq) },
    ]),
  );
}

function needsText(item: FetchItem): boolean {
  return !['UID', 'FLAGS', 'INTERNALDATE', 'RFC822.SIZE', 'MODSEQ'].includes(item.kind);
}

async function* writeMessage(
  session: Session,
  row: Message,
  items: readonly FetchItem[],
  hasNewFlags: boolean,
): AsyncGenerator<Output> {
  const number = session.selected.numberOf(row.uid);
  if (number === 0) return;
  const isFlagged = items.some(({ kind }) => kind === 'FLAGS');
  const all: readonly FetchItem[] =
    hasNewFlags && !isFlagged ? [...items, { kind: 'FLAGS' }] : items;
  const source = new Source(session, row);
  const { selected: view } = session;
  const told = { ...row, flags: view.flagsOf(row.uid, row.flags) };
  let text = `${view.announce(row.flags)}* ${number} FETCH (`;
  for (const [index, item] of all.entries()) {
    if (index > 0) text += ' ';
    if (item.kind !== 'section') text += await writeItem(item.kind, told, source);
    else {
      for (const part of await writeSection(item.section, row, source)) {
        if (typeof part === 'string') text += part;
        else {
          yield text;
          text = '';
          yield part;
        }
      }
    }
  }
  yield `${text})\r\n`;
}

async function writeItem(
  kind: Exclude<FetchItem['kind'], 'section'>,
  row: Message,
  source: Source,
): Promise<string> {
  switch (kind) {
    case 'UID':
      return `UID ${row.uid}`;
    case 'FLAGS':
      return `FLAGS (${row.flags})`;
    case 'INTERNALDATE':
      return `INTERNALDATE ${dateTime(row.internal_date)}`;
    case 'RFC822.SIZE':
      return `RFC822.SIZE ${row.size}`;
    case 'MODSEQ':
      return `MODSEQ (${row.modseq})`;
    case 'ENVELOPE':
      return `ENVELOPE ${writeEnvelope(await source.fields())}`;
    default: {
      const read = (start: number, end: number) => source.read(start, end);
      return `${kind} ${await writeStructure(source.root, read, kind === 'BODYSTRUCTURE')}`;
    }
  }
}

async function writeSection(section: Section, row: Message, source: Source): Promise<Output[]> {
  const range = findSection(source.root, row.size, section);
  if (!range) return [`${section.label} NIL`];
  if (section.names.length > 0) {
    const text = selectFields(await source.read(range.start, range.end), section);
    const { start, end } = cut({ start: 0, end: text.length }, section.partial);
    return [`${section.label} {${end - start}}\r\n${text.slice(start, end)}`];
  }
  const { start, end } = cut(range, section.partial);
  const octets = end - start;
  const head = `${section.label} {${octets}}\r\n`;
  if (octets === 0) return [head];
  return [
    head,
    (await source.inRow(start, end)) ?? { octets, open: () => source.open(start, end) },
  ];
}

/** The source of a message, which is read when an item needs it. */
class Source {
  readonly #session: Session;
  readonly #row: Message;
  #root: MessagePart | undefined;
  #body: Promise<Awaited<ReturnType<Session['services']['mailstore']['imap']['body']>>> | undefined;

  constructor(session: Session, row: Message) {
    this.#session = session;
    this.#row = row;
  }

  get root(): MessagePart {
    this.#root ??= JSON.parse(this.#row.structure) as MessagePart;
    return this.#root;
  }

  async fields() {
    const reader = new HeaderReader();
    const { headerStart, bodyStart } = this.root;
    if (reader.write(await this.read(headerStart, bodyStart)) === undefined) reader.end();
    return reader.header.fields;
  }

  async read(start: number, end: number): Promise<Buffer> {
    const found = await this.inRow(start, end);
    if (found) return found;
    const pieces: Uint8Array[] = [];
    for await (const piece of this.open(start, end)) pieces.push(Uint8Array.from(piece));
    return Buffer.concat(pieces);
  }

  /** Octets that came with the row of the body; undefined where they are in a file. */
  async inRow(start: number, end: number): Promise<Buffer | undefined> {
    const { content } = await this.#find();
    if (!content || end > content.length) return undefined;
    return Buffer.from(content.buffer, content.byteOffset + start, end - start);
  }

  async *open(start: number, end: number): AsyncGenerator<Uint8Array> {
    const { user, selected } = this.#session;
    const { uid, body_id } = this.#row;
    const mailbox: OpenMailbox = selected.mailbox;
    const about = { accountId: user.accountId, mailboxId: mailbox.id, uid, bodyId: body_id };
    const { imap } = this.#session.services.mailstore;
    yield* imap.source(await this.#find(), { start, end }, about);
  }

  async #find() {
    this.#body ??= this.#session.services.mailstore.imap.body(this.#row.body_id);
    const body = await this.#body;
    if (!body) throw new No('EXPUNGEISSUED', `Message ${this.#row.uid} is gone`);
    return body;
  }
}
