/** Accounts and messages for tests that begin below the API. */
import { join } from 'node:path';
import { Bodies, BodyFolder } from '../../src/mailboxes/bodies/bodies.ts';
import {
  type Appended,
  type AppendTarget,
  describeMessage,
  EmbeddedMailstore,
  type MailUser,
  type StagedMessage,
  stageMessage,
} from '../../src/mailboxes/mailstore/mailstore.ts';
import type { Engine } from '../../src/platform/database/database.ts';
import { openTestDatabase, type TestDatabase } from './databases.ts';

export interface TestMailstore extends TestDatabase {
  readonly bodies: Bodies;
  readonly mailstore: EmbeddedMailstore;
  /** A new account with no mail. */
  makeUser(): Promise<MailUser>;
  stage(source: string | Uint8Array): Promise<StagedMessage>;
  /** Adds a staged message, in a transaction of its own. */
  append(message: StagedMessage, targets: readonly AppendTarget[]): Promise<Appended[]>;
}

export async function openTestMailstore(
  engine: Engine,
  now: () => number = Date.now,
  options: { readonly pageBytes?: number; readonly quotaBytes?: number } = {},
): Promise<TestMailstore> {
  const opened = await openTestDatabase(engine);
  const { database, directory } = opened;
  const bodies = new Bodies({ database, store: new BodyFolder(join(directory, 'bodies')) });
  await bodies.checkStore(true);
  const mailstore = new EmbeddedMailstore({
    database,
    bodies,
    idSecret: 'secret',
    now,
    ...options,
  });
  let users = 0;
  return {
    ...opened,
    bodies,
    mailstore,
    async makeUser() {
      users++;
      const name = `d${users}.test`;
      const accountId = await database.write(async (tx) => {
        const { id: domain_id } = await tx
          .insertInto('domains')
          .values({
            user_id: `user${users}`,
            organization_id: null,
            name,
            status: 'active',
            dkim_selector: 'test',
            dkim_private_key: 'none',
            created_at: 0,
            verified_at: 0,
            lapsed_at: null,
          })
          .returning('id')
          .executeTakeFirstOrThrow();
        const { id } = await tx
          .insertInto('accounts')
          .values({
            domain_id,
            domain_name: name,
            user_id: `user${users}`,
            local_part: 'ann',
            display_name: 'Ann',
            status: 'active',
            password_hash: 'none',
            credential_version: 1,
            tokens_from: 0,
            created_at: 0,
          })
          .returning('id')
          .executeTakeFirstOrThrow();
        return id;
      });
      return { accountId, address: `ann@${name}` };
    },
    stage: (source) => stageMessage(bodies, chunksOf(Buffer.from(source))),
    async append({ parsed, body }, targets) {
      const texts = await describeMessage(bodies, { parsed, body });
      return database.write(async (tx) => {
        const bodyId = await bodies.commit(tx, body);
        return mailstore.writer.append(tx, { ...texts, bodyId }, targets);
      });
    },
  };
}

/** Splits a source as a network would. */
async function* chunksOf(source: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < source.length; at += 16_384) yield source.subarray(at, at + 16_384);
}

/** A small message with the given subject. */
export function sampleMessage(subject: string): string {
  return `From: Bob <bob@example.test>\r\nTo: ann@d1.test\r\nSubject: ${subject}\r\n\r\nHello.\r\n`;
}
