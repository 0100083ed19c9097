/**
 * Dovecot on free loopback ports, configured by the very files of `deploy/dovecot/`: only paths are
 * put in their place, and `local.conf`, which is the machine's own there too, has the ports.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import {
  appendFile,
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  writeFile,
} from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { generate } from 'selfsigned';
import { freePort } from '../support/free-port.ts';
import {
  endProcess,
  MASTER,
  type MailServer,
  newPassword,
  runCommand,
  untilGreeting,
  untilRefused,
} from './mail-server.ts';

const DEPLOY = fileURLToPath(new URL('../../deploy/dovecot/', import.meta.url));

export interface DovecotOptions {
  /** Adds TLS with a self-signed certificate: imaps, and STARTTLS on the plain port. */
  readonly tls?: boolean;
  /** The names in that certificate. */
  readonly tlsNames?: readonly string[];
  /** Where accounts come from: a file of the harness's own, or Postroom's database. */
  readonly users?:
    | { readonly from: 'file' }
    | { readonly from: 'sqlite'; readonly path: string }
    | { readonly from: 'postgresql'; readonly connect: string };
  /** Appended to `local.conf`. */
  readonly settings?: string;
  /** How the master's password is hashed; as it is without a scheme. */
  readonly masterScheme?: 'SSHA512' | 'ARGON2ID';
}

export interface DovecotServer extends MailServer {
  readonly lmtpUrl: string;
  readonly lmtpPort: number;
  /** Implicit TLS; only with `tls`. */
  readonly imapsPort?: number;
  /** The certificate in PEM, which is its own authority; only with `tls`. */
  readonly certificate?: string;
  /** `imaps://` form of `mailstoreUrl`; only with `tls`. */
  readonly secureMailstoreUrl?: string;
  /** Where the notifier finds what changed. */
  readonly spool: string;
  readonly directory: string;
  /** Runs doveadm against this server. */
  doveadm(...args: string[]): Promise<string>;
  /** What the server logged. */
  log(): Promise<string>;
}

interface Ports {
  readonly imap: number;
  readonly lmtp: number;
  readonly imaps: number;
}

const root = process.getuid?.() === 0;
/** A user of every Debian machine; mail must not be owned by root. */
const mailUser = root ? 'mail' : userInfo().username;

function localSettings(directory: string, ports: Ports, options: DovecotOptions): string {
  const lines = [
    'listen = 127.0.0.1',
    `base_dir = ${directory}/run`,
    `state_dir = ${directory}/state`,
    `log_path = ${directory}/dovecot.log`,
    'mail_location = mdbox:~/mdbox',
    `mail_uid = ${mailUser}`,
    `mail_gid = ${mailUser}`,
    'mail_fsync = never',
    'shutdown_clients = yes',
    // A refused login is answered at once, not after two seconds.
    'auth_failure_delay = 0',
    // No penalty that grows with each refused login of an address: all come from one here.
    `service anvil {\n${root ? '' : '  chroot =\n'}  unix_listener anvil-auth-penalty {\n    mode = 0\n  }\n}`,
    'disable_plaintext_auth = no',
    `service imap-login {\n${root ? '' : '  chroot =\n'}  inet_listener imap {\n    port = ${ports.imap}\n  }`,
    `  inet_listener imaps {\n    port = ${options.tls ? ports.imaps : 0}\n  }\n}`,
    `service lmtp {\n  inet_listener lmtp {\n    port = ${ports.lmtp}\n  }\n}`,
  ];
  if (!root) {
    const me = userInfo().username;
    lines.push(`default_internal_user = ${me}`, `default_login_user = ${me}`);
    lines.push(`default_internal_group = ${me}`, `service auth-worker {\n  user = ${me}\n}`);
  }
  if (options.tls) {
    lines.push('ssl = yes', `ssl_cert = <${directory}/cert.pem`, `ssl_key = <${directory}/key.pem`);
  } else lines.push('ssl = no');
  lines.push(options.settings ?? '');
  return `${lines.join('\n')}\n`;
}

