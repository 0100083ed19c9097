/** The row of a message, as far as it was read, and its source: where its parts are, and the octets of them. */
import {
  type ImapRow,
  type ImapStore,
  partiesOf,
  takeTurnOf,
} from '../../mailboxes/mailstore/mailstore.ts';
import { Turns } from '../../platform/net/net.ts';
import {
  decodePart,
  isEncoded,
  MAX_HEADER,
  type MessagePart,
  readFields,
} from '../../protocols/message/message.ts';
import { Pace } from './long-work.ts';
import { No, type Session } from './session.ts';

type StoredBody = NonNullable<Awaited<ReturnType<ImapStore['body']>>>;
/** Without its structure where only the whole source is asked for. */
type SourceRow = ImapRow<'body_id'> & Partial<ImapRow<'structure'>>;

/** A column of a message. @throws Error where it was not read */
export function columnOf<Message extends { readonly uid: number }, Column extends keyof Message>(
  row: Message,
  column: Column,
): Exclude<Message[Column], undefined> {
  const value = row[column];
  if (value === undefined) throw new Error(`${String(column)} of message ${row.uid} was not read`);
  return value as Exclude<Message[Column], undefined>;
}

/** Where the message itself begins: its parts come last in the text, and a quote within a string has a backslash. */
const BODY_START = /,"headerStart":\d+,"bodyStart":(\d+),/;

/** Readers that skip the begin of an encoded part, in all: they take the processor from everybody else for few octets. */
const skipping = new Turns(2);

/** The source of a message, which is read when an item needs it. */
export class Source {
  readonly #session: Session;
  readonly #row: SourceRow;
  #root: MessagePart | undefined;
  #body: StoredBody | undefined;
  #header: { readonly start: number; readonly octets: Buffer } | undefined;

  /** @param body where it is, if it was looked for already */
  constructor(session: Session, row: SourceRow, body?: StoredBody) {
    this.#session = session;
    this.#row = row;
    this.#body = body;
  }

  get root(): MessagePart {
    this.#root ??= JSON.parse(this.#structure) as MessagePart;
    return this.#root;
  }

  /** The same as in {@link root}, without reading all of that. */
  get bodyStart(): number {
    const text = BODY_START.exec(this.#structure)?.[1];
    return text === undefined ? this.root.bodyStart : Number(text);
  }

  get #structure(): string {
    return columnOf(this.#row, 'structure');
  }

  /** A header, as far as one is read anywhere; the last one is kept for the other items that ask for it. */
  async header(start: number, end: number): Promise<Buffer> {
    if (this.#header?.start !== start) {
      this.#header = { start, octets: await this.read(start, Math.min(end, start + MAX_HEADER)) };
    }
    return this.#header.octets;
  }

  async fields() {
    return readFields(await this.header(0, this.bodyStart));
  }

  async read(start: number, end: number): Promise<Buffer> {
    await this.#find();
    const found = this.inRow(start, end);
    if (found) return found;
    const pieces: Uint8Array[] = [];
    for await (const piece of this.open(start, end)) pieces.push(Uint8Array.from(piece));
    return Buffer.concat(pieces);
  }

  /** Octets that came with the row of the body; undefined where it was not read yet, or they are in a file. */
  inRow(start: number, end: number): Buffer | undefined {
    const content = this.#body?.content;
    if (!content || end > content.length) return undefined;
    return Buffer.from(content.buffer, content.byteOffset + start, end - start);
  }

  async *open(start: number, end: number): AsyncGenerator<Uint8Array> {
    const { user, selected } = this.#session;
    const { uid, body_id } = this.#row;
    const { mailbox } = selected;
    const about = { accountId: user.accountId, mailboxId: mailbox.id, uid, bodyId: body_id };
    const { imap } = this.#session.services.mailstore;
    yield* imap.source(await this.#find(), { start, end }, about);
  }

  /** Octets of a part without its encoding. @param range in what is decoded */
  async *decoded(
    { bodyStart, bodyEnd, encoding }: Pick<MessagePart, 'bodyStart' | 'bodyEnd' | 'encoding'>,
    range: { readonly start: number; readonly end: number },
  ): AsyncGenerator<Uint8Array> {
    if (!isEncoded(encoding)) {
      yield* this.open(bodyStart + range.start, bodyStart + range.end);
      return;
    }
    const decoded = decodePart(encoding, this.open(bodyStart, bodyEnd), range);
    if (range.start === 0) return yield* decoded;
    try {
      const { user, channel } = this.#session;
      const parties = partiesOf(user, { account: 1, tenant: 1 });
      const first = await skipping.run(parties, () => decoded.next(), channel.signal);
      if (!first.done) yield first.value;
      yield* decoded;
    } finally {
      await decoded.return();
    }
  }

  async #find() {
    this.#body ??= await this.#session.services.mailstore.imap.body(this.#row.body_id);
    if (!this.#body) throw new No('EXPUNGEISSUED', `Message ${this.#row.uid} is gone`);
    return this.#body;
  }
}

/** Messages whose structures and sources are in memory at once. */
const AT_A_TIME = 32;

/**
 * The sources of messages, with the ids of their bodies; each body once.
 *
 * @param rows of the selected mailbox; a message without a source is left out
 */
export async function* sourcesOf(
  session: Session,
  rows: readonly ImapRow<'body_id'>[],
): AsyncGenerator<[number, Source]> {
  const { imap } = session.services.mailstore;
  const pace = new Pace(session, Number.POSITIVE_INFINITY);
  const read = new Set<number>();
  for (let at = 0; at < rows.length; at += AT_A_TIME) {
    await takeTurnOf(session.user);
    const uids = rows.slice(at, at + AT_A_TIME).map(({ uid }) => uid);
    const some = await imap.rows(session.selected.mailbox, uids, ['body_id', 'structure']);
    const bodies = await imap.bodies(some.map(({ body_id }) => body_id));
    for (const row of some) {
      const body = bodies.get(row.body_id);
      if (!body || read.has(row.body_id)) continue;
      read.add(row.body_id);
      if (pace.mustYield) await pace.yieldTurn();
      yield [row.body_id, new Source(session, row, body)];
    }
  }
}
