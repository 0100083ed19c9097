/** Mail of the user as it is stored until it goes: its files as blobs, and how it is shown meanwhile. */
import type {
  Envelope,
  MailClient,
  MessageLocation,
  OutgoingMail,
  SendOperation,
  SendOptions,
  SentMail,
} from './client.ts';
import type { Copy, NewOperation } from './copy.ts';
import { findFile, findNamed, locate, locateLeft, numbered } from './named.ts';
import { type OperationTools, StoredSend, takenBack, toOperation } from './operation.ts';
import { makeId, type Platform } from './platform.ts';
import {
  localId,
  localPart,
  type MessageFacts,
  type NamedMessage,
  type OperationRow,
  put,
  readLocalId,
  readLocalPart,
  type StoredAttachment,
  type StoredMail,
} from './rows.ts';
import type { MailServer } from './server.ts';
import type { Change } from './store.ts';

/** Messages whose status one request reads. */
const SENDS_READ = 100;

export async function sendMail(
  tools: OperationTools,
  mail: OutgoingMail,
  { undoSeconds }: SendOptions = {},
): Promise<SendOperation> {
  const { kept, files } = await storeMail(mail, tools);
  const place = tools.copy.place(kept.mail.draft?.mailbox);
  const rows = await tools.change(() => [{ kind: 'send', ...place, ...kept, undoSeconds }], files);
  return new StoredSend(tools, rows);
}

export async function saveDraft(
  tools: OperationTools,
  mail: OutgoingMail,
  replaces?: MessageLocation,
): ReturnType<MailClient['saveDraft']> {
  const { kept, files } = await storeMail(mail, tools);
  const drafts = tools.copy.place();
  const rows = await tools.change((seq) => {
    const append: NewOperation = { kind: 'append', ...drafts, ...kept };
    if (!replaces) return [append];
    // The one before goes only once this one is there.
    const inverseOf = readLocalId(replaces.id).seq || undefined;
    const place = tools.copy.place(replaces.mailbox);
    return [append, { kind: 'delete', ...place, ids: [replaces.id], needs: seq, inverseOf }];
  }, files);
  const [made] = rows as [OperationRow];
  const operation = toOperation(tools, [made]);
  const place = { mailbox: drafts.mailbox, id: localId(made.seq, 0) };
  const attachments = (mail.attachments ?? []).map((file, index) => ({
    ...file,
    from: { ...place, part: localPart(index) },
  }));
  return { ...place, attachments, operation };
}

/** What became of what was sent here; first what other apps of the account sent, as long as it waits. */
export async function readSends(tools: OperationTools): Promise<SentMail[]> {
  const { copy, server } = tools;
  const rows = new Map(copy.operations.map((row) => [row.sendId, row]));
  const ids = [...rows.keys()].filter((id) => id !== undefined).reverse();
  // Of more than so many those that wait are among the others.
  const body = { ids: ids.slice(0, SENDS_READ), waiting: true };
  const { sends } = await server.call('POST /mail/sends/read', { body });
  const read = sends.map(async (send): Promise<SentMail> => {
    const { id, copy: sent } = send;
    const row = rows.get(id);
    const located = row?.mail?.draft && locateLeft(row.mail.draft, copy);
    const shown = await findNamed(sent && { ...sent, id: sent.uid }, copy);
    return {
      ...send,
      subject: row?.mail?.subject ?? shown?.envelope.subject ?? '',
      draft: located && { mailbox: located.mailbox, id: located.uid },
      operation: row ? new StoredSend(tools, [row]) : sentElsewhere(id, server),
    };
  });
  const all = await Promise.all(read);
  return all.sort((a, b) => Number(rows.has(a.id)) - Number(rows.has(b.id)));
}

/** Mail of another app of the account: the server alone knows it. */
function sentElsewhere(id: string, server: MailServer): SendOperation {
  const cancel = async () =>
    takenBack(await server.call('POST /mail/sends/cancel', { body: { id } }));
  const undo = async () => void (await cancel());
  const forget = async () => {};
  return {
    id,
    kind: 'send',
    applied: forget(),
    sendId: Promise.resolve(id),
    undo,
    forget,
    cancel,
  };
}

interface StoredOutgoing {
  readonly kept: Pick<OperationRow, 'ids' | 'shown'> & { readonly mail: StoredMail };
  readonly files: readonly Change[];
}

async function storeMail(
  mail: OutgoingMail,
  { copy, platform }: OperationTools,
): Promise<StoredOutgoing> {
  const { attachments, draft, inReplyTo, ...rest } = mail;
  const files: Change[] = [];
  const kept: StoredAttachment[] = [];
  for (const { content, from, ...attachment } of attachments ?? []) {
    // Of a draft that waits, its own; and with it another draft, since that may go first.
    const file: StoredAttachment = findFile({ ...attachment, from }, copy);
    const { blob: shared, size, from: before } = file;
    if (from && (shared ?? before)) {
      const at = named(numbered(from, copy), copy);
      const place = readLocalPart(at.part) === undefined ? {} : { blob: shared, size, before };
      kept.push({ ...attachment, ...place, from: at });
    } else {
      if (content === undefined) throw new TypeError('attachments need content or from');
      const bytes = new Uint8Array(await new Blob([content as Blob]).arrayBuffer());
      const blob = makeId();
      const { contentType = (content as Partial<Blob>).type || undefined } = attachment;
      files.push(put('blobs', { account: copy.account, blob, bytes }));
      kept.push({ ...attachment, contentType, blob, size: bytes.length });
    }
  }
  const stored: StoredMail = {
    // Members that are undefined are not stored.
    ...(JSON.parse(JSON.stringify(rest, withAddress)) as typeof rest),
    draft: draft && named(draft, copy),
    inReplyTo: inReplyTo && named(inReplyTo, copy),
    attachments: attachments && kept,
  };
  const shown = [await showMail(stored, copy, platform)];
  return { kept: { ids: [], mail: stored, shown }, files };
}

/**
 * The lists in mail are of addresses. One that has none is the name of a group: nothing goes there. What is none of both, the
 * server refuses: left out, the mail would go to the others alone.
 */
const withAddress = (_: string, value: unknown) =>
  Array.isArray(value) ? value.filter((one) => one.address || typeof one === 'string') : value;

/** A message that has its UID by now is named by it. What an app gives may be a proxy, which IndexedDB does not store. */
function named<Place extends NamedMessage>(place: Place, copy: Copy): Place {
  const { uid, uidvalidity } = locate(place, copy);
  return { ...place, ...(uid !== 0 && { id: uid, uidvalidity }) };
}

async function showMail(mail: StoredMail, copy: Copy, platform: Platform): Promise<MessageFacts> {
  const { from, to, cc, bcc, subject = '', text = '', attachments = [], inReplyTo } = mail;
  const answered = await findNamed(inReplyTo, copy);
  const now = new Date(platform.now()).toISOString();
  const size = attachments.reduce((sum, file) => sum + (file.size ?? 0), text.length);
  return {
    envelope: {
      date: now,
      subject,
      from: [from ?? { address: copy.address }],
      ...{ to, cc, bcc },
    } as Envelope,
    flags: ['\\Draft', '\\Seen'],
    size,
    internalDate: now,
    preview: text.replace(/\s+/g, ' ').trim().slice(0, 200),
    threadId: answered?.threadId,
    hasAttachment: attachments.some(({ inline }) => !inline),
  };
}
