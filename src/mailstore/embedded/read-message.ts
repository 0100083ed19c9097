/** Reading one message and its parts. */
import type { Bodies, StoredBody } from '../../bodies/bodies.ts';
import { type Database, PreparedQuery, type Queries, type Row } from '../../database/database.ts';
import { Refusal } from '../../errors/errors.ts';
import {
  decodePart,
  type Envelope,
  findPart,
  type MessagePart,
  partFilename,
  toBodyStructure,
} from '../../message/message.ts';
import { flagsFromText } from '../flags.ts';
import { canonicalMailboxName } from '../mailbox-names.ts';
import type { ByteRange, MailUser, Message, PartContent } from '../store.ts';
import type { Mailboxes } from './mailboxes.ts';

type StoredMessage = Pick<
  Row<'messages'>,
  'uid' | 'flags' | 'size' | 'internal_date' | 'envelope' | 'structure'
> & { readonly uidvalidity: number; readonly body: StoredBody };

function prepareSelect(queries: Queries) {
  return new PreparedQuery(
    queries
      .selectFrom('mailboxes')
      .innerJoin('messages', 'messages.mailbox_id', 'mailboxes.id')
      .innerJoin('bodies', 'bodies.id', 'messages.body_id')
      .select([
        'mailboxes.uidvalidity',
        'messages.uid',
        'messages.flags',
        'messages.size',
        'messages.internal_date',
        'messages.envelope',
        'messages.structure',
        'bodies.content',
        'bodies.file',
      ])
      .where('mailboxes.account_id', '=', 0)
      .where('mailboxes.name', '=', '')
      .where('messages.uid', '=', 0),
  );
}

export class MessageReader {
  readonly #database: Database;
  readonly #select: ReturnType<typeof prepareSelect>;
  readonly #bodies: Bodies;
  readonly #mailboxes: Mailboxes;

  constructor(database: Database, bodies: Bodies, mailboxes: Mailboxes) {
    this.#database = database;
    this.#bodies = bodies;
    this.#mailboxes = mailboxes;
    this.#select = prepareSelect(database.read);
  }

  async message(user: MailUser, mailbox: string, uid: number): Promise<Message> {
    const row = await this.#find(user, mailbox, uid);
    return {
      uid: row.uid,
      envelope: JSON.parse(row.envelope) as Envelope,
      flags: flagsFromText(row.flags),
      bodyStructure: toBodyStructure(JSON.parse(row.structure) as MessagePart),
      size: row.size,
      internalDate: new Date(row.internal_date).toISOString(),
      open: () => this.#bodies.read(row.body),
    };
  }

  async part(user: MailUser, mailbox: string, uid: number, number: string): Promise<PartContent> {
    const row = await this.#find(user, mailbox, uid);
    const part = findPart(JSON.parse(row.structure) as MessagePart, number);
    if (!part) throw new Refusal('part_not_found', `message ${uid} has no part ${number}`);
    const filename = partFilename(part);
    return {
      size: part.decodedSize,
      etag: `"${row.uidvalidity}-${uid}-${number}"`,
      ...(filename !== undefined && { filename }),
      open: (range?: ByteRange) => {
        const encoded = this.#bodies.read(row.body, { start: part.bodyStart, end: part.bodyEnd });
        return decodePart(part.encoding, encoded, range);
      },
    };
  }

  async #find(user: MailUser, mailbox: string, uid: number): Promise<StoredMessage> {
    const row = await this.#select.first(this.#database.read, [
      user.accountId,
      canonicalMailboxName(mailbox),
      uid,
    ]);
    if (row) return { ...row, body: { size: row.size, content: row.content, file: row.file } };
    // Says which of the two is missing; an account's own mailboxes may not have been made yet.
    await this.#mailboxes.find(user, mailbox);
    throw new Refusal('message_not_found', `there is no message ${uid} in "${mailbox}"`);
  }
}
