/**
 * DNS for the other capabilities: one lookup, one typed answer that distinguishes "there is no such record" from "no
 * server answered". Stores nothing.
 */
import { getServers } from 'node:dns';
import type { Answer, StringAnswer } from 'dns-packet';
import { LRUCache } from 'lru-cache';
import pLimit, { type LimitFunction } from 'p-limit';
import { type Exchanged, exchange, isDnsName, NO_CONNECTION, RCODE, TIMEOUT } from './exchange.ts';

export { isDnsName } from './exchange.ts';

/** One MX record (RFC 1035 section 3.3.9). */
export interface MxRecord {
  /** Lower is preferred (RFC 5321 section 5.1). */
  readonly preference: number;
  /** Lower case without the root's dot; `''` is the root, a null MX (RFC 7505 section 3). */
  readonly exchange: string;
}

/** The type of a record in an answer, for each type that is looked up. */
export interface DnsRecords {
  A: string;
  AAAA: string;
  CNAME: string;
  MX: MxRecord;
  PTR: string;
  /**
   * The character strings of one TXT record joined without a separator, as SPF (RFC 7208 section 3.3), DKIM (RFC 6376
   * section 3.6.2.2) and DMARC need it; one character for each byte.
   */
  TXT: string;
}

export type DnsType = keyof DnsRecords;

/**
 * The answer to one lookup. `absent` is an answer, too: the name or the record does not exist. `unanswered` says
 * nothing about the record: no server answered.
 */
export type DnsAnswer<Type extends DnsType> =
  | { readonly kind: 'records'; readonly records: readonly DnsRecords[Type][] }
  | {
      readonly kind: 'absent';
      /** No such name (NXDOMAIN), no such record at the name, or a text that cannot be a name in DNS. */
      readonly reason: 'no_name' | 'no_record' | 'bad_name';
    }
  | {
      readonly kind: 'unanswered';
      /** What was wrong, for people: `SERVFAIL`, `timeout`. */
      readonly reason: string;
      /** No server was reached, so none is too busy; or one did not answer in time, and may still work at it. */
      readonly failure?: 'unreachable' | 'late';
    };

/** Looks up names in DNS. Never throws: a failure is `unanswered`. */
export interface DnsLookup {
  /** @param name host name in ASCII, with or without the root's dot */
  lookup<Type extends DnsType>(name: string, type: Type): Promise<DnsAnswer<Type>>;
}

export interface DnsResolverOptions {
  /** `ip`, `ip:port` or `[ip]:port`; empty: those of the system, read again for each lookup. */
  readonly servers: readonly string[];
  /** Questions under way at a time; 32 when left out. */
  readonly concurrency?: number;
  /** Milliseconds that the first attempt waits for its answer, and each later one. */
  readonly timeouts?: { readonly first: number; readonly later: number };
  /** Whether answers are cached, for as long as their records allow; by default nothing is cached. */
  readonly keeps?: boolean;
  /** Called for each lookup with the milliseconds that its answer took; without them for a cached one. For metrics. */
  readonly onAsked?: (outcome: DnsAnswer<DnsType>['kind'] | 'kept', ms?: number) => void;
  /** Milliseconds on a clock that never goes back. */
  readonly now?: () => number;
}

const CONCURRENCY = 32;
/** A recursive resolver may itself wait for slow servers: so the second attempt waits longer. */
const TIMEOUTS_MS = { first: 3_000, later: 5_000 };
/** A single server is asked twice; of many, the later ones get their turn with the next lookup. */
const ATTEMPTS = { min: 2, max: 3 };

/*
 * What is kept, at most. Names and answers are a stranger's choice: those that were used longest ago go
 * first, and no answer of theirs is kept for longer than an hour.
 */
const KEPT_OCTETS_MAX = 8 * 1024 * 1024;
const KEPT_MS_MAX = 3_600_000;
/** The absence of a record is cached for a short time: somebody may be about to publish it (RFC 2308). */
const KEPT_ABSENT_MS_MAX = 60_000;
/** Octets of an entry in addition to its texts. */
const ENTRY_OCTETS = 300;

/** An answer, and for how long it is valid, in milliseconds. */
interface Timed<Type extends DnsType> {
  readonly answer: DnsAnswer<Type>;
  readonly ttl: number;
}

interface Kept {
  /** Of the type in its key. */
  readonly answer: DnsAnswer<DnsType>;
  readonly until: number;
}

/**
 * Asks the servers one after the other until one answers. When a server failed and another one answered, the one that
 * failed is asked last from then on. A caller that needs the current state uses one without a cache: the servers
 * have caches of their own.
 */
