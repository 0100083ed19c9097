/**
 * An IMAP server on a real socket, controlled by a test: it works correctly, with one mailbox for all accounts, except
 * where a fault is scripted.
 */
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { after } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import { freePort } from '../free-port.ts';

/** One command as it came. */
export interface Command {
  readonly tag: string;
  /** In capitals, `UID FETCH` in one. */
  readonly name: string;
  readonly args: string;
  /** Which connection it came on, from 1. */
  readonly connection: number;
  /** Whose connection: the name that logged in. */
  readonly user: string;
}

/** Replaces the usual answer: other text, and what happens to the connection. */
export interface Fault {
  /** What is sent; `TAG` stands for the command's. */
  readonly send?: string;
  readonly after?: 'drop';
}

export interface FakeMessage {
  readonly uid: number;
  flags: string;
  modseq: number;
  readonly source: string;
}

export interface FakeServer {
  readonly port: number;
  readonly commands: Command[];
  readonly mailbox: { uidvalidity: number; uidnext: number; modseq: number };
  /** Those of the current mailbox of this name. */
  readonly messages: FakeMessage[];
  /** What VANISHED (EARLIER) lists, in place of the removed messages. */
  vanished: string | undefined;
  capabilities: string;
  greeting: string | undefined;
  /** Sent where a command has a literal, before it comes; `TAG` stands for the command's. */
  goOn: string;
  password: string;
  /** Called for each command; returns undefined for the usual answer. */
  fault: (command: Command) => Fault | undefined;
  readonly open: number;
  add(source: string, flags?: string): FakeMessage;
  /** The current answer to UID FETCH with these arguments, without its tagged line. */
  rowsOf(args: string): string;
  setFlags(uid: number, flags: string): void;
  expunge(uid: number): void;
  /** Deletes the mailbox and creates another; sessions that have the old one open continue with it. */
  makeAnew(): void;
  /** Ends every connection. */
  drop(): void;
  stop(): Promise<void>;
  /** Listens again on the same port. */
  restart(): Promise<void>;
}

export interface FakeOptions {
  readonly tls?: { readonly cert: string; readonly key: string };
}

const started: FakeServer[] = [];
after(async () => {
  for (const server of started.splice(0)) await server.stop();
});

/** Starts one on a free port; it is stopped when the test file ends. */
export async function startFakeServer({ tls }: FakeOptions = {}): Promise<FakeServer> {
  const sockets = new Set<Socket>();
  let expunged: Expunged[] = [];
  let messages: FakeMessage[] = [];
  let connections = 0;
  const accept = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).once('close', () => sockets.delete(socket));
    serve({ fake, messages, expunged: () => expunged, seen: 0, uidnext: 1 }, socket, ++connections);
  };
  const create = (): Server => (tls ? createTlsServer(tls, accept) : createServer(accept));
  let server = create().on('tlsClientError', () => undefined);
  // One that nobody else is given: the server may be stopped for a while and has to come back.
  const port = await freePort();
  const listen = () => once(server.listen(port, '127.0.0.1'), 'listening');
  await listen();
  const fake: FakeServer = {
    port,
    commands: [],
    mailbox: { uidvalidity: 7, uidnext: 1, modseq: 1 },
    get messages() {
      return messages;
    },
    vanished: undefined,
    capabilities: 'IMAP4rev1 AUTH=PLAIN ENABLE CONDSTORE QRESYNC UIDPLUS ESEARCH UNSELECT',
    greeting: '* OK ready',
    goOn: '+ go on',
    password: 'secret-of-the-master',
    fault: () => undefined,
    get open() {
      return sockets.size;
    },
    add(source, flags = '') {
      const message = { uid: fake.mailbox.uidnext++, flags, modseq: ++fake.mailbox.modseq, source };
      fake.messages.push(message);
      return message;
    },
    rowsOf: (args) =>
      fetchAnswer({ fake, messages, expunged: () => expunged, seen: 0, uidnext: 1 }, args),
    setFlags(uid, flags) {
      const message = fake.messages.find((one) => one.uid === uid);
      if (!message || message.flags === flags) return;
      message.flags = flags;
      message.modseq = ++fake.mailbox.modseq;
    },
    expunge(uid) {
      const at = fake.messages.findIndex((one) => one.uid === uid);
      if (at < 0) return;
      fake.messages.splice(at, 1);
      expunged.push({ uid, modseq: ++fake.mailbox.modseq });
    },
    makeAnew() {
      fake.mailbox.uidvalidity++;
      fake.mailbox.uidnext = 1;
      fake.mailbox.modseq = 1;
      messages = [];
      expunged = [];
    },
    drop() {
      for (const socket of sockets) socket.destroy();
    },
    async stop() {
      fake.drop();
      await new Promise((resolve) => server.close(resolve));
    },
    async restart() {
      server = create().on('tlsClientError', () => undefined);
      await listen();
    },
  };
  started.push(fake);
  return fake;
}

