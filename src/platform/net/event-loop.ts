/**
 * The event loop, of which no party gets all: while one works everybody else waits, however many connections they have.
 * Each has a share of every turn. What is beyond it waits for the next turn, in the order in which it came.
 */
import type { Party } from './limits.ts';

/** Milliseconds of this turn that each party has used; there is one event loop in a thread. */
const used = new Map<string, number>();
/** Who works since when: until the next one begins, or the turn ends. */
let working: readonly Party[] = [];
let since = 0;
let isTurn = false;

/** Those who wait, in the order in which they came. */
const line: { readonly parties: readonly Party[]; readonly go: () => void }[] = [];
/** How many of them have no share left in this turn. */
let passed = 0;

/**
 * Begins the work of a request. A share is not taken away: work beyond it must be in pieces, with {@link takeTurn} between.
 *
 * @param parties `most` is their share of a turn in milliseconds
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
    line.push({ parties, go });
    letOneGo();
  });
  return promise;
}

/** Called once in a turn for each who waits: what one does is done before the next call. */
function letOneGo(): void {
  while (hasUsedUp(line[passed]?.parties ?? [])) passed++;
  const [first] = line.splice(passed, 1);
  if (!first) {
    setImmediate(letOneGo);
    return;
  }
  begin(first.parties);
  first.go();
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
  passed = 0;
}
