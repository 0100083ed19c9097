/**
 * Puts messages into threads (RFC 5256 section 4). Nothing is recursive, a thread may be as deep as there are messages, and
 * what is kept of a message is a few numbers and its subject: References are written by strangers.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { sortInTurns } from './long-work.ts';
import { REFERENCES_AT } from './thread-numbers.ts';

/** Ids that are known at once; messages and references beyond them stand for themselves. */
const IDS_MAX = 1_000_000;
/** Ancestors among which a loop is looked for; where there are more, nothing is linked. */
const ANCESTORS_MAX = 1_000;
/** Steps without a pause. */
const AT_ONCE = 8_192;
const NONE = -1;

/** Takes messages in the order of their mailbox. Its nodes are messages, and dummies for those that are not there. */
export class Threads {
  /** By node. */
  readonly #parents: number[] = [];
  readonly #children: number[] = [];
  /** Index of the message; {@link NONE} of a dummy. */
  readonly #messages: number[] = [];
  /** By message. */
  readonly #nodes: number[] = [];
  readonly #dates: number[] = [];
  readonly #subjects: number[] = [];
  readonly #areReplies: boolean[] = [];
  readonly #ids = new Map<number, number>();

  /**
   * Links a message with those that it names (step 1).
   *
   * @param numbers with those of `threadNumbers`
   * @param count how many these are
   */
  add(numbers: Float64Array, at: number, count: number): void {
    const [sentAt = 0, id = 0] = [numbers[at], numbers[at + 1]];
    const known = id === 0 ? undefined : this.#nodeOf(id);
    // Another message with the same id stands for itself.
    const isNew = known !== undefined && this.#messages[known] === NONE;
    const node = isNew ? known : this.#makeNode();
    this.#messages[node] = this.#nodes.length;
    this.#nodes.push(node);
    this.#dates.push(sentAt);
    this.#subjects.push(numbers[at + 2] ?? 0);
    this.#areReplies.push(numbers[at + 3] === 1);
    let last = NONE;
    for (let place = at + REFERENCES_AT; place < at + count; place++) {
      const next = this.#nodeOf(numbers[place] ?? 0);
      if (next === undefined) continue;
      if (last !== NONE && this.#parents[next] === NONE) this.#link(last, next);
      last = next;
    }
    if (last === NONE) return;
    // What a message says of itself is better than what others say of it.
    this.#unlink(node);
    this.#link(last, node);
  }

  #makeNode(): number {
    this.#parents.push(NONE);
    this.#children.push(0);
    return this.#messages.push(NONE) - 1;
  }

  #nodeOf(id: number): number | undefined {
    const known = this.#ids.get(id);
    if (known !== undefined || this.#ids.size >= IDS_MAX) return known;
    const made = this.#makeNode();
    this.#ids.set(id, made);
    return made;
  }

  #link(parent: number, child: number): void {
    if (this.#wouldLoop(parent, child)) return;
    this.#parents[child] = parent;
    this.#children[parent] = (this.#children[parent] ?? 0) + 1;
  }

