/**
 * What PostgreSQL does at most of the write that takes a message in: pgbench runs it from as many
 * connections, each statement prepared, for mailboxes chosen at random.
 */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';

const PROGRAM = ['/usr/lib/postgresql/17/bin/pgbench', '/usr/lib/postgresql/15/bin/pgbench'].find(
  existsSync,
);

/**
 * Writes the script of one message; its texts have the length of those that the service writes.
 *
 * @param path of the message
 */
export function writeScript(script: string, path: string): void {
  const hex = readFileSync(path).toString('hex');
  const texts = `repeat('e', 600), repeat('s', 500)`;
  const lines = [
    String.raw`\set account random(1, :accounts)`,
    'begin;',
    `insert into bodies (size, content) values (${hex.length / 2}, '\\x${hex}') returning id as body \\gset`,
    'update mailboxes set uidnext = uidnext + 1, highestmodseq = highestmodseq + 1, messages = messages + 1,' +
      ' unseen = unseen + 1, octets = octets + 20000' +
      " where account_id = :account and name = 'INBOX' returning id as mailbox, uidnext - 1 as uid, highestmodseq as modseq \\gset",
    'insert into messages (mailbox_id, uid, created_modseq, modseq, flags, size, internal_date, body_id,' +
      ' envelope, structure, preview, has_attachment, thread_id, message_key)' +
      ` values (:mailbox, :uid, :modseq, :modseq, '', 20000, 1700000000000, :body, ${texts}, repeat('p', 200), 0, 1, :body);`,
    'insert into search_queue (account_id, body_id, gone) values (:account, :body, 0);',
    'end;',
  ];
  writeFileSync(script, `${lines.join('\n')}\n`);
}

/** Transactions per second. */
export async function runPgbench(
  url: string,
  script: string,
  { clients, accounts, seconds }: { clients: number; accounts: number; seconds: number },
): Promise<number> {
  if (!PROGRAM) throw new Error('pgbench is not installed (Debian: postgresql-contrib)');
  const counts = ['-c', String(clients), '-j', '1', '-T', String(seconds)];
  const args = ['-n', '-M', 'prepared', ...counts, '-D', `accounts=${accounts}`, '-f', script, url];
  const { stdout } = await promisify(execFile)(PROGRAM, args);
  const found = /tps = ([\d.]+)/.exec(stdout)?.[1];
  if (found === undefined) throw new Error(`pgbench says nothing of its speed:\n${stdout}`);
  return Number(found);
}
