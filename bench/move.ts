/**
 * How long `postroom move` takes for a data folder of so many messages, to an empty database of the PostgreSQL server
 * of TEST_DATABASE_URL: `node bench/move.ts 100000`. The folder has messages of 12 KB, a line of the trace for each, and
 * three mailboxes for each account.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Client } from 'pg';
import { openSqlite } from '../src/platform/database/database.ts';
import { moveData } from '../src/run/move/move.ts';

const server = process.env.TEST_DATABASE_URL;
const messages = Number(process.argv[2] ?? '100000');
if (!server || !Number.isSafeInteger(messages)) {
  process.stderr.write('usage: TEST_DATABASE_URL=postgres://... node bench/move.ts MESSAGES\n');
  process.exit(2);
}
const OCTETS = 12_000;
const PER_MAILBOX = 200;

function fillFolder(file: string): void {
  const database = new DatabaseSync(file);
  const body = database.prepare('insert into bodies (size, content) values (?, ?)');
  const mailbox = database.prepare(
    'insert into mailboxes (account_id, name, uidvalidity, uidnext) values (?, ?, 1, ?)',
  );
  const message = database.prepare(
    "insert into messages values (?, ?, 1, 1, '\\Seen', ?, 1, ?, ?, ?, 'The first words', 0, 1, 1, 1)",
  );
  const trace = database.prepare(
    "insert into trace (at, mail_id, event, recipient, node) values (1, ?, 'stored', 'ada@acme.test', 'one')",
  );
  const envelope = JSON.stringify({ subject: 'About the meeting', from: 'x'.repeat(300) });
  const structure = JSON.stringify({ type: 'text/plain', part: '1', rest: 'y'.repeat(200) });
  database.exec('begin');
  for (let number = 0; number < messages; number++) {
    const box = Math.floor(number / PER_MAILBOX) + 1;
    const uid = (number % PER_MAILBOX) + 1;
    if (uid === 1) mailbox.run(Math.ceil(box / 3), `Mailbox ${box}`, PER_MAILBOX + 1);
    const { lastInsertRowid } = body.run(OCTETS, randomBytes(OCTETS));
    message.run(box, uid, OCTETS, Number(lastInsertRowid), envelope, structure);
    trace.run(`mail-${number}`);
  }
  database.exec('commit');
  database.close();
}

const folder = await mkdtemp(join(tmpdir(), 'postroom-bench-'));
const name = `bench_move_${randomBytes(4).toString('hex')}`;
const admin = new Client({ connectionString: server });
await admin.connect();
await admin.query(`create database ${name} encoding 'UTF8' template template0`);
const url = new URL(server);
url.pathname = `/${name}`;
try {
  const path = join(folder, 'postroom.sqlite');
  await (await openSqlite({ path })).close();
  fillFolder(path);
  const source = await openSqlite({ path });
  const begunAt = performance.now();
  let step = begunAt;
  const { rows } = await moveData({
    dataDir: folder,
    source,
    secrets: undefined,
    urls: [url.href],
    to: 'the bench',
    bodies: undefined,
    onProgress({ ended }) {
      if (ended === undefined) return;
      const now = performance.now();
      process.stdout.write(`${((now - step) / 1000).toFixed(1).padStart(6)} s  ${ended}\n`);
      step = now;
    },
  });
  const seconds = (performance.now() - begunAt) / 1000;
  await source.close();
  const size = (await stat(path)).size / 1e6;
  process.stdout.write(
    `${messages} messages, ${rows} rows, ${size.toFixed(0)} MB: ${seconds.toFixed(0)} s, ` +
      `${(process.resourceUsage().maxRSS / 1000).toFixed(0)} MB of memory\n`,
  );
} finally {
  await admin.query(`drop database if exists ${name} with (force)`);
  await admin.end();
  await rm(folder, { recursive: true });
}
