/**
 * Which delivery is attempted next: the fairness of the queue. A lane is what one sender (an account, or a domain that
 * forwards) has for one destination. Memory holds no deliveries, only the state of lanes that have some. So the database is
 * asked for rows of one lane at a time, and never reads through those of a dead destination or of a large sender.
 *
 * - Lanes take turns, by sender, and each gets its part of the free places.
 * - Senders, domains, destinations and hosts have a share of an eighth of all places. Where one of a lane's four holds its
 *   share, the lane gets a place only while nobody below his share waits, and never the last ones: the last eighth of the
 *   places is for other senders and destinations, and half of that for other domains and hosts. Of these last places
 *   nobody holds more than are free, so that the next one finds some.
 * - The host is where the mail of several destinations goes, such as the address of an MX. An attempt tells it
 *   ({@link Lanes.enter}), and from then on it is known of the destination.
 * - At most `perDestination` are under way at one destination. After 5 failures in a row it is one at a time until a
 *   success.
 *
 * Memory is limited: lanes that are due later than the horizon are not kept, and of one sender no more than 500, his
 * share of the places while there are 10,000 in all, or one while there are 100,000; the worker's look at the table finds
 * the others.
 */
import { LRUCache } from 'lru-cache';
import { DueHeap } from './due-heap.ts';

const FAILURES_IN_A_ROW = 5;
const KNOWN_MANY = 10_000;
const KNOWN_MAX = 100_000;
const KNOWN_OF_SENDER = 500;
const FAILING_MAX = 10_000;
const HOSTS_MAX = 50_000;
/** The part of all places that each may have while others wait. */
const SHARE = 1 / 8;

/** Who has a share of the places. */
interface Party {
  /** Attempts under way, including the places of leases that are not done. */
  underWay: number;
}

interface Sender extends Party {
  readonly name: string;
  readonly domain: Domain;
  readonly lanes: Map<string, LaneState>;
  /** Those with due rows, in the order of their turns. */
  readonly ready: Set<LaneState>;
}

interface Domain extends Party {
  readonly name: string;
  senders: number;
}

interface Destination extends Party {
  readonly name: string;
  lanes: number;
  /** Where the last attempt connected to. */
  host: string | undefined;
  /** Lanes with due rows that wait until an attempt at this destination ends. */
  readonly full: Set<LaneState>;
  /** Other nodes hold its places: none of its lanes asks for any until this one is due. */
  putOff: { readonly lane: LaneState; readonly until: number } | undefined;
}

interface LaneState extends Party {
  readonly from: Sender;
  readonly to: Destination;
  /** Rows are being leased right now. */
  leasing: boolean;
  /** When its earliest row is due, as far as is known; infinity where there is none. */
  due: number;
}

/** The deliveries of one sender to one destination. */
export interface Lane {
  readonly sender: string;
  readonly destination: string;
}

/** Places that are reserved for rows of a lane, to be leased now. */
export interface Batch extends Lane {
  readonly places: number;
  /** Where they count, too. */
  readonly host: string | undefined;
}

/** Who waits for a place: somebody below his share, only others, or nobody. */
export type Waiting = 'within' | 'beyond' | 'nobody';

interface LanesOptions {
  /** Attempts under way in all. */
  readonly concurrency: number;
  readonly perDestination: number;
  /** Milliseconds; rows that are due later are not kept. */
  readonly horizon: number;
}

/** Names a sender: the domain's id, followed by the account's where an account sends. */
export function senderOf(domainId: number, accountId: number | undefined): string {
  return accountId === undefined ? `${domainId}` : `${domainId}/${accountId}`;
}

export class Lanes {
  readonly #options: LanesOptions;
  /** Places that each may have while others wait. */
  readonly #share: number;
  /** Places for those who are below their share. */
  readonly #reserved: number;
  readonly #senders = new Map<string, Sender>();
  readonly #domains = new Map<string, Domain>();
  readonly #destinations = new Map<string, Destination>();
  #known = 0;
  /** Senders with ready lanes, in the order of their turns. */
  readonly #turns = new Set<Sender>();
  /** Due later. Entries that are out of date are ignored. */
  readonly #later = new DueHeap<LaneState>();
  /** Failures in a row; the destinations that were used least recently are forgotten first. */
  readonly #failures = new LRUCache<string, number>({ max: FAILING_MAX });
  readonly #hosts = new Map<string, Party>();
  /** Hosts of destinations that have nothing to do now. */
  readonly #hostOf = new LRUCache<string, string>({ max: HOSTS_MAX });
  #underWay = 0;
  #waiting: Waiting = 'nobody';