export class DnsResolver implements DnsLookup {
  readonly #options: DnsResolverOptions;
  readonly #timeouts: { readonly first: number; readonly later: number };
  readonly #limit: LimitFunction;
  readonly #now: () => number;
  readonly #underWay = new Set<AbortController>();
  readonly #kept = new LRUCache<string, Kept>({
    maxSize: KEPT_OCTETS_MAX,
    sizeCalculation: ({ answer }, key) =>
      ENTRY_OCTETS + 2 * key.length + (answer.kind === 'records' ? sizeOf(answer.records) : 0),
  });
  #closed = false;
  /** The server with which the next lookup starts: increases when servers fail. */
  #first = 0;

  constructor(options: DnsResolverOptions) {
    this.#options = options;
    this.#timeouts = options.timeouts ?? TIMEOUTS_MS;
    this.#limit = pLimit(options.concurrency ?? CONCURRENCY);
    this.#now = options.now ?? (() => performance.now());
  }

  /** The cached answer to a lookup, if it is still valid. `lookup` always asks a server. */
  kept<Type extends DnsType>(name: string, type: Type): DnsAnswer<Type> | undefined {
    const kept = this.#kept.get(keyOf(name, type));
    if (!kept || kept.until <= this.#now()) return undefined;
    this.#options.onAsked?.('kept');
    // The key names the type of the records.
    return kept.answer as DnsAnswer<Type>;
  }

  async lookup<Type extends DnsType>(name: string, type: Type): Promise<DnsAnswer<Type>> {
    const asked = withoutRoot(name);
    if (!isDnsName(asked)) return { kind: 'absent', reason: 'bad_name' };
    const { answer, ttl } = await this.#limit(() => this.#ask(asked, type));
    if (this.#options.keeps && ttl > 0) {
      this.#kept.set(keyOf(asked, type), { answer, until: this.#now() + ttl });
    }
    return answer;
  }

  /** Ends all lookups under way, and refuses new ones: all are `unanswered`. */
  close(): void {
    this.#closed = true;
    for (const asking of this.#underWay) asking.abort();
  }

  async #ask<Type extends DnsType>(name: string, type: Type): Promise<Timed<Type>> {
    const askedAt = this.#now();
    const found = await this.#askServers(name, type);
    this.#options.onAsked?.(found.answer.kind, this.#now() - askedAt);
    return found;
  }

  async #askServers<Type extends DnsType>(name: string, type: Type): Promise<Timed<Type>> {
    // Read again each time, since a machine's resolvers change when it moves to another network.
    const servers = this.#options.servers.length > 0 ? this.#options.servers : getServers();
    const attempts = Math.min(Math.max(servers.length, ATTEMPTS.min), ATTEMPTS.max);
    const first = this.#first;
    let found: Timed<Type> = unanswered('no DNS server is set', 'unreachable');
    let reached: Timed<Type> | undefined;
    for (let attempt = 0; attempt < attempts; attempt++) {
      const server = servers[(first + attempt) % servers.length];
      if (server === undefined) return found;
      if (this.#closed) return unanswered('stopped');
      found = await this.#askServer(server, attempt, name, type);
      if (found.answer.kind === 'unanswered') {
        if (found.answer.failure !== 'unreachable') reached = found;
        continue;
      }
      this.#first = (first + attempt) % servers.length;
      return found;
    }
    // None of them answered: the next lookup starts with the server after them.
    this.#first = (first + attempts) % servers.length;
    return reached ?? found;
  }

  async #askServer<Type extends DnsType>(
    server: string,
    attempt: number,
    name: string,
    type: Type,
  ): Promise<Timed<Type>> {
    const asking = new AbortController();
    this.#underWay.add(asking);
    const isFirst = attempt === 0;
    const said = await exchange(
      { name, type },
      {
        server,
        timeout: isFirst ? this.#timeouts.first : this.#timeouts.later,
        // A server from before 1999 refuses EDNS: the second attempt goes without.
        edns: isFirst,
        signal: asking.signal,
      },
    );
    this.#underWay.delete(asking);
    return readAnswer(said, name, type);
  }
}

const keyOf = (name: string, type: DnsType) => `${type} ${withoutRoot(name)}`;

const withoutRoot = (name: string) => name.toLowerCase().replace(/\.$/, '');

/**
 * A name in a record: its owner chose the octets, and it goes into logs, answers and headers. Octets that are not
 * printable ASCII are shown as `\DDD` (RFC 1035 section 5.1), so no such name is a host that could be connected to.
 */
const nameIn = (name: string) =>
  withoutRoot(name).replace(/[^!-~]/gu, (character) =>
    [...Buffer.from(character)].map((octet) => `\\${String(octet).padStart(3, '0')}`).join(''),
  );

