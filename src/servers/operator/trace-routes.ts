/** `GET /v2/operator/trace`: what happened to each message. */
import { Type } from 'typebox';
import { findMailId } from '../../mail/queue/queue.ts';
import { listTrace, readEvents, type TraceItem } from '../../mail/trace/trace.ts';
import type { Database } from '../../platform/database/database.ts';
import { Refusal, readInstant } from '../../platform/errors/errors.ts';
import { Instant, isoTime, present, type RouteGroup, Text, timeBound } from '../api/api.ts';
import { answerUntil, isKey, listEcho, listFields, readPage } from './lists.ts';

export const MAIL_ID = '019c1a2b-3c4d-7e5f-8a9b-0c1d2e3f4a5b';

/** Each attempt is named by the kind of its delivery. */
const events = [
  ...['received', 'submitted', 'refused', 'deferred', 'stored', 'queued', 'webhook_attempt'],
  ...['forward_attempt', 'send_attempt', 'bounce_attempt', 'mailbox_attempt', 'copy_attempt'],
  ...['bounced', 'cancelled', 'retried', 'held', 'released', 'dropped', 'reported'],
];

export const TraceBody = Type.Object(
  {
    id: Text(
      'The id in the answer to the client that brought the message; the same in its Received field and the log.',
      MAIL_ID,
    ),
    at: Instant(),
    event: Type.Unsafe<string>({ type: 'string', enum: events, examples: ['stored'] }),
    sender: Type.Optional(Text('Empty for a bounce.', 'bob@sender.test')),
    recipient: Type.Optional(Type.String({ examples: ['ann@acme.test'] })),
    message_id: Type.Optional(Type.String({ examples: ['<1@sender.test>'] })),
    delivery_id: Type.Optional(Type.Integer({ examples: [7] })),
    webhook_id: Type.Optional(Text('The id that the receiver gets.', MAIL_ID)),
    status: Type.Optional(
      Text(
        'The SMTP reply; for an attempt: delivered, deferred, failed, expired (the last attempt) or held.',
        'delivered',
      ),
    ),
    detail: Type.Optional(Text('A text for people.', 'INBOX, UID 7')),
    node: Text('The host that did it.', 'mail-1'),
    client: Type.Optional(Text('Address of the client that brought it.', '192.0.2.1')),
  },
  { title: 'TraceItem', description: 'One thing that happened to a message.' },
);

export function writeItem(row: TraceItem): Type.Static<typeof TraceBody> {
  const { sender, recipient, message_id, delivery_id, webhook_id, status, detail, client } = row;
  return {
    id: row.mail_id,
    at: isoTime(row.at),
    event: row.event,
    node: row.node,
    ...present({ sender, recipient, message_id, delivery_id }),
    ...present({ webhook_id, status, detail, client }),
  };
}

const Address = Type.String({ minLength: 1, maxLength: 320, examples: ['ann@acme.test'] });
export const MailId = Text(
  "Postroom's id of the message, the id of one of its deliveries, or a `webhook-id`.",
  MAIL_ID,
  { minLength: 1, maxLength: 64 },
);

const TraceQuery = Type.Object({
  recipient: Type.Optional(Address),
  sender: Type.Optional(Text('Empty for bounces.', 'bob@sender.test', { maxLength: 320 })),
  message_id: Type.Optional(
    Type.String({ minLength: 1, maxLength: 1000, examples: ['<1@sender.test>'] }),
  ),
  id: Type.Optional(MailId),
  since: timeBound('At this date or time (RFC 3339), or later; a date is its midnight in UTC.'),
  until: timeBound('Before this date or time.'),
  ...listFields,
});

interface TraceParts {
  readonly database: Pick<Database, 'read'>;
}

/** Deliveries and webhooks have ids of their own; any other id is that of a message. */
export async function mailIdOf({ database }: TraceParts, id: string): Promise<string> {
  return ((await findMailId(database.read, id)) ?? id).toLowerCase();
}

/** Of an event in the order of time: instant and id of its row, and how many events of the row were listed. */
const isTraceKey = isKey('integer', 'integer', 'integer');

export function traceRoutes(parts: TraceParts): RouteGroup {
  return (app) => {
    app.get('/v2/operator/trace', {
      schema: {
        summary: 'Find messages',
        description:
          'What happened to messages, the newest first, in the last TRACE_DAYS. Sender and Message-ID find messages that came in or were submitted; the time line of the id has the rest. With several filters a page may have fewer items than `limit` and still a cursor.',
        operationId: 'listTrace',
        querystring: TraceQuery,
        response: { 200: Type.Object({ items: Type.Array(TraceBody), ...listEcho }) },
      },
      handler: async ({ query }) => {
        const page = readPage(query, isTraceKey);
        const { id, since, until, message_id: messageId, recipient, sender } = query;
        const { after } = page;
        const { items, next } = await listTrace(parts.database.read, {
          messageId,
          recipient,
          sender,
          limit: page.limit,
          mailId: id === undefined ? undefined : await mailIdOf(parts, id),
          since: since === undefined ? undefined : readInstant('since', since, true),
          until: until === undefined ? undefined : readInstant('until', until, true),
          before: after && { at: after[0], id: after[1], listed: after[2] },
        });
        const key = next && [next.at, next.id, next.listed];
        return answerUntil(items.map(writeItem), page.limit, key);
      },
    });
    app.get('/v2/operator/trace/:id', {
      config: { refusals: ['message_not_found'] },
      schema: {
        summary: 'Read what became of a message',
        description: 'Everything that happened to one message, the oldest first.',
        operationId: 'readTrace',
        params: Type.Object({ id: MailId }),
        response: { 200: Type.Object({ items: Type.Array(TraceBody) }) },
      },
      handler: async ({ params }) => {
        const id = await mailIdOf(parts, params.id);
        const events = (await readEvents(parts.database.read, [id])).get(id) ?? [];
        if (events.length === 0) {
          throw new Refusal('message_not_found', `the trace has no message ${params.id}`);
        }
        return { items: events.map(writeItem) };
      },
    });
  };
}
