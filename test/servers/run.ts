/**
 * `npm run test:servers`: what needs real servers, which are started on free loopback ports: the suites of this folder,
 * journeys on mail servers and on several nodes, and the suites of `npm test` that use the database, on a real
 * PostgreSQL. `npm run test:servers -- NAME...` runs those whose path contains a name (of journeys, whose title does).
 * A missing Debian package is named and fails the run: nothing is skipped. With `--packages` it names all that are
 * needed, and runs nothing.
 */
import { spawn } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { groupFiles, journeysTogether, runSuites } from '../suites.ts';
import { makeTemplate } from '../support/postgres-template.ts';
import { courierObstacle, unpackCourier } from './courier.ts';
import { unpackCyrus } from './cyrus.ts';
import { groupJourneys, pathsOnNodes } from './journeys.ts';
import { findPostgres, startPostgres } from './postgres.ts';
import { hasRedis } from './redis.ts';
import { bucketUrl, startS3 } from './s3.ts';

const DOVECOT_MODULES = '/usr/lib/dovecot/modules';

/** What has to be there, and the Debian package that brings it. */
const needed = [
  { package: 'postgresql', found: () => findPostgres() !== undefined },
  { package: 'redis-server', found: hasRedis },
  { package: 'pgbouncer', found: () => existsSync('/usr/sbin/pgbouncer') },
  { package: 'swaks', found: () => existsSync('/usr/bin/swaks') },
  { package: 'msmtp', found: () => onPath('msmtp') },
  {
    package: 'libnet-ssleay-perl',
    found: () => globSync('/usr/lib/*/perl5/*/Net/SSLeay.pm').length > 0,
  },
  { package: 'knot', found: () => existsSync('/usr/sbin/knotd') },
  { package: 'postfix', found: () => existsSync('/usr/sbin/postfix') },
  { package: 'opendkim', found: () => existsSync('/usr/sbin/opendkim') },
  { package: 'python3', found: () => onPath('python3') },
  { package: 'php-cli', found: () => onPath('php') },
  { package: 'dovecot-imapd', found: () => existsSync('/usr/lib/dovecot/imap') },
  { package: 'isync', found: () => onPath('mbsync') },
  { package: 'offlineimap3', found: () => onPath('offlineimap') },
  { package: 'neomutt', found: () => onPath('neomutt') },
  { package: 'getmail6', found: () => onPath('getmail') },
  { package: 'fetchmail', found: () => onPath('fetchmail') },
  { package: 'dovecot-lmtpd', found: () => existsSync('/usr/lib/dovecot/lmtp') },
  { package: 'dovecot-sqlite', found: () => existsSync(`${DOVECOT_MODULES}/libdriver_sqlite.so`) },
  { package: 'dovecot-pgsql', found: () => existsSync(`${DOVECOT_MODULES}/libdriver_pgsql.so`) },
  {
    package: 'chromium-headless-shell',
    found: () => existsSync('/usr/bin/chromium-headless-shell'),
  },
  { package: 'curl', found: () => onPath('curl') },
  { package: 'openssl', found: () => onPath('openssl') },
  { package: 'sqlite3', found: () => onPath('sqlite3') },
  { package: 'haproxy', found: () => existsSync('/usr/sbin/haproxy') },
  { package: 'nginx-light', found: () => existsSync('/usr/sbin/nginx') },
  { package: 'caddy', found: () => onPath('caddy') },
  { package: 'git', found: () => onPath('git') },
  { package: 'bsdutils', found: () => onPath('script') },
  { package: 'gcc', found: () => onPath('gcc') },
  { package: 'libc6-dev', found: () => existsSync('/usr/include/stdio.h') },
  { package: 'iproute2', found: () => onPath('ip') },
  { package: 'procps', found: () => onPath('pgrep') },
  { package: 'adduser', found: () => onPath('adduser') },
  { package: 'ceph-mon', found: () => onPath('ceph-mon') },
  { package: 'ceph-osd', found: () => onPath('ceph-osd') },
  { package: 'radosgw', found: () => onPath('radosgw') },
  { package: 'prometheus', found: () => onPath('promtool') },
  { package: 'rspamd', found: () => onPath('rspamd') },
  { package: 'systemd', found: () => onPath('systemd-analyze') },
];

/** Whether a command can be run. */
function onPath(command: string): boolean {
  const folders = (process.env.PATH ?? '').split(':');
  return folders.some((folder) => existsSync(`${folder}/${command}`));
}

/**
 * Suites that ask the database nothing that others do not ask on PostgreSQL too: what they are about is the same on
 * both engines. Journeys on three nodes, and nodes that are killed, run the same code on PostgreSQL.
 */
