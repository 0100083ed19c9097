/** One mailbox as an app has it: what it shows, and what the user does with its messages. */

import type { Content } from '../api-types.ts';
import { ApiError, ConnectionError } from '../errors.ts';
import type { Bodies } from './bodies.ts';
import type {
  FlagChange,
  MailboxHandle,
  MailboxView,
  MailState,
  MessageId,
  Operation,
  ReadMessage,
  WatchOptions,
} from './client.ts';
import { BINARY } from './compose.ts';
import type { Copy, NewOperation } from './copy.ts';
import { changeFlags } from './fold.ts';
import { findFile, locateLeft, numbered } from './named.ts';
import { type OperationTools, StoredOperation, toOperation } from './operation.ts';
import {
  type FlagsBefore,
  factsOf,
  isWaiting,
  localPart,
  MAX_IDS,
  type MessageFacts,
  madeBy,
  readLocalId,
  readLocalPart,
  type StoredMail,
} from './rows.ts';
import type { ReadView } from './telling.ts';
import { findShown, listIds, listView, toMessage, viewThread } from './views.ts';

/** What a mailbox needs of its client. */
export interface ClientParts extends OperationTools {
  readonly bodies: Bodies;
  readonly state: MailState;
  mailbox(name: string): MailboxHandle;
  open(name: string): void;
  sync(name: string): Promise<void>;
  watch(read: ReadView, tell: (view: MailboxView) => void): () => void;
}

/** Where the bytes of a message are. */
interface Source {
  readonly mailbox: string;
  readonly box: number | undefined;
  readonly uid: number;
  /** It was never at the server. */
  readonly draft?: StoredMail | undefined;
}

export class StoredMailbox implements MailboxHandle {
  readonly name: string;
  readonly #parts: ClientParts;

  constructor(parts: ClientParts, name: string) {
    this.#parts = parts;
    this.name = name;
  }

  watch(options: WatchOptions, tell: (view: MailboxView) => void): () => void {
    if (typeof tell !== 'function') throw new TypeError('watch takes options and a function');
    this.#parts.open(this.name);
    return this.#parts.watch(
      (state, before) => listView(this.#parts.copy, this.name, options, state, before),
      tell,
    );
  }

  async list(options: WatchOptions = {}): Promise<MailboxView> {
    this.#parts.open(this.name);
    return await listView(this.#parts.copy, this.name, options, this.#parts.state);
  }

  async ids(options: Omit<WatchOptions, 'limit'> = {}): Promise<MessageId[]> {
    this.#parts.open(this.name);
    return await listIds(this.#parts.copy, this.name, options);
  }

  sync(): Promise<void> {
    return this.#parts.sync(this.name);
  }

  /**
   * Asks for a message where it is. One that a change moves may be gone before the answer says where it came to: then it is
   * asked for again, unless the network is gone meanwhile.
   */
  async #ask<T>(id: MessageId, ask: (source: Source) => Promise<T>): Promise<T> {
    const { copy, waitUntil } = this.#parts;
    const isMade = () => {
      const made = madeBy(id, copy.operations);
      return !made || !isWaiting(made);
    };
    const wasMade = isMade();
    try {
      return await ask(this.#locate(id));
    } catch (error) {
      if (wasMade || !(error instanceof ApiError)) throw error;
      await waitUntil(() => isMade() || isCutOff(this.#parts.state));
      if (isMade()) return await this.#ask(id, ask);
      throw new ConnectionError(error, false, 0);
    }
  }

  readonly read = (id: MessageId): Promise<ReadMessage> =>
    this.#ask(id, async ({ draft, mailbox, box, uid }) => {
      const { bodies, server, copy } = this.#parts;
      const shown = (await findShown(copy, this.name, [id])).get(id);
      if (draft) {
        if (!shown) throw notThere(id);
        return readDraft(draft, toMessage(shown, this.name), copy);
      }
      const row = box === undefined ? undefined : (await copy.rows(box, [uid])).get(uid);
      const content = row
        ? await bodies.read(row, mailbox)
        : await server.call('GET /mail/content', { query: { mailbox, uid } });
      const hasAttachment = content.attachments.some(({ inline }) => !inline);
      const facts: MessageFacts = shown?.facts ?? { ...content, hasAttachment };
      const message = toMessage({ id, facts, pending: shown?.pending ?? false }, this.name);
      const { text, html, textTruncated, htmlTruncated, attachments, auth } = content;
      const truncated = Boolean(textTruncated || htmlTruncated);
      // Of the content: what is shown of a draft until a sync brings it does not say.
      const inReplyTo = await this.#answeredBy(content);
      return { message, text, html, truncated, attachments, auth, inReplyTo };
    });

  /** The message that another one answers: its conversation has it, by its Message-ID. */
  async #answeredBy({ envelope, threadId }: Content): Promise<ReadMessage['inReplyTo']> {
    if (!envelope.inReplyTo || threadId === undefined) return undefined;
    const { messages } = await viewThread(this.#parts.copy, threadId);
    const found = messages.find((one) => one.envelope.messageId === envelope.inReplyTo);
    return found && { mailbox: found.mailbox, id: found.id };
  }

  readonly attachment = (id: MessageId, part: string): Promise<Blob> =>
    this.#ask(id, ({ draft, mailbox, uid }) =>
      draft
        ? this.#draftFile(draft, part)
        : this.#parts.server.call('GET /mail/attachment', {
            query: {
              mailbox,
              uid,
              part: numbered({ mailbox, id, part }, this.#parts.copy).part,
            },
          }),
    );

