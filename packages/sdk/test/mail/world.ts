/** Tabs of one account, on one store and one fake server, in virtual time: each can be cut off, frozen or killed. */
import type { MailClient } from '../../src/mail/client.ts';
import type { Channel, Platform, Socket } from '../../src/mail/platform.ts';
import {
  type Change,
  type MailToken,
  memoryStore,
  openMail,
  type Row,
  type Store,
} from '../../src/mail.ts';
import { FakeServer, VirtualClock } from '../../src/testing/testing.ts';
import { Invariants } from './invariants.ts';

/** Octets: a few texts. */
export const BODY_BUDGET = 5_000;

/** Routes that carry out a request once for its key. */
const KEYED = new Set(['/mail/move', '/mail/copy', '/mail/drafts', '/mail/send']);

/** Why a write fails that may be tried again. */
export const BUSY = 'the store is busy';

const never = <T>() => new Promise<T>(() => undefined);

/** Time stands still while the store works: lives are the same in each store, however long it takes. */
class StoreClock extends VirtualClock {
  readonly #isWorking: () => boolean;

  constructor(isWorking: () => boolean) {
    super();
    this.#isWorking = isWorking;
  }

  protected override async settled(): Promise<void> {
    do await super.settled();
    while (this.#isWorking());
  }
}

/** The channels of all tabs. */
class Hub {
  readonly #ends = new Set<{ name: string; channel: Channel; tab: Tab }>();

