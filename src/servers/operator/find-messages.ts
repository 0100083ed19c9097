/**
 * The operators' list of messages: one for all rows that the trace has of a message, the newest first. The most selective
 * filter decides in which index messages are found; the others choose among those. So a page reads 5,000 rows and 200
 * messages at most: where few of them match it has fewer items than requested, and a cursor to continue from.
 *
 * A message is in one index several times: with a row for each recipient, or under several ways. It is listed at the newest
 * position of the first way that has it, so that each page knows without the pages before whether it was listed.
 */
import { readKnown } from '../../mail/queue/queue.ts';
import { readEvents } from '../../mail/trace/trace.ts';
import { fits, isPicky, type MessageFilter } from './message-filter.ts';
import { deliveriesOf, type Message, messageOf } from './message-state.ts';
import {
  type Found,
  isAfter,
  type MessageParts,
  type Position,
  type Way,
  waysOf,
} from './message-ways.ts';

export type { MessageFilter } from './message-filter.ts';
export type { MessageParts, Position } from './message-ways.ts';

const ROWS_MAX = 5_000;
const ROWS_AT_A_TIME = 1_000;
const MESSAGES_MAX = 200;
/** One read for a page of the usual size, and no small ones for the last items of it. */
const MESSAGES_AT_A_TIME = { least: 25, most: 51 };

/** @returns the messages, and where each way continues; undefined where no more are left */
export async function findMessages(
  parts: MessageParts,
  filter: MessageFilter,
  { after, limit }: { readonly after: readonly Position[] | undefined; readonly limit: number },
): Promise<{ readonly items: Message[]; readonly next: readonly Position[] | undefined }> {
  const ways = waysOf(parts, filter);
  const walk = new Walk(ways, after, isPicky(filter) ? ROWS_AT_A_TIME : limit + 1);
  const items: Message[] = [];
  let next: readonly Position[] | undefined;
  let examined = 0;
  while (examined < MESSAGES_MAX) {
    const { least, most } = MESSAGES_AT_A_TIME;
    const wanted = limit + 1 - items.length;
    const some = await walk.take(Math.min(Math.max(wanted, least), most));
    if (some.length === 0) break;
    examined += some.length;
    const messages = await readMessages(
      parts,
      some.map(({ mailId }) => mailId),
    );
    for (const { mailId, way, position, positions } of some) {
      const message = messages.get(mailId);
      if (!message || !isListedAt(ways, way, position, message) || !fits(message, filter)) continue;
      if (items.length === limit) return { items: items.toSorted(byTime), next };
      items.push(message);
      next = positions;
    }
  }
  return { items: items.toSorted(byTime), next: walk.isEnd ? undefined : walk.positions };
}

/** Where a page is in the order of something that happened later, as of bounces, at least the page is sorted. */
function byTime(a: Message, b: Message): number {
  return b.at - a.at;
}

/** Reads all that is known of messages; those without a row in the trace are left out. */
export async function readMessages(
  { database, now }: MessageParts,
  mailIds: readonly string[],
): Promise<Map<string, Message>> {
  const byMessage = await readEvents(database.read, [...new Set(mailIds)]);
  const ids = [...byMessage.values()].flatMap(deliveriesOf);
  const known = new Map((await readKnown(database.read, ids)).map((one) => [one.id, one]));
  const messages = new Map<string, Message>();
  for (const [id, events] of byMessage) {
    if (events.length === 0) continue;
    const own = deliveriesOf(events).flatMap((one) => known.get(one) ?? []);
    const deliveries = new Map(own.map((one) => [one.id, one]));
    messages.set(id, messageOf(id, events, deliveries, now()));
  }
  return messages;
}

interface Candidate {
  readonly mailId: string;
  /** Its number. */
  readonly way: number;
  readonly position: Position;
  /** Where each way continues after it. */
  readonly positions: readonly Position[];
}

/** Before all rows. */
const START: Position = { at: Number.MAX_SAFE_INTEGER, id: Number.MAX_SAFE_INTEGER };

/** Reads several ways beside each other, the newest row first. */
class Walk {
  readonly #ways: readonly {
    way: Way;
    rows: Found[];
    last: Position | undefined;
    isEnd: boolean;
  }[];
  readonly #seen = new Set<string>();
  readonly #atATime: number;
  positions: Position[];
  #read = 0;

  constructor(ways: readonly Way[], after: readonly Position[] | undefined, atATime: number) {
    this.#atATime = atATime;
    this.positions = ways.map((_, index) => after?.[index] ?? START);
    this.#ways = ways.map((way, index) => {
      const position = after?.[index];
      return {
        way,
        rows: [],
        isEnd: false,
        last: position?.id === START.id ? undefined : position,
      };
    });
  }

  get isEnd(): boolean {
    return this.#ways.every(({ rows, isEnd }) => isEnd && rows.length === 0);
  }

  /** @returns fewer than asked where the ways end, or enough was read */
  async take(count: number): Promise<Candidate[]> {
    const taken: Candidate[] = [];
    while (taken.length < count && (await this.#fill())) {
      const heads = this.#ways.map(({ rows: [head] }) => head?.at ?? Number.NEGATIVE_INFINITY);
      const number = heads.indexOf(Math.max(...heads));
      const { rows = [], isEnd = true, last } = this.#ways[number] ?? {};
      const row = rows.shift();
      if (!row) break;
      const position = { at: row.at, id: row.id };
      // Behind the last row that may match are those that do not.
      this.positions[number] = rows.length === 0 && !isEnd && last ? last : position;
      const key = `${number} ${row.mailId}`;
      if (this.#seen.has(key)) continue;
      this.#seen.add(key);
      taken.push({ mailId: row.mailId, way: number, position, positions: [...this.positions] });
    }
    return taken;
  }

  /** Reads on where a way has no row at hand. @returns whether any has one, and no more must be read before */
  async #fill(): Promise<boolean> {
    for (const [number, state] of this.#ways.entries()) {
      while (state.rows.length === 0 && !state.isEnd) {
        if (this.#read >= ROWS_MAX) return false;
        const step = await state.way.read(state.last, this.#atATime);
        this.#read += step.read;
        state.rows = [...step.rows];
        state.isEnd = step.isEnd;
        state.last = step.last ?? state.last;
        if (state.rows.length === 0 && state.last) this.positions[number] = state.last;
      }
    }
    return this.#ways.some(({ rows }) => rows.length > 0);
  }
}

function isListedAt(
  ways: readonly Way[],
  number: number,
  position: Position,
  message: Message,
): boolean {
  const first = ways.findIndex((way) => way.positionOf(message) !== undefined);
  const newest = ways[number]?.positionOf(message);
  if (first === number && position.id === newest?.id) return true;
  // Of a message with so many rows, one that is not read any more counts as its newest.
  return message.isCut && (newest === undefined ? first === -1 : isAfter(position, newest));
}
