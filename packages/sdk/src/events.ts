/** What happens to a user, as it happens: one stream of events, which is read on where it broke off. */
import type { EventData, MailboxTip, Operations } from './api-types.ts';
import { ApiError, isPassing } from './errors.ts';
import type { OperationClient } from './operations.ts';
import { backoff, type CallOptions, pause } from './transport.ts';

/** Members that are always there, and those that may be left out. */
type Told<Always extends keyof EventData, Maybe extends keyof EventData = never> = {
  readonly [Name in Always]-?: NonNullable<EventData[Name]>;
} & { readonly [Name in Maybe]?: NonNullable<EventData[Name]> };

type OfSend = Told<'account_id' | 'send_id', 'recipient' | 'detail'>;
type OfDomain = Told<'domain' | 'detail'>;
type OfAccount = Told<'account_id' | 'address'>;

/** What events tell, by their types. */
export interface EventDataOf {
  'message.received': Told<
    'account_id' | 'address' | 'mailbox' | 'mail_id' | 'subject' | 'size',
    'uid' | 'from' | 'message_id'
  >;
  'message.sent': Told<
    'account_id' | 'address' | 'mailbox' | 'send_id' | 'message_id' | 'subject' | 'recipients',
    'uid' | 'send_at'
  >;
  'send.delivered': OfSend;
  'send.deferred': OfSend;
  'send.bounced': OfSend;
  'domain.active': OfDomain;
  'domain.failing': OfDomain;
  'domain.pending': OfDomain;
  'domain.deleted': Told<'domain'>;
  'account.created': OfAccount;
  'account.suspended': OfAccount;
  'account.resumed': OfAccount;
  'account.deleted': OfAccount;
  'delivery.failed': Told<
    'delivery_id' | 'kind' | 'destination',
    'mail_id' | 'recipient' | 'detail'
  >;
  /** A hint: it has no cursor, and one that is missed is not repeated. */
  'mailbox.changed': Told<'account_id' | 'address' | 'mailbox'> &
    Readonly<Pick<MailboxTip, 'uidvalidity' | 'token'>>;
}

/** What can happen. */
export type EventType = keyof EventDataOf;

/** Something that happened to a user; by its `type`, what it tells in `data`. */
export type UserEvent<Type extends EventType = EventType> = {
  [Name in Type]: {
    readonly type: Name;
    /** Store it with what you make of the event: `after` of the next start. */
    readonly cursor: Name extends 'mailbox.changed' ? undefined : string;
    readonly timestamp: string;
    readonly data: EventDataOf[Name];
  };
}[Type];

/** Which events are followed, and from where. */
export interface EventOptions<Type extends EventType = EventType>
  extends Pick<CallOptions, 'signal' | 'headers'> {
  /** Only events after this cursor; `0` for all that are kept. When left out, what happens from now on. */
  readonly after?: string | undefined;
  /** Only these; all when left out. */
  readonly types?: readonly Type[] | undefined;
}

/** Characters; an event of the server has below 1 KB. */
const BLOCK_MAX = 1024 * 1024;
/** An answer has to begin within this time. */
const FIRST_BYTE_MS = 15_000;
/** A stream of which nothing comes for so long is dead: the server sends a comment every 15 s. */
const SILENT_MS = 45_000;

/** Follows events, over all interruptions. @throws ApiError, TypeError of an empty cursor, and the signal's reason */
export async function* followEvents<Type extends EventType>(
  postroom: OperationClient,
  user: { readonly user_id: string },
  { after, types, signal, headers }: EventOptions<Type>,
): AsyncGenerator<UserEvent<Type>, void, undefined> {
  // A file that was cut off as it was written: from now on would leave out what it stood for.
  if (after === '') throw new TypeError('after is empty: it must be the cursor of an event, or 0');
  let cursor = after;
  for (let failures = 0; ; failures++) {
    let wait = 0;
    try {
      const query = {
        ...user,
        ...(cursor && { after: cursor }),
        ...(types && { types: types.join() }),
      };
      for await (const { id, data } of readStream(postroom, query, { signal, headers })) {
        // Parsed first: a place moves only past what was read.
        const event = data ? (JSON.parse(data) as UserEvent<Type>) : undefined;
        cursor = id ?? cursor;
        failures = 0;
        if (event) yield event;
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof ApiError) {
        if (!isPassing(error)) throw error;
        wait = (error.retryAfter ?? 0) * 1000;
      }
    }
    await pause(Math.max(wait, backoff(failures)), signal);
  }
}

interface Block {
  readonly id?: string;
  readonly data?: string;
}

/** The blocks of one connection (WHATWG HTML section 9.2.6); of one that was cut, only the whole ones. */
async function* readStream(
  postroom: OperationClient,
  query: Operations['listEvents']['query'],
  { signal, headers }: Pick<CallOptions, 'signal' | 'headers'>,
): AsyncGenerator<Block, void, undefined> {
  const asked = { ...headers, accept: 'text/event-stream' };
  const options = { signal, headers: asked, timeoutMs: FIRST_BYTE_MS };
  const { body } = await postroom.open('listEvents', { query }, options);
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  const end = () => void reader?.cancel().catch(() => undefined);
  try {
    for (let text = ''; reader; ) {
      const timer = setTimeout(end, SILENT_MS);
      const { value } = await reader.read().finally(() => clearTimeout(timer));
      if (value === undefined) return;
      const blocks = `${text}${value}`.split(/\r?\n\r?\n/);
      text = blocks.pop() ?? '';
      if (text.length > BLOCK_MAX) throw new Error('an event without an end');
      for (const block of blocks) yield readBlock(block);
    }
  } finally {
    end();
  }
}

/** Its lines end as the standard says: JSON has other ends of lines in it, such as U+2028. */
function readBlock(block: string): Block {
  const field = (name: string) => new RegExp(`(?:^|[\r\n])${name}: ?([^\r\n]*)`).exec(block)?.[1];
  const [id, data] = [field('id'), field('data')];
  return { ...(id && { id }), ...(data !== undefined && { data }) };
}
