/** The hosts that mail is sent to: smtp-server with faults, and listeners that follow a script. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { after } from 'node:test';
import { SMTPServer } from 'smtp-server';
import { MessageSender, type MessageSenderOptions } from '../../../src/mail/outbound/outbound.ts';
import type { DnsAnswer, DnsLookup, DnsRecords, DnsType } from '../../../src/protocols/dns/dns.ts';

type ServerOptions = NonNullable<ConstructorParameters<typeof SMTPServer>[0]>;

/** A message as the far end received it. */
export interface Received {
  readonly from: string;
  /** Parameters of MAIL, by name. */
  readonly parameters: Record<string, unknown>;
  readonly to: readonly string[];
  readonly source: Buffer;
  readonly secure: boolean;
  readonly heloName: string;
}

export interface FarEnd {
  readonly port: number;
  readonly received: Received[];
  /** Connections so far. */
  readonly connections: { count: number };
}

const closing: (() => Promise<unknown>)[] = [];
after(async () => {
  for (const close of closing.splice(0)) await close();
});

/** A refusal with its reply code. */
export function refusal(responseCode: number, text: string): Error {
  return Object.assign(new Error(text), { responseCode });
}

/** Starts smtp-server on loopback; it is closed when the test file ends. */
export async function startFarEnd(
  options: ServerOptions = {},
  host = '127.0.0.1',
  port = 0,
): Promise<FarEnd> {
  const received: Received[] = [];
  const connections = { count: 0 };
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['AUTH', 'STARTTLS'],
    logger: false,
    closeTimeout: 100,
    onData(stream, session, callback) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const { mailFrom, rcptTo } = session.envelope;
        received.push({
          from: mailFrom === false ? '' : mailFrom.address,
          parameters: (mailFrom !== false && { ...mailFrom.args }) || {},
          to: rcptTo.map(({ address }) => address),
          source: Buffer.concat(chunks),
          secure: session.secure,
          heloName: String(session.hostNameAppearsAs),
        });
        callback(null, '2.0.0 queued as 4711');
      });
    },
    ...options,
    onConnect(session, callback) {
      connections.count++;
      if (options.onConnect) options.onConnect.call(this, session, callback);
      else callback();
    },
  });
  server.on('error', () => {});
  const listener = server.listen(port, host);
  await once(listener, 'listening');
  closing.push(() => new Promise<void>((resolve) => server.close(resolve)));
  return { port: (listener.address() as AddressInfo).port, received, connections };
}

/** Starts a listener that treats each connection as the script says. */
export async function startScript(
  script: (socket: Socket) => void,
  host = '127.0.0.1',
): Promise<number> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    script(socket);
  });
  server.listen(0, host);
  await once(server, 'listening');
  closing.push(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/**
 * A script of replies: one for each line of the client, by its first word in upper case; `MESSAGE` is the reply to the
 * message, which ends with a single dot. A function gets the line as well. Without a reply the client waits.
 */
export function replies(
  answers: Record<string, string | ((socket: Socket, line: string) => void)>,
): (socket: Socket) => void {
  return (socket) => {
    const say = (key: string, line = '') => {
      const answer = answers[key];
      if (typeof answer === 'string') socket.write(`${answer}\r\n`);
      else answer?.(socket, line);
      return answer;
    };
    say('GREETING');
    let text = '';
    let inData = false;
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      for (let end = text.indexOf('\r\n'); end >= 0; end = text.indexOf('\r\n')) {
        const line = text.slice(0, end);
        text = text.slice(end + 2);
        if (inData && line !== '.') continue;
        const key = inData ? 'MESSAGE' : (line.split(/[ :]/)[0] ?? '').toUpperCase();
        inData = false;
        const answer = say(key, line);
        if (key === 'DATA' && typeof answer === 'string' && answer.startsWith('354')) inData = true;
      }
    });
  };
}

/** Answers that accept everything, to be overwritten one by one. */
export const polite = {
  GREETING: '220 far.test ESMTP',
  EHLO: '250-far.test\r\n250-SIZE\r\n250-8BITMIME\r\n250 SMTPUTF8',
  MAIL: '250 2.1.0 ok',
  RCPT: '250 2.1.5 ok',
  DATA: '354 go on',
  MESSAGE: '250 2.0.0 queued as 1',
  QUIT: (socket: Socket) => socket.end('221 bye\r\n'),
};

/** The records of DNS: `MX` as `10 host`, and addresses; `!` is a server that does not answer. */
export type Zone = Readonly<
  Record<
    string,
    { MX?: readonly string[] | '!'; A?: readonly string[] | '!'; AAAA?: readonly string[] }
  >
>;

export function dnsOf(zone: Zone): DnsLookup {
  return {
    async lookup<Type extends DnsType>(name: string, type: Type): Promise<DnsAnswer<Type>> {
      const found: Partial<Record<DnsType, readonly string[] | '!'>> = zone[name] ?? {};
      const records = found[type];
      if (records === '!') return { kind: 'unanswered', reason: 'SERVFAIL' };
      if (!records) return { kind: 'absent', reason: zone[name] ? 'no_record' : 'no_name' };
      const read = (text: string) => {
        const [preference, exchange = ''] = text.split(' ');
        return type === 'MX' ? { preference: Number(preference), exchange } : text;
      };
      return { kind: 'records', records: records.map(read) as DnsRecords[Type][] };
    },
  };
}

/** A sender for which `far.test` is a host on loopback. */
export function senderTo(port: number, options: Partial<MessageSenderOptions> = {}): MessageSender {
  return new MessageSender({
    hostname: 'mail.postroom.test',
    dns: dnsOf({ 'far.test': { MX: ['10 mx.far.test'] }, 'mx.far.test': { A: ['127.0.0.1'] } }),
    isAllowedAddress: () => true,
    mxPort: port,
    ...options,
  });
}

/** An iterable of a source, in chunks as from a network. */
export function sourceOf(source: string | Buffer, cut = 16_384): () => AsyncIterable<Uint8Array> {
  const bytes = Buffer.from(source);
  return async function* () {
    for (let at = 0; at < bytes.length; at += cut) yield bytes.subarray(at, at + cut);
  };
}

export async function collect(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(chunks));
}

/** An outgoing message of this source. */
export function outgoing(source: string | Buffer, to = 'ann@far.test') {
  return {
    from: 'bob@acme.test',
    to,
    size: Buffer.byteLength(source),
    eightBit: false,
    smtpUtf8: false,
    open: sourceOf(source),
  };
}
