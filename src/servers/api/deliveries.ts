/** The deliveries of a domain, for operators: webhooks, forwarded mail, bounces, what accounts send, mailboxes. */
import { Type } from 'typebox';
import type { Delivery, Queue } from '../../mail/queue/queue.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { Domains } from '../../tenants/domains/domains.ts';
import { answerWithin } from './repeat-safely.ts';
import { actorOf, type Owned, ownerOf, type RouteGroup } from './route-tools.ts';
import {
  answerPage,
  DomainName,
  Instant,
  Integer,
  OneOf,
  pageEcho,
  pageFields,
  pageOf,
  RecordId,
  Text,
  UserId,
  writerOf,
} from './schemas.ts';

const Status = OneOf(
  ['queued', 'held', 'delivered', 'failed'],
  'A `held` delivery is kept, and not attempted until it is released or tried again; last_error says why.',
);

/** Why the last attempt failed. */
export const LastError = Type.Object(
  {
    status: Type.Optional(Integer('HTTP status or SMTP reply code.', 503)),
    text: Text(
      'First 500 bytes of what the receiver said, or why the delivery is held.',
      'Service Unavailable',
    ),
  },
  { title: 'DeliveryError' },
);

/** What a delivery is. Each of them has a worker of its own, so no type of the queue names them all. */
export const DeliveryKind = Type.Unsafe<string>({
  type: 'string',
  enum: ['webhook', 'forward', 'bounce', 'send', 'mailbox', 'copy', 'event'],
  description:
    '`send`: mail that an account sent. `mailbox`: mail that your mail server has not accepted yet. `copy`: a change that sent mail makes in a mailbox there. `event`: an event for the event hook of a user; it has no domain.',
  examples: ['webhook'],
});

const DeliveryBody = Type.Object(
  {
    id: RecordId,
    webhook_id: Text('The id that the receiver gets.', 'msg_01jk3q9w8d'),
    kind: DeliveryKind,
    destination: Text(
      'Origin of the webhook, domain of the mail, or address of the mailbox.',
      'https://receiver.example',
    ),
    status: Status,
    attempts: Integer('Since it was queued or last tried by hand.', 2),
    last_error: Type.Optional(LastError),
    next_attempt_at: Type.Optional(Instant()),
    created_at: Instant(),
    updated_at: Instant(),
    finished_at: Type.Optional(Instant()),
    message_id: Type.Optional(Text('Of the message.', '<1@sender.test>')),
    subject: Type.Optional(Text('Of the message.', 'Hello')),
    stored: Type.Optional(
      Type.Array(
        Type.Object(
          {
            address: Type.String({ examples: ['ann@acme.test'] }),
            mailbox: Type.String({ examples: ['INBOX'] }),
            uid: Type.Integer({ examples: [7] }),
          },
          { title: 'StoredLocation' },
        ),
        { description: 'Where the message was also stored; absent on a mail server.' },
      ),
    ),
  },
  { title: 'Delivery', description: 'A message for a receiver outside, with its attempts.' },
);

const write = writerOf(DeliveryBody);

function writeDelivery(delivery: Delivery) {
  return write({ ...delivery, webhookId: delivery.publicId });
}

/** `GET /v2/domains/:domain/deliveries` and `POST /v2/domains/:domain/deliveries/:id/retry`. */
export function deliveryRoutes(domains: Owned<Pick<Domains, 'find'>>, queue: Queue): RouteGroup {
  return (app) => {
    app.get('/v2/domains/:domain/deliveries', {
      config: { refusals: ['domain_not_found'] },
      schema: {
        summary: 'List deliveries',
        description:
          'Webhooks, forwarded mail, bounces and mail that accounts sent, waiting or ended, in the order in which they were queued, or the newest first.',
        operationId: 'listDeliveries',
        params: Type.Object({ domain: DomainName }),
        querystring: Type.Object({
          user_id: UserId,
          status: Type.Optional(Status),
          webhook_id: Type.Optional(
            Text(
              'Only the delivery with this header `webhook-id`.',
              '0b0c9e3e-6d0e-4c84-9d5b-5a3f6f4f2f0a',
              { maxLength: 64 },
            ),
          ),
          ...pageFields,
        }),
        response: {
          200: Type.Object({
            items: Type.Array(DeliveryBody),
            ...pageEcho,
          }),
        },
      },
      handler: async (request) => {
        const { params, query } = request;
        const { id: domainId } = await domains.find(ownerOf(request), params.domain);
        const page = pageOf(query);
        const { status, webhook_id: publicId } = query;
        const items = await queue.list({ domainId, status, publicId, ...page });
        // An id names one delivery: the page has it.
        const count = async (most: number) =>
          publicId === undefined ? queue.count({ domainId, status }, most) : items.length;
        return answerPage(items.map(writeDelivery), page, count);
      },
    });
    app.post('/v2/domains/:domain/deliveries/:id/retry', {
      config: { refusals: ['domain_not_found', 'delivery_not_found', 'delivery_released'] },
      schema: {
        summary: 'Try a delivery again',
        description:
          'Tries the delivery again now, from the start of its schedule, with the same webhook-id and body. It also repeats one that was delivered.',
        operationId: 'retryDelivery',
        params: Type.Object({ domain: DomainName, id: RecordId }),
        body: Type.Object({ user_id: UserId }),
        response: { 200: Type.Object({ delivery: DeliveryBody }) },
      },
      handler: async (request) => {
        const { params } = request;
        const { id: domainId } = await domains.find(ownerOf(request), params.domain);
        const describe = (retried: Delivery) => ({ delivery: writeDelivery(retried) });
        const within = answerWithin(request, 200, describe);
        const { actor } = actorOf(request);
        const delivery = await queue.retry(domainId, params.id, actor, within);
        if (!delivery) {
          throw new Refusal('delivery_not_found', `there is no delivery ${params.id}`);
        }
        return describe(delivery);
      },
    });
  };
}
