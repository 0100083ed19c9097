/**
 * How often a password may be tried. Three limits:
 *
 * - Of one account from one client: 10 failures in an hour, from then on one attempt a minute until
 *   the hour is over.
 * - Of one account from all clients together that never signed in to it: 100 failures in an hour.
 *   Clients that did are not bound by it, so that nobody can lock an owner out by guessing.
 * - Requests of one client, as everywhere (`api/rate-limit.ts`).
 *
 * Addresses that have no account are counted alike, so that no answer tells which ones exist. An
 * attempt is refused before its password is looked at.
 *
 * Which clients signed in to an account is kept in `sign_ins`: the last 20 of each account, for half
 * a year.
 */
import type { Database } from '../database/database.ts';
import { Refusal } from '../errors/errors.ts';
import { clientKey, type Limit, type OpenLimit, type Usage } from '../net/net.ts';

const HOUR_SECONDS = 60 * 60;
const DAY_MS = 24 * HOUR_SECONDS * 1000;
const REMEMBERED_MS = 180 * DAY_MS;
const CLIENTS_OF_ACCOUNT = 20;

/** Somebody who tries a password. */
interface LoginAttempt {
  /** What failures count for: the account's address in one form, whether it has an account or not. */
  readonly name: string;
  /** Undefined where there is no such account. */
  readonly accountId: number | undefined;
  /** IP address of the client. */
  readonly ip: string;
}

/** An attempt that may go on to the check of its password. */
interface AdmittedLogin {
  /** Counts it as a failure for now. @throws Refusal rate_limited */
  begin(): Promise<void>;
  /** The password was right: takes the count back, and remembers the client. */
  succeed(): Promise<void>;
}

export class LoginLimits {
  readonly #database: Database;
  readonly #now: () => number;
  readonly #ofClient: Limit;
  readonly #ofClientSlowly: Limit;
  readonly #ofStrangers: Limit;

  constructor(database: Database, openLimit: OpenLimit, now: () => number) {
    this.#database = database;
    this.#now = now;
    const seconds = HOUR_SECONDS;
    this.#ofClient = openLimit({ name: 'login-client', most: 10, seconds });
    this.#ofClientSlowly = openLimit({ name: 'login-client-slowly', most: 1, seconds: 60 });
    this.#ofStrangers = openLimit({ name: 'login-strangers', most: 100, seconds });
  }

  /**
   * Decides whether the password of an attempt is looked at.
   *
   * @throws Refusal rate_limited
   */
  async admit({ name, accountId, ip }: LoginAttempt): Promise<AdmittedLogin> {
    const client = clientKey(ip);
    const pair = `${client} ${name}`;
    // Asked for unknown addresses as well, so that they take as long.
    const signedInAt = await this.#signedInAt(accountId ?? 0, client);
    const isStranger = signedInAt === undefined;
    const ofClient = await this.#ofClient.look(pair);
    if (ofClient.remaining === 0) refuseSpent(await this.#ofClientSlowly.look(pair));
    if (isStranger) refuseSpent(await this.#ofStrangers.look(name));
    return {
      // Those that were admitted before may have failed since.
      begin: async () => {
        const { exceeded } = await this.#ofClient.take(pair);
        if (exceeded) refuseExceeded(await this.#ofClientSlowly.take(pair));
        if (isStranger) refuseExceeded(await this.#ofStrangers.take(name));
      },
      succeed: async () => {
        await this.#ofClient.clear(pair);
        await this.#ofClientSlowly.clear(pair);
        if (isStranger) await this.#ofStrangers.giveBack(name);
        // Written once a day: a login is no reason to wait for the disk each time.
        const isOld = isStranger || signedInAt < this.#now() - DAY_MS;
        if (accountId !== undefined && isOld) await this.#remember(accountId, client);
      },
    };
  }

  async #signedInAt(accountId: number, client: string): Promise<number | undefined> {
    const row = await this.#database.read
      .selectFrom('sign_ins')
      .select('signed_in_at')
      .where('account_id', '=', accountId)
      .where('client', '=', client)
      .where('signed_in_at', '>', this.#now() - REMEMBERED_MS)
      .executeTakeFirst();
    return row?.signed_in_at;
  }

  #remember(account_id: number, client: string): Promise<void> {
    const signed_in_at = this.#now();
    return this.#database.write(async (tx) => {
      await tx
        .insertInto('sign_ins')
        .values({ account_id, client, signed_in_at })
        .onConflict((conflict) =>
          conflict.columns(['account_id', 'client']).doUpdateSet({ signed_in_at }),
        )
        .execute();
      const kept = tx
        .selectFrom('sign_ins')
        .select('client')
        .where('account_id', '=', account_id)
        .orderBy('signed_in_at', 'desc')
        .limit(CLIENTS_OF_ACCOUNT);
      await tx
        .deleteFrom('sign_ins')
        .where('account_id', '=', account_id)
        .where('client', 'not in', kept)
        .execute();
    });
  }
}

function refuseSpent(usage: Usage): void {
  if (usage.remaining === 0) throw tooManyFailures(usage);
}

function refuseExceeded(usage: Usage): void {
  if (usage.exceeded) throw tooManyFailures(usage);
}

function tooManyFailures({ resetSeconds }: Usage): Refusal {
  return new Refusal('rate_limited', 'too many logins to this address failed', {
    retryAfter: resetSeconds,
  });
}
