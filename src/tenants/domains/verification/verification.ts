/**
 * Checks the records of claims in DNS: by itself, when a claim's row says that it is due, and on request. A few claims
 * at a time, each by one node at a time; a result that is not written when the process ends is due again at the next
 * start.
 */
import { setTimeout as sleep } from 'node:timers/promises';
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
import { createOurServers, type OurServers } from './judge-spf.ts';
import { type LeasedClaim, leaseClaim, leaseDueClaims, releaseClaim } from './leases.ts';
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
/** How long a check by hand is waited for, and how often it looks whether another one has ended, in milliseconds. */
const WAIT = { max: 20_000, step: 200 };

export class Verification {
  readonly #database: Database;
  readonly #dns: DnsResolver;
  readonly #log: Logger;
  readonly #now: () => number;
  readonly #random: () => number;
  readonly #findOurs: () => Promise<OurServers>;
  /** All checks under way, automatic and by hand. */
  readonly #running = new Set<Promise<void>>();
  /** Users of the checks that the schedule has under way. */
  readonly #scheduled: string[] = [];
  readonly #byHand = new Turns(BY_HAND_MAX);
  readonly #looks: Repeat;
  #stopped = false;

  constructor(options: VerificationOptions) {
    this.#database = options.database;
    this.#dns = options.dns;
    this.#log = options.log;
    this.#now = options.now ?? Date.now;
    this.#random = options.random ?? Math.random;
    this.#findOurs = createOurServers(options.dns, options.mailHostname.toLowerCase(), this.#now);
    const line = 'could not read which domain checks are due: retry in 1 s';
    const outage = new Outage((err) => this.#log.error({ err }, line));
    this.#looks = new Repeat({ everyMs: TICK_MS, task: () => this.#beginDue(), outage });
  }

  /** Looks for due claims now and then every second. */
  start(): void {
    void this.#looks.run();
  }

  /** Ends all checks without writing their results; unfinished ones stay due. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#dns.close();
    await this.#looks.stop();
    await Promise.allSettled(this.#running);
  }

  /** Checks all claims that are due now. @returns how many claims were checked */
  async runDue(): Promise<number> {
    let checked = 0;
    while (!this.#stopped) {
      const claims = await this.#leaseDue();
      if (claims.length === 0) return checked;
      await Promise.all(claims.map((claim) => this.#checkDue(claim)));
      checked += claims.length;
    }
    return checked;
  }

  /**
   * Checks a claim now, due or not. A check that takes longer than the answer goes on, and its result is written.
   *
   * @throws Refusal domain_not_found, rate_limited within 10 s of the last such call, unavailable where it does not end
   *   within 20 s
   */
  async verify(whose: Whose, name: string): Promise<void> {
    const signal = AbortSignal.timeout(WAIT.max);
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
    for (;;) {
      const claim = await leaseClaim(this.#database, whose, name, this.#now());
      if (claim) return this.#check(claim, 'all');
      signal.throwIfAborted();
      if (this.#stopped) throw new Refusal('unavailable', 'the service stops', { retryAfter: 10 });
      await sleep(WAIT.step);
    }
  }

  #logLate(error: unknown, domain: string): void {
    if (error instanceof Refusal || (error instanceof Error && error.name === 'TimeoutError'))
      return;
    this.#log.error({ err: error, domain }, 'domain check failed');
  }

  /** Leases what is due, as far as there is room in all and for each user. */
  #leaseDue(): Promise<LeasedClaim[]> {
    const counts = Map.groupBy(this.#scheduled, (userId) => userId);
    const spent = [...counts].flatMap(([userId, own]) =>
      own.length >= CHECKS_OF_USER ? [userId] : [],
    );
    const left = [...counts.values()].map((own) => CHECKS_OF_USER - own.length);
    const ofOne = Math.min(CHECKS_OF_USER, ...left.filter((count) => count > 0));
    const room = CHECKS_MAX - this.#scheduled.length;
    return leaseDueClaims(this.#database, this.#now(), room, { ofOne, spent });
  }

  /** One look for due claims; their checks continue after it. */
  async #beginDue(): Promise<void> {
    for (const claim of await this.#leaseDue()) {
      this.#checkDue(claim).catch((error: unknown) => {
        // The lease prevents another check at once.
        this.#log.error({ err: error, domain: claim.name }, 'domain check failed');
      });
    }
  }

  async #checkDue(claim: LeasedClaim): Promise<void> {
    this.#scheduled.push(claim.userId);
    try {
      await this.#check(claim, 'due');
    } finally {
      this.#scheduled.splice(this.#scheduled.indexOf(claim.userId), 1);
    }
  }

  #check(claim: LeasedClaim, which: 'due' | 'all'): Promise<void> {
    const check = this.#ask(claim, which).finally(() => this.#running.delete(check));
    this.#running.add(check);
    return check;
  }

  async #ask(claim: LeasedClaim, which: 'due' | 'all'): Promise<void> {
    const records = await readRecords(this.#database.read, claim.id);
    const due = which === 'all' ? records : dueRecords(records, claim, this.#now());
    const verdicts = await checkZone(
      this.#dns,
      claim.name,
      due.filter(({ marked, keyState }) => !marked && keyState !== 'old'),
      this.#findOurs,
    );
    if (this.#stopped) return releaseClaim(this.#database, claim);
    const { exchanged, ...changed } = await writeVerdicts(
      this.#database,
      claim,
      verdicts,
      this.#now(),
      this.#random(),
    );
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
  { status }: LeasedClaim,
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
