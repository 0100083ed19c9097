/** `GET /v2/operator/messages`: one row for a message, and what can be done with it. */
import { domainToASCII } from 'node:url';
import { Type } from 'typebox';
import type { Queue } from '../../mail/queue/queue.ts';
import { findSuppressed } from '../../mail/sending/sending.ts';
import { messageIdOf } from '../../mail/trace/trace.ts';
import type { Queries } from '../../platform/database/database.ts';
import { invalidField, Refusal, readInstant } from '../../platform/errors/errors.ts';
import { findAccountsAt } from '../../tenants/accounts/accounts.ts';
import { findClaimIds, findClaimNames } from '../../tenants/domains/domains.ts';
import { OneOf, type RouteGroup, timeBound } from '../api/api.ts';
import {
  findMessages,
  type MessageFilter,
  type MessageParts,
  type Position,
  readMessages,
} from './find-messages.ts';
import { answerUntil, filterText, type ListKey, listEcho, listFields, readPage } from './lists.ts';
import {
  MessageBody,
  MessageItem,
  statuses,
  writeDetails,
  writeMessage,
} from './message-bodies.ts';
import type { Message, MessageStatus } from './message-state.ts';
import { MailId, mailIdOf } from './trace-routes.ts';

/** Filters that may also say what must not match, as `not_sender` for example. */
const filterFields = {
  recipient: filterText('An address.', 'ann@acme.test'),
  sender: Type.Optional(
    Type.String({ maxLength: 320, description: 'An address; empty for bounces.' }),
  ),
  address: filterText('The recipient or the sender.', 'ann@acme.test'),
  domain: filterText(
    "The sender's domain of what accounts send, else the recipient's.",
    'acme.test',
  ),
  message_id: filterText('Of its header.', '<1@sender.test>', 1_000),
  status: filterText(
    'One or more of the values of `status`, separated by commas. A message has the state of any of its recipients.',
    'deferred,held',
  ),
  direction: Type.Optional(OneOf(['in', 'out'], undefined, 'out')),
  client: filterText('Address of the client that brought it.', '192.0.2.1'),
  node: filterText('The host that took it.', 'mail-1'),
  subject: filterText('Part of the subject; found only with TRACE_SUBJECTS.', 'invoice'),
  reason: filterText('Part of the newest answer about a recipient.', '451'),
};

const notFields = Object.fromEntries(
  Object.entries(filterFields).map(([name]) => [
    `not_${name}`,
    Type.Optional(
      Type.String({ maxLength: 1_000, description: `Leaves out what \`${name}\` finds.` }),
    ),
  ]),
);

const MessageQuery = Type.Object({
  ...filterFields,
  account: filterText(
    'Address of an account: what it sent and got. With `address`: what it exchanged with that one.',
    'ann@acme.test',
  ),
  since: timeBound('At this date or time (RFC 3339), or later; a date is its midnight in UTC.'),
  until: timeBound('Before this date or time.'),
  ...notFields,
  ...listFields,
});

type Asked = { readonly [Name in keyof typeof filterFields]?: string | undefined };

/** @throws Refusal invalid_request where a status or the direction does not exist */
function filterOf(asked: Asked, prefix = ''): Omit<MessageFilter, 'not' | 'since' | 'until'> {
  const { recipient, sender, address, domain, message_id, status, direction } = asked;
  if (direction !== undefined && direction !== 'in' && direction !== 'out') {
    throw invalidField(`${prefix}direction`, 'must be in or out');
  }
  return {
    recipient: recipient?.toLowerCase(),
    sender: sender?.toLowerCase(),
    address: address?.toLowerCase(),
    domain: domain && (domainToASCII(domain) || domain.toLowerCase()),
    messageId: message_id === undefined ? undefined : messageIdOf(message_id),
    statuses: status === undefined ? undefined : statusesOf(status, `${prefix}status`),
    direction,
    client: asked.client,
    node: asked.node,
    subject: asked.subject?.toLowerCase(),
    reason: asked.reason?.toLowerCase(),
  };
}

function statusesOf(given: string, field: string): MessageStatus[] {
  return given.split(',').map((name) => {
    const status = statuses.find((one) => one === name.trim());
    if (!status) throw invalidField(field, `must be one of ${statuses.join(', ')}`);
    return status;
  });
}

