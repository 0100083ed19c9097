/**
 * A machine to throw away, on which the commands of a guide are run as they stand there: this one's files,
 * with a layer over them that takes every change, and a network of its own where every port is free. What
 * runs on it ends with it. That takes root.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { repository } from '../support/doc-pages.ts';
import { ROOT } from '../support/process.ts';
import { endNamespace, ofItsOwn, runCommand } from './mail-server.ts';

export interface RunOptions {
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
}

export interface Machine {
  /** Runs a script as root in Postroom's folder. @throws Error with what it said where it fails */
  run(script: string, options?: RunOptions): Promise<string>;
  /** Starts a script that goes on. */
  start(script: string, env: Readonly<Record<string, string>>): ChildProcess;
  /** Appends to a file. */
  append(path: string, text: string): Promise<unknown>;
  stop(): Promise<void>;
}

/**
 * Lays an unpacked tree of packages over a machine's files, as if they were installed there. What the
 * packages' own scripts do then is to be given.
 */
export async function installTree(machine: Machine, tree: string, scripts: string): Promise<void> {
  // A folder `lib` of the tree goes where the machine's link of that name leads.
  await machine.run(`tar -C ${tree} -c . | tar -C / -x --keep-directory-symlink --no-overwrite-dir
    ldconfig
    ${scripts}`);
}

/** Where the guide has Postroom (docs/guides/production.md). */
const INSTALLED = '/opt/postroom';
/**
 * What Node compiled, for all machines: each would do so again at each start, as the repository cannot be written
 * there.
 */
const COMPILED = { here: join(ROOT, 'compiled'), there: '/var/cache/compiled' };

/**
 * What the machine has in place of two programs: packages are there already, and systemd does not run
 * where there is no boot. It does with a unit what systemd would, as far as the guides need it.
 */
const shims = {
  'apt-get': `\
[ "$1" = install ] || exit 100
shift
for name; do
  # What \`installTree\` has laid there is not known to dpkg.
  [ -d "/usr/share/doc/$name" ] || dpkg-query --show "$name" || exit 100
done
`,
  systemctl: `\
start_unit() {
  unit=/etc/systemd/system/$1.service
  value() { sed -n "s/^$1=//p" "$unit"; }
  set -a; . "$(value EnvironmentFile)"; set +a
  cd "$(value WorkingDirectory)" || exit 1
  runuser -u "$(value User)" -- $(value ExecStart) </dev/null >"/var/log/$1.log" 2>&1 &
}
case "$*" in
  'restart dovecot')
    if doveadm stop 2>/dev/null; then
      while [ -e /run/dovecot/master.pid ]; do sleep 0.1; done
      # systemd ends what a unit leaves behind.
      pkill -KILL -x 'imap|lmtp' || true
    fi
    /usr/sbin/dovecot </dev/null >/var/log/dovecot.start 2>&1 || { cat /var/log/dovecot.start; exit 1; } ;;
  'restart '*) shift; for unit; do "/etc/init.d/$unit" restart; done ;;
  'enable --now '*) start_unit "$3" ;;
  *) echo "systemctl $*: not known on this machine" >&2; exit 1 ;;
esac
`,
};

/** Runs in the new namespaces; its shell is PID 1 there. */
const boot = (directory: string) => `\
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 machine ${directory}
cd ${directory}
mkdir changes work root
mount -t overlay -o lowerdir=/,upperdir=changes,workdir=work machine root
mount -t proc proc root/proc
mount --rbind /dev root/dev
mount --bind ${repository} root${repository}
mount -o remount,bind,ro root${repository}
mkdir root${COMPILED.there}
mount --bind ${COMPILED.here} root${COMPILED.there}
ip link set lo up
ln -s ${repository} root${INSTALLED}
echo ready
exec chroot root sleep infinity
`;

export async function startMachine(): Promise<Machine> {
  const directory = await mkdtemp(join(tmpdir(), 'postroom-machine-'));
  await mkdir(COMPILED.here, { recursive: true });
  // Users of the machines write there.
  await chmod(COMPILED.here, 0o777);
  const namespaces = ['--mount', '--pid', '--net', '--fork', '--kill-child=SIGKILL'];
  const holder = spawn('unshare', [...namespaces, 'sh', '-c', boot(directory)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    ...ofItsOwn,
  });
  const [first] = await Promise.race([once(holder.stdout, 'data'), once(holder, 'exit')]);
  if (String(first).trim() !== 'ready') throw new Error(`no machine could be made: ${first}`);
  const children = await readFile(`/proc/${holder.pid}/task/${holder.pid}/children`, 'utf8');
  const enter = ['--target', children.trim(), '--mount', '--pid', '--net'];
  const shell = [...enter, 'chroot', join(directory, 'root'), 'sh', '-c'];
  const own = {
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    LANG: 'C',
    NODE_COMPILE_CACHE: COMPILED.there,
  };
  const inside = (script: string) => [...shell, `cd ${INSTALLED} || exit 1\n${script}`];
  const run = (script: string, { input, env }: RunOptions = {}) =>
    runCommand('nsenter', inside(`set -e\n${script}`), {
      env: { ...own, ...env },
      ...(input !== undefined && { input }),
    });
  for (const [name, text] of Object.entries(shims)) {
    const at = `/usr/local/sbin/${name}`;
    await run(`cat > ${at} && chmod 755 ${at}`, { input: `#!/bin/sh\n${text}` });
  }
  return {
    run,
    start: (script, env) =>
      spawn('nsenter', inside(script), {
        env: { ...own, ...env },
        stdio: ['ignore', 'pipe', 'inherit'],
      }),
    append: (at, input) => run(`cat >> ${at}`, { input }),
    async stop() {
      await endNamespace(holder);
      await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}
