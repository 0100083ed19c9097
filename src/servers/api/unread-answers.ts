/** Limits the answers in memory that clients do not read: nothing else would end them for two minutes. */
import { Refusal } from '../../platform/errors/errors.ts';
import { ClientShares } from '../../platform/net/net.ts';
import type { Api } from './route-tools.ts';

const MIB = 1024 * 1024;
/** Octets from which an answer counts. What is shorter fits into the buffers of the connection. */
const COUNTED = 64 * 1024;
/** The most octets of one account, and of all; a user has as many as he leaves free. */
const SHARES = { account: 16 * MIB, all: 128 * MIB };
const RETRY_AFTER = 2;

/** Refuses answers of accounts and users who have not read many others. Answers that are streamed wait for their readers. */
export function limitUnreadAnswers(app: Api): void {
  const accounts = new ClientShares(SHARES.all);
  const users = new ClientShares(SHARES.all);
  app.addHook('onSend', (request, reply, payload: unknown, done) => {
    const { account, owner } = request;
    const userId = account?.userId ?? owner?.userId;
    if (userId === undefined || typeof payload !== 'string') return done(null, payload);
    const octets = Buffer.byteLength(payload);
    // The client has left: no "close" follows any more.
    if (octets < COUNTED || reply.raw.destroyed) return done(null, payload);
    const name = account ? String(account.accountId) : '';
    if (!users.take(userId, octets, users.left - octets)) return done(tooMany());
    // A single one is never refused: what a message has may be written six times as long in JSON.
    if (account && !accounts.take(name, octets, Math.max(SHARES.account, octets))) {
      users.give(userId, octets);
      return done(tooMany());
    }
    reply.raw.once('close', () => {
      users.give(userId, octets);
      if (account) accounts.give(name, octets);
    });
    return done(null, payload);
  });
}

function tooMany(): Refusal {
  return new Refusal('rate_limited', 'too many large answers have not been read', {
    retryAfter: RETRY_AFTER,
  });
}
