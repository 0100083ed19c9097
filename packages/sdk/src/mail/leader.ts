/**
 * The work of the one tab that leads: it keeps the copy up to date, and carries the user's changes to the server. Each
 * event only notes what is to be done; `#pump` starts what may start now, and a timer starts the rest.
 */
import type { HelloEvent, MailboxChangedEvent } from '../api-types.ts';
import { Attempts } from './attempts.ts';
import type { MailState } from './client.ts';
import type { Copy } from './copy.ts';
import type { Place } from './fold.ts';
import { ACCOUNT_ENDED, Live, type LiveEvent, type LiveOptions, TOKEN_ENDED } from './live.ts';
import { isHopeless, laneOf, nextBatches, takenBack } from './outbox.ts';
import type { Platform } from './platform.ts';
import { type Pushed, Pusher } from './pusher.ts';
import { reconcile } from './reconcile.ts';
import type { MailboxRow, MessageRow } from './rows.ts';
import type { MailServer } from './server.ts';
import { sweep } from './sweep.ts';
import { Syncer } from './syncer.ts';

export interface LeaderOptions {
  readonly copy: Copy;
  readonly server: MailServer;
  readonly platform: Platform;
  readonly baseUrl: string;
  readonly epoch: number;
  readonly syncAll: boolean;
  readonly tellTraffic: LiveOptions['tell'];
  readonly tellState: (state: MailState, reason?: string) => void;
  readonly received: (rows: readonly MessageRow[]) => void;
  /** Something was written: other tabs should look. */
  readonly wrote: () => void;
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
/** Between two looks at the numbers of mailboxes that are not in the copy. */
const LIST_MS = 30_000;
/** What everybody has open sooner or later. */
const ALWAYS = new Set(['\\Sent', '\\Drafts']);

export class Leader {
  readonly #options: LeaderOptions;
  readonly #live: Live;
  readonly #pusher: Pusher;
  readonly #syncer: Syncer;
  readonly #attempts: Attempts;
  #active = true;
  #cancelTimer: () => void = () => undefined;
  #cancelPoll: () => void = () => undefined;
  #running = 0;
  /** Mailboxes that a sync, or a change that brings one, is reading. */
  readonly #busy = new Set<number>();
  /** By the seq of the first change of a request that is under way: its lane, which may have another name by now. */
  readonly #lanes = new Map<number, Place>();
  readonly #stale = new Set<number>();
  readonly #opened = new Set<string>();
  /** Orders the answers to changes and the beginnings of syncs. */
  #tick = 0;
  #listAt = 0;
  #isListStale = true;
  #isListing = false;
  #hasCaughtUp = false;
  /** The server said whose token it is. */
  #isIdentified = false;
  #nextSyncAt = 0;
  #isSweeping = false;

