/**
 * Random lives of an account's tabs: whatever is lost, refused, reset or killed, in the end all tabs show what the server
 * has, and each change of the user was carried out once or taken back.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import fc from 'fast-check';
import type { MailMessage, MessageId, Operation, SendOperation } from '../../src/mail/client.ts';
import type { Socket } from '../../src/mail/platform.ts';
import type { BodyRow } from '../../src/mail/rows.ts';
import { memoryStore, openMail, type Store } from '../../src/mail.ts';
import { fileStore } from '../../src/stores/file.ts';
import { sqliteStore } from '../../src/stores/sqlite.ts';
import { FakeServer, type Fault } from '../../src/testing/testing.ts';
import { BODY_BUDGET, type Tab, World } from './world.ts';

/** More of them: SDK_RUNS=2000 node --test packages/sdk/test/mail/engine.test.ts */
const RUNS = Number(process.env.SDK_RUNS ?? 40);
const BOXES = ['INBOX', 'Archive', 'Trash'];
const SEEN = '\\Seen';

const pick = fc.nat(30);
const box = fc.constantFrom(...BOXES);
const flag = fc.constantFrom(SEEN, '\\Flagged', '$Later');
const fault: fc.Arbitrary<Fault> = fc.oneof(
  fc.constantFrom<Fault>({ lose: 'request' }, { lose: 'answer' }),
  fc.constantFrom<Fault>(
    { status: 503, retryAfter: 2 },
    { status: 500 },
    { status: 429, retryAfter: 20 },
  ),
  fc.constantFrom<Fault>({ status: 401, code: 'unauthorized' }, { delayMs: 3000 }),
);

/** The request that meets a fault: the next one, or the next of a kind. */
const path = fc.constantFrom(
  undefined,
  '/mail/send',
  '/mail/move',
  '/mail/copy',
  '/mail/append',
  '/mail/sync',
);

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('deliver' as const),
      count: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('other flags' as const),
      box,
      pick,
      flag,
      on: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('other removes' as const, 'other moves' as const),
      box,
      pick,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constantFrom('forget' as const, 'recreate' as const), box }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('flag' as const),
      tab: pick,
      box,
      pick,
      flag,
      on: fc.boolean(),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom('move' as const, 'copy' as const),
      tab: pick,
      box,
      pick,
      to: box,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('delete' as const),
      tab: pick,
      box,
      pick,
      forever: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('undo' as const), pick }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom('draft' as const, 'send' as const, 'cancel' as const),
      tab: pick,
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.constantFrom(0, 10, 300, 2000, 40_000),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('fault' as const), fault, path }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('network' as const), on: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom('open' as const, 'kill' as const, 'drop' as const, 'freeze' as const),
      tab: pick,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('crash' as const),
      tab: pick,
      when: fc.constantFrom('before' as const, 'after' as const),
    }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer One> ? One : never;

/** What the user did, and how it ended. */
interface Done {
  readonly operation: Operation;
  readonly tab: Tab;
}

class Life {
  readonly world: World;
  readonly #done: Done[] = [];
  readonly #sends: SendOperation[] = [];
  #maybeSent = 0;
  /** Of those that were to be cancelled: whether it never left; undefined where the tab died over it. */
  readonly #cancelled = new Map<string, boolean | undefined>();

  constructor(world: World) {
    this.world = world;
  }

  async live(steps: readonly Step[]): Promise<void> {
    const { world } = this;
    this.world.account.deliver('INBOX', { subject: 'first' });
    await world.open();
    for (const one of steps) {
      await this.#take(one);
      world.invariants.note();
      assert.deepEqual(world.faults, []);
    }
    await this.#rest();
  }

