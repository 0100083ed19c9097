/**
 * The sessions of mail programs that are open, for operators: those of this process, and, by asking the other nodes, all.
 * Nothing is stored: a question goes to all nodes, and each answers with its own sessions.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import type { Session } from './session.ts';

const text = (maxLength: number) => Type.String({ minLength: 1, maxLength });
const whole = Type.Integer({ minimum: 0 });

const openSessionType = Type.Object({
  /** Random. */
  id: text(64),
  accountId: whole,
  /** Of the account. */
  address: text(512),
  /** IP address of the client. */
  client: text(64),
  /** Instant of the login. */
  since: whole,
  isSecure: Type.Boolean(),
  /** What the client says that it is (RFC 2971). */
  program: Type.Optional(text(400)),
  appPasswordId: Type.Optional(whole),
  mailbox: Type.Optional(text(2_048)),
  /** The last command, which may still run. */
  command: text(64),
  /** Instant. */
  commandAt: whole,
  /** Octets that the client sent, and those that it got; by TLS, before its encryption. */
  received: whole,
  sent: whole,
  /** Host of its node. */
  host: text(255),
});

export type OpenSession = Static<typeof openSessionType>;

/** What a session says of itself, after its login. */
export function describeSession({ user, openedAt, program, view, command, commandAt }: Session) {
  const { accountId, address, appPasswordId } = user;
  return {
    accountId,
    address,
    since: openedAt,
    ...(program !== undefined && { program }),
    ...(appPasswordId !== undefined && { appPasswordId }),
    ...(view && { mailbox: view.mailbox.name }),
    command,
    commandAt,
  };
}

/** Of the last session on the page before, as lists are sorted: the newest first. */
export type SessionKey = readonly [since: number, id: string];

export interface SessionQuery {
  readonly accountId?: number | undefined;
  readonly id?: string | undefined;
  readonly after?: SessionKey | undefined;
  readonly limit: number;
}

/** A connection, once an account is open in it. */
interface Describable {
  describe(): Omit<OpenSession, 'host'> | undefined;
}

function isBefore(a: SessionKey, b: SessionKey): boolean {
  return a[0] === b[0] ? a[1] > b[1] : a[0] > b[0];
}

function newestFirst(sessions: readonly OpenSession[], limit: number): OpenSession[] {
  const before = (a: OpenSession, b: OpenSession) => isBefore([a.since, a.id], [b.since, b.id]);
  return sessions.toSorted((a, b) => (before(a, b) ? -1 : 1)).slice(0, limit);
}

/** The sessions of this process. */
export class OpenSessions {
  readonly #connections = new Set<Describable>();
  readonly #host = hostname();

  add(connection: Describable): void {
    this.#connections.add(connection);
  }

  remove(connection: Describable): void {
    this.#connections.delete(connection);
  }

  /** The newest first. */
  list({ accountId, id, after, limit }: SessionQuery): OpenSession[] {
    const found: OpenSession[] = [];
    for (const connection of this.#connections) {
      const session = connection.describe();
      if (!session) continue;
      if (accountId !== undefined && session.accountId !== accountId) continue;
      if (id !== undefined && session.id !== id) continue;
      if (after && !isBefore(after, [session.since, session.id])) continue;
      found.push({ ...session, host: this.#host });
    }
    return newestFirst(found, limit);
  }

  /** How many are open, and how many of them wait in IDLE. */
  count(): { readonly open: number; readonly idle: number } {
    let open = 0;
    let idle = 0;
    for (const connection of this.#connections) {
      const session = connection.describe();
      if (session) open++;
      if (session?.command === 'IDLE') idle++;
    }
    return { open, idle };
  }
}

/** Texts to and from the other nodes. */
export interface NodeWire {
  send(text: string): Promise<unknown>;
  /** Calls the listener with each text, those of this node too. */
  listen(listener: (text: string) => void): void;
}

/** Milliseconds for the other nodes to answer. */
const ANSWER_MS = 1_000;
const LIMIT_MAX = 1_000;
/** Characters of one text: a page of sessions has some 100,000. */
const TEXT_MAX = 4 * 1024 * 1024;

const question = Compile(
  Type.Object({
    from: text(64),
    ask: text(64),
    query: Type.Object({
      accountId: Type.Optional(whole),
      id: Type.Optional(text(64)),
      after: Type.Optional(Type.Tuple([Type.Number(), Type.String({ maxLength: 64 })])),
      limit: Type.Integer({ minimum: 1, maximum: LIMIT_MAX }),
    }),
  }),
);
const answer = Compile(
  Type.Object({
    from: text(64),
    answer: text(64),
    sessions: Type.Array(openSessionType, { maxItems: LIMIT_MAX }),
  }),
);

interface SessionsOfNodesOptions {
  readonly here: OpenSessions;
  /** Id of this node. */
  readonly node: string;
  /** Ids of the nodes that run. */
  readonly listNodes: () => Promise<readonly string[]>;
  /** Left out for a node that knows no others. */
  readonly wire?: NodeWire | undefined;
  /** Milliseconds; {@link ANSWER_MS} by default. */
  readonly answerMs?: number;
}

/** What a question has got so far. */
interface Asked {
  readonly waitsFor: Set<string>;
  readonly sessions: OpenSession[];
  readonly done: () => void;
}

/** The sessions of all nodes. */
export class SessionsOfNodes {
  readonly #options: SessionsOfNodesOptions;
  readonly #asked = new Map<string, Asked>();

  constructor(options: SessionsOfNodesOptions) {
    this.#options = options;
    options.wire?.listen((received) => this.#receive(received));
  }

  /** @returns the newest first; `isComplete` is false where a node did not answer in time */
  async list(
    query: SessionQuery,
  ): Promise<{ readonly sessions: OpenSession[]; readonly isComplete: boolean }> {
    const { here, node, listNodes, wire, answerMs = ANSWER_MS } = this.#options;
    const waitsFor = new Set((await listNodes()).filter((id) => id !== node));
    const own = here.list(query);
    if (waitsFor.size === 0 || !wire) return { sessions: own, isComplete: waitsFor.size === 0 };
    const { promise, resolve: done } = Promise.withResolvers<void>();
    const ask = randomUUID();
    const asked: Asked = { waitsFor, sessions: own, done };
    this.#asked.set(ask, asked);
    const over = new AbortController();
    try {
      await wire.send(JSON.stringify({ from: node, ask, query }));
      const { signal } = over;
      await Promise.race([promise, pause(answerMs, undefined, { signal }).catch(() => {})]);
    } catch {
      // Those of this node are shown; the connection itself tells that it is lost.
    } finally {
      over.abort();
      this.#asked.delete(ask);
    }
    const sessions = newestFirst(asked.sessions, query.limit);
    return { sessions, isComplete: waitsFor.size === 0 };
  }

  /** A text may hold anything. */
  #receive(received: string): void {
    const { here, node, wire } = this.#options;
    const read = readJson(received);
    if (question.Check(read) && read.from !== node) {
      const sessions = here.list(read.query);
      // Who asked waits no longer than for its answer.
      wire?.send(JSON.stringify({ from: node, answer: read.ask, sessions })).catch(() => {});
    }
    if (!answer.Check(read)) return;
    const asked = this.#asked.get(read.answer);
    if (!asked?.waitsFor.delete(read.from)) return;
    asked.sessions.push(...read.sessions);
    if (asked.waitsFor.size === 0) asked.done();
  }
}

function readJson(received: string): unknown {
  if (received.length > TEXT_MAX) return undefined;
  try {
    return JSON.parse(received);
  } catch {
    return undefined;
  }
}
