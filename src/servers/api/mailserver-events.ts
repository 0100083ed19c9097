/**
 * POST /hooks/mailserver: signed batches of events from the mail server (contract 4.4 and 6).
 *
 * The signature is checked over the raw bytes before anything is parsed. A batch with a valid one is charged to a
 * budget of its own; one without is charged to the common budget, before its body is read if its header cannot be a
 * signature.
 */
import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { isSignature, type MailserverEvents } from '../../mailboxes/event-hook/event-hook.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { clientKey } from '../../platform/net/net.ts';
import { BatchBodies, type HeldBody } from './batch-bodies.ts';
import type { RouteGroup } from './route-tools.ts';
import { Integer, Text } from './schemas.ts';

const MIB = 1_048_576;
const BODY_MAX = 16 * MIB;
/** One client may have one batch of the largest size under way. */
const HELD = {
  perBody: BODY_MAX,
  perClient: BODY_MAX,
  strangers: 4 * BODY_MAX,
  inAll: 8 * BODY_MAX,
};

const SIGNATURE_HEADER = 'x-mailserver-signature';

const example = {
  event_id: 'evt-1',
  user: 'ada@acme.test',
  event_type: 'MailboxesChanged',
  mailbox: 'INBOX',
  uidvalidity: '1795244400',
  highestmodseq: '42',
};

const batch = Type.Unknown({
  description:
    'One JSON object per line; blank lines and CR are fine. All members are strings: `event_id` ' +
    '(1 to 255 characters, one for each event), `user` (address of the account), `event_type`, ' +
    '`mailbox`, `uidvalidity` and `highestmodseq` (decimal). At most 16 MiB.',
  examples: [`${JSON.stringify(example)}\n`],
});

const outcome = Type.Object(
  {
    ok: Type.Boolean(),
    accepted: Type.Integer({
      minimum: 0,
      description: 'Events that need not be sent again, repeats of known ones included.',
    }),
    rejected: Type.Optional(
      Type.Array(
        Type.Object(
          {
            line: Integer('Counted from 1.', 2, { minimum: 1 }),
            event_id: Type.Optional(Text('Absent if the line has none.', 'evt-2')),
            reason: Text('What is wrong with it.', 'user is not the address of an account'),
          },
          { title: 'RejectedEvent' },
        ),
        { description: 'The first 1000 of the other lines; left out when there is none.' },
      ),
    ),
  },
  { title: 'EventsOutcome' },
);

/** The route. */
export function mailserverEventRoutes(events: MailserverEvents): RouteGroup {
  const bodies = new BatchBodies(HELD);
  return (app, { limits }) => {
    app.removeAllContentTypeParsers();
    // Any content type: the contract names none, and mail servers send several.
    app.addContentTypeParser('*', async (request: FastifyRequest, payload: IncomingMessage) => {
      if (Number(request.headers['content-length']) > BODY_MAX) {
        throw new Refusal('body_too_large', `a batch has at most ${BODY_MAX} bytes`);
      }
      return bodies.read(clientKey(request.clientAddress), payload);
    });
    app.post('/hooks/mailserver', {
      bodyLimit: BODY_MAX,
      schema: {
        summary: 'Accept mailbox change events',
        description:
          'Each new event is passed on once to the WebSockets of its account. A line that is not an event, or names no account here, is listed in `rejected`; the other lines are accepted. Postroom remembers each `event_id` for 24 hours, so that a batch can be sent again.',
        operationId: 'takeMailserverEvents',
        body: { content: { 'application/x-ndjson': { schema: batch } } },
        response: { 200: outcome },
      },
      config: { charge: 'own', refusals: ['invalid_request', 'body_too_large'] },
      onRequest: async (request, reply) => {
        if (isSignature(request.headers[SIGNATURE_HEADER])) return;
        await limits.take('requests', request, reply);
        throw badSignature(request);
      },
      handler: async (request, reply) => {
        const body = bodyOf(request);
        try {
          if (!events.verify(body.bytes, String(request.headers[SIGNATURE_HEADER]))) {
            await limits.take('requests', request, reply);
            throw badSignature(request);
          }
          bodies.know(clientKey(request.clientAddress));
          await limits.take('mailserver', request, reply);
          const { rejected, ...rest } = await events.take(body.bytes);
          return rejected ? { ...rest, rejected: [...rejected] } : rest;
        } finally {
          body.release();
        }
      },
    });
  };
}

/** Fastify has no body where the request has none. */
function bodyOf(request: FastifyRequest): HeldBody {
  // Only the parser above sets it.
  const body = request.body as HeldBody | undefined;
  return body ?? { bytes: Buffer.alloc(0), release() {} };
}

function badSignature({ headers }: FastifyRequest): Refusal {
  const isMissing = headers[SIGNATURE_HEADER] === undefined;
  const wrong = isMissing
    ? 'is missing: send the hex HMAC-SHA256 of the body in it'
    : 'is not the hex HMAC-SHA256 of the body';
  return new Refusal('unauthorized', `the header ${SIGNATURE_HEADER} ${wrong}`);
}
