/**
 * Logins that a browser remembers: a text that opens an account without its password, until it was not used for 30
 * days. Each use replaces it by the next text. If a replaced text is used again, somebody has copied it. Whether its
 * user is the owner or a thief, the login ends, and the password is needed again.
 *
 * A text is `<series>.<generation>.<signature>`. The database has the last generation of a series, and nothing that
 * opens an account: the signature is made with a key from the secret of tokens. A generation has only one text, so
 * that a client whose answer was lost gets the same next text again.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Logger } from 'pino';
import type { Database, Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { SigningKeys } from '../../platform/nodes/nodes.ts';
import type { Credentials } from './credentials.ts';

/** A login that was not used for this long ends. */
export const REMEMBERED_SECONDS = 30 * 24 * 60 * 60;
/** How long the text before the last is accepted as well: tabs renew at the same time, and answers get lost. */
const GRACE_MS = 60 * 1000;
/** The most logins of one account; the least recently used one is removed. */
const LOGINS_OF_ACCOUNT = 20;

interface RememberedText {
  readonly series: string;
  readonly generation: number;
}

/** The account of a text, and the text that replaces it. */
interface Renewal {
  readonly accountId: number;
  readonly credentialVersion: number;
  readonly next: string;
}

interface RememberedLoginsOptions {
  readonly database: Database;
  readonly secret: SigningKeys;
  readonly log: Pick<Logger, 'warn'>;
  readonly now: () => number;
}

const FORM = /^([\w-]{22})\.(\d{1,9})\.([\w-]{43})$/;

export class RememberedLogins {
  readonly #options: RememberedLoginsOptions;

  constructor(options: RememberedLoginsOptions) {
    this.#options = options;
  }

  /**
   * Begins a series for an account whose password was just given.
   *
   * @throws Refusal unauthorized where the password was reset, or the account suspended, meanwhile
   */
  async begin({ accountId, credentialVersion }: Credentials): Promise<string> {
    const series = randomBytes(16).toString('base64url');
    await this.#options.database.write(async (tx) => {
      const account = await tx
        .selectFrom('accounts')
        .select('id')
        .where('id', '=', accountId)
        .where('credential_version', '=', credentialVersion)
        .where('status', '=', 'active')
        .forShare()
        .executeTakeFirst();
      if (!account) throw new Refusal('unauthorized', 'the account changed during the login');
      await tx
        .insertInto('remembered_logins')
        .values({
          series,
          account_id: accountId,
          credential_version: credentialVersion,
          generation: 1,
          renewed_at: this.#options.now(),
        })
        .execute();
      await forgetAllBut(tx, accountId, LOGINS_OF_ACCOUNT);
    });
    return this.#write({ series, generation: 1 });
  }

  /**
   * Accepts a text and replaces it.
   *
   * @throws Refusal unauthorized where it was not made here, was replaced before, or is too old
   */
  async renew(text: string): Promise<Renewal> {
    const read = this.#read(text);
    const renewed = read && (await this.#options.database.write((tx) => this.#advance(tx, read)));
    if (!renewed) throw refuseRemembered();
    const { accountId, credentialVersion, ...next } = renewed;
    return { accountId, credentialVersion, next: this.#write(next) };
  }

  /** Ends a login; a text that was not made here is ignored. */
  async forget(text: string): Promise<void> {
    const read = this.#read(text);
    if (!read) return;
    await this.#options.database.write((tx) => remove(tx, read.series));
  }

  /** Removes logins that have ended; returns how many. */
  forgetOld(): Promise<number> {
    return this.#options.database.write(async (tx) => {
      const { numDeletedRows } = await tx
        .deleteFrom('remembered_logins')
        .where('renewed_at', '<=', this.#oldest())
        .executeTakeFirst();
      return Number(numDeletedRows);
    });
  }

  /** @returns undefined where the login has ended */
  async #advance(tx: Queries, { series, generation }: RememberedText) {
    const row = await tx
      .selectFrom('remembered_logins')
      .selectAll()
      .where('series', '=', series)
      .forUpdate()
      .executeTakeFirst();
    if (!row) return undefined;
    const { account_id: accountId, credential_version: credentialVersion } = row;
    const now = this.#options.now();
    if (row.renewed_at <= this.#oldest()) {
      await remove(tx, series);
      return undefined;
    }
    if (generation === row.generation) {
      const next = generation + 1;
      await tx
        .updateTable('remembered_logins')
        .set({ generation: next, renewed_at: now })
        .where('series', '=', series)
        .execute();
      return { accountId, credentialVersion, series, generation: next };
    }
    if (generation === row.generation - 1 && now < row.renewed_at + GRACE_MS) {
      return { accountId, credentialVersion, series, generation: row.generation };
    }
    this.#options.log.warn(
      { accountId },
      'a remembered login was used by two clients, so one of them has a copy: the login was ended',
    );
    await remove(tx, series);
    return undefined;
  }

  #oldest(): number {
    return this.#options.now() - REMEMBERED_SECONDS * 1000;
  }

  #write({ series, generation }: RememberedText): string {
    const signed = `${series}.${generation}`;
    return `${signed}.${sign(signed, this.#options.secret[0]).toString('base64url')}`;
  }

  /** @returns undefined for a text that was not made here: then the database is not asked */
  #read(text: string): RememberedText | undefined {
    const [, series = '', generation = '', signature = ''] = FORM.exec(text) ?? [];
    const given = Buffer.from(signature, 'base64url');
    const isOurs = this.#options.secret.some((secret) => {
      const expected = sign(`${series}.${generation}`, secret);
      return given.length === expected.length && timingSafeEqual(given, expected);
    });
    return isOurs ? { series, generation: Number(generation) } : undefined;
  }
}

/** With a separate key that is made from the secret of tokens. */
function sign(text: string, secret: string): Buffer {
  const key = createHmac('sha256', secret).update('remembered logins').digest();
  return createHmac('sha256', key).update(text).digest();
}

/** The refusal of a remembered login that has ended. */
export function refuseRemembered(): Refusal {
  return new Refusal('unauthorized', 'the login is not remembered any more: sign in again');
}

/** Ends the logins of an account, in the transaction that suspends it. */
export async function forgetLoginsOf(tx: Queries, accountId: number): Promise<void> {
  await forgetAllBut(tx, accountId, 0);
}

async function remove(tx: Queries, series: string): Promise<void> {
  await tx.deleteFrom('remembered_logins').where('series', '=', series).execute();
}

/** Keeps only the most recently used logins of an account. */
async function forgetAllBut(tx: Queries, accountId: number, kept: number): Promise<void> {
  const newest = tx
    .selectFrom('remembered_logins')
    .select('series')
    .where('account_id', '=', accountId)
    .orderBy('renewed_at', 'desc')
    .orderBy('series')
    .limit(kept);
  await tx
    .deleteFrom('remembered_logins')
    .where('account_id', '=', accountId)
    .where('series', 'not in', newest)
    .execute();
}
