/**
 * The life of an account's tabs, step by step: whatever is lost, refused, reset or killed, in the end all tabs show what
 * the server has, and each change of the user was carried out once or taken back.
 */
import assert from 'node:assert/strict';
import type {
  MailMessage,
  MessageId,
  MessageLocation,
  Operation,
  SendOperation,
} from '../../src/mail/client.ts';
import type { BodyRow } from '../../src/mail/rows.ts';
import { happen, hasMessage, isOfOthers, isTaken, wayOf } from './others.ts';
import { Replay } from './replay.ts';
import { BOXES, SEEN, type Step, WORK } from './steps.ts';
import { befall, settled, signInAgain, tabOf } from './surroundings.ts';
import { BODY_BUDGET, type Tab, type World } from './world.ts';

/** What a tab shows of a message since the user changed it there: a flag, that it is gone, or where it went. */
interface Kept {
  readonly tab: Tab;
  readonly box: string;
  /** Where it was, and is at the server until the user's changes are there. */
  readonly from: readonly string[];
  readonly subject: string | undefined;
  /** It is there since: where the copy begins anew, that is seen with the page that has it. */
  readonly came?: true;
  readonly holds: (messages: readonly MailMessage[]) => boolean;
  readonly isOver: () => boolean;
}

/** What the user did, and how it ended. */
interface Done {
  readonly operation: Operation;
  readonly tab: Tab;
}

export class Life {
  readonly world: World;
  readonly #done: Done[] = [];
  readonly #sends: SendOperation[] = [];
  #maybeSent = 0;
  #kept: Kept[] = [];
  /** Subjects of messages that there may be two of. */
  readonly #copied = new Set<string | undefined>(['sent']);
  /** How many views were compared with what they have to be. */
  #compared = 0;
  #mails = 0;
  #drafts = 0;
  /** The last one that was saved. */
  #draft: MessageLocation | undefined;
  /** Of those that were to be cancelled: whether it never left; undefined where the tab died over it. */
  readonly #cancelled = new Map<string, boolean | undefined>();

  constructor(world: World) {
    this.world = world;
  }

  async live(steps: readonly Step[]): Promise<void> {
    const { world } = this;
    world.account.create(WORK);
    world.account.deliver(WORK, { subject: 'work' });
    world.account.deliver('INBOX', { subject: 'first' });
    await this.#open();
    for (const one of steps) {
      await this.#take(one);
      world.invariants.note();
      await this.#compareViews();
      assert.deepEqual(world.faults, []);
    }
    await this.#rest();
  }