function sizeOf(records: readonly DnsRecords[DnsType][]): number {
  const texts = records.map((one) => (typeof one === 'string' ? one : one.exchange));
  return texts.reduce((size, { length }) => size + 2 * length + 50, 0);
}

type Unanswered = Extract<DnsAnswer<DnsType>, { kind: 'unanswered' }>;

function unanswered(
  reason: string,
  failure?: Unanswered['failure'],
): { answer: Unanswered; ttl: 0 } {
  return { answer: { kind: 'unanswered', reason, ...(failure && { failure }) }, ttl: 0 };
}

/** RFC 1035 section 4.1.1; other codes are shown as numbers. */
const NO_ERROR = 0;
const NAME_ERROR = 3;
const reasons: Record<number, string> = { 1: 'FORMERR', 2: 'SERVFAIL', 4: 'NOTIMP', 5: 'REFUSED' };
/** Aliases that are followed in one answer. */
const ALIASES_MAX = 16;

function readAnswer<Type extends DnsType>(said: Exchanged, name: string, type: Type): Timed<Type> {
  if (said === NO_CONNECTION) return unanswered(said, 'unreachable');
  if (said === TIMEOUT) return unanswered(said, 'late');
  if (typeof said === 'string') return unanswered(said);
  const rcode = (said.flags ?? 0) & RCODE;
  if (rcode !== NO_ERROR && rcode !== NAME_ERROR) {
    return unanswered(reasons[rcode] ?? `response code ${rcode}`);
  }
  const { found, ttl } = followAliases(said.answers ?? [], name, type);
  if (rcode === NO_ERROR && found.length > 0) {
    const records = found.flatMap((answer) => readers[type](answer));
    return { answer: { kind: 'records', records }, ttl: Math.min(ttl, KEPT_MS_MAX) };
  }
  // An alias whose target was not followed: there is no record to return.
  const reason = rcode === NAME_ERROR ? 'no_name' : 'no_record';
  return { answer: { kind: 'absent', reason }, ttl: absentFor(said.authorities ?? []) };
}

/** The records of the name, or of the name it is an alias of (RFC 1034 section 3.6.2), and their TTL in ms. */
function followAliases(answers: readonly Answer[], name: string, type: DnsType) {
  let owner = name;
  let ttl = Number.POSITIVE_INFINITY;
  for (let hop = 0; hop < ALIASES_MAX; hop++) {
    const owned = answers.filter((answer) => withoutRoot(answer.name) === owner);
    const found = owned.filter((answer) => answer.type === type);
    const alias = owned.find((answer): answer is StringAnswer => answer.type === 'CNAME');
    ttl = Math.min(ttl, ...(found.length > 0 ? found : alias ? [alias] : []).map(ttlOf));
    if (found.length > 0 || !alias) return { found, ttl };
    owner = withoutRoot(alias.data);
  }
  return { found: [], ttl };
}

/** Milliseconds; what is over 31 bits counts as none (RFC 2181 section 8). */
function ttlOf(answer: Answer): number {
  const { ttl = 0 } = 'ttl' in answer ? answer : {};
  return typeof ttl === 'number' && ttl < 2 ** 31 ? ttl * 1_000 : 0;
}

/** RFC 2308 section 5: as the zone says, but not for long. */
function absentFor(authorities: readonly Answer[]): number {
  const zone = authorities.find((answer) => answer.type === 'SOA');
  if (!zone) return KEPT_ABSENT_MS_MAX;
  return Math.min(ttlOf(zone), (zone.data.minimum ?? 0) * 1_000, KEPT_ABSENT_MS_MAX);
}

/** The value of a record, by its type; nothing for a record of another type. */
const readers: { [Type in DnsType]: (answer: Answer) => DnsRecords[Type][] } = {
  A: (answer) => (answer.type === 'A' ? [answer.data] : []),
  AAAA: (answer) => (answer.type === 'AAAA' ? [answer.data] : []),
  CNAME: (answer) => (answer.type === 'CNAME' ? [nameIn(answer.data)] : []),
  PTR: (answer) => (answer.type === 'PTR' ? [nameIn(answer.data)] : []),
  TXT: (answer) => (answer.type === 'TXT' ? [textOf(answer.data)] : []),
  MX: (answer) =>
    answer.type === 'MX'
      ? [{ preference: answer.data.preference ?? 0, exchange: nameIn(answer.data.exchange) }]
      : [],
};

function textOf(data: string | Buffer | readonly (string | Buffer)[]): string {
  const strings = Array.isArray(data) ? data : [data];
  return strings.map((one) => Buffer.from(one).toString('latin1')).join('');
}
