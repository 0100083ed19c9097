import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { CompiledQuery } from 'kysely';
import { openTestMailstore, type TestMailstore } from '../../../test/support/mail.ts';
import type { Queries } from '../../platform/database/database.ts';
import { OpaqueIds } from './opaque-ids.ts';
import { ChangeReader, type ChangeWindow } from './read-changes.ts';

const MESSAGE = 'From: a@b.test\r\nSubject: hello\r\n\r\nhello\r\n';

let store: TestMailstore;

before(async () => {
  store = await openTestMailstore('sqlite');
  const user = await store.makeUser();
  for (let count = 0; count < 3; count++) {
    const staged = await store.stage(MESSAGE);
    await store.append(staged, [{ user, mailbox: 'INBOX' }]);
  }
});

/** The plans of the queries on messages that a sync runs. */
async function plansOf(window: Partial<ChangeWindow>): Promise<string[]> {
  const { read } = store.database;
  const mailbox = await read
    .selectFrom('mailboxes')
    .select(['id', 'highestmodseq'])
    .where('name', '=', 'INBOX')
    .executeTakeFirstOrThrow();
  const plans: string[] = [];
  const seen: Queries = new Proxy(read, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name);
      if (name !== 'executeQuery')
        return typeof member === 'function' ? member.bind(target) : member;
      return async (query: CompiledQuery) => {
        const explained = { ...query, sql: `explain query plan ${query.sql}` };
        const { rows } = await read.executeQuery<{ detail: string }>(explained);
        plans.push(...rows.map(({ detail }) => detail).filter((line) => / messages /.test(line)));
        return read.executeQuery(query);
      };
    },
  });
  const { bodies } = store;
  const reader = new ChangeReader({
    queries: read,
    sources: { bodies, ids: new OpaqueIds('secret') },
    pageBytes: 1_000_000,
  });
  const page = await reader.read(seen, {
    mailboxId: mailbox.id,
    base: 0,
    snapshot: mailbox.highestmodseq,
    afterUid: 0,
    newest: false,
    limit: undefined,
    fields: [],
    between: async () => {},
    ...window,
  });
  assert.equal(page.added.length, 3);
  return plans;
}

test('a first sync reads no row: all that it returns is in the index', async () => {
  for (const fields of [[], ['flags']] as const) {
    const plans = await plansOf({ fields });
    assert.ok(plans.length > 0, 'messages were read');
    for (const plan of plans) assert.match(plan, /^SEARCH messages USING COVERING INDEX/);
  }
});
