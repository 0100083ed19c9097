/** `GET /v2/events`: what happened, page by page (a long poll), or as it happens (`text/event-stream`). */
import type { ServerResponse } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import { acceptWeight, type SharedSlots } from '../../platform/net/net.ts';
import {
  describeEvent,
  type Event,
  type EventFeed,
  type EventPage,
  type EventScope,
  type Events,
  eventTypes,
  type FollowedMailbox,
  type Follower,
} from '../../tenants/events/events.ts';
import { beginStream } from './answer-errors.ts';
import { ownerOf, type RouteGroup } from './route-tools.ts';
import { Flag, Instant, Integer, OneOf, Text, UserId, writtenHere } from './schemas.ts';

export interface EventRoutesOptions {
  readonly events: Events;
  readonly feed: EventFeed;
  /** What several nodes share; left out for a single one. */
  readonly slots?: Pick<SharedSlots, 'take' | 'give'> | undefined;
  /** Milliseconds of the monotonic clock; other ones in tests. */
  readonly ticks?: () => number;
}

/** The most streams and waiting requests of one user. */
const STREAMS_MAX = 10;
/** After so many milliseconds a stream sends a comment, so that nobody on the way takes it for dead. */
const COMMENT_MS = 15_000;
/** How often an idle stream asks whether its API key may still read it. */
const AUTHORIZE_MS = 60_000;
/** How often an idle stream looks by itself, and passes on how far it has come. */
const ADVANCE_MS = 300_000;
/** A client that takes nothing for so long is disconnected: it can go on from its last event. */
const STALLED_MS = 60_000;
/** How soon events are read again that wait for an open transaction: later each time, which may be open for an hour. */
const HELD_MS = 50;
const HELD_MAX_MS = 2_000;
/** What comes within this time is read together. */
const GATHER_MS = 20;
/** Events that a stream reads at a time. */
const AT_A_TIME = 100;
const HINT = 'mailbox.changed';

export const EventBody = Type.Object(
  {
    cursor: Text(
      'The place of the event: pass it as `after`. No other event has it.',
      '2s-0-mjuy1xc0',
    ),
    type: OneOf(eventTypes),
    timestamp: Instant(),
    data: Type.Object(
      {
        account_id: Type.Optional(Type.Integer({ examples: [1] })),
        address: Type.Optional(Text('Of the account.', 'ada@acme.test')),
        domain: Type.Optional(Type.String({ examples: ['acme.test'] })),
        mailbox: Type.Optional(Type.String({ examples: ['INBOX'] })),
        uid: Type.Optional(Integer('Absent on a mail server.', 7)),
        mail_id: Type.Optional(
          Type.String({ description: 'The id in the trace, in Received and in webhooks.' }),
        ),
        from: Type.Optional(Type.String({ examples: ['bob@sender.test'] })),
        subject: Type.Optional(Type.String({ examples: ['Hello'] })),
        message_id: Type.Optional(Type.String({ examples: ['<1@sender.test>'] })),
        size: Type.Optional(Integer('Bytes.', 1_234)),
        send_id: Type.Optional(Type.String({ description: 'As `POST /mail/send` answered it.' })),
        recipients: Type.Optional(Integer('How many.', 2)),
        send_at: Type.Optional(Instant()),
        recipient: Type.Optional(Type.String({ examples: ['bob@sender.test'] })),
        delivery_id: Type.Optional(Type.Integer({ examples: [1] })),
        kind: Type.Optional(Text('Of the delivery.', 'webhook')),
        destination: Type.Optional(Type.String({ examples: ['https://receiver.example'] })),
        detail: Type.Optional(Type.String({ description: 'Why, for people.' })),
      },
      { title: 'EventData', description: 'Ids, and what an envelope shows; by `type`.' },
    ),
  },
  { title: 'Event' },
);

const answer = Type.Object({
  items: Type.Array(EventBody),
  cursor: Type.String({ description: 'Pass it as `after` of the next request.' }),
  has_more: Flag('Whether the next request is answered at once.'),
});

const query = Type.Object({
  user_id: UserId,
  after: Type.Optional(
    Text(
      'Only events after this cursor; `0` for all that are kept. When left out, what happens from now on.',
      '0',
      { maxLength: 64 },
    ),
  ),
  types: Type.Optional(
    Text('Only these types, separated by commas.', 'message.received,send.bounced', {
      maxLength: 1_000,
    }),
  ),
  limit: Type.Optional(Integer('100 when left out.', 100, { minimum: 1, maximum: 1_000 })),
  wait: Type.Optional(
    Integer('Seconds to wait for an event where there is none; 25 when left out.', 25, {
      minimum: 0,
      maximum: 50,
    }),
  ),
});