  constructor(options: LanesOptions) {
    this.#options = options;
    this.#reserved = Math.floor(options.concurrency * SHARE);
    this.#share = Math.max(this.#reserved, 1);
  }

  /** Who found no place when {@link next} was last called. */
  get waiting(): Waiting {
    return this.#waiting;
  }

  /** When the next row that is not due yet will be. */
  get nextDue(): number {
    return this.#later.earliest;
  }

  /** Whether a sender holds his share of the places, or more. */
  hasShare(sender: string): boolean {
    const found = this.#senders.get(sender);
    return found !== undefined && !this.#isWithin(found);
  }

  /** Whether somebody waits who has a right to a place of this lane: below his share, or as its sender above it. */
  isWanted({ sender }: Lane): boolean {
    return this.#waiting === 'within' || (this.#waiting === 'beyond' && this.hasShare(sender));
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
    this.#place(lane, now);
    return true;
  }

  /**
   * Reserves places for the lane whose turn it is; undefined where none can have any.
   *
   * @param isTight whether memory is short: then only one place, for a destination with nothing under way
   */
  next(now: number, isTight = false): Batch | undefined {
    while (this.#later.earliest <= now) {
      const lane = this.#later.pop();
      if (lane && isKnown(lane)) this.#place(lane, now);
    }
    this.#waiting = 'nobody';
    let beyond: Found | undefined;
    for (const sender of this.#turns) {
      const found = this.#findReady(sender, isTight);
      if (found?.isWithin) return this.#reserve(found);
      // Of those who hold their share, who has the fewest.
      if (found && !(beyond && beyond.lane.from.underWay <= found.lane.from.underWay))
        beyond = found;
      // Nobody can have a place, and that somebody with a right to one waits is known.
      if (this.#underWay >= this.#options.concurrency && this.waiting === 'within') break;
    }
    return beyond && this.#reserve(beyond);
  }

  /**
   * An attempt is about to connect to a host.
   *
   * @param before the host where it counted until now
   * @returns false where the host holds its share while others wait, or there are no places left for it
   */
  enter({ destination }: Lane, host: string, before: string | undefined): boolean {
    if (host === before) return true;
    const to = this.#destinations.get(destination);
    if (to) to.host = host;
    this.#hostOf.set(destination, host);
    const free = this.#options.concurrency - this.#underWay;
    const isShort = this.#waiting === 'within' || free <= Math.floor(this.#reserved / 2);
    if (isShort && !this.#isWithin(this.#partyOf(host))) return false;
    this.#occupyHost(before, -1);
    this.#occupyHost(host, 1);
    return true;
  }

  /**
   * The lease of a batch ended.
   *
   * @param leased the number of leased rows; the other places are free again
   * @param due when the next row of the lane is due, if known
   */
  leased(batch: Batch, leased: number, due: number | undefined, now: number): void {
    const lane = this.#stateOf(batch);
    lane.leasing = false;
    this.#occupy(lane, leased - batch.places);
    this.#occupyHost(batch.host, leased - batch.places);
    // If it is not known: `expect` has noted rows that came in meanwhile.
    if (due !== undefined && due <= now + this.#options.horizon && due < lane.due) lane.due = due;
    this.#place(lane, now);
  }

  /**
   * Other nodes hold all places of the destination of a batch: its lanes wait until then, or until an attempt at it ends
   * here, and ask for places one after the other.
   */
  putOff(batch: Batch, until: number, now: number): void {
    const lane = this.#stateOf(batch);
    lane.to.putOff = { lane, until };
    this.leased(batch, 0, until, now);
  }

  /**
   * An attempt ended; its place is free.
   *
   * @param host where it counted last
   */
  settled(of: Lane, result: Result, now: number, host?: string): void {
    const { destination } = of;
    this.#occupyHost(host, -1);
    if (result === 'delivered') this.#failures.delete(destination);
    // A permanent failure is an answer, so the receiver is not dead.
    if (result === 'temporary') {
      this.#failures.set(destination, (this.#failures.get(destination) ?? 0) + 1);
    }
    const lane = this.#stateOf(of);
    this.#occupy(lane, -1);
    const { putOff } = lane.to;
    if (putOff) {
      lane.to.putOff = undefined;
      putOff.lane.due = Math.min(putOff.lane.due, now);
      this.#place(putOff.lane, now);
    }
    this.#place(lane, now);
  }

  get #mostOfSender(): number {
    if (this.#known < KNOWN_MANY) return KNOWN_OF_SENDER;
    return this.#known < KNOWN_MAX ? this.#share : 1;
  }

  /** The next lane of a sender that can have places. */
  #findReady(sender: Sender, isTight: boolean): Found | undefined {
    const { domain, ready } = sender;
    const free = this.#options.concurrency - this.#underWay;
    const spare = free - this.#reserved;
    const forOthers = free - Math.floor(this.#reserved / 2);
    const isSenderWithin = this.#isWithin(sender) && this.#isWithin(domain);
    const ofSender = Math.min(
      this.#placesOf(sender, free, spare),
      this.#placesOf(domain, free, forOthers),
    );
    if (ofSender <= 0) return this.#refuse(isSenderWithin);
    const turn = Math.max(Math.ceil(spare / this.#turns.size / ready.size), 1);
    let beyond: Found | undefined;
    for (const lane of ready) {
      const { to } = lane;
      const capacity = this.#capacity(to);
      if (capacity <= 0) {
        this.#unready(lane);
        to.full.add(lane);
        continue;
      }
      if (isTight && to.underWay > 0) continue;
      const most = isTight ? 1 : Math.min(capacity, turn);
      const host = this.#partyOf(to.host);
      const isWithin = isSenderWithin && this.#isWithin(to) && this.#isWithin(host);
      const places = Math.min(
        most,
        ofSender,
        this.#placesOf(to, free, spare),
        this.#placesOf(host, free, forOthers),
      );
      if (places <= 0) {
        this.#refuse(isWithin);
        continue;
      }
      if (isWithin || !isSenderWithin) return { lane, places, isWithin };
      beyond ??= { lane, places, isWithin };
    }
    return beyond;
  }

  #refuse(isWithin: boolean): undefined {
    if (isWithin) this.#waiting = 'within';
    else if (this.#waiting === 'nobody') this.#waiting = 'beyond';
  }

  #isWithin({ underWay }: Party): boolean {
    return underWay < this.#share;
  }

  /**
   * How many places one of a lane's four leaves to it.
   *
   * @param left what is left where he holds his share
   */
  #placesOf(party: Party, free: number, left: number): number {
    if (!this.#isWithin(party)) return left;
    const toShare = this.#share - party.underWay;
    return Math.min(toShare, Math.max(left, free - party.underWay));
  }

  #reserve({ lane, places }: Found): Batch {
    const { from, to } = lane;
    this.#unready(lane);
    // The turn of the sender is over.
    if (this.#turns.delete(from)) this.#turns.add(from);
    lane.leasing = true;
    lane.due = Number.POSITIVE_INFINITY;
    this.#occupy(lane, places);
    this.#occupyHost(to.host, places);
    return { sender: from.name, destination: to.name, places, host: to.host };
  }

  #addLane(sender: string, destination: string): LaneState {
    const from = this.#senders.get(sender) ?? this.#addSender(sender);
    let to = this.#destinations.get(destination);
    if (!to) {
      const host = this.#hostOf.get(destination);
      to = {
        name: destination,
        underWay: 0,
        lanes: 0,
        host,
        full: new Set(),
        putOff: undefined,
      };
      this.#destinations.set(destination, to);
    }
    const lane = { from, to, underWay: 0, leasing: false, due: Number.POSITIVE_INFINITY };
    from.lanes.set(destination, lane);
    to.lanes++;
    this.#known++;
    return lane;
  }

  #addSender(name: string): Sender {
    const [of = ''] = name.split('/', 1);
    let domain = this.#domains.get(of);
    if (!domain) {
      domain = { name: of, underWay: 0, senders: 0 };
      this.#domains.set(of, domain);
    }
    domain.senders++;
    const sender = { name, domain, underWay: 0, lanes: new Map(), ready: new Set<LaneState>() };
    this.#senders.set(name, sender);
    return sender;
  }

  #removeLane({ from, to }: LaneState): void {
    from.lanes.delete(to.name);
    this.#known--;
    if (--to.lanes === 0) this.#destinations.delete(to.name);
    if (from.lanes.size > 0) return;
    this.#senders.delete(from.name);
    if (--from.domain.senders === 0) this.#domains.delete(from.domain.name);
  }

  #stateOf({ sender, destination }: Lane): LaneState {
    const lane = this.#senders.get(sender)?.lanes.get(destination);
    if (!lane) throw new Error('a lane with attempts under way is not known');
    return lane;
  }

