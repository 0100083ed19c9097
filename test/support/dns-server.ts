/**
 * A DNS server on loopback, UDP and TCP, that answers as a recursive resolver would from records
 * set by the test, and fails in the ways the test asks for.
 */
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { after } from 'node:test';
import packet, { type Answer, type Packet, type Question } from 'dns-packet';
import { freePort } from './free-port.ts';

/** `TXT` as one text or as its character strings, `MX` as `10 host`, the others as their text. */
export type ZoneRecord = readonly [
  name: string,
  type: 'A' | 'AAAA' | 'CNAME' | 'MX' | 'PTR' | 'TXT',
  data: string | readonly string[],
];

/**
 * - `servfail`, `refused`, `formerr`: that response code
 * - `silent`: no answer at all
 * - `garbage`: bytes that are no message
 * - `wrong_id`: a forged answer to another question's id, then nothing
 * - `forged_first`: a forged answer with another id, then the right one
 * - `dies_midway`: truncated over UDP; over TCP half an answer, then the end
 * - `tcp_silent`: truncated over UDP; over TCP nothing
 */
export type Fault =
  | 'servfail'
  | 'refused'
  | 'formerr'
  | 'silent'
  | 'garbage'
  | 'wrong_id'
  | 'forged_first'
  | 'dies_midway'
  | 'tcp_silent';

/** Chooses the fault for a question, or none. */
export type Faults = (name: string, type: string) => Fault | undefined;

export interface AskedQuestion {
  readonly name: string;
  readonly type: string;
  readonly transport: 'udp' | 'tcp';
}

const rcodes = { formerr: 1, servfail: 2, refused: 5 } as const;
const NXDOMAIN = 3;
/** RFC 1035 section 4.2.1: without EDNS more than this does not go over UDP. */
const UDP_MAX = 512;
const ALIASES_MAX = 8;

const lower = (name: string) => name.toLowerCase().replace(/\.$/, '');

export class DnsServer {
  /** Every question that came in, in order. */
  readonly asked: AskedQuestion[] = [];
  /** Questions that are being waited on now, and the most there were. */
  inFlight = { now: 0, max: 0 };
  /** Milliseconds until an answer goes out. */
  delay = 0;
  /** Questions that come in now are answered once it is open. */
  gate: Promise<void> | undefined;
  /** Seconds that each record may be kept. */
  ttl = 3600;
  faults: Faults = () => undefined;
  #records = new Map<string, Answer[]>();
  #udp: UdpSocket | undefined;
  #tcp: Server | undefined;
  readonly #connections = new Set<Socket>();
  #port = 0;

  /** As DNS_SERVERS has it. */
  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  /** Puts these records in place of all that were there. */
  publish(records: readonly ZoneRecord[]): void {
    this.#records = new Map();
    for (const record of records) this.add(record);
  }

  add(...added: ZoneRecord[]): void {
    for (const [name, type, data] of added) {
      const key = lower(name);
      this.#records.set(key, [...(this.#records.get(key) ?? []), toAnswer(name, type, data)]);
    }
  }

  /** Takes away what a name has (of one type). */
  remove(name: string, type?: string): void {
    const key = lower(name);
    const kept = (this.#records.get(key) ?? []).filter(
      (record) => type !== undefined && record.type !== type,
    );
    if (kept.length > 0) this.#records.set(key, kept);
    else this.#records.delete(key);
  }

