/** The real service in a process of its own, started as an operator starts it. */
import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { findFreePort } from './ports.ts';
import { endProcess, pidOf } from './worker.ts';

export const API_KEY = 'bench-api-key-0123456789abcdef0123456789';
export const JWT_SECRET = 'bench-jwt-secret-0123456789abcdef01234567';
export const EVENTS_SECRET = 'bench-events-secret-0123456789abcdef01234';

export interface RunningService {
  readonly pid: number;
  readonly port: number;
  readonly smtpPort: number;
  stop(): Promise<void>;
}

export interface StartOptions {
  /** Settings beside those that every benchmark has. */
  readonly env?: Readonly<Record<string, string>>;
  /** On PostgreSQL; SQLite in the data folder when left out. */
  readonly databaseUrl?: string | undefined;
  /** Whether to wait until a start has done all its work. */
  readonly untilRest?: boolean;
}

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const START_MS = 60_000;
const REST_MS = 600_000;
const TOKENS_AT_ONCE = 50;
/** Of a second in which it does next to nothing: a profile takes some, too. */
const RESTING_TICKS = 25;

/**
 * Starts `node src/main.ts` on a data folder. With BENCH_PROFILE set to a folder, a CPU profile of
 * the whole run is written there.
 *
 * @param nodeArgs arguments of Node itself
 */
export async function startService(
  dataDir: string,
  nodeArgs: readonly string[] = [],
  { env = {}, databaseUrl, untilRest = true }: StartOptions = {},
): Promise<RunningService> {
  const [port, smtpPort] = [await findFreePort(), await findFreePort()];
  const profiles = process.env.BENCH_PROFILE;
  const profiling = profiles ? ['--cpu-prof', `--cpu-prof-dir=${profiles}`] : [];
  const log = join(dataDir, `service-${port}.log`);
  const stdout = openSync(log, 'w', 0o600);
  const child = spawn(process.execPath, [...profiling, ...nodeArgs, main], {
    // A folder without `.env`, and an environment without settings of the developer's.
    cwd: dataDir,
    env: {
      PATH: process.env.PATH,
      PORT: String(port),
      SMTP_PORT: String(smtpPort),
      DATA_DIR: dataDir,
      RATE_LIMIT_PER_MINUTE: '0',
      SEND_RECIPIENTS_PER_DAY: '0',
      API_KEYS: API_KEY,
      JWT_SECRET,
      MAILSERVER_WEBHOOK_SECRET: EVENTS_SECRET,
      // Nothing listens there: the sender checks find out at once that there is no DNS.
      DNS_SERVERS: '127.0.0.1:9',
      ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl }),
      ...env,
    },
    stdio: ['ignore', stdout, stdout],
  });
  closeSync(stdout);
  const until = performance.now() + START_MS;
  while (!(await accepts(smtpPort))) {
    if (child.exitCode !== null || performance.now() > until) {
      await endProcess(child);
      throw new Error(`the service did not start:\n${readFileSync(log, 'utf8').slice(-2_000)}`);
    }
    await delay(20);
  }
  const pid = pidOf(child);
  if (untilRest) await untilAtRest(pid);
  return { pid, port, smtpPort, stop: () => endProcess(child) };
}

/** Waits until the service has done what a start on much mail brings, such as the index for searches. */
export async function untilAtRest(pid: number): Promise<void> {
  const until = performance.now() + REST_MS;
  let last = processorTicks(pid);
  for (let quiet = 0; quiet < 2; ) {
    if (performance.now() > until) throw new Error('the service does not come to rest');
    await delay(1_000);
    const ticks = processorTicks(pid);
    quiet = ticks - last < RESTING_TICKS ? quiet + 1 : 0;
    last = ticks;
  }
}

/** Hundredths of a second of processor time that a process has used (Linux, proc(5)). */
export function processorTicks(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(fields[11]) + Number(fields[12]);
}

/** Whether somebody listens; SMTP is the last that the service opens. */
function accepts(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(port, '127.0.0.1');
  socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
  return promise.finally(() => socket.destroy());
}

/** Resident memory of a process in bytes (Linux). */
export function residentMemory(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
}

/** Calls the service as a product backend does. */
export async function callApi(port: number, path: string, body: object): Promise<unknown> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': API_KEY },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** A token of an account, as the API gives it. */
export async function makeToken(port: number, account: { id: number }): Promise<string> {
  const answer = await callApi(port, `/v2/email-accounts/${account.id}/token`, {
    user_id: 'bench',
  });
  if (typeof answer === 'object' && answer && 'token' in answer) return String(answer.token);
  throw new Error('the answer has no token');
}

/** Tokens of many accounts, in their order. */
export async function makeTokens(
  port: number,
  accounts: readonly { id: number }[],
): Promise<string[]> {
  const tokens: string[] = [];
  for (let at = 0; at < accounts.length; at += TOKENS_AT_ONCE) {
    const group = accounts.slice(at, at + TOKENS_AT_ONCE);
    tokens.push(...(await Promise.all(group.map((account) => makeToken(port, account)))));
  }
  return tokens;
}