interface Expunged {
  readonly uid: number;
  readonly modseq: number;
}

interface Session {
  readonly fake: FakeServer;
  /** Those of the mailbox that the session opened. */
  messages: readonly FakeMessage[];
  readonly expunged: () => readonly Expunged[];
  /** The MODSEQ up to which changes were reported to the session, and the UID up to which messages were. */
  seen: number;
  uidnext: number;
}

function serve(session: Session, socket: Socket, connection: number): void {
  const { fake } = session;
  let user = '';
  let awaited: Command | undefined;
  let text = '';
  if (fake.greeting !== undefined) socket.write(`${fake.greeting}\r\n`);
  const answer = (command: Command, usual: () => string) => {
    const fault = fake.fault(command);
    const said = fault ? (fault.send ?? '') : usual();
    if (said !== '') socket.write(said.replaceAll('TAG', command.tag), 'latin1');
    if (fault?.after === 'drop') socket.end();
  };
  const take = (line: string) => {
    if (awaited) {
      const [authzid, authcid = '', password] = Buffer.from(line, 'base64').toString().split('\0');
      user = authzid || authcid;
      const command = { ...awaited, user };
      awaited = undefined;
      const isRight = password === fake.password;
      const refusal = 'TAG NO [AUTHENTICATIONFAILED] no\r\n';
      answer(command, () =>
        isRight ? `TAG OK [CAPABILITY ${fake.capabilities}] in\r\n` : refusal,
      );
      return;
    }
    const [, tag = '', first = '', rest = ''] = /^(\S+) (\S+) ?([\s\S]*)$/.exec(line) ?? [];
    const [, second = '', args = ''] =
      first.toUpperCase() === 'UID' ? (/^(\S+) ?(.*)$/.exec(rest) ?? []) : [];
    const name = (second ? `UID ${second}` : first).toUpperCase();
    const command = { tag, name, args: second ? args : rest, connection, user };
    if (name === 'AUTHENTICATE') {
      awaited = command;
      socket.write('+ \r\n');
      return;
    }
    fake.commands.push(command);
    answer(command, () => usualAnswer(session, command));
  };
  let asked = 0;
  /** Where the command ends, its literal (RFC 3501 section 4.3) included; -1 before it does. */
  const lineEnd = (): number => {
    const end = text.indexOf('\r\n');
    const [, size] = /\{(\d+)\}$/.exec(end < 0 ? '' : text.slice(0, end)) ?? [];
    if (size === undefined) return end;
    const [tag = ''] = text.split(' ', 1);
    if (asked !== end) socket.write(`${fake.goOn.replace('TAG', tag)}\r\n`);
    const last = text.indexOf('\r\n', end + 2 + Number(size));
    asked = last < 0 ? end : 0;
    return last;
  };
  socket.on('data', (bytes: Buffer) => {
    text += bytes.toString('latin1');
    for (let end = lineEnd(); end >= 0; end = lineEnd()) {
      const line = text.slice(0, end);
      text = text.slice(end + 2);
      take(line);
    }
  });
}

