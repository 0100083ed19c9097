/** A batch of changes as a request, and what its answer says of them. Pure but for the files of mail. */
import type {
  CancelSendAnswer,
  CopyMessagesAnswer,
  MoveMessagesAnswer,
  SavedDraft,
  SendMessageAnswer,
} from '../api-types.ts';
import { withFiles, writeMail } from './compose.ts';
import type { Copy } from './copy.ts';
import { bySeq, FIELDS, locateIn, type MailboxRow, type OperationRow, uidOf } from './rows.ts';
import type { MailCall, MailRoute } from './server.ts';

/** What is stored of a request before it goes, so that it goes again unchanged. */
export interface StoredRequest {
  readonly route: MailRoute;
  /** Of a mail without its files, which are in the store already. */
  readonly body?: Readonly<Record<string, unknown>> & {
    readonly since?: Pick<MailboxRow, 'uidvalidity' | 'token'> | undefined;
  };
}

/** An answer, whichever route gave it. */
export type PushAnswer = Partial<
  MoveMessagesAnswer & CopyMessagesAnswer & SendMessageAnswer & CancelSendAnswer & SavedDraft
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
  if (kind === 'append') return { route: 'POST /mail/drafts', body: writeMail(first, copy) };
  if (kind === 'send') {
    const { inverseOf } = first;
    if (inverseOf === undefined) return { route: 'POST /mail/send', body: writeMail(first, copy) };
    const target = bySeq(inverseOf, copy.operations);
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
  return { route, body };
}

/** Carried out once for each Idempotency-Key. */
const KEYED: readonly OperationRow['kind'][] = ['move', 'copy', 'append', 'send'];

/** With the files of a mail. */
export async function toCall(
  { body }: StoredRequest,
  operation: OperationRow,
  copy: Copy,
): Promise<MailCall> {
  const { kind, id } = operation;
  const key = KEYED.includes(kind) ? id : undefined;
  return { body: body?.attachments ? await withFiles(body, operation, copy) : body, key };
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
  if (kind === 'append') return { placed: [answer.uid ?? 0], placedIn, parts: answer.parts };
  if (kind === 'send')
    return operation.inverseOf === undefined
      ? { sendId: answer.id }
      : { cancelled: answer as CancelSendAnswer };
  const pairs = answer.moved ?? answer.copied;
  if (!pairs) return {};
  const uids = new Map(pairs.map(({ uid, toUid }) => [uid, toUid]));
  return { placed: ids.map((id) => uids.get(uidOf(id, copy.operations)) ?? 0), placedIn };
}
