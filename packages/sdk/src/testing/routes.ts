/** What each request does with an account, and how it is answered. */
import type {
  ChangeFlagsBody,
  MoveMessagesBody,
  PartialContent,
  ReadSendsBody,
  SaveDraftBody,
  SearchMatch,
  SearchMessagesBody,
  SendMessageBody,
  SyncMailboxBody,
} from '../api-types.ts';
import { matcher, wordsOf } from '../mail/search.ts';
import type { FakeAccount } from './account.ts';
import { readToken, type StoredMail } from './mailbox.ts';
import { invalid, Refusal } from './refusal.ts';

/** A request as it reached the server. */
export interface FakeRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Headers;
  /** The JSON of its body; the bytes of a body of another type. */
  readonly body: unknown;
}

/** JSON with its status, or bytes. */
export type FakeAnswer = { readonly status: number; readonly json: unknown } | Uint8Array;

/** Members of bodies that name messages. */
type SetBody = ChangeFlagsBody & Partial<MoveMessagesBody>;

const answer = (json: unknown, status = 200): FakeAnswer => ({ status, json });
/** Only what these routes rely on is checked again: the client is the SDK. */
const bodyOf = <T>({ body }: FakeRequest) => (body ?? {}) as T;

type Route = (account: FakeAccount, request: FakeRequest) => FakeAnswer;

export const routes: Readonly<Record<string, Route>> = {
  'POST /mail/sync': (account, request) => {
    const body = bodyOf<SyncMailboxBody>(request);
    return answer(account.mailbox(body.mailbox || 'INBOX').sync(body));
  },
  'GET /mail/mailboxes': (account) =>
    answer({ mailboxes: account.mailboxes.map(({ summary }) => summary) }),
  'POST /mail/mailboxes/create': (account, request) =>
    answer(account.create(nameIn(request, 'mailbox')).state, 201),
  'POST /mail/mailboxes/rename': (account, request) =>
    answer(account.rename(nameIn(request, 'mailbox'), nameIn(request, 'to')).state),
  'POST /mail/mailboxes/delete': (account, request) =>
    answer({ ok: true, deleted: account.delete(nameIn(request, 'mailbox')).name }),
  'POST /mail/flags': (account, request) =>
    change(account, request, ({ mailbox, uids, add = [], remove = [] }) => {
      const updated = account.flag(mailbox, uids, add, remove);
      return { ...account.mailbox(mailbox).state, updated };
    }),
  'POST /mail/delete': (account, request) =>
    change(account, request, ({ mailbox, uids }) => {
      const removed = account.remove(mailbox, uids).map((uid) => ({ uid }));
      return { ...account.mailbox(mailbox).state, removed };
    }),
  'POST /mail/move': (account, request) => relocate(account, request, 'moved'),
  'POST /mail/copy': (account, request) => relocate(account, request, 'copied'),
  'POST /mail/append': (account, { query, body }) => {
    if (!(body instanceof Uint8Array)) throw invalid('body', 'must be a message');
    const { name: mailbox, uidvalidity } = account.mailbox(query.get('mailbox') ?? '');
    const flags = query.getAll('flags').flatMap((text) => text.split(' ').filter(Boolean));
    const arrived = query.get('internalDate');
    const uid = account.append(mailbox, body, {
      flags,
      ...(arrived && { arrived: Date.parse(arrived) }),
    });
    return answer({ mailbox, uidvalidity, uid }, 201);
  },
  'GET /mail/message': (account, request) => messageIn(account, request).source,
  'GET /mail/content': (account, request) => answer(contentOf(messageIn(account, request))),
  'POST /mail/messages': (account, request) => {
    const { mailbox, uids, fields } = readSet(request, 100);
    const found = account.mailbox(mailbox);
    const wanted: readonly string[] | undefined = fields && ['uid', ...fields];
    const messages = [...new Set(uids)]
      .flatMap((uid) => found.find(uid) ?? [])
      .map((one) => {
        const entries = Object.entries(contentOf(one));
        return Object.fromEntries(entries.filter(([name]) => !wanted || wanted.includes(name)));
      });
    return answer({ messages });
  },
  'GET /mail/attachment': (account, request) => {
    const part = request.query.get('part') ?? '';
    const bytes = messageIn(account, request).parts.get(part);
    if (!bytes) throw new Refusal('part_not_found', `the message has no part ${part}`);
    return bytes;
  },
  'POST /mail/search': (account, request) => answer(search(account, bodyOf(request))),
  'POST /mail/drafts': (account, request) =>
    answer(account.sends.saveDraft(bodyOf<SaveDraftBody>(request)), 201),
  'POST /mail/send': (account, request) =>
    answer(
      account.sends.send(
        bodyOf<SendMessageBody>(request),
        request.headers.get('idempotency-key') ?? undefined,
      ),
      202,
    ),
  'GET /mail/sends': (account, { query }) =>
    answer(account.sends.find({ key: query.get('key') ?? '' })),
  'POST /mail/sends/read': (account, request) => {
    const { ids, waiting = false } = bodyOf<ReadSendsBody>(request);
    const { all } = account.sends;
    const named = [...new Set(ids)].flatMap((id) => all.find((one) => one.id === id) ?? []);
    const others = all.filter(({ id, status }) => status === 'queued' && !ids.includes(id));
    return answer({ sends: waiting ? [...named, ...others.reverse()] : named });
  },
  'POST /mail/sends/cancel': (account, request) =>
    answer(account.sends.cancel(bodyOf<{ id: string }>(request).id)),
};

