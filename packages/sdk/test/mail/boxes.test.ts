/** Random lives of mailboxes that the user and others make, rename and delete, while messages are moved between them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { MailClient, Operation } from '../../src/mail/client.ts';
import { liveOften, RUNS } from './lives.ts';
import { befall, pick, settled, signInAgain, surroundings, tabOf } from './surroundings.ts';
import { type Tab, World } from './world.ts';

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
  /** The mailbox that was made or deleted last, and by which tab, as long as nothing else is done to mailboxes. */
  #kept: { readonly tab: Tab; readonly name: string; readonly isThere: boolean } | undefined;

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
    await this.#open();
    for (const one of steps) {
      await this.#take(one);
      await this.world.pass(0);
      assert.deepEqual(this.world.faults, []);
    }
    await this.#rest();
  }

  /** Opens a tab that shows the list of mailboxes all the time. */
  async #open(): Promise<void> {
    const tab = await this.world.open();
    tab.client.on('rejected', () => {
      this.#kept = undefined;
    });
    tab.client.on('mailboxes', ({ mailboxes }) => {
      const { name = '', isThere, tab: own } = this.#kept ?? {};
      if (own === tab && !tab.isDead && mailboxes.some((one) => one.name === name) !== isThere)
        this.world.faults.push(`${name} is shown as it was before`);
    });
  }

  async #change(tab: Tab, one: Extract<Step, { do: 'create' | 'rename' | 'delete' }>) {
    const { client } = tab;
    const isThere = one.do === 'create';
    const work = isThere
      ? client.createMailbox(one.name)
      : one.do === 'delete'
        ? client.deleteMailbox(one.name)
        : client.renameMailbox(one.name, one.to);
    const isStored = await this.#settled(work.then(() => true));
    if (isStored && one.do !== 'rename') this.#kept = { tab, name: one.name, isThere };
  }

  #settled<T>(work: Promise<T>): Promise<T | undefined> {
    return settled(this.world, work);
  }

  async #take(one: Step): Promise<void> {
    const { world } = this;
    if (await befall(one, world, () => this.#open())) return;
    if (!['deliver', 'move', 'undo'].includes(one.do)) this.#kept = undefined;
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
      case 'rename':
      case 'delete':
        if (tab && !('to' in one && one.name === one.to)) await this.#change(tab, one);
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
    if (world.living.length === 0) await this.#open();
    await world.pass(60_000);
    const open = (client: MailClient) => {
      for (const mailbox of account.mailboxes) void client.mailbox(mailbox.name).list();
    };
    for (const { client } of world.living) {
      client.reconnect();
      open(client);
    }
    await world.pass(180_000);
    await signInAgain(world);
    // Some have another name by now, by which nobody opened them yet.
    for (const { client } of world.living) open(client);
    await world.pass(60_000);
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

for (const withLocks of [true, false]) {
  const tabs = withLocks ? 'with' : 'without';
  const name = `mailboxes come and go, and no message is lost or doubled; ${tabs} locks`;
  test(name, () =>
    liveOften(name, step, RUNS, (steps, seed) =>
      new Life(new World({ seed, withLocks, areProcesses: !withLocks })).live(steps),
    ),
  );
}

test('a rename that did not arrive and is refused then holds up no mailbox', async () => {
  const lost = { lose: 'request' } as const;
  const faults = [lost, { status: 503, retryAfter: 2 }, { delayMs: 0 }, { delayMs: 0 }, lost];
  await new Life(new World({ seed: 1, withLocks: false, areProcesses: true })).live([
    { do: 'other create', name: 'B' },
    { do: 'network', on: false },
    { do: 'deliver', to: 'B' },
    { do: 'rename', tab: 0, name: 'B', to: 'A' },
    { do: 'trouble', faults },
    { do: 'busy', tab: 0 },
    { do: 'network', on: true },
    { do: 'wait', ms: 2000 },
    { do: 'other create', name: 'A' },
  ]);
});

test('a mailbox that is made, renamed and deleted is shown so from then on, while the list of them is read', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { server } = world;
  const { client } = await world.open();
  await world.pass(5000);
  const seen: string[] = [];
  client.on('mailboxes', ({ mailboxes }) => {
    const names = mailboxes.filter(({ specialUse }) => !specialUse).map(({ name: own }) => own);
    if (names.join() !== seen.at(-1)) seen.push(names.join());
  });
  server.fault = ({ path: asked }) => (asked === '/mail/mailboxes' ? { delayMs: 500 } : undefined);
  await world.pass(0, client.createMailbox('One'));
  await world.pass(5000);
  await world.pass(0, client.renameMailbox('One', 'Two'));
  await world.pass(5000);
  await world.pass(0, client.deleteMailbox('Two'));
  await world.pass(5000);
  assert.deepEqual(seen, ['INBOX,One', 'INBOX,Two', 'INBOX']);
});

test('a mailbox has its messages under its new name at once, also without a network', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { server, account } = world;
  for (const one of ['A', 'A/x']) {
    account.create(one);
    account.deliver(one, { subject: one });
  }
  const { client } = await world.open();
  for (const one of ['A', 'A/x']) await world.pass(5000, client.mailbox(one).list());
  server.online = false;
  server.dropSockets();
  await world.pass(0, client.renameMailbox('A', 'B'));
  const below = client.mailbox('B/x');
  const look = async () => (await below.list()).messages.map(({ envelope }) => envelope.subject);
  assert.deepEqual(await look(), ['A/x']);
  await world.pass(0, below.move(await below.ids(), 'B'));
  server.online = true;
  client.reconnect();
  await world.pass(5000);
  assert.deepEqual([await look(), (await client.mailbox('B').list()).total], [[], 2]);
  assert.deepEqual(account.mailbox('B').uids.length, 2);
});
