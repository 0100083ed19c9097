/**
 * Postfix as a far end: on a free loopback port, with STARTTLS and OpenDKIM, which verifies what comes
 * in. Every message goes into one folder, as the Maildir format has it.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { generate } from 'selfsigned';
import { freePort } from '../support/free-port.ts';

const run = promisify(execFile);

export interface PostfixOptions {
  /** Domains whose mail it takes. */
  readonly domains: readonly string[];
  /** Replies to RCPT by address, in place of taking it. */
  readonly refused: Readonly<Record<string, string>>;
  /** Addresses whose mail it takes, and then bounces. */
  readonly bounced: readonly string[];
  /** Where it sends mail for other domains (its bounces). */
  readonly relayPort: number;
}

export interface PostfixServer {
  readonly port: number;
  /** Tells OpenDKIM which keys DNS has, by `<selector>._domainkey.<domain>`. */
  startDkim(keys: ReadonlyMap<string, string>): Promise<void>;
  /** Sources of the messages that have arrived, Postfix's own header fields on top. */
  mails(): Promise<string[]>;
  stop(): Promise<void>;
}

const BOUNCER = 'bouncer';

async function writeConfig(
  folder: string,
  { domains, refused, bounced, relayPort }: PostfixOptions,
  ports: { readonly smtp: number; readonly milter: number },
): Promise<void> {
  const table = (entries: Iterable<readonly [string, string]>) =>
    `inline:{ ${[...entries].map(([key, value]) => `{ ${key} = ${value} }`).join(', ')} }`;
  const { uid, gid } = userInfo();
  await writeFile(
    join(folder, 'etc/main.cf'),
    [
      'compatibility_level = 3.6',
      `queue_directory = ${folder}/spool`,
      `data_directory = ${folder}/lib`,
      'command_directory = /usr/sbin',
      'daemon_directory = /usr/lib/postfix/sbin',
      'mail_owner = postfix',
      'setgid_group = postdrop',
      'myhostname = mx.far.test',
      'inet_interfaces = 127.0.0.1',
      'inet_protocols = ipv4',
      'mynetworks = 192.0.2.1',
      'mydestination =',
      'alias_maps =',
      'smtpd_peername_lookup = no',
      'smtp_dns_support_level = disabled',
      `relayhost = [127.0.0.1]:${relayPort}`,
      `virtual_mailbox_domains = ${domains.join(', ')}`,
      `virtual_mailbox_base = ${folder}/mail`,
      'virtual_mailbox_maps = static:all/',
      // The virtual delivery agent never delivers as root.
      `virtual_uid_maps = static:${uid === 0 ? 65_534 : uid}`,
      `virtual_gid_maps = static:${gid === 0 ? 65_534 : gid}`,
      `transport_maps = ${table(bounced.map((address) => [address, `${BOUNCER}:`]))}`,
      `smtpd_recipient_restrictions = check_recipient_access ${table(Object.entries(refused))}`,
      '  reject_unauth_destination',
      'smtpd_tls_security_level = may',
      `smtpd_tls_chain_files = ${folder}/etc/tls.pem`,
      'smtpd_tls_received_header = yes',
      `smtpd_milters = inet:127.0.0.1:${ports.milter}`,
      'milter_default_action = tempfail',
      `maillog_file = ${folder}/log`,
      `maillog_file_prefixes = ${tmpdir()}`,
      '',
    ].join('\n'),
  );
  const service = (name: string, type: string, program: string, limit = '-') =>
    `${name} ${type} n - n - ${limit} ${program}`;
  await writeFile(
    join(folder, 'etc/master.cf'),
    [
      service(`127.0.0.1:${ports.smtp}`, 'inet', 'smtpd'),
      'cleanup unix n - n - 0 cleanup',
      'qmgr unix n - n 300 1 qmgr',
      'tlsmgr unix - - n 1000? 1 tlsmgr',
      'rewrite unix - - n - - trivial-rewrite',
      'bounce unix - - n - 0 bounce',
      'defer unix - - n - 0 bounce',
      'trace unix - - n - 0 bounce',
      'verify unix - - n - 1 verify',
      'proxymap unix - - n - - proxymap',
      'smtp unix - - n - - smtp',
      'error unix - - n - - error',
      'retry unix - - n - - error',
      'virtual unix - n n - - virtual',
      'anvil unix - - n - 1 anvil',
      'scache unix - - n - 1 scache',
      'postlog unix-dgram n - n - 1 postlogd',
      `${BOUNCER} unix - n n - - pipe flags=R user=nobody argv=/bin/false`,
      '',
    ].join('\n'),
  );
}