/** Where each way continues: times and ids in turn. */
function isPositions(values: ListKey): values is readonly number[] {
  const isEven = values.length > 0 && values.length % 2 === 0;
  return isEven && values.every((one) => Number.isSafeInteger(one));
}

function readPositions(values: readonly number[]): Position[] {
  const positions: Position[] = [];
  for (let at = 0; at < values.length; at += 2) {
    positions.push({ at: values[at] ?? 0, id: values[at + 1] ?? 0 });
  }
  return positions;
}

export interface MessageRouteParts extends MessageParts {
  readonly queue: Pick<Queue, 'lastAttemptAt'>;
}

export function messageRoutes(parts: MessageRouteParts): RouteGroup {
  const { database, queue } = parts;
  return (app) => {
    app.get('/v2/operator/messages', {
      config: { refusals: ['account_not_found'] },
      schema: {
        summary: 'List messages',
        description:
          'One item for each message of the last TRACE_DAYS, the newest first; with `status` bounced, dropped or cancelled ' +
          'the pages follow the time at which that happened. Recipient, sender, Message-ID, ' +
          'domain and status are looked up in indexes. The other filters choose among what one of these, or the time, ' +
          'finds: a page looks at 5,000 entries at most, so it may have fewer items than `limit` and still a cursor.',
        operationId: 'listMessages',
        querystring: MessageQuery,
        response: { 200: Type.Object({ items: Type.Array(MessageItem), ...listEcho }) },
      },
      handler: ({ query }) => listPage(parts, query),
    });
    app.get('/v2/operator/messages/:id', {
      config: { refusals: ['message_not_found'] },
      schema: {
        summary: 'Read a message',
        description:
          'One message: the state of each recipient, its deliveries with the next attempt and what can be done, and all ' +
          'that happened to it.',
        operationId: 'readMessage',
        params: Type.Object({ id: MailId }),
        response: { 200: MessageBody },
      },
      handler: async ({ params }) => {
        const id = await mailIdOf(parts, params.id);
        const message = (await readMessages(parts, [id])).get(id);
        if (!message) {
          throw new Refusal('message_not_found', `the trace has no message ${params.id}`);
        }
        const domains = [...message.deliveries.values()].map(({ domainId }) => domainId);
        const [names, suppressed] = await Promise.all([
          findClaimNames(database.read, domains),
          suppressedOf(database.read, message),
        ]);
        return writeDetails(message, queue, { names, suppressed });
      },
    });
  };
}

/** Recipients of what an account sent that its domain does not write to any more. */
async function suppressedOf(
  queries: Queries,
  { direction, opening, recipients }: Message,
): Promise<ReadonlySet<string>> {
  const addresses = recipients.flatMap(({ address }) => address ?? []);
  if (direction !== 'out' || !opening?.domain || addresses.length === 0) return new Set();
  const found = new Set<string>();
  for (const id of await findClaimIds(queries, opening.domain)) {
    for (const address of (await findSuppressed(queries, id, addresses)).keys()) found.add(address);
  }
  return found;
}

async function listPage(parts: MessageRouteParts, query: Type.Static<typeof MessageQuery>) {
  const { read } = parts.database;
  const page = readPage(query, isPositions);
  const { account, since, until } = query;
  if (account !== undefined && (await findAccountsAt(read, account)).length === 0) {
    throw new Refusal('account_not_found', `there is no account ${account}`);
  }
  const wanted = filterOf(query);
  const { domain } = wanted;
  const filter = {
    ...wanted,
    account: account?.toLowerCase(),
    domainIds: domain === undefined ? undefined : await findClaimIds(read, domain),
    since: since === undefined ? undefined : readInstant('since', since, true),
    until: until === undefined ? undefined : readInstant('until', until, true),
    not: notOf(query),
  };
  const after = page.after && readPositions(page.after);
  const { items, next } = await findMessages(parts, filter, { after, limit: page.limit });
  const key = next?.flatMap(({ at, id }) => [at, id]);
  return answerUntil(items.map(writeMessage), page.limit, key);
}

function notOf(query: Readonly<Record<string, unknown>>): MessageFilter['not'] {
  const given = Object.keys(filterFields).flatMap((name) => {
    const value = query[`not_${name}`];
    return typeof value === 'string' ? [[name, value] as const] : [];
  });
  return given.length === 0 ? undefined : filterOf(Object.fromEntries(given), 'not_');
}
