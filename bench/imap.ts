/**
 * What mail programs ask for, of the same 10,000 messages of 8 KB on our IMAP server and on a private Dovecot: each
 * command in turn on both, with what both have cached before (the first round is left out). The targets are those of
 * Dovecot itself: no command may be slower than there.
 *
 * What is left of the short commands, in microseconds of time and of processor, the least of many rounds: a server of `node:net`
 * that echoes a line 11 and 6; a command that reads nothing (NAMESPACE) 19 and 11, Dovecot 14 and 8; NOOP 25 and 16, Dovecot 22
 * and 16; STATUS 27 and 19, Dovecot 20 and 13; SELECT 29 and 20, Dovecot 29 and 22. Each has the system calls of the echo and no
 * other: one read, one write. A look into SQLite is 3 to 4 of it. The rest is code that runs once in a command: in the echo
 * `setImmediate` costs nothing that is seen, ten calls of async functions 0.3, and five pieces of a generator 0.5.
 *
 * Of BODYSTRUCTURE (15 ms of processor, Dovecot 12) half is the read from SQLite, and half of that the system's copy of pages.
 * With the file mapped into memory that read takes a third less, but an error of the disk would end the process. The ids of
 * bodies from the numbers that are kept, and the texts by these ids, took 10 % more; texts as octets, no less.
 */
import { connect } from 'node:net';
import { startDovecot } from '../test/servers/dovecot.ts';
import {
  absolute,
  atLeast,
  atMost,
  type Benchmark,
  type Figure,
  interleave,
} from './support/figures.ts';
import { makePlace } from './support/folders.ts';
import { type MailProgram, openMailbox, tokenLogin } from './support/mail-program.ts';
import { messageWithAttachment } from './support/messages.ts';
import { findFreePort } from './support/ports.ts';
import type { Seed, SeededAccount } from './support/seed.ts';
import { makeToken, residentMemory, startService, untilAtRest } from './support/service.ts';
import { startWorker } from './support/worker.ts';

const MESSAGES = 10_000;
/** Messages of one APPEND (RFC 3502). */
const AT_ONCE = 100;
const ROUNDS = 7;
/** Programs that append at once, and messages of one round in all. */
const TOGETHER = 20;
const APPENDED = 100;
const HEADERS = 'FROM TO CC BCC SUBJECT DATE MESSAGE-ID PRIORITY X-PRIORITY REFERENCES LIST-ID';

/** By their names in the table; each ends with a tagged OK. */
const COMMANDS = {
  SELECT: 'SELECT INBOX',
  'FETCH FLAGS of all': 'UID FETCH 1:* (FLAGS)',
  'FETCH ENVELOPE of all': 'FETCH 1:* (UID FLAGS INTERNALDATE RFC822.SIZE ENVELOPE)',
  'FETCH BODYSTRUCTURE of all': 'FETCH 1:* (BODYSTRUCTURE)',
  'FETCH HEADER.FIELDS of all': `UID FETCH 1:* (UID RFC822.SIZE FLAGS BODY.PEEK[HEADER.FIELDS (${HEADERS})])`,
  'FETCH BODY[] of all': 'UID FETCH 1:* (UID BODY.PEEK[])',
  'SEARCH UNSEEN': 'UID SEARCH UNSEEN',
  'SEARCH SUBJECT': 'UID SEARCH SUBJECT "number 77"',
  'SEARCH SINCE': 'UID SEARCH SINCE 1-Jan-2026',
  'SORT by date': 'UID SORT (REVERSE DATE) UTF-8 ALL',
  THREAD: 'UID THREAD REFERENCES UTF-8 ALL',
  STATUS: 'STATUS Archive (MESSAGES UNSEEN UIDNEXT)',
} as const;

/** Commands that take less than a millisecond: each time is the mean of so many in a row, the first ones of a process apart. */
const IN_A_ROW: Readonly<Record<string, number>> = { SELECT: 1_000, STATUS: 1_000 };

async function timeCommand(program: MailProgram, command: string, count: number): Promise<number> {
  let sum = 0;
  for (let done = 0; done < count; done++) sum += await program.command(command);
  return sum / count;
}

function message(number: number): Buffer {
  const text = messageWithAttachment(2_300).toString('latin1');
  return Buffer.from(
    text
      .replace(/^Subject: .*$/m, `Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe=2C_number_${number}?=`)
      .replace(/^Message-ID: .*$/m, `Message-ID: <${number}@sender.test>`),
    'latin1',
  );
}

async function fill(ours: MailProgram, reference: MailProgram): Promise<void> {
  for (let at = 0; at < MESSAGES; at += AT_ONCE) {
    const some = Array.from({ length: AT_ONCE }, (_, index) => message(at + index));
    await ours.append(some);
    await reference.append(some);
  }
}

/** Messages a second, each by an APPEND of its own. */
async function measureAppends(programs: readonly MailProgram[]): Promise<number> {
  const from = performance.now();
  const each = APPENDED / programs.length;
  await Promise.all(
    programs.map(async (program) => {
      for (let count = 0; count < each; count++) await program.append([message(count)]);
    }),
  );
  return (APPENDED * 1_000) / (performance.now() - from);
}

async function compareAppends(
  ours: readonly MailProgram[],
  reference: readonly MailProgram[],
): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const [count, target] of [
    [1, 1],
    [TOGETHER, 2],
  ] as const) {
    const rates = await interleave(ROUNDS, {
      ours: () => measureAppends(ours.slice(0, count)),
      reference: () => measureAppends(reference.slice(0, count)),
    });
    const name = `imap: APPEND by ${count}`;
    figures.push(atLeast(name, 'msg/s', rates.ours, rates.reference, target));
  }
  return figures;
}

