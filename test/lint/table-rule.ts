/**
 * Checks which folder's SQL names which table, part of `npm run lint`: the tables of a folder are named there alone.
 * `platform/database/schema.ts` says above each table whose it is. What is allowed beyond that is listed here, each
 * with its reason; an entry that nothing needs any more fails too. Tests and migrations may name any
 * table.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const source = join(fileURLToPath(new URL('../..', import.meta.url)), 'src');

/** Folder, and the tables of others that it names. */
const allowed: readonly { folder: string; tables: readonly string[]; reason: string }[] = [
  {
    folder: 'mailstore',
    tables: ['accounts'],
    reason:
      'a deletion of the account waits for its mailboxes, and its quota is compared in one query',
  },
  {
    folder: 'mail-server',
    tables: ['accounts'],
    reason: 'a deletion of the account waits for the shadows of its mailboxes',
  },
  {
    folder: 'mailstore',
    tables: ['bodies'],
    reason: 'what is indexed has its source in one query',
  },
  {
    folder: 'delivery',
    tables: ['bodies', 'messages', 'search_queue', 'trace'],
    reason:
      'the usual message is stored in one statement; the owners of the tables say which columns',
  },
  {
    folder: 'sending',
    tables: ['bodies', 'messages', 'search_queue', 'deliveries', 'delivery_payloads', 'trace'],
    reason: 'the same for the usual message from one account here to another',
  },
  {
    folder: 'sending',
    tables: ['mailboxes'],
    reason:
      'a restore renews the UIDVALIDITY by which mail that waits names its copy and its draft',
  },
  {
    folder: 'bodies',
    tables: ['messages', 'deliveries', 'imap_texts', 'imap_headers'],
    reason:
      'nothing may name a body that is removed: the removal asks in its own statement, and takes what was read of it along',
  },
  {
    folder: 'queue',
    tables: ['domains'],
    reason: 'a delivery that is leased while its domain is suspended is held, in one transaction',
  },
  {
    folder: 'accounts',
    tables: ['domains', 'deleted_domains'],
    reason: 'an account exists, and is open, only as its domain does and is',
  },
  {
    folder: 'accounts',
    tables: ['mailboxes'],
    reason: 'a sync reads the account and its mailbox in one query',
  },
  {
    folder: 'usage',
    tables: ['accounts', 'mailboxes'],
    reason: 'what all accounts store is measured in one query a day',
  },
  {
    folder: 'events',
    tables: ['accounts', 'domains'],
    reason: 'an event is written with its owner, in one statement',
  },
  {
    folder: 'search',
    tables: ['settings'],
    reason: 'the version of the index changes in the transaction that empties it',
  },
  {
    folder: 'backup',
    tables: ['console_sessions', 'remembered_logins'],
    reason: 'a restore ends every login of the time of the backup',
  },
  { folder: 'compose', tables: ['settings'], reason: 'readiness reads one row of any table' },
];

/** The folder of each table, from the comments of the schema. */
function readOwners(): Map<string, string> {
  const folder = join(source, 'platform/database');
  const text = readdirSync(folder)
    .filter((file) => /^schema(?:-\w+)?\.ts$/.test(file))
    .map((file) => readFileSync(join(folder, file), 'utf8'))
    .join('\n');
  const folders = new Map<string, string>();
  for (const [, folder = '', type = ''] of text.matchAll(
    /\/\*\* `([\w-]+)\/`(?:(?!\*\/)[\s\S])*\*\/\s*(?:export )?interface (\w+)/g,
  )) {
    folders.set(type, folder);
  }
  const owners = new Map<string, string>();
  for (const [, table = '', type = ''] of text.matchAll(/^ {2}(\w+): (\w+Table);$/gm)) {
    const folder = folders.get(type);
    if (folder === undefined) throw new Error(`schema.ts does not say whose ${table} is`);
    owners.set(table, folder);
  }
  return owners;
}

/** The tables that a file names in queries, by Kysely or as SQL. */
function tablesIn(text: string): Set<string> {
  const kysely =
    /\b(?:selectFrom|insertInto|insertFrom|updateTable|deleteFrom|innerJoin|leftJoin|using)\(\s*\[?\s*'(\w+)/g;
  const code = text.replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
  const found = [...code.matchAll(kysely)];
  if (/\bsql[<`]|\.(?:exec|prepare)\(/.test(code)) {
    found.push(...code.matchAll(/\b(?:from|join|into|update)\s+(\w+)\b/g));
  }
  return new Set(found.map(([, table = '']) => table));
}

const owners = readOwners();
const needed = new Set<string>();
const wrong: string[] = [];
const permits = new Set(
  allowed.flatMap(({ folder, tables }) => tables.map((table) => `${folder} ${table}`)),
);

for (const name of readdirSync(source, { recursive: true, encoding: 'utf8' })) {
  const file = name.replaceAll('\\', '/');
  const [, folder = '', ...rest] = file.split('/');
  if (!file.endsWith('.ts') || rest.length === 0) continue;
  if (/\.test\.ts$|\/migrations\//.test(file)) continue;
  for (const table of tablesIn(readFileSync(join(source, file), 'utf8'))) {
    const owner = owners.get(table);
    if (owner === undefined || owner === folder) continue;
    const permit = `${folder} ${table}`;
    if (permits.has(permit)) needed.add(permit);
    else wrong.push(`src/${file} names the table ${table}, which is ${owner}/'s alone`);
  }
}
for (const permit of permits) {
  if (!needed.has(permit))
    wrong.push(`test/lint/table-rule.ts allows what nothing needs: ${permit}`);
}
for (const line of wrong) process.stderr.write(`${line}\n`);
process.exitCode = wrong.length === 0 ? 0 : 1;
