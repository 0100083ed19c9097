/**
 * Two devices of one account change whatever can be changed, in the same mailboxes at the same time. Each follows by
 * WebSocket and sync alone, and ends equal to what the store itself has (on a mail server, what IMAP shows).
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { onEachEngine } from '../support/databases.ts';
import {
  type MailboxesSeen,
  startTestService,
  type TestAccount,
  type TestService,
} from '../support/service.ts';
import { openSocket, type TestSocket } from '../support/web-socket.ts';

const INBOX = 'INBOX';

interface Copy {
  uidvalidity?: string;
  token?: string;
  readonly messages: Map<number, readonly string[]>;
}

/** In milliseconds: for all that was told to come, on a busy machine, and between two looks. */
const WITHIN_MS = 90_000;
const PAUSE_MS = 50;

/** In place of a mailbox's name: the names of all mailboxes. */
const LIST = Symbol('list');

/**
 * A device that is told of changes by WebSocket, and asks for nothing but lists and syncs. It asks only after it was
 * told, so a change that nobody tells of is missing on it for good.
 */
class Device {
  readonly #copies = new Map<string, Copy>();
  readonly #service: TestService;
  readonly #token: string;
  readonly #socket: TestSocket;
  /** What it was told to be new, and has not asked for yet. */
  readonly #stale = new Set<string | typeof LIST>();
  #asking: Promise<void> | undefined;
  #error: unknown;

  private constructor(service: TestService, token: string, socket: TestSocket) {
    this.#service = service;
    this.#token = token;
    this.#socket = socket;
    void this.#follow();
  }

  static async connect(service: TestService, { token }: TestAccount): Promise<Device> {
    return new Device(service, token, await openSocket(service, token));
  }

