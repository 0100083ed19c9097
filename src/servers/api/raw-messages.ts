/**
 * The targets of the links in a webhook: GET /webhooks/raw/:id, the source of a message, and GET
 * /webhooks/attachments/:id/:part, one part of it. A link needs no other credential.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { findBodyOf } from '../../mail/queue/queue.ts';
import { type LinkTarget, verifyLink } from '../../mail/webhooks/webhooks.ts';
import type { Bodies, StoredBody } from '../../mailboxes/bodies/bodies.ts';
import type { PartContent } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { SigningKeys } from '../../platform/nodes/nodes.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import {
  decodePart,
  findPart,
  parseMessage,
  partFilename,
} from '../../protocols/message/message.ts';
import { beginStream } from './answer-errors.ts';
import { partAnswer, sendPart } from './mail-attachment.ts';
import type { RouteGroup } from './route-tools.ts';
import { Bytes } from './schemas.ts';

export interface RawMessagesOptions {
  readonly bodies: Bodies;
  readonly database: Pick<Database, 'read'>;
  readonly linkSecret: SigningKeys;
  /** The same on all nodes. */
  readonly now: () => EpochMs;
}

const linkQuery = Type.Object({
  expires: Type.String({ maxLength: 20 }),
  signature: Type.String({ maxLength: 100 }),
});

const linkId = Type.String({ maxLength: 64 });

interface LinkRequest extends LinkTarget {
  readonly expires: string;
  readonly signature: string;
}

export function rawMessageRoute(options: RawMessagesOptions): RouteGroup {
  const { bodies } = options;
  return (app, { limits }) => {
    /** A valid link has a budget of its own; an invalid one counts like any other request. */
    const findBody = async (link: LinkRequest, request: FastifyRequest, reply: FastifyReply) => {
      const isGood = verifyLink(options.linkSecret, link, options.now());
      if (!isGood) throw new Refusal('link_invalid', 'this link was changed or has expired');
      await limits.take('links', request, reply);
      return findMessage(options, link.id);
    };
    app.get('/webhooks/raw/:id', {
      config: {
        charge: 'own',
        refusals: ['link_invalid', 'message_not_found', 'body_unavailable'],
      },
      schema: {
        querystring: linkQuery,
        summary: 'Fetch the source of a message by its link',
        description:
          'The `raw_url` of a webhook. It is valid for 7 days while the message is kept (`DELIVERY_BODY_HOURS`), and needs no other credential.',
        operationId: 'fetchRawMessage',
        params: Type.Object({ id: linkId }),
        response: {
          200: {
            description: 'The source of the message.',
            content: { 'message/rfc822': { schema: Bytes } },
          },
        },
      },
      handler: async (request, reply) => {
        const link = { ...request.params, ...request.query };
        const { bodyId, body } = await findBody(link, request, reply);
        const content = await beginStream(bodies.read(body, undefined, { bodyId }));
        return reply.type('message/rfc822').header('content-length', body.size).send(content);
      },
    });
    app.get('/webhooks/attachments/:id/:part', {
      config: {
        charge: 'own',
        refusals: [
          'link_invalid',
          'message_not_found',
          'part_not_found',
          'range_not_satisfiable',
          'body_unavailable',
        ],
      },
      schema: {
        querystring: linkQuery,
        summary: 'Fetch an attachment by its link',
        description:
          'The `url` of an attachment in a webhook. It is valid for this one part, as long as the `raw_url`, and needs no other credential. Accepts Range, If-Range and If-None-Match.',
        operationId: 'fetchLinkedAttachment',
        params: Type.Object({ id: linkId, part: Type.String({ maxLength: 100 }) }),
        response: partAnswer,
      },
      handler: async (request, reply) => {
        const link = { ...request.params, ...request.query };
        const found = await findBody(link, request, reply);
        return sendPart(request, reply, await openPart(bodies, found, link));
      },
    });
  };
}

interface Found {
  readonly bodyId: number;
  readonly body: StoredBody;
}

async function findMessage(
  { bodies, database }: RawMessagesOptions,
  publicId: string,
): Promise<Found> {
  const bodyId = await findBodyOf(database.read, publicId);
  const body = bodyId === undefined ? undefined : await bodies.find(bodyId);
  if (bodyId === undefined || !body) throw new Refusal('message_not_found', 'the message is gone');
  return { bodyId, body };
}

/** Parses the message to find the part: the structure of a message is stored only in mailboxes. */
async function openPart(
  bodies: Bodies,
  { bodyId, body }: Found,
  { id, part: number }: { readonly id: string; readonly part: string },
): Promise<PartContent> {
  const about = { bodyId };
  const { structure } = await parseMessage(bodies.read(body, undefined, about));
  const part = findPart(structure, number);
  if (!part) throw new Refusal('part_not_found', `the message has no part ${number}`);
  return {
    size: part.decodedSize,
    etag: `"${id}-${number}"`,
    filename: partFilename(part),
    open: (range) =>
      decodePart(
        part.encoding,
        bodies.read(body, { start: part.bodyStart, end: part.bodyEnd }, about),
        range,
      ),
  };
}
