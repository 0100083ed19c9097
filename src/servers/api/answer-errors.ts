/**
 * How a failure is answered: by its refusal, and the answer to that in the table of `errors/`.
 */
import { once } from 'node:events';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isFileFailing, refusalOfFailure } from '../../platform/database/database.ts';
import { answerOf, Refusal } from '../../platform/errors/errors.ts';
import { answerProblem, bearerChallenge } from '../../platform/net/net.ts';
import { describeInvalid, isInvalid } from './describe-invalid.ts';

/** Failures that Fastify finds itself, by its code; its other 4xx are `invalid_request`. */
const frameworkRefusals: Readonly<Record<string, (request: FastifyRequest) => Refusal>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: unsupportedType,
  FST_ERR_CTP_BODY_TOO_LARGE: () => new Refusal('body_too_large', 'the body is too large'),
  FST_ERR_CTP_EMPTY_JSON_BODY: () => new Refusal('invalid_request', 'the body is empty'),
  FST_ERR_BAD_URL: () => new Refusal('invalid_request', 'the path is not a valid URL path'),
  FST_STATIC_FORBIDDEN_PATH: () => notFound(),
};

/** The refusal of an unknown path. @param instead the existing paths */
export function notFound(instead?: string): Refusal {
  const detail = 'there is nothing at this path';
  return new Refusal('route_not_found', instead === undefined ? detail : `${detail}: ${instead}`);
}

/** Names the media types of the route: clients often leave the field out, or send that of a form. */
function unsupportedType({ headers, routeOptions }: FastifyRequest): Refusal {
  const given = headers['content-type'];
  const body = Object(routeOptions.schema?.body);
  const types = Object.keys(body.content ?? { 'application/json': body });
  return new Refusal(
    'unsupported_media_type',
    `Content-Type must be ${types.join(' or ')}${given === undefined ? ': the request has none' : ''}`,
  );
}

/** Turns any exception into the refusal to answer with; `internal` stands for a bug. */
export function toRefusal(error: unknown, request: FastifyRequest): Refusal {
  if (error instanceof Refusal) return error;
  if (isInvalid(error)) return describeInvalid(error);
  if (error instanceof Error) {
    const known = 'code' in error ? frameworkRefusals[String(error.code)] : undefined;
    if (known) return known(request);
    const status = 'statusCode' in error ? error.statusCode : undefined;
    if (status === 404) return notFound();
    if (status === 416) {
      return new Refusal('range_not_satisfiable', 'the range lies outside the content');
    }
    if (typeof status === 'number' && status >= 400 && status < 500) {
      // A client that left within its body, too: its ECONNRESET looks like one of the database.
      return new Refusal('invalid_request', 'the request is not valid', { cause: error });
    }
  }
  return (
    refusalOfFailure(error) ??
    new Refusal('internal', 'something failed on our side', { cause: error })
  );
}

/** Sends the answer for a refusal; logs it if it is a failure of ours. */
export function answerRefusal(
  refusal: Refusal,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const { http } = answerOf(refusal.code);
  if (refusal.cause !== undefined && http >= 500) {
    // A disk that is full, or fails, has lines of its own, at its begin and its end.
    const isTold = refusal.code === 'storage_full' || isFileFailing(refusal.cause);
    const level = isTold ? 'info' : 'error';
    request.log[level]({ err: refusal.cause, requestId: request.id }, 'request failed');
  }
  // Fastify would close the connection with unread data, which resets it before the client has read the reason. Node
  // reads on and drops the data, for as long as a request may take.
  if (refusal.code === 'body_too_large') reply.removeHeader('connection');
  if (http === 401) reply.header('www-authenticate', challengeFor(request));
  const { headers, body } = answerProblem(refusal, request.id, request.headers.accept);
  reply.code(http).headers(headers).send(body);
}

/** The challenge that a 401 must carry (RFC 9110 section 11.6.1). */
function challengeFor(request: FastifyRequest): string {
  const path = request.routeOptions.url ?? '';
  // These are not registered schemes, but the field is required, and they name the credential.
  if (path.startsWith('/v2/')) return 'ApiKey realm="postroom", header="x-api-key"';
  if (path.startsWith('/hooks/')) {
    return 'HmacSha256 realm="postroom", header="x-mailserver-signature"';
  }
  return bearerChallenge(request.headers.authorization !== undefined);
}

/**
 * A stream whose first piece was read. An error that prevents reading the source is thrown, so that it is answered
 * with its own status: after the headers were sent, only the connection can be broken.
 *
 * The caller sends the stream or destroys it.
 */
export async function beginStream(source: AsyncIterable<Uint8Array | string>): Promise<Readable> {
  const stream = Readable.from(source, { objectMode: false });
  // `readable` is also emitted at the end of an empty source.
  await once(stream, 'readable');
  return stream;
}
