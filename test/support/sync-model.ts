/**
 * The model of a client that only ever applies the answers of sync: whatever happens to a mailbox,
 * in whatever pages it asks, it holds exactly what the mailbox holds.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type {
  Mailstore,
  MailUser,
  MessageField,
  SyncRequest,
  SyncResult,
} from '../../src/mailboxes/mailstore/mailstore.ts';
import { Refusal } from '../../src/platform/errors/errors.ts';

/** A mailbox that is changed by one way and read by another. */
export interface ModelMailbox {
  /** Adds so many messages. */
  append(count: number): Promise<void>;
  setFlag(uid: number, flag: string, on: boolean): Promise<void>;
  expunge(uid: number): Promise<void>;
  moveAway(uid: number): Promise<void>;
  /** Flags by UID, as they are. */
  state(): Promise<ReadonlyMap<number, readonly string[]>>;
  sync(request: Omit<SyncRequest, 'mailbox'>): Promise<SyncResult>;
  /** What is asked of every new message. */
  readonly fields: readonly MessageField[];
  /** Makes the store forget what was removed; without it there is never a reset. */
  forget?(): Promise<void>;
  /** Sources by UID, as they are. No two messages have the same source. */
  sources?(): Promise<ReadonlyMap<number, string>>;
  /** Reads a message as an app does; undefined where it is not there. */
  read?(uid: number): Promise<string | undefined>;
  /** Deletes the mailbox, and makes another one of its name with so many messages. */
  makeAnew?(count: number): Promise<void>;
}

/** Reads a source through a store, as `ModelMailbox.read` does. */
export async function readSource(
  store: Pick<Mailstore, 'fetchMessage'>,
  user: MailUser,
  mailbox: string,
  uid: number,
): Promise<string | undefined> {
  try {
    const message = await store.fetchMessage(user, mailbox, uid);
    return Buffer.concat(await Array.fromAsync(message.open())).toString();
  } catch (error) {
    if (error instanceof Refusal && error.code === 'message_not_found') return undefined;
    throw error;
  }
}

type Change =
  | { readonly do: 'append'; readonly count: number }
  | { readonly do: 'flag' | 'unflag'; readonly pick: number; readonly flag: string }
  | { readonly do: 'expunge' | 'move'; readonly pick: number };

export type Step =
  | Change
  | { readonly do: 'forget' }
  | { readonly do: 'make anew'; readonly count: number }
  | { readonly do: 'read'; readonly pick: number }
  | { readonly do: 'sync'; readonly limit: number | undefined; readonly newest: boolean }
  /** A sync and a read while something changes. */
  | {
      readonly do: 'race';
      readonly limit: number | undefined;
      readonly pick: number;
      readonly change: Change;
    };

const pick = fc.nat(20);
const flag = fc.constantFrom('\\Seen', '\\Flagged', '$Label1');
const limit = fc.option(fc.integer({ min: 1, max: 4 }), { nil: undefined });

const change: fc.Arbitrary<Change> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('append' as const),
      count: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constantFrom('flag' as const, 'unflag' as const), pick, flag }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constantFrom('expunge' as const, 'move' as const), pick }),
  },
);

export interface LifeOptions {
  /** Steps at most. */
  readonly maxLength: number;
  /** Whether the store forgets removals now and then. */
  readonly forgets: boolean;
  /** Whether messages are read between the changes. */
  readonly reads?: boolean;
  /** Whether the mailbox is deleted and made anew now and then. */
  readonly madeAnew?: boolean;
}

/** Random lives of a mailbox. */
export function lives({ maxLength, forgets, reads = false, madeAnew = false }: LifeOptions) {
  const step: fc.Arbitrary<Step> = fc.oneof(
    { weight: 11, arbitrary: change },
    { weight: forgets ? 1 : 0, arbitrary: fc.record({ do: fc.constant('forget' as const) }) },
    {
      weight: madeAnew ? 1 : 0,
      arbitrary: fc.record({ do: fc.constant('make anew' as const), count: fc.nat(3) }),
    },
    {
      weight: reads ? 5 : 0,
      arbitrary: fc.record({ do: fc.constant('read' as const), pick }),
    },
    {
      weight: 5,
      arbitrary: fc.record({ do: fc.constant('sync' as const), limit, newest: fc.boolean() }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('race' as const), limit, pick, change }) },
  );
  return fc.array(step, { maxLength });
}

/** Applies answers as the contract tells clients to, and checks what each may hold. */
class Client {
  readonly seen = new Map<number, readonly string[] | undefined>();
  /** Messages that were there while pages were read, or beside a change, and that no page has told of yet. */
  readonly #unread = new Set<number>();
  last: SyncResult | undefined;