/** Copies `deploy/dovecot/` with the paths of this run. */
async function placeDeployFiles(directory: string, users: DovecotOptions['users']): Promise<void> {
  const from = users?.from ?? 'file';
  for (const name of await readdir(DEPLOY)) {
    let text = await readFile(join(DEPLOY, name), 'utf8');
    text = text
      .replaceAll('/etc/dovecot/', `${directory}/`)
      .replaceAll('/var/vmail/', `${directory}/vmail/`)
      .replaceAll('/var/spool/postroom/', `${directory}/spool/`)
      .replaceAll("'vmail' AS", `'${mailUser}' AS`);
    if (name === 'postroom.conf') {
      text = text
        .replaceAll(/^#?(!include \S*\/users-)/gm, '#$1')
        .replace(
          `#!include ${directory}/users-${from}.conf`,
          `!include ${directory}/users-${from}.conf`,
        );
      if (from === 'file') {
        text = text.replace('#!include', `!include ${directory}/users-file.conf\n#!include`);
      }
    }
    if (name === 'postroom-sqlite.conf.ext' && users?.from === 'sqlite') {
      text = text.replace(/^connect = .*$/m, `connect = ${users.path}`);
    }
    if (name === 'postroom-postgresql.conf.ext' && users?.from === 'postgresql') {
      text = text.replace(/^connect = .*$/m, `connect = ${users.connect}`);
    }
    await writeFile(join(directory, name), text);
  }
}

/** The accounts of `addAccount`; the only file of the configuration that operators have not. */
const usersFile = (path: string) =>
  ['passdb', 'userdb']
    .map((kind) => `${kind} {\n  driver = passwd-file\n  args = ${path}\n}\n`)
    .join('');

async function placeCertificate(directory: string, names: readonly string[]): Promise<string> {
  const made = await generate([{ name: 'commonName', value: names[0] ?? 'localhost' }], {
    keySize: 2048,
    extensions: [
      { name: 'basicConstraints', cA: true },
      { name: 'subjectAltName', altNames: names.map((value) => ({ type: 2, value })) },
    ],
  });
  await writeFile(join(directory, 'cert.pem'), made.cert);
  await writeFile(join(directory, 'key.pem'), made.private);
  return made.cert;
}

/** Starts a Dovecot of its own; `stop` ends it and removes its folder. */
export async function startDovecot(options: DovecotOptions = {}): Promise<DovecotServer> {
  const directory = await mkdtemp(join(tmpdir(), 'postroom-dovecot-'));
  await chmod(directory, 0o755);
  const spool = join(directory, 'spool');
  const accounts = join(directory, 'accounts');
  for (const name of ['vmail', 'spool']) {
    await mkdir(join(directory, name));
    await chmod(join(directory, name), 0o777);
  }
  // Operators run the notifier as the user that mail belongs to; tests may run it as root.
  await writeFile(join(spool, 'events'), '');
  await chmod(join(spool, 'events'), 0o666);
  const ports = { imap: await freePort(), lmtp: await freePort(), imaps: await freePort() };
  const password = newPassword();
  await placeDeployFiles(directory, options.users);
  await writeFile(join(directory, 'users-file.conf'), usersFile(accounts));
  await writeFile(accounts, '');
  const scheme = options.masterScheme;
  const hash = scheme
    ? await runCommand('/usr/bin/doveadm', ['pw', '-s', scheme, '-p', password])
    : `{PLAIN}${password}\n`;
  await writeFile(join(directory, 'master-users'), `${MASTER}:${hash}`);
  await writeFile(join(directory, 'local.conf'), localSettings(directory, ports, options));
  const certificate = options.tls
    ? await placeCertificate(directory, options.tlsNames ?? ['localhost'])
    : undefined;

  const configuration = join(directory, 'dovecot.conf');
  let server = await launch(configuration, ports.imap, directory);
  const doveadm = (...args: string[]) =>
    runCommand('/usr/bin/doveadm', ['-c', configuration, ...args]);
  const end = async () => {
    await endProcess(server, 'SIGTERM');
    // Its workers listen with it; one that is busy may end after it.
    for (const port of [ports.imap, ports.lmtp]) await untilRefused(port);
  };
  let count = 0;
  return {
    name: 'dovecot',
    host: '127.0.0.1',
    modseq: true,
    imapPort: ports.imap,
    lmtpPort: ports.lmtp,
    mailstoreUrl: `imap://${MASTER}:${password}@127.0.0.1:${ports.imap}`,
    lmtpUrl: `lmtp://127.0.0.1:${ports.lmtp}`,
    spool,
    directory,
    ...(certificate !== undefined && {
      certificate,
      imapsPort: ports.imaps,
      secureMailstoreUrl: `imaps://${MASTER}:${password}@localhost:${ports.imaps}`,
    }),
    doveadm,
    log: () => readFile(join(directory, 'dovecot.log'), 'utf8'),
    async addAccount(address, accountPassword = newPassword()) {
      count++;
      const home = join(directory, 'vmail', `file-${count}`);
      await appendFile(accounts, `${address}:{PLAIN}${accountPassword}::::${home}\n`);
    },
    loginAs: (address) => ({ user: `${address}*${MASTER}`, pass: password }),
    async resetUidValidity(address, mailbox) {
      await doveadm('kick', address).catch(() => undefined);
      const status = await doveadm('mailbox', 'status', '-u', address, 'uidvalidity', mailbox);
      const old = Number(/uidvalidity=(\d+)/.exec(status)?.[1]);
      const next = String(old + 1);
      await doveadm('mailbox', 'update', '-u', address, '--uid-validity', next, mailbox);
    },
    pause: end,
    async resume() {
      server = await launch(configuration, ports.imap, directory);
    },
    async stop() {
      await end();
      await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

async function launch(
  configuration: string,
  port: number,
  directory: string,
): Promise<ChildProcess> {
  const server = spawn('/usr/sbin/dovecot', ['-F', '-c', configuration], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  server.stderr.setEncoding('utf8').on('data', (text: string) => {
    if (said.length < 100_000) said += text;
  });
  try {
    await untilGreeting(port, server);
  } catch (error) {
    const log = await readFile(join(directory, 'dovecot.log'), 'utf8').catch(() => '');
    throw new Error(`Dovecot did not start:\n${said}${log}`, { cause: error });
  }
  return server;
}
