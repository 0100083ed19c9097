/**
 * DNS as the other capabilities ask it: one question, one typed answer that tells "there is no such
 * record" from "nobody could be asked". Owns nothing in storage.
 */
import { promises as dns } from 'node:dns';
import pLimit, { type LimitFunction } from 'p-limit';

/** One MX record (RFC 1035 section 3.3.9). */
export interface MxRecord {
  /** Lower is preferred (RFC 5321 section 5.1). */
  readonly preference: number;
  /** Lower case without the root's dot; `''` is the root, a null MX (RFC 7505 section 3). */
  readonly exchange: string;
}

/** What a record of each type that we ask for is answered as. */
export interface DnsRecords {
  A: string;
  AAAA: string;
  CNAME: string;
  MX: MxRecord;
  PTR: string;
  /**
   * The character strings of one TXT record joined without anything between them, as SPF (RFC 7208
   * section 3.3), DKIM (RFC 6376 section 3.6.2.2) and DMARC want it; one character for each byte.
   */
  TXT: string;
}

export type DnsType = keyof DnsRecords;

/**
 * The answer to one question. `absent` is an answer, too: the name or the record is not there.
 * `unanswered` says nothing about the record: nobody could be asked.
 */
export type DnsAnswer<Type extends DnsType> =
  | { readonly kind: 'records'; readonly records: readonly DnsRecords[Type][] }
  | {
      readonly kind: 'absent';
      /** No such name (NXDOMAIN), no such record at the name, or no name that DNS could hold. */
      readonly reason: 'no_name' | 'no_record' | 'bad_name';
    }
  | {
      readonly kind: 'unanswered';
      /** What was wrong, for people: `SERVFAIL`, `timeout`. */
      readonly reason: string;
    };

/** Asks DNS. Never throws: what goes wrong is `unanswered`. */
export interface DnsLookup {
  /** @param name host name in ASCII, with or without the root's dot */
  lookup<Type extends DnsType>(name: string, type: Type): Promise<DnsAnswer<Type>>;
}

export interface DnsResolverOptions {
  /** `ip`, `ip:port` or `[ip]:port`; none: those of the system, as they are at each question. */
  readonly servers: readonly string[];
  /** Questions under way at a time; 32 when left out. */
  readonly concurrency?: number;
  /** Milliseconds that the first attempt waits for its answer, and the later ones each. */
  readonly timeouts?: { readonly first: number; readonly later: number };
}

export interface DnsResolver extends DnsLookup {
  /** Ends every question under way, and refuses new ones: all are `unanswered`. */
  close(): void;
}

const CONCURRENCY = 32;
/** A recursive resolver may itself have to wait for slow servers: the second attempt is patient. */
const TIMEOUTS_MS = { first: 3_000, later: 5_000 };
/** A lone server is asked twice; of many, the later ones get their turn with the next question. */
const ATTEMPTS = { min: 2, max: 3 };

/** Errors that are answers: RFC 1035 section 4.1.1 (name error), RFC 2308 section 2.2 (no data). */
const absences = {
  ENOTFOUND: 'no_name',
  ENODATA: 'no_record',
  EBADNAME: 'bad_name',
} as const;

/** What the other errors of c-ares are called among people; the rest goes by its code. */
const reasons: Record<string, string> = {
  EFORMERR: 'FORMERR',
  ESERVFAIL: 'SERVFAIL',
  ENOTIMP: 'NOTIMP',
  EREFUSED: 'REFUSED',
  ETIMEOUT: 'timeout',
  ECONNREFUSED: 'no connection',
  EBADRESP: 'malformed answer',
  ECANCELLED: 'stopped',
  ERR_INVALID_IP_ADDRESS: 'bad server address',
};

/**
 * Asks the servers one after the other until one answers. A server that failed where another
 * answered is asked last from then on.
 */
class RecursiveResolver implements DnsResolver {
  readonly #servers: readonly string[];
  readonly #timeouts: { readonly first: number; readonly later: number };
  readonly #limit: LimitFunction;
  readonly #underWay = new Set<dns.Resolver>();
  #closed = false;
  /** How many servers were found wanting: where the next question starts. */
  #first = 0;

  constructor(options: DnsResolverOptions) {
    this.#servers = options.servers;
    this.#timeouts = options.timeouts ?? TIMEOUTS_MS;
    this.#limit = pLimit(options.concurrency ?? CONCURRENCY);
  }

