/**
 * Cyrus IMAP on free loopback ports, out of unpacked packages. Postroom is a `proxyservers` user: it
 * logs in as itself with an account as SASL PLAIN authorization identity. Mailboxes are made by
 * `autocreate`, at the first login or delivery.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { ImapFlow } from 'imapflow';
import { freePort } from '../support/free-port.ts';
import {
  endProcess,
  type Login,
  MASTER,
  type MailServer,
  newPassword,
  runCommand,
  untilGreeting,
  untilRefused,
} from './mail-server.ts';
import { libraryFolders, treeEnvironment, unpackPackages } from './unpack.ts';

const packages = ['cyrus-common', 'cyrus-imapd', 'sasl2-bin', 'libsasl2-modules'];
packages.push('libsasl2-modules-db', 'libxapian30', 'libpcre3', 'libical3', 'libjansson4');

/** @throws Error which names the packages that could not be had */
export const unpackCyrus = (): Promise<string> => unpackPackages(packages);

const root = process.getuid?.() === 0;
/** Cyrus never runs as root; a user of every Debian machine. */
const owner = root ? 'mail' : userInfo().username;

const imapdConf = (directory: string, plugins: string) => `\
configdirectory: ${directory}/conf
defaultpartition: default
partition-default: ${directory}/spool
cyrus_user: ${owner}
cyrus_group: ${owner}
servername: localhost
virtdomains: userid
defaultdomain: localhost
unixhierarchysep: yes
altnamespace: yes
proxyservers: ${MASTER}
sasl_pwcheck_method: auxprop
sasl_auxprop_plugin: sasldb
sasl_sasldb_path: ${directory}/sasldb2
sasl_path: ${plugins}
sasl_mech_list: PLAIN
allowplaintext: yes
failedloginpause: 0
lmtp_downcase_rcpt: yes
munge8bit: no
autocreate_quota: 0
autocreate_post: yes
autocreate_inbox_folders: Sent|Drafts|Junk|Trash|Archive
autocreate_subscribe_folders: Sent|Drafts|Junk|Trash|Archive
xlist-sent: Sent
xlist-drafts: Drafts
xlist-junk: Junk
xlist-trash: Trash
xlist-archive: Archive
specialusealways: 1
`;

const cyrusConf = (bin: string, directory: string, imapPort: number, lmtpPort: number) => `\
START {
  recover cmd="${bin}/ctl_cyrusdb -C ${directory}/imapd.conf -r"
}
SERVICES {
  imap cmd="${bin}/imapd -C ${directory}/imapd.conf" listen="127.0.0.1:${imapPort}" prefork=1 maxchild=500
  lmtp cmd="${bin}/lmtpd -C ${directory}/imapd.conf -a" listen="127.0.0.1:${lmtpPort}" maxchild=50
}
EVENTS {
}
`;

export interface CyrusServer extends MailServer {
  readonly lmtpUrl: string;
  readonly lmtpPort: number;
}

/** Starts a Cyrus of its own; `stop` ends it and removes its folder. */
export async function startCyrus(): Promise<CyrusServer> {
  const tree = await unpackCyrus();
  const env = treeEnvironment(tree);
  const bin = join(tree, 'usr/lib/cyrus/bin');
  const directory = await mkdtemp(join(tmpdir(), 'postroom-cyrus-'));
  await chmod(directory, 0o755);
  // Without conf/db every open recovers, and so rewrites, the databases.
  for (const name of ['conf/db', 'conf/proc', 'conf/socket', 'conf/log', 'conf/msg', 'spool']) {
    await mkdir(join(directory, name), { recursive: true });
  }
  const imapPort = await freePort();
  const lmtpPort = await freePort();
  const plugins = libraryFolders(tree)
    .map((folder) => join(folder, 'sasl2'))
    .join(':');
  const configuration = join(directory, 'imapd.conf');
  await writeFile(configuration, imapdConf(directory, plugins));
  const services = join(directory, 'cyrus.conf');
  await writeFile(services, cyrusConf(bin, directory, imapPort, lmtpPort));
  const setPassword = (user: string, realm: string, password: string) => {
    const args = ['-f', join(directory, 'sasldb2'), '-c', '-p', '-u', realm, user];
    return runCommand(join(tree, 'usr/sbin/saslpasswd2'), args, { input: password, env });
  };
  const password = newPassword();
  await setPassword(MASTER, 'localhost', password);
  if (root) await runCommand('chown', ['-R', `${owner}:`, directory]);

  const launch = async () => {
    const options = [
      '-D',
      '-C',
      configuration,
      '-M',
      services,
      '-p',
      join(directory, 'master.pid'),
    ];
    // Its master ends every process of its group with itself: here another test's Cyrus.
    const started = spawn(join(bin, 'master'), options, { env, stdio: 'ignore', detached: true });
    await untilGreeting(imapPort, started);
    return started;
  };
  let server: ChildProcess = await launch();
  const end = async () => {
    await endProcess(server, 'SIGTERM');
    // Its workers listen with it, and end after it.
    for (const port of [imapPort, lmtpPort]) await untilRefused(port);
  };
  const loginAs = (address: string) => ({ user: MASTER, pass: password, authzid: address });
  const tool = (name: string, ...args: string[]) =>
    runCommand(join(bin, name), ['-C', configuration, ...args], { env });

  return {
    name: 'cyrus',
    host: '127.0.0.1',
    modseq: true,
    imapPort,
    lmtpPort,
    mailstoreUrl: `imap://${MASTER}:${password}@127.0.0.1:${imapPort}`,
    lmtpUrl: `lmtp://127.0.0.1:${lmtpPort}`,
    loginAs,
    async addAccount(address, accountPassword = newPassword()) {
      const [user = '', realm = ''] = address.split('@');
      await setPassword(user, realm, accountPassword);
      await visit(imapPort, loginAs(address), (client) => client.noop());
    },
    async resetUidValidity(address, mailbox) {
      const auth = loginAs(address);
      const readUidValidity = () =>
        visit(imapPort, auth, async (client) => {
          const status = await client.status(mailbox, { uidValidity: true });
          return status === false ? undefined : status.uidValidity;
        });
      const [user, domain] = address.split('@');
      const below = mailbox === 'INBOX' ? '' : `/${mailbox}`;
      const name = `user/${user}${below}@${domain}`;
      const old = await readUidValidity();
      // A lost index is rebuilt with the present second as UIDVALIDITY.
      do {
        const folder = (await tool('mbpath', name)).trim();
        await rm(join(folder, 'cyrus.index'));
        await tool('reconstruct', name);
      } while ((await readUidValidity()) === old);
    },
    pause: end,
    async resume() {
      server = await launch();
    },
    async stop() {
      await end();
      await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

async function visit<T>(
  port: number,
  auth: Login,
  work: (client: ImapFlow) => Promise<T>,
): Promise<T> {
  const client = new ImapFlow({ host: '127.0.0.1', port, secure: false, auth, logger: false });
  await client.connect();
  try {
    return await work(client);
  } finally {
    const closed = once(client, 'close');
    await client.logout();
    await closed;
  }
}