  #occupy(lane: LaneState, places: number): void {
    for (const party of [lane, lane.from, lane.from.domain, lane.to]) party.underWay += places;
    this.#underWay += places;
  }

  #partyOf(host: string | undefined): Party {
    return (host === undefined ? undefined : this.#hosts.get(host)) ?? NOBODY;
  }

  #occupyHost(host: string | undefined, places: number): void {
    if (host === undefined) return;
    const underWay = this.#partyOf(host).underWay + places;
    if (underWay > 0) this.#hosts.set(host, { underWay });
    else this.#hosts.delete(host);
  }

  #capacity({ name, underWay, putOff }: Destination): number {
    if (putOff) return 0;
    const failing = (this.#failures.peek(name) ?? 0) >= FAILURES_IN_A_ROW;
    return (failing ? 1 : this.#options.perDestination) - underWay;
  }

  /** Moves a lane to the collection it now belongs to, and lets lanes go on that waited for its destination. */
  #place(lane: LaneState, now: number): void {
    const { from, to } = lane;
    to.full.delete(lane);
    if (to.putOff && to.putOff.until <= now) to.putOff = undefined;
    if (!lane.leasing && lane.due <= now) {
      from.ready.add(lane);
      this.#turns.add(from);
    } else {
      this.#unready(lane);
      if (lane.due === Number.POSITIVE_INFINITY) {
        if (!lane.leasing && lane.underWay === 0) this.#removeLane(lane);
      } else if (lane.due > now) {
        this.#later.push(lane.due, lane);
        this.#tidy();
      }
    }
    const capacity = to.full.size > 0 ? this.#capacity(to) : 0;
    if (capacity <= 0) return;
    // Counted apart: those of senders above their share may not get the places.
    const left = { within: capacity, beyond: capacity };
    for (const waiting of to.full) {
      const { from: sender } = waiting;
      const kind = this.#isWithin(sender) && this.#isWithin(sender.domain) ? 'within' : 'beyond';
      if (left[kind]-- <= 0) continue;
      to.full.delete(waiting);
      sender.ready.add(waiting);
      this.#turns.add(sender);
      if (left.within <= 0 && left.beyond <= 0) break;
    }
  }

  #unready(lane: LaneState): void {
    const { from } = lane;
    if (from.ready.delete(lane) && from.ready.size === 0) this.#turns.delete(from);
  }

  /** Removes entries that are out of date, so that they do not pile up. */
  #tidy(): void {
    if (this.#later.size <= 4 * this.#known + 1_000) return;
    this.#later.keep((lane, due) => {
      const { putOff } = lane.to;
      const endsWait = putOff?.lane === lane && putOff.until === due;
      return (lane.due === due || endsWait) && isKnown(lane);
    });
  }
}

/** How an attempt ended; `postponed`: before it began. */
type Result = 'delivered' | 'temporary' | 'permanent' | 'held' | 'postponed';

const NOBODY: Party = { underWay: 0 };

/** A lane that can have places. */
interface Found {
  readonly lane: LaneState;
  readonly places: number;
  readonly isWithin: boolean;
}

function isKnown(lane: LaneState): boolean {
  return lane.from.lanes.get(lane.to.name) === lane;
}
