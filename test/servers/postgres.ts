/** A PostgreSQL server of the test run's own: a new cluster on a free loopback port. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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

export interface RunningServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** PostgreSQL refuses to run as root; the Debian package made a user for it. */
function asServerUser(command: string, args: string[]): [string, string[]] {
  if (process.getuid?.() !== 0) return [command, args];
  return ['setpriv', ['--reuid=postgres', '--regid=postgres', '--clear-groups', command, ...args]];
}

export async function startPostgres(bin: string): Promise<RunningServer> {
  const directory = await mkdtemp(join(tmpdir(), 'postroom-postgres-'));
  await chmod(directory, 0o777);
  const data = join(directory, 'data');
  const init = asServerUser(join(bin, 'initdb'), ['-D', data, '-U', 'test', '-A', 'trust', '-N']);
  execFileSync(...init, { stdio: 'ignore', cwd: directory });
  const port = await freePort();
  const settings = ['listen_addresses=127.0.0.1', `port=${port}`, 'max_connections=200'];
  settings.push(`unix_socket_directories=${directory}`, 'fsync=off');
  const [command, args] = asServerUser(join(bin, 'postgres'), [
    '-D',
    data,
    ...settings.flatMap((setting) => ['-c', setting]),
  ]);
  const server = spawn(command, args, { cwd: directory, stdio: ['ignore', 'ignore', 'pipe'] });
  await untilReady(server);
  return {
    url: `postgres://test@127.0.0.1:${port}/postgres`,
    async stop() {
      const exited = new Promise((resolve) => server.once('exit', resolve));
      server.kill('SIGINT');
      await exited;
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** PostgreSQL says so itself on stderr. */
function untilReady(server: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = '';
    server.stderr?.setEncoding('utf8').on('data', (text: string) => {
      if (said.length < 100_000) said += text;
      if (said.includes('ready to accept connections')) resolve();
    });
    server.once('exit', () => reject(new Error(`PostgreSQL did not start:\n${said}`)));
    server.once('error', reject);
  });
}
