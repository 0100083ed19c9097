/**
 * Checks the records of claims in DNS: by itself on one node, when a claim's row says that it is due, and on request.
 * Of two checks of a claim at a time, the first that ends counts. A check whose result is not written when the process
 * ends is due again at the next start.
 *
 * The steps of a check: which claims are due (`due-claims.ts`), DNS is asked about their records (`check-zone.ts`), the
 * answers are judged (`judge-records.ts`, `judge-spf.ts`), and one transaction writes what follows (`write-verdicts.ts`).
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Database } from '../../../platform/database/database.ts';
import { Refusal } from '../../../platform/errors/errors.ts';
import { inTime, Turns } from '../../../platform/net/net.ts';
import { type EpochMs, Outage, Repeat } from '../../../platform/time/time.ts';
import type { DnsResolver } from '../../../protocols/dns/dns.ts';
import { logClaimChanges, logKeyExchange } from '../claims.ts';
import { type DnsRecord, readRecords } from '../dns-records.ts';
import { toOwner, type Whose } from '../owner.ts';
import { checkZone } from './check-zone.ts';
import { chooseDue, noteCall, type ReadClaim, readClaims } from './due-claims.ts';
import { createOurServers, type OurServers } from './judge-spf.ts';
import { writeVerdicts } from './write-verdicts.ts';

export interface VerificationOptions {
  readonly database: Database;
  /** Used only here: `stop` closes it. */
  readonly dns: DnsResolver;
  /** Our MX host: the name whose addresses our mail comes from. */
  readonly mailHostname: string;
  readonly log: Logger;
  readonly now?: (() => EpochMs) | undefined;
  /** From 0 to 1. */
  readonly random?: (() => number) | undefined;
}

const TICK_MS = 1_000;
/**
 * Claims that the schedule checks at a time, and so starts in a second at most: checks that piled up during a stop are
 * spread out. A user has a quarter, so that his dead domains do not stall those of others.
 */
const CHECKS_MAX = 16;
const CHECKS_OF_USER = 4;
/** Checks by hand at a time, for which somebody waits: they have slots of their own. A user has an eighth. */
const BY_HAND_MAX = 32;
const BY_HAND_OF_USER = 4;
/** Milliseconds that a check by hand is waited for. */
const WAIT_MS = 20_000;
/** Milliseconds after which a claim whose check failed by our own fault is checked again. */
const RETRY_MS = 60_000;

export class Verification {
  readonly #database: Database;
  readonly #dns: DnsResolver;
  readonly #log: Logger;
  readonly #now: () => number;
  readonly #random: () => number;
  readonly #findOurs: () => Promise<OurServers>;
  /** All checks under way, automatic and by hand. */
  readonly #running = new Set<Promise<unknown>>();
  /** Users of the claims that the schedule has under way, by the claims' ids. */
  readonly #scheduled = new Map<number, string>();
  readonly #byHand = new Turns(BY_HAND_MAX);
  readonly #outage: Outage;
  readonly #stopping = new AbortController();

  constructor(options: VerificationOptions) {
    this.#database = options.database;
    this.#dns = options.dns;
    this.#log = options.log;
    this.#now = options.now ?? Date.now;
    this.#random = options.random ?? Math.random;
    this.#findOurs = createOurServers(options.dns, options.mailHostname.toLowerCase(), this.#now);
    const line = 'could not read which domain checks are due: retry in 1 s';
    this.#outage = new Outage((err) => this.#log.error({ err }, line));
  }

