/**
 * Passwords of mail programs: each has a name, opens its account by IMAP and submission, and is revoked alone. It opens
 * nothing else.
 *
 * A password is 20 random characters in five groups, some 99 bits. Nobody guesses those, so it is stored as its SHA-256,
 * and opening an account by it costs one query. A new password of the account ends its app passwords too: it is set
 * where somebody may have learned what opens the account.
 */
import { hash, randomInt } from 'node:crypto';
import type { Changes } from '../../mailboxes/changes/changes.ts';
import {
  type Database,
  type InTransaction,
  PreparedQuery,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { type Actor, recordAudit } from '../audit/audit.ts';
import type { Whose } from '../domains/domains.ts';
import { checkShownName } from './display-names.ts';
import { lockAccount, readAccount } from './owned-accounts.ts';

/** The ways into an account that take its app passwords. */
export type MailProtocol = NonNullable<Row<'app_passwords'>['last_used_by']>;

/** An app password, without the password. */
export interface AppPassword {
  readonly id: number;
  /** For people; several may have the same. */
  readonly name: string;
  readonly createdAt: EpochMs;
  /** Accurate to a minute; undefined where it was never used. */
  readonly lastUsed: { readonly at: EpochMs; readonly by: MailProtocol } | undefined;
}

/** An app password that was just made; it cannot be read again. */
export interface NewAppPassword {
  readonly appPassword: AppPassword;
  readonly password: string;
}

interface AppPasswordsOptions {
  readonly database: Database;
  /** Called after the commit with a password that opens nothing any more. */
  readonly changes: Pick<Changes, 'publish'>;
  readonly now?: () => EpochMs;
}

/** Of one account. */
const MOST = 20;
/** Small letters and digits that look different in every typeface: a phone types them without changing its keyboard. */
const ALPHABET = 'abcdefghjkmnpqrstuvwxyz23456789';
const LENGTH = 20;
const GROUP = 4;
const FORM = /^[a-hjkmnp-z2-9]{20}$/;
/** Milliseconds between two writes of a password's last use. */
const USE_EVERY_MS = 60_000;

/** Every function sees only the owner's accounts. */
export class AppPasswords {
  readonly #database: Database;
  readonly #changes: Pick<Changes, 'publish'>;
  readonly #now: () => EpochMs;

  constructor({ database, changes, now }: AppPasswordsOptions) {
    this.#database = database;
    this.#changes = changes;
    this.#now = now ?? Date.now;
  }

  /** Ordered by id. @throws Refusal account_not_found */
  async list(whose: Whose, accountId: number): Promise<AppPassword[]> {
    const { id } = await readAccount(this.#database.read, whose, accountId);
    const rows = await this.#database.read
      .selectFrom('app_passwords')
      .selectAll()
      .where('account_id', '=', id)
      .orderBy('id')
      .execute();
    return rows.map(toAppPassword);
  }

  /**
   * @param by who is named in the audit log
   * @param within runs in the transaction; the same below
   * @throws Refusal account_not_found, invalid_request (`name`)
   */
  async create(
    whose: Whose,
    accountId: number,
    name: string,
    by: Actor,
    within?: InTransaction<NewAppPassword>,
  ): Promise<NewAppPassword> {
    checkName(name);
    const secret = Array.from({ length: LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]);
    const groups = Array.from({ length: LENGTH / GROUP }, (_, at) =>
      secret.slice(at * GROUP, (at + 1) * GROUP).join(''),
    );
    const row = { name, secret_hash: hash('sha256', secret.join('')), created_at: this.#now() };
    return this.#database.write(async (tx) => {
      await lockAccount(tx, accountId);
      const account = await readAccount(tx, whose, accountId);
      await refuseTooMany(tx, account.id);
      const made = await tx
        .insertInto('app_passwords')
        .values({ ...row, account_id: account.id })
        .returningAll()
        .executeTakeFirstOrThrow();
      await recordAudit(tx, by, entryOf('create', account.address, made));
      const shown = { appPassword: toAppPassword(made), password: groups.join('-') };
      await within?.(tx, shown);
      return shown;
    });
  }

  /**
   * Revokes a password: from then on it opens nothing, and the sessions that it opened end, on all nodes.
   *
   * @throws Refusal account_not_found, app_password_not_found
   */
  async remove(
    whose: Whose,
    accountId: number,
    id: number,
    by: Actor,
    within?: InTransaction<AppPassword>,
  ): Promise<AppPassword> {
    const removed = await this.#database.write(async (tx) => {
      const account = await readAccount(tx, whose, accountId);
      const row = Number.isSafeInteger(id)
        ? await tx
            .deleteFrom('app_passwords')
            .where('id', '=', id)
            .where('account_id', '=', account.id)
            .returningAll()
            .executeTakeFirst()
        : undefined;
      if (!row) {
        throw new Refusal('app_password_not_found', `the account has no app password ${id}`);
      }
      const entry = entryOf('delete', account.address, row);
      await recordAudit(tx, by, { ...entry, at: this.#now() });
      const shown = toAppPassword(row);
      await within?.(tx, shown);
      return shown;
    });
    const which = { by: 'app_password', id: String(id) } as const;
    this.#changes.publish({ kind: 'mail_sessions', accountId, ...which });
    return removed;
  }
}

function entryOf(verb: 'create' | 'delete', address: string, row: Row<'app_passwords'>) {
  const { id, name, created_at: at } = row;
  return { action: `app_password.${verb}`, target: `${address}: ${name} (${id})`, at };
}

async function refuseTooMany(tx: Queries, accountId: number): Promise<void> {
  const { count } = await tx
    .selectFrom('app_passwords')
    .select(({ fn }) => fn.countAll().as('count'))
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow();
  if (Number(count) < MOST) return;
  throw invalidField('name', `cannot be added: the account already has ${MOST} app passwords`);
}

function checkName(name: string): void {
  if (name.trim() !== name || name === '') {
    throw invalidField('name', 'must be text without spaces around it');
  }
  checkShownName('name', name);
}

function toAppPassword(row: Row<'app_passwords'>): AppPassword {
  const { id, name, created_at: createdAt, last_used_at: at, last_used_by: by } = row;
  return { id, name, createdAt, lastUsed: at === null || by === null ? undefined : { at, by } };
}

const bySecret = new PreparedQuery(
  ({ accountId, hash }: { accountId: number; hash: string }, queries) =>
    queries
      .selectFrom('app_passwords')
      .select(['id', 'last_used_at'])
      .where('account_id', '=', accountId)
      .where('secret_hash', '=', hash),
);

/** An app password that was given at a login. */
export interface GivenAppPassword {
  readonly id: number;
  /** Records that it was used, where that was not done in the last minute. */
  noteUse(by: MailProtocol): Promise<void>;
}

/**
 * The app password of an account that a client gave; people leave out dashes, add spaces, and phones write a capital.
 *
 * @returns undefined where the text is none
 */
export async function findAppPassword(
  database: Database,
  accountId: number,
  given: string,
  now: EpochMs,
): Promise<GivenAppPassword | undefined> {
  // Any other text costs no query.
  if (given.length > 2 * LENGTH) return undefined;
  const secret = given.replaceAll(/[\s-]/g, '').toLowerCase();
  if (!FORM.test(secret)) return undefined;
  const row = await bySecret.first(database.read, { accountId, hash: hash('sha256', secret) });
  if (!row) return undefined;
  return {
    id: row.id,
    async noteUse(by) {
      const before = now - USE_EVERY_MS;
      if (row.last_used_at !== null && row.last_used_at > before) return;
      await database.write((tx) =>
        tx
          .updateTable('app_passwords')
          .set({ last_used_at: now, last_used_by: by })
          .where('id', '=', row.id)
          .execute(),
      );
    },
  };
}

/** Which app passwords still open their account. */
export async function findAppPasswordsThere(
  queries: Queries,
  ids: readonly number[],
): Promise<Set<number>> {
  if (ids.length === 0) return new Set();
  const rows = await queries
    .selectFrom('app_passwords')
    .select('id')
    .where('id', 'in', ids)
    .execute();
  return new Set(rows.map(({ id }) => id));
}

/** Ends the app passwords of an account, in the transaction that sets its password. */
export async function forgetAppPasswordsOf(tx: Queries, accountId: number): Promise<void> {
  await tx.deleteFrom('app_passwords').where('account_id', '=', accountId).execute();
}
