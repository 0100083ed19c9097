/** Limits how many large requests are read and carried out at a time: by their bodies, or by the files of other messages that they name. */
import type { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { enterTurnOf } from '../../mailboxes/mailstore/mailstore.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { AccountShares, type MailAccess } from '../../tenants/accounts/accounts.ts';

/** Octets from which a request is a large one: a short one may name files of many megabytes. */
const LARGE = 1024 * 1024;
/**
 * The most large requests at a time: of one account, of all accounts of one user, and of all. Each may last for two minutes:
 * two users could hold all of them, for good.
 */
const SHARES = { account: 4, user: 6, all: 12, leavesAsMany: true } as const;
const RETRY_AFTER = 2;

/** The large requests that are being read or carried out. */
export class LargeRequests {
  readonly #shares = new AccountShares(SHARES);
  readonly #work = new WeakMap<FastifyRequest, Promise<unknown>>();
  readonly #octets = new WeakMap<FastifyRequest, number>();

  /**
   * Passes a body on in the turns of its account, and counts the request when it becomes a large one.
   *
   * @throws Refusal rate_limited
   */
  async *read(
    request: FastifyRequest,
    reply: FastifyReply,
    payload: Readable,
    holder: MailAccess,
  ): AsyncGenerator<Uint8Array> {
    try {
      // Left open where the request is refused: the answer is sent on the same connection.
      const chunks: AsyncIterable<Uint8Array> = payload.iterator({ destroyOnReturn: false });
      for await (const chunk of chunks) {
        this.add(request, reply, holder, chunk.length);
        // Behind the last one the whole is parsed.
        const waits = enterTurnOf(holder);
        if (waits) await waits;
        yield chunk;
      }
    } finally {
      payload.resume();
    }
  }

  /**
   * A request has so many octets more.
   *
   * @throws Refusal rate_limited
   */
  add(request: FastifyRequest, reply: FastifyReply, holder: MailAccess, more: number): void {
    const before = this.#octets.get(request) ?? 0;
    this.#octets.set(request, before + more);
    if (before < LARGE && before + more >= LARGE) this.#count(request, reply, holder);
  }

  /** Notes the work for a request: it continues when the client leaves. */
  work<Answer>(request: FastifyRequest, answer: Promise<Answer>): Promise<Answer> {
    this.#work.set(request, answer);
    return answer;
  }

  #count(request: FastifyRequest, reply: FastifyReply, holder: MailAccess): void {
    const giveBack = this.#shares.take(holder);
    if (typeof giveBack === 'string') throw tooMany();
    void closed(request, reply)
      .then(() => this.#work.get(request))
      .catch(() => undefined)
      .then(giveBack);
  }
}

/** Waits until a request is answered or its client has left. Fastify runs no hook for all clients that leave. */
function closed(request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { socket } = request.raw;
  return new Promise((resolve) => {
    const end = () => {
      reply.raw.off('close', end);
      // A request that waits for the answer of another one on its connection has no answer to close yet.
      socket.off('close', end);
      resolve();
    };
    reply.raw.on('close', end);
    socket.on('close', end);
    if (socket.destroyed) end();
  });
}

function tooMany(): Refusal {
  return new Refusal('rate_limited', 'too many large messages are being read', {
    retryAfter: RETRY_AFTER,
  });
}
