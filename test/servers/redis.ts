/** A Redis server of a test's own, on a free loopback port. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { freePort } from '../support/free-port.ts';

const PROGRAM = '/usr/bin/redis-server';

export function hasRedis(): boolean {
  return existsSync(PROGRAM);
}

export interface TestRedis {
  readonly url: string;
  readonly port: number;
  /** As a power cut would. */
  kill(): Promise<void>;
  /** Starts it again, with nothing in its memory. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** @param settings as on the command line, such as `--maxmemory 1mb` */
export async function startRedis(...settings: string[]): Promise<TestRedis> {
  const port = await freePort();
  let server = await startServer(port, settings);
  const kill = async () => {
    const ended = new Promise((resolve) => server.once('exit', resolve));
    if (server.exitCode !== null || server.signalCode !== null) return;
    server.kill('SIGKILL');
    await ended;
  };
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    kill,
    async restart() {
      server = await startServer(port, settings);
    },
    stop: kill,
  };
}

/** Redis says so itself on stdout. */
function startServer(port: number, settings: string[]): Promise<ChildProcess> {
  const { promise, resolve, reject } = Promise.withResolvers<ChildProcess>();
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
  const server = spawn(PROGRAM, [...args, ...settings], { stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  server.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (said.length < 100_000) said += text;
    if (said.includes('Ready to accept connections')) resolve(server);
  });
  server.once('exit', () => reject(new Error(`Redis did not start:\n${said}`)));
  return promise;
}
