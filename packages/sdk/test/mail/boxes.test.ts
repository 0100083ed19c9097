/** Random lives of mailboxes that the user and others make, rename and delete, while messages are moved between them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Operation } from '../../src/mail/client.ts';
import { befall, pick, settled, surroundings, tabOf } from './surroundings.ts';
import { type Tab, World } from './world.ts';

/** More of them: SDK_RUNS=2000 node --test packages/sdk/test/mail/boxes.test.ts */
const RUNS = Number(process.env.SDK_RUNS ?? 40);

const NAMES = ['A', 'B', 'A/x', 'B/x'];
const name = fc.constantFrom(...NAMES);
const anywhere = fc.constantFrom('INBOX', 'Archive', ...NAMES);
const path = fc.constantFrom(
  undefined,
  '/mail/move',
  '/mail/sync',
  '/mail/mailboxes',
  '/mail/mailboxes/create',
  '/mail/mailboxes/rename',
  '/mail/mailboxes/delete',
);
const step = fc.oneof(
  { weight: 2, arbitrary: fc.record({ do: fc.constant('deliver' as const), to: anywhere }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('create' as const), tab: pick, name }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('rename' as const), tab: pick, name, to: name }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete' as const), tab: pick, name }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('move' as const),
      tab: pick,
      from: anywhere,
      to: anywhere,
      pick,
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('undo' as const), pick }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom('other create' as const, 'other delete' as const),
      name,
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('other rename' as const), name, to: name }) },
  ...surroundings(path),
);
type Step = typeof step extends fc.Arbitrary<infer One> ? One : never;

class Life {
  readonly world: World;
  readonly #moves: { operation: Operation; tab: Tab }[] = [];
  readonly #subjects = new Set<string>();
  /** Subjects of mail that was deleted with its mailbox. */
  readonly #deleted = new Set<string>();

  constructor(world: World) {
    this.world = world;
    const { account } = world;
    const remove = account.delete.bind(account);
    account.delete = (of) => {
      const found = account.mailbox(of);
      const mails = found.existing(found.uids);
      const gone = remove(of);
      for (const { envelope } of mails) this.#deleted.add(envelope.subject);
      return gone;
    };
  }

  async live(steps: readonly Step[]): Promise<void> {
    await this.world.open();
    for (const one of steps) {
      await this.#take(one);
      await this.world.pass(0);
      assert.deepEqual(this.world.faults, []);
    }
    await this.#rest();
  }

  #settled<T>(work: Promise<T>): Promise<T | undefined> {
    return settled(this.world, work);
  }

  async #take(one: Step): Promise<void> {
    const { world } = this;
    if (await befall(one, world, () => world.open())) return;
    const { account } = world;
    const others = (work: () => unknown) => {
      try {
        work();
      } catch {
        // There is no such mailbox, or there is one already.
      }
    };
    const tab = 'tab' in one ? tabOf(world, one.tab) : undefined;
    switch (one.do) {
      case 'deliver':
        others(() => {
          const subject = `mail ${this.#subjects.size + 1}`;
          account.deliver(one.to, { subject });
          this.#subjects.add(subject);
        });
        break;
      case 'other create':
        others(() => account.create(one.name));
        break;
      case 'other delete':
        others(() => account.delete(one.name));
        break;
      case 'other rename':
        others(() => account.rename(one.name, one.to));
        break;
      case 'create':
        if (tab) await this.#settled(tab.client.createMailbox(one.name));
        break;
      case 'rename':
        if (tab && one.name !== one.to)
          await this.#settled(tab.client.renameMailbox(one.name, one.to));
        break;
      case 'delete':
        if (tab) await this.#settled(tab.client.deleteMailbox(one.name));
        break;
      case 'move': {
        if (!tab || one.from === one.to) return;
        const mailbox = tab.client.mailbox(one.from);
        const view = await this.#settled(mailbox.list());
        const message = view?.messages[one.pick % (view.messages.length || 1)];
        if (!message) return;
        const operation = await this.#settled(mailbox.move([message.id], one.to));
        if (operation) this.#moves.push({ operation, tab });
        break;
      }
      case 'undo': {
        const done = this.#moves[one.pick % this.#moves.length];
        if (done && !done.tab.isDead) await this.#settled(done.operation.undo());
      }
    }
  }

  async #rest(): Promise<void> {
    const { world } = this;
    const { server, account } = world;
    server.online = true;
    world.crash = undefined;
    world.busy = undefined;
    if (world.living.length === 0) await world.open();
    await world.pass(60_000);
    for (const { client } of world.living) {
      client.reconnect();
      for (const mailbox of account.mailboxes) void client.mailbox(mailbox.name).list();
    }
    await world.pass(180_000);
    assert.deepEqual(world.faults, []);
    const places = account.mailboxes.flatMap((one) =>
      one.existing(one.uids).map(({ envelope }) => envelope.subject),
    );
    assert.equal(new Set(places).size, places.length, `a message is there twice: ${places}`);
    for (const subject of this.#subjects)
      assert.ok(places.includes(subject) || this.#deleted.has(subject), `${subject} is lost`);
    for (const [index, { client }] of world.living.entries()) {
      const pending = await client.pending();
      assert.deepEqual(
        pending.map(({ kind }) => kind),
        [],
        `tab ${index} has changes left`,
      );
      assert.equal(client.state, 'live', `tab ${index}`);
      const names = (await client.mailboxes()).map((one) => one.name).sort();
      assert.deepEqual(names, account.mailboxes.map((one) => one.name).sort(), `tab ${index}`);
      for (const mailbox of account.mailboxes) {
        const { messages, total } = await client.mailbox(mailbox.name).list({ limit: 1000 });
        const seen = messages.map(({ id }) => Number(id)).sort((a, b) => a - b);
        assert.deepEqual(
          seen,
          [...mailbox.uids].sort((a, b) => a - b),
          `tab ${index}, ${mailbox.name}`,
        );
        assert.equal(total, seen.length);
      }
    }
  }
}

for (const withLocks of [true, false])
  test(`mailboxes come and go, and no message is lost or doubled; ${withLocks ? 'with' : 'without'} locks`, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 40, size: 'max' }),
        fc.nat(),
        async (steps, seed) => {
          await new Life(new World({ seed: seed + 1, withLocks, areProcesses: !withLocks })).live(
            steps,
          );
        },
      ),
      { numRuns: RUNS, ...(process.env.SDK_SEED && { seed: Number(process.env.SDK_SEED) }) },
    );
  });