const ON_SQLITE_ALONE = [
  'src/mail/blocks/blocks',
  'src/mail/delivery/delivery',
  'src/mail/delivery/mail-server',
  'src/mail/queue/lanes',
  'src/mail/queue/queue-poller',
  'src/mail/queue/record-outcome',
  'src/mailboxes/mailstore/older-messages',
  'src/mailboxes/mailstore/opaque-ids',
  'src/mailboxes/mailstore/search-messages',
  'src/servers/api/mailserver-events',
  'src/servers/operator/attention',
  'src/servers/operator/keys',
  'src/servers/operator/sender-attention',
  'src/servers/operator/suspend',
  'src/tenants/accounts/login-limits',
  'src/tenants/usage/senders',
  'test/journeys/hostile-receivers',
  'test/journeys/missing-body',
].map((name) => `${name}.test.ts`);

/** The suites of `npm test` that run on PostgreSQL where there is a server. */
function databaseSuites(): string[] {
  const elsewhere = new Set([...ON_SQLITE_ALONE, ...pathsOnNodes]);
  return globSync(['src/**/*.test.ts', 'test/journeys/**/*.test.ts'])
    .filter((file) => !elsewhere.has(file))
    .filter((file) => /onEachEngine\(|TEST_DATABASE_URL/.test(readFileSync(file, 'utf8')))
    .toSorted();
}

function run(args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { stdio: 'inherit', env });
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? 1));
  });
}

/**
 * Suites that share a process: each would load the service, and Chromium where it has pages. Their services run until the
 * last of them ends, so that long ones stay alone.
 */
const together = {
  ...journeysTogether,
  'the console': browserSuites([
    'console-overview',
    'console-accounts',
    'console-lists',
    'console-queue',
    'console-sessions',
    'console-tasks',
  ]),
  'the webmail with its service': browserSuites([
    'webmail',
    'webmail-interrupted',
    'webmail-conversation',
  ]),
  'parts of the webmail': browserSuites(['webmail-reading', 'webmail-writing']),
  'the documentation': browserSuites(['site', 'site-reference']),
  'mail programs': suitesOf(['imap-other-programs', 'imap-programs', 'submission-programs']),
  'mail from and to other servers': suitesOf(['dns', 'outbound', 'rspamd']),
  'short suites': suitesOf(['dovecot-users', 'empty-postgres', 'reference-samples', 'rotate']),
};

function suitesOf(names: readonly string[]): string[] {
  return names.map((name) => `test/servers/${name}.test.ts`);
}

function browserSuites(names: readonly string[]): string[] {
  return suitesOf(names.map((name) => `browser/${name}`));
}

const names = process.argv.slice(2);
if (names.includes('--packages')) {
  process.stdout.write(`${needed.map((item) => item.package).join(' ')}\n`);
  process.exit(0);
}

const isWanted = (text: string) => names.length === 0 || names.some((name) => text.includes(name));
const files = [...globSync('test/servers/**/*.test.ts'), ...databaseSuites()].filter(isWanted);
const longest = [
  'test/servers/browser/site-pages.test.ts',
  'the console',
  'the webmail with its service',
  'the documentation',
  'test/servers/doc-samples.test.ts',
  'test/servers/package.test.ts',
  'test/servers/s3-service.test.ts',
  'test/servers/postgres-bad-days.test.ts',
  'test/servers/crash.test.ts',
  'test/servers/crash-postgres.test.ts',
  // It waits for most of a minute, and would do so alone at the end.
  'src/platform',
];
const journeys = groupJourneys().filter((group) => isWanted(group.name));
const suites = groupFiles(files, { longest, together });
// Nodes work more than they wait: journeys begin one by one between the others.
const groups = [
  ...suites.flatMap((suite, at) => [...journeys.slice(at, at + 1), suite]),
  ...journeys.slice(suites.length),
];
if (groups.length === 0) {
  console.error(`The path of no test file contains ${names.join(' or ')}.`);
  process.exit(1);
}

const missing = needed.filter(({ found }) => !found());
if (missing.length > 0) {
  const packages = missing.map((item) => item.package).join(' ');
  console.error(`These Debian packages are missing: ${packages}`);
  console.error(`Install them with: apt-get install ${packages}`);
  process.exit(1);
}

const obstacle = courierObstacle();
if (obstacle !== undefined) {
  console.error(obstacle);
  process.exit(1);
}
// Once for a machine; whoever cannot download says here which packages are missing.
await unpackCyrus();
await unpackCourier();

// Once, for all the suites that look at the documentation.
process.exitCode = await run(['docs/.vitepress/build.ts'], process.env);
if (process.exitCode !== 0) process.exit();
// The autovacuum would begin a process for each of some hundred databases a minute, none of which lives that long.
const postgres = await startPostgres(findPostgres() ?? '', ['autovacuum=off']);
// Once, for all nodes: it takes ten seconds. Suites that do something to the server start one of their own.
const s3 = await startS3();
try {
  const environment = {
    TEST_DATABASE_URL: postgres.url,
    TEST_DATABASE_TEMPLATE: await makeTemplate(postgres.url),
    TEST_S3_URL: bucketUrl(s3),
  };
  // Three at a time, also on two cores: those with real servers wait for them more than they work.
  const passed = await runSuites({ groups, processes: 3, timeoutMs: 600_000, environment });
  if (!passed) process.exitCode = 1;
} finally {
  await s3.stop();
  await postgres.stop();
}
