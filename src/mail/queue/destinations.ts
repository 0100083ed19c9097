/** The destinations that have lanes, and the hosts where their mail goes: what is under way there, and what failed. */
import { LRUCache } from 'lru-cache';
import { entries } from '../../platform/memory/memory.ts';
import type { Destination, Party } from './parties.ts';

const FAILURES_IN_A_ROW = 5;
const FAILING_MAX = 10_000;
const HOSTS_MAX = 50_000;
const NOBODY: Party = { underWay: 0 };

/** How an attempt ended; `postponed`: before it began. */
export type Result = 'delivered' | 'temporary' | 'permanent' | 'held' | 'postponed';

export class Destinations {
  readonly #most: number;
  readonly #known = new Map<string, Destination>();
  /** Failures in a row; the destinations that were used least recently are forgotten first. */
  readonly #failures = new LRUCache<string, number>(entries(FAILING_MAX));
  readonly #hosts = new Map<string, Party>();
  /** Hosts of destinations, also of those that have nothing to do now. */
  readonly #hostOf = new LRUCache<string, string>(entries(HOSTS_MAX));

  /** @param most attempts under way at one destination */
  constructor(most: number) {
    this.#most = most;
  }

  /** The destination of one lane more. */
  add(name: string): Destination {
    let one = this.#known.get(name);
    if (!one) {
      const host = this.#hostOf.get(name);
      one = { name, underWay: 0, lanes: 0, host, full: new Set(), waitingForSlot: undefined };
      this.#known.set(name, one);
    }
    one.lanes++;
    return one;
  }

  /** One lane of it less. */
  remove(one: Destination): void {
    if (--one.lanes === 0) this.#known.delete(one.name);
  }

  /** Its mail goes to this host from now on. */
  moveTo(name: string, host: string): void {
    const one = this.#known.get(name);
    if (one) one.host = host;
    this.#hostOf.set(name, host);
  }

  /** What is under way at a host. */
  hostOf(name: string | undefined): Party {
    return (name === undefined ? undefined : this.#hosts.get(name)) ?? NOBODY;
  }

  /** @param slots how many more are under way at the host */
  occupyHost(name: string | undefined, slots: number): void {
    if (name === undefined) return;
    const underWay = this.hostOf(name).underWay + slots;
    if (underWay > 0) this.#hosts.set(name, { underWay });
    else this.#hosts.delete(name);
  }

  /** An attempt ended. */
  settled(name: string, result: Result): void {
    if (result === 'delivered') this.#failures.delete(name);
    // A permanent failure is an answer, so the receiver is not dead.
    if (result === 'temporary') this.#failures.set(name, (this.#failures.get(name) ?? 0) + 1);
  }

  /** How many attempts more may be under way at it now. */
  capacity({ name, underWay, waitingForSlot }: Destination): number {
    if (waitingForSlot) return 0;
    const failing = (this.#failures.peek(name) ?? 0) >= FAILURES_IN_A_ROW;
    return (failing ? 1 : this.#most) - underWay;
  }
}
