/** Whose mail waits, and where it goes: all who have a share of the slots (`lanes.ts`). */

/** Whose mail it is. */
export interface Owner {
  /** The user who owns the domain; empty where he is not known. */
  readonly userId: string;
  readonly domainId: number;
  /** The account, where it is not the domain's. */
  readonly accountId?: number | undefined;
}

/** Names a sender. */
export function senderOf({ userId, domainId, accountId }: Owner): string {
  return `${domainId}/${accountId ?? ''}/${userId}`;
}

/** Some rows name no user: then the domain stands for him. */
const SENDER = /^(?<domain>\d*)\/?(?<account>\d*)\/?(?<user>.*)$/s;

/** The user of a sender; empty where the row does not name him. */
export function userOf(sender: string): string {
  return SENDER.exec(sender)?.groups?.user ?? '';
}

/** The account of a sender; 0 where it is a domain. */
export function accountOf(sender: string): number {
  return Number(SENDER.exec(sender)?.groups?.account ?? 0);
}

/** Who has a share of the slots. */
export interface Party {
  /** Attempts under way, including the slots of leases that are not done. */
  underWay: number;
}

/** Who owns domains. */
export interface User extends Party {
  readonly name: string;
  senders: number;
  /** His senders with ready lanes, in the order of their turns. */
  readonly turns: Set<Sender>;
}

export interface Sender extends Party {
  readonly name: string;
  readonly domain: Domain;
  readonly user: User;
  readonly lanes: Map<string, LaneState>;
  /** Those with due rows, in the order of their turns. */
  readonly ready: Set<LaneState>;
}

export interface Domain extends Party {
  readonly name: string;
  senders: number;
}

export interface Destination extends Party {
  readonly name: string;
  lanes: number;
  /** Where the last attempt connected to. */
  host: string | undefined;
  /** Lanes with due rows that wait until an attempt at this destination ends. */
  readonly full: Set<LaneState>;
  /** Other nodes hold its slots: none of its lanes asks for any until this one is due. */
  waitingForSlot: { readonly lane: LaneState; readonly until: number } | undefined;
}

export interface LaneState extends Party {
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

/** Slots that are reserved for rows of a lane, to be leased now. */
export interface Batch extends Lane {
  readonly slots: number;
  /** Where they count, too. */
  readonly host: string | undefined;
}

/**
 * Who waits for a slot: somebody below all shares, or at best one who is below all but that of his user, or only others,
 * or nobody.
 */
export type Waiting = 'within' | 'within user' | 'beyond' | 'nobody';

/** A lane that can have slots. */
export interface Found {
  readonly lane: LaneState;
  readonly slots: number;
  /** Whether all but the user are below their shares. */
  readonly isWithin: boolean;
}

/** Whether a lane was not removed meanwhile. */
export function isKnown(lane: LaneState): boolean {
  return lane.from.lanes.get(lane.to.name) === lane;
}

/** The senders that have lanes, with their domains and users. */
export class Senders {
  readonly #senders = new Map<string, Sender>();
  readonly #domains = new Map<string, Domain>();
  readonly #users = new Map<string, User>();

  get(name: string): Sender | undefined {
    return this.#senders.get(name);
  }

  add(name: string): Sender {
    const { domain: ofDomain = '', user: ofUser = '' } = SENDER.exec(name)?.groups ?? {};
    const domain = this.#domains.get(ofDomain) ?? { name: ofDomain, underWay: 0, senders: 0 };
    const userName = ofUser || ofDomain;
    const user = this.#users.get(userName) ?? {
      name: userName,
      underWay: 0,
      senders: 0,
      turns: new Set(),
    };
    domain.senders++;
    user.senders++;
    this.#domains.set(domain.name, domain);
    this.#users.set(user.name, user);
    const ready = new Set<LaneState>();
    const sender = { name, domain, user, underWay: 0, lanes: new Map(), ready };
    this.#senders.set(name, sender);
    return sender;
  }

  remove({ name, domain, user }: Sender): void {
    this.#senders.delete(name);
    if (--domain.senders === 0) this.#domains.delete(domain.name);
    if (--user.senders === 0) this.#users.delete(user.name);
  }
}
