/** Mail servers that take mail by LMTP: one that keeps it, with faults, and ones that follow a script. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { after } from 'node:test';
import { SMTPServer } from 'smtp-server';
import { freePort } from './free-port.ts';

/** A message in one mailbox, as the server has it. */
export interface Kept {
  readonly from: string;
  /** Parameters of MAIL, by name. */
  readonly parameters: Record<string, unknown>;
  readonly to: string;
  readonly source: string;
}

export interface TestLmtpServer {
  readonly port: number;
  readonly kept: Kept[];
  /** Connections and transactions so far. */
  readonly counts: { connections: number; messages: number; open: number };
  /** What an address is answered, if not that it has the message: a code and a text. */
  readonly atRcpt: Map<string, string>;
  readonly atEnd: Map<string, string>;
  /** Keeps the next message of an address, and hangs up when it is his turn to be answered. */
  loseReplyOf(address: string): void;
  close(): Promise<void>;
}

const closing: (() => Promise<unknown>)[] = [];
after(async () => {
  for (const close of closing.splice(0)) await close();
});

function refusal(text: string): Error {
  const [, code, said = ''] = /^(\d{3}) (.*)$/.exec(text) ?? [];
  return Object.assign(new Error(said), { responseCode: Number(code) });
}

/** Starts a server on loopback; it is closed when the test file ends. */
export async function startLmtpServer({
  port,
  hideSMTPUTF8 = false,
}: {
  port?: number;
  hideSMTPUTF8?: boolean;
} = {}): Promise<TestLmtpServer> {
  const kept: Kept[] = [];
  const counts = { connections: 0, messages: 0, open: 0 };
  const atRcpt = new Map<string, string>();
  const atEnd = new Map<string, string>();
  const lost = new Set<string>();
  const sockets = new Map<number | undefined, Socket>();
  const server = new SMTPServer({
    lmtp: true,
    hideSMTPUTF8,
    size: 100_000_000,
    authOptional: true,
    disabledCommands: ['AUTH', 'STARTTLS'],
    logger: false,
    closeTimeout: 100,
    onConnect(_session, callback) {
      counts.connections++;
      counts.open++;
      callback();
    },
    onClose() {
      counts.open--;
    },
    onRcptTo({ address }, _session, callback) {
      const said = atRcpt.get(address);
      callback(said === undefined ? null : refusal(said));
    },
    onData(stream, session, callback) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        counts.messages++;
        const { mailFrom, rcptTo } = session.envelope;
        const source = Buffer.concat(chunks).toString('latin1');
        const until = rcptTo.findIndex(({ address }) => lost.delete(address));
        const replies = rcptTo.map(({ address }) => {
          const said = atEnd.get(address);
          if (said !== undefined) return refusal(said);
          kept.push({
            from: mailFrom === false ? '' : mailFrom.address,
            parameters: (mailFrom !== false && { ...mailFrom.args }) || {},
            to: address,
            source,
          });
          return '2.0.0 saved';
        });
        // By LMTP the library wants a reply for each recipient, which its types leave out.
        callback(null, replies.slice(0, until < 0 ? undefined : until) as unknown as string);
        if (until >= 0) sockets.get(session.remotePort)?.end();
      });
    },
  });
  server.on('error', () => {});
  // One that nobody else is given: tests close it and expect that nobody answers, or another one there.
  const listener = server.listen(port ?? (await freePort()), '127.0.0.1');
  listener.on('connection', (socket: Socket) => sockets.set(socket.remotePort, socket));
  await once(listener, 'listening');
  const close = () => new Promise<void>((resolve) => server.close(resolve));
  closing.push(close);
  const bound = listener.address() as AddressInfo;
  const loseReplyOf = (address: string) => lost.add(address);
  return { port: bound.port, kept, counts, atRcpt, atEnd, loseReplyOf, close };
}

/** What a scripted server says: a text, or what it does with the connection. */
export type Answer = string | ((socket: Socket) => void);

/**
 * Answers that take everything, to be overwritten one by one. `END` answers the message: a text once
 * for each recipient.
 */
export const polite: Record<string, Answer> = {
  GREETING: '220 mail.test LMTP',
  LHLO: '250-mail.test\r\n250-PIPELINING\r\n250-ENHANCEDSTATUSCODES\r\n250 8BITMIME',
  MAIL: '250 2.1.0 ok',
  RCPT: '250 2.1.5 ok',
  DATA: '354 go on',
  END: '250 2.0.0 saved',
  RSET: '250 2.0.0 ok',
  QUIT: (socket) => socket.end('221 2.0.0 bye\r\n'),
};

export interface Script {
  readonly port: number;
  /** Every line of every client, without those of messages. */
  readonly lines: string[];
  /** Messages as they came over the line, without the lone dot. */
  readonly messages: string[];
  connections: number;
}

/**
 * Starts a server that answers each line by its first word. Without an answer it stays silent. An
 * array has one answer for each time the word comes, the last for all that follow.
 */
export async function startScript(
  answers: Record<string, Answer | readonly Answer[]>,
): Promise<Script> {
  const sockets = new Set<Socket>();
  const script: Script = { port: 0, lines: [], messages: [], connections: 0 };
  const said = new Map<string, number>();
  const server = createServer((socket) => {
    script.connections++;
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    let recipients = 0;
    const say = (key: string): Answer | undefined => {
      const count = said.get(key) ?? 0;
      said.set(key, count + 1);
      const all = answers[key];
      const answer = Array.isArray(all) ? all[Math.min(count, all.length - 1)] : all;
      const times = key === 'END' ? recipients : 1;
      if (typeof answer === 'string') socket.write(`${answer}\r\n`.repeat(times));
      else if (typeof answer === 'function') answer(socket);
      return answer;
    };
    say('GREETING');
    let text = '';
    let message: string[] | undefined;
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      for (let end = text.indexOf('\r\n'); end >= 0; end = text.indexOf('\r\n')) {
        const line = text.slice(0, end);
        text = text.slice(end + 2);
        if (message && line !== '.') {
          message.push(line);
          continue;
        }
        if (message) script.messages.push(message.join('\r\n'));
        else script.lines.push(line);
        const key = message ? 'END' : (line.split(/[ :]/)[0] ?? '').toUpperCase();
        message = undefined;
        if (key === 'MAIL') recipients = 0;
        const answer = say(key);
        if (key === 'RCPT') recipients++;
        if (key === 'DATA' && typeof answer === 'string' && answer.startsWith('354')) message = [];
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return Object.assign(script, { port: (server.address() as AddressInfo).port });
}