  constructor(options: LeaderOptions) {
    this.#options = options;
    const { copy, server, platform, epoch, baseUrl, tellTraffic } = options;
    const { wrote, received } = options;
    const tick = () => ++this.#tick;
    const isActive = () => this.#active;
    this.#attempts = new Attempts(platform);
    this.#syncer = new Syncer({ copy, server, epoch, tick, isActive, wrote, received });
    const isWanted = (mailbox: MailboxRow) => this.#isWanted(mailbox);
    this.#pusher = new Pusher({ copy, server, platform, epoch, isWanted, syncer: this.#syncer });
    this.#live = new Live({
      platform,
      baseUrl,
      token: () => server.token(),
      heard: (event) => this.#hear(event),
      lost: (code, wasLive) => this.#lose(code, wasLive),
      tell: tellTraffic,
    });
  }

  start(): void {
    for (const { box, token } of this.#options.copy.mailboxes)
      if (token !== undefined) this.#stale.add(box);
    for (const { state, awaits } of this.#options.copy.operations) {
      if (state === 'acked') for (const box of awaits ?? []) this.#stale.add(box);
    }
    this.#isIdentified = this.#options.server.isOurs || !this.#live.isPossible;
    this.#live.start();
    this.#poll();
    this.#tellState();
    void this.#sweep();
    this.#pump();
  }

  stop(): void {
    this.#active = false;
    this.#live.stop();
    this.#cancelTimer();
    this.#cancelPoll();
  }

  /** Somebody looks at a mailbox. */
  open(name: string): void {
    if (this.#opened.has(name)) return;
    this.#opened.add(name);
    const mailbox = this.#options.copy.mailbox(name);
    if (mailbox && mailbox.token === undefined) this.#stale.add(mailbox.box);
    this.#pump();
  }

  /** There may be new changes of the user. */
  poke(): void {
    this.#pump();
  }

  /** Now, in place of at the next event. */
  sync(name: string): void {
    this.#opened.add(name);
    const mailbox = this.#options.copy.mailbox(name);
    if (mailbox) this.#stale.add(mailbox.box);
    else this.#relist();
    this.#pump();
  }

  /** Whether the mailbox is to be read, or may be: whether there is one, the list says. */
  isBusy(name: string): boolean {
    const { box, token } = this.#options.copy.mailbox(name) ?? {};
    const isKnown = box !== undefined && token !== undefined;
    if (!isKnown && (this.#isListStale || this.#isListing)) return true;
    return box !== undefined && (this.#stale.has(box) || this.#busy.has(box));
  }

  /** The network may be back: tries at once. */
  wake(): void {
    if (!this.#active) return;
    this.#attempts.forget();
    this.#live.reconnect();
    this.#pump();
  }

  #hear(event: LiveEvent): void {
    if (event.type === 'hello') this.#greet(event);
    else if (event.type === 'mailbox_changed') this.#note(event);
    else if (event.type === 'mailboxes_changed') this.#relist();
    this.#pump();
  }

  #relist(): void {
    this.#isListStale = true;
    this.#listAt = 0;
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
    for (const tip of mailboxes) this.#note(tip);
    const ids = new Map(mailboxes.map(({ mailbox, mailboxId }) => [mailbox, mailboxId]));
    const isOther = ({ name, mailboxId, gone }: MailboxRow) =>
      !gone && (!ids.has(name) || ids.get(name) !== mailboxId);
    if (copy.mailboxes.some(isOther)) this.#relist();
    this.#tellState();
  }

  /** A hint: what the server has is asked for from where the copy is. */
  #note({
    mailbox,
    uidvalidity,
    token,
  }: Pick<MailboxChangedEvent, 'mailbox' | 'uidvalidity' | 'token'>): void {
    const row = this.#options.copy.mailbox(mailbox);
    if (row?.token === token && row.uidvalidity === uidvalidity) return;
    if (!row) this.#relist();
    else if (this.#isWanted(row)) this.#stale.add(row.box);
    // Its numbers alone are shown: they may be a little late.
    else this.#isListStale = true;
  }

  #lose(code: number, wasLive: boolean): void {
    const { server, copy } = this.#options;
    if (code === ACCOUNT_ENDED) {
      this.#end('account_inactive');
      return;
    }
    if (code === TOKEN_ENDED) server.forget();
    // A browser does not say why a connection was refused: a sync tells.
    if (!wasLive && code !== TOKEN_ENDED) this.#isIdentified = true;
    const inbox = copy.mailbox('INBOX');
    if (inbox) this.#stale.add(inbox.box);
    this.#tellState();
    this.#pump();
  }

  #poll(): void {
    const { platform, copy } = this.#options;
    this.#cancelPoll = platform.after(POLL_MS, () => {
      const inbox = copy.mailbox('INBOX');
      if (inbox && !this.#live.isLive) this.#stale.add(inbox.box);
      this.#poll();
      this.#pump();
    });
  }

  #isWanted({ name, specialUse, token, gone }: MailboxRow): boolean {
    if (gone) return false;
    const isAlways = name === 'INBOX' || ALWAYS.has(specialUse ?? '');
    return isAlways || token !== undefined || this.#opened.has(name) || this.#options.syncAll;
  }

  /** Starts what may start now. */
  #pump(): void {
    const { platform, server } = this.#options;
    if (!this.#active) return;
    this.#cancelTimer();
    this.#finishEnded();
    const now = platform.now();
    const rest = Math.max(server.pausedUntil, this.#attempts.restUntil);
    if (rest > now) {
      this.#pumpAt(rest);
      return;
    }
    if (!this.#isIdentified) return;
    this.#startPushes();
    this.#startList();
    const next = Math.min(this.#attempts.next(), this.#startSyncs());
    this.#startPrefetch();
    this.#tellState();
    if (next < Number.POSITIVE_INFINITY) this.#pumpAt(next);
  }

  #pumpAt(time: number): void {
    const { platform } = this.#options;
    this.#cancelTimer();
    this.#cancelTimer = platform.after(Math.max(0, time - platform.now()), () => this.#pump());
  }

  #mayStart(key: string): boolean {
    return this.#running < MOST && this.#attempts.may(key);
  }

  /** Runs a job; what it throws decides when it, or all, is tried again. */
  #start(key: string, job: () => Promise<void>, done: () => void): void {
    this.#running++;
    void job()
      .then(
        () => this.#attempts.worked(key),
        (error: unknown) => this.#fail(key, error),
      )
      .finally(() => {
        this.#running--;
        done();
        this.#pump();
        this.#options.ended();
      });
  }

  #fail(key: string, error: unknown): void {
    if (!this.#active) return;
    const end = this.#attempts.failed(key, error);
    if (end === 'deposed') this.#options.deposed();
    else if (end) this.#end(end.reason);
    else this.#tellState();
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
      const { kind, mailbox, seq } = first;
      const key = `push ${seq}`;
      const isTaken = this.#lanes.has(seq) || [...this.#lanes.values()].includes(lane);
      if (isTaken || !this.#mayStart(key)) continue;
      const isOfOne = kind !== 'send' && kind !== 'mailbox';
      const box = isOfOne ? copy.home(mailbox, first.box)?.box : undefined;
      // The answer brings the copy up to date, where nothing else does at the same time.
      const isOwner = box !== undefined && !this.#busy.has(box);
      if (isOwner) this.#busy.add(box);
      this.#lanes.set(seq, lane);
      const began = ++this.#tick;
      const job = async () => this.#pushed(await this.#pusher.push(batch, began, isOwner), began);
      this.#start(
        key,
        () => this.#syncer.bringing(first, job()),
        () => {
          this.#lanes.delete(seq);
          if (isOwner) this.#busy.delete(box);
        },
      );
    }
  }

  #pushed({ boxes, continues, received, listChanged }: Pushed, began: number): void {
    for (const box of boxes) this.#stale.add(box);
    if (continues !== undefined) this.#syncer.goOn(continues, began);
    if (listChanged) this.#relist();
    this.#options.wrote();
    this.#syncer.receive(received);
    void this.#sweep();
  }

  /** What was taken back before it went, and what can never go. */
  #finishEnded(): void {
    const { copy, epoch, wrote } = this.#options;
    const find = () => {
      const hopeless = copy.operations.filter(
        (one) => one.state === 'queued' && isHopeless(one, copy.operations),
      );
      return [...new Set([...takenBack(copy), ...hopeless])];
    };
    if (find().length === 0) return;
    const ending = copy.write(epoch, 'strict', () =>
      find().flatMap((one) => this.#pusher.cancel(one)),
    );
    ending.then(
      () => {
        wrote();
        this.#pump();
      },
      (error: unknown) => this.#fail('end', error),
    );
  }

  #startList(): void {
    const { platform } = this.#options;
    const isDue = this.#isListStale && !this.#isListing && platform.now() >= this.#listAt;
    if (!isDue || !this.#mayStart('list')) return;
    this.#isListStale = false;
    this.#isListing = true;
    const job = async () => {
      try {
        await this.#list();
      } catch (error) {
        this.#isListStale = true;
        throw error;
      }
    };
    this.#start('list', job, () => {
      this.#isListing = false;
    });
  }

  async #list(): Promise<void> {
    const { server, copy, epoch, platform, wrote } = this.#options;
    const { mailboxes } = await server.call('GET /mail/mailboxes');
    this.#listAt = platform.now() + LIST_MS;
    await copy.write(epoch, 'relaxed', () => reconcile(copy, mailboxes, platform));
    for (const { mailbox, token, uidvalidity } of mailboxes) {
      const row = copy.mailbox(mailbox);
      if (row && this.#isWanted(row) && (row.token !== token || row.uidvalidity !== uidvalidity)) {
        this.#stale.add(row.box);
      }
    }
    wrote();
    void this.#sweep();
  }

  /** @returns when the next one may start, where one waits */
  #startSyncs(): number {
    const { copy, platform, server } = this.#options;
    let next = Number.POSITIVE_INFINITY;
    const rank = (row: MailboxRow) =>
      this.#opened.has(row.name) ? 0 : row.name === 'INBOX' ? 1 : 2;
    const rows = copy.mailboxes.filter(({ box, gone }) => this.#stale.has(box) && !gone);
    for (const row of rows.sort((a, b) => rank(a) - rank(b))) {
      const { box } = row;
      if (this.#busy.has(box) || !this.#mayStart(`sync ${box}`)) continue;
      if (server.isLow && platform.now() < this.#nextSyncAt) {
        next = Math.min(next, this.#nextSyncAt);
        continue;
      }
      this.#nextSyncAt = platform.now() + SLOW_MS;
      this.#busy.add(box);
      this.#stale.delete(box);
      this.#start(
        `sync ${box}`,
        () => this.#sync(box),
        () => this.#busy.delete(box),
      );
    }
    return next;
  }

  async #sync(box: number): Promise<void> {
    try {
      const then = await this.#syncer.sync(box);
      if (then === 'again') this.#stale.add(box);
      if (then === 'relist') this.#relist();
    } catch (error) {
      // Not at the next event: by the timer.
      this.#stale.add(box);
      throw error;
    }
    void this.#sweep();
  }

  #startPrefetch(): void {
    const { server, prefetch } = this.#options;
    if (
      !this.#hasCaughtUp ||
      this.#running > 0 ||
      !server.mayPrefetch ||
      !this.#mayStart('prefetch')
    )
      return;
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
    const { copy, tellState } = this.#options;
    if (!this.#active) return;
    const isWorking = copy.mailboxes.some(
      (row) => this.#stale.has(row.box) || this.#busy.has(row.box),
    );
    if (!isWorking && this.#attempts.hasWorked && !this.#attempts.isOffline)
      this.#hasCaughtUp = true;
    if (this.#attempts.isOffline) tellState('offline');
    else if (!this.#attempts.hasWorked) tellState('cached');
    else if (!this.#hasCaughtUp) tellState('syncing');
    else tellState(this.#live.isLive ? 'live' : 'polling');
  }
}
