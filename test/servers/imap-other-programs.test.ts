/** More mail programs of Debian: OfflineIMAP, NeoMutt, getmail and fetchmail on a mailbox of ours. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { promisify } from 'node:util';
import { polite, startScript } from '../support/lmtp-server.ts';
import type { TestAccount } from '../support/service.ts';
import { type ProgramBench, startForPrograms } from './mail-programs.ts';

const SUBJECTS = ['one', 'two', 'three'];

let bench: ProgramBench;
before(async () => {
  bench = await startForPrograms();
});

/** An account with three messages, a folder for its program, and how that is run. */
async function begin(name: string) {
  const account = await bench.service.makeAccount();
  await bench.append(account, SUBJECTS);
  const home = join(bench.folder, name);
  await mkdir(home);
  const env = { ...process.env, HOME: home, FETCHMAILHOME: home, TERM: 'xterm' };
  const run = async (command: string, args: readonly string[]) => {
    const running = promisify(execFile)(command, args, { env, cwd: home, timeout: 60_000 });
    // Nobody answers what a program asks.
    running.child.stdin?.end();
    return (await running).stdout;
  };
  const write = async (settings: string) => {
    const path = join(home, 'settings');
    await writeFile(path, settings, { mode: 0o600 });
    return path;
  };
  return { account, home, run, write };
}

/** Subjects in what a program was handed. */
const subjectsIn = (text: string) =>
  [...text.matchAll(/^Subject: (.*?)\r?$/gm)].map(([, subject = '']) => subject);

async function inboxOf(account: TestAccount): Promise<[uid: number, flags: readonly string[]][]> {
  return [...((await bench.service.look(account)).get('INBOX') ?? [])];
}

test('OfflineIMAP keeps a folder in step, both ways, and then has nothing to do', async () => {
  const { account, home, run, write } = await begin('offlineimap');
  const settings = await write(`[general]
accounts = postroom
metadata = ${home}/metadata
[Account postroom]
localrepository = near
remoterepository = far
[Repository near]
type = Maildir
localfolders = ${home}/Mail
[Repository far]
type = IMAP
remotehost = localhost
remoteport = ${bench.imapsPort}
remoteuser = ${account.address}
remotepass = ${account.password}
ssl = yes
sslcacertfile = ${bench.certificate}
`);
  const sync = () => run('offlineimap', ['-o', '-u', 'basic', '-c', settings]);
  await sync();
  const inbox = join(home, 'Mail', 'INBOX');
  const [first = '', second = '', ...others] = (await readdir(join(inbox, 'new'))).sort(
    (a, b) => uidIn(a) - uidIn(b),
  );
  assert.equal(others.length, 1);
  // One is read and starred here, one removed here, one is new here; one is removed there.
  await rename(join(inbox, 'new', first), join(inbox, 'cur', first.replace(/:2,.*$/, ':2,FS')));
  await rm(join(inbox, 'new', second));
  await writeFile(join(home, 'Mail', 'Drafts', 'new', '1.here'), 'Subject: here\n\nhere\n');
  const { service } = bench;
  await service.mail(account.token, 'POST', '/mail/delete', { mailbox: 'INBOX', uids: [3] });
  await sync();
  assert.deepEqual(await inboxOf(account), [[1, ['\\Flagged', '\\Seen']]]);
  const seen = await service.look(account);
  assert.equal(seen.get('Drafts')?.size, 1);
  assert.deepEqual(await readdir(join(inbox, 'new')), []);
  await sync();
  assert.deepEqual(await service.look(account), seen);
});

/** OfflineIMAP writes the UID into the name of a file. */
function uidIn(file: string): number {
  return Number(/,U=(\d+),/.exec(file)?.[1]);
}

