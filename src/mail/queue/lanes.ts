/**
 * Which delivery is attempted next: the fairness of the queue. A lane is what one sender (an account, or a domain that
 * forwards) has for one destination. Memory holds no deliveries, only the state of lanes that have some. So the database is
 * asked for rows of one lane at a time, and never reads through those of a dead destination or of a large sender.
 *
 * - Lanes take turns, by user and sender, and each gets its part of the free slots.
 * - Users, domains, senders, destinations and hosts have a share of an eighth of all slots. A lane has one of each. Where one
 *   of these five holds its share, the lane gets a slot only while nobody below his share waits, and never the last ones: the last
 *   eighth of the slots is for other senders and destinations, half of that for other domains and hosts, and a quarter
 *   for other users. Of these last slots nobody holds more than are free, so that the next one finds some.
 * - Users who hold their share come in the order of what they have under way. Among the lanes of each, the shares of his
 *   domains and senders decide, as if he were alone: where one user has all domains, they are as fair to one another.
 * - The host is where the mail of several destinations goes, such as the address of an MX. An attempt tells it
 *   ({@link Lanes.enter}), and from then on it is known of the destination.
 * - At most `perDestination` are under way at one destination. After 5 failures in a row it is one at a time until a
 *   success.
 *
 * Memory is limited: lanes that are due later than the horizon are not kept, and of one sender no more than 500, his
 * share of the slots while there are 10,000 in all, or one while there are 100,000; the worker's look at the table finds
 * the others.
 */
import { Destinations, type Result } from './destinations.ts';
import { DueHeap } from './due-heap.ts';
import {
  type Batch,
  type Found,
  isKnown,
  type Lane,
  type LaneState,
  type Party,
  type Sender,
  Senders,
  type User,
  type Waiting,
} from './parties.ts';

const KNOWN_MANY = 10_000;
const KNOWN_MAX = 100_000;
const KNOWN_OF_SENDER = 500;
/** The part of all slots that each may have while others wait. */
const SHARE = 1 / 8;

interface LanesOptions {
  /** Attempts under way in all. */
  readonly concurrency: number;
  readonly perDestination: number;
  /** Milliseconds; rows that are due later are not kept. */
  readonly horizon: number;
}

export class Lanes {
  readonly #options: LanesOptions;
  /** Slots that each may have while others wait. */
  readonly #share: number;
  /** Slots for those who are below their share. */
  readonly #reserved: number;
  readonly #senders = new Senders();
  readonly #destinations: Destinations;
  #known = 0;
  /** Users with ready lanes, in the order of their turns. */
  readonly #turns = new Set<User>();
  /** Due later. Entries that are out of date are ignored. */
  readonly #later = new DueHeap<LaneState>();
  #underWay = 0;
  #waiting: Waiting = 'nobody';
  /** Whether the user who is asked has a lane that waits, although all but he are below their shares. */
  #isRefused = false;

  constructor(options: LanesOptions) {
    this.#options = options;
    this.#destinations = new Destinations(options.perDestination);
    this.#reserved = Math.floor(options.concurrency * SHARE);
    this.#share = Math.max(this.#reserved, 1);
  }

  /** Who found no slot when {@link next} was last called. */
  get waiting(): Waiting {
    return this.#waiting;
  }

  /** When the next row that is not due yet will be. */
  get nextDue(): number {
    return this.#later.earliest;
  }

  /** How much a sender's user has under way; of two of one user, more for the sender who has more. */
  heldBy(name: string): number {
    const sender = this.#senders.get(name);
    return sender ? sender.user.underWay + sender.underWay / 1_000_000 : 0;
  }