  async start(): Promise<void> {
    for (;;) {
      const tcp = createServer((socket) => this.#serve(socket));
      // One that nobody else is given: the server may be stopped for a while and has to come back.
      const port = this.#port || (await freePort());
      tcp.listen(port, '127.0.0.1');
      await once(tcp, 'listening');
      const udp = createSocket('udp4');
      udp.on('message', (message, peer) => {
        this.#answer(message, 'udp', (bytes) => udp.send(bytes, peer.port, peer.address));
      });
      udp.bind(port, '127.0.0.1');
      try {
        await once(udp, 'listening');
      } catch {
        // The port is somebody else's for UDP: another one, then.
        tcp.close();
        continue;
      }
      this.#port = port;
      this.#tcp = tcp;
      this.#udp = udp;
      return;
    }
  }

  /** Ends it: questions are refused by the system from now on. It starts again on the same port. */
  async stop(): Promise<void> {
    for (const socket of this.#connections) socket.destroy();
    const { promise, resolve } = Promise.withResolvers<void>();
    if (this.#tcp) this.#tcp.close(() => resolve());
    else resolve();
    this.#udp?.close();
    this.#tcp = undefined;
    this.#udp = undefined;
    await promise;
  }

  #serve(socket: Socket): void {
    this.#connections.add(socket);
    socket.on('close', () => this.#connections.delete(socket));
    socket.on('error', () => undefined);
    let buffered = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      buffered = Buffer.concat([buffered, chunk]);
      while (buffered.length >= 2 && buffered.length >= 2 + buffered.readUInt16BE()) {
        const message = buffered.subarray(2, 2 + buffered.readUInt16BE());
        buffered = buffered.subarray(2 + message.length);
        this.#answer(message, 'tcp', (bytes, whole = true) => {
          const length = Buffer.alloc(2);
          length.writeUInt16BE(whole ? bytes.length : bytes.length * 2);
          socket.write(Buffer.concat([length, bytes]));
          if (!whole) socket.end();
        });
      }
    });
  }

  #answer(
    message: Buffer,
    transport: 'udp' | 'tcp',
    send: (bytes: Buffer, whole?: boolean) => void,
  ): void {
    const query = packet.decode(message);
    const question = query.questions?.[0];
    if (!question) return;
    this.asked.push({ name: lower(question.name), type: question.type, transport });
    this.inFlight.now++;
    this.inFlight.max = Math.max(this.inFlight.max, this.inFlight.now);
    const respond = () => {
      this.inFlight.now--;
      if (transport === 'udp' && !this.#udp) return;
      this.#respond(query, question, transport, send);
    };
    if (this.gate) void this.gate.then(respond);
    else setTimeout(respond, this.delay);
  }

  #respond(
    query: Packet,
    question: Question,
    transport: 'udp' | 'tcp',
    send: (bytes: Buffer, whole?: boolean) => void,
  ): void {
    const flags = packet.RECURSION_DESIRED | packet.RECURSION_AVAILABLE;
    const respond = (answers: Answer[], more: number, id = query.id ?? 0) =>
      packet.encode({
        type: 'response',
        id,
        flags: flags | more,
        questions: [question],
        answers,
      });
    const { answers, rcode } = this.#resolve(question);
    const right = respond(answers, rcode);
    const forged = respond(
      [{ type: 'TXT', name: question.name, ttl: 60, data: ['forged'] }],
      0,
      ((query.id ?? 0) + 1) % 65_536,
    );
    const truncated = respond([], packet.TRUNCATED_RESPONSE);
    const overUdp = transport === 'udp';
    const fault = this.faults(lower(question.name), question.type);
    if (fault === 'servfail' || fault === 'refused' || fault === 'formerr') {
      send(respond([], rcodes[fault]));
    } else if (fault === 'garbage') {
      send(Buffer.concat([right.subarray(0, 12), Buffer.alloc(30, 0xff)]));
    } else if (fault === 'wrong_id') {
      send(forged);
    } else if (fault === 'forged_first') {
      send(forged);
      send(right);
    } else if (fault === 'dies_midway' && !overUdp) {
      send(right.subarray(0, right.length / 2), false);
    } else if (fault === 'dies_midway' || (fault === 'tcp_silent' && overUdp)) {
      send(truncated);
    } else if (fault === undefined) {
      send(overUdp && right.length > UDP_MAX ? truncated : right);
    }
  }

  /** Follows aliases as a recursive resolver does (RFC 1034 section 5.3.3). */
  #resolve(question: Question): { answers: Answer[]; rcode: number } {
    const answers: Answer[] = [];
    let name = lower(question.name);
    for (let hop = 0; hop <= ALIASES_MAX; hop++) {
      const records = this.#find(name);
      if (!records) {
        // Something below it makes a name exist (RFC 8020 section 2).
        const exists = [...this.#records.keys()].some((key) => key.endsWith(`.${name}`));
        return { answers, rcode: exists ? 0 : NXDOMAIN };
      }
      const owned = records.map((record) => ({ ...record, name, ttl: this.ttl }));
      const found = owned.filter(({ type }) => type === question.type);
      answers.push(...found);
      const alias = owned.find(({ type }) => type === 'CNAME');
      if (found.length > 0 || !alias || !('data' in alias)) return { answers, rcode: 0 };
      answers.push(alias);
      name = lower(String(alias.data));
    }
    return { answers: [], rcode: rcodes.servfail };
  }

  /** The records of a name, or of the wildcard that covers it (RFC 4592 section 3.3.1). */
  #find(name: string): Answer[] | undefined {
    const own = this.#records.get(name);
    if (own) return own;
    const labels = name.split('.');
    for (let cut = 1; cut < labels.length; cut++) {
      const encloser = labels.slice(cut).join('.');
      const wildcard = this.#records.get(`*.${encloser}`);
      if (wildcard) return wildcard;
      const exists = [...this.#records.keys()].some(
        (key) => key === encloser || key.endsWith(`.${encloser}`),
      );
      if (exists) return undefined;
    }
    return undefined;
  }
}

const CHARACTER_STRING_MAX = 255;

function toAnswer(name: string, type: ZoneRecord[1], data: ZoneRecord[2]): Answer {
  const common = { name: lower(name), ttl: 3600 };
  if (type === 'TXT') {
    const strings = typeof data === 'string' ? split(data) : data.map((text) => Buffer.from(text));
    return { ...common, type, data: strings };
  }
  const text = String(data);
  if (type !== 'MX') return { ...common, type, data: text };
  const [preference, exchange = ''] = text.split(' ');
  return { ...common, type, data: { preference: Number(preference), exchange } };
}

function split(text: string): Buffer[] {
  const bytes = Buffer.from(text);
  const strings = Array.from({ length: Math.ceil(bytes.length / CHARACTER_STRING_MAX) }, (_, n) =>
    bytes.subarray(n * CHARACTER_STRING_MAX, (n + 1) * CHARACTER_STRING_MAX),
  );
  return strings.length > 0 ? strings : [Buffer.alloc(0)];
}

const started: DnsServer[] = [];

after(async () => {
  for (const server of started.splice(0)) await server.stop();
});

/** Starts a server; it is stopped when the test file ends. */
export async function startDnsServer(records: readonly ZoneRecord[] = []): Promise<DnsServer> {
  const server = new DnsServer();
  server.publish(records);
  await server.start();
  started.push(server);
  return server;
}
