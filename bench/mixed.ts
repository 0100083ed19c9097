/**
 * What a service does all day: the apps of 1,000 accounts sync in turn, idle and while mail comes in for
 * them, and each reads a new message once. Nothing that is read again and again makes it faster.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { atLeast, type Benchmark, type BenchmarkOptions, interleave } from './support/figures.ts';
import { makePlace, type Place } from './support/folders.ts';
import { type Played, writeRequest } from './support/http-client.ts';
import type { HttpLoad } from './support/load-http.ts';
import type { SmtpLoad, SmtpSent } from './support/load-smtp.ts';
import { CONNECTIONS, withHello } from './support/measure-http.ts';
import { message20K } from './support/messages.ts';
import type { Seed, SeededAccount } from './support/seed.ts';
import { makeToken, type RunningService, startService } from './support/service.ts';
import { syncRequest } from './support/sync-request.ts';
import { startWorker } from './support/worker.ts';

const ACCOUNTS = 1_000;
const MESSAGES = 100;
const MAILS_A_SECOND = 100;
const MAIL_CONNECTIONS = 4;
const ROUNDS = 5;
const SECONDS = 3;
/** Before a measurement begins, mail comes in already. */
const HEAD_START_MS = 300;
/** The share of the mail that has to have come in time. */
const ENOUGH = 0.9;
const TARGETS = {
  sqlite: { idle: 0.3, withMail: 0.25, messages: 0.08 },
  postgres: { idle: 0.2, withMail: 0.15, messages: 0.12 },
};

type Play = (load: HttpLoad) => Promise<Played>;

/** The requests of all accounts; each has a message of 20 KB for each round, and one to warm up. */
async function writeRequests(port: number, accounts: readonly SeededAccount[]) {
  const syncs: string[] = [];
  const rounds: string[][] = Array.from({ length: ROUNDS + 1 }, () => []);
  for (const account of accounts) {
    const token = await makeToken(port, account);
    syncs.push(syncRequest(token, account.uidvalidity, account.token));
    const headers = { authorization: `Bearer ${token}` };
    for (const [round, messages] of rounds.entries()) {
      const uid = MESSAGES - round;
      messages.push(writeRequest('GET', `/mail/message?mailbox=INBOX&uid=${uid}`, headers));
    }
  }
  return { syncs, rounds };
}

async function measure(
  { port, smtpPort }: RunningService,
  accounts: readonly SeededAccount[],
  folder: string,
  hello: HttpLoad,
  play: Play,
) {
  const { syncs, rounds } = await writeRequests(port, accounts);
  const path = join(folder, 'message');
  writeFileSync(path, message20K());
  const [first = '', ...others] = accounts.map(({ address }) => address);
  const mail = startWorker<SmtpLoad, SmtpSent>('load-smtp.ts');
  const target = { port, connections: CONNECTIONS };
  const rateOf = async (load: HttpLoad) => {
    const { answers, seconds } = await play(load);
    return answers / seconds;
  };
  const sync = () => rateOf({ ...target, requests: syncs, seconds: SECONDS });
  const withMail = async () => {
    const sending = mail.ask({
      port: smtpPort,
      connections: MAIL_CONNECTIONS,
      messages: MAILS_A_SECOND * (SECONDS + 1),
      recipients: [first, ...others],
      perSecond: MAILS_A_SECOND,
      path,
    });
    await new Promise((resolve) => setTimeout(resolve, HEAD_START_MS));
    const rate = await sync();
    const { seconds } = await sending;
    if (seconds > (SECONDS + 1) / ENOUGH) console.log(`(mail took ${seconds.toFixed(1)} s)`);
    return rate;
  };
  const messages = async () => {
    const requests = rounds.pop() ?? [];
    return rateOf({ ...target, requests, count: requests.length });
  };
  const things = {
    hello: () => rateOf({ ...hello, seconds: SECONDS }),
    idle: sync,
    withMail,
    messages,
  };
  try {
    for (const warmUp of Object.values(things)) await warmUp();
    return await interleave(ROUNDS, things);
  } finally {
    await mail.stop();
  }
}

async function withService<T>(
  { dataDir, databaseUrl }: Place,
  use: (service: RunningService) => Promise<T>,
): Promise<T> {
  const service = await startService(dataDir, [], { databaseUrl });
  try {
    return await use(service);
  } finally {
    await service.stop();
  }
}

export const mixed: Benchmark = {
  name: 'mixed',
  async run({ postgres }: BenchmarkOptions) {
    const place = await makePlace(postgres);
    const { dataDir, databaseUrl } = place;
    const targets = TARGETS[postgres === undefined ? 'sqlite' : 'postgres'];
    try {
      console.log(`Filling ${ACCOUNTS} mailboxes of ${MESSAGES} messages ...`);
      const seeder = startWorker<Seed, SeededAccount[]>('seed.ts');
      const account = { messages: MESSAGES - ROUNDS - 1, of20KB: ROUNDS + 1 };
      const seeds = Array.from({ length: ACCOUNTS }, () => account);
      const accounts = await seeder.ask({ dataDir, databaseUrl, accounts: seeds });
      await seeder.stop();
      const rates = await withService(place, (service) =>
        withHello((hello, play) => measure(service, accounts, dataDir, hello, play)),
      );
      const what = `${ACCOUNTS} accounts in turn`;
      const { hello, idle, withMail, messages } = rates;
      const mail = `${MAILS_A_SECOND} mails/s`;
      return [
        atLeast(`sync, no change, ${what}`, 'req/s', idle, hello, targets.idle),
        atLeast(`sync, ${what}, ${mail}`, 'req/s', withMail, hello, targets.withMail),
        atLeast(`message of 20 KB, ${what}, once`, 'req/s', messages, hello, targets.messages),
      ];
    } finally {
      await place.remove();
    }
  },
};