  lookup<Type extends DnsType>(name: string, type: Type): Promise<DnsAnswer<Type>> {
    return this.#limit(() => this.#ask(name, type));
  }

  close(): void {
    this.#closed = true;
    for (const resolver of this.#underWay) resolver.cancel();
  }

  async #ask<Type extends DnsType>(name: string, type: Type): Promise<DnsAnswer<Type>> {
    // Read anew, since a machine's resolvers change when it moves to another network.
    const servers = this.#servers.length > 0 ? this.#servers : new dns.Resolver().getServers();
    const attempts = Math.min(Math.max(servers.length, ATTEMPTS.min), ATTEMPTS.max);
    const first = this.#first;
    let answer: DnsAnswer<Type> = { kind: 'unanswered', reason: 'no DNS server is set' };
    for (let attempt = 0; attempt < attempts; attempt++) {
      const server = servers[(first + attempt) % servers.length];
      if (server === undefined) return answer;
      if (this.#closed) return { kind: 'unanswered', reason: 'stopped' };
      const timeout = attempt === 0 ? this.#timeouts.first : this.#timeouts.later;
      answer = await this.#askServer(server, timeout, name, type);
      if (answer.kind === 'unanswered') continue;
      this.#first = (first + attempt) % servers.length;
      return answer;
    }
    // None of them: the next question starts with the one after.
    this.#first = (first + attempts) % servers.length;
    return answer;
  }

  /**
   * A resolver of its own for each attempt: c-ares shortens the timeout of one that it keeps to a
   * few times the usual latency, which is that of answers from a cache. It costs 0.1 ms, and each
   * question gets a source port of its own (RFC 5452 section 9.2). c-ares repeats a truncated
   * answer's question over TCP (RFC 7766 section 5) and passes over answers to other questions.
   */
  async #askServer<Type extends DnsType>(
    server: string,
    timeout: number,
    name: string,
    type: Type,
  ): Promise<DnsAnswer<Type>> {
    const resolver = new dns.Resolver({ timeout, tries: 1 });
    this.#underWay.add(resolver);
    try {
      resolver.setServers([server]);
      const records = await readers[type](resolver, name);
      // An alias whose target was not followed: there is no record to tell of.
      if (records.length === 0) return { kind: 'absent', reason: 'no_record' };
      return { kind: 'records', records };
    } catch (error) {
      return toAnswer(error);
    } finally {
      this.#underWay.delete(resolver);
    }
  }
}

function toAnswer(error: unknown): Exclude<DnsAnswer<DnsType>, { kind: 'records' }> {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (isAbsence(code)) return { kind: 'absent', reason: absences[code] };
  const reason = reasons[code] ?? (/^E(?!RR_)[A-Z]+$/.test(code) ? code : undefined);
  // Not an error of DNS but a bug.
  if (reason === undefined) throw error;
  return { kind: 'unanswered', reason };
}

function isAbsence(code: string): code is keyof typeof absences {
  return Object.hasOwn(absences, code);
}

/** Backslashes that stand for themselves: c-ares reads them as escapes (RFC 1035 section 5.1). */
const asName = (text: string) => text.replaceAll('\\', '\\\\');

const withoutRoot = (name: string) => name.toLowerCase().replace(/\.$/, '');

const readers: {
  [Type in DnsType]: (resolver: dns.Resolver, name: string) => Promise<DnsRecords[Type][]>;
} = {
  A: (resolver, name) => resolver.resolve4(asName(name)),
  AAAA: (resolver, name) => resolver.resolve6(asName(name)),
  CNAME: async (resolver, name) => (await resolver.resolveCname(asName(name))).map(withoutRoot),
  PTR: async (resolver, name) => (await resolver.resolvePtr(asName(name))).map(withoutRoot),
  TXT: async (resolver, name) =>
    (await resolver.resolveTxt(asName(name))).map((strings) => strings.join('')),
  MX: async (resolver, name) =>
    (await resolver.resolveMx(asName(name))).map(({ priority, exchange }) => ({
      preference: priority,
      exchange: withoutRoot(exchange),
    })),
};

/**
 * Opens a resolver on recursive servers. It holds no cache: who asks wants to know what is so now,
 * and the servers have their own.
 */
export function createDnsResolver(options: DnsResolverOptions): DnsResolver {
  return new RecursiveResolver(options);
}