test('NeoMutt reads headers, sets a flag, and finds from its cache what changed', async () => {
  const { account, home, run, write } = await begin('neomutt');
  const at = `imaps://localhost:${bench.imapsPort}`;
  const settings = await write(`set folder="${at}/" spoolfile="${at}/INBOX"
set imap_user="${account.address}" imap_pass="${account.password}"
set certificate_file="${bench.certificate}"
set header_cache="${home}/cache" imap_qresync=yes
set wait_key=no quit=yes sleep_time=0 mark_old=no
`);
  /** Types keys, at the messages of INBOX. NeoMutt works at a terminal only. */
  const type = async (keys: string) => {
    const all = `<tag-pattern>~A<enter><tag-prefix><pipe-message>cat > ${home}/seen<enter>${keys}<sync-mailbox><quit>`;
    const command = `neomutt -n -F ${settings} -e 'push "${all}"'`;
    await run('script', ['-qec', command, '/dev/null']);
    return subjectsIn(await readFile(join(home, 'seen'), 'utf8'));
  };
  assert.deepEqual(
    await type('<untag-pattern>~A<enter><search>~s two<enter><flag-message>'),
    SUBJECTS,
  );
  assert.deepEqual((await inboxOf(account))[1], [2, ['\\Flagged']]);
  const { service } = bench;
  await service.mail(account.token, 'POST', '/mail/delete', { mailbox: 'INBOX', uids: [1] });
  await bench.append(account, ['four']);
  assert.deepEqual(await type(''), ['two', 'three', 'four']);
  const seen = await inboxOf(account);
  assert.deepEqual(await type(''), ['two', 'three', 'four']);
  assert.deepEqual(await inboxOf(account), seen);
});

test('getmail hands over what is new, leaves it on the server, and removes it where asked', async () => {
  const { account, home, run, write } = await begin('getmail');
  // To a program it may hand over a message and then wait for a minute, because it forgets one that ends at once.
  const receiver = await startScript(polite);
  const get = async (...options: string[]) => {
    const settings = await write(`[retriever]
type = SimpleIMAPSSLRetriever
server = localhost
port = ${bench.imapsPort}
username = ${account.address}
password = ${account.password}
ca_certs = ${bench.certificate}
[destination]
type = MDA_lmtp
host = 127.0.0.1
port = ${receiver.port}
override = ann@agent.test
[options]
read_all = false
`);
    return run('getmail', ['-g', home, '-r', settings, ...options]);
  };
  assert.match(await get(), /3 messages \(\d+ bytes\) retrieved, 0 skipped/);
  assert.match(await get(), /0 messages \(0 bytes\) retrieved, 3 skipped/);
  await bench.append(account, ['four']);
  assert.match(await get('--delete'), /1 messages \(\d+ bytes\) retrieved, 3 skipped/);
  const received = receiver.messages.flatMap(subjectsIn);
  assert.deepEqual(received, [...SUBJECTS, 'four']);
  assert.deepEqual(await inboxOf(account), []);
});

test('fetchmail hands over what is new, leaves it on the server, and removes it where asked', async () => {
  const { account, home, run, write } = await begin('fetchmail');
  const settings = await write(`poll localhost service ${bench.imapsPort} protocol imap
  user "${account.address}" password "${account.password}"
  ssl sslcertck sslcertfile "${bench.certificate}"
  mda "cat >> ${home}/mbox"
`);
  const get = (...options: string[]) =>
    run('fetchmail', ['-f', settings, '--pidfile', join(home, 'pid'), ...options]);
  const delivered = async () => subjectsIn(await readFile(join(home, 'mbox'), 'utf8'));
  await get('--keep');
  assert.deepEqual(await delivered(), SUBJECTS);
  assert.deepEqual(
    await inboxOf(account),
    [1, 2, 3].map((uid) => [uid, ['\\Seen']]),
  );
  // 1: there was no mail to fetch.
  await assert.rejects(get('--keep'), { code: 1 });
  await bench.append(account, ['four']);
  await get('--nokeep');
  assert.deepEqual(await delivered(), [...SUBJECTS, 'four']);
  assert.deepEqual(
    (await inboxOf(account)).map(([uid]) => uid),
    [1, 2, 3],
  );
});
