/**
 * Which tab leads. The account's row says how long the leader leads without a sign of life; its epoch is
 * compared in each write, so that one which woke up late writes nothing. The lock only tells at once that a leader is
 * gone; where there are no locks, the row alone decides.
 */
import type { Channel, Platform } from './platform.ts';
import { type AccountRow, put } from './rows.ts';
import type { Store } from './store.ts';

/**
 * What tabs tell each other. Losing one does no harm: it comes again, or is found in the store. Between processes all are
 * lost.
 */
export type TabMessage =
  /** Something was written. */
  | { readonly type: 'wrote' }
  | { readonly type: 'wake' }
  | { readonly type: 'pause'; readonly ms: number }
  /** A tab lost the store, and goes on with a copy of the changes up to this one. */
  | { readonly type: 'lost'; readonly seq: number };

export interface TabsOptions {
  readonly store: Store;
  readonly account: string;
  readonly platform: Platform;
  readonly lead: (epoch: number) => void;
  /** Another tab leads, or may: nothing is written any more. */
  readonly deposed: () => void;
  readonly hear: (message: TabMessage) => void;
  /** Of this tab, where it leads. */
  readonly state: () => Pick<AccountRow, 'state' | 'stateReason'>;
  /** Time passed: the store may have changed without a message. */
  readonly beat: () => void;
  /** The computer slept. */
  readonly slept: () => void;
}

const BEAT_MS = 5000;
/** A leader without a beat for so long is gone. */
const LEASE_MS = 15_000;
const SLEPT_MS = 30_000;

/** Whether a tab leads that gave a sign of life: a lease that ends later than any is of before the clock was set back. */
export function isLed({ leaseUntil }: AccountRow, platform: Platform): boolean {
  const left = leaseUntil - platform.now();
  return left > 0 && left <= LEASE_MS;
}

export class Tabs {
  readonly #options: TabsOptions;
  readonly #name: string;
  #channel: Channel | undefined;
  readonly #ending = new AbortController();
  /** Of the lock, while it has it. */
  #letGo: (() => void) | undefined;
  /** In which it leads. */
  epoch: number | undefined;
  #taking: Promise<void> = Promise.resolve();
  #cancelBeat: () => void = () => undefined;
  #lastBeat: number;

  constructor(options: TabsOptions) {
    this.#options = options;
    this.#name = `postroom:${options.account}`;
    this.#lastBeat = options.platform.now();
  }

  tell(message: TabMessage): void {
    if (!this.#isClosed) this.#channel?.postMessage(message);
  }

  async start(): Promise<void> {
    const { platform, hear } = this.#options;
    this.#channel = platform.openChannel?.(this.#name);
    if (this.#channel) this.#channel.onmessage = ({ data }) => hear(data as TabMessage);
    this.#queueForLock();
    this.#beatLater();
    await this.take();
  }

  get #isClosed(): boolean {
    return this.#ending.signal.aborted;
  }

  /** Another tab leads: this one waits for its turn. */
  deposed(): void {
    if (this.epoch !== undefined) {
      this.epoch = undefined;
      this.#options.deposed();
    }
    this.#letGo?.();
    this.#letGo = undefined;
  }

  /** The page is frozen or goes away: another one leads from now on. */
  async leave(): Promise<void> {
    const { epoch } = this;
    if (epoch === undefined) return;
    // Who has the lock next leads at once; the row says it to those without locks.
    this.deposed();
    await this.#options.store.update('accounts', [this.#options.account], (row) => {
      const account = row as AccountRow | undefined;
      return account?.epoch === epoch ? [put('accounts', { ...account, leaseUntil: 0 })] : [];
    });
    this.#channel?.postMessage({ type: 'wrote' });
  }

  async close(): Promise<void> {
    this.#cancelBeat();
    this.#ending.abort();
    await this.#taking;
    // A store that is lost has nobody to tell.
    await this.leave().catch(() => undefined);
    this.deposed();
    this.#channel?.close();
  }

  #queueForLock(): void {
    const { store } = this.#options;
    if (!store.lock || this.#isClosed) return;
    let isHeld = false;
    const held = () => {
      isHeld = true;
      return new Promise<void>((resolve) => {
        this.#letGo = resolve;
        void this.take();
      });
    };
    const again = () => {
      this.#letGo = undefined;
      this.#queueForLock();
    };
    // WebKit takes the lock of a page that is left, and may show the page again.
    store.lock(this.#name, this.#ending.signal, held).then(again, () => isHeld && again());
  }

  #beatLater(): void {
    const { platform } = this.#options;
    this.#cancelBeat = platform.after(BEAT_MS, () => {
      if (this.#isClosed) return;
      const late = platform.now() - this.#lastBeat - BEAT_MS;
      this.#lastBeat = platform.now();
      this.#beatLater();
      if (late > SLEPT_MS) this.#options.slept();
      void this.take(true);
      this.#options.beat();
    });
  }

  /** Leads where nobody does. Where it does, says what others do not know yet; with each beat, that it still leads. */
  take(isBeat = false): Promise<void> {
    this.#taking = this.#taking.then(() => this.#tryTake(isBeat)).catch(() => undefined);
    return this.#taking;
  }

  async #tryTake(isBeat: boolean): Promise<void> {
    if (this.#isClosed) return;
    const { store, account, platform, lead, state } = this.#options;
    let taken: number | undefined;
    let isOver = false;
    await store.update('accounts', [account], (row) => {
      taken = undefined;
      const now = row as AccountRow | undefined;
      isOver = this.epoch !== undefined && now?.epoch !== this.epoch;
      // Who signed out has nothing to lead. The lock stays: it would be here again at once.
      if (!now || now.signedOut || isOver) return [];
      const until = { leaseUntil: platform.now() + LEASE_MS, byLock: this.#letGo !== undefined };
      if (this.epoch !== undefined) {
        const next = { ...now, ...until, ...state() };
        const { leaseUntil } = isBeat ? next : now;
        const isSaid = JSON.stringify({ ...next, leaseUntil }) === JSON.stringify(now);
        return isSaid ? [] : [put('accounts', next)];
      }
      // A leader that held the lock is gone, as the lock is here; one that did not may be alive.
      const isGone = until.byLock && now.byLock === true;
      if (isLed(now, platform) && !isGone) return [];
      taken = now.epoch + 1;
      return [put('accounts', { ...now, ...until, epoch: taken })];
    });
    if (isOver) this.deposed();
    if (taken === undefined) return;
    this.epoch = taken;
    if (!this.#isClosed) lead(taken);
  }
}
