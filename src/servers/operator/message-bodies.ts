/** Messages as the operator's API shows them: in the list, and one with all that happened to it. */
import { Type } from 'typebox';
import type { KnownDelivery, Queue } from '../../mail/queue/queue.ts';
import {
  Flag,
  Instant,
  Integer,
  isoTime,
  LastError,
  OneOf,
  present,
  Text,
  writerOf,
} from '../api/api.ts';
import { explainReply } from './explain-reply.ts';
import {
  type Message,
  type MessageStatus,
  type RecipientState,
  recipientStatuses,
} from './message-state.ts';
import { MAIL_ID, TraceBody, writeItem } from './trace-routes.ts';

export const statuses: readonly MessageStatus[] = [...recipientStatuses, 'partly'];

const Status = OneOf(
  statuses,
  'waiting: not tried yet; scheduled: not before its time; deferred: is tried again; held: until an operator releases it; ' +
    'bounced: the sender was told; failed: nobody was told; refused, deferred_by_us: we answered 5xx, 4xx; dropped: by an ' +
    'operator; cancelled: by the account; partly: the recipients differ, see `counts`.',
  'delivered',
);

/** The most recipients that a list shows of a message. */
const SHOWN_RECIPIENTS = 3;

const shared = {
  id: Text(
    'As in the answer to the client that brought it, its Received field and the log.',
    MAIL_ID,
  ),
  at: Instant(),
  direction: OneOf(['in', 'out'], 'out: an account sent it.'),
  status: Status,
  counts: Type.Partial(
    Type.Object(
      Object.fromEntries(recipientStatuses.map((name) => [name, Type.Integer({ examples: [1] })])),
    ),
    { description: 'How many recipients are in each state.' },
  ),
  sender: Type.Optional(Text('Empty for a bounce.', 'bob@sender.test')),
  domain: Type.Optional(Text('The domain whose mail it is.', 'acme.test')),
  message_id: Type.Optional(Type.String({ examples: ['<1@sender.test>'] })),
  subject: Type.Optional(Text('Only with TRACE_SUBJECTS.', 'Hello')),
  size: Type.Optional(
    Integer(
      'Bytes of its source. Absent where it was refused before it came, and for mail from before 0.4.0.',
      2048,
    ),
  ),
  client: Type.Optional(Text('Address of the client that brought it.', '192.0.2.1')),
  node: Type.Optional(Text('The host that took it.', 'mail-1')),
  next_attempt_at: Type.Optional(Instant()),
  reason: Type.Optional(
    Text('What was answered last about a recipient who does not have it.', '451 4.7.1 Greylisted'),
  ),
};

export const MessageItem = Type.Object(
  {
    ...shared,
    recipients: Type.Array(Type.String({ examples: ['ann@acme.test'] }), {
      description: `The first ${SHOWN_RECIPIENTS}.`,
    }),
    recipient_count: Type.Integer({ examples: [1] }),
  },
  { title: 'OperatedMessage', description: 'A message, for all its recipients.' },
);

const Action = OneOf(['retry', 'hold', 'release', 'drop']);

const DeliveryItem = Type.Object(
  {
    id: Integer('For `ids` of `POST /v2/operator/queue/retry` and the like.', 7),
    webhook_id: Text('The id that the receiver gets.', MAIL_ID),
    kind: Type.String({ examples: ['webhook'] }),
    destination: Type.String({ examples: ['https://receiver.example'] }),
    domain: Type.String({ examples: ['acme.test'] }),
    status: OneOf(['queued', 'held', 'failed', 'delivered']),
    held_by: Type.Optional(Type.String({ examples: ['operator'] })),
    attempts: Type.Integer({ examples: [2] }),
    next_attempt_at: Type.Optional(Instant()),
    last_attempt_at: Type.Optional(
      Instant('About when it is given up, if all attempts fail.', '2026-02-05T12:00:00.000Z'),
    ),
    last_error: Type.Optional(LastError),
    actions: Type.Array(Action, { description: 'What can be done with it now.' }),
  },
  { title: 'MessageDelivery', description: 'A delivery of the message to one place outside.' },
);

