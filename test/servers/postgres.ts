/** A PostgreSQL server of the test run's own: a new cluster on a free loopback port. */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from '../support/free-port.ts';

const ROOT = '/usr/lib/postgresql';

/** Folder with `initdb` and `postgres`, the newest where there are several. */
export function findPostgres(): string | undefined {
  const versions = existsSync(ROOT) ? readdirSync(ROOT) : [];
  return versions
    .sort((a, b) => Number(b) - Number(a))
    .map((version) => join(ROOT, version, 'bin'))
    .find((bin) => existsSync(join(bin, 'postgres')));
}

/** A server that runs, and what can be done to it. */
export interface RunningServer {
  readonly url: string;
  readonly port: number;
  /** Ends all of its processes at once, as a power cut would. */
  kill(): Promise<void>;
  /** Ends it as its administrator does: it breaks off what is under way, and writes all to its disk. */
  shutDown(): Promise<void>;
  /** Starts it again on the same port, on what its disk has. */
  start(): Promise<void>;
  /** Stops all of its processes in the middle of whatever they do, or lets them go on. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void;
  /** Makes a copy of it that follows it, and starts that. @param port where it finds this server */
  startStandby(name: string, port?: number): Promise<RunningServer>;
  /** Makes a standby the server to write to. */
  promote(): Promise<void>;
  /** Ends it, and removes its files. */
  stop(): Promise<void>;
}

/** PostgreSQL refuses to run as root; the Debian package made a user for it. */
export function asServerUser(command: string, args: string[]): [string, string[]] {
  if (process.getuid?.() !== 0) return [command, args];
  return ['setpriv', ['--reuid=postgres', '--regid=postgres', '--clear-groups', command, ...args]];
}

/** @param settings of the server beside ours, as `name=value` */
export async function startPostgres(
  bin: string,
  settings: readonly string[] = [],
): Promise<RunningServer> {
  const directory = await makeDirectory();
  const data = join(directory, 'data');
  const init = asServerUser(join(bin, 'initdb'), ['-D', data, '-U', 'test', '-A', 'trust', '-N']);
  execFileSync(...init, { stdio: 'ignore', cwd: directory });
  const server = new Server(bin, directory, await freePort(), settings);
  await server.start();
  return server;
}

async function makeDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'postroom-postgres-'));
  await chmod(directory, 0o777);
  return directory;
}

class Server implements RunningServer {
  readonly port: number;
  readonly #bin: string;
  readonly #directory: string;
  readonly #settings: readonly string[];
  #process: ChildProcess | undefined;

  constructor(bin: string, directory: string, port: number, settings: readonly string[]) {
    this.#bin = bin;
    this.#directory = directory;
    this.port = port;
    this.#settings = settings;
  }

  get url(): string {
    return `postgres://test@127.0.0.1:${this.port}/postgres`;
  }

  async start(): Promise<void> {
    const settings = ['listen_addresses=127.0.0.1', `port=${this.port}`, 'max_connections=500'];
    settings.push(`unix_socket_directories=${this.#directory}`, 'fsync=off', ...this.#settings);
    const args = ['-D', join(this.#directory, 'data')];
    const [command, all] = asServerUser(join(this.#bin, 'postgres'), [
      ...args,
      ...settings.flatMap((setting) => ['-c', setting]),
    ]);
    this.#process = spawn(command, all, {
      cwd: this.#directory,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    await untilReady(this.#process);
  }

  async kill(): Promise<void> {
    await this.#end(() => this.signal('SIGKILL'));
    // One that was begun just then is left, and each needs a moment to go: till then no new server starts here.
    for (let left = this.#left(); left.length > 0; left = this.#left()) {
      for (const pid of left) sendSignal(pid, 'SIGKILL');
      await pause(20);
    }
  }

  /** Processes that still work in its folder. */
  #left(): number[] {
    const data = join(this.#directory, 'data');
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    return pids.filter((pid) => folderOf(pid) === data).map(Number);
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT' | 'SIGKILL'): void {
    const pid = this.#process?.pid;
    if (pid === undefined) return;
    // The one that begins others stands still meanwhile: none is begun behind our back.
    sendSignal(pid, 'SIGSTOP');
    for (const one of [...childrenOf(pid), pid]) sendSignal(one, signal);
  }

  shutDown(): Promise<void> {
    return this.#end((server) => server.kill('SIGINT'));
  }

  async startStandby(name: string, port = this.port): Promise<RunningServer> {
    const directory = await makeDirectory();
    const data = join(directory, 'data');
    const source = `host=127.0.0.1 port=${port} user=test application_name=${name}`;
    const args = ['-D', data, '-d', source, '-R', '-c', 'fast', '-X', 'stream'];
    const copy = asServerUser(join(this.#bin, 'pg_basebackup'), args);
    await promisify(execFile)(...copy, { cwd: directory });
    const own = this.#settings.filter((one) => !one.startsWith('synchronous_standby_names'));
    const standby = new Server(this.#bin, directory, await freePort(), own);
    await standby.start();
    return standby;
  }

  async promote(): Promise<void> {
    const data = join(this.#directory, 'data');
    const promote = asServerUser(join(this.#bin, 'pg_ctl'), ['promote', '-w', '-D', data]);
    await promisify(execFile)(...promote, { cwd: this.#directory });
  }

  async stop(): Promise<void> {
    this.signal('SIGCONT');
    await this.shutDown();
    await rm(this.#directory, { recursive: true, force: true });
  }

  async #end(end: (server: ChildProcess) => void): Promise<void> {
    const server = this.#process;
    if (!server || server.exitCode !== null || server.signalCode !== null) return;
    const exited = new Promise((resolve) => server.once('exit', resolve));
    end(server);
    await exited;
    this.#process = undefined;
  }
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended by itself meanwhile.
  }
}

function childrenOf(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
    return children.trim().split(' ').filter(Boolean).map(Number);
  } catch {
    // It has ended.
    return [];
  }
}

/** The folder that a process works in; none of one that has ended. */
function folderOf(pid: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return undefined;
  }
}

/** PostgreSQL says so itself on stderr. */
function untilReady(server: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = '';
    server.stderr?.setEncoding('utf8').on('data', (text: string) => {
      if (said.length < 100_000) said += text;
      if (/ready to accept (?:read-only )?connections/.test(said)) resolve();
    });
    server.once('exit', () => reject(new Error(`PostgreSQL did not start:\n${said}`)));
    server.once('error', reject);
  });
}
