/**
 * Turns at what is scarce, of which no party gets all: slots, which a task holds until it is done, and the event loop, where
 * each has a share of every turn.
 */
import pLimit, { type LimitFunction } from 'p-limit';

/**
 * Waits for a slot of a limit, and works in it.
 *
 * @param signal ends the wait: then the work never runs; running work has to check the signal itself
 * @throws the signal's reason where it ended the wait; any error of the work
 */
export function runInTurn<Value>(
  limit: LimitFunction,
  signal: AbortSignal,
  work: () => Promise<Value>,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const leave = () => reject(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    void limit(async () => {
      signal.removeEventListener('abort', leave);
      // An aborted caller has its error already; the slot goes to the next in line.
      // Work that throws at once has failed, too.
      if (!signal.aborted) await Promise.try(work).then(resolve, reject);
    });
  });
}

/** Waits for work, but not longer than until the signal. @throws the signal's reason where that comes first */
export function inTime<Value>(signal: AbortSignal, work: Promise<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

/** Who a task is for. */
export interface Party {
  /** Distinguishes it from all other parties, of other kinds too: `account 7`, `acme.test`. */
  readonly name: string;
  /** How many of its tasks run at once. */
  readonly most: number;
}

interface Line {
  readonly name: string;
  readonly limit: LimitFunction;
  tasks: number;
}

/** Runs a bounded number of tasks at once, in all and of each party. The others wait in the order in which they came. */
export class Turns {
  readonly #all: LimitFunction;
  readonly #parties = new Map<string, Line>();

  constructor(atOnce: number) {
    this.#all = pLimit(atOnce);
  }

  /** How many tasks of a party run or wait. */
  tasksOf(name: string): number {
    return this.#parties.get(name)?.tasks ?? 0;
  }

  /**
   * Runs a task when it is the turn of all its parties.
   *
   * @param parties the smallest first: an account before its domain
   * @param signal whoever waits leaves the line on it; a task that runs has to heed it by itself
   * @throws the signal's reason where it comes before the turn: then the task never runs
   */
  async run<T>(parties: readonly Party[], task: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const lines = parties.map(({ name, most }) => {
      const line = this.#parties.get(name) ?? { name, limit: pLimit(most), tasks: 0 };
      this.#parties.set(name, line);
      line.tasks++;
      return line;
    });
    // A task that waits for a party takes no slot from others.
    const inTurn = [...lines.map(({ limit }) => limit), this.#all].reduceRight(
      (next, limit) => () => runInTurn(limit, signal, next),
      task,
    );
    try {
      return await inTurn();
    } finally {
      for (const line of lines) if (--line.tasks === 0) this.#parties.delete(line.name);
    }
  }
}

/*
 * The event loop: while one works everybody else waits, however many connections they have. What is beyond a party's share
 * of a turn waits for the next one. Each user and each network has a line, and the lines take turns: one that is long
 * delays no other.
 */

/** Milliseconds of this turn that each party has used; there is one event loop in a thread. */
const used = new Map<string, number>();
/** Who works since when: until the next one begins, or the turn ends. */
let working: readonly Party[] = [];
let since = 0;
let isTurn = false;

/** Those of one user or network who wait, in the order in which they came. */
interface WaitingLine {
  readonly name: string;
  readonly waiting: { readonly parties: readonly Party[]; readonly go: () => void }[];
  /** How many of them have no share left in this turn. */
  passed: number;
}

/** The line whose turn was longest ago is the first. */
const lines = new Map<string, WaitingLine>();
/** Those of them in which somebody may have a share left in this turn, in the same order. */
let ready = new Set<WaitingLine>();

/**
 * Begins the work of a request. A share is not taken away: work beyond it must be in pieces, with {@link takeTurn} between.
 *
 * @param parties `most` is their share of a turn in milliseconds; the second, such as the user of an account or the
 *   network of a client, has a line of its own
 * @returns what to wait for where one of them has used its share; undefined where the work may begin at once
 */
export function enterTurn(parties: readonly Party[]): Promise<void> | undefined {
  if (hasUsedUp(parties)) return takeTurn(parties);
  begin(parties);
  return undefined;
}

/** Waits until all others had their turn, and until the parties have a share again. */
export function takeTurn(parties: readonly Party[]): Promise<void> {
  const { promise, resolve: go } = Promise.withResolvers<void>();
  setImmediate(() => {
    // Behind those who came before: whoever has just worked would otherwise be the first of each turn.
    const { name } = parties[1] ?? parties[0] ?? { name: '' };
    const line = lines.get(name) ?? { name, waiting: [], passed: 0 };
    line.waiting.push({ parties, go });
    lines.set(name, line);
    ready.add(line);
    letOneGo();
  });
  return promise;
}

/** Called once in a turn for each who waits: what one does is done before the next call. */
function letOneGo(): void {
  for (const line of ready) {
    const { name, waiting } = line;
    while (hasUsedUp(waiting[line.passed]?.parties ?? [])) line.passed++;
    const [first] = waiting.splice(line.passed, 1);
    ready.delete(line);
    if (!first) continue;
    lines.delete(name);
    if (waiting.length > 0) {
      lines.set(name, line);
      ready.add(line);
    }
    begin(first.parties);
    first.go();
    return;
  }
  setImmediate(letOneGo);
}

function hasUsedUp(parties: readonly Party[]): boolean {
  charge();
  return parties.some(({ name, most }) => (used.get(name) ?? 0) >= most);
}

/** What was done since the last call was the work of who began last. */
function charge(): void {
  const now = performance.now();
  for (const { name } of working) used.set(name, (used.get(name) ?? 0) + now - since);
  since = now;
}

function begin(parties: readonly Party[]): void {
  // Those who wait look after this has run: their own callbacks come behind it.
  if (!isTurn) setImmediate(endTurn);
  isTurn = true;
  working = parties;
}

function endTurn(): void {
  isTurn = false;
  used.clear();
  working = [];
  for (const line of lines.values()) line.passed = 0;
  ready = new Set(lines.values());
}