function usualAnswer(session: Session, { name, args }: Command): string {
  const { fake } = session;
  const done = `TAG OK ${name} done\r\n`;
  if (name === 'CAPABILITY') return `* CAPABILITY ${fake.capabilities}\r\n${done}`;
  if (name === 'ENABLE') return `* ENABLED ${args}\r\n${done}`;
  if (name === 'EXAMINE' || name === 'SELECT') return selectAnswer(session, args) + done;
  if (name === 'STATUS') return statusAnswer(session, args) + done;
  if (name === 'UID SEARCH') {
    const found = search(session, args.replace(/^RETURN \(ALL\) /, ''));
    return args.startsWith('RETURN')
      ? `* ESEARCH (TAG "TAG") UID${found.length > 0 ? ` ALL ${found.join(',')}` : ''}\r\n${done}`
      : `* SEARCH ${found.join(' ')}\r\n${done}`;
  }
  if (name === 'UID FETCH') return fetchAnswer(session, args) + done;
  if (name === 'UID STORE') {
    storeFlags(session, args);
    return newsOf(session) + done;
  }
  if (name === 'NOOP' && session.seen < fake.mailbox.modseq) {
    session.seen = fake.mailbox.modseq;
    return `* ${session.messages.length} EXISTS\r\n${done}`;
  }
  return done;
}

/** `1:2,4 +FLAGS (\\Seen)`. Messages that have the flags already are not changed. */
function storeFlags({ fake }: Session, args: string): void {
  const [, set = '', sign, list = ''] = /^(\S+) ([+-])FLAGS\S* \(([^)]*)\)$/.exec(args) ?? [];
  for (const { uid, flags } of fake.messages) {
    if (!set.split(',').some((range) => isWithin(uid, range))) continue;
    const held = flags.split(' ').filter((flag) => flag !== '');
    const named = list.split(' ');
    const rest = held.filter((flag) => !named.includes(flag));
    const lacking = named.filter((flag) => !held.includes(flag));
    fake.setFlags(uid, (sign === '+' ? [...held, ...lacking] : rest).join(' '));
  }
}

function isWithin(uid: number, range: string): boolean {
  const [first = 0, last = first] = range.split(':').map(Number);
  return uid >= first && uid <= last;
}

/** What changed since the session was told last, by whomever: with the messages, their number where some came. */
function newsOf(session: Session): string {
  const { fake, seen, messages } = session;
  session.seen = fake.mailbox.modseq;
  const gone = vanishedSince(session, seen).replace(' (EARLIER)', '');
  const came = messages.some(({ uid }) => uid >= session.uidnext);
  session.uidnext = fake.mailbox.uidnext;
  return rows(session, { after: seen }) + gone + (came ? `* ${messages.length} EXISTS\r\n` : '');
}

/** The UIDs of all messages, or of those with a flag: `SEEN`, `KEYWORD $Label1`. */
function search({ messages }: Session, key: string): number[] {
  const [, flag] = /^KEYWORD (\S+)$/.exec(key) ?? /^([A-Z]+)$/.exec(key) ?? [];
  const wanted = key.startsWith('KEYWORD') ? flag : `\\${flag}`;
  const has = ({ flags }: FakeMessage) =>
    flags.split(' ').some((one) => one.toLowerCase() === wanted?.toLowerCase());
  return messages.filter((message) => flag === undefined || has(message)).map(({ uid }) => uid);
}

/** `VANISHED (EARLIER)` for removals after a MODSEQ. */
function vanishedSince({ fake, expunged }: Session, since: number): string {
  const uids = expunged()
    .filter(({ modseq }) => modseq > since)
    .map(({ uid }) => uid);
  const text = fake.vanished ?? uids.join(',');
  return text === '' ? '' : `* VANISHED (EARLIER) ${text}\r\n`;
}

