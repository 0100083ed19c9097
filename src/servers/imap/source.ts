/** The source of a message: where its parts are, and the octets of them. */
import { type ImapRow, type ImapStore, partiesOf } from '../../mailboxes/mailstore/mailstore.ts';
import { Turns } from '../../platform/net/net.ts';
import {
  decodePart,
  HeaderReader,
  isEncoded,
  type MessagePart,
} from '../../protocols/message/message.ts';
import { No, type Session } from './session.ts';

type StoredBody = NonNullable<Awaited<ReturnType<ImapStore['body']>>>;
export type SourceRow = ImapRow<'body_id' | 'structure'>;

/** Readers that skip the begin of an encoded part, in all: they take the processor from everybody else for few octets. */
const skipping = new Turns(2);

/** The source of a message, which is read when an item needs it. */
export class Source {
  readonly #session: Session;
  readonly #row: SourceRow;
  #root: MessagePart | undefined;
  #body: Promise<StoredBody | undefined> | undefined;

  /** @param body where it is, if it was looked for already */
  constructor(session: Session, row: SourceRow, body?: StoredBody) {
    this.#session = session;
    this.#row = row;
    if (body) this.#body = Promise.resolve(body);
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
    this.#body ??= this.#session.services.mailstore.imap.body(this.#row.body_id);
    const body = await this.#body;
    if (!body) throw new No('EXPUNGEISSUED', `Message ${this.#row.uid} is gone`);
    return body;
  }
}