/** Carries out a change, with the sync that the client asks for behind it. */
function change(
  account: FakeAccount,
  request: FakeRequest,
  carryOut: (body: SetBody) => object,
): FakeAnswer {
  const body = readSet(request, 1000);
  const { mailbox, since, fields = [] } = body;
  account.checked(body);
  if (since) readToken(since.token, since.uidvalidity);
  const made = carryOut(body);
  return answer(
    since ? { ...made, sync: account.mailbox(mailbox).sync({ ...since, fields }) } : made,
  );
}

function relocate(
  account: FakeAccount,
  request: FakeRequest,
  done: 'moved' | 'copied',
): FakeAnswer {
  return change(account, request, ({ mailbox, uids, to = '' }) => {
    const pairs = account.relocate(mailbox, uids, to, done === 'moved');
    const { name, uidvalidity } = account.mailbox(to);
    return { mailbox, to: name, uidvalidity, [done]: pairs };
  });
}

function readSet(request: FakeRequest, most: number): SetBody {
  const body = bodyOf<SetBody>(request);
  nameIn(request, 'mailbox');
  const { uids = [] } = body;
  const isUid = (uid: number) => Number.isInteger(uid) && uid > 0 && uid < 2 ** 32;
  if (uids.length > 0 && uids.length <= most && uids.every(isUid)) return body;
  throw invalid('uids', `must be 1 to ${most} UIDs`);
}

function nameIn(request: FakeRequest, field: 'mailbox' | 'to'): string {
  const name = bodyOf<Record<string, unknown>>(request)[field];
  if (typeof name === 'string' && name !== '') return name;
  throw invalid(field, 'must have 1 to 1024 characters');
}

function messageIn(account: FakeAccount, { query }: FakeRequest) {
  return account.message({
    mailbox: query.get('mailbox') || 'INBOX',
    uid: Number(query.get('uid')),
  });
}

function contentOf(message: StoredMail & { readonly uid: number }): PartialContent {
  const { source, parts, references, arrived, emailId, flags, attachments, ...content } = message;
  const internalDate = new Date(arrived).toISOString();
  const { uid, envelope, preview, threadId, text, html, auth } = content;
  return {
    ...{ uid, flags: [...flags], envelope, internalDate, size: source.length, preview, threadId },
    ...(text !== undefined && { text }),
    ...(html !== undefined && { html }),
    ...(auth && { auth }),
    attachments: [...attachments],
  };
}

function search(account: FakeAccount, query: SearchMessagesBody) {
  const { mailbox, limit = 50, cursor = '0', text, from, to, subject, body } = query;
  for (const [field, words] of Object.entries({ text, from, to, subject, body })) {
    if (words === undefined || wordsOf(words).length > 0) continue;
    throw new Refusal('nothing_to_search', 'the search has no word', { field });
  }
  const places = mailbox === undefined ? account.mailboxes : [account.mailbox(mailbox)];
  const matches = matcher(query);
  const isFound = ({
    envelope,
    flags,
    source,
    arrived,
    text = '',
    html = '',
    attachments,
  }: StoredMail) => {
    const files = attachments.map(({ filename = '' }) => filename).join(' ');
    const preview = `${text} ${html.replaceAll(/<[^>]*>/g, ' ')} ${files}`;
    const hasAttachment = attachments.length > 0;
    const [size, date] = [source.length, arrived];
    return matches({ envelope, flags: [...flags], size, date, preview, hasAttachment });
  };
  const found = places.flatMap((place) => {
    const hits = place.existing(place.uids).filter(isFound);
    return hits.map((message) => ({ ...message, mailbox: place.name }));
  });
  found.sort((a, b) => b.arrived - a.arrived || b.uid - a.uid);
  const end = Number(cursor) + limit;
  const page = found
    .slice(Number(cursor), end)
    .map(({ mailbox, uid, envelope, flags, arrived, preview, threadId }): SearchMatch => {
      const internalDate = new Date(arrived).toISOString();
      return { mailbox, uid, envelope, flags: [...flags], internalDate, preview, threadId };
    });
  return { matches: page, ...(found.length > end && { cursor: String(end) }) };
}