  /** Opens a tab that looks at each mailbox all the time. */
  async #open(): Promise<void> {
    const tab = await this.world.open();
    for (const name of [...BOXES, 'Drafts']) {
      const mailbox = tab.client.mailbox(name);
      mailbox.watch({ limit: 1000 }, ({ messages }) => {
        if (!tab.isDead) this.#checkKept(tab, name, messages);
      });
      this.#lookOften(tab, name);
    }
  }

  /** Also when nobody told it that there is something to see. */
  #lookOften(tab: Tab, name: string): void {
    const look = async () => {
      if (tab.isDead || tab.client.state === 'stopped') return;
      this.#lookOften(tab, name);
      if (tab.frozen) return;
      const view = await tab.client
        .mailbox(name)
        .list({ limit: 1000 })
        .catch(() => undefined);
      if (view && !tab.isDead) this.#checkOnce(name, view.messages);
    };
    this.world.server.clock.setTimeout(() => void look(), 700);
  }

  /** Nobody ever sees a message twice. */
  #checkOnce(name: string, messages: readonly MailMessage[]): void {
    const seen = new Set<string | undefined>();
    for (const {
      envelope: { subject },
    } of messages) {
      if (seen.has(subject) && !this.#copied.has(subject))
        this.world.faults.push(`${subject} is shown twice in ${name}`);
      seen.add(subject);
    }
  }

  async #take(one: Step): Promise<void> {
    const { world } = this;
    if (await befall(one, world, () => this.#open())) return;
    if (isOfOthers(one)) {
      if (one.do === 'forget')
        this.#kept = this.#kept.filter(({ box, came }) => !(came && box === one.box));
      else if ('box' in one) this.#forget(one.box);
      await happen(one, world, () => `mail ${++this.#mails}`);
    } else if (one.do === 'clock') world.skew += one.ms;
    else if (one.do === 'freeze') await this.#freeze(tabOf(world, one.tab));
    else await this.#act(one);
  }

  /** While an answer is on its way to it, and longer than its lease: another tab leads when it goes on. */
  async #freeze(tab: Tab | undefined): Promise<void> {
    const { world } = this;
    if (!tab) return;
    world.server.failNext({ delayMs: 3000 }, '/mail/sync');
    world.account.deliver('INBOX', { subject: `mail ${++this.#mails}` });
    await world.pass(0);
    world.freeze(tab, 25_000);
  }

  async #act(one: Step): Promise<void> {
    const tab = 'tab' in one ? tabOf(this.world, one.tab) : undefined;
    if (one.do === 'undo') {
      this.#forget(...BOXES);
      const done = this.#done[one.pick % this.#done.length];
      if (done && done.operation.kind !== 'send' && !done.tab.isDead && !done.tab.frozen)
        await this.#settled(done.operation.undo(), true);
      return;
    }
    if (!tab) return;
    const { client } = tab;
    if (one.do === 'draft') {
      // Up to four of them take the place of the one before them.
      const before = this.#drafts % 4 === 0 ? undefined : this.#draft;
      const saving = client.saveDraft({ subject: `draft ${++this.#drafts}`, text: 'x' }, before);
      const saved = await this.#settled(saving);
      this.#draft = saved && { mailbox: saved.mailbox, id: saved.id };
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
        (answer) => this.#cancelled.set(sent.id, answer?.draft.uid === undefined),
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
    const { world } = this;
    const mailbox = tab.client.mailbox(one.box);
    const view = await this.#settled(mailbox.list());
    const message = view?.messages[one.pick % (view.messages.length || 1)];
    if (!message || ('to' in one && one.to === one.box)) return;
    const { subject } = message.envelope;
    if (one.do === 'copy') this.#copied.add(subject);
    this.#kept = this.#kept.filter((kept) => kept.subject !== subject);
    const rows = await world.invariants.read();
    // Of the mailbox as the tab knows it: it may have been made anew since, and the one who told that died.
    const known = (await this.#settled(tab.client.mailboxes()))?.find(
      ({ name }) => name === one.box,
    );
    const isThere =
      hasMessage(world.account, rows, one.box, message.id, known?.uidvalidity) &&
      !isTaken(rows, one.box, message.id);
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
    if (!isThere) return;
    const from = wayOf(rows, one.box, message.id);
    const kept = { tab, box: one.box, from, subject, isOver: () => isRefused };
    const flagsOf = (messages: readonly MailMessage[]) =>
      messages.find(({ id }) => id === message.id)?.flags;
    if (one.do === 'flag') {
      const holds = (messages: readonly MailMessage[]) =>
        (flagsOf(messages)?.includes(one.flag) ?? one.on) === one.on;
      this.#kept.push({ ...kept, holds });
    } else if (one.do !== 'copy') {
      this.#kept.push({ ...kept, holds: (messages) => !flagsOf(messages) });
    }
    if (one.do === 'move' || one.do === 'copy') {
      const holds = (messages: readonly MailMessage[]) =>
        messages.some(({ envelope }) => envelope.subject === subject);
      this.#kept.push({ ...kept, box: one.to, came: true, holds });
    }
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

  #settled<T>(promise: Promise<T>, mayFail = false): Promise<T | undefined> {
    return settled(this.world, promise, mayFail);
  }

  /** All tabs that are awake show the stored rows with the changes of the user over them. */
  async #compareViews(): Promise<void> {
    const { world } = this;
    await world.pass(0);
    if (world.server.clock.now() < world.lagsUntil) return;
    for (const tab of world.living.filter(({ frozen }) => !frozen)) {
      for (const name of [...BOXES, 'Drafts']) {
        const { writes } = world;
        const replay = new Replay(await world.invariants.read());
        const view = await this.#settled(tab.client.mailbox(name).list({ limit: 1000 }));
        if (!view || world.writes !== writes) continue;
        const expected = replay.shown(name);
        const seen = view.messages.map(
          ({ envelope, flags }) => `${envelope.subject}: ${[...flags].sort().join(' ')}`,
        );
        assert.deepEqual(seen.sort(), expected, `${name} as it is shown`);
        if (replay.isWhole(name)) assert.equal(view.total, expected.length, `total of ${name}`);
        this.#compared++;
      }
    }
  }

  /** What the user changed stays changed, until the user or somebody else changes it again. */
  #checkKept(tab: Tab, name: string, messages: readonly MailMessage[]): void {
    this.#checkOnce(name, messages);
    for (const { box, subject, holds, isOver, ...kept } of this.#kept) {
      if (box === name && kept.tab === tab && !isOver() && !holds(messages))
        this.world.faults.push(`${subject} in ${name} is shown as it was before`);
    }
  }

  /** Somebody changes messages of a mailbox: what is seen of it may be something else now. */
  #forget(...boxes: readonly string[]): void {
    this.#kept = this.#kept.filter(
      ({ box, from }) => ![box, ...from].some((one) => boxes.includes(one)),
    );
  }

  /** Peace: all of it comes to an end, and all tabs show what the server has. */
  async #rest(): Promise<void> {
    const { world } = this;
    const { server, account } = world;
    server.online = true;
    world.crash = undefined;
    world.busy = undefined;
    if (world.living.length === 0) await this.#open();
    for (const { client } of world.living)
      for (const name of BOXES) void client.mailbox(name).list();
    await world.pass(60_000);
    // A leader whose connection is silent notices it.
    await world.pass(60_000);
    await signInAgain(world);
    await world.pass(120_000);
    await signInAgain(world);
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
    await this.#compareViews();
    this.#checkSends();
    assert.deepEqual(world.foreignKeys, []);
    assert.ok(this.#compared > 0, 'no view was compared with what is stored');
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
    const least =
      most -
      ends.filter((neverLeft) => neverLeft === undefined).length -
      this.world.invariants.uncertain.size;
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
