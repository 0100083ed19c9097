/**
 * Requests that had an `Idempotency-Key`, and their answers: a request that is made again with the same key gets the
 * same answer, and is not carried out again.
 *
 * `idempotency_keys` has a row from the start of a request, and its answer at the end. A request that must not be carried
 * out twice stores its answer in the transaction of its change, where that is in this database: so it is known whether it was
 * carried out, also where the process dies or the answer to the commit is lost. Any other request that was cut off leaves a
 * row without an answer, and is carried out again after {@link UNDER_WAY_MS}, or as soon as the next process runs where no other
 * node may run: that changes nothing twice, except on a mail server. A request that failed leaves none, also where it failed because the
 * database was away.
 *
 * A key is an account's own, and is removed after its account, some rows at a time. Or, below /v2, it is that of a user and an
 * API key (`scope`). Such a row outlives what the request
 * made: when it is deleted, a late repetition must not make it again. What such a request asked and got is encrypted, since
 * it may have a password, of which the database has only a hash otherwise.
 */
import { createHash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type Database,
  isUnavailable,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { limitInMemory } from '../../platform/net/net.ts';
import { Seal, type SigningKeys } from '../../platform/nodes/nodes.ts';
import { DAY_MS, type EpochMs } from '../../platform/time/time.ts';

/** How long a request without an answer counts as under way: longer than any request takes. */
const UNDER_WAY_MS = 5 * 60 * 1000;
/** Waits of a repeated request for the answer of the one that is under way. */
const WAITS = 100;
const WAIT_MS = 100;
const RETRY_AFTER = 10;

export const ANSWERS_KEPT_MS = DAY_MS;

/**
 * Octets of answers in that time, of an account, or of a user and an API key, on each node: those of 100,000 sends. They
 * count for no quota: without a limit an account fills the disk with them, each of which may have 1 MiB.
 */
const KEPT_MAX = 64 * 1024 * 1024;
/** What a row has beside its answer counts as so much: else millions of the shortest answers would be one account's. */
const ROW_OCTETS = 256;
/** Answers that are removed in one transaction. */
const FORGOTTEN_AT_A_TIME = 1_000;
/** The same of deleted accounts, while nobody waits for them. */
const REMOVED_AT_A_TIME = 500;

export interface GivenAnswer {
  readonly status: number;
  /** JSON. */
  readonly body: string;
}

/** A request to carry out; `finish` or `giveUp` ends it. */
export interface BegunRequest {
  readonly id: number;
  /** Distinguishes it from a later request with the same key. */
  readonly startedAt: number;
  readonly isSealed: boolean;
  readonly owner: KeyOwner;
}

/** Whose key it is: others may have the same one. */
export type KeyOwner =
  | { readonly accountId: number }
  /** Of a request below /v2, see {@link scopeOf}. */
  | { readonly scope: string };

/** Whose keys those of a user's requests with an API key are: other users and other API keys may have the same ones. */
export function scopeOf(apiKeyName: string, userId: string): KeyOwner {
  return { scope: hashOf(apiKeyName, userId) };
}

export interface KeyedRequest {
  readonly owner: KeyOwner;
  readonly key: string;
  /** Ends the wait for a request that is under way. */
  readonly wait?: (milliseconds: number) => Promise<void>;
  /** SHA-256 of the request in hex; called only where there is an answer to compare it with. */
  readonly hash: () => Promise<string>;
}

export interface AnsweredRequestsOptions {
  readonly database: Pick<Database, 'read' | 'write'>;
  /** Whether no other node may run beside this one. */
  readonly isAlone: boolean;
  /** Encrypts answers. */
  readonly secret: SigningKeys;
  /** The same on all nodes. */
  readonly now: () => EpochMs;
}

/** The most requests that failed while the database was away; the keys of more are free after {@link UNDER_WAY_MS}. */
const FAILED_MAX = 1_000;

export class AnsweredRequests {
  readonly #database: Pick<Database, 'read' | 'write'>;
  /** Requests that failed, whose rows could not be removed: the next request does it, so that it finds their keys free. */
  #failed: BegunRequest[] = [];
  readonly #seal: Seal;
  readonly #now: () => number;
  readonly #kept = limitInMemory({
    name: 'kept-answers',
    most: KEPT_MAX,
    seconds: ANSWERS_KEPT_MS / 1_000,
  });
  /** What began before is not under way: its process ended. */
  readonly #since: number;

  constructor({ database, isAlone, secret, now }: AnsweredRequestsOptions) {
    this.#database = database;
    this.#seal = new Seal(secret, 'answers');
    this.#now = now;
    this.#since = isAlone ? now() : 0;
  }

  /**
   * Begins a request, or finds the answer to the same request.
   *
   * @throws Refusal idempotency_key_reused where another request has the key; idempotency_key_in_use where
   *   it is under way for long; rate_limited where no more answers are kept
   */
  async begin(request: KeyedRequest): Promise<BegunRequest | GivenAnswer> {
    const { wait = pause } = request;
    await this.#removeFailed();
    const usage = await this.#kept.look(nameOf(request.owner));
    // An answer that is kept already is still given.
    if (usage.remaining === 0 && !(await this.#find(request))) {
      const detail = `answers to requests with an Idempotency-Key have ${KEPT_MAX / 1024 / 1024} MiB in 24 hours`;
      throw new Refusal('rate_limited', detail, { retryAfter: usage.resetSeconds });
    }
    for (let waits = 0; waits <= WAITS; waits++) {
      const begun = await this.#claim(request);
      if (begun) return begun;
      const row = await this.#find(request);
      const kept = row && this.#readKept(row);
      if (kept) {
        if (kept.hash === (await request.hash())) return kept.answer;
        throw reused('came with another request');
      }
      await wait(WAIT_MS);
    }
    const detail = 'the request with this Idempotency-Key is under way';
    throw new Refusal('idempotency_key_in_use', detail, { retryAfter: RETRY_AFTER });
  }

  /** Stores the answer to a request. */
  async finish(begun: BegunRequest, hash: string, answer: GivenAnswer): Promise<void> {
    await this.#database.write((tx) => this.finishIn(tx, begun, hash, answer));
  }

  /** The same within the transaction of the change. */
  async finishIn(
    tx: Queries,
    { id, isSealed, owner }: BegunRequest,
    hash: string,
    { status, body }: GivenAnswer,
  ): Promise<void> {
    // In memory: it never fails.
    void this.#kept.take(nameOf(owner), ROW_OCTETS + Buffer.byteLength(body));
    const values = isSealed
      ? { status, answer: this.#seal.seal(hash + body) }
      : { status, answer: body, request_hash: hash };
    await tx.updateTable('idempotency_keys').set(values).where('id', '=', id).execute();
  }

  /** The request failed: it may be made again with the same key, unless its change was committed all the same. */
  async giveUp(begun: BegunRequest): Promise<void> {
    if (this.#failed.length < FAILED_MAX) this.#failed.push(begun);
    await this.#removeFailed();
  }

  /** Where the database is away, which may be why they failed, it is tried again later. */
  async #removeFailed(): Promise<void> {
    const failed = this.#failed;
    if (failed.length === 0) return;
    this.#failed = [];
    try {
      await this.#database.write(async (tx) => {
        for (const { id, startedAt } of failed) {
          await tx
            .deleteFrom('idempotency_keys')
            .where('id', '=', id)
            .where('started_at', '=', startedAt)
            .where('answer', 'is', null)
            .execute();
        }
      });
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      this.#failed.push(...failed);
    }
  }

  /** @returns undefined where another request has the key */
  async #claim({ owner, key }: KeyedRequest): Promise<BegunRequest | undefined> {
    const now = this.#now();
    const isSealed = 'scope' in owner;
    const row = await this.#database.write((tx) =>
      tx
        .insertInto('idempotency_keys')
        .values({ ...columnsOf(owner), key, started_at: now })
        .onConflict((conflict) =>
          (isSealed
            ? conflict.columns(['scope', 'key']).where('scope', 'is not', null)
            : conflict.columns(['account_id', 'key'])
          )
            .doUpdateSet({ started_at: now })
            .where('idempotency_keys.answer', 'is', null)
            .where('idempotency_keys.started_at', '<', Math.max(now - UNDER_WAY_MS, this.#since)),
        )
        .returning('id')
        .executeTakeFirst(),
    );
    return row && { id: row.id, startedAt: now, isSealed, owner };
  }

  #find({ owner, key }: KeyedRequest): Promise<Row<'idempotency_keys'> | undefined> {
    const query = this.#database.read.selectFrom('idempotency_keys').selectAll();
    const own =
      'scope' in owner
        ? query.where('scope', '=', owner.scope)
        : query.where('account_id', '=', owner.accountId);
    return own.where('key', '=', key).executeTakeFirst();
  }

  /** @returns undefined where the row has no answer yet */
  #readKept({ scope, request_hash, status, answer }: Row<'idempotency_keys'>) {
    if (answer === null) return undefined;
    const isSealed = scope !== null;
    const text = isSealed ? this.#seal.open(answer) : answer;
    // The operator removed the value that encrypted it: whether it is the same request can no longer be known.
    if (text === undefined) throw reused('came before a secret of the service was replaced');
    return {
      hash: isSealed ? text.slice(0, HASH_CHARACTERS) : request_hash,
      answer: { status: status ?? 200, body: isSealed ? text.slice(HASH_CHARACTERS) : text },
    };
  }
}