  open(tab: Tab, name: string): Channel {
    const channel: Channel = {
      onmessage: null,
      postMessage: (data) => {
        if (tab.isDead) return;
        for (const end of [...this.#ends]) {
          if (end.channel === channel || end.name !== name) continue;
          queueMicrotask(() => {
            const hear = () => end.channel.onmessage?.({ data: structuredClone(data) });
            if (end.tab.frozen) void end.tab.frozen.then(hear);
            else if (!end.tab.isDead) hear();
          });
        }
      },
      close: () => {
        for (const end of this.#ends) if (end.channel === channel) this.#ends.delete(end);
      },
    };
    this.#ends.add({ name, channel, tab });
    return channel;
  }
}

/** Web Locks, which a dead tab loses. */
class Locks {
  #queue: { tab: Tab; run: () => Promise<void> }[] = [];
  #holder: Tab | undefined;
  /** Refuses the request that holds the lock. */
  #refuse: (reason: Error) => void = () => undefined;

  readonly request = (tab: Tab, signal: AbortSignal, held: () => Promise<void>) =>
    new Promise<void>((resolve, reject) => {
      const run = () => {
        this.#refuse = reject;
        return held().then(resolve, reject);
      };
      signal.addEventListener('abort', () => {
        this.#queue = this.#queue.filter((one) => one.run !== run);
        reject(signal.reason);
      });
      this.#queue.push({ tab, run });
      this.next();
    });

  /** As WebKit does to a page that is left; the page is told when it is shown again. */
  takeAway(shown: Promise<void>): void {
    const refuse = this.#refuse;
    void shown.then(() => refuse(new DOMException('the page was left', 'AbortError')));
    this.#holder = undefined;
    this.next();
  }

  next(): void {
    if (this.#holder && !this.#holder.isDead) return;
    this.#holder = undefined;
    const first = this.#queue.shift();
    if (!first) return;
    if (first.tab.isDead) {
      this.next();
      return;
    }
    this.#holder = first.tab;
    void first.run().finally(() => {
      if (this.#holder === first.tab) this.#holder = undefined;
      this.next();
    });
  }
}

export interface Tab {
  readonly client: MailClient;
  isDead: boolean;
  /** Its own, which it loses when the test says so. */
  readonly store: Store;
  hasLostStore?: boolean;
  /** Nothing of it goes on before this is over. */
  frozen?: Promise<void> | undefined;
}

export interface WorldOptions {
  readonly store?: Store;
  readonly seed: number;
  readonly withLocks: boolean;
  /** Left out, they are tabs of one browser. Processes tell each other nothing: they find it in the store. */
  readonly areProcesses?: boolean | undefined;
  readonly rateLimitPerMinute?: number;
  readonly bodyBudget?: number;
}

export class World {
  readonly server: FakeServer;
  readonly account;
  readonly store: Store;
  readonly tabs: Tab[] = [];
  /** The next write of this tab kills it: before it is carried out, or after. */
  crash: { tab: Tab; when: 'before' | 'after' } | undefined;
  /** What went wrong in a rule that must always hold. */
  readonly faults: string[] = [];
  readonly invariants: Invariants;
  readonly #hub = new Hub();
  readonly #locks = new Locks();
  readonly #options: WorldOptions;
  /** Until when the server asked each tab to wait, by itself or by another one. */
  readonly #pauses = new Map<Tab, number>();
  /** By epoch: who took it. */
  readonly #leaders = new Map<unknown, Tab>();
  /** What went under each key. */
  readonly #keys = new Map<string, string>();
  #state: number;
  /** What a product's backend answers that is asked for a token. */
  tokenOf: () => MailToken | Promise<MailToken> = () => this.server.issueToken(this.account);
  /** Milliseconds by which the computer's clock differs. */
  skew = 0;
  /** The next write of this tab fails, as where the store is busy. */
  busy: Tab | undefined;
  /** Grows with each write of a tab. */
  writes = 0;
  /** Until when other tabs may lack what one wrote that died before it told them: their next beat. */
  lagsUntil = 0;
  /** Of the store that are under way. */
  #calls = 0;
  /** The network is gone without a word: what was open at that time tells nothing any more, and does not end. */
  readonly #deaf = new Set<Socket>();
  readonly #connections = new Set<Socket>();

  constructor(options: WorldOptions) {
    this.#options = options;
    this.#state = options.seed;
    const { rateLimitPerMinute } = options;
    const clock = new StoreClock(() => this.#calls > 0);
    this.server = new FakeServer({ clock, ...(rateLimitPerMinute && { rateLimitPerMinute }) });
    this.account = this.server.addAccount({ address: 'ada@acme.test', password: 'secret' });
    this.store = this.#counted(options.store ?? memoryStore());
    this.invariants = new Invariants(this.store, this.account);
  }

  get living(): Tab[] {
    return this.tabs.filter(({ isDead }) => !isDead);
  }

  /** A number from 0 to below 1, the same in each run of a seed: each number of mulberry32, which has no short cycle. */
  readonly #random = (): number => {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };

  async open(): Promise<Tab> {
    const tab = { isDead: false } as { -readonly [Member in keyof Tab]: Tab[Member] };
    tab.store = this.#storeOf(tab);
    const opened = openMail({
      baseUrl: 'https://mail.test',
      address: 'ada@acme.test',
      auth: async () => this.#token(tab),
      store: tab.store,
      bodyBudget: this.#options.bodyBudget ?? BODY_BUDGET,
      platform: this.#platformOf(tab),
    });
    await this.pass(0, opened);
    tab.client = await opened;
    this.tabs.push(tab);
    return tab;
  }

  /** Time goes on, until a promise is fulfilled or so long. */
  async pass(ms: number, until?: Promise<unknown>): Promise<void> {
    let isOver = until === undefined;
    void until?.then(
      () => {
        isOver = true;
      },
      () => {
        isOver = true;
      },
    );
    await this.server.clock.advance(ms);
    for (let i = 0; i < 200 && !isOver; i++) await this.server.clock.advance(50);
  }

  /** As a browser freezes a tab in the background: it goes on later where it was, and knows nothing of it. */
  freeze(tab: Tab, ms: number): void {
    if (tab.frozen) return;
    tab.frozen = new Promise<void>((resolve) => {
      this.server.clock.setTimeout(() => {
        tab.frozen = undefined;
        resolve();
      }, ms);
    });
  }

  /** As WebKit keeps a page that is left, and shows it again: it is frozen, and its lock is another's. */
  leave(tab: Tab, ms: number): void {
    this.freeze(tab, ms);
    if (tab.frozen) this.#locks.takeAway(tab.frozen);
  }

  /** As a browser closes the database of a tab for good. */
  lose(tab: Tab): void {
    tab.hasLostStore = true;
    tab.store.onLost?.(new Error('closed by the browser'));
  }

  kill(tab: Tab): void {
    tab.isDead = true;
    this.lagsUntil = this.server.clock.now() + 6000;
    this.#locks.next();
  }

  async #token(tab: Tab) {
    if (tab.isDead) return never<MailToken>();
    if (!this.server.online) throw new TypeError('fetch failed');
    return this.tokenOf();
  }

  #platformOf(tab: Tab): Partial<Platform> {
    const { clock } = this.server;
    return {
      now: () => clock.now() + this.skew,
      ticks: clock.now,
      random: this.#random,
      after: (ms, call) => {
        const timer = clock.setTimeout(() => {
          if (tab.frozen) void tab.frozen.then(() => !tab.isDead && call());
          else if (!tab.isDead) call();
        }, ms);
        return () => clock.clearTimeout(timer);
      },
      fetch: (input, init = {}) => this.#fetch(tab, String(input), init),
      connect: (url, protocols) => this.#connect(url, protocols),
      openChannel: this.#options.areProcesses ? undefined : (name) => this.#hub.open(tab, name),
      listen: () => () => undefined,
    };
  }

  #connect(url: string, protocols: string[]): Socket {
    const socket = new this.server.WebSocket(url, protocols) as unknown as Socket;
    const end: Socket = { onmessage: null, onclose: null, close: () => socket.close() };
    this.#connections.add(end);
    socket.onmessage = (event) => !this.#deaf.has(end) && end.onmessage?.(event);
    socket.onclose = (event) => {
      this.#connections.delete(end);
      if (!this.#deaf.has(end)) end.onclose?.(event);
    };
    return end;
  }

  /** Nothing more comes by the connections of now, and nobody is told. */
  deafen(): void {
    for (const end of this.#connections) this.#deaf.add(end);
  }

  async #fetch(tab: Tab, url: string, init: RequestInit): Promise<Response> {
    if (tab.isDead) return never();
    if (this.server.clock.now() < (this.#pauses.get(tab) ?? 0))
      this.faults.push('a request in a pause');
    let body = init.body;
    // Pages of two messages, so that few messages make several pages.
    if (url.endsWith('/mail/sync') && typeof body === 'string') {
      body = JSON.stringify({ ...(JSON.parse(body) as object), limit: 2 });
    }
    this.invariants.note();
    this.#checkKey(url, init);
    const answer = await this.server.fetch(url, { ...init, ...(body !== undefined && { body }) });
    this.invariants.note();
    const after = Number(answer.headers.get('retry-after') ?? 0);
    if (answer.status === 429 && !tab.isDead) {
      const until = this.server.clock.now() + after * 1000;
      const pause = (one: Tab) =>
        this.#pauses.set(one, Math.max(this.#pauses.get(one) ?? 0, until));
      // From when the tabs can know of it: the answer is still to be read, and one that is frozen hears and tells nothing.
      // Processes are told nothing: one that leads before the pause is over asks the server, and is told by it.
      setImmediate(() => {
        // It died before it could read the answer: nobody knows.
        if (tab.isDead) return;
        const isAlone = tab.frozen || this.#options.areProcesses;
        for (const one of isAlone ? [tab] : this.living) {
          if (one.frozen) void one.frozen.then(() => setImmediate(() => pause(one)));
          else pause(one);
        }
      });
    }
    await tab.frozen;
    return tab.isDead ? never() : answer;
  }

  /** What must not happen twice has a key, and the same request goes under it. */
  #checkKey(url: string, { headers, body }: RequestInit): void {
    const { pathname, search } = new URL(url);
    if (!KEYED.has(pathname)) return;
    const key = new Headers(headers).get('idempotency-key');
    if (key === null) this.faults.push(`${pathname} has no key`);
    const request = `${pathname}${search} ${typeof body === 'string' ? body : ''}`;
    const before = this.#keys.get(key ?? '');
    if (before !== undefined && before !== request)
      this.faults.push(`${request} went under the key of ${before}`);
    this.#keys.set(key ?? '', request);
  }

  /** Keys that no change of the user has: a second attempt took another one. */
  get foreignKeys(): string[] {
    return [...this.#keys.keys()].filter((key) => !this.invariants.ids.has(key));
  }

  #counted(store: Store): Store {
    const count = async <T>(call: Promise<T>): Promise<T> => {
      this.#calls++;
      try {
        return await call;
      } finally {
        this.#calls--;
      }
    };
    return {
      get: (table, key) => count(store.get(table, key)),
      range: (query) => count(store.range(query)),
      update: (...asked) => count(store.update(...asked)),
      close: () => store.close(),
    };
  }

  /** Other processes see it with their next beat. Only the tab that took the epoch of now writes as the leader. */
  #note(tab: Tab, before: Row | undefined, changes: readonly Change[]): readonly Change[] {
    const isOfAccount = (one: Change) => 'put' in one && one.put === 'accounts';
    const isShown = changes.some((one) => !isOfAccount(one));
    for (const one of changes.filter(isOfAccount)) {
      const { epoch, revision, signedOut } = 'put' in one ? one.row : {};
      if (epoch !== before?.epoch && !signedOut) this.#leaders.set(epoch, tab);
      else if (revision !== before?.revision && this.#leaders.get(epoch) !== tab)
        this.faults.push('a write of an earlier leader');
    }
    if (this.#options.areProcesses && isShown) this.lagsUntil = this.server.clock.now() + 6000;
    return changes;
  }

  #storeOf(tab: Tab): Store {
    const { store } = this;
    const read = <T>(carryOut: () => Promise<T>): Promise<T> => {
      if (tab.hasLostStore) return Promise.reject(new Error('the store is lost'));
      return tab.isDead ? never() : carryOut();
    };
    const write = async (carryOut: () => Promise<void>) => {
      if (tab.isDead) return never<void>();
      if (tab.hasLostStore) throw new Error('the store is lost');
      this.writes++;
      if (this.busy === tab) {
        this.busy = undefined;
        throw new Error(BUSY);
      }
      const crash = this.crash?.tab === tab ? this.crash.when : undefined;
      if (crash) {
        this.crash = undefined;
        if (crash === 'after') await carryOut();
        this.kill(tab);
        return never<void>();
      }
      await carryOut();
      this.faults.push(...(await this.invariants.check()));
      return tab.isDead ? never<void>() : undefined;
    };
    return {
      get: (table, key) => read(() => store.get(table, key)),
      range: (query) => read(() => store.range(query)),
      update: (table, key, decide, durability) =>
        write(() =>
          store.update(table, key, (row) => this.#note(tab, row, decide(row)), durability),
        ),
      lock: this.#options.withLocks
        ? (_, signal, held) => this.#locks.request(tab, signal, held)
        : undefined,
      close: async () => undefined,
    };
  }
}
