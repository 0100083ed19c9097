/**
 * How often a password may be tried. Three limits:
 *
 * - For one account and one client: 10 failures in an hour; then one attempt a minute until the hour is over.
 * - For one account and all clients together that never signed in to it: 100 failures in an hour. Clients that did are
 *   not limited by it, so that nobody can lock an owner out by guessing.
 *
 * - Requests of one client, as everywhere (`api/rate-limit.ts`).
 *
 * Addresses without an account are counted in the same way, so that no answer shows which addresses exist. An
 * attempt is refused before its password is checked.
 *
 * `sign_ins` has the clients that signed in to an account: the last 20 of each account, for half a year.
 */
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { clientKey, type Limit, type OpenLimit, type Usage } from '../../platform/net/net.ts';
import { DAY_MS } from '../../platform/time/time.ts';

const HOUR_SECONDS = 60 * 60;
const REMEMBERED_MS = 180 * DAY_MS;
const CLIENTS_OF_ACCOUNT = 20;

/** A login with a password. */
interface LoginAttempt {
  /** The key of its failures: the address in one form, with or without an account. */
  readonly name: string;
  /** Undefined where there is no such account. */
  readonly accountId: number | undefined;
  /** IP address of the client. */
  readonly ip: string;
}

/** An attempt whose password may be checked. */
interface AdmittedLogin {
  /** Counts it as a failure for now. @throws Refusal rate_limited */
  begin(): Promise<void>;
  /** The password was right: removes the failure again, and records the client. */
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

  /** Decides whether the password of an attempt is checked. @throws Refusal rate_limited */
  async admit({ name, accountId, ip }: LoginAttempt): Promise<AdmittedLogin> {
    const client = clientKey(ip);
    const pair = `${client} ${name}`;
    // Also read for unknown addresses, so that these take as long.
    const signedInAt = await this.#signedInAt(accountId ?? 0, client);
    const isStranger = signedInAt === undefined;
    const ofClient = await this.#ofClient.look(pair);
    if (ofClient.remaining === 0) refuseSpent(await this.#ofClientSlowly.look(pair));
    if (isStranger) refuseSpent(await this.#ofStrangers.look(name));
    return {
      // Attempts that were admitted before may have failed since.
      begin: async () => {
        const { exceeded } = await this.#ofClient.take(pair);
        if (exceeded) refuseExceeded(await this.#ofClientSlowly.take(pair));
        if (isStranger) refuseExceeded(await this.#ofStrangers.take(name));
      },
      succeed: async () => {
        await this.#ofClient.clear(pair);
        await this.#ofClientSlowly.clear(pair);
        if (isStranger) await this.#ofStrangers.giveBack(name);
        // Written once a day: a login should not wait for the disk each time.
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
