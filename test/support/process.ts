/** The service as a process of its own, started as Docker and systemd do, or in the process of the test. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import { readConfig } from '../../src/run/config/config.ts';
import { CERTIFICATE } from './certificate.ts';
import { freePort } from './free-port.ts';

export const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** What a start may take on a busy machine: less than a test, whose end would not say what the process had written. */
const LISTENS_WITHIN_MS = 120_000;

/** A folder for the tests of this file, removed when they end. */
export const ROOT = await mkdtemp(join(tmpdir(), 'postroom-process-'));

const children = new Set<ChildProcess>();
const servicesHere = new Set<ServiceHere>();
after(async () => {
  for (const service of servicesHere) await service.stop();
  await Promise.all([...children].map(kill));
  await rm(ROOT, { recursive: true, force: true });
});

/** Ends a process, and waits for that: one that still writes would fill the folder again that is removed. */
async function kill(child: ChildProcess): Promise<void> {
  const runs = child.pid !== undefined && child.exitCode === null && child.signalCode === null;
  if (!runs) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

export interface Process {
  readonly child: ChildProcess;
  output(): string;
  /** Exit code and all that was written. */
  ended(): Promise<{ code: number | null; output: string }>;
}

/**
 * Starts the process in a folder without `.env`.
 *
 * @param log where stdout and stderr go instead of to us
 */
export function start(environment: Record<string, string>, log: 'pipe' | number = 'pipe'): Process {
  return run([process.execPath, MAIN], environment, log);
}

/** Starts the process as {@link start} does, at a terminal, which `script` of Debian's bsdutils makes. */
export function startAtTerminal(environment: Record<string, string>): Process {
  const command = ['script', '-qec', `exec '${process.execPath}' '${MAIN}'`, '/dev/null'];
  return run(command, { ...environment, SHELL: '/bin/sh', TERM: 'xterm' }, 'pipe');
}

/** What a process needs of our environment to run as it does elsewhere, and to start fast. */
export function bareEnvironment(): Record<string, string> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return { ...(PATH && { PATH }), ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) };
}

export interface ServiceHere {
  /** Its log. */
  output(): string;
  readonly isFirst: boolean;
  stop(): Promise<void>;
}

/**
 * Starts the service in the process of the test, which takes a tenth of the time: for tests that look at no exit
 * code, no signal and nothing that is written but the log.
 *
 * @throws ConfigError
 */
export async function startHere(environment: Record<string, string>): Promise<ServiceHere> {
  const { startService } = await import('../../src/run/compose/service.ts');
  const config = readConfig(environment, ROOT);
  let output = '';
  const write = (line: string) => {
    output += line;
  };
  const { stop, isFirst } = await startService(config, pino({ level: config.logLevel }, { write }));
  const service = { output: () => output, stop, isFirst };
  servicesHere.add(service);
  return service;
}

export function run(
  [program = '', ...given]: string[],
  environment: Record<string, string>,
  log: 'pipe' | number,
): Process {
  const child = spawn(program, given, {
    cwd: ROOT,
    env: { ...bareEnvironment(), ...environment },
    stdio: ['ignore', log, log],
  });
  children.add(child);
  let output = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  const exit = once(child, 'close');
  return {
    child,
    output: () => output,
    async ended() {
      const [code] = await exit;
      children.delete(child);
      return { code, output };
    },
  };
}

/**
 * A data folder of that name below {@link ROOT}, free ports, a certificate, and no limit on requests: how many a test
 * makes in a minute depends on the machine.
 */
export async function environment(name: string) {
  return {
    ...CERTIFICATE,
    DATA_DIR: join(ROOT, name),
    PORT: String(await freePort()),
    SMTP_PORT: String(await freePort()),
    RATE_LIMIT_PER_MINUTE: '0',
  };
}

/** Waits for the line that says that everything listens. */
export async function listening(started: Process): Promise<void> {
  const late = AbortSignal.timeout(LISTENS_WITHIN_MS);
  const end = once(late, 'abort');
  while (!started.output().includes('Postroom listens')) {
    const { child } = started;
    const runs = child.exitCode === null && child.signalCode === null;
    assert.ok(child.stdout && runs && !late.aborted, `it does not listen: ${started.output()}`);
    await Promise.race([once(child.stdout, 'data'), once(child, 'close'), end]);
  }
}

/** Ends a process by SIGTERM. */
export async function stop(started: Process): Promise<void> {
  started.child.kill('SIGTERM');
  assert.equal((await started.ended()).code, 0, started.output());
}