  #tab(number: number): Tab | undefined {
    const living = this.world.living.filter(({ frozen }) => !frozen);
    return living[number % living.length];
  }

  async #take(one: Step): Promise<void> {
    const { world } = this;
    const { account, server } = world;
    const uidOf = (name: string, number: number) => {
      const { uids } = account.mailbox(name);
      return uids[number % uids.length];
    };
    switch (one.do) {
      case 'deliver':
        for (let i = 0; i < one.count; i++) account.deliver('INBOX', { subject: `mail ${i}` });
        break;
      case 'other flags': {
        const uid = uidOf(one.box, one.pick);
        if (uid) account.flag(one.box, [uid], one.on ? [one.flag] : [], one.on ? [] : [one.flag]);
        break;
      }
      case 'other removes': {
        const uid = uidOf(one.box, one.pick);
        if (uid) account.remove(one.box, [uid]);
        break;
      }
      case 'other moves': {
        const uid = uidOf(one.box, one.pick);
        if (uid && one.box !== 'Archive') account.relocate(one.box, [uid], 'Archive', true);
        break;
      }
      case 'forget':
        account.mailbox(one.box).forgetRemoved();
        break;
      case 'recreate':
        account.recreate(one.box);
        break;
      case 'wait':
        await world.pass(one.ms);
        break;
      case 'fault':
        server.failNext(one.fault, one.path);
        break;
      case 'network':
        server.online = one.on;
        if (!one.on) server.dropSockets();
        break;
      case 'drop':
        server.dropSockets();
        break;
      case 'open':
        if (world.living.length < 3) await world.open();
        break;
      case 'kill': {
        const tab = this.#tab(one.tab);
        if (tab) world.kill(tab);
        break;
      }
      case 'freeze': {
        const tab = this.#tab(one.tab);
        // Longer than its lease: another tab leads when it goes on.
        if (tab) world.freeze(tab, 25_000);
        break;
      }
      case 'crash': {
        const tab = this.#tab(one.tab);
        if (tab) world.crash = { tab, when: one.when };
        break;
      }
      default:
        await this.#act(one);
    }
  }

  async #act(one: Step): Promise<void> {
    const tab = 'tab' in one ? this.#tab(one.tab) : undefined;
    if (one.do === 'undo') {
      const done = this.#done[one.pick % this.#done.length];
      if (done && !done.tab.isDead && !done.tab.frozen)
        await this.#settled(done.operation.undo(), true);
      return;
    }
    if (!tab) return;
    const { client } = tab;
    if (one.do === 'draft') {
      const saved = await this.#settled(client.saveDraft({ subject: 'draft', text: 'x' }));
      if (saved) this.#done.push({ operation: saved.operation, tab });
    } else if (one.do === 'send') {
      const mail = { to: [{ address: 'bob@sender.test' }], subject: 'sent', text: 'x' };
      const sent = await this.#settled(client.send(mail, { undoSeconds: 5 }));
      // Stored, perhaps: the tab died over it.
      if (!sent) this.#maybeSent++;
      if (sent) this.#sends.push(sent);
      if (sent) this.#done.push({ operation: sent, tab });
    } else if (one.do === 'cancel') {
      const sent = this.#sends[one.tab % (this.#sends.length || 1)];
      if (!sent || this.#cancelled.has(sent.id)) return;
      this.#cancelled.set(sent.id, undefined);
      void sent.cancel().then(
        (answer) => this.#cancelled.set(sent.id, answer === undefined),
        // Too late: it went.
        () => this.#cancelled.set(sent.id, false),
      );
    } else if (one.do === 'flag' || one.do === 'move' || one.do === 'copy' || one.do === 'delete') {
      await this.#change(tab, one);
    }
  }

  async #change(
    tab: Tab,
    one: Extract<Step, { do: 'flag' | 'move' | 'copy' | 'delete' }>,
  ): Promise<void> {
    const mailbox = tab.client.mailbox(one.box);
    const view = await this.#settled(mailbox.list());
    const message = view?.messages[one.pick % (view.messages.length || 1)];
    if (!message || ('to' in one && one.to === one.box)) return;
    const ids = [message.id];
    const operation = await this.#settled(
      one.do === 'flag'
        ? mailbox.flag(ids, one.on ? { add: [one.flag] } : { remove: [one.flag] })
        : one.do === 'delete'
          ? mailbox.delete(ids, { forever: one.forever })
          : mailbox[one.do](ids, one.to),
    );
    if (!operation) return;
    this.#done.push({ operation, tab });
    let isRefused = false;
    operation.applied.catch(() => {
      isRefused = true;
    });
    await this.#isSeen(tab, one, message, () => isRefused);
  }

  /** A change is seen as soon as its promise is fulfilled, until the server refuses it. */
  async #isSeen(
    tab: Tab,
    one: Extract<Step, { do: 'flag' | 'move' | 'copy' | 'delete' }>,
    { id }: MailMessage,
    isRefused: () => boolean,
  ): Promise<void> {
    const after = await this.#settled(tab.client.mailbox(one.box).list());
    if (!after || isRefused()) return;
    const now = after.messages.find((message) => message.id === id);
    const isThere = (wanted: MessageId) => after.messages.some((message) => message.id === wanted);
    if (one.do === 'flag' && now)
      assert.equal(now.flags.includes(one.flag), one.on, 'the flag is not seen');
    if (one.do === 'move' || one.do === 'delete') assert.ok(!isThere(id), `${id} is still seen`);
  }

  /** What a promise of a tab gives; undefined where the tab died over it. */
  async #settled<T>(promise: Promise<T>, mayFail = false): Promise<T | undefined> {
    let result: { value: T } | { error: unknown } | undefined;
    const over = promise.then(
      (value) => {
        result = { value };
      },
      (error: unknown) => {
        result = { error };
      },
    );
    // Nothing waits for time: all of it is in the store.
    await this.world.pass(0, over);
    if (result && 'error' in result && !mayFail) throw result.error;
    return result && 'value' in result ? result.value : undefined;
  }

  /** Peace: all of it comes to an end, and all tabs show what the server has. */
  async #rest(): Promise<void> {
    const { world } = this;
    const { server, account } = world;
    server.online = true;
    world.crash = undefined;
    if (world.living.length === 0) await world.open();
    for (const { client } of world.living)
      for (const name of BOXES) void client.mailbox(name).list();
    await world.pass(60_000);
    // Two refused tokens end a session; the user signs in again.
    for (const { client } of world.living) client.reconnect();
    await world.pass(180_000);
    assert.deepEqual(world.faults, []);
    for (const [index, { client }] of world.living.entries()) {
      const pending = await client.pending();
      assert.deepEqual(
        pending.map(({ kind, id }) => `${kind} ${id}`),
        [],
        `tab ${index} has changes left`,
      );
      assert.equal(client.state, 'live', `tab ${index}`);
      for (const name of BOXES) {
        const shown = await client.mailbox(name).list({ limit: 1000 });
        const seen = shown.messages.map(({ id, flags, pending: isPending }) => [
          id,
          [...flags].sort(),
          isPending,
        ]);
        const truth = account
          .mailbox(name)
          .existing(account.mailbox(name).uids)
          .map(({ uid, flags }) => [uid, [...flags].sort(), false]);
        const byId = (a: unknown[], b: unknown[]) => Number(a[0]) - Number(b[0]);
        assert.deepEqual(seen.sort(byId), truth.sort(byId), `tab ${index}, ${name}`);
        assert.equal(shown.total, truth.length, `total of ${name}`);
        const unseen = truth.filter(([, flags]) => !(flags as string[]).includes(SEEN)).length;
        assert.equal(shown.unseen, unseen, `unseen of ${name}`);
      }
    }
    this.#checkSends();
    assert.ok(world.invariants.compared > 0, 'no copy was compared with the server');
    const texts = (await world.store.range({ table: 'bodies', prefix: [] })) as BodyRow[];
    const weight = texts.reduce((sum, text) => sum + text.weight, 0);
    assert.ok(weight <= BODY_BUDGET, `${weight} octets of texts`);
    await this.#leavesNothing();
  }

  /** A mail for each send and no other, and a copy in Sent of each that was not cancelled. */
  #checkSends(): void {
    const { account } = this.world;
    const { all } = account.sends;
    const ends = [...this.#cancelled.values()];
    const most = this.#sends.length - ends.filter((neverLeft) => neverLeft === true).length;
    const least = most - ends.filter((neverLeft) => neverLeft === undefined).length;
    assert.ok(
      all.length <= most + this.#maybeSent && all.length >= least,
      `${all.length} mails, not ${least} to ${most}`,
    );
    const gone = all.filter(({ status }) => status !== 'cancelled');
    assert.equal(account.mailbox('Sent').uids.length, gone.length, 'copies in Sent');
  }

  /** What is stored belongs to what is shown; signing out leaves nothing. */
  async #leavesNothing(): Promise<void> {
    const { world } = this;
    const [tab] = world.living;
    if (!tab) return;
    const over = tab.client.signOut();
    await world.pass(0, over);
    await over;
    for (const table of [
      'accounts',
      'mailboxes',
      'messages',
      'bodies',
      'operations',
      'blobs',
    ] as const) {
      assert.deepEqual(await world.store.range({ table, prefix: [] }), [], table);
    }
    const before = world.server.requests.length;
    await world.pass(120_000);
    assert.equal(world.server.requests.length, before, 'a request after the end');
  }
}

