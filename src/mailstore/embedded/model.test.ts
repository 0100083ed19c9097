/**
 * A client that only ever applies the answers of sync holds exactly what the mailbox holds,
 * whatever happened in between, in whatever pages it asked.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import fc from 'fast-check';
import { onEachEngine } from '../../../test/support/databases.ts';
import {
  openTestMailstore,
  sampleMessage,
  type TestMailstore,
} from '../../../test/support/mail.ts';
import type { MailUser, SyncResult } from '../mailstore.ts';

type Step =
  | { do: 'append' }
  | { do: 'prune' }
  | { do: 'flag' | 'unflag' | 'expunge' | 'move'; pick: number }
  | { do: 'sync'; limit: number | undefined };

const pick = fc.nat(20);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('append' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('prune' as const) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('flag' as const, 'unflag' as const, 'expunge' as const, 'move' as const),
      pick,
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('sync' as const),
      limit: fc.option(fc.integer({ min: 1, max: 4 }), { nil: undefined }),
    }),
  },
);

/** Applies answers as the contract tells clients to, and checks what each may hold. */
class Client {
  readonly seen = new Map<number, string[] | undefined>();
  last: SyncResult | undefined;

  apply(answer: SyncResult): void {
    if (answer.reset) this.seen.clear();
    for (const { uid, flags } of answer.changes.added) {
      assert.ok(!this.seen.has(uid), `${uid} was added twice`);
      this.seen.set(uid, flags ? [...flags] : undefined);
    }
    for (const { uid, flags } of answer.changes.updated) {
      assert.ok(this.seen.has(uid), `${uid} was updated before it was added`);
      this.seen.set(uid, [...flags]);
    }
    for (const { uid } of answer.changes.removed) {
      assert.ok(this.seen.delete(uid), `${uid} was removed but never added`);
    }
    this.last = answer;
  }

  /** Messages that went while pages were read are announced by the next sync. */
  get midPage(): boolean {
    return this.last?.hasMore === true;
  }
}

onEachEngine('a client that applies every delta', (engine) => {
  let store: TestMailstore;
  let clock = Date.UTC(2026, 0, 1);
  before(async () => {
    store = await openTestMailstore(engine, () => clock);
  });

  async function server(user: MailUser): Promise<Map<number, string[]>> {
    const { changes } = await store.mailstore.sync(user, { mailbox: 'INBOX', fields: ['flags'] });
    return new Map(changes.added.map(({ uid, flags }) => [uid, [...(flags ?? [])]]));
  }

  async function sync(user: MailUser, client: Client, limit: number | undefined): Promise<void> {
    const { uidvalidity, token } = client.last ?? {};
    client.apply(
      await store.mailstore.sync(user, {
        mailbox: 'INBOX',
        fields: ['flags'],
        ...(uidvalidity !== undefined && { uidvalidity }),
        ...(token !== undefined && { token }),
        ...(limit !== undefined && { limit }),
      }),
    );
  }

  async function change(user: MailUser, step: Exclude<Step, { do: 'sync' }>): Promise<void> {
    const { mailstore } = store;
    if (step.do === 'append') {
      await mailstore.append(await store.stage(sampleMessage('m')), [{ user, mailbox: 'INBOX' }]);
      return;
    }
    if (step.do === 'prune') {
      clock += 31 * 86_400_000;
      await mailstore.pruneTombstones(30 * 86_400_000);
      return;
    }
    const uids = [...(await server(user)).keys()];
    const uid = uids[step.pick % Math.max(1, uids.length)] ?? 1;
    if (step.do === 'flag') await mailstore.setFlags(user, 'INBOX', [uid], { add: ['\\Seen'] });
    if (step.do === 'unflag')
      await mailstore.setFlags(user, 'INBOX', [uid], { remove: ['\\Seen'] });
    if (step.do === 'expunge') await mailstore.expunge(user, 'INBOX', [uid]);
    if (step.do === 'move') await mailstore.move(user, 'INBOX', [uid], 'Trash');
  }

  test('holds what the mailbox holds', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const user = await store.makeUser();
        const client = new Client();
        for (const next of steps) {
          if (next.do === 'sync') await sync(user, client, next.limit);
          else await change(user, next);
        }
        while (client.midPage) await sync(user, client, 3);
        await sync(user, client, undefined);
        const truth = await server(user);
        assert.deepEqual([...client.seen.keys()].sort(byNumber), [...truth.keys()].sort(byNumber));
        for (const [uid, flags] of truth) assert.deepEqual(client.seen.get(uid) ?? [], flags);
      }),
      { numRuns: engine === 'sqlite' ? 200 : 30 },
    );
  });
});

function byNumber(a: number, b: number): number {
  return a - b;
}