function selectAnswer(session: Session, args: string): string {
  const { mailbox, messages, capabilities } = session.fake;
  session.messages = messages;
  session.seen = mailbox.modseq;
  session.uidnext = mailbox.uidnext;
  const since = Number(/QRESYNC \(\d+ (\d+)/.exec(args)?.[1] ?? Number.NaN);
  const lines = [
    `* FLAGS (${['\\Seen', ...new Set(keywordsOf(messages))].join(' ')})`,
    `* ${messages.length} EXISTS`,
    `* OK [UIDVALIDITY ${mailbox.uidvalidity}] ok`,
    `* OK [UIDNEXT ${mailbox.uidnext}] ok`,
  ];
  if (capabilities.includes('CONDSTORE')) lines.push(`* OK [HIGHESTMODSEQ ${mailbox.modseq}] ok`);
  let text = lines.map((line) => `${line}\r\n`).join('');
  if (since < mailbox.modseq) {
    text += vanishedSince(session, since) + rows(session, { after: since });
  }
  return text;
}

function statusAnswer({ fake }: Session, args: string): string {
  const { uidvalidity, uidnext, modseq } = fake.mailbox;
  const [name] = args.split(' ');
  const values = `MESSAGES ${fake.messages.length} UIDNEXT ${uidnext} UIDVALIDITY ${uidvalidity}`;
  return `* STATUS ${name} (${values} HIGHESTMODSEQ ${modseq})\r\n`;
}

function keywordsOf(messages: readonly FakeMessage[]): string[] {
  const flags = messages.flatMap((message) => message.flags.split(' '));
  return flags.filter((flag) => flag !== '' && !flag.startsWith('\\'));
}

interface Wanted {
  readonly first?: number;
  readonly last?: number;
  /** Only changes after this MODSEQ. */
  readonly after?: number;
  readonly more?: (message: FakeMessage) => string;
}

function rows({ messages }: Session, wanted: Wanted): string {
  const { first = 1, last = Number.POSITIVE_INFINITY, after = 0, more = () => '' } = wanted;
  let text = '';
  for (const [index, message] of messages.entries()) {
    const { uid, flags, modseq } = message;
    if (uid < first || uid > last || modseq <= after) continue;
    const known = `UID ${uid} FLAGS (${flags}) MODSEQ (${modseq})`;
    text += `* ${index + 1} FETCH (${known}${more(message)})\r\n`;
  }
  return text;
}

function fetchAnswer(session: Session, args: string): string {
  const [set = ''] = args.split(' ');
  const since = /CHANGEDSINCE (\d+)( VANISHED)?/.exec(args);
  const after = Number(since?.[1] ?? 0);
  const partial = /BODY\.PEEK\[\]<(\d+)\.(\d+)>/.exec(args);
  const more = ({ source }: FakeMessage) => {
    if (args.includes('HEADER.FIELDS')) {
      const header = source.slice(0, source.indexOf('\r\n\r\n') + 4);
      return ` BODY[HEADER.FIELDS (SUBJECT)]<0> {${header.length}}\r\n${header}`;
    }
    const date = args.includes('INTERNALDATE') ? ' INTERNALDATE "21-Nov-2026 10:00:00 +0000"' : '';
    if (!partial) return date;
    const start = Number(partial[1]);
    const piece = source.slice(start, start + Number(partial[2]));
    return `${date} BODY[]<${start}> {${piece.length}}\r\n${piece}`;
  };
  let text = since?.[2] ? vanishedSince(session, after) : '';
  for (const range of set.split(',')) {
    const [first = 0, last = first] = range
      .split(':')
      .map((uid) => (uid === '*' ? 1e10 : Number(uid)));
    text += rows(session, { first, last, after, more });
  }
  return text;
}
