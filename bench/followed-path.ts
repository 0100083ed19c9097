/**
 * `node bench/followed-path.ts [--functions]`: the files of src/ in which a function runs from the connection
 * of an SMTP client to the write of the 250 of its message, the first one of its account. So many does a
 * newcomer read to follow a message. Counted are calls, by V8's coverage, that every one of a few messages makes:
 * not the timers that happen to fire meanwhile, not what runs before (the start) or after (the search index), nor
 * files of which only constants and types are used.
 */
import { Session } from 'node:inspector';
import { connect, Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { DnsServer } from '../test/support/dns-server.ts';
import { startTestService } from '../test/support/service.ts';

const SOURCE = new URL('../src/', import.meta.url).href;
/** Messages that are sent, each to an account of its own. */
const MESSAGES = 5;
const SENDER = 'sender.test';
const MESSAGE =
  `From: Bob <bob@${SENDER}>\r\nTo: Alice <alice@example.org>\r\nSubject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=\r\n` +
  'Date: Mon, 2 Nov 2026 10:00:00 +0000\r\nMessage-ID: <1@mail.test>\r\nMIME-Version: 1.0\r\n' +
  'Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nHello =E2=82=AC\r\n.\r\n';

/** Sends one message as an MTA does, and waits for its 250. QUIT is not part of the way. */
async function sendOne(port: number, recipient: string, domain: string): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1' });
  const commands = [
    'EHLO client.test',
    `MAIL FROM:<bob@${domain}>`,
    `RCPT TO:<${recipient}>`,
    'DATA',
  ];
  const lines = [...commands.map((line) => `${line}\r\n`), MESSAGE.replaceAll(SENDER, domain)];
  for await (const reply of createInterface({ input: socket })) {
    if (reply[3] === '-') continue;
    if (!/^[23]/.test(reply)) throw new Error(`the service answered ${reply}`);
    const next = lines.shift();
    if (next === undefined) break;
    socket.write(next);
  }
  socket.destroy();
}

/** Calls back when the service writes the 250 of a message: what it does from then on is not on the way. */
function whenAnswered(callback: () => void): void {
  const { write } = Socket.prototype;
  Socket.prototype.write = function (this: Socket, ...written: Parameters<typeof write>) {
    if (typeof written[0] === 'string' && written[0].startsWith('250 2.0.0 Accepted')) callback();
    return write.apply(this, written);
  } as typeof write;
}

/** Functions that ran since the last call, by the paths below src/ of their files. */
function functionsRun(): Map<string, string[]> {
  const ran = new Map<string, string[]>();
  // A session with its own thread calls back before it returns.
  session.post('Profiler.takePreciseCoverage', (error, { result }) => {
    if (error) throw error;
    for (const { url, functions } of result) {
      const called = functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0);
      if (!url.startsWith(SOURCE) || called.length === 0) continue;
      const names = called.map(({ functionName }) => functionName).filter((name) => name !== '');
      ran.set(url.slice(SOURCE.length), [...new Set(names)]);
    }
  });
  return new Map([...ran].sort());
}

// It answers that there is no such record: the sender checks go the usual way.
const dns = new DnsServer();
await dns.start();
const service = await startTestService('sqlite', { DNS_SERVERS: dns.address });
const account = await service.makeAccount();
const session = new Session();
session.connect();
session.post('Profiler.enable');
session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
const ways: ReturnType<typeof functionsRun>[] = [];
whenAnswered(() => ways.push(functionsRun()));
const accounts = [account];
while (accounts.length < MESSAGES)
  accounts.push(await service.addAccount(account, `a${accounts.length}`));
for (const [index, { address }] of accounts.entries()) {
  functionsRun();
  // Of a domain of its own: DNS is asked about each.
  await sendOne(service.smtpPort, address, `sender${index}.test`);
}
const [way = new Map(), ...others] = ways;
if (others.length < MESSAGES - 1) throw new Error('a message was not answered 250');
for (const file of way.keys()) if (!others.every((other) => other.has(file))) way.delete(file);
const isLong = process.argv.includes('--functions');
for (const [file, names] of way) console.log(isLong ? `${file}: ${names.join(' ')}` : file);
const folders = new Set([...way.keys()].map((file) => file.slice(0, file.lastIndexOf('/'))));
console.log(`${way.size} files in ${folders.size} folders`);
await service.stop();
await dns.stop();
process.exit();
