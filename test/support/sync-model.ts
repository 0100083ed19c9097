/**
 * The model of a client that only ever applies the answers of sync: whatever happens to a mailbox,
 * in whatever pages it asks, it holds exactly what the mailbox holds.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { SyncRequest, SyncResult } from '../../src/mailstore/mailstore.ts';

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
  /** Makes the store forget what was removed; without it there is never a reset. */
  forget?(): Promise<void>;
}

type Change =
  | { readonly do: 'append'; readonly count: number }
  | { readonly do: 'flag' | 'unflag'; readonly pick: number; readonly flag: string }
  | { readonly do: 'expunge' | 'move'; readonly pick: number };

export type Step =
  | Change
  | { readonly do: 'forget' }
  | { readonly do: 'sync'; readonly limit: number | undefined }
  /** A sync while something changes. */
  | { readonly do: 'race'; readonly limit: number | undefined; readonly change: Change };

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

/** Random lives of a mailbox. @param maxLength steps at most */
export function lives({ maxLength, forgets }: { maxLength: number; forgets: boolean }) {
  const step: fc.Arbitrary<Step> = fc.oneof(
    { weight: 11, arbitrary: change },
    { weight: forgets ? 1 : 0, arbitrary: fc.record({ do: fc.constant('forget' as const) }) },
    { weight: 5, arbitrary: fc.record({ do: fc.constant('sync' as const), limit }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('race' as const), limit, change }) },
  );
  return fc.array(step, { maxLength });
}

/** Applies answers as the contract tells clients to, and checks what each may hold. */
class Client {
  readonly seen = new Map<number, readonly string[] | undefined>();
  last: SyncResult | undefined;

  apply(answer: SyncResult, mayReset: boolean): void {
    assert.ok(mayReset || !answer.reset, 'started anew without need');
    if (answer.reset) this.seen.clear();
    for (const { uid, flags } of answer.changes.added) {
      assert.ok(!this.seen.has(uid), `${uid} was added twice`);
      this.seen.set(uid, flags);
    }
    for (const { uid, flags } of answer.changes.updated) {
      assert.ok(this.seen.has(uid), `${uid} was updated before it was added`);
      this.seen.set(uid, flags);
    }
    for (const { uid } of answer.changes.removed) {
      assert.ok(this.seen.delete(uid), `${uid} was removed but not there`);
    }
    this.last = answer;
  }

  get isMidPage(): boolean {
    return this.last?.hasMore === true;
  }
}

/** Lives one life; throws where the client comes to hold what it should not. */
export async function live(mailbox: ModelMailbox, steps: readonly Step[]): Promise<void> {
  const client = new Client();
  const sync = async (limit: number | undefined) => {
    const { uidvalidity, token } = client.last ?? {};
    const answer = await mailbox.sync({
      fields: ['flags'],
      ...(uidvalidity !== undefined && { uidvalidity }),
      ...(token !== undefined && { token }),
      ...(limit !== undefined && { limit }),
    });
    client.apply(answer, mailbox.forget !== undefined);
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
      await sync(step.limit);
      // A page of several tells of a state that is past by the time of the last one.
      if (wasWhole && !client.isMidPage) await check();
    } else if (step.do === 'race') {
      await Promise.all([sync(step.limit), apply(mailbox, step.change)]);
    } else if (step.do === 'forget') await mailbox.forget?.();
    else await apply(mailbox, step);
  }
  while (client.isMidPage) await sync(3);
  // An answer may also end for its size.
  do await sync(undefined);
  while (client.isMidPage);
  await check();
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
