/**
 * One exchange with one recursive server: the question by UDP, and again by TCP where the answer does not fit into a
 * datagram (RFC 7766 section 5). `dns-packet` reads and writes messages; Node's own resolver does not say how long an
 * answer may be cached.
 */
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { connect, isIP, isIPv6 } from 'node:net';
import packet, { type DecodedPacket, type OptAnswer, type Question } from 'dns-packet';

/** RFC 1035 section 2.3.4, in presentation form. */
const NAME_MAX = 253;
const LABEL = /^[!-~]{1,63}$/;

/** Whether the text can be a name in DNS. If not, it has no records, which is an answer. */
export function isDnsName(name: string): boolean {
  return name.length <= NAME_MAX && name.split('.').every((label) => LABEL.test(label));
}

/** Octets of a datagram that arrive without fragmentation (RFC 9715 section 3.2). */
const UDP_MAX = 1_232;
const PORT = 53;

export interface ExchangeOptions {
  /** `ip`, `ip:port` or `[ip]:port`. */
  readonly server: string;
  /** Milliseconds for the answer, by UDP and by TCP each. */
  readonly timeout: number;
  /** Whether to tell the server that we accept datagrams of more than 512 octets (RFC 6891). */
  readonly edns: boolean;
  readonly signal: AbortSignal;
}

/** The server's message, or the reason why there is no usable one. */
export type Exchanged = DecodedPacket | string;

interface Query extends ExchangeOptions {
  readonly host: string;
  readonly port: number;
  readonly question: Question;
  readonly id: number;
  readonly bytes: Buffer;
}

/** Asks one question. Never rejects. */
export async function exchange(question: Question, options: ExchangeOptions): Promise<Exchanged> {
  const { host, port } = readServer(options.server);
  if (isIP(host) === 0) return 'bad server address';
  if (options.signal.aborted) return 'stopped';
  // RFC 5452 section 9.2: neither the id nor the port of the socket can be guessed.
  const id = randomInt(65_536);
  const bytes = packet.encode({
    type: 'query',
    id,
    flags: packet.RECURSION_DESIRED,
    questions: [question],
    ...(options.edns && { additionals: [sizeOption] }),
  });
  const query = { ...options, host, port, question, id, bytes };
  const answer = await askByUdp(query);
  return answer === TRUNCATED ? askByTcp(query) : answer;
}

const sizeOption: OptAnswer = {
  type: 'OPT',
  name: '.',
  udpPayloadSize: UDP_MAX,
  extendedRcode: 0,
  ednsVersion: 0,
  flags: 0,
  flag_do: false,
  options: [],
};

function readServer(server: string): { host: string; port: number } {
  if (isIP(server) !== 0) return { host: server, port: PORT };
  const [, bracketed, plain, port] = /^(?:\[(.*)\]|([^:]*))(?::(\d+))?$/.exec(server) ?? [];
  return { host: bracketed ?? plain ?? '', port: Number(port ?? PORT) };
}

/** Ends a transport: at the answer, at an error, at the timeout, or by the signal. */
function settle(
  { timeout, signal }: Query,
  open: (end: (result: Exchanged) => void) => () => void,
) {
  return new Promise<Exchanged>((resolve) => {
    const end = (result: Exchanged) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
      close();
      resolve(result);
    };
    const stop = () => end('stopped');
    const timer = setTimeout(() => end(TIMEOUT), timeout);
    signal.addEventListener('abort', stop);
    const close = open(end);
  });
}

function askByUdp(query: Query): Promise<Exchanged> {
  return settle(query, (end) => {
    const socket = createSocket(isIPv6(query.host) ? 'udp6' : 'udp4');
    let isClosed = false;
    socket.on('error', (error) => end(reasonOf(error)));
    // A connected socket gets datagrams only from this server, and gets an error if nobody listens there.
    socket.connect(query.port, query.host);
    // A callback of `connect` would be called for an error too, and the error event would not come.
    socket.on('connect', () => socket.send(query.bytes));
    socket.on('message', (bytes) => {
      const answer = readAnswer(bytes, query);
      if (answer) end(answer);
    });
    return () => {
      if (!isClosed) socket.close();
      isClosed = true;
    };
  });
}

function askByTcp(query: Query): Promise<Exchanged> {
  return settle(query, (end) => {
    const socket = connect(query.port, query.host);
    const length = Buffer.alloc(2);
    length.writeUInt16BE(query.bytes.length);
    socket.write(Buffer.concat([length, query.bytes]));
    let received = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE()) return;
      end(readAnswer(received.subarray(2, 2 + received.readUInt16BE()), query) ?? MALFORMED);
    });
    socket.on('error', (error) => end(reasonOf(error)));
    socket.on('close', () => end('connection ended'));
    return () => socket.destroy();
  });
}

export const TIMEOUT = 'timeout';
/** Nobody listens there, or there is no way to it. */
export const NO_CONNECTION = 'no connection';
const MALFORMED = 'malformed answer';
const TRUNCATED = 'truncated answer';
/** The bits of `flags` that hold the response code (RFC 1035 section 4.1.1). */
export const RCODE = 0xf;

/** The answer to the question; undefined for the answer to another one (RFC 5452 section 9.1). */
function readAnswer(bytes: Buffer, { id, question }: Query): Exchanged | undefined {
  if (bytes.length < 4 || bytes.readUInt16BE() !== id) return undefined;
  // A truncated message may end within a record.
  if ((bytes.readUInt16BE(2) & packet.TRUNCATED_RESPONSE) !== 0) return TRUNCATED;
  try {
    const message = packet.decode(bytes);
    const [asked] = message.questions ?? [];
    // A server that could not read the question may leave it out.
    const isOurs = asked
      ? asked.type === question.type && asked.name.toLowerCase() === question.name
      : ((message.flags ?? 0) & RCODE) !== 0;
    return message.type === 'response' && isOurs ? message : undefined;
  } catch {
    return MALFORMED;
  }
}

function reasonOf(error: NodeJS.ErrnoException): string {
  const { code = 'failed' } = error;
  return /^E(?:CONN|NET|HOST)/.test(code) ? NO_CONNECTION : code;
}
