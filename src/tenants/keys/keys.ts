/**
 * API keys that operators make: each has a name, a scope, and perhaps an end. Owns table `api_keys`, a row for each.
 *
 * A key is a prefix and 32 random bytes. It is shown once, and stored as its SHA-256: nobody guesses 256 bits, so the
 * hash need not be slow, and a key is found by an index. Each request reads its row. That costs less than keeping rows
 * in memory would be worth: a key that was revoked opens nothing from then on, on any node.
 *
 * The keys of the settings (`API_KEYS`, or the generated one) are not here.
 */
import { hash, randomBytes } from 'node:crypto';
import {
  type Database,
  type NewestPage,
  type NewRow,
  newestFirst,
  PreparedQuery,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import { type EpochMs, Outage } from '../../platform/time/time.ts';
import { hasHidden } from '../../protocols/message/message.ts';
import { type Actor, recordAudit } from '../audit/audit.ts';
import { checkText, checkUserId } from '../domains/domains.ts';

/** What a key may do. */
export interface KeyScope {
  /** `operator`: all of /v2. `product`: all but /v2/operator. */
  readonly scope: 'operator' | 'product';
  /** The only user whose things a product key sees. */
  readonly userId: string | undefined;
  /** The only organization whose things a product key sees. */
  readonly organizationId: string | undefined;
  readonly isReadOnly: boolean;
}

/** A key, without its secret. */
export interface Key extends KeyScope {
  readonly id: number;
  /** For people; several keys may have the same. */
  readonly name: string;
  /** As in the audit log. */
  readonly actor: string;
  readonly createdAt: EpochMs;
  /** Who made it, as in the audit log. */
  readonly createdBy: string;
  /** From then on it opens nothing. */
  readonly expiresAt: EpochMs | undefined;
  readonly revokedAt: EpochMs | undefined;
  /** Accurate to a minute. */
  readonly lastUsedAt: EpochMs | undefined;
}

export interface NewKey extends KeyScope {
  readonly name: string;
  readonly expiresAt: EpochMs | undefined;
}

export interface NamedKeysOptions {
  readonly database: Database;
  readonly logger: { warn(fields: object, message: string): void };
  /** The same on all nodes. */
  readonly now: () => EpochMs;
}

/** Found by programs that look for secrets in source code, and unlike the generated key of the settings (`pr_`). */
const PREFIX = 'prk_';
const SECRET_BYTES = 32;
const FORM = /^prk_[\w-]{43}$/;
const NAME_MAX = 100;
const ORGANIZATION_ID_MAX = 255;
/** Milliseconds between two writes of a key's last use. */
const USE_EVERY_MS = 60_000;

const bySecret = new PreparedQuery(({ hash }: { hash: string }, queries) =>
  queries.selectFrom('api_keys').selectAll().where('secret_hash', '=', hash),
);
const byId = new PreparedQuery(({ id }: { id: number }, queries) =>
  queries.selectFrom('api_keys').selectAll().where('id', '=', id),
);

export class NamedKeys {
  readonly #options: NamedKeysOptions;
  /** When the use of a key was last written here, so that a busy key is not written for each request. */
  readonly #writtenAt = new Map<number, EpochMs>();
  readonly #writes = new Set<Promise<void>>();
  readonly #outage: Outage;

  constructor(options: NamedKeysOptions) {
    this.#options = options;
    const line =
      'the last use of an API key could not be written: keys work, but show an older one';
    this.#outage = new Outage((err) => options.logger.warn({ err }, line));
  }

  /**
   * The key with a secret, which is used now.
   *
   * @returns undefined where there is no such key
   * @throws Refusal unauthorized where it was revoked or has ended: only who has the secret learns that
   */
  async open(secret: string): Promise<Key | undefined> {
    // Any other text costs no query.
    if (!FORM.test(secret)) return undefined;
    const row = await bySecret.first(this.#options.database.read, { hash: hash('sha256', secret) });
    if (!row) return undefined;
    const key = toKey(row);
    const end = endOf(key, this.#options.now());
    if (end) throw new Refusal('unauthorized', `the API key "${key.name}" ${end}`);
    this.#noteUse(key);
    return key;
  }

  /** The key of a session that it opened; undefined where it was revoked or has ended. */
  async openById(id: number): Promise<Key | undefined> {
    const row = await byId.first(this.#options.database.read, { id });
    const key = row && toKey(row);
    if (!key || endOf(key, this.#options.now())) return undefined;
    this.#noteUse(key);
    return key;
  }

  /** Lists keys, the newest first, also those that were revoked. */
  async list(page: NewestPage): Promise<Key[]> {
    const all = this.#options.database.read.selectFrom('api_keys').selectAll();
    return (await newestFirst(all, page).execute()).map(toKey);
  }

  /**
   * Makes a key.
   *
   * @returns it, and its secret, which cannot be read again
   * @throws Refusal invalid_request (`name`, `user_id`, `organization_id`, `expires_at`)
   */
  async create(wanted: NewKey, by: Actor): Promise<{ readonly key: Key; readonly secret: string }> {
    const at = this.#options.now();
    checkNew(wanted, at);
    const secret = `${PREFIX}${randomBytes(SECRET_BYTES).toString('base64url')}`;
    const row: NewRow<'api_keys'> = {
      name: wanted.name,
      secret_hash: hash('sha256', secret),
      scope: wanted.scope,
      user_id: wanted.userId ?? null,
      organization_id: wanted.organizationId ?? null,
      read_only: wanted.isReadOnly ? 1 : 0,
      created_at: at,
      created_by: by.actor,
      expires_at: wanted.expiresAt ?? null,
    };
    const key = await this.#options.database.write(async (tx) => {
      const made = await tx
        .insertInto('api_keys')
        .values(row)
        .returningAll()
        .executeTakeFirstOrThrow();
      const key = toKey(made);
      await recordAudit(tx, by, { action: 'key.create', target: key.actor, at });
      return key;
    });
    return { key, secret };
  }

  /**
   * Revokes a key: from then on it opens nothing, on all nodes. One that was revoked before is not changed.
   *
   * @throws Refusal key_not_found
   */
  revoke(id: number, by: Actor): Promise<Key> {
    return this.#options.database.write(async (tx) => {
      const at = this.#options.now();
      const revoked = await setRevoked(tx, id, at);
      if (revoked) {
        const key = toKey(revoked);
        await recordAudit(tx, by, { action: 'key.revoke', target: key.actor, at });
        return key;
      }
      const row = isId(id) ? await byId.first(tx, { id }) : undefined;
      if (!row) throw new Refusal('key_not_found', `there is no API key ${id}`);
      return toKey(row);
    });
  }

  /** Waits for the last uses that are being written. */
  async stop(): Promise<void> {
    await Promise.all(this.#writes);
  }

  /** Writes the use of a key, at most once a minute. The request does not wait for it. */
  #noteUse({ id, lastUsedAt = 0 }: Key): void {
    const at = this.#options.now();
    const written = Math.max(this.#writtenAt.get(id) ?? 0, lastUsedAt);
    if (at - written < USE_EVERY_MS) return;
    this.#writtenAt.set(id, at);
    const write = this.#options.database
      .write((tx) =>
        tx
          .updateTable('api_keys')
          .set({ last_used_at: at })
          .where('id', '=', id)
          // Another node may have written it meanwhile.
          .where((eb) =>
            eb.or([eb('last_used_at', 'is', null), eb('last_used_at', '<=', at - USE_EVERY_MS)]),
          )
          .execute(),
      )
      .then(
        () => this.#outage.worked(),
        (error: unknown) => this.#outage.failed(error),
      )
      .finally(() => this.#writes.delete(write));
    this.#writes.add(write);
  }
}

/** PostgreSQL refuses to compare an id with anything else. */
function isId(id: number): boolean {
  return Number.isSafeInteger(id);
}

function setRevoked(tx: Queries, id: number, at: EpochMs) {
  if (!isId(id)) return undefined;
  return tx
    .updateTable('api_keys')
    .set({ revoked_at: at })
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .returningAll()
    .executeTakeFirst();
}

/** Why a key opens nothing any more, or undefined. */
function endOf({ revokedAt, expiresAt }: Key, now: EpochMs): string | undefined {
  if (revokedAt !== undefined) return `was revoked at ${new Date(revokedAt).toISOString()}`;
  if (expiresAt === undefined || expiresAt > now) return undefined;
  return `ended at ${new Date(expiresAt).toISOString()}`;
}

function checkNew(wanted: NewKey, now: EpochMs): void {
  const { name, scope, userId, organizationId, expiresAt } = wanted;
  if (name.trim() !== name || name === '') {
    throw invalidField('name', 'must be text without spaces around it');
  }
  checkText('name', name, NAME_MAX);
  // It is shown in logs and at terminals, where it must not pass for anything else.
  if (/\p{Cc}/u.test(name) || hasHidden(name)) {
    throw invalidField('name', 'must not hold control characters or invisible ones');
  }
  if (userId !== undefined) checkUserId(userId);
  if (organizationId !== undefined) {
    checkText('organization_id', organizationId, ORGANIZATION_ID_MAX);
  }
  if (scope === 'operator' && (userId !== undefined || organizationId !== undefined)) {
    const field = userId === undefined ? 'organization_id' : 'user_id';
    throw invalidField(field, 'must be left out: a key of the scope operator is for all users');
  }
  if (userId !== undefined && organizationId !== undefined) {
    throw invalidField('organization_id', 'must be left out where user_id is given');
  }
  if (expiresAt !== undefined && expiresAt <= now) {
    throw invalidField('expires_at', 'must be in the future');
  }
}

function toKey(row: Row<'api_keys'>): Key {
  return {
    id: row.id,
    name: row.name,
    // The name for people, the id since several keys may have one name.
    actor: `${row.name} (key ${row.id})`,
    scope: row.scope,
    userId: row.user_id ?? undefined,
    organizationId: row.organization_id ?? undefined,
    isReadOnly: row.read_only === 1,
    createdAt: row.created_at,
    createdBy: row.created_by,
    expiresAt: row.expires_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
    lastUsedAt: row.last_used_at ?? undefined,
  };
}
