/**
 * 1,000 mail programs that wait in IDLE by TLS: the memory that they take, and how soon one of them is told of a message
 * that another one appends.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { absolute, type Benchmark, type Figure, median } from './support/figures.ts';
import { makePlace } from './support/folders.ts';
import { type MailProgram, openMailbox, tokenLogin } from './support/mail-program.ts';
import type { MemoryUse } from './support/memory.ts';
import { smallMessage } from './support/messages.ts';
import { findFreePort } from './support/ports.ts';
import type { Seed, SeededAccount } from './support/seed.ts';
import { makeTokens, startService } from './support/service.ts';
import { startWorker } from './support/worker.ts';

/** One client may have 500 connections, and one account 64. */
const CLIENTS = 4;
const ACCOUNTS = 44;
/** Opened before memory is first looked at: what is made once is not counted. */
const WARM_UP = 100;
const PROGRAMS = 1_000;
const MESSAGES = 100;
const NOTICES = 200;
/** Milliseconds between two messages: more than one program waits between two lines. */
const PAUSE = 110;
const PROBE = new URL('support/memory-probe.ts', import.meta.url).href;

class IdlePrograms {
  readonly #port: number;
  readonly #tokens: readonly string[];
  readonly programs: MailProgram[] = [];

  constructor(port: number, tokens: readonly string[]) {
    this.#port = port;
    this.#tokens = tokens;
  }

  async open(isIdle: boolean): Promise<MailProgram> {
    const at = this.programs.length;
    const localAddress = `127.0.0.${2 + (at % CLIENTS)}`;
    const plain = connect({ port: this.#port, host: '127.0.0.1', localAddress });
    const socket = connectTls({ socket: plain, rejectUnauthorized: false });
    const token = this.#tokens[at % ACCOUNTS] ?? '';
    const program = await openMailbox(socket, tokenLogin(token));
    this.programs.push(program);
    await program.command('SELECT INBOX');
    if (isIdle) await program.send('t IDLE\r\n', /\+ [^\r\n]*\r\n$/);
    return program;
  }

  async openMany(count: number): Promise<void> {
    for (let opened = 0; opened < count; opened++) await this.open(true);
  }
}

/** Asks the memory probe in the service. @returns octets resident */
async function memoryOf(pid: number, folder: string): Promise<number> {
  const path = join(folder, 'memory.json');
  rmSync(path, { force: true });
  process.kill(pid, 'SIGUSR2');
  while (!existsSync(path)) await delay(10);
  return (JSON.parse(readFileSync(path, 'utf8')) as MemoryUse).resident;
}

/** Milliseconds from each APPEND until the other program of the account is told. */
async function measureNotices(appending: MailProgram, idling: MailProgram): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round < NOTICES; round++) {
    await delay(PAUSE);
    const from = performance.now();
    const told = idling.send('', /\* \d+ EXISTS\r\n/);
    await Promise.all([appending.append([smallMessage(`${round}`)]), told]);
    times.push(performance.now() - from);
  }
  return times.sort((a, b) => a - b);
}

async function measure(idle: IdlePrograms, memory: () => Promise<number>): Promise<Figure[]> {
  await idle.openMany(WARM_UP);
  const before = await memory();
  await idle.openMany(PROGRAMS);
  const grown = ((await memory()) - before) / 1024 / 1024;
  const idling = idle.programs[idle.programs.length % ACCOUNTS];
  const appending = await idle.open(false);
  if (!idling) throw new Error('no program is idle');
  const times = await measureNotices(appending, idling);
  const late = times[Math.floor(times.length * 0.99) - 1] ?? Number.NaN;
  const most = (unit: string, target: number) => ({ unit, target, isMost: true });
  return [
    absolute(`imap: ${PROGRAMS} idle programs by TLS`, [grown], most('MB', 65)),
    absolute('imap: APPEND to EXISTS in IDLE', [median(times)], most('ms', 15)),
    absolute('imap: the same, 99 of 100', [late], most('ms', 50)),
  ];
}

export const imapIdle: Benchmark = {
  name: 'imap-idle',
  async run({ postgres }) {
    const { dataDir, databaseUrl, remove } = await makePlace(postgres);
    try {
      const seeder = startWorker<Seed, SeededAccount[]>('seed.ts');
      const each = { messages: MESSAGES, mail: 'small' } as const;
      const accounts = await seeder.ask({
        ...{ dataDir, databaseUrl },
        accounts: Array.from({ length: ACCOUNTS }, () => each),
      });
      await seeder.stop();
      const imapsPort = await findFreePort();
      const env = { IMAPS_PORT: String(imapsPort), IMAP_HOST: '127.0.0.1' };
      const nodeArgs = ['--expose-gc', '--import', PROBE];
      const service = await startService(dataDir, nodeArgs, { databaseUrl, env });
      const idle = new IdlePrograms(imapsPort, await makeTokens(service.port, accounts));
      try {
        return await measure(idle, () => memoryOf(service.pid, dataDir));
      } finally {
        for (const program of idle.programs) program.close();
        await service.stop();
      }
    } finally {
      await remove();
    }
  },
};
