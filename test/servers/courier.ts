/**
 * Courier IMAP on a free loopback port, out of unpacked packages, with `deploy/courier/authProg` as
 * the way in. It has no CONDSTORE, no LMTP, and its mailboxes lie below INBOX with a dot between.
 *
 * Its paths are compiled in, so it runs in a mount namespace of its own, where /etc/courier and
 * /run/courier are folders of the test run; that takes root.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import {
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort } from '../support/free-port.ts';
import {
  endNamespace,
  MASTER,
  type MailServer,
  newPassword,
  ofItsOwn,
  runCommand,
  untilGreeting,
  untilTaken,
} from './mail-server.ts';
import { treeEnvironment, unpackPackages } from './unpack.ts';

const packages = ['courier-imap', 'courier-base', 'courier-authlib', 'courier-authdaemon'];
packages.push(
  'courier-authlib-pipe',
  'libcourier-unicode4',
  'libltdl7',
  'libidn12',
  'libgamin0',
  'libglib2.0-0',
  'libpcre3',
);

const AUTH_PROG = fileURLToPath(new URL('../../deploy/courier/authProg', import.meta.url));

/** @throws Error which names the packages that could not be had */
export const unpackCourier = (): Promise<string> => unpackPackages(packages);

/** What an operator changes in Courier's own `imapd` file, and why. */
const settings = {
  IMAP_CAPABILITY:
    'IMAP4rev1 UIDPLUS CHILDREN NAMESPACE THREAD=ORDEREDSUBJECT THREAD=REFERENCES SORT QUOTA ' +
    'AUTH=PLAIN IDLE',
  // As it comes, messages that lie in Trash for a week are deleted.
  IMAP_EMPTYTRASH: '',
  IMAP_CHECK_ALL_FOLDERS: '1',
  IMAP_KEYWORDS: '1',
  IMAP_ULIMITD: '131072',
  IMAP_USELOCKS: '1',
  IMAP_IDLE_TIMEOUT: '1',
  IMAP_ENHANCEDIDLE: '0',
  IMAP_TRASHFOLDERNAME: 'Trash',
  MAILDIRPATH: 'Maildir',
  PROTOCOL: 'IMAP',
  AUTHSERVICE: 'imap',
};

/**
 * In place of gamin, through which this Courier waits for another session to release a mailbox: gamin
 * loses that event now and then, and the command then takes two minutes. Without it, Courier looks
 * once a second.
 */
const NO_FAM = `
int FAMOpen(void *c) { return -1; }
int FAMClose(void *c) { return -1; }
int FAMMonitorDirectory(void *c, const char *n, void *r, void *u) { return -1; }
int FAMMonitorFile(void *c, const char *n, void *r, void *u) { return -1; }
int FAMCancelMonitor(void *c, const void *r) { return -1; }
int FAMNextEvent(void *c, void *e) { return -1; }
int FAMPending(void *c) { return -1; }
`;

/**
 * Runs inside the namespaces: both daemons, and whatever they start, end with this shell, which is
 * their PID 1. `unshare` itself heeds SIGKILL alone.
 */
const inside = (tree: string, directory: string, port: number) => `\
set -e
mount --bind ${directory}/etc /etc/courier
mount --bind ${directory}/run /run/courier
mount --bind ${directory}/vmail /var/vmail
mount --bind ${tree}/usr/lib/courier-authlib /usr/lib/courier-authlib
${tree}/usr/lib/courier/courier-authlib/authdaemond &
exec ${tree}/usr/sbin/couriertcpd -address=127.0.0.1 -maxprocs=500 -maxperip=500 \\
  -nodnslookup -noidentlookup ${port} \\
  ${tree}/usr/lib/courier/courier/imaplogin ${tree}/usr/bin/imapd Maildir
`;

