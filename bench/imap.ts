/**
 * What mail programs ask for, of the same 10,000 messages of 8 KB on our IMAP server and on a private Dovecot: each
 * command in turn on both, with what both have cached before (the first round is left out). The targets are those of
 * Dovecot itself: no command may be slower than there.
 */
import { connect, type Socket } from 'node:net';
import { startDovecot } from '../test/servers/dovecot.ts';
import { absolute, atMost, type Benchmark, type Figure, interleave } from './support/figures.ts';
import { makePlace } from './support/folders.ts';
import { messageWithAttachment } from './support/messages.ts';
import { findFreePort } from './support/ports.ts';
import type { Seed, SeededAccount } from './support/seed.ts';
import { makeToken, residentMemory, startService } from './support/service.ts';
import { startWorker } from './support/worker.ts';

const MESSAGES = 10_000;
/** Messages of one APPEND (RFC 3502). */
const AT_ONCE = 100;
const ROUNDS = 7;
const NOTICES = 40;
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
  STATUS: 'STATUS Archive (MESSAGES UNSEEN UIDNEXT)',
} as const;

/** Reads answers as they come and keeps only their last octets: 80 MB are not the client's to hold. */
class Client {
  readonly #socket: Socket;
  #tail = '';
  #until: RegExp = /$^/;
  #done: () => void = () => {};

  constructor(port: number) {
    this.#socket = connect(port, '127.0.0.1').setNoDelay(true);
    this.#socket.on('data', (chunk: Buffer) => {
      this.#tail = (this.#tail + chunk.subarray(-2_000).toString('latin1')).slice(-2_000);
      if (this.#until.test(this.#tail)) this.#done();
    });
  }

  /** Sends text, and waits for a line at the end of what comes. @returns milliseconds */
  async send(text: string | Buffer, until: RegExp): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#tail = '';
    this.#until = until;
    this.#done = resolve;
    const from = performance.now();
    if (text.length > 0) this.#socket.write(text);
    await promise;
    return performance.now() - from;
  }

  async command(text: string): Promise<number> {
    const took = await this.send(`t ${text}\r\n`, /(?:^|\r\n)t (?:OK|NO|BAD) [^\r\n]*\r\n$/);
    if (!/(?:^|\r\n)t OK /.test(this.#tail)) throw new Error(`${text}: ${this.#tail}`);
    return took;
  }

  append(messages: readonly Buffer[]): Promise<number> {
    const parts = messages.flatMap((one) => [Buffer.from(` {${one.length}+}\r\n`), one]);
    const all = Buffer.concat([Buffer.from('t APPEND INBOX'), ...parts, Buffer.from('\r\n')]);
    return this.send(all, /(?:^|\r\n)t OK [^\r\n]*\r\n$/);
  }

  close(): void {
    this.#socket.destroy();
  }
}

/** @param login LOGIN or AUTHENTICATE, with what it needs */
async function open(port: number, login: string): Promise<Client> {
  const client = new Client(port);
  await client.send('', /^\* OK [^\r\n]*\r\n$/);
  await client.command(login);
  return client;
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

async function fill(ours: Client, reference: Client): Promise<void> {
  for (let at = 0; at < MESSAGES; at += AT_ONCE) {
    const some = Array.from({ length: AT_ONCE }, (_, index) => message(at + index));
    await ours.append(some);
    await reference.append(some);
  }
}

/** From an APPEND by one program until another one is told of it in IDLE. */
async function measureNotice(appending: Client, idling: Client): Promise<number[]> {
  const times: number[] = [];
  await idling.send('t IDLE\r\n', /\+ [^\r\n]*\r\n$/);
  for (let round = 0; round < NOTICES; round++) {
    const from = performance.now();
    const told = idling.send('', /\* \d+ EXISTS\r\n/);
    await Promise.all([appending.append([message(MESSAGES + round)]), told]);
    times.push(performance.now() - from);
  }
  return times;
}

/** How far the service's memory grows while it sends everything, in MB. */
async function measureGrowth(client: Client, pid: number): Promise<number> {
  const before = residentMemory(pid);
  let most = before;
  const timer = setInterval(() => {
    most = Math.max(most, residentMemory(pid));
  }, 20);
  await client.command(COMMANDS['FETCH BODY[] of all']);
  clearInterval(timer);
  return (most - before) / 1024 / 1024;
}

async function measure(
  ours: readonly [Client, Client],
  reference: readonly [Client, Client],
  pid: number,
): Promise<Figure[]> {
  await fill(ours[0], reference[0]);
  const figures: Figure[] = [];
  for (const [name, command] of Object.entries(COMMANDS)) {
    const sides = {
      ours: () => ours[0].command(command),
      reference: () => reference[0].command(command),
    };
    const times = await interleave(ROUNDS + 1, sides);
    const [first, ...warm] = times.ours;
    const [firstThere, ...warmThere] = times.reference;
    console.log(`${name}: at first ${first?.toFixed(0)} ms, Dovecot ${firstThere?.toFixed(0)} ms`);
    figures.push(atMost(`imap: ${name}`, 'ms', warm, warmThere, 1));
  }
  const grown = await measureGrowth(ours[0], pid);
  figures.push(
    absolute('imap: memory of FETCH BODY[]', [grown], { unit: 'MB', target: 5, isMost: true }),
  );
  await ours[1].command('SELECT INBOX');
  await reference[1].command('SELECT INBOX');
  const notices = await measureNotice(...ours);
  const there = await measureNotice(...reference);
  figures.push(atMost('imap: APPEND to EXISTS in IDLE', 'ms', notices, there, 1));
  return figures;
}

export const imap: Benchmark = {
  name: 'imap',
  async run({ postgres }) {
    const place = await makePlace(postgres);
    const dovecot = await startDovecot();
    const clients: Client[] = [];
    try {
      const { dataDir, databaseUrl } = place;
      const seeder = startWorker<Seed, SeededAccount[]>('seed.ts');
      const [account] = await seeder.ask({ dataDir, databaseUrl, accounts: [{}] });
      await seeder.stop();
      const port = await findFreePort();
      const env = { IMAP_PORT: String(port), IMAP_HOST: '127.0.0.1' };
      const service = await startService(dataDir, [], { databaseUrl, env });
      try {
        const token = account ? await makeToken(service.port, account) : '';
        const bearer = `n,,\x01auth=Bearer ${token}\x01\x01`;
        const own = `AUTHENTICATE OAUTHBEARER ${Buffer.from(bearer).toString('base64')}`;
        await dovecot.addAccount('ann@bench.test');
        const { user, pass } = dovecot.loginAs('ann@bench.test');
        const other = `LOGIN "${user}" "${pass}"`;
        const ours = [await open(port, own), await open(port, own)] as const;
        const reference = [
          await open(dovecot.imapPort, other),
          await open(dovecot.imapPort, other),
        ] as const;
        clients.push(...ours, ...reference);
        await reference[0].command('CREATE Archive').catch(() => 0);
        return await measure(ours, reference, service.pid);
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