/** @param authorizeAgain throws a Refusal where the request would be refused now */
export function eventRoutes(
  options: EventRoutesOptions,
  authorizeAgain: (request: FastifyRequest) => Promise<void>,
): RouteGroup {
  return (app) => {
    const open = new OpenRequests();
    app.addHook('preClose', async () => open.end());
    app.get('/v2/events', {
      exposeHeadRoute: false,
      config: { refusals: ['cursor_expired', 'too_many_connections'], compress: false },
      schema: {
        summary: 'Follow what happens to a user',
        description:
          'Events in the order in which they happened, each once. The request waits where there is none. With `Accept: text/event-stream` the same events come as they happen, each with its cursor as `id`, which `Last-Event-ID` takes as `after` does; and `mailbox.changed`, which is a hint and has no id.',
        operationId: 'listEvents',
        querystring: query,
        response: { 200: writtenHere(answer) },
      },
      handler: async (request, reply) => {
        const { types, limit = AT_A_TIME, wait = 25 } = request.query;
        const scope = { ...ownerOf(request), ...readTypes(types) };
        const after = afterOf(request.headers['last-event-id'], request.query.after);
        const isStream = wantsStream(request.headers.accept);
        const signal = open.add(reply.raw);
        const follower = await follow(options, scope, isStream && scope.takesHints);
        try {
          const from = after ?? { field: 'after', cursor: await options.events.now() };
          if (!isStream) {
            const again = () => authorizeAgain(request);
            const following = { ...options, follower, scope, signal };
            const page = await readOrWait(following, from, { limit, wait, again });
            follower.end();
            // The server stops, and would wait for an idle connection.
            if (signal.aborted) reply.header('connection', 'close');
            const told: Static<typeof answer> = {
              items: page.events.map(describeEvent),
              cursor: page.cursor,
              has_more: page.hasMore,
            };
            // Sent unchanged: written by the schema, members would have another order than in a stream.
            return reply.type('application/json; charset=utf-8').send(JSON.stringify(told));
          }
          const first = await options.events.read(scope, from, AT_A_TIME);
          const mayRead = () => isStillAllowed(request, authorizeAgain);
          const told = tell({ ...options, follower, scope, signal }, from.cursor, first, mayRead);
          const stream = await beginStream(told);
          const { socket } = request.raw;
          socket.setTimeout(STALLED_MS, () => socket.destroy());
          return reply
            .header('cache-control', 'no-store')
            .header('connection', 'close')
            .header('x-accel-buffering', 'no')
            .type('text/event-stream')
            .send(stream as never);
        } catch (error) {
          follower.end();
          throw error;
        }
      },
    });
  };
}

/** Ends all requests that wait or stream when the server stops. */
class OpenRequests {
  readonly #endings = new Set<AbortController>();
  #isOver = false;