  readonly source = (id: MessageId): Promise<Blob> =>
    this.#ask(id, ({ draft, mailbox, uid }) => {
      if (draft) throw new ConnectionError(new Error('not sent yet'), false, 0);
      return this.#parts.server.call('GET /mail/message', { query: { mailbox, uid } });
    });

  async flag(ids: readonly MessageId[], change: FlagChange): Promise<Operation> {
    const add = change.add && [...change.add];
    const remove = change.remove && [...change.remove];
    const changed = add?.length || remove?.length ? ids : [];
    const shown = await findShown(this.#parts.copy, this.name, changed);
    return await this.#queue('flag', changed, (some) => {
      const before: FlagsBefore[] = [];
      for (const id of some) {
        const facts = shown.get(id)?.facts;
        if (!facts) continue;
        const after = changeFlags(facts.flags, change);
        const added = after.filter((flag) => !facts.flags.includes(flag));
        const removed = facts.flags.filter((flag) => !after.includes(flag));
        if (added.length + removed.length > 0) before.push([id, added, removed]);
      }
      return { add, remove, before };
    });
  }

  async move(ids: readonly MessageId[], to: string): Promise<Operation> {
    return await this.#relocate('move', to === this.name ? [] : ids, to);
  }

  async copy(ids: readonly MessageId[], to: string): Promise<Operation> {
    if (to === this.name) throw new TypeError(`${to} has them already`);
    return await this.#relocate('copy', ids, to);
  }

  async delete(
    ids: readonly MessageId[],
    { forever = false }: { readonly forever?: boolean } = {},
  ): Promise<Operation> {
    const trash = this.#parts.copy.bySpecialUse('\\Trash')?.name;
    if (!forever && trash !== undefined && trash !== this.name) return await this.move(ids, trash);
    return await this.#queue('delete', ids, () => ({}));
  }

  async #relocate(
    kind: 'move' | 'copy',
    ids: readonly MessageId[],
    to: string,
  ): Promise<Operation> {
    const { copy } = this.#parts;
    const shown = await findShown(copy, this.name, ids);
    const toBox = copy.mailbox(to)?.box;
    const factsAt = (id: MessageId) => {
      const facts = shown.get(id)?.facts;
      return facts ? factsOf(facts) : null;
    };
    return await this.#queue(kind, ids, (some) => ({ to, toBox, shown: some.map(factsAt) }));
  }

  /** In pieces that fit into a request each. Where there is nothing to do, the server need not hear of it. */
  async #queue(
    kind: Operation['kind'],
    ids: readonly MessageId[],
    make: (some: readonly MessageId[]) => Omit<NewOperation, 'kind' | 'mailbox' | 'ids'>,
  ): Promise<Operation> {
    if (ids.length === 0) return new StoredOperation(this.#parts, [], kind);
    const { copy } = this.#parts;
    const place = copy.place(this.name);
    // A message that has its UID by now is named by it, unless the mailbox was made anew since.
    const nameOf = (id: MessageId) => locateLeft({ mailbox: this.name, id }, copy)?.uid ?? id;
    // As text, a UID would be taken for a message that never came to be, and nothing would be done.
    const odd = ids.find((id) => typeof id !== 'number' && !id.startsWith('~'));
    if (odd !== undefined) throw new TypeError(`UIDs are numbers: "${odd}" is text`);
    const all = [...new Set(ids)];
    const pieces: NewOperation[] = [];
    for (let at = 0; at < all.length; at += MAX_IDS) {
      const some = all.slice(at, at + MAX_IDS);
      pieces.push({ kind, ...place, ...make(some), ids: some.map(nameOf) });
    }
    return toOperation(this.#parts, await this.#parts.change(() => pieces));
  }

  /** Follows local ids back to a message that the server has. */
  #locate(
    id: MessageId,
    mailbox = this.name,
    box = this.#parts.copy.mailbox(mailbox)?.box,
  ): Source {
    const { copy } = this.#parts;
    if (typeof id === 'number') return { mailbox: copy.box(box)?.name ?? mailbox, box, uid: id };
    const made = madeBy(id, copy.operations);
    const { index } = readLocalId(id);
    const uid = made?.placed?.[index];
    const from = made?.ids[index];
    if (uid) {
      const { to, toBox } = made;
      return to === undefined
        ? this.#locate(uid, made.mailbox, made.box)
        : this.#locate(uid, to, toBox);
    }
    if (!made || uid === 0) throw notThere(id);
    if (from !== undefined) return this.#locate(from, made.mailbox, made.box);
    return { mailbox, box, uid: 0, draft: made.mail ?? {} };
  }

  async #draftFile({ attachments = [] }: StoredMail, part: string): Promise<Blob> {
    const file = attachments[readLocalPart(part) ?? -1] ?? {};
    const { blob, contentType = BINARY, from } = findFile(file, this.#parts.copy);
    if (from) return await this.#parts.mailbox(from.mailbox).attachment(from.id, from.part);
    const bytes = await this.#parts.copy.bytes(blob);
    if (!bytes) throw new TypeError(`there is no part ${part}`);
    return new Blob([bytes], { type: contentType });
  }
}

