/** A batch of changes as a request, and what its answer says of them. Pure but for the files of mail. */
import type {
  CancelSendAnswer,
  CopyMessagesAnswer,
  MoveMessagesAnswer,
  SendMessageAnswer,
} from '../api-types.ts';
import { writeDraft, writeSend } from './compose.ts';
import type { Copy } from './copy.ts';
import { toBase64 } from './mime.ts';
import { FIELDS, locateIn, type MailboxRow, type OperationRow, uidOf } from './rows.ts';
import type { MailCall, MailRoute, MailServer } from './server.ts';

/** What is stored of a request before it goes, so that it goes again unchanged. */
export interface StoredRequest {
  readonly route: MailRoute;
  readonly query?: Readonly<Record<string, string>> | undefined;
  /** Of a mail without its files, which are in the store already. */
  readonly body?: Readonly<Record<string, unknown>>;
  readonly since?: Pick<MailboxRow, 'uidvalidity' | 'token'> | undefined;
}

/** An answer, whichever route gave it. */
export type PushAnswer = Partial<
  MoveMessagesAnswer & CopyMessagesAnswer & SendMessageAnswer & CancelSendAnswer
>;

/**
 * @param since the state of the copy, where the answer may bring it up to date
 * @returns undefined where none of its messages exists
 */
export function buildRequest(
  batch: readonly OperationRow[],
  copy: Copy,
  since: MailboxRow | undefined,
): StoredRequest | undefined {
  const [first] = batch;
  if (!first) return undefined;
  const { kind, add, remove, action } = first;
  const row = copy.home(first.mailbox, first.box);
  const mailbox = row?.name ?? first.mailbox;
  const to =
    first.to === undefined ? undefined : (copy.home(first.to, first.toBox)?.name ?? first.to);
  if (kind === 'mailbox') {
    return {
      route: `POST /mail/mailboxes/${action ?? 'create'}`,
      body: { mailbox: first.mailbox, to: first.to },
    };
  }
  if (kind === 'append')
    return { route: 'POST /mail/append', query: { mailbox, flags: '\\Draft \\Seen' } };
  if (kind === 'send') {
    const { inverseOf } = first;
    if (inverseOf === undefined) return { route: 'POST /mail/send', body: writeSend(first, copy) };
    const target = copy.operations.find(({ seq }) => seq === inverseOf);
    return { route: 'POST /mail/sends/cancel', body: { id: target?.sendId } };
  }
  const ids = batch.flatMap((one) => one.ids);
  const { uids, uidvalidity } = locateIn(ids, copy.operations, row?.uidvalidity, first.uidvalidity);
  const known = [...new Set(uids)].filter((uid) => uid > 0).sort((a, b) => a - b);
  if (known.length === 0) return undefined;
  const state = since && { uidvalidity: since.uidvalidity, token: since.token };
  const fields = since && FIELDS;
  const route = kind === 'flag' ? 'POST /mail/flags' : (`POST /mail/${kind}` as const);
  // Of these, each kind has its own: the others are undefined.
  const body = { mailbox, uids: known, uidvalidity, since: state, fields, add, remove, to };
  return { route, body, since: state };
}

/** Carried out once for each Idempotency-Key. */
const KEYED: readonly OperationRow['kind'][] = ['move', 'copy', 'append', 'send'];

/** With the files of a mail, which are not stored twice. */
export async function toCall(
  request: StoredRequest,
  operation: OperationRow,
  copy: Copy,
  server: MailServer,
): Promise<MailCall> {
  const { query, body } = request;
  const { kind, mail, id } = operation;
  const key = KEYED.includes(kind) ? id : undefined;
  if (kind === 'append' && mail)
    return { query, body: await writeDraft(operation, copy, server), key };
  if (kind === 'send' && body?.attachments) {
    const attachments = body.attachments as readonly Record<string, unknown>[];
    const filled = attachments.map(async ({ blob, ...attachment }) => {
      if (typeof blob !== 'string') return attachment;
      const bytes = await copy.bytes(blob);
      // It was lost with the store that had it: the mail waits, since the next start may find it.
      if (!bytes) throw new Error('the file is gone');
      return { ...attachment, content: toBase64(bytes) };
    });
    return { body: { ...body, attachments: await Promise.all(filled) }, key };
  }
  return { body, key };
}

/** What an answer says of one operation of the batch. */
export function readAnswer(
  operation: OperationRow,
  answer: PushAnswer,
  copy: Copy,
): Partial<OperationRow> {
  const { kind, ids } = operation;
  // Of the mailbox that got messages.
  const placedIn = answer.uidvalidity;
  if (kind === 'append') return { placed: [answer.uid ?? 0], placedIn };
  if (kind === 'send')
    return operation.inverseOf === undefined
      ? { sendId: answer.id }
      : { cancelled: answer as CancelSendAnswer };
  const pairs = answer.moved ?? answer.copied;
  if (!pairs) return {};
  const uids = new Map(pairs.map(({ uid, toUid }) => [uid, toUid]));
  return { placed: ids.map((id) => uids.get(uidOf(id, copy.operations)) ?? 0), placedIn };
}
