/**
 * The work of the one tab that leads: it keeps the copy up to date, and carries the user's changes to the server. Each
 * event only notes what is to be done; `pump` starts what may start now, and a timer starts the rest.
 */
import type { HelloEvent } from '../api-types.ts';
import { Attempts } from './attempts.ts';
import type { MailState } from './client.ts';
import { StaleEpochError } from './copy.ts';
import { Due, type DueOptions } from './due.ts';
import { type Place, placesOf } from './fold.ts';
import { ACCOUNT_ENDED, Live, type LiveEvent, type TellTraffic, TOKEN_ENDED } from './live.ts';
import { laneOf, nextBatches } from './outbox.ts';
import { homeOf, Pusher } from './pusher.ts';
import { reconcile } from './reconcile.ts';
import { sweep } from './sweep.ts';
import { type Lead, Syncer } from './syncer.ts';

export interface LeaderOptions extends Omit<Lead, 'due'>, DueOptions {
  /** Something was written: other tabs should look. */
  readonly wrote: () => void;
  readonly baseUrl: string;
  readonly tell: TellTraffic;
  readonly tellState: (state: MailState, reason?: string) => void;
  /** A request is over, and what came of it is written. */
  readonly ended: () => void;
  /** Another tab leads. */
  readonly deposed: () => void;
  /** What else could be fetched while nothing waits; undefined where there is nothing. */
  readonly prefetch: () => (() => Promise<void>) | undefined;
}

/** Requests at a time. */
const MOST = 4;
const POLL_MS = 60_000;
/** Between two syncs while few requests of the minute are left. */
const SLOW_MS = 2000;

export class Leader {
  readonly #options: LeaderOptions;
  readonly #live: Live;
  readonly #pusher: Pusher;
  readonly #syncer: Syncer;
  readonly #attempts: Attempts;
  readonly due: Due;
  #active = true;
  #cancelTimer: () => void = () => undefined;
  #running = 0;
  /** By the seq of the first change of a request that is under way: its lane, which may have another name by now. */
  readonly #lanes = new Map<number, Place>();
  #hasCaughtUp = false;
  /** The server said whose token it is. */
  #isIdentified = false;
  #nextSyncAt = 0;
  #pollAt = 0;
  #isSweeping = false;

