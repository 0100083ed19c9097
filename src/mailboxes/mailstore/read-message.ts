/** Reads one message and its parts. */

import { type Database, PreparedQuery } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import {
  decodePart,
  type Envelope,
  findPart,
  type MessagePart,
  partFilename,
  toBodyStructure,
} from '../../protocols/message/message.ts';
import type { Bodies } from '../bodies/bodies.ts';
import type { Mailboxes } from './mailboxes.ts';
import { describeRow } from './older-messages.ts';
import type { OpaqueIds } from './opaque-ids.ts';
import {
  type ByteRange,
  enterTurnOf,
  type MailUser,
  type Message,
  type PartContent,
} from './store.ts';
import { canonicalLevels, flagsFromText } from './syntax.ts';

const messageColumns = [
  'messages.mailbox_id',
  'messages.uid',
  'messages.flags',
  'messages.size',
  'messages.internal_date',
  'messages.body_id',
  'messages.envelope',
  'messages.structure',
  'messages.preview',
  'messages.thread_id',
  'messages.has_attachment',
] as const;

/** Compiled once: every message that is opened runs it. */
const messageByUid = new PreparedQuery(
  (value: { accountId: number; mailbox: string; uid: number }, queries) =>
    queries
      .selectFrom('mailboxes')
      .innerJoin('messages', 'messages.mailbox_id', 'mailboxes.id')
      .select(['mailboxes.uidvalidity', ...messageColumns])
      .where('mailboxes.account_id', '=', value.accountId)
      .where('mailboxes.name', '=', value.mailbox)
      .where('messages.uid', '=', value.uid),
);

type MessageRow = NonNullable<Awaited<ReturnType<(typeof messageByUid)['first']>>>;

/** A message from its row; what takes time is read when it is requested. A class: V8 makes objects with getters slowly. */
class StoredMessage implements Message {
  readonly uid: number;
  readonly flags: readonly string[];
  readonly size: number;
  readonly internalDate: string;
  readonly describe: Message['describe'];
  readonly open: Message['open'];
  readonly #row: MessageRow;

  constructor(row: MessageRow, describe: Message['describe'], open: Message['open']) {
    this.uid = row.uid;
    this.flags = flagsFromText(row.flags);
    this.size = row.size;
    this.internalDate = new Date(row.internal_date).toISOString();
    this.describe = describe;
    this.open = open;
    this.#row = row;
  }

  get envelope() {
    return JSON.parse(this.#row.envelope) as Envelope;
  }

  get structure() {
    return JSON.parse(this.#row.structure) as MessagePart;
  }

  get bodyStructure() {
    return toBodyStructure(this.structure);
  }
}

export interface MessageReaderOptions {
  readonly database: Database;
  readonly bodies: Bodies;
  readonly ids: OpaqueIds;
  readonly mailboxes: Mailboxes;
}

export class MessageReader {
  readonly #options: MessageReaderOptions;

  constructor(options: MessageReaderOptions) {
    this.#options = options;
  }

  async message(user: MailUser, mailbox: string, uid: number): Promise<Message> {
    const row = await this.#find(user, mailbox, uid);
    const describe = () =>
      describeRow({ bodies: this.#options.bodies, ids: this.#options.ids }, row);
    return new StoredMessage(row, describe, (range) => this.#read(user, row, range));
  }

  async part(user: MailUser, mailbox: string, uid: number, number: string): Promise<PartContent> {
    const row = await this.#find(user, mailbox, uid);
    const part = findPart(JSON.parse(row.structure) as MessagePart, number);
    if (!part) throw new Refusal('part_not_found', `message ${uid} has no part ${number}`);
    return {
      size: part.decodedSize,
      etag: `"${row.uidvalidity}-${uid}-${number}"`,
      filename: partFilename(part),
      open: (range?: ByteRange) => {
        const encoded = this.#read(user, row, { start: part.bodyStart, end: part.bodyEnd });
        return decodePart(part.encoding, encoded, range);
      },
    };
  }

  /** @throws Refusal where the message, or the file with its source, no longer exists */
  async *#read(
    user: MailUser,
    { mailbox_id, uid, body_id }: MessageRow,
    range?: ByteRange,
  ): AsyncGenerator<Uint8Array> {
    const body = await this.#options.bodies.find(body_id);
    if (!body) throw new Refusal('message_not_found', `message ${uid} was removed`);
    const about = { accountId: user.accountId, mailboxId: mailbox_id, uid, bodyId: body_id };
    for await (const piece of this.#options.bodies.read(body, range, about)) {
      const waits = enterTurnOf(user);
      if (waits) await waits;
      yield piece;
    }
  }

  async #find(user: MailUser, mailbox: string, uid: number): Promise<MessageRow> {
    const row = await messageByUid.first(this.#options.database.read, {
      accountId: user.accountId,
      mailbox: canonicalLevels(mailbox),
      uid,
    });
    if (row) return row;
    // Refuses if the mailbox is missing; an account's default mailboxes may not have been created yet.
    await this.#options.mailboxes.find(user, mailbox);
    throw new Refusal('message_not_found', `there is no message ${uid} in "${mailbox}"`);
  }
}