const RecipientItem = Type.Object(
  {
    address: Type.Optional(Type.String({ examples: ['ann@acme.test'] })),
    status: Status,
    at: Instant('When something happened to it last.'),
    reason: Type.Optional(
      Text('What was answered last, or where the message is.', '451 4.7.1 Greylisted'),
    ),
    explanation: Type.Optional(
      Text(
        'The same in plain words, by the enhanced status code (RFC 3463).',
        'The mailbox is full.',
      ),
    ),
    suppressed: Type.Optional(
      Flag(
        'Whether mail to it bounced for good, so that accounts of the domain cannot write to it any more.',
      ),
    ),
    delivery_ids: Type.Array(Type.Integer({ examples: [7] }), {
      description: 'Its deliveries that wait, are held or failed.',
    }),
  },
  { title: 'MessageRecipient', description: 'What became of the message for one recipient.' },
);

export const MessageBody = Type.Object(
  {
    ...shared,
    recipients: Type.Array(RecipientItem),
    deliveries: Type.Array(DeliveryItem),
    events: Type.Array(TraceBody, { description: 'All that happened to it, the oldest first.' }),
  },
  { title: 'OperatedMessageDetails', description: 'A message with all that happened to it.' },
);

function writeShared(message: Message) {
  const { id, at, direction, status, counts, opening, reason } = message;
  const { sender, domain, message_id, subject, size, client, node } = opening ?? {};
  return {
    id,
    at: isoTime(at),
    direction,
    status,
    counts,
    ...present({ sender, domain, message_id, subject, size, client, node, reason }),
    ...present({ next_attempt_at: isoTime(message.nextAttemptAt) }),
  };
}

export function writeMessage(message: Message): Type.Static<typeof MessageItem> {
  const addresses = message.recipients.flatMap(({ address }) => address ?? []);
  return {
    ...writeShared(message),
    recipients: addresses.slice(0, SHOWN_RECIPIENTS),
    recipient_count: addresses.length,
  };
}

/** What else is known of a message. */
export interface Known {
  /** Of claims, by their ids. */
  readonly names: ReadonlyMap<number, string>;
  /** Addresses that its domain does not write to any more. */
  readonly suppressed: ReadonlySetLike<string>;
}

export function writeDetails(
  message: Message,
  queue: Pick<Queue, 'lastAttemptAt'>,
  { names, suppressed }: Known,
): Type.Static<typeof MessageBody> {
  const deliveries = [...message.deliveries.values()];
  return {
    ...writeShared(message),
    recipients: message.recipients.map((one) => ({
      ...writeRecipient(one),
      ...(suppressed.has(one.address ?? '') && { suppressed: true }),
    })),
    deliveries: deliveries.map((one) => writeDelivery(queue, one, names)),
    events: message.events.map(writeItem),
  };
}

const writeItemOf = writerOf(RecipientItem);

function writeRecipient(recipient: RecipientState) {
  const { reason, deliveries } = recipient;
  const explanation = reason === undefined ? undefined : explainReply(reason);
  return writeItemOf({ ...recipient, explanation, deliveryIds: [...deliveries] });
}

const writeDeliveryItem = writerOf(DeliveryItem);

function writeDelivery(
  queue: Pick<Queue, 'lastAttemptAt'>,
  delivery: KnownDelivery,
  names: ReadonlyMap<number, string>,
) {
  return writeDeliveryItem({
    ...delivery,
    webhookId: delivery.publicId,
    domain: names.get(delivery.domainId) ?? '',
    lastAttemptAt: queue.lastAttemptAt(delivery),
    actions: actionsOf(delivery),
  });
}

/** As the queue carries them out (`mail/queue/bulk.ts`). */
function actionsOf({
  status,
  isTried,
  isKept,
  attempts,
  heldBy,
}: KnownDelivery): Type.Static<typeof Action>[] {
  if (isTried || status === 'delivered') return [];
  if (status === 'failed') return isKept ? ['retry'] : [];
  if (status === 'queued') return attempts > 0 ? ['retry', 'hold', 'drop'] : ['hold', 'drop'];
  return heldBy === 'suspension' ? ['retry', 'drop'] : ['retry', 'release', 'drop'];
}
