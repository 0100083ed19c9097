import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { atEnd } from '../../../test/support/at-end.ts';
import { openTestDatabase } from '../../../test/support/databases.ts';
import { beginAs } from '../../../test/support/older-schema.ts';
import { migrate } from './migrate.ts';

const skip = process.env.TEST_DATABASE_URL === undefined && 'TEST_DATABASE_URL is not set';
/** At any time, some of them have a transaction open. */
const SENDERS = 5;
/** After so many tries of the migration the mail ends, so that the test does. */
const TRIES = 3;

suite('mail that never stops', { skip }, () => {
  test('does not keep several migrations from their tables', async () => {
    const { database, location } = await openTestDatabase('postgres');
    // From here on, one migration changes the table of the trace, and a later one refers to that of bodies.
    await beginAs('0004', database, ["insert into settings (name, value) values ('one', '')"]);
    let isOver = false;
    let written = 0;
    const send = async () => {
      const client = new Client({ connectionString: location });
      await client.connect();
      atEnd(() => client.end());
      while (!isOver) {
        try {
          await client.query('begin');
          await client.query('insert into bodies (size) values (1)');
          // As they wait for the row of a mailbox: PostgreSQL ends one deadlock a second, and then the next has the row.
          await client.query("update settings set value = '' where name = 'one'");
          await client.query(
            "insert into trace (at, mail_id, event, node) values (1, 'm', 'e', 'n')",
          );
          await client.query('commit');
          written++;
        } catch {
          // It waited for the migration, and the migration for it.
          await client.query('rollback');
        }
      }
    };
    const sending = Array.from({ length: SENDERS }, send);
    while (written < SENDERS) await pause(5);
    const lockedOut: string[] = [];
    await migrate(database.read, 'postgres', (line) => {
      if (line.includes('a table was in use')) lockedOut.push(line);
      isOver ||= lockedOut.length === TRIES;
    });
    isOver = true;
    await Promise.all(sending);
    assert.ok(lockedOut.length < TRIES, lockedOut.join('\n'));
  });
});