/** Starts a Courier of its own; `stop` ends it and removes its folder. */
export async function startCourier(): Promise<MailServer> {
  const tree = await unpackCourier();
  const directory = await mkdtemp(join(tmpdir(), 'postroom-courier-'));
  await chmod(directory, 0o755);
  for (const name of ['etc', 'run/authdaemon', 'vmail', 'lib']) {
    await mkdir(join(directory, name), { recursive: true });
  }
  // Where the namespace mounts something; nothing is ever in these folders outside of it.
  for (const path of ['/etc/courier', '/run/courier', '/var/vmail', '/usr/lib/courier-authlib']) {
    await mkdir(path, { recursive: true });
  }
  const libraries = treeEnvironment(tree);
  const LD_LIBRARY_PATH = `${join(directory, 'lib')}:${libraries.LD_LIBRARY_PATH}`;
  const env = { ...libraries, ...settings, LD_LIBRARY_PATH };
  await runCommand('gcc', ['-shared', '-o', join(directory, 'lib/libfam.so.0'), '-x', 'c', '-'], {
    input: NO_FAM,
  });
  const password = newPassword();
  await placeConfiguration(tree, directory, password);
  const imapPort = await freePort();
  const launch = async () => {
    const options = ['--mount', '--pid', '--fork', '--kill-child=SIGKILL', 'sh', '-c'];
    const started = spawn('unshare', [...options, inside(tree, directory, imapPort)], {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
      ...ofItsOwn,
    });
    let said = '';
    started.stderr.setEncoding('utf8').on('data', (text: string) => {
      if (said.length < 100_000) said += text;
    });
    await untilGreeting(imapPort, started).catch((cause: unknown) => {
      throw new Error(`Courier did not start:\n${said}`, { cause });
    });
    // Till then it refuses every login.
    await untilTaken(join(directory, 'run/authdaemon/socket'));
    return started;
  };
  let server: ChildProcess = await launch();
  const maildirOf = (address: string) => {
    const [local = '', domain = ''] = address.split('@');
    return join(directory, 'vmail', domain, local);
  };
  return {
    name: 'courier',
    host: '127.0.0.1',
    modseq: false,
    imapPort,
    mailstoreUrl: `imap://${MASTER}:${password}@127.0.0.1:${imapPort}`,
    loginAs: (address) => ({ user: `${address}*${MASTER}`, pass: password }),
    async addAccount(address) {
      const maildir = maildirOf(address);
      await mkdir(maildir, { recursive: true });
      const make = join(tree, 'usr/bin/maildirmake.courier');
      await runCommand(make, [join(maildir, 'Maildir')], { env });
      for (const name of ['Sent', 'Drafts', 'Junk', 'Trash', 'Archive']) {
        await runCommand(make, ['-f', name, join(maildir, 'Maildir')], { env });
      }
      await runCommand('chown', ['-R', 'mail:mail', join(directory, 'vmail')]);
    },
    async resetUidValidity(address, mailbox) {
      const below = mailbox === 'INBOX' ? '' : `.${mailbox.replace(/^INBOX\./, '')}`;
      const file = join(maildirOf(address), 'Maildir', below, 'courierimapuiddb');
      const text = await readFile(file, 'utf8');
      // "<version> <UIDVALIDITY> <next UID>" is the first line; a UID and a file each of the others.
      const changed = text.replace(
        /^(\d+) (\d+)/,
        (_, version, old) => `${version} ${Number(old) + 1}`,
      );
      await writeFile(file, changed);
    },
    pause: () => endNamespace(server),
    async resume() {
      server = await launch();
    },
    async stop() {
      await endNamespace(server);
      await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

async function placeConfiguration(tree: string, directory: string, password: string) {
  const etc = join(directory, 'etc');
  for (const name of await readdir(join(tree, 'etc/courier'))) {
    const from = join(tree, 'etc/courier', name);
    if (name.endsWith('rc')) await copyFile(from, join(etc, name));
  }
  const daemon = await readFile(join(etc, 'authdaemonrc'), 'utf8');
  const modules = daemon.replace(/^authmodulelist=.*$/m, 'authmodulelist="authpipe"');
  await writeFile(join(etc, 'authdaemonrc'), modules);
  const program = await readFile(AUTH_PROG, 'utf8');
  await writeFile(join(etc, 'authProg'), program.replace("'vmail'", "'mail'"));
  await chmod(join(etc, 'authProg'), 0o755);
  const script = 'print crypt($ARGV[0], q($6$postroom$))';
  const hash = await runCommand('perl', ['-e', script, password]);
  await writeFile(join(etc, 'postroom-master'), `${MASTER}:${hash}\n`);
}

/** What is in the way of running it, beside missing packages; undefined when nothing is. */
export function courierObstacle(): string | undefined {
  if (process.getuid?.() !== 0) return 'Courier needs root for its mount namespace';
  const { status, stderr } = spawnSync('unshare', ['--mount', '--pid', '--fork', 'true']);
  return status === 0 ? undefined : `Courier needs a mount namespace: ${stderr}`;
}
