/** `/v2/event-hooks`: the URL to which the events of a user are posted. */
import { Type } from 'typebox';
import { type EventHooks, type HookState, QUEUED_MAX } from '../../mail/webhooks/webhooks.ts';
import { eventTypes } from '../../tenants/events/events.ts';
import { LastError } from './deliveries.ts';
import { answerWithin } from './repeat-safely.ts';
import { actorOf, ownerOf, type RouteGroup } from './route-tools.ts';
import { Instant, Integer, OneOf, Text, UserId, UserQuery, writerOf } from './schemas.ts';

const Url = Text('http or https.', 'https://app.example.com/hooks/events');
const Secret = Type.Optional(
  Text(
    'Signs what is posted, by Standard Webhooks; `whsec_<base64>` is decoded. When left out, the one before stays, or one is made.',
    'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  ),
);
const Types = Type.Optional(
  Type.Array(OneOf(eventTypes), {
    description: 'Only these types; all when left out.',
    examples: [['message.received', 'send.bounced']],
  }),
);

const HookBody = Type.Object(
  {
    user_id: UserId,
    url: Url,
    types: Types,
    secret: Type.Optional(Text('Absent for keys that only read.', 'whsec_…')),
    secret_previous: Type.Optional(
      Type.String({ description: 'The old `secret`, for 24 hours after a change: both sign.' }),
    ),
    created_at: Instant(),
    waiting: Integer(
      `Events that were not taken yet; ${QUEUED_MAX} stands for as many or more.`,
      0,
    ),
    last_error: Type.Optional(LastError),
    missed_at: Type.Optional(
      Instant('When events were found to be pruned before they could be posted.'),
    ),
  },
  { title: 'EventHook', description: 'Where the events of a user are posted.' },
);

const write = writerOf(HookBody);

/** Who has the secret can write to the receiver: a key that only reads does not get it. */
function writeHook(hook: HookState, isReadOnly = false) {
  return write(isReadOnly ? { ...hook, secret: undefined, secretPrevious: undefined } : hook);
}

const answer = { 200: Type.Object({ hook: HookBody }) };

export function eventHookRoutes(hooks: EventHooks): RouteGroup {
  return (app) => {
    app.get('/v2/event-hooks', {
      config: { refusals: ['event_hook_not_found'] },
      schema: {
        summary: 'Show where events are posted',
        description: 'Also how many wait, and why the oldest of them was not taken.',
        operationId: 'getEventHook',
        querystring: UserQuery,
        response: answer,
      },
      handler: async (request) => {
        const hook = await hooks.find(ownerOf(request));
        return { hook: writeHook(hook, request.caller?.isReadOnly) };
      },
    });
    app.put('/v2/event-hooks', {
      schema: {
        summary: 'Post events to a URL',
        description:
          'What `GET /v2/events` tells of the user from now on is posted to the URL, each event as JSON of its own, signed and repeated as webhooks are: at least once, in any order. `webhook-id` is the cursor of the event. A user has one such URL; another one also gets what waits for the one before.',
        operationId: 'setEventHook',
        body: Type.Object({ user_id: UserId, url: Url, types: Types, secret: Secret }),
        response: answer,
      },
      handler: async (request) => {
        const { user_id: _, ...settings } = request.body;
        const hook = await hooks.set(ownerOf(request), settings, actorOf(request));
        return { hook: writeHook(hook) };
      },
    });
    app.post('/v2/event-hooks/delete', {
      config: { refusals: ['event_hook_not_found'] },
      schema: {
        summary: 'Post no more events',
        description: 'What waits is removed; an attempt that is under way may still arrive.',
        operationId: 'deleteEventHook',
        body: Type.Object({ user_id: UserId }),
        response: { 200: Type.Object({ ok: Type.Boolean(), deleted: Url }) },
      },
      handler: async (request) => {
        const describe = (deleted: string) => ({ ok: true, deleted });
        const within = answerWithin(request, 200, describe);
        return describe(await hooks.remove(ownerOf(request), actorOf(request), within));
      },
    });
  };
}
