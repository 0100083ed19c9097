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

/** Writes the script of one message of 2 KB from an account to another one: its copy, its delivery, and what is told of both. */
export function writeSendScript(script: string): void {
  const stored = (account: string, name: string) => [
    `insert into bodies (size, content) values (2500, convert_to(repeat('m', 2500), 'UTF8')) returning id as body \\gset`,
    'update mailboxes set uidnext = uidnext + 1, highestmodseq = highestmodseq + 1, messages = messages + 1, octets = octets + 2500' +
      ` where account_id = ${account} and name = '${name}' returning id as mailbox, uidnext - 1 as uid, highestmodseq as modseq \\gset`,
    'insert into messages (mailbox_id, uid, created_modseq, modseq, flags, size, internal_date, body_id,' +
      ' envelope, structure, preview, has_attachment, thread_id, message_key)' +
      " values (:mailbox, :uid, :modseq, :modseq, '', 2500, 1700000000000, :body, repeat('e', 400), repeat('s', 200), repeat('p', 200), 0, 1, :body);",
    `insert into search_queue (account_id, body_id, gone) values (${account}, :body, 0);`,
  ];
  const event = (account: string) =>
    'insert into events (user_id, organization_id, type, account_id, data, created_at)' +
    ` select domains.user_id, domains.organization_id, 'message.sent', accounts.id, repeat('d', 200), 1700000000000` +
    ` from accounts inner join domains on domains.id = accounts.domain_id where accounts.id = ${account};`;
  const counted = (account: string) => [
    'insert into usage_days (day, domain, user_id, account_id, email, messages_in)' +
      ` select 1, domain_name, user_id, id, local_part, 1 from accounts where id = ${account}` +
      ' on conflict (day, domain, user_id, account_id) do update set messages_in = usage_days.messages_in + 1;',
    `insert into usage_hours (hour, domain_id, account_id, messages_in) select 1, domain_id, id, 1 from accounts where id = ${account}` +
      ' on conflict (hour, domain_id, account_id) do update set messages_in = usage_hours.messages_in + 1;',
  ];
  const lines = [
    String.raw`\set sender random(1, :accounts / 2)`,
    String.raw`\set account :sender + :accounts / 2`,
    'begin;',
    'select id from accounts where id = :sender for no key update;',
    ...stored(':sender', 'Sent'),
    'insert into sends (public_id, account_id, domain_id, message_id, body_id, mailbox, uid, uidvalidity, recipients, created_at)' +
      " values (gen_random_uuid(), :sender, 1, gen_random_uuid(), :body, 'Sent', :uid, '1', 1, 1700000000000) returning id as send \\gset",
    'insert into deliveries (kind, domain_id, destination, sender, body_id, public_id, status, next_attempt_at, attempts, created_at, updated_at)' +
      " values ('send', 1, 'bench.test', '1/1/u', :body, gen_random_uuid(), 'delivered', 1, 1, 1, 1) returning id as delivery \\gset",
    "insert into delivery_payloads (delivery_id, payload) values (:delivery, repeat('p', 250));",
    "insert into send_recipients (send_id, delivery_id, status, address) values (:send, :delivery, 'delivered', 'a@bench.test');",
    event(':sender'),
    event(':sender'),
    ...stored(':account', 'INBOX'),
    event(':account'),
    "insert into trace (at, mail_id, event, sender, recipient, node, more) values (1, gen_random_uuid(), 'submitted', 'a@b', 'b@b', 'n', repeat('m', 200));",
    ...counted(':sender'),
    ...counted(':account'),
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
