/** `Idempotency-Key`: a request that is repeated with the same key gets its answer, and is not carried out again. */
import { createHash, type Hash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { InTransaction } from '../../platform/database/database.ts';
import { invalidField } from '../../platform/errors/errors.ts';
import {
  type AnsweredRequests,
  type BegunRequest,
  hashOf,
  type KeyOwner,
} from '../../tenants/accounts/accounts.ts';
import type { Api } from './route-tools.ts';

export const KEY_MAX = 255;

/** The header field of a request that can be repeated. @param kept for how long it gets the same answer */
export function keyHeaders(kept = 'for 24 hours') {
  const description = `A key of your choice. The same request with the same key is carried out once, and gets the same answer ${kept}.`;
  const key = Type.String({ description, examples: ['order-4711'] });
  return Type.Object({ 'idempotency-key': Type.Optional(key) });
}

/** The most characters of a stored answer; a request with a longer one is carried out again. */
const ANSWER_MAX = 1024 * 1024;

/** The key by which a client repeats a request safely. @throws Refusal invalid_request */
export function readKey({ headers }: FastifyRequest): string | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key === 'string' && /^[!-~]{1,255}$/.test(key)) return key;
  throw invalidField('idempotency-key', `must have 1 to ${KEY_MAX} visible ASCII characters`);
}

/** A request that is being carried out. */
interface UnderWay {
  readonly answered: AnsweredRequests;
  readonly begun: BegunRequest;
  /** The hash of the request before its body, where that is a stream. */
  readonly hash: () => string;
}

const underWay = new WeakMap<FastifyRequest, UnderWay>();

/**
 * Stores the answer to a request with a key in the transaction of its change. The answer at the end, which may have
 * more, replaces it.
 *
 * @param describe the answer by what the change made
 */
export function answerWithin<Made>(
  request: FastifyRequest,
  status: number,
  describe: (made: Made) => object,
): InTransaction<Made> {
  return async (tx, made) => {
    const own = underWay.get(request);
    if (!own) return;
    const answer = { status, body: JSON.stringify(describe(made)) };
    if (answer.body.length > ANSWER_MAX) return;
    await own.answered.finishIn(tx, own.begun, own.hash(), answer);
  };
}

/** Hashes of bodies that are streams, computed while they are read. */
const streamHashes = new WeakMap<FastifyRequest, Hash>();

/** Hashes the body of a request while its route reads it. */
export async function* hashedBody(
  request: FastifyRequest,
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256');
  for await (const chunk of source) {
    hash.update(chunk);
    yield chunk;
  }
  streamHashes.set(request, hash);
}

/** Whose key a valid request has. @throws Refusal where it must not be carried out anyway */
type FindOwner = (request: FastifyRequest) => KeyOwner | Promise<KeyOwner>;

/**
 * Stores the answers to requests with a key.
 *
 * @returns makes each POST of a scope repeatable, unless its configuration says that it takes no key
 */
export function keepAnswers(
  app: Api,
  answered: AnsweredRequests,
): (scope: Api, findOwner: FindOwner) => void {
  async function begin(findOwner: FindOwner, request: FastifyRequest, reply: FastifyReply) {
    const key = readKey(request);
    if (key === undefined) return undefined;
    const found = await answered.begin({
      owner: await findOwner(request),
      key,
      hash: async () => {
        // An unread stream is read here, to be compared.
        if (request.body instanceof Readable) {
          for await (const _ of hashedBody(request, request.body));
        }
        return hashRequest(request);
      },
    });
    if ('body' in found) {
      return reply.code(found.status).type('application/json; charset=utf-8').send(found.body);
    }
    underWay.set(request, { answered, begun: found, hash: () => hashRequest(request) });
    return undefined;
  }

  async function end(request: FastifyRequest, reply: FastifyReply, payload: unknown) {
    const own = underWay.get(request);
    if (!own) return payload;
    underWay.delete(request);
    const { statusCode: status } = reply;
    // What failed, or has too long an answer to be stored, may be carried out again.
    if (status >= 300 || typeof payload !== 'string' || payload.length > ANSWER_MAX) {
      await answered.giveUp(own.begun);
    } else {
      await answered.finish(own.begun, own.hash(), { status, body: payload });
    }
    return payload;
  }

  app.addHook('onSend', end);
  return (scope, findOwner) => {
    scope.addHook('onRoute', (route) => {
      if (route.method !== 'POST' || route.config?.takesKey === false) return;
      if (route.preHandler)
        throw new Error(`${route.url} has a preHandler, which this would replace`);
      route.preHandler = (request, reply) => begin(findOwner, request, reply);
      route.schema = { ...route.schema, headers: keyHeaders() };
      route.config = {
        ...route.config,
        refusals: [
          ...(route.config?.refusals ?? []),
          'idempotency_key_reused',
          'idempotency_key_in_use',
        ],
      };
    });
  };
}

function hashRequest(request: FastifyRequest): string {
  const { method, url, body } = request;
  const stream = streamHashes.get(request)?.copy().digest();
  return hashOf(method, url, stream ?? JSON.stringify(body ?? null));
}