/** Whether what could be read is not, for now. */
export const isCutOff = (state: MailState): boolean => state === 'offline' || state === 'stopped';

function notThere(id: MessageId): Error {
  return new Error(`there is no message ${id}`);
}

/** What a draft answers that was never at the server; nothing where the mailbox of that was made anew. */
function answeredBy({ inReplyTo }: StoredMail, copy: Copy): ReadMessage['inReplyTo'] {
  if (!inReplyTo) return undefined;
  const { mailbox, id, uidvalidity } = inReplyTo;
  const isOther = typeof id === 'number' && uidvalidity !== copy.mailbox(mailbox)?.uidvalidity;
  return isOther ? undefined : { mailbox, id };
}

function readDraft(draft: StoredMail, message: ReadMessage['message'], copy: Copy): ReadMessage {
  const { text, html, attachments: files = [] } = draft;
  const attachments = files.map((file, index) => {
    const { filename, contentType = BINARY, contentId, inline = false, size = 0 } = file;
    return {
      ...{ part: localPart(index), contentType, size, inline },
      ...(filename !== undefined && { filename }),
      ...(contentId !== undefined && { contentId }),
    };
  });
  const inReplyTo = answeredBy(draft, copy);
  return { message, text, html, truncated: false, attachments, auth: undefined, inReplyTo };
}
