/** GET /webhooks/raw/:id: the source of a message, for whoever got the link in a webhook. */
import type { Readable } from 'node:stream';
import { Type } from 'typebox';
import type { Bodies } from '../bodies/bodies.ts';
import { Refusal } from '../errors/errors.ts';
import type { Queue } from '../queue/queue.ts';
import { verifyLink } from '../webhooks/webhooks.ts';
import { beginStream } from './answer-errors.ts';
import { credentials, type RouteGroup } from './server.ts';

export interface RawMessagesOptions {
  readonly bodies: Bodies;
  readonly queue: Pick<Queue, 'findBody'>;
  /** What links are signed with. */
  readonly linkSecret: string;
}

/** Streams are not serialized: this only describes it. */
const source = Type.Unsafe<Readable>({ type: 'string', format: 'binary' });

export function rawMessageRoute({ bodies, queue, linkSecret }: RawMessagesOptions): RouteGroup {
  return (app, { limits }) => {
    app.get(
      '/webhooks/raw/:id',
      {
        // A good link has a budget of its own; a bad one counts as any other request.
        config: {
          charge: 'own',
          refusals: ['link_invalid', 'message_not_found', 'body_unavailable'],
        },
        schema: {
          tags: ['Webhooks'],
          summary: 'Fetch the source of a message by its link',
          description:
            'The `raw_url` of a webhook; good for 7 days, and needs no other credential.',
          operationId: 'fetchRawMessage',
          security: credentials.none,
          params: Type.Object({ id: Type.String({ maxLength: 64 }) }),
          querystring: Type.Object({
            expires: Type.String({ maxLength: 20 }),
            signature: Type.String({ maxLength: 100 }),
          }),
          response: {
            200: {
              description: 'The source of the message.',
              content: { 'message/rfc822': { schema: source } },
            },
          },
        },
      },
      async (request, reply) => {
        const { params, query } = request;
        const isGood = verifyLink(linkSecret, { id: params.id, ...query }, Date.now());
        if (!isGood) throw new Refusal('link_invalid', 'this link was changed or has expired');
        await limits.take('links', request, reply);
        const bodyId = await queue.findBody(params.id);
        const body = bodyId === undefined ? undefined : await bodies.find(bodyId);
        if (!body) throw new Refusal('message_not_found', 'the message is gone');
        const content = await beginStream(bodies.read(body, undefined, false, { bodyId }));
        return reply.type('message/rfc822').header('content-length', body.size).send(content);
      },
    );
  };
}