  /** @returns aborted when the response is closed, or the server stops */
  add(response: ServerResponse): AbortSignal {
    // The client left while it was admitted. No "close" follows any more: its slot would be held for nobody.
    if (response.destroyed) return AbortSignal.abort();
    const ending = new AbortController();
    this.#endings.add(ending);
    response.once('close', () => {
      this.#endings.delete(ending);
      ending.abort();
    });
    if (this.#isOver) ending.abort();
    return ending.signal;
  }

  end(): void {
    this.#isOver = true;
    for (const ending of this.#endings) ending.abort();
  }
}

/** The parts of one request. */
interface Following extends Pick<EventRoutesOptions, 'events' | 'ticks'> {
  readonly follower: Follower;
  readonly scope: EventScope;
  readonly signal: AbortSignal;
}

/** Whether Accept asks for a stream at least as much as for JSON: clients that take both name both. */
function wantsStream(accept: string | undefined): boolean {
  const weight = acceptWeight(accept, 'text/event-stream');
  return weight > 0 && weight >= acceptWeight(accept, 'application/json');
}

/** The place that a request names; a browser that connects again sends the header. */
function afterOf(header: string | string[] | undefined, parameter: string | undefined) {
  if (typeof header === 'string' && header !== '')
    return { field: 'Last-Event-ID', cursor: header };
  return parameter === undefined ? undefined : { field: 'after', cursor: parameter };
}

/** @throws Refusal invalid_request (`types`) */
function readTypes(text: string | undefined): Pick<EventScope, 'types'> & { takesHints: boolean } {
  if (text === undefined) return { takesHints: true };
  const named = text.split(',').map((one) => one.trim());
  const types = eventTypes.filter((type) => named.includes(type));
  const takesHints = named.includes(HINT);
  const known = new Set<string>([...types, HINT]);
  const unknown = named.find((one) => !known.has(one));
  if (unknown !== undefined) {
    throw invalidField('types', `must be some of ${[...eventTypes, HINT].join(', ')}`);
  }
  return { types, takesHints };
}

/** Follows before anything is read: what happens meanwhile wakes it. @throws Refusal too_many_connections */
async function follow(
  { feed, slots }: EventRoutesOptions,
  scope: EventScope,
  takesHints: boolean,
): Promise<Follower> {
  const { userId } = scope;
  const tooMany = () =>
    new Refusal(
      'too_many_connections',
      `a user has at most ${STREAMS_MAX} streams and waiting requests for events`,
      { retryAfter: 10 },
    );
  if (feed.count(userId) >= STREAMS_MAX) throw tooMany();
  if (!slots) return feed.follow(scope, takesHints);
  const key = `events:${userId}`;
  if ((await slots.take(key, 1, STREAMS_MAX)) === 0) throw tooMany();
  return feed.follow(scope, takesHints, () => slots.give(key, 1));
}

interface Waiting {
  readonly limit: number;
  /** Seconds. */
  readonly wait: number;
  /** @throws Refusal where the API key was revoked meanwhile */
  readonly again: () => Promise<void>;
}

/** The next page, as soon as it has an event or the time is over. */
async function readOrWait(
  { events, follower, scope, signal }: Following,
  after: { readonly field: string; readonly cursor: string },
  { limit, wait, again }: Waiting,
): Promise<EventPage> {
  const until = performance.now() + wait * 1_000;
  let from = after;
  for (let heldMs = HELD_MS; ; heldMs = Math.min(2 * heldMs, HELD_MAX_MS)) {
    const page = await events.read(scope, from, limit);
    const leftMs = until - performance.now();
    // After the reading: of what came since the key was revoked, nothing is told.
    if (page.events.length > 0) await again();
    if (page.events.length > 0 || leftMs <= 0 || signal.aborted) return page;
    from = { ...after, cursor: page.cursor };
    if (page.hasMore) continue;
    await follower.wait(page.isHeld ? Math.min(leftMs, heldMs) : leftMs, signal);
  }
}

/** The texts of a stream. A slow client holds none of them: the next is made when it has taken the last. */
async function* tell(
  { events, follower, scope, signal, ticks = () => performance.now() }: Following,
  from: string,
  first: EventPage,
  mayRead: () => Promise<boolean>,
): AsyncGenerator<string> {
  let commentAt = 0;
  const say = (text: string) => {
    commentAt = ticks() + COMMENT_MS;
    return text;
  };
  try {
    // A client that connects again before the first event goes on from here.
    yield say(`retry: 1000\nid: ${from}\n\n`);
    let page = first;
    let heldMs = HELD_MS;
    let advanceAt = ticks() + ADVANCE_MS;
    let authorizeAt = ticks() + AUTHORIZE_MS;
    for (;;) {
      if (page.events.length > 0) yield say(page.events.map(writeBlock).join(''));
      for (const change of follower.takeMailboxes()) yield say(writeHint(change));
      let isDue = page.hasMore;
      while (!isDue && !signal.aborted) {
        const ms = Math.max(0, commentAt - ticks());
        isDue = await follower.wait(page.isHeld ? Math.min(heldMs, ms) : ms, signal);
        if (isDue) await pause(GATHER_MS);
        // Also where the user has many events, and none of them is for this stream.
        if (!signal.aborted && ticks() >= commentAt) yield say(':\n\n');
        isDue ||= page.isHeld || ticks() > Math.min(advanceAt, authorizeAt);
      }
      if (signal.aborted) return;
      heldMs = page.isHeld ? Math.min(2 * heldMs, HELD_MAX_MS) : HELD_MS;
      page = await events.read(scope, { field: 'after', cursor: page.cursor }, AT_A_TIME);
      // After the reading: of what came since the key was revoked, nothing is told.
      if (!(await mayRead())) return;
      authorizeAt = ticks() + AUTHORIZE_MS;
      if (ticks() < advanceAt || page.events.length > 0) continue;
      // Without data: it only moves the place from which the client would go on.
      yield say(`id: ${page.cursor}\n\n`);
      advanceAt = ticks() + ADVANCE_MS;
    }
  } finally {
    follower.end();
  }
}

/** Only a refusal ends the stream: a database that is away for a moment does not. */
async function isStillAllowed(
  request: FastifyRequest,
  authorizeAgain: (request: FastifyRequest) => Promise<void>,
): Promise<boolean> {
  try {
    await authorizeAgain(request);
    return true;
  } catch (error) {
    return !(error instanceof Refusal) || error.code === 'unavailable';
  }
}

function writeBlock(event: Event): string {
  const { cursor, type } = event;
  return `id: ${cursor}\nevent: ${type}\ndata: ${JSON.stringify(describeEvent(event))}\n\n`;
}

function writeHint({ accountId, address, mailbox, uidvalidity, token }: FollowedMailbox): string {
  const data = { account_id: accountId, address, mailbox, uidvalidity, token };
  const timestamp = new Date().toISOString();
  return `event: ${HINT}\ndata: ${JSON.stringify({ type: HINT, timestamp, data })}\n\n`;
}