/** How far the service's resident memory grows at most while it sends everything, once or several times, in MB. */
async function measureGrowth(client: MailProgram, pid: number, times: number): Promise<number> {
  const before = residentMemory(pid);
  let most = before;
  const timer = setInterval(() => {
    most = Math.max(most, residentMemory(pid));
  }, 20);
  for (let done = 0; done < times; done++) await client.command(COMMANDS['FETCH BODY[] of all']);
  clearInterval(timer);
  return (most - before) / 1024 / 1024;
}

/**
 * The memory of FETCH BODY[] of a service that has just started on this mailbox. The first one takes most, and it stays: some
 * 9 MB of octets that were sent and wait for the garbage collector, the 8 MB of pages that SQLite keeps of whatever is read, and
 * code. The second one may still add to that, and is shown alone. What all those after it add together says whether anything
 * leaks: with a leak, each would add.
 *
 * V8 collects the young generation when a fifth of it is full (`compose/run.ts`). By default it waits for 80 %: then the first one
 * adds 78 MB, as the octets come to 50 MB, and the generation itself is touched for the first time. With 10 % it adds 19 MB, with 5 %
 * 16 MB, and more time goes to collections. To free the octets by hand as soon as they are sent comes to 36 MB. A smaller young
 * generation costs a message that comes by SMTP 7 to 29 % of the processor. A collection by hand after each megabyte comes to 15 MB,
 * and takes FETCH a fifth more of it. With 1 MB of pages in place of 8 the first one adds 17 MB, and with 5 % as well, 7 MB.
 */
async function measureMemory(client: MailProgram, pid: number): Promise<Figure[]> {
  await client.command('SELECT INBOX');
  const first = await measureGrowth(client, pid, 1);
  const second = await measureGrowth(client, pid, 1);
  const others = await measureGrowth(client, pid, ROUNDS);
  console.log(`memory of the second FETCH BODY[]: +${second.toFixed(1)} MB`);
  const name = 'imap: memory of FETCH BODY[]';
  const asFigure = (value: number, which: string) =>
    absolute(`${name}, ${which}`, [value], { unit: 'MB', target: 5, isMost: true });
  return [asFigure(first, 'the first'), asFigure(others, `${ROUNDS} later ones`)];
}

async function measure(
  [ours, ...otherOurs]: readonly MailProgram[],
  [reference, ...otherReference]: readonly MailProgram[],
  pid: number,
): Promise<Figure[]> {
  if (!ours || !reference) throw new Error('no program is connected');
  await fill(ours, reference);
  // Until the index for searches has the messages: that is work of their arrival.
  await untilAtRest(pid);
  const figures: Figure[] = [];
  for (const [name, command] of Object.entries(COMMANDS)) {
    const count = IN_A_ROW[name] ?? 1;
    const sides = {
      ours: () => timeCommand(ours, command, count),
      reference: () => timeCommand(reference, command, count),
    };
    const times = await interleave(ROUNDS + 1, sides);
    const [first, ...warm] = times.ours;
    const [firstThere, ...warmThere] = times.reference;
    console.log(`${name}: at first ${first?.toFixed(0)} ms, Dovecot ${firstThere?.toFixed(0)} ms`);
    figures.push(atMost(`imap: ${name}`, 'ms', warm, warmThere, 1));
  }
  const appends = await compareAppends([ours, ...otherOurs], [reference, ...otherReference]);
  return [...figures, ...appends];
}

export const imap: Benchmark = {
  name: 'imap',
  async run({ postgres }) {
    const place = await makePlace(postgres);
    // As it comes: the tests run it without. Ours syncs each message before it says OK, too.
    const dovecot = await startDovecot({ settings: 'mail_fsync = optimized' });
    const clients: MailProgram[] = [];
    try {
      const { dataDir, databaseUrl } = place;
      const seeder = startWorker<Seed, SeededAccount[]>('seed.ts');
      const [account] = await seeder.ask({ dataDir, databaseUrl, accounts: [{}] });
      await seeder.stop();
      const port = await findFreePort();
      const env = { IMAP_PORT: String(port), IMAP_HOST: '127.0.0.1' };
      const start = () => startService(dataDir, [], { databaseUrl, env });
      let service = await start();
      try {
        const token = account ? await makeToken(service.port, account) : '';
        const own = tokenLogin(token);
        await dovecot.addAccount('ann@bench.test');
        const { user, pass } = dovecot.loginAs('ann@bench.test');
        const other = `LOGIN "${user}" "${pass}"`;
        const openAll = (at: number, login: string) =>
          Promise.all(
            Array.from({ length: TOGETHER }, () => openMailbox(connect(at, '127.0.0.1'), login)),
          );
        const ours = await openAll(port, own);
        const reference = await openAll(dovecot.imapPort, other);
        clients.push(...ours, ...reference);
        await reference[0]?.command('CREATE Archive').catch(() => 0);
        const figures = await measure(ours, reference, service.pid);
        await service.stop();
        service = await start();
        const newcomer = await openMailbox(connect(port, '127.0.0.1'), own);
        clients.push(newcomer);
        return [...figures, ...(await measureMemory(newcomer, service.pid))];
      } finally {
        for (const client of clients) client.close();
        await service.stop();
      }
    } finally {
      await dovecot.stop();
      await place.remove();
    }
  },
};
