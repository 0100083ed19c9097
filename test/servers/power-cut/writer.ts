/**
 * What power-cut.test.ts records: writes to a database through checkpoints, restarts of the log, a long
 * reader and a stop. Each transaction writes a body and its number; numbers go to the file `acks` as soon
 * as their transaction counts as written.
 */
import { openSync, writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { type Database, openSqlite } from '../../../src/platform/database/database.ts';
import { contentOf } from './look-at-disk.ts';

const [path = ''] = process.argv.slice(2);
const acks = openSync(`${path}-acks`, 'a');
let made = 0;

/** Transactions at the same time, and so in groups, until there are so many in all. */
async function writeUntil(database: Database, count: number): Promise<void> {
  const work = async () => {
    while (made < count) {
      const number = await database.write(async (tx) => {
        const last = await tx
          .updateTable('counters')
          .set((eb) => ({ value: eb('value', '+', 1) }))
          .where('name', '=', 'numbers')
          .returning('value')
          .executeTakeFirstOrThrow();
        const content = contentOf(last.value);
        await tx.insertInto('bodies').values({ size: last.value, content, file: null }).execute();
        return last.value;
      });
      made = Math.max(made, number);
      writeSync(acks, `${number}\n`);
    }
  };
  await Promise.all([work(), work(), work()]);
}

/** Moves its log at a fraction of the usual length. */
const open = () => openSqlite({ path, limits: { longLog: 96 * 1024 } });

let database = await open();
await writeUntil(database, 350);
// A reader keeps the log from starting anew, and lets go.
const reading = database.snapshot(async (tx) => {
  await tx.selectFrom('counters').selectAll().execute();
  await delay(300);
});
await writeUntil(database, 420);
await reading;
await writeUntil(database, 500);
await database.close();
database = await open();
await writeUntil(database, 600);
// As kill -9: what is left in the log stays there.
process.kill(process.pid, 'SIGKILL');