  /** Waits until it has what the store has. @returns that */
  async untilItHas(look: () => Promise<MailboxesSeen>): Promise<MailboxesSeen> {
    const end = performance.now() + WITHIN_MS;
    for (;;) {
      if (this.#error) throw this.#error;
      const truth = await look();
      try {
        assert.deepEqual(sorted(this.#seen), sorted(truth));
        return truth;
      } catch (error) {
        if (performance.now() > end) throw error;
      }
      await pause(PAUSE_MS);
    }
  }

  end(): void {
    this.#socket.close();
  }

  get #seen(): MailboxesSeen {
    return new Map([...this.#copies].map(([name, { messages }]) => [name, messages]));
  }

  async #follow(): Promise<void> {
    for (;;) this.#note(await this.#socket.next());
  }

  #note({ mailbox }: { mailbox?: string }): void {
    this.#stale.add(mailbox ?? LIST);
    this.#asking ??= this.#ask();
  }

  async #ask(): Promise<void> {
    try {
      for (const one of this.#stale) {
        // From here on it is told of what this answer may lack.
        this.#stale.delete(one);
        await (typeof one === 'string' ? this.#sync(one) : this.#list());
      }
    } catch (error) {
      this.#error ??= error;
    } finally {
      this.#asking = undefined;
    }
  }

  /** A list of names is no reason to look into mailboxes that it has: of a change in one it is told. */
  async #list(): Promise<void> {
    const { status, body } = await this.#service.mail(this.#token, 'GET', '/mail/mailboxes');
    assert.equal(status, 200, JSON.stringify(body));
    const listed = new Map<string, string>(
      body.mailboxes.map((each: { mailbox: string; uidvalidity: string }) => [
        each.mailbox,
        each.uidvalidity,
      ]),
    );
    for (const name of this.#copies.keys()) if (!listed.has(name)) this.#copies.delete(name);
    for (const [name, uidvalidity] of listed) {
      if (this.#copies.get(name)?.uidvalidity !== uidvalidity) await this.#sync(name);
    }
  }

  async #sync(mailbox: string): Promise<void> {
    const copy: Copy = this.#copies.get(mailbox) ?? { messages: new Map() };
    for (;;) {
      const { uidvalidity, token } = copy;
      const request = { mailbox, uidvalidity, token, limit: 3, fields: ['flags'] };
      const answer = await this.#service.mail(this.#token, 'POST', '/mail/sync', request);
      const { status, body } = answer;
      if (status === 404) {
        this.#copies.delete(mailbox);
        return;
      }
      assert.equal(status, 200, JSON.stringify(body));
      if (body.reset) copy.messages.clear();
      const { added, updated, removed } = body.changes;
      for (const { uid, flags = [] } of [...added, ...updated]) copy.messages.set(uid, flags);
      for (const { uid } of removed) copy.messages.delete(uid);
      Object.assign(copy, { uidvalidity: body.uidvalidity, token: body.token });
      this.#copies.set(mailbox, copy);
      if (!body.hasMore) return;
    }
  }
}

function sorted(mailboxes: MailboxesSeen) {
  const rows = (messages: ReadonlyMap<number, readonly string[]>) =>
    [...messages].sort(([a], [b]) => a - b).map(([uid, flags]) => [uid, [...flags].sort()]);
  return Object.fromEntries([...mailboxes].map(([name, messages]) => [name, rows(messages)]));
}

onEachEngine('two devices', (engine) => {
  let service: TestService;
  before(async () => {
    service = await startTestService(engine);
  });

  /** What changes things, as one of the devices; every call has to work. */
  function hands({ token }: TestAccount) {
    const post = async (path: string, body: object) => {
      const answer = await service.mail(token, 'POST', path, body);
      assert.ok(answer.status < 300, `${path}: ${JSON.stringify(answer.body)}`);
      return answer.body;
    };
    const append = async (mailbox: string, subject: string, flags = ''): Promise<number> => {
      const query = new URLSearchParams({ mailbox, flags });
      const answer = await fetch(`${service.url}/mail/append?${query}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'message/rfc822' },
        body: `Subject: ${subject}\r\n\r\n${subject}\r\n`,
      });
      assert.equal(answer.status, 201);
      const { uid } = (await answer.json()) as { uid: number };
      return uid;
    };
    return { post, append };
  }

  /** Tidies INBOX into mailboxes of its own. */
  async function tidy(ann: TestAccount, trash: string): Promise<void> {
    const { post, append } = hands(ann);
    const shelf = (await post('/mail/mailboxes/create', { mailbox: 'Shelf' })).mailbox;
    const below = (await post('/mail/mailboxes/create', { mailbox: 'Shelf/Größe' })).mailbox;
    const gone = (await post('/mail/mailboxes/create', { mailbox: 'Gone' })).mailbox;
    const copies = (await post('/mail/mailboxes/create', { mailbox: 'Copies' })).mailbox;
    const marks = (await post('/mail/mailboxes/create', { mailbox: 'Marks' })).mailbox;
    const drops = (await post('/mail/mailboxes/create', { mailbox: 'Drops' })).mailbox;
    const marked = await append(marks, 'to be marked');
    const dropped = await append(drops, 'to be dropped');
    await post('/mail/flags', { mailbox: INBOX, uids: [1, 2, 3], add: ['\\Seen', 'work'] });
    await post('/mail/flags', { mailbox: INBOX, uids: [2, 99], remove: ['\\Seen'] });
    const { copied } = await post('/mail/copy', { mailbox: INBOX, uids: [1, 2], to: shelf });
    assert.deepEqual(
      copied.map(({ uid }: { uid: number }) => uid),
      [1, 2],
    );
    const { moved } = await post('/mail/move', { mailbox: INBOX, uids: [3, 4], to: below });
    assert.equal(moved.length, 2);
    await post('/mail/move', { mailbox: INBOX, uids: [5], to: trash });
    const draft = await append(below, 'draft', '\\Draft');
    await append(gone, 'lost');
    await post('/mail/flags', { mailbox: below, uids: [draft], add: ['\\Flagged'] });
    const uids = [moved[0].toUid, 999];
    const { removed } = await post('/mail/delete', { mailbox: below, uids });
    assert.deepEqual(removed, [{ uid: moved[0].toUid }]);
    const renamed = (await post('/mail/mailboxes/rename', { mailbox: shelf, to: 'Work' })).mailbox;
    await post('/mail/flags', { mailbox: renamed, uids: [copied[0].toUid], add: ['\\Answered'] });
    await post('/mail/mailboxes/delete', { mailbox: gone });
    // Nothing else happens in these: a change that nobody is told of would be missing there.
    await post('/mail/flags', { mailbox: marks, uids: [marked], add: ['\\Flagged'] });
    await post('/mail/delete', { mailbox: drops, uids: [dropped] });
    await post('/mail/copy', { mailbox: renamed, uids: [copied[1].toUid], to: copies });
    const search = await post('/mail/search', { mailbox: renamed, flags: ['\\Answered'] });
    assert.equal(search.matches.length, 1);
    // At once, as two hands would.
    await Promise.all([
      post('/mail/flags', { mailbox: INBOX, uids: [1, 2, 6], add: ['\\Flagged'] }),
      post('/mail/move', { mailbox: INBOX, uids: [2], to: renamed }),
      append(INBOX, 'note'),
      service.send({ from: 'b@example.test', to: ann.address, subject: 'last', text: 'x' }),
    ]);
  }

  /** Writes notes and throws them away, and marks the messages that the other device moves. */
  async function write(ann: TestAccount, trash: string): Promise<void> {
    const { post, append } = hands(ann);
    const pile = (await post('/mail/mailboxes/create', { mailbox: 'Pile' })).mailbox;
    for (const [at, kept] of [true, false, true, false].entries()) {
      const uid = await append(INBOX, `note ${at}`);
      // One that the other device has moved meanwhile is passed over.
      const marked = { mailbox: INBOX, uids: [1, 2, 3, 4, 5, 6, uid] };
      await post('/mail/flags', { ...marked, add: ['mine'] });
      await post('/mail/flags', { ...marked, uids: [1 + at, uid], remove: ['mine', '\\Seen'] });
      const to = kept ? pile : trash;
      const { moved } = await post('/mail/move', { mailbox: INBOX, uids: [uid], to });
      assert.equal(moved.length, 1);
      if (!kept) await post('/mail/delete', { mailbox: trash, uids: [moved[0].toUid] });
    }
    await post('/mail/mailboxes/rename', { mailbox: pile, to: 'Notes' });
  }

  test('two devices change the same mailboxes at once, and both end equal to the store', async () => {
    const ann = await service.makeAccount();
    const devices = await Promise.all([1, 2].map(() => Device.connect(service, ann)));
    for (let n = 1; n <= 6; n++) {
      await service.send({ from: 'b@example.test', to: ann.address, subject: `${n}`, text: 'x' });
    }
    const { body } = await service.mail(ann.token, 'GET', '/mail/mailboxes');
    const trash = body.mailboxes.find(({ mailbox }: { mailbox: string }) => /Trash$/.test(mailbox));
    await Promise.all([tidy(ann, trash.mailbox), write(ann, trash.mailbox)]);
    for (const device of devices) {
      const truth = await device.untilItHas(() => service.look(ann));
      const names = [...truth.keys()].map((name) => name.replace(/^INBOX[./]/, '')).sort();
      for (const name of ['Gone', 'Pile', 'Shelf']) assert.equal(names.includes(name), false);
      for (const name of ['Notes', 'Work']) assert.equal(names.includes(name), true);
      // The messages 1 and 6, a note, and the last mail.
      assert.equal(truth.get(INBOX)?.size, 4);
      device.end();
    }
  });
});
