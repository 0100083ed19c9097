/**
 * Requests of accounts that had an `Idempotency-Key`, and their answers: a request that is made again with the same
 * key gets the same answer, and is not carried out again.
 *
 * `idempotency_keys` has a row from the start of a request, and its answer at the end. A request that adds messages to
 * this database stores its answer in the same transaction: so it is known whether it was carried out, also where the
 * process dies or the answer to the commit is lost. Any other request that was cut off leaves a row without an answer,
 * and is carried out again after {@link UNDER_WAY_MS}, on SQLite as soon as the next process runs: that changes nothing
 * twice, except on a mail server. A request that failed leaves none, also where it failed because the database was away.
 */
import { createHash } from 'node:crypto';
import {
  type Database,
  isReferenceGone,
  isUnavailable,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';

/** How long a request without an answer counts as under way: longer than any request takes. */
const UNDER_WAY_MS = 5 * 60 * 1000;
/** Waits of a repeated request for the answer of the one that is under way. */
const WAITS = 100;
const WAIT_MS = 100;
const RETRY_AFTER = 10;

/** How long an answer is kept. */
export const ANSWERS_KEPT_MS = 24 * 60 * 60 * 1000;

/** The answer to a request. */
export interface GivenAnswer {
  readonly status: number;
  /** JSON. */
  readonly body: string;
}

/** A request to carry out; `finish` or `giveUp` ends it. */
export interface BegunRequest {
  readonly id: number;
  /** Distinguishes it from a later request with the same key. */
  readonly started_at: number;
}

export interface KeyedRequest {
  readonly accountId: number;
  readonly key: string;
  /** Ends the wait for a request that is under way. */
  readonly wait?: (milliseconds: number) => Promise<void>;
  /** SHA-256 of the request in hex; called only where there is an answer to compare it with. */
  readonly hash: () => Promise<string>;
}

/** The most requests that failed while the database was away; the keys of more are free after {@link UNDER_WAY_MS}. */
const FAILED_MAX = 1_000;

export class AnsweredRequests {
  readonly #database: Pick<Database, 'engine' | 'read' | 'write'>;
  /** Requests that failed, whose rows could not be removed: the next request does it, so that it finds their keys free. */
  #failed: BegunRequest[] = [];
  readonly #now: () => number;
  /** What began before is not under way: its process ended. On PostgreSQL it may be another node's. */
  readonly #since: number;

  /** @param now milliseconds since 1970, the same on all nodes */
  constructor(database: Pick<Database, 'engine' | 'read' | 'write'>, now: () => number) {
    this.#database = database;
    this.#now = now;
    this.#since = database.engine === 'sqlite' ? now() : 0;
  }

  /**
   * Begins a request, or finds the answer to the same request.
   *
   * @throws Refusal idempotency_key_reused where another request has the key; idempotency_key_in_use where
   *   it is under way for long; unauthorized where the account was deleted just now
   */
  async begin(request: KeyedRequest): Promise<BegunRequest | GivenAnswer> {
    const { wait = pause } = request;
    await this.#removeFailed();
    for (let waits = 0; waits <= WAITS; waits++) {
      const begun = await this.#claim(request).catch((error: unknown) => {
        if (!isReferenceGone(error)) throw error;
        throw new Refusal('unauthorized', 'the account was deleted', { cause: error });
      });
      if (begun) return begun;
      const row = await this.#find(request);
      if (row?.answer !== null && row?.answer !== undefined) {
        if (row.request_hash === (await request.hash())) {
          return { status: row.status ?? 200, body: row.answer };
        }
        throw new Refusal(
          'idempotency_key_reused',
          'this Idempotency-Key came with another request',
        );
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
    { id }: BegunRequest,
    hash: string,
    answer: GivenAnswer,
  ): Promise<void> {
    const values = { request_hash: hash, status: answer.status, answer: answer.body };
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
        for (const { id, started_at } of failed) {
          await tx
            .deleteFrom('idempotency_keys')
            .where('id', '=', id)
            .where('started_at', '=', started_at)
            .where('answer', 'is', null)
            .execute();
        }
      });
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      this.#failed.push(...failed);
    }
  }

  /** Removes answers from before an instant, milliseconds since 1970. */
  async forget(before: number): Promise<number> {
    const { numDeletedRows } = await this.#database.write((tx) =>
      tx.deleteFrom('idempotency_keys').where('started_at', '<', before).executeTakeFirst(),
    );
    return Number(numDeletedRows);
  }

  /** @returns undefined where another request has the key */
  #claim({ accountId, key }: KeyedRequest): Promise<BegunRequest | undefined> {
    const now = this.#now();
    return this.#database.write((tx) =>
      tx
        .insertInto('idempotency_keys')
        .values({ account_id: accountId, key, started_at: now })
        .onConflict((conflict) =>
          conflict
            .columns(['account_id', 'key'])
            .doUpdateSet({ started_at: now })
            .where('idempotency_keys.answer', 'is', null)
            .where('idempotency_keys.started_at', '<', Math.max(now - UNDER_WAY_MS, this.#since)),
        )
        .returning(['id', 'started_at'])
        .executeTakeFirst(),
    );
  }

  #find({ accountId, key }: KeyedRequest): Promise<Row<'idempotency_keys'> | undefined> {
    return this.#database.read
      .selectFrom('idempotency_keys')
      .selectAll()
      .where('account_id', '=', accountId)
      .where('key', '=', key)
      .executeTakeFirst();
  }
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });
}

/** The hash of a request from its parts. */
export function hashOf(...parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash('sha256');
  // Each part has its length in front: so no two lists of parts give the same text.
  for (const part of parts) hash.update(`${part.length}:`).update(part);
  return hash.digest('hex');
}