  #unlink(node: number): void {
    const parent = this.#parents[node] ?? NONE;
    if (parent === NONE) return;
    this.#parents[node] = NONE;
    this.#children[parent] = (this.#children[parent] ?? 0) - 1;
  }

  #wouldLoop(parent: number, child: number): boolean {
    if (parent === child) return true;
    // Without children it is nobody's ancestor.
    if (this.#children[child] === 0) return false;
    let at = parent;
    for (let steps = 0; steps < ANCESTORS_MAX; steps++) {
      if (at === child) return true;
      if (at === NONE) return false;
      at = this.#parents[at] ?? NONE;
    }
    return true;
  }

  /** Threads by References (section 4, REFERENCES, steps 2 to 6). */
  async byReferences(): Promise<Forest> {
    const order = await this.#byDate();
    const above = await this.#skipDummies();
    this.#mergeSubjects(above, await this.#rootsOf(order, above));
    return this.#grow(order, above);
  }

  /** Threads of one subject each (section 4, ORDEREDSUBJECT). */
  async bySubject(): Promise<Forest> {
    const order = await this.#byDate();
    const first = new Map<number, number>();
    const above = this.#parents.map(() => NONE);
    for (const message of order) {
      const node = this.#nodes[message] ?? NONE;
      const subject = this.#subjects[message] ?? 0;
      const root = first.get(subject);
      if (root === undefined) first.set(subject, node);
      else above[node] = root;
    }
    return this.#grow(order, above);
  }

  /** Messages by the date they were sent at, equal ones in the order of the mailbox. */
  #byDate(): Promise<Uint32Array> {
    const dates = this.#dates;
    return sortInTurns(dates.length, (a, b) => (dates[a] ?? 0) - (dates[b] ?? 0) || a - b);
  }

  /**
   * Leaves dummies out (step 3): what is above each node is a message then, or a dummy that has at least two children and
   * nothing above it.
   */
  async #skipDummies(): Promise<number[]> {
    const above = this.#parents.map(() => UNKNOWN);
    const path: number[] = [];
    for (let start = 0; start < above.length; start++) {
      if (start % AT_ONCE === 0) await turn();
      for (let at = start; above[at] === UNKNOWN; at = this.#parents[at] ?? NONE) path.push(at);
      for (let node = path.pop(); node !== undefined; node = path.pop()) {
        const parent = this.#parents[node] ?? NONE;
        const isDummy = parent !== NONE && this.#messages[parent] === NONE;
        const higher = isDummy ? (above[parent] ?? NONE) : NONE;
        above[node] = higher === NONE ? parent : higher;
      }
    }
    const counts = this.#parents.map(() => 0);
    for (const node of this.#nodes) {
      const higher = above[node] ?? NONE;
      if (higher !== NONE) counts[higher] = (counts[higher] ?? 0) + 1;
    }
    for (const node of this.#nodes) {
      const higher = above[node] ?? NONE;
      const isOnly = higher !== NONE && this.#messages[higher] === NONE && counts[higher] === 1;
      if (isOnly) above[node] = NONE;
    }
    return above;
  }

  /** The first nodes of threads by their dates, with the message that a dummy is known by: its first child (step 4). */
  async #rootsOf(order: Uint32Array, above: readonly number[]): Promise<Map<number, number>> {
    const roots = new Map<number, number>();
    for (const [index, message] of order.entries()) {
      if (index % AT_ONCE === 0) await turn();
      const node = this.#nodes[message] ?? NONE;
      const higher = above[node] ?? NONE;
      const root = higher === NONE ? node : higher;
      const isRoot = higher === NONE || this.#messages[higher] === NONE;
      if (isRoot && !roots.has(root)) roots.set(root, message);
    }
    return roots;
  }

  /** Threads of one subject become one (step 5). @param roots by date, with the messages that have their subjects */
  #mergeSubjects(above: number[], roots: ReadonlyMap<number, number>): void {
    const isDummy = (node: number) => this.#messages[node] === NONE;
    const isReply = (node: number) => {
      const message = this.#messages[node] ?? NONE;
      return this.#areReplies[message] === true;
    };
    const table = new Map<number, number>();
    for (const [root, message] of roots) {
      const subject = this.#subjects[message] ?? 0;
      if (subject === 0) continue;
      const found = table.get(subject);
      const isBetter =
        found === undefined ||
        (!isDummy(found) && (isDummy(root) || (isReply(found) && !isReply(root))));
      if (isBetter) table.set(subject, root);
    }
    for (const [root, message] of roots) {
      const subject = this.#subjects[message] ?? 0;
      const found = table.get(subject);
      if (found === undefined || found === root) continue;
      // Below a dummy, what a dummy has is taken over; see #grow.
      if (isDummy(found) || (isReply(root) && !isReply(found))) above[root] = found;
      else {
        const dummy = this.#makeNode();
        above.push(NONE);
        above[found] = dummy;
        above[root] = dummy;
        table.set(subject, dummy);
      }
    }
  }

  /** Children by date (step 6): messages come by date, so each is the last one of its siblings. */
  async #grow(order: Uint32Array, above: readonly number[]): Promise<Forest> {
    const first = this.#parents.map(() => NONE);
    const last = this.#parents.map(() => NONE);
    const next = this.#parents.map(() => NONE);
    const roots: number[] = [];
    for (const [index, message] of order.entries()) {
      if (index % AT_ONCE === 0) await turn();
      const node = this.#nodes[message] ?? NONE;
      let higher = above[node] ?? NONE;
      const isBelowDummy = higher !== NONE && this.#messages[higher] === NONE;
      // A dummy that was merged into another one.
      if (isBelowDummy && above[higher] !== NONE) higher = above[higher] ?? NONE;
      if (higher === NONE) roots.push(node);
      else {
        const before = last[higher] ?? NONE;
        if (before !== NONE) next[before] = node;
        else {
          first[higher] = node;
          if (this.#messages[higher] === NONE) roots.push(higher);
        }
        last[higher] = node;
      }
    }
    return { roots, first, next, messages: this.#messages };
  }
}

const UNKNOWN = -2;

/** Threads by date. Nodes are numbers, and -1 is none. */
export interface Forest {
  readonly roots: readonly number[];
  /** The first child, and the next sibling, by node. */
  readonly first: readonly number[];
  readonly next: readonly number[];
  /** Index of the message by node; none of a dummy. */
  readonly messages: readonly number[];
}

/** Writes threads as THREAD answers them: `(3 6 (4 23)(44 7 96))`. @param nameOf the number of a message */
export function* writeForest(
  { roots, first, next, messages }: Forest,
  nameOf: (message: number) => number,
): Generator<string> {
  for (const root of roots) {
    // Lists that begin with a node; NONE ends one.
    const open = [root];
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      if (node === NONE) {
        yield ')';
        continue;
      }
      let text = '';
      let children: number[] = [];
      for (let at = node; ; at = children[0] ?? NONE) {
        const message = messages[at] ?? NONE;
        if (message !== NONE) text += `${text === '' ? '' : ' '}${nameOf(message)}`;
        children = [];
        for (let child = first[at] ?? NONE; child !== NONE; child = next[child] ?? NONE) {
          children.push(child);
        }
        if (children.length !== 1) break;
      }
      const hasLists = children.length > 1;
      yield `(${text}${hasLists ? (text === '' ? '' : ' ') : ')'}`;
      if (hasLists) open.push(NONE, ...children.reverse());
    }
  }
}
