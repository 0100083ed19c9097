/**
 * Two devices of one account: one changes whatever can be changed, the other follows by WebSocket and
 * sync alone, and ends equal to what the store itself has (on a mail server, what IMAP shows).
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';
import { openSocket, type TestSocket } from '../support/web-socket.ts';

interface Copy {
  uidvalidity?: string;
  token?: string;
  readonly messages: Map<number, readonly string[]>;
}

/** A device that is told of changes, and asks for nothing but lists and syncs. */
class Follower {
  readonly copies = new Map<string, Copy>();
  readonly #service: TestService;
  readonly #account: TestAccount;
  readonly #socket: TestSocket;

  constructor(service: TestService, account: TestAccount, socket: TestSocket) {
    this.#service = service;
    this.#account = account;
    this.#socket = socket;
  }

  /** Follows until INBOX has a message with this flag, and so all that came before. */
  async followUntil(flag: string): Promise<void> {
    while (![...(this.copies.get('INBOX')?.messages.values() ?? [])].flat().includes(flag)) {
      const event = await this.#socket.next();
      if (event.type === 'mailbox_changed') await this.#sync(event.mailbox);
      else await this.#list();
    }
  }

  async #list(): Promise<void> {
    const { body } = await this.#service.mail(this.#account.token, 'GET', '/mail/mailboxes');
    const names: string[] = body.mailboxes.map(({ mailbox }: { mailbox: string }) => mailbox);
    for (const name of this.copies.keys()) if (!names.includes(name)) this.copies.delete(name);
    for (const name of names) if (!this.copies.has(name)) await this.#sync(name);
  }

  async #sync(mailbox: string): Promise<void> {
    const copy: Copy = this.copies.get(mailbox) ?? { messages: new Map() };
    for (;;) {
      const { uidvalidity, token } = copy;
      const { status, body } = await this.#service.mail(this.#account.token, 'POST', '/mail/sync', {
        mailbox,
        uidvalidity,
        token,
        limit: 3,
        fields: ['flags'],
      });
      if (status === 404) {
        this.copies.delete(mailbox);
        return;
      }
      assert.equal(status, 200, JSON.stringify(body));
      if (body.reset) copy.messages.clear();
      const { added, updated, removed } = body.changes;
      for (const { uid, flags = [] } of [...added, ...updated]) copy.messages.set(uid, flags);
      for (const { uid } of removed) copy.messages.delete(uid);
      Object.assign(copy, { uidvalidity: body.uidvalidity, token: body.token });
      this.copies.set(mailbox, copy);
      if (!body.hasMore) return;
    }
  }
}

onEachEngine('two devices', (engine) => {
  let service: TestService;
  before(async () => {
    service = await startTestService(engine);
  });

  /** One that changes things; every call has to work. */
  function device({ token }: TestAccount) {
    const post = async (path: string, body: object) => {
      const answer = await service.mail(token, 'POST', path, body);
      assert.ok(answer.status < 300, `${path}: ${JSON.stringify(answer.body)}`);
      return answer.body;
    };
    const append = async (mailbox: string, subject: string, flags = '') => {
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

  test('one changes everything, the other follows and ends equal to the store', async () => {
    const ann = await service.makeAccount();
    const { post, append } = device(ann);
    const socket = await openSocket(service, ann.token);
    const follower = new Follower(service, ann, socket);
    for (let n = 1; n <= 6; n++) {
      await service.send({ from: 'b@example.test', to: ann.address, subject: `${n}`, text: 'x' });
    }
    const { body } = await service.mail(ann.token, 'GET', '/mail/mailboxes');
    const trash = body.mailboxes.find(({ mailbox }: { mailbox: string }) => /Trash$/.test(mailbox));
    assert.ok(trash);
    const INBOX = 'INBOX';

    const shelf = (await post('/mail/mailboxes/create', { mailbox: 'Shelf' })).mailbox;
    const below = (await post('/mail/mailboxes/create', { mailbox: 'Shelf/Größe' })).mailbox;
    const gone = (await post('/mail/mailboxes/create', { mailbox: 'Gone' })).mailbox;
    await post('/mail/flags', { mailbox: INBOX, uids: [1, 2, 3], add: ['\\Seen', 'work'] });
    await post('/mail/flags', { mailbox: INBOX, uids: [2, 99], remove: ['\\Seen'] });
    const { copied } = await post('/mail/copy', { mailbox: INBOX, uids: [1, 2], to: shelf });
    assert.deepEqual(
      copied.map(({ uid }: { uid: number }) => uid),
      [1, 2],
    );
    const { moved } = await post('/mail/move', { mailbox: INBOX, uids: [3, 4], to: below });
    assert.equal(moved.length, 2);
    await post('/mail/move', { mailbox: INBOX, uids: [5], to: trash.mailbox });
    const draft = await append(below, 'draft', '\\Draft');
    await append(gone, 'lost');
    await post('/mail/flags', { mailbox: below, uids: [draft], add: ['\\Flagged'] });
    const { removed } = await post('/mail/delete', {
      mailbox: below,
      uids: [moved[0].toUid, 999],
    });
    assert.deepEqual(removed, [{ uid: moved[0].toUid }]);
    const renamed = (await post('/mail/mailboxes/rename', { mailbox: shelf, to: 'Work' })).mailbox;
    await post('/mail/flags', { mailbox: renamed, uids: [copied[0].toUid], add: ['\\Answered'] });
    await post('/mail/mailboxes/delete', { mailbox: gone });
    const search = await post('/mail/search', { mailbox: renamed, flags: ['\\Answered'] });
    assert.equal(search.matches.length, 1);
    // At once, as two hands would.
    await Promise.all([
      post('/mail/flags', { mailbox: INBOX, uids: [1, 2, 6], add: ['\\Flagged'] }),
      post('/mail/move', { mailbox: INBOX, uids: [2], to: renamed }),
      append(INBOX, 'note'),
      service.send({ from: 'b@example.test', to: ann.address, subject: 'last', text: 'x' }),
    ]);
    await append(INBOX, 'the end', 'done');

    await follower.followUntil('done');
    socket.close();
    const sorted = (messages: ReadonlyMap<number, readonly string[]>) =>
      [...messages].sort(([a], [b]) => a - b).map(([uid, flags]) => [uid, [...flags].sort()]);
    const truth = await service.look(ann);
    assert.equal(truth.has(gone), false);
    assert.equal(truth.has(shelf), false);
    assert.deepEqual([...follower.copies.keys()].sort(), [...truth.keys()].sort());
    for (const [mailbox, messages] of truth) {
      const copy = follower.copies.get(mailbox);
      assert.deepEqual(sorted(copy?.messages ?? new Map()), sorted(messages), mailbox);
    }
  });
});