const folder = mkdtempSync(join(tmpdir(), 'postroom-engine-'));
after(() => rmSync(folder, { recursive: true }));
let files = 0;
const newName = () => join(folder, String(++files));

for (const [kind, open, withLocks, runs] of [
  ['memory', async () => memoryStore(), true, RUNS],
  ['memory', async () => memoryStore(), false, RUNS],
  ['SQLite', async () => sqliteStore(newName()), true, RUNS / 4],
  ['a file', async () => fileStore(newName()), false, RUNS / 4],
] as const) {
  test(`whatever happens, all tabs come to show what the server has; in ${kind}, ${withLocks ? 'with' : 'without'} locks`, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 40, size: 'max' }),
        fc.nat(),
        async (steps, seed) => {
          const store = await open();
          const life = new Life(new World({ seed: seed + 1, withLocks, store }));
          await life.live(steps);
          await store.close();
        },
      ),
      {
        numRuns: Math.ceil(runs),
        ...(process.env.SDK_SEED && { seed: Number(process.env.SDK_SEED) }),
      },
    );
  });
}

test('a sync is over once its answer is in the copy', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(1000);
  world.account.deliver('INBOX', { subject: 'new' });
  const inbox = client.mailbox('INBOX');
  let isOver = false;
  const sync = inbox.sync().then(() => {
    isOver = true;
  });
  await world.pass(0, sync);
  assert.ok(isOver, 'the sync is not over');
  assert.equal((await inbox.list()).messages.length, 1);
});

