/** Stores messages that a client puts into a mailbox: all of them, or none. */
import type { InTransaction, Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { encodeBinary } from '../../protocols/message/message.ts';
import type { ByteRange, StagedBody } from '../bodies/bodies.ts';
import type { MessageWriter } from './append-messages.ts';
import type { MessageEditor, MessageEditorOptions } from './edit-messages.ts';
import { mailboxNotFound } from './mailboxes.ts';
import { fits, quotaExceeded } from './quotas.ts';
import { describeMessage, stageMessage } from './stage-message.ts';
import type {
  AppendedByClient,
  AppendTarget,
  MailUser,
  MessageSet,
  MessageTexts,
  NewMessage,
  StagedMessage,
} from './store.ts';
import { normalizeFlags } from './syntax.ts';

export interface ClientAppendsOptions extends Omit<MessageEditorOptions, 'now'> {
  readonly writer: MessageWriter;
  readonly editor: Pick<MessageEditor, 'lockBoth' | 'expungeIn'>;
}

interface Staged {
  readonly body: StagedBody;
  readonly texts: MessageTexts;
  readonly target: AppendTarget;
}

export class ClientAppends {
  readonly #options: ClientAppendsOptions;

  constructor(options: ClientAppendsOptions) {
    this.#options = options;
  }

  /** @throws Refusal as `Mailstore.appendMessage` does; any error of a source */
  append(
    user: MailUser,
    mailbox: string,
    messages: AsyncIterable<NewMessage>,
    within?: InTransaction<AppendedByClient>,
  ): Promise<AppendedByClient> {
    return this.#append(user, mailbox, messages, (tx, staged) =>
      this.#insert(tx, user, mailbox, staged, within),
    );
  }

  /**
   * The same, and other messages are removed in the same transaction; all of them are there, or nothing is done.
   *
   * @throws Refusal also message_not_found
   */
  async replace(
    user: MailUser,
    replaced: MessageSet,
    mailbox: string,
    messages: AsyncIterable<NewMessage>,
  ): Promise<AppendedByClient> {
    const { bodies, editor, quotas } = this.#options;
    let files: readonly string[] = [];
    const appended = await this.#append(user, mailbox, messages, async (tx, staged) => {
      // Locks in the order of moves: the account, then the mailboxes.
      await quotas.hold(tx, [user.accountId]);
      await editor.lockBoth(tx, user, replaced, mailbox);
      const made = await this.#insert(tx, user, mailbox, staged);
      const expunged = await editor.expungeIn(tx, user, replaced);
      if (expunged.removed.length < replaced.uids.length) {
        throw new Refusal('message_not_found', 'the message that is to be replaced is gone');
      }
      files = expunged.files;
      return { ...made, changes: [...made.changes, ...expunged.changes] };
    });
    await bodies.removeFiles(files);
    return appended;
  }

  async #append(
    user: MailUser,
    mailbox: string,
    messages: AsyncIterable<NewMessage>,
    insert: (tx: Queries, staged: readonly Staged[]) => Promise<AppendedByClient>,
  ): Promise<AppendedByClient> {
    const { database, line, mailboxes, quotas } = this.#options;
    await mailboxes.find(user, mailbox);
    // Check before a message is read, whatever its size: the account may have no room at all.
    const rooms = await quotas.rooms(database.read, [user.accountId]);
    if (rooms.some((room) => !fits(room, 1))) throw quotaExceeded();
    const staged: Staged[] = [];
    try {
      for await (const message of messages) staged.push(await this.#stage(user, mailbox, message));
    } catch (error) {
      await this.#discard(staged);
      throw error;
    }
    const commit = line.run([user.accountId], () => database.write((tx) => insert(tx, staged)));
    return commit.catch(async (error: unknown) => {
      // After any other error the commit may have happened: the sweep decides then.
      if (error instanceof Refusal) await this.#discard(staged);
      throw error;
    });
  }

  async #stage(
    user: MailUser,
    mailbox: string,
    { flags = [], internalDate, octets, isBinary = false, source }: NewMessage,
  ): Promise<Staged> {
    const { bodies } = this.#options;
    const target = {
      user,
      mailbox,
      flags: normalizeFlags(flags),
      internalDate,
    };
    const noRoom = await bodies.checkRoom(octets);
    if (noRoom) throw noRoom;
    let hasNul = false;
    async function* watched() {
      for await (const chunk of source) {
        hasNul ||= chunk.includes(0);
        yield chunk;
      }
    }
    const staged = await stageMessage(bodies, isBinary ? watched() : source);
    const { parsed, body } = hasNul ? await this.#encode(staged) : staged;
    return { body, target, texts: await describeMessage(bodies, { parsed, body }) };
  }

  /** Text in place of NUL; a message that has none in its parts stays as it is. */
  async #encode({ parsed, body }: StagedMessage): Promise<StagedMessage> {
    const { bodies } = this.#options;
    const open = (range: ByteRange) => bodies.read(body, range);
    try {
      return await stageMessage(bodies, encodeBinary(parsed.structure, parsed.size, open));
    } finally {
      await bodies.discard(body);
    }
  }

  async #insert(
    tx: Queries,
    user: MailUser,
    mailbox: string,
    staged: readonly Staged[],
    within?: InTransaction<AppendedByClient>,
  ): Promise<AppendedByClient> {
    const { bodies, quotas, writer } = this.#options;
    const octets = staged.reduce((sum, { texts }) => sum + texts.size, 0);
    await quotas.refuseFull(tx, user.accountId, octets);
    const uids: number[] = [];
    let made: AppendedByClient | undefined;
    for (const { body, texts, target } of staged) {
      const bodyId = await bodies.commit(tx, body);
      const [appended] = await writer.append(tx, { ...texts, bodyId }, [target]);
      // The account was deleted while the message came in: the body is rolled back with the transaction.
      if (!appended) throw mailboxNotFound(mailbox);
      const { uid, change } = appended;
      uids.push(uid);
      const { uidvalidity, token } = change;
      const state = { mailbox: change.mailbox, uidvalidity, token };
      made = { uid, uids, state, changes: [change] };
    }
    if (!made) throw new Error('no message was to be appended');
    await within?.(tx, made);
    return made;
  }

  async #discard(staged: readonly Staged[]): Promise<void> {
    for (const { body } of staged) await this.#options.bodies.discard(body);
  }
}
