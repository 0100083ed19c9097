/**
 * Worker: fills a data folder with accounts and mail before the service starts on it, through the
 * mail store itself; accounts are written as rows, since thousands of argon2id hashes take minutes.
 */

import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Bodies, BodyFolder } from '../../src/mailboxes/bodies/bodies.ts';
import {
  describeMessage,
  EmbeddedMailstore,
  type MailUser,
  type StagedMessage,
  stageMessage,
} from '../../src/mailboxes/mailstore/mailstore.ts';
import {
  type Database,
  openPostgres,
  openSqlite,
  settingStore,
} from '../../src/platform/database/database.ts';
import { corpusMessage } from './corpus.ts';
import { insertDomain } from './domain.ts';
import { message20K, messageWithAttachment, smallMessage } from './messages.ts';
import { answerTasks } from './worker.ts';

type Mail = 'small' | '20 KB' | '5 MB attachment';

export interface AccountSeed {
  readonly mail?: Mail;
  readonly messages?: number;
  /** Messages of 20 KB that come after them. */
  readonly of20KB?: number;
  /** Each message goes to the accounts without messages, too: so rows lie as real delivery leaves them. */
  readonly interleaved?: true;
  /** Ends with 10 messages added, 20 updated and 5 removed after {@link SeededAccount.before}. */
  readonly changes?: true;
  /** Messages of the corpus for searches, from this number on, in place of `mail`. */
  readonly corpusFrom?: number;
}

export interface Seed {
  readonly dataDir: string;
  /** SQLite in the folder when left out. */
  readonly databaseUrl?: string | undefined;
  readonly accounts: readonly AccountSeed[];
}

export interface SeededAccount extends MailUser {
  readonly id: number;
  readonly uidvalidity: string;
  /** Sync token of the INBOX as it is. */
  readonly token: string;
  /** The one from before the last changes. */
  readonly before: string;
}

/** Appends under way at once: they share commits. */
const AT_ONCE = 512;
const ROWS_AT_ONCE = 500;
const INBOX = 'INBOX';
/** When the messages of the corpus came: in no order, over three years. */
const CORPUS_SINCE = Date.UTC(2023, 0, 1);
const CORPUS_STEP_MS = 15 * 60 * 1000;
const CORPUS_DATES = 100_003;

async function insertAccounts(database: Database, count: number): Promise<number[]> {
  const domain_id = await database.write(async (tx) => {
    const id = await insertDomain(tx);
    await tx.insertInto('routes').values({ domain_id: id, forward_mode: 'store' }).execute();
    await tx
      .insertInto('dns_records')
      .values({
        domain_id: id,
        purpose: 'dkim',
        record_type: 'TXT',
        host: 'bench._domainkey',
        expected_value: 'none',
        priority: null,
        status: 'verified',
        observed_value: null,
        detail: null,
        last_checked_at: null,
        failing_since: null,
        marked: 1,
      })
      .execute();
    return id;
  });
  const rows = Array.from({ length: count }, (_, index) => ({
    domain_id,
    domain_name: 'bench.test',
    user_id: 'bench',
    local_part: `a${index}`,
    display_name: '',
    status: 'active' as const,
    password_hash: 'none',
    credential_version: 1,
    created_at: 0,
  }));
  const ids: number[] = [];
  for (let at = 0; at < rows.length; at += ROWS_AT_ONCE) {
    const made = await database.write((tx) =>
      tx
        .insertInto('accounts')
        .values(rows.slice(at, at + ROWS_AT_ONCE))
        .returning('id')
        .execute(),
    );
    ids.push(...made.map(({ id }) => id));
  }
  return ids;
}

class Seeder {
  readonly #database: Database;
  readonly #bodies: Bodies;
  readonly #mailstore: EmbeddedMailstore;
  readonly #staged = new Map<Mail, Promise<StagedMessage[]>>();

  constructor(database: Database, bodies: Bodies, mailstore: EmbeddedMailstore) {
    this.#database = database;
    this.#bodies = bodies;
    this.#mailstore = mailstore;
  }

  /** @param others who get each message of an interleaved mailbox, too */
  async fill(user: MailUser, seed: AccountSeed, others: readonly MailUser[]) {
    const { mail = 'small', messages = 0, of20KB = 0, interleaved, changes, corpusFrom } = seed;
    const users = interleaved ? [user, ...others] : [user];
    if (corpusFrom !== undefined) await this.#appendCorpus(user, corpusFrom, messages);
    else if (messages > 0) await this.#append(users, await this.#stage(mail), messages);
    if (of20KB > 0) await this.#append(users, await this.#stage('20 KB'), of20KB);
    const { token: before } = await this.#inbox(user);
    if (changes) await this.#change(user);
    const { uidvalidity, token } = await this.#inbox(user);
    return { ...user, id: user.accountId, uidvalidity, token, before };
  }