test('a store that is lost is followed by memory, and no change of the user is lost with it', async () => {
  const store: Store = memoryStore();
  let isLost = false;
  const failing: Store = {
    get: (table, key) => (isLost ? gone() : store.get(table, key)),
    range: (query) => (isLost ? gone() : store.range(query)),
    transact: (options, changes) => (isLost ? gone() : store.transact(options, changes)),
    update: (table, key, decide) => (isLost ? gone() : store.update(table, key, decide)),
    close: async () => undefined,
  };
  const gone = <T>() => Promise.reject<T>(new Error('the store is lost'));
  const server = new FakeServer();
  const { clock } = server;
  const account = server.addAccount({ address: 'ada@acme.test' });
  account.deliver('INBOX', { subject: 'Hi' });
  const mail = await openMail({
    baseUrl: 'https://mail.test',
    address: 'ada@acme.test',
    auth: async () => server.issueToken(account),
    store: failing,
    platform: {
      now: clock.now,
      after: (ms, call) => {
        const timer = clock.setTimeout(call, ms);
        return () => clock.clearTimeout(timer);
      },
      fetch: server.fetch,
      connect: (url, protocols) => new server.WebSocket(url, protocols) as unknown as Socket,
      openChannel: undefined,
    },
  });
  await clock.advance(5000);
  const inbox = mail.mailbox('INBOX');
  const [id] = await inbox.ids();
  assert.ok(id);
  server.online = false;
  server.dropSockets();
  await inbox.flag([id], { add: ['\\Flagged'] });
  isLost = true;
  failing.onLost?.(new Error('closed by the browser'));
  assert.equal(mail.storage, 'memory');
  server.online = true;
  await clock.advance(60_000);
  const { messages, state } = await inbox.list();
  assert.deepEqual([state, messages.map(({ flags }) => flags)], ['live', [['\\Flagged']]]);
  assert.deepEqual(account.mailbox('INBOX').find(1)?.flags, ['\\Flagged']);
  await mail.close();
});
