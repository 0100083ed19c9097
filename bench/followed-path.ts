/**
 * `node bench/followed-path.ts`: the files of src/ in which a function runs between the connection of
 * an SMTP client and the 250 of its one message. So many does a newcomer read to follow a message.
 */
import { Session } from 'node:inspector/promises';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { startTestService } from '../test/support/service.ts';

const SOURCE = new URL('../src/', import.meta.url).href;
const MESSAGE =
  'From: Bob <bob@sender.test>\r\nTo: Alice <alice@example.org>\r\nSubject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=\r\n' +
  'Date: Mon, 2 Nov 2026 10:00:00 +0000\r\nMessage-ID: <1@sender.test>\r\nMIME-Version: 1.0\r\n' +
  'Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nHello =E2=82=AC\r\n.\r\n';

/** Sends one message as an MTA does, and leaves the connection open: QUIT is not part of the way. */
async function sendOne(port: number, recipient: string): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1' });
  const commands = [
    'EHLO client.test',
    'MAIL FROM:<bob@sender.test>',
    `RCPT TO:<${recipient}>`,
    'DATA',
  ];
  const lines = [...commands.map((line) => `${line}\r\n`), MESSAGE];
  for await (const reply of createInterface({ input: socket })) {
    if (reply[3] === '-') continue;
    if (!/^[23]/.test(reply)) throw new Error(`the service answered ${reply}`);
    const next = lines.shift();
    if (next === undefined) break;
    socket.write(next);
  }
  socket.destroy();
}

/** Paths below src/ of the files in which a function ran since the last call. */
async function filesRun(): Promise<string[]> {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  return result
    .filter(({ url }) => url.startsWith(SOURCE))
    .filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0))
    .map(({ url }) => url.slice(SOURCE.length))
    .sort();
}

const service = await startTestService('sqlite');
const account = await service.makeAccount();
const session = new Session();
session.connect();
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
// The first verification of the domain goes on after the calls that made it.
do await delay(200);
while ((await filesRun()).length > 0);
await sendOne(service.smtpPort, account.address);
const files = await filesRun();
for (const file of files) console.log(file);
const folders = new Set(files.map((file) => file.slice(0, file.lastIndexOf('/'))));
console.log(`${files.length} files in ${folders.size} folders`);
await service.stop();
process.exit();
