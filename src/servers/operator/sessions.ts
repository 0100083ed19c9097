/**
 * Sessions of the console. A client with an API key gets a random secret, which the browser keeps as a cookie; the
 * database has its SHA-256, so that every node knows the session, and a copy of the database opens none. A session
 * ends after 12 hours, at the sign-out, and when its API key is no longer one of API_KEYS.
 */
import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { clientKey, type Limit, type OpenLimit } from '../../platform/net/net.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { recordAudit } from '../../tenants/audit/audit.ts';
import { ApiKeys, type ConsoleSession } from '../api/api.ts';

export const SESSION_SECONDS = 12 * 60 * 60;
const SECRET_BYTES = 32;
/** The most wrong keys of one client in an hour. */
const FAILURES_MAX = 10;
const FAILURES_SECONDS = 60 * 60;

interface SessionsOptions {
  readonly database: Database;
  readonly apiKeys: readonly string[];
  readonly openLimit: OpenLimit;
  /** The same on all nodes. */
  readonly now: () => EpochMs;
}

interface SignIn {
  readonly apiKey: string;
  /** IP address of the client. */
  readonly ip: string;
  readonly requestId: string;
}

/** A session that was just opened, with the secret that opens it. */
export interface OpenedSession extends ConsoleSession {
  readonly secret: string;
}

export class ConsoleSessions {
  readonly #options: SessionsOptions;
  readonly #keys: ApiKeys;
  readonly #failures: Limit;

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.#keys = new ApiKeys(options.apiKeys);
    this.#failures = options.openLimit({
      name: 'console-sign-in',
      most: FAILURES_MAX,
      seconds: FAILURES_SECONDS,
    });
  }

  /**
   * Opens a session.
   *
   * @throws Refusal unauthorized, rate_limited after 10 wrong keys of one client in an hour
   */
  async open({ apiKey, ip, requestId }: SignIn): Promise<OpenedSession> {
    const actor = await this.#identify(apiKey, clientKey(ip));
    const { database, now } = this.#options;
    const secret = randomBytes(SECRET_BYTES).toString('base64url');
    const at = now();
    const expiresAt = at + SESSION_SECONDS * 1000;
    await database.write(async (tx) => {
      // Sessions are few: each sign-in removes those that have expired.
      await tx.deleteFrom('console_sessions').where('expires_at', '<=', at).execute();
      await tx
        .insertInto('console_sessions')
        .values({
          secret_hash: digest(secret),
          key_proof: digest(secret, apiKey),
          actor,
          expires_at: expiresAt,
        })
        .execute();
      await recordAudit(tx, { actor, requestId }, { action: 'console.sign_in', target: ip, at });
    });
    return { secret, actor, csrfToken: csrfTokenOf(secret), expiresAt };
  }

  /** The session that a secret opens, or undefined where it has ended or never existed. */
  async find(secret: string): Promise<ConsoleSession | undefined> {
    const { database, apiKeys, now } = this.#options;
    const row = await database.read
      .selectFrom('console_sessions')
      .select(['key_proof', 'actor', 'expires_at'])
      .where('secret_hash', '=', digest(secret))
      .where('expires_at', '>', now())
      .executeTakeFirst();
    if (!row || !apiKeys.some((key) => digest(secret, key) === row.key_proof)) return undefined;
    return { actor: row.actor, csrfToken: csrfTokenOf(secret), expiresAt: row.expires_at };
  }

  /** Ends a session on all nodes: its secret is invalid from then on. */
  async end(secret: string): Promise<void> {
    await this.#options.database.write((tx) =>
      tx.deleteFrom('console_sessions').where('secret_hash', '=', digest(secret)).execute(),
    );
  }

  /** A failure is counted before the key is checked, so that attempts at the same time are all counted. */
  async #identify(apiKey: string, client: string): Promise<string> {
    const { exceeded, resetSeconds } = await this.#failures.take(client);
    if (exceeded) {
      throw new Refusal('rate_limited', 'too many sign-ins of this client failed', {
        retryAfter: resetSeconds,
      });
    }
    const actor = this.#keys.identify(apiKey);
    await this.#failures.giveBack(client);
    return actor;
  }
}

/** SHA-256 in hex. Texts are separated by a line end, which none of them has. */
function digest(...texts: readonly string[]): string {
  return createHash('sha256').update(texts.join('\n')).digest('hex');
}

/** Known to the pages that read it, and to the holder of the secret; it reveals nothing about the secret. */
function csrfTokenOf(secret: string): string {
  return createHmac('sha256', secret).update('csrf').digest('base64url');
}