  /** Looks for due claims now and then every second until the signal; checks under way then go on. */
  async run(signal: AbortSignal): Promise<void> {
    const task = () => this.#beginDue();
    await new Repeat({ everyMs: TICK_MS, task, outage: this.#outage }).until(signal);
  }

  /** Ends all checks without writing their results; unfinished ones stay due. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#dns.close();
    await Promise.allSettled(this.#running);
  }

  /** Checks all claims that are due now, for tests. @returns how many claims were checked */
  async runDue(): Promise<number> {
    let checked = 0;
    for (;;) {
      const begun = await this.#beginDue();
      if (begun.length === 0) return checked;
      await Promise.all(begun);
      checked += begun.length;
    }
  }

  /**
   * Checks a claim now, due or not. A check that takes longer than the answer goes on, and its result is written.
   *
   * @throws Refusal domain_not_found, rate_limited within 10 s of the last such call, unavailable where it does not end
   *   within 20 s
   */
  async verify(whose: Whose, name: string): Promise<void> {
    const signal = AbortSignal.timeout(WAIT_MS);
    const party = { name: toOwner(whose).userId, most: BY_HAND_OF_USER };
    const check = this.#byHand.run([party], () => this.#verify(whose, name, signal), signal);
    try {
      await inTime(signal, check);
    } catch (error) {
      if (!signal.aborted || error !== signal.reason) throw error;
      check.catch((late: unknown) => this.#logLate(late, name));
      throw new Refusal('unavailable', 'the check of the domain has not ended yet', {
        retryAfter: 10,
      });
    }
  }

  async #verify(whose: Whose, name: string, signal: AbortSignal): Promise<void> {
    const id = await noteCall(this.#database, whose, name, this.#now());
    for (;;) {
      const [claim] = await readClaims(this.#database.read, [id]);
      if (!claim || (await this.#check(claim, 'all'))) return;
      signal.throwIfAborted();
      if (this.#stopping.signal.aborted)
        throw new Refusal('unavailable', 'the service stops', { retryAfter: 10 });
    }
  }

  #logLate(error: unknown, domain: string): void {
    if (error instanceof Refusal || (error instanceof Error && error.name === 'TimeoutError'))
      return;
    this.#log.error({ err: error, domain }, 'domain check failed');
  }

  /** Begins the checks that are due, as far as there is room in all and for each user. They continue after it. */
  async #beginDue(): Promise<Promise<void>[]> {
    if (this.#stopping.signal.aborted) return [];
    const counts = Map.groupBy(this.#scheduled.values(), (userId) => userId);
    const spent = [...counts].flatMap(([userId, own]) =>
      own.length >= CHECKS_OF_USER ? [userId] : [],
    );
    const left = [...counts.values()].map((own) => CHECKS_OF_USER - own.length);
    const ofOne = Math.min(CHECKS_OF_USER, ...left.filter((count) => count > 0));
    const { read } = this.#database;
    const room = { ofOne, spent, underWay: [...this.#scheduled.keys()] };
    const most = CHECKS_MAX - this.#scheduled.size;
    const claims = await readClaims(read, await chooseDue(read, this.#now(), most, room));
    return claims.map((claim) => this.#checkDue(claim));
  }

  async #checkDue(claim: ReadClaim): Promise<void> {
    this.#scheduled.set(claim.id, claim.userId);
    try {
      await this.#check(claim, 'due');
    } catch (error) {
      this.#log.error({ err: error, domain: claim.name }, 'domain check failed');
      const { signal } = this.#stopping;
      await pause(RETRY_MS, undefined, { signal, ref: false }).catch(() => {});
    } finally {
      this.#scheduled.delete(claim.id);
    }
  }

  /** @returns whether the result was written: it counts only where no other check ended meanwhile */
  #check(claim: ReadClaim, which: 'due' | 'all'): Promise<boolean> {
    const check = this.#checkRecords(claim, which).finally(() => this.#running.delete(check));
    this.#running.add(check);
    return check;
  }

  async #checkRecords(claim: ReadClaim, which: 'due' | 'all'): Promise<boolean> {
    const records = await readRecords(this.#database.read, claim.id);
    const due = which === 'all' ? records : dueRecords(records, claim, this.#now());
    const verdicts = await checkZone(
      this.#dns,
      claim.name,
      due.filter(({ marked, keyState }) => !marked && keyState !== 'old'),
      this.#findOurs,
    );
    if (this.#stopping.signal.aborted) return false;
    const written = await writeVerdicts(
      this.#database,
      claim,
      verdicts,
      this.#now(),
      this.#random(),
    );
    if (!written) return false;
    const { exchanged, ...changed } = written;
    logClaimChanges(this.#log, changed);
    if (exchanged) logKeyExchange(this.#log, exchanged.claim, exchanged.selector);
    for (const { id, purpose } of records) {
      const verdict = verdicts.get(id);
      if (verdict?.outcome === 'unknown') {
        this.#log.debug(
          { domain: claim.name, purpose, why: verdict.detail },
          'a DNS query for a domain check got no answer',
        );
      }
    }
    return true;
  }
}

/**
 * How long the schedule does not check the other records of an active claim while a next DKIM key waits. The claim is
 * checked every few minutes then, and a short failure of DNS must not count as three failures in a row.
 */
const LEFT_ALONE_MS = 55 * 60 * 1000;

/** The records to look up in a check that is due at `now`. */
function dueRecords(
  records: readonly DnsRecord[],
  { status }: ReadClaim,
  now: number,
): readonly DnsRecord[] {
  const waits = records.some(({ keyState }) => keyState === 'next');
  if (status !== 'active' || !waits) return records;
  // A pending record was returned to the checks by hand, or has a new name.
  return records.filter(
    (record) =>
      record.keyState === 'next' ||
      record.status === 'pending' ||
      now - (record.lastCheckedAt ?? 0) >= LEFT_ALONE_MS,
  );
}