  /** 10 added, 20 updated, 5 removed, spread over the mailbox. */
  async #change(user: MailUser): Promise<void> {
    await this.#append([user], await this.#stage('small'), 10);
    const spread = (count: number, from: number) =>
      Array.from({ length: count }, (_, index) => from + index * 1_000);
    await this.#mailstore.setFlags(
      user,
      { mailbox: INBOX, uids: spread(20, 17) },
      { add: ['\\Seen'] },
    );
    await this.#mailstore.expunge(user, { mailbox: INBOX, uids: spread(5, 500) });
  }

  async #append(users: MailUser[], staged: StagedMessage[], count: number): Promise<void> {
    const targets = users.map((user) => ({ user, mailbox: INBOX }));
    for (let at = 0; at < count; at += AT_ONCE) {
      const group = Array.from({ length: Math.min(AT_ONCE, count - at) }, async (_, index) => {
        const message = staged[(at + index) % staged.length];
        if (!message) throw new Error('nothing is staged');
        const texts = await describeMessage(this.#bodies, message);
        return this.#database.write(async (tx) => {
          const bodyId = await this.#bodies.commit(tx, message.body);
          return this.#mailstore.writer.append(tx, { ...texts, bodyId }, targets);
        });
      });
      await Promise.all(group);
    }
  }

  async #appendCorpus(user: MailUser, from: number, count: number): Promise<void> {
    for (let at = from; at < from + count; at += AT_ONCE) {
      const numbers = Array.from(
        { length: Math.min(AT_ONCE, from + count - at) },
        (_, n) => at + n,
      );
      await Promise.all(
        numbers.map(async (number) => {
          const message = await stageMessage(this.#bodies, chunksOf(corpusMessage(number)));
          const texts = await describeMessage(this.#bodies, message);
          const place = (number * 7_919) % CORPUS_DATES;
          const internalDate = CORPUS_SINCE + place * CORPUS_STEP_MS;
          await this.#database.write(async (tx) => {
            const bodyId = await this.#bodies.commit(tx, message.body);
            const target = { user, mailbox: INBOX, internalDate };
            await this.#mailstore.writer.append(tx, { ...texts, bodyId }, [target]);
          });
        }),
      );
    }
  }

  #stage(mail: Mail): Promise<StagedMessage[]> {
    const staged = this.#staged.get(mail) ?? this.#stageAnew(mail);
    this.#staged.set(mail, staged);
    return staged;
  }

  async #stageAnew(mail: Mail): Promise<StagedMessage[]> {
    const stage = (source: Buffer) => stageMessage(this.#bodies, chunksOf(source));
    if (mail === '5 MB attachment') return [await stage(messageWithAttachment(5 * 1024 * 1024))];
    const staged: StagedMessage[] = [];
    for (let index = 0; index < 100; index++) {
      staged.push(await stage(mail === '20 KB' ? message20K() : smallMessage(`Message ${index}`)));
    }
    return staged;
  }

  async #inbox(user: MailUser) {
    const [inbox] = await this.#mailstore.listMailboxes(user);
    if (!inbox) throw new Error('the account has no INBOX');
    return inbox;
  }
}

async function* chunksOf(source: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < source.length; at += 65_536) yield source.subarray(at, at + 65_536);
}

answerTasks(async ({ dataDir, databaseUrl, accounts }: Seed): Promise<SeededAccount[]> => {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const database =
    databaseUrl === undefined
      ? await openSqlite({ path: join(dataDir, 'postroom.sqlite') })
      : // Hundreds of writes wait for one of its connections.
        await openPostgres({ url: databaseUrl, timeoutMs: 600_000 });
  const bodies = new Bodies({ database, store: new BodyFolder(join(dataDir, 'bodies')) });
  await bodies.checkStore(true);
  const seeder = new Seeder(
    database,
    bodies,
    new EmbeddedMailstore({ database, bodies, idSecret: 'secret' }),
  );
  const ids = await insertAccounts(database, accounts.length);
  const users = ids.map((accountId, index) => ({ accountId, address: `a${index}@bench.test` }));
  const others = users.filter((_, index) => (accounts[index]?.messages ?? 0) === 0);
  const seeded: SeededAccount[] = [];
  for (let at = 0; at < users.length; at += AT_ONCE) {
    const group = users.slice(at, at + AT_ONCE);
    const filled = group.map((user, index) =>
      seeder.fill(user, accounts[at + index] ?? {}, others),
    );
    seeded.push(...(await Promise.all(filled)));
  }
  // A database with content starts only with secrets beside it; the service is given its own.
  const secrets = JSON.stringify({ jwtSecret: randomBytes(32).toString('base64url') });
  if (databaseUrl !== undefined) await settingStore(database, 'secrets').create(secrets);
  else writeFileSync(join(dataDir, 'secrets.json'), secrets, { mode: 0o600 });
  await database.close();
  return seeded;
});