  constructor(options: LeaderOptions) {
    this.#options = options;
    const { server, platform, baseUrl, tell } = options;
    this.#attempts = new Attempts(platform);
    this.due = new Due(options);
    const lead = { ...options, due: this.due };
    this.#syncer = new Syncer(lead);
    this.#pusher = new Pusher(lead, this.#syncer);
    this.#live = new Live({
      platform,
      baseUrl,
      token: () => server.token(),
      heard: (event) => this.#hear(event),
      lost: (code, wasLive) => this.#lose(code, wasLive),
      tell,
    });
  }

  start(): void {
    this.#isIdentified = this.#options.server.isOurs || !this.#live.isPossible;
    this.#live.start();
    this.#tellState();
    void this.#sweep();
    this.pump();
  }

  stop(): void {
    this.#active = false;
    this.#live.stop();
    this.#cancelTimer();
  }

  /** Now, in place of at the next event. */
  sync(name: string): void {
    this.due.read(name);
    this.pump();
  }

  /** The network may be back: tries at once. */
  wake(): void {
    if (!this.#active) return;
    this.#attempts.forget();
    this.#live.reconnect();
    this.pump();
  }

  #hear(event: LiveEvent): void {
    if (event.type === 'hello') this.#greet(event);
    else if (event.type === 'mailbox_changed') this.due.note(event);
    else if (event.type === 'mailboxes_changed') this.due.add('list');
    this.pump();
  }

  /** What was missed since the last time. */
  #greet({ user, mailboxes }: HelloEvent): void {
    const { copy } = this.#options;
    if (user.toLowerCase() !== copy.address) {
      this.#end(`the token is of ${user}, not of ${copy.address}`);
      return;
    }
    this.#isIdentified = true;
    this.#attempts.reached();
    this.due.greet(mailboxes);
    this.#tellState();
  }

  #lose(code: number, wasLive: boolean): void {
    if (code === ACCOUNT_ENDED) {
      this.#end('account_inactive');
      return;
    }
    if (code === TOKEN_ENDED) this.#options.server.forget();
    // A browser does not say why a connection was refused: the next look at INBOX tells.
    if (!wasLive && code !== TOKEN_ENDED) this.#isIdentified = true;
    if (wasLive) this.due.read('INBOX');
    this.#tellState();
    this.pump();
  }

  /** Where no WebSocket tells of changes, INBOX is looked at. @returns when the next time */
  #poll(now: number): number {
    if (now >= this.#pollAt) {
      if (!this.#live.isLive) this.due.read('INBOX');
      this.#pollAt = now + POLL_MS;
    }
    return this.#pollAt;
  }

  /** Starts what may start now: there may be new changes of the user. */
  pump(): void {
    const { platform, server } = this.#options;
    if (!this.#active) return;
    this.#cancelTimer();
    this.#finishEnded();
    const now = platform.ticks();
    const rest = Math.max(server.pausedUntil, this.#attempts.restUntil);
    if (rest > now) {
      this.#pumpAt(rest);
      return;
    }
    if (!this.#isIdentified) return;
    const pollAt = this.#poll(now);
    this.#startPushes();
    this.#pumpAt(Math.min(pollAt, this.#attempts.next(), this.#startReading(now)));
    this.#startPrefetch();
    this.#tellState();
  }

  #pumpAt(time: number): void {
    const { platform } = this.#options;
    this.#cancelTimer = platform.after(Math.max(0, time - platform.ticks()), () => this.pump());
  }

  #mayStart(key: string): boolean {
    return this.#running < MOST && this.#attempts.may(key);
  }

  /** Runs a job; what it throws decides when it, or all, is tried again. */
  #start(key: string, job: () => Promise<void>, done: (hasFailed: boolean) => void): void {
    this.#running++;
    const over = (hasFailed: boolean) => {
      this.#running--;
      done(hasFailed);
      void this.#sweep();
      this.pump();
      this.#options.ended();
    };
    void job().then(
      () => {
        this.#attempts.worked(key);
        this.#options.wrote();
        over(false);
      },
      (error: unknown) => {
        this.#fail(key, error);
        over(true);
      },
    );
  }

  #fail(key: string, error: unknown): void {
    if (!this.#active) return;
    if (error instanceof StaleEpochError) {
      this.#options.deposed();
      return;
    }
    const end = this.#attempts.failed(key, error);
    if (end === undefined) this.#tellState();
    else this.#end(end);
  }

  /** The session is over; only the user begins another. */
  #end(reason: string): void {
    this.stop();
    this.#options.tellState('stopped', reason);
  }

  #startPushes(): void {
    const { copy } = this.#options;
    for (const batch of nextBatches(copy)) {
      const [first] = batch;
      if (!first) continue;
      const lane = laneOf(first, copy.placeOf);
      const { kind, seq } = first;
      const key = `push ${seq}`;
      const isTaken = this.#lanes.has(seq) || [...this.#lanes.values()].includes(lane);
      if (isTaken || !this.#mayStart(key)) continue;
      // A mailbox that is not known yet shows nothing by itself: the list of them comes first.
      const isEarly = (place: Place) => typeof place === 'string' && this.due.isBusy(place);
      const isOfMessages = kind !== 'send' && kind !== 'mailbox';
      if (isOfMessages && placesOf(first, copy.placeOf).some(isEarly)) continue;
      const box = homeOf(first, copy)?.box;
      // The answer brings the copy up to date, where nothing else does at the same time.
      const isOwner = box !== undefined && !this.due.busy.has(box);
      if (isOwner) this.due.busy.add(box);
      this.#lanes.set(seq, lane);
      this.#start(
        key,
        () => this.#syncer.bringing(first, this.#pusher.push(batch, isOwner)),
        () => {
          this.#lanes.delete(seq);
          if (isOwner) this.due.busy.delete(box);
        },
      );
    }
  }

  /** What was taken back before it went, and what can never go. */
  #finishEnded(): void {
    const { copy, epoch, wrote } = this.#options;
    if (this.#pusher.endings().length === 0) return;
    const ending = copy.write(epoch, 'strict', () => this.#pusher.endings());
    ending.then(
      () => {
        wrote();
        this.pump();
      },
      (error: unknown) => this.#fail('end', error),
    );
  }

  async #list(): Promise<void> {
    const { server, copy, epoch, platform } = this.#options;
    const { mailboxes } = await server.call('GET /mail/mailboxes');
    if (this.due.isListOld) return;
    await copy.write(epoch, 'relaxed', () => reconcile(copy, mailboxes, platform));
    for (const one of mailboxes) {
      const row = copy.mailbox(one.mailbox);
      if (row && this.due.isWanted(row)) this.due.note(one);
    }
  }

  /** @returns when the next one may start, where one waits */
  #startReading(now: number): number {
    const due = this.due;
    let next = Infinity;
    for (const one of due.next(now)) {
      if (!this.#mayStart(`read ${one}`)) continue;
      if (this.#options.server.isLow && now < this.#nextSyncAt) {
        next = this.#nextSyncAt;
        continue;
      }
      this.#nextSyncAt = now + SLOW_MS;
      due.begin(one, now);
      this.#start(
        `read ${one}`,
        () => (one === 'list' ? this.#list() : this.#syncer.sync(one)),
        (hasFailed) => due.end(one, hasFailed),
      );
    }
    return next;
  }

  #startPrefetch(): void {
    const { server, prefetch } = this.#options;
    const isIdle = this.#hasCaughtUp && this.#running === 0 && server.mayPrefetch;
    if (!isIdle || !this.#mayStart('prefetch')) return;
    const job = prefetch();
    if (job) this.#start('prefetch', job, () => undefined);
  }

  async #sweep(): Promise<void> {
    const { copy, epoch } = this.#options;
    if (this.#isSweeping) return;
    this.#isSweeping = true;
    try {
      while (this.#active && (await sweep(copy, epoch)));
    } catch (error) {
      this.#fail('sweep', error);
    } finally {
      this.#isSweeping = false;
    }
  }

  #tellState(): void {
    const { tellState } = this.#options;
    if (!this.#active) return;
    const { hasWorked, isOffline } = this.#attempts;
    if (hasWorked && !isOffline && !this.due.isAnyBusy) this.#hasCaughtUp = true;
    if (isOffline) tellState('offline');
    else if (!hasWorked) tellState('cached');
    else if (!this.#hasCaughtUp) tellState('syncing');
    else tellState(this.#live.isLive ? 'live' : 'polling');
  }
}