  /**
   * @param fields every new message has them
   */
  apply(answer: SyncResult, fields: readonly MessageField[], mayReset: boolean): void {
    assert.ok(mayReset || !answer.reset, 'started anew without need');
    if (answer.reset) {
      this.seen.clear();
      this.#unread.clear();
    }
    for (const message of answer.changes.added) {
      const { uid, flags } = message;
      assert.ok(!this.seen.has(uid), `${uid} was added twice`);
      for (const field of fields) assert.ok(field in message, `${uid} was added without ${field}`);
      this.seen.set(uid, flags);
      this.#unread.delete(uid);
    }
    for (const { uid, flags } of answer.changes.updated) {
      assert.ok(this.seen.has(uid), `${uid} was updated before it was added`);
      this.seen.set(uid, flags);
    }
    for (const { uid } of answer.changes.removed) {
      const wasThere = this.seen.delete(uid) || this.#unread.delete(uid);
      assert.ok(wasThere, `${uid} was removed but not there`);
    }
    this.last = answer;
  }

  /** Notes messages that may be removed before the client is told of them. */
  expect(uids: Iterable<number>): void {
    for (const uid of uids) if (!this.seen.has(uid)) this.#unread.add(uid);
  }

  get isMidPage(): boolean {
    return this.last?.hasMore === true;
  }
}

/** Lives one life; throws where the client comes to hold what it should not. */
export async function live(mailbox: ModelMailbox, steps: readonly Step[]): Promise<void> {
  const client = new Client();
  const reader = new Reader(mailbox);
  let isAnother = false;
  const sync = async (limit: number | undefined, newest = false, isRace = false) => {
    const { uidvalidity, token } = client.last ?? {};
    const before = await mailbox.state();
    const answer = await mailbox.sync({
      fields: mailbox.fields,
      newest,
      ...(uidvalidity !== undefined && { uidvalidity }),
      ...(token !== undefined && { token }),
      ...(limit !== undefined && { limit }),
    });
    client.apply(answer, mailbox.fields, isAnother || mailbox.forget !== undefined);
    if (client.isMidPage || isRace) client.expect(before.keys());
    isAnother = false;
  };
  const check = async () => {
    const truth = await mailbox.state();
    const byUid = (map: ReadonlyMap<number, readonly string[] | undefined>) =>
      [...map].map(([uid, flags]) => [uid, flags ?? []] as const).sort(([a], [b]) => a - b);
    assert.deepEqual(byUid(client.seen), byUid(truth));
  };
  for (const step of steps) {
    if (step.do === 'sync') {
      const wasWhole = !client.isMidPage;
      await sync(step.limit, step.newest);
      // A page of several tells of a state that is past by the time of the last one.
      if (wasWhole && !client.isMidPage) await check();
    } else if (step.do === 'race') {
      await reader.race(step.pick, () =>
        Promise.all([sync(step.limit, false, true), apply(mailbox, step.change)]),
      );
      // Its further pages have messages that came beside it.
      if (client.isMidPage) client.expect((await mailbox.state()).keys());
    } else if (step.do === 'read') await reader.read(step.pick);
    else if (step.do === 'forget') await mailbox.forget?.();
    else if (step.do === 'make anew') {
      await mailbox.makeAnew?.(step.count);
      isAnother = true;
    } else await apply(mailbox, step);
  }
  while (client.isMidPage) await sync(3);
  // An answer may also end for its size.
  do await sync(undefined);
  while (client.isMidPage);
  await check();
}

/** Reads messages that are there, and messages that were. */
class Reader {
  readonly #mailbox: ModelMailbox;
  readonly #seen = new Set<number>();

  constructor(mailbox: ModelMailbox) {
    this.#mailbox = mailbox;
  }

  async read(pick: number): Promise<void> {
    const sources = await this.#sources();
    const uid = this.#pick(pick);
    assert.equal(await this.#mailbox.read?.(uid), sources.get(uid), `message ${uid}`);
  }

  /** Reads while something changes: finds what was there before or is there after. */
  async race(pick: number, change: () => Promise<unknown>): Promise<void> {
    const before = await this.#sources();
    const uid = this.#pick(pick);
    const [found] = await Promise.all([this.#mailbox.read?.(uid), change()]);
    const after = await this.#sources();
    assert.ok([before.get(uid), after.get(uid)].includes(found), `message ${uid}: ${found}`);
  }

  async #sources(): Promise<ReadonlyMap<number, string>> {
    const sources = (await this.#mailbox.sources?.()) ?? new Map<number, string>();
    for (const uid of sources.keys()) this.#seen.add(uid);
    return sources;
  }

  #pick(pick: number): number {
    const uids = [...this.#seen];
    return uids[pick % Math.max(1, uids.length)] ?? 1;
  }
}

async function apply(mailbox: ModelMailbox, step: Change): Promise<void> {
  if (step.do === 'append') return mailbox.append(step.count);
  const uids = [...(await mailbox.state()).keys()];
  const uid = uids[step.pick % Math.max(1, uids.length)];
  if (uid === undefined) return;
  if (step.do === 'expunge') await mailbox.expunge(uid);
  else if (step.do === 'move') await mailbox.moveAway(uid);
  else if ('flag' in step) await mailbox.setFlag(uid, step.flag, step.do === 'flag');
}