  /** Whether somebody waits who has a right to a slot of this lane: below a share that its sender or user holds. */
  isWanted({ sender: name }: Lane): boolean {
    if (this.#waiting === 'nobody' || this.#waiting === 'within') return this.#waiting === 'within';
    const sender = this.#senders.get(name);
    return !!sender && !this.#isWithin(this.#waiting === 'beyond' ? sender : sender.user);
  }

  /** Whether there is enough room to look for other lanes of a sender. */
  hasRoomFor(sender: string): boolean {
    return (this.#senders.get(sender)?.lanes.size ?? 0) <= this.#mostOfSender / 2;
  }

  /**
   * A row of the lane is due from `due` on.
   *
   * @returns false where there is no room for the lane
   */
  expect({ sender, destination }: Lane, due: number, now: number): boolean {
    if (due > now + this.#options.horizon) return true;
    const known = this.#senders.get(sender)?.lanes;
    let lane = known?.get(destination);
    if (!lane) {
      if ((known?.size ?? 0) >= this.#mostOfSender) return false;
      lane = this.#addLane(sender, destination);
    }
    if (due >= lane.due) return true;
    lane.due = due;
    this.#put(lane, now);
    return true;
  }

  /**
   * Reserves slots for the lane whose turn it is; undefined where none can have any.
   *
   * @param isTight whether memory is short: then only one slot, for a destination with nothing under way
   */
  next(now: number, isTight = false): Batch | undefined {
    while (this.#later.earliest <= now) {
      const lane = this.#later.pop();
      if (lane && isKnown(lane)) this.#put(lane, now);
    }
    this.#waiting = 'nobody';
    let beyond: Found | undefined;
    for (const user of this.#turns) {
      const isWithin = this.#isWithin(user);
      // Of those who hold their share, who has the fewest.
      const hasFewest = !beyond || user.underWay < beyond.lane.from.user.underWay;
      if (!isWithin && !hasFewest) continue;
      const found = this.#findOf(user, isTight);
      if (found?.isWithin && isWithin) return this.#reserve(found);
      if (found && hasFewest) beyond = found;
      if (this.#isFull && this.waiting === 'within') break;
    }
    return beyond && this.waiting !== 'within' ? this.#reserve(beyond) : undefined;
  }

  get #isFull(): boolean {
    return this.#underWay >= this.#options.concurrency;
  }

  /** The next lane of a user that can have slots. */
  #findOf(user: User, isTight: boolean): Found | undefined {
    let beyond: Found | undefined;
    this.#isRefused = false;
    for (const sender of user.turns) {
      const found = this.#findReady(sender, isTight);
      if (found?.isWithin) return found;
      if (found && !(beyond && beyond.lane.from.underWay <= found.lane.from.underWay))
        beyond = found;
      // Nobody can have a slot, and that somebody with a right to one waits is known.
      if (this.#isFull && this.#isRefused) break;
    }
    return this.#isRefused ? undefined : beyond;
  }

  /**
   * An attempt is about to connect to a host.
   *
   * @param before the host where it counted until now
   * @returns false where the host holds its share while others wait, or there are no slots left for it
   */
  enter({ destination }: Lane, host: string, before: string | undefined): boolean {
    if (host === before) return true;
    this.#destinations.moveTo(destination, host);
    const free = this.#options.concurrency - this.#underWay;
    const isWaitedFor = this.#waiting === 'within' || this.#waiting === 'within user';
    const isShort = isWaitedFor || free <= Math.floor(this.#reserved / 2);
    if (isShort && !this.#isWithin(this.#destinations.hostOf(host))) return false;
    this.#destinations.occupyHost(before, -1);
    this.#destinations.occupyHost(host, 1);
    return true;
  }

  /**
   * The lease of a batch ended.
   *
   * @param leased the number of leased rows; the other slots are free again
   * @param due when the next row of the lane is due, if known
   */
  leased(batch: Batch, leased: number, due: number | undefined, now: number): void {
    const lane = this.#stateOf(batch);
    lane.leasing = false;
    this.#occupy(lane, leased - batch.slots);
    this.#destinations.occupyHost(batch.host, leased - batch.slots);
    // If it is not known: `expect` has noted rows that came in meanwhile.
    if (due !== undefined && due <= now + this.#options.horizon && due < lane.due) lane.due = due;
    this.#put(lane, now);
  }

  /**
   * Other nodes hold all slots of the destination of a batch: its lanes wait until then, or until an attempt at it ends
   * here, and ask for slots one after the other.
   */
  waitForSlot(batch: Batch, until: number, now: number): void {
    const lane = this.#stateOf(batch);
    lane.to.waitingForSlot = { lane, until };
    this.leased(batch, 0, until, now);
  }

  /**
   * An attempt ended; its slot is free.
   *
   * @param host where it counted last
   */
  settled(of: Lane, result: Result, now: number, host?: string): void {
    this.#destinations.occupyHost(host, -1);
    this.#destinations.settled(of.destination, result);
    const lane = this.#stateOf(of);
    this.#occupy(lane, -1);
    const { waitingForSlot } = lane.to;
    if (waitingForSlot) {
      lane.to.waitingForSlot = undefined;
      waitingForSlot.lane.due = Math.min(waitingForSlot.lane.due, now);
      this.#put(waitingForSlot.lane, now);
    }
    this.#put(lane, now);
  }

  get #mostOfSender(): number {
    if (this.#known < KNOWN_MANY) return KNOWN_OF_SENDER;
    return this.#known < KNOWN_MAX ? this.#share : 1;
  }

  /** The next lane of a sender that can have slots. */
  #findReady(sender: Sender, isTight: boolean): Found | undefined {
    const { domain, user, ready } = sender;
    const free = this.#options.concurrency - this.#underWay;
    const spare = free - this.#reserved;
    const forOthers = free - Math.floor(this.#reserved / 2);
    // At least one, also in a small pool: one user may have many accounts that hang.
    const forUsers = free - Math.ceil(this.#reserved / 4);
    const isSenderWithin = this.#isWithin(sender) && this.#isWithin(domain);
    const ofSender = Math.min(
      this.#slotsOf(sender, free, spare),
      this.#slotsOf(domain, free, forOthers),
      this.#slotsOf(user, free, forUsers),
    );
    if (ofSender <= 0) return this.#refuse(user, isSenderWithin);
    const share = spare / this.#turns.size / user.turns.size / ready.size;
    const turn = Math.max(Math.ceil(share), 1);
    let beyond: Found | undefined;
    for (const lane of ready) {
      const { to } = lane;
      const capacity = this.#destinations.capacity(to);
      if (capacity <= 0) {
        this.#unready(lane);
        to.full.add(lane);
        continue;
      }
      if (isTight && to.underWay > 0) continue;
      const most = isTight ? 1 : Math.min(capacity, turn);
      const host = this.#destinations.hostOf(to.host);
      const isWithin = isSenderWithin && this.#isWithin(to) && this.#isWithin(host);
      const slots = Math.min(
        most,
        ofSender,
        this.#slotsOf(to, free, spare),
        this.#slotsOf(host, free, forOthers),
      );
      if (slots <= 0) {
        this.#refuse(user, isWithin);
        continue;
      }
      if (isWithin || !isSenderWithin) return { lane, slots, isWithin };
      beyond ??= { lane, slots, isWithin };
    }
    return beyond;
  }

  #refuse(user: User, isWithin: boolean): undefined {
    this.#isRefused ||= isWithin;
    if (isWithin && this.#isWithin(user)) this.#waiting = 'within';
    else if (isWithin && this.#waiting !== 'within') this.#waiting = 'within user';
    else if (this.#waiting === 'nobody') this.#waiting = 'beyond';
  }

  #isWithin({ underWay }: Party): boolean {
    return underWay < this.#share;
  }

  /**
   * How many slots one of a lane's five leaves to it.
   *
   * @param left what is left where he holds his share
   */
  #slotsOf(party: Party, free: number, left: number): number {
    if (!this.#isWithin(party)) return left;
    const toShare = this.#share - party.underWay;
    return Math.min(toShare, Math.max(left, free - party.underWay));
  }

  #reserve({ lane, slots }: Found): Batch {
    const { from, to } = lane;
    const { user } = from;
    this.#unready(lane);
    // The turn of the sender is over, and that of his user.
    if (user.turns.delete(from)) user.turns.add(from);
    if (this.#turns.delete(user)) this.#turns.add(user);
    lane.leasing = true;
    lane.due = Number.POSITIVE_INFINITY;
    this.#occupy(lane, slots);
    this.#destinations.occupyHost(to.host, slots);
    return { sender: from.name, destination: to.name, slots, host: to.host };
  }

  #addLane(sender: string, destination: string): LaneState {
    const from = this.#senders.get(sender) ?? this.#senders.add(sender);
    const to = this.#destinations.add(destination);
    const lane = { from, to, underWay: 0, leasing: false, due: Number.POSITIVE_INFINITY };
    from.lanes.set(destination, lane);
    this.#known++;
    return lane;
  }

  #removeLane({ from, to }: LaneState): void {
    from.lanes.delete(to.name);
    this.#known--;
    this.#destinations.remove(to);
    if (from.lanes.size === 0) this.#senders.remove(from);
  }

  #stateOf({ sender, destination }: Lane): LaneState {
    const lane = this.#senders.get(sender)?.lanes.get(destination);
    if (!lane) throw new Error('a lane with attempts under way is not known');
    return lane;
  }

  #occupy(lane: LaneState, slots: number): void {
    const { from, to } = lane;
    for (const party of [lane, from, from.domain, from.user, to]) party.underWay += slots;
    this.#underWay += slots;
  }

  /** Moves a lane to the collection it now belongs to, and lets lanes go on that waited for its destination. */
  #put(lane: LaneState, now: number): void {
    const { to } = lane;
    to.full.delete(lane);
    if (to.waitingForSlot && to.waitingForSlot.until <= now) to.waitingForSlot = undefined;
    if (!lane.leasing && lane.due <= now) {
      this.#ready(lane);
    } else {
      this.#unready(lane);
      if (lane.due === Number.POSITIVE_INFINITY) {
        if (!lane.leasing && lane.underWay === 0) this.#removeLane(lane);
      } else if (lane.due > now) {
        this.#later.push(lane.due, lane);
        this.#tidy();
      }
    }
    const capacity = to.full.size > 0 ? this.#destinations.capacity(to) : 0;
    if (capacity <= 0) return;
    // Counted apart: those of senders above their share may not get the slots.
    const left = { within: capacity, 'within user': capacity, beyond: capacity };
    for (const waiting of to.full) {
      const { domain, user } = waiting.from;
      const isWithin = this.#isWithin(waiting.from) && this.#isWithin(domain);
      const ofUser = this.#isWithin(user) ? 'within' : 'within user';
      const kind = isWithin ? ofUser : 'beyond';
      if (left[kind]-- <= 0) continue;
      to.full.delete(waiting);
      this.#ready(waiting);
      if (Object.values(left).every((count) => count <= 0)) break;
    }
  }

  #ready(lane: LaneState): void {
    const { from } = lane;
    from.ready.add(lane);
    from.user.turns.add(from);
    this.#turns.add(from.user);
  }

  #unready(lane: LaneState): void {
    const { from } = lane;
    const { user } = from;
    if (!from.ready.delete(lane) || from.ready.size > 0) return;
    if (user.turns.delete(from) && user.turns.size === 0) this.#turns.delete(user);
  }

  /** Removes entries that are out of date, so that they do not pile up. */
  #tidy(): void {
    if (this.#later.size <= 4 * this.#known + 1_000) return;
    this.#later.keep((lane, due) => {
      const { waitingForSlot } = lane.to;
      const endsWait = waitingForSlot?.lane === lane && waitingForSlot.until === due;
      return (lane.due === due || endsWait) && isKnown(lane);
    });
  }
}
