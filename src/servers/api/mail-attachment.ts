/** GET /mail/attachment: one MIME part as bytes (contract 4.3). */
import { create as contentDisposition } from 'content-disposition';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { ByteRange, Mailstore, PartContent } from '../../mailboxes/mailstore/mailstore.ts';
import { invalidField, many, Refusal } from '../../platform/errors/errors.ts';
import { parsePartNumber } from '../../protocols/message/message.ts';
import { beginStream } from './answer-errors.ts';
import { messageQuery } from './mail-schemas.ts';
import type { RouteGroup } from './route-tools.ts';
import { Bytes, Text } from './schemas.ts';

const unchanged = Type.Unsafe<undefined>(Type.Null({ description: 'The client has it already.' }));

/** The answers of {@link sendPart}. */
export const partAnswer = {
  200: {
    description: 'The whole part.',
    content: { 'application/octet-stream': { schema: Bytes } },
  },
  206: {
    description: 'The bytes that Range asked for.',
    content: { 'application/octet-stream': { schema: Bytes } },
  },
  304: unchanged,
};

export function mailAttachmentRoutes(mailstore: Mailstore): RouteGroup {
  return (app, tools) => {
    app.get('/mail/attachment', {
      schema: {
        summary: 'Fetch one MIME part',
        operationId: 'fetchAttachment',
        description:
          'The bytes of the part with its transfer encoding removed. Accepts Range, If-Range and If-None-Match.',
        querystring: Type.Object({
          ...messageQuery,
          part: Text('Part number as in IMAP, such as 2 or 1.2 (RFC 3501 section 6.4.5).', '2', {
            minLength: 1,
          }),
        }),
        response: partAnswer,
      },
      config: {
        refusals: [
          'mailbox_not_found',
          'message_not_found',
          'part_not_found',
          'range_not_satisfiable',
          'body_unavailable',
        ],
      },
      handler: async (request, reply) => {
        const user = await tools.authenticateMail(request);
        const { mailbox, uid, part: number } = request.query;
        if (parsePartNumber(number) === undefined) {
          throw invalidField('part', 'must be a MIME part number such as 2 or 1.2');
        }
        const part = await mailstore.fetchPart(user, mailbox || 'INBOX', uid, number);
        return sendPart(request, reply, part);
      },
    });
  };
}

/**
 * Answers with the bytes of a part, or with the requested range of them.
 *
 * @throws Refusal range_not_satisfiable, and the errors of opening the part
 */
export async function sendPart(request: FastifyRequest, reply: FastifyReply, part: PartContent) {
  const headers = headersOf(part);
  if (matchesEtag(request.headers['if-none-match'], part.etag)) {
    return reply.headers(headers).code(304).send();
  }
  const range = rangeOf(request.headers, part.etag, part.size);
  if (range === 'unsatisfiable') {
    reply.headers(headers).header('content-range', `bytes */${part.size}`);
    throw new Refusal('range_not_satisfiable', `the part has ${many(part.size, 'byte')}`);
  }
  const { start, end } = range ?? { start: 0, end: part.size };
  const content = await beginStream(part.open(range));
  if (range) reply.code(206).header('content-range', `bytes ${start}-${end - 1}/${part.size}`);
  return reply
    .headers(headers)
    .type('application/octet-stream')
    .header('content-length', end - start)
    .header('content-disposition', contentDisposition(part.filename))
    .send(content);
}

function headersOf({ etag }: PartContent) {
  return {
    etag,
    'accept-ranges': 'bytes',
    // A message never changes under its UID, but the token that opened it may expire.
    'cache-control': 'private, no-cache',
    'x-content-type-options': 'nosniff',
  };
}

/** RFC 9110 section 13.1.5: with If-Range, the range counts only while the content is the same. */
function rangeOf(
  headers: { range?: string | undefined; 'if-range'?: string | string[] | undefined },
  etag: string,
  size: number,
): ByteRange | 'unsatisfiable' | undefined {
  const condition = headers['if-range'];
  if (condition !== undefined && condition !== etag) return undefined;
  return parseRange(headers.range, size);
}

const SINGLE_RANGE = /^bytes=\s*(?:(\d{1,30})-(\d{1,30})?|-(\d{1,30}))\s*$/i;

/**
 * Reads a Range field for content of `size` bytes.
 *
 * @returns undefined where the whole content is to be sent: no field, another unit, not valid, or
 *   several ranges at once, which a server may ignore (section 14.2)
 */
export function parseRange(
  field: string | undefined,
  size: number,
): ByteRange | 'unsatisfiable' | undefined {
  const match = field === undefined ? null : SINGLE_RANGE.exec(field);
  if (!match) return undefined;
  const [, first, last, suffix] = match;
  if (suffix !== undefined) {
    const length = Math.min(Number(suffix), size);
    return length === 0 ? 'unsatisfiable' : { start: size - length, end: size };
  }
  const start = Number(first);
  const end = last === undefined ? size : Math.min(Number(last) + 1, size);
  // Section 14.1.1: a last position before the first makes the whole field invalid.
  if (last !== undefined && Number(last) < start) return undefined;
  return start >= size ? 'unsatisfiable' : { start, end };
}

/** Whether If-None-Match names the entity tag, by weak comparison (section 13.1.2). */
export function matchesEtag(field: string | undefined, etag: string): boolean {
  if (field === undefined) return false;
  if (field.trim() === '*') return true;
  return field.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag);
}