/** Removes some answers from before an instant. @returns how many */
export async function forgetAnswers(tx: Queries, before: EpochMs): Promise<number> {
  const old = tx
    .selectFrom('idempotency_keys')
    .select('id')
    .where('started_at', '<', before)
    .orderBy('started_at')
    .limit(FORGOTTEN_AT_A_TIME);
  // A request may have begun under the same key meanwhile.
  const removal = tx.deleteFrom('idempotency_keys').where('id', 'in', old);
  const { numDeletedRows } = await removal.where('started_at', '<', before).executeTakeFirst();
  return Number(numDeletedRows);
}

/** Removes some answers of deleted accounts. @returns how many were found; one that is given just then is forgotten with its time */
export async function removeAnswersOf(tx: Queries, accountIds: readonly number[]): Promise<number> {
  const found = tx
    .selectFrom('idempotency_keys')
    .select('id')
    .where('account_id', 'in', accountIds);
  const ids = (await found.limit(REMOVED_AT_A_TIME).execute()).map(({ id }) => id);
  // Another node may remove the same ones first: then there may be more.
  if (ids.length > 0) await tx.deleteFrom('idempotency_keys').where('id', 'in', ids).execute();
  return ids.length;
}

function nameOf(owner: KeyOwner): string {
  return 'scope' in owner ? owner.scope : `account ${owner.accountId}`;
}

function columnsOf(owner: KeyOwner) {
  return 'scope' in owner ? { scope: owner.scope } : { account_id: owner.accountId };
}

function reused(how: string): Refusal {
  return new Refusal('idempotency_key_reused', `this Idempotency-Key ${how}`);
}

/** Of what {@link hashOf} returns. */
const HASH_CHARACTERS = 64;

/** SHA-256 in hex of a request's parts. */
export function hashOf(...parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash('sha256');
  // Each part has its length in front: so no two lists of parts give the same text.
  for (const part of parts) hash.update(`${part.length}:`).update(part);
  return hash.digest('hex');
}