async function untilListening(port: number, server: ChildProcess): Promise<void> {
  for (;;) {
    if (server.exitCode !== null) throw new Error(`a server ended with ${server.exitCode}`);
    const socket = connect(port, '127.0.0.1');
    const isUp = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    });
    socket.destroy();
    if (isUp) return;
    await wait(20);
  }
}

/** Starts it; needs root, as Postfix does. */
export async function startPostfix(options: PostfixOptions): Promise<PostfixServer> {
  const folder = await mkdtemp(join(tmpdir(), 'postroom-postfix-'));
  await chmod(folder, 0o755);
  for (const name of ['etc', 'spool', 'lib', 'mail']) await mkdir(join(folder, name));
  await chmod(join(folder, 'mail'), 0o777);
  const ids = await Promise.all(['-u', '-g'].map((flag) => run('id', [flag, 'postfix'])));
  const [uid = 0, gid = 0] = ids.map(({ stdout }) => Number(stdout));
  await chown(join(folder, 'lib'), uid, gid);
  const { private: key, cert } = await generate([{ name: 'commonName', value: 'mx.far.test' }]);
  await writeFile(join(folder, 'etc/tls.pem'), `${key}${cert}`, { mode: 0o600 });
  const ports = { smtp: await freePort(), milter: await freePort() };
  await writeConfig(folder, options, ports);
  const etc = join(folder, 'etc');
  const server = spawn('/usr/sbin/postfix', ['-c', etc, 'start-fg'], { stdio: 'ignore' });
  await untilListening(ports.smtp, server).catch(async (error: unknown) => {
    const log = await readFile(join(folder, 'log'), 'utf8').catch(() => '');
    throw new Error(`Postfix did not start: ${log}`, { cause: error });
  });
  let dkim: ChildProcess | undefined;
  return {
    port: ports.smtp,
    async startDkim(keys) {
      dkim = await startOpenDkim(folder, ports.milter, keys);
    },
    async mails() {
      const box = join(folder, 'mail/all/new');
      const names = await readdir(box).catch(() => []);
      return Promise.all(names.map((name) => readFile(join(box, name), 'latin1')));
    },
    async stop() {
      const ended = server.exitCode === null ? once(server, 'exit') : undefined;
      await run('/usr/sbin/postfix', ['-c', etc, 'stop']).catch(() => {});
      await ended;
      if (dkim && dkim.exitCode === null) {
        const dkimEnded = once(dkim, 'exit');
        dkim.kill('SIGTERM');
        await dkimEnded;
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function startOpenDkim(
  folder: string,
  port: number,
  keys: ReadonlyMap<string, string>,
): Promise<ChildProcess> {
  const keyFile = join(folder, 'etc/keys');
  await writeFile(keyFile, [...keys].map(([name, record]) => `${name} ${record}\n`).join(''));
  const config = join(folder, 'etc/opendkim.conf');
  const settings = [
    'Mode v',
    `Socket inet:${port}@127.0.0.1`,
    'AuthservID mx.far.test',
    'AlwaysAddARHeader yes',
    // Clients that it would sign for instead: not those of this machine.
    'InternalHosts 192.0.2.1',
    `TestPublicKeys ${keyFile}`,
    'RequireSafeKeys no',
    'Syslog no',
    '',
  ];
  await writeFile(config, settings.join('\n'));
  const server = spawn('/usr/sbin/opendkim', ['-f', '-x', config], { stdio: 'ignore' });
  await untilListening(port, server);
  return server;
}
