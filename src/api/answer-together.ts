import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { answerRefusal, toRefusal } from './answer-errors.ts';

/** An answer that waits for the others. */
interface Waiting {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly payload: unknown;
  /** Writes it; throws where it cannot be written, be it for a header of its own. */
  readonly write: () => void;
}

/** Answers that wait at most: a client may send thousands of requests at once, and each is held. */
const WAITING_MAX = 256;

type OnSend = (
  request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: () => void,
) => void;

/**
 * A hook that holds answers back until every request that is here has been handled, and then writes
 * them in one go. The first write wakes whoever reads them, the proxy in front or a client on this
 * machine; it is then awake for the others, while one woken for each goes to sleep again in between.
 * That wake-up can cost more than all else of a small request. A lone request waits for nothing.
 *
 * @param setHeaders sets the headers that every answer has
 */
export function answerTogether(
  setHeaders: (request: FastifyRequest, reply: FastifyReply) => void,
): OnSend {
  let waiting: Waiting[] = [];
  const broken = new WeakSet<FastifyReply>();
  const writeAll = () => {
    const together = waiting;
    waiting = [];
    for (const answer of together) {
      try {
        answer.write();
      } catch (error) {
        // No promise of Fastify's catches it any more: it would end the process, and the others.
        writeFailure(answer, error);
      }
    }
  };
  const writeFailure = ({ request, reply, payload }: Waiting, error: unknown) => {
    if (payload instanceof Readable) payload.destroy();
    if (reply.raw.headersSent || broken.has(reply)) {
      request.log.error({ err: error, requestId: request.id }, 'an answer broke off');
      reply.raw.destroy();
      return;
    }
    broken.add(reply);
    for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name);
    setHeaders(request, reply);
    answerRefusal(toRefusal(error), request, reply);
  };
  return (request, reply, payload, done) => {
    const count = waiting.push({ request, reply, payload, write: done });
    if (count === 1) setImmediate(writeAll);
    else if (count === WAITING_MAX) writeAll();
  };
}
