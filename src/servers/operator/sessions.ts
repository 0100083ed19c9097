/**
 * Sessions of the console. A client with an API key gets a random secret, which the browser keeps as a cookie; the
 * database has its SHA-256, so that every node knows the session, and a copy of the database opens none. A session
 * ends after 12 hours, at the sign-out, and with its API key: when that is no longer one of API_KEYS, was revoked or has
 * ended. It may do what its key may.
 */
import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { Database, Row } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { clientKey, type Limit, type OpenLimit } from '../../platform/net/net.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { recordAudit } from '../../tenants/audit/audit.ts';
import type { NamedKeys } from '../../tenants/keys/keys.ts';
import {
  type Caller,
  type ConsoleSession,
  callerOf,
  type Identify,
  knowKeys,
  OPERATOR_SCOPE,
} from '../api/api.ts';

export const SESSION_SECONDS = 12 * 60 * 60;
const SECRET_BYTES = 32;
/** The most wrong keys of one client in an hour. */
const FAILURES_MAX = 10;
const FAILURES_SECONDS = 60 * 60;

interface SessionsOptions {
  readonly database: Database;
  /** Those of the settings. */
  readonly apiKeys: readonly string[];
  /** Those that operators made. */
  readonly keys: Pick<NamedKeys, 'open' | 'openById'>;
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
  readonly #identifyKey: Identify;
  readonly #failures: Limit;

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.#identifyKey = knowKeys(options.apiKeys, options.keys);
    this.#failures = options.openLimit({
      name: 'console-sign-in',
      most: FAILURES_MAX,
      seconds: FAILURES_SECONDS,
    });
  }

  /**
   * Opens a session.
   *
   * @throws Refusal unauthorized, rate_limited after 10 wrong keys of one client in an hour, key_restricted where the key
   *   is not an operator's
   */
  async open({ apiKey, ip, requestId }: SignIn): Promise<OpenedSession> {
    const caller = await this.#identify(apiKey, clientKey(ip));
    if (caller.scope !== 'operator') {
      throw new Refusal('key_restricted', 'the console opens with the keys of operators alone');
    }
    const { actor, keyId } = caller;
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
          key_proof: keyId === undefined ? digest(secret, apiKey) : '',
          key_id: keyId ?? null,
          actor,
          expires_at: expiresAt,
        })
        .execute();
      await recordAudit(tx, { actor, requestId }, { action: 'console.sign_in', target: ip, at });
    });
    return { secret, caller, csrfToken: csrfTokenOf(secret), expiresAt };
  }

  /** The session that a secret opens, or undefined where it has ended or never existed. */
  async find(secret: string): Promise<ConsoleSession | undefined> {
    const { database, now } = this.#options;
    const row = await database.read
      .selectFrom('console_sessions')
      .select(['key_proof', 'key_id', 'actor', 'expires_at'])
      .where('secret_hash', '=', digest(secret))
      .where('expires_at', '>', now())
      .executeTakeFirst();
    const caller = row && (await this.#callerOf(secret, row));
    return caller && { caller, csrfToken: csrfTokenOf(secret), expiresAt: row.expires_at };
  }

  /** Who opened a session, as long as the key is valid. */
  async #callerOf(
    secret: string,
    { key_id, key_proof, actor }: Pick<Row<'console_sessions'>, 'key_id' | 'key_proof' | 'actor'>,
  ): Promise<Caller | undefined> {
    const { apiKeys, keys } = this.#options;
    if (key_id !== null) {
      const key = await keys.openById(key_id);
      return key && callerOf(key);
    }
    const isValid = apiKeys.some((key) => digest(secret, key) === key_proof);
    return isValid ? { ...OPERATOR_SCOPE, actor } : undefined;
  }

  /** Ends a session on all nodes: its secret is invalid from then on. */
  async end(secret: string): Promise<void> {
    await this.#options.database.write((tx) =>
      tx.deleteFrom('console_sessions').where('secret_hash', '=', digest(secret)).execute(),
    );
  }

  /** A failure is counted before the key is checked, so that attempts at the same time are all counted. */
  async #identify(apiKey: string, client: string): Promise<Caller> {
    const { exceeded, resetSeconds } = await this.#failures.take(client);
    if (exceeded) {
      throw new Refusal('rate_limited', 'too many sign-ins of this client failed', {
        retryAfter: resetSeconds,
      });
    }
    const caller = await this.#identifyKey(apiKey);
    await this.#failures.giveBack(client);
    return caller;
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
