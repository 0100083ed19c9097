/**
 * Worker: sends one message over and over on a few connections that stay open, as fast as it is taken, by
 * `smtp-source -d` of Postfix where that is installed, or so many a second.
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { answerTasks } from './worker.ts';

export interface SmtpLoad {
  readonly port: number;
  readonly connections: number;
  readonly messages: number;
  /** Each gets the next message. */
  readonly recipients: readonly [string, ...string[]];
  /** As many as are taken where left out. */
  readonly perSecond?: number;
  /** File of the message. */
  readonly path: string;
}

export interface SmtpSent {
  readonly seconds: number;
  readonly generator: 'smtp-source' | 'built in';
}

const SENDER = 'bob@sender.test';
const SMTP_SOURCE = ['/usr/sbin/smtp-source', '/usr/local/sbin/smtp-source'].find(existsSync);

async function sendBySmtpSource(program: string, load: SmtpLoad): Promise<void> {
  const { port, connections, messages, recipients, path } = load;
  // It ends each line of the file with CRLF: a CR of the file's own would make a header without end.
  const unixPath = `${path}.lf`;
  writeFileSync(unixPath, readFileSync(path, 'latin1').replaceAll('\r\n', '\n'), 'latin1');
  const counts = ['-s', String(connections), '-m', String(messages)];
  const mail = ['-f', SENDER, '-t', recipients[0], '-F', unixPath];
  const child = spawn(program, ['-d', ...counts, ...mail, `127.0.0.1:${port}`], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  child.once('error', reject);
  child.once('exit', (code) => {
    if (code === 0) resolve();
    else reject(new Error(`smtp-source ended with ${code}`));
  });
  await promise;
}

/** The dialogue of one message, command by command: no pipelining, as smtp-source has none. */
function sendOnOne(port: number, data: Buffer, next: () => Promise<string | undefined>) {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let commands: readonly (string | Buffer)[] = [];
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  socket.setEncoding('latin1').once('error', reject);
  const begin = (recipient: string | undefined) => {
    if (recipient === undefined) {
      socket.end('QUIT\r\n');
      resolve();
      return;
    }
    const [from, to] = [`MAIL FROM:<${SENDER}>\r\n`, `RCPT TO:<${recipient}>\r\n`];
    commands = [from, to, 'DATA\r\n', data];
    socket.write(from);
  };
  let step = -2;
  let line = '';
  socket.on('data', (text: string) => {
    line += text;
    // A reply is over with a line that has a space after its code (RFC 5321 section 4.2.1).
    if (!line.endsWith('\r\n') || !/^\d{3} /m.test(line)) return;
    const expected = step === 2 ? '354' : step === -2 ? '220' : '250';
    if (!line.startsWith(expected)) reject(new Error(`step ${step} was answered ${line}`));
    line = '';
    step++;
    if (step === 4) step = 0;
    if (step === -1) socket.write('EHLO load.test\r\n');
    else if (step === 0) void next().then(begin, reject);
    else socket.write(commands[step] ?? '');
  });
  return promise;
}

async function sendBySockets(load: SmtpLoad): Promise<void> {
  const source = readFileSync(load.path, 'latin1').replace(/^\./gm, '..');
  const data = Buffer.from(`${source}\r\n.\r\n`, 'latin1');
  const { port, connections, messages, recipients, perSecond } = load;
  const from = performance.now();
  let sent = 0;
  const next = async () => {
    if (sent === messages) return undefined;
    const number = sent++;
    if (perSecond) await delay(Math.max(0, from + (number * 1000) / perSecond - performance.now()));
    return recipients[number % recipients.length];
  };
  const senders = Array.from({ length: connections }, () => sendOnOne(port, data, next));
  await Promise.all(senders);
}

answerTasks(async (load: SmtpLoad): Promise<SmtpSent> => {
  const from = performance.now();
  // It knows one recipient and no pauses.
  const isPlain = load.perSecond === undefined && load.recipients.length === 1;
  const program = isPlain ? SMTP_SOURCE : undefined;
  if (program) await sendBySmtpSource(program, load);
  else await sendBySockets(load);
  const seconds = (performance.now() - from) / 1000;
  return { seconds, generator: program ? 'smtp-source' : 'built in' };
});
