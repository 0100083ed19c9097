/** Mail that is written: what waits is told of, it is taken back until it goes, and a draft says what it answers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ApiError,
  type MailClient,
  type MessageLocation,
  memoryStore,
  type Operation,
  type SendOperation,
} from '../../src/mail.ts';
import { World } from './world.ts';

/** More changes than are kept when they are over. */
async function flagOften(world: World, client: MailClient): Promise<void> {
  world.account.deliver('INBOX', { subject: 'Hi' });
  await world.pass(1000);
  for (let i = 0; i < 60; i++) {
    const flagging = client.mailbox('INBOX').flag([1], { [i % 2 ? 'add' : 'remove']: ['$x'] });
    await world.pass(100, (await flagging).applied);
  }
}

const mail = { to: [{ address: 'bob@sender.test' }], subject: 'Later', text: 'Hello' };

test('mail for later is found after a reload and many other changes, and cancelled', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.deliver('INBOX', { subject: 'Hi' });
  const first = await world.open();
  await world.pass(5000);
  const sendAt = new Date(world.server.clock.now() + 86_400_000).toISOString();
  const { operation, ...draft } = await first.client.saveDraft(mail);
  await world.pass(1000, operation.applied);
  const sent = await first.client.send({ ...mail, sendAt, draft }, { undoSeconds: 0 });
  await world.pass(1000, sent.applied);
  const inbox = first.client.mailbox('INBOX');
  const [id] = await inbox.ids();
  assert.ok(id);
  for (let i = 0; i < 60; i++) {
    const operation = await inbox.flag([id], { [i % 2 ? 'add' : 'remove']: ['\\Flagged'] });
    await world.pass(100, operation.applied);
  }
  world.kill(first);
  const { client } = await world.open();
  await world.pass(5000);
  const [found] = await client.sends();
  assert.deepEqual([found?.subject, found?.status, found?.sendAt], ['Later', 'queued', sendAt]);
  // What an app logs of it: the change, and nothing of the client.
  const { id: operationId, kind } = sent;
  assert.equal(JSON.stringify(sent), JSON.stringify({ id: operationId, kind }));
  const answer = found?.operation.cancel();
  await world.pass(5000, answer);
  assert.deepEqual(found?.draft, { mailbox: 'Drafts', id: (await answer)?.draft.uid });
  assert.deepEqual(
    world.account.sends.all.map(({ status }) => status),
    ['cancelled'],
  );
  const before = world.server.requests.length;
  assert.deepEqual(
    (await client.sends()).map(({ status }) => status),
    ['cancelled'],
  );
  assert.deepEqual(
    world.server.requests.slice(before).map(({ path }) => path),
    ['/mail/sends/read'],
  );
});

test('mail for later says which draft it is, also where that waited with it and many changes came since', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.deliver('INBOX', { subject: 'Hi' });
  const { client } = await world.open();
  await world.pass(5000);
  const sendAt = new Date(world.server.clock.now() + 86_400_000).toISOString();
  const { operation, ...draft } = await client.saveDraft(mail);
  const sent = await client.send({ ...mail, sendAt, draft });
  await world.pass(1000, Promise.all([operation.applied, sent.applied]));
  const inbox = client.mailbox('INBOX');
  for (let i = 0; i < 60; i++) {
    const { applied } = await inbox.flag([1], { [i % 2 ? 'add' : 'remove']: ['\\Flagged'] });
    await world.pass(100, applied);
  }
  const [found] = await client.sends();
  assert.deepEqual(found?.draft, { mailbox: 'Drafts', id: 1 });
});

test('mail is taken back until it goes out, also where many changes came since', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.deliver('INBOX', { subject: 'Hi' });
  const { client } = await world.open();
  await world.pass(5000);
  const sent = await client.send(mail, { undoSeconds: 60 });
  await world.pass(1000, sent.applied);
  for (let i = 0; i < 60; i++) {
    const flagging = client.mailbox('INBOX').flag([1], { [i % 2 ? 'add' : 'remove']: ['$x'] });
    await world.pass(100, (await flagging).applied);
  }
  const [once, again] = [sent.cancel(), sent.cancel()];
  await world.pass(5000, once);
  await world.pass(5000, again);
  assert.deepEqual(
    world.account.sends.all.map(({ status }) => status),
    ['cancelled'],
  );
});

test('mail whose place in the queue is forgotten is not sent a second time to take it back', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.deliver('INBOX', { subject: 'Hi' });
  const { client } = await world.open();
  await world.pass(5000);
  const sent = await client.send(mail);
  await world.pass(1000, sent.applied);
  for (let i = 0; i < 60; i++) {
    const flagging = client.mailbox('INBOX').flag([1], { [i % 2 ? 'add' : 'remove']: ['$x'] });
    await world.pass(100, (await flagging).applied);
  }
  const cancelling = assert.rejects(sent.cancel());
  await world.pass(5000, cancelling);
  await cancelling;
  assert.equal(world.account.sends.all.length, 1);
});

test('mail that the server refuses after a reload is a draft with its files, where the user wants it', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const first = await world.open();
  await world.pass(5000);
  world.server.online = false;
  world.server.dropSockets();
  const attachments = [{ filename: 'a.txt', content: Buffer.from('a') }];
  await first.client.send({ ...mail, attachments });
  world.kill(first);
  const { client } = await world.open();
  const refused: Operation[] = [];
  client.on('rejected', ({ operation }) => refused.push(operation));
  world.server.failNext({ status: 429, code: 'send_limit' }, '/mail/send');
  world.server.online = true;
  await world.pass(60_000);
  assert.equal(refused.length, 1);
  const seen: number[] = [];
  client.mailbox('Drafts').watch({}, ({ messages }) => seen.push(messages.length));
  // The server tells of the draft before it answers.
  world.server.failNext({ delayMs: 3000 }, '/mail/drafts');
  const keeping = Promise.all([refused[0]?.undo(), refused[0]?.undo()]);
  await world.pass(60_000, keeping);
  assert.deepEqual([...new Set(seen)], [0, 1], 'the draft was seen twice for a while');
  const { uids, find } = world.account.mailbox('Drafts');
  assert.deepEqual(
    uids.map((uid) => find(uid)?.attachments.map(({ filename }) => filename)),
    [['a.txt']],
  );
  assert.deepEqual(await world.store.range({ table: 'blobs', prefix: [] }), []);
  assert.equal(world.account.sends.all.length, 0);
});

test('a draft that the server refuses after a reload is stored with its text and files, where the user wants it', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const first = await world.open();
  await world.pass(5000);
  world.server.online = false;
  world.server.dropSockets();
  const attachments = [{ filename: 'a.txt', content: Buffer.from('a') }];
  await first.client.saveDraft({ ...mail, attachments });
  world.kill(first);
  const second = await world.open();
  world.server.failNext({ status: 507, code: 'quota_exceeded' }, '/mail/drafts');
  world.server.online = true;
  await world.pass(60_000);
  assert.equal(world.account.mailbox('Drafts').uids.length, 0);
  // Many changes later it is there still.
  await flagOften(world, second.client);
  world.kill(second);
  const { client } = await world.open();
  await world.pass(60_000);
  const refused: Operation[] = [];
  client.on('rejected', ({ operation }) => refused.push(operation));
  assert.deepEqual(
    refused.map(({ kind }) => kind),
    ['append'],
  );
  await Promise.all([refused[0]?.undo(), refused[0]?.undo()]);
  await world.pass(60_000);
  const { uids, find } = world.account.mailbox('Drafts');
  const [draft] = uids.map(find);
  assert.equal(uids.length, 1);
  assert.deepEqual(
    [draft?.text, draft?.attachments.map(({ filename }) => filename)],
    ['Hello', ['a.txt']],
  );
  assert.deepEqual(await world.store.range({ table: 'blobs', prefix: [] }), []);
});

test('a draft that was refused and is stored after all takes the place of the one before it', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  const { operation, ...before } = await client.saveDraft(mail);
  await world.pass(5000, operation.applied);
  world.server.failNext({ status: 507, code: 'quota_exceeded' }, '/mail/drafts');
  const refused = await client.saveDraft({ ...mail, text: 'Newer' }, before);
  await world.pass(5000);
  await refused.operation.undo();
  await world.pass(60_000);
  const { uids, find } = world.account.mailbox('Drafts');
  assert.deepEqual(
    uids.map((uid) => find(uid)?.text),
    ['Newer'],
  );
  const { messages } = await client.mailbox('Drafts').list();
  assert.deepEqual(
    messages.map(({ preview }) => preview),
    ['Newer'],
  );
});

test('what plain JavaScript writes in place of an address is refused, and the mail goes to nobody', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  const text = 'eve@sender.test' as unknown as { address: string };
  const sent = await client.send({ ...mail, to: [...mail.to, text] });
  const refused = assert.rejects(sent.applied, /invalid_request/);
  await world.pass(5000);
  await refused;
  assert.deepEqual(world.account.sends.all, []);
});

test('each new listener is told of what was refused, until it is undone or forgotten', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.deliver('INBOX', { subject: 'Hi' });
  const { client } = await world.open();
  await world.pass(5000);
  const attachments = [{ filename: 'a.txt', content: Buffer.from('a') }];
  const refusals = [
    [() => client.mailbox('INBOX').flag([1], { add: ['$x'] }), '/mail/flags'],
    [() => client.saveDraft({ ...mail, attachments }), '/mail/drafts'],
    [() => client.send({ ...mail, attachments }), '/mail/send'],
  ] as const;
  for (const [change, path] of refusals) {
    world.server.failNext({ status: 422, code: 'mail_server_refused' }, path);
    await change();
    await world.pass(1000);
  }
  const { client: next } = await world.open();
  await world.pass(1000);
  const told = () => {
    const all: Operation[] = [];
    next.on('rejected', ({ operation, error }) => {
      assert.match(error.message, /mail_server_refused/);
      all.push(operation);
    })();
    return all;
  };
  const kinds = () => told().map(({ kind }) => kind);
  assert.deepEqual(kinds(), ['flag', 'append', 'send']);
  const [flag, draft, sent] = told();
  await flag?.undo();
  assert.deepEqual(kinds(), ['flag', 'append', 'send']);
  await flag?.forget();
  await draft?.forget();
  assert.deepEqual(kinds(), ['send']);
  const undone = sent?.undo();
  await world.pass(1000, undone);
  await sent?.forget();
  await world.pass(5000);
  assert.deepEqual(kinds(), []);
  assert.equal(world.account.mailbox('Drafts').uids.length, 1);
  assert.deepEqual(await world.store.range({ table: 'blobs', prefix: [] }), []);
});

test('a refused mail whose draft is refused, too, can be a draft once there is room', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  const refused: Operation[] = [];
  client.on('rejected', ({ operation }) => refused.push(operation));
  const full = { status: 507, code: 'quota_exceeded' } as const;
  world.server.failNext(full, '/mail/send');
  world.server.failNext(full, '/mail/drafts');
  const attachments = [{ filename: 'a.txt', content: Buffer.from('a') }];
  const sent = await client.send({ ...mail, attachments });
  const failed = assert.rejects(sent.applied, /quota_exceeded/);
  await world.pass(10_000, failed);
  await failed;
  for (const times of [1, 2]) {
    // Many changes later its files are there still.
    await flagOften(world, client);
    assert.deepEqual(
      refused.map(({ id }) => id),
      Array(times).fill(sent.id),
    );
    await world.pass(10_000, refused.at(-1)?.undo());
    await world.pass(10_000);
  }
  const { uids, find } = world.account.mailbox('Drafts');
  assert.deepEqual(
    uids.map((uid) => find(uid)?.attachments.map(({ filename }) => filename)),
    [['a.txt']],
  );
  assert.deepEqual(await world.store.range({ table: 'blobs', prefix: [] }), []);
});

test('a refused mail for later that is forgotten is told of no more, however many changes come', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  world.server.failNext({ status: 422, code: 'mail_server_refused' }, '/mail/send');
  const sendAt = new Date(world.server.clock.now() + 86_400_000).toISOString();
  const sent = await client.send({ ...mail, sendAt });
  const failed = assert.rejects(sent.applied, /mail_server_refused/);
  await world.pass(1000, failed);
  await failed;
  const { client: other } = await world.open();
  await world.pass(1000);
  const told: number[] = [];
  other.on('pending', ({ pending }) => told.push(pending.length));
  await sent.forget();
  await world.pass(5000);
  assert.equal(told.at(-1), 0);
  await flagOften(world, client);
  client.on('rejected', () => assert.fail('told again'));
});

test('what is kept as a draft and forgotten at once is what was said first', async () => {
  for (const [first, drafts] of [
    ['undo', [['a.txt']]],
    ['forget', []],
  ] as const) {
    const world = new World({ seed: 1, withLocks: true });
    const [{ client }, { client: other }] = [await world.open(), await world.open()];
    await world.pass(5000);
    const told = [client, other].map(async (one) => {
      const { promise, resolve } = Promise.withResolvers<Operation>();
      one.on('rejected', ({ operation }) => resolve(operation));
      return await promise;
    });
    world.server.failNext({ status: 507, code: 'quota_exceeded' }, '/mail/drafts');
    await client.saveDraft({
      ...mail,
      attachments: [{ filename: 'a.txt', content: Buffer.from('a') }],
    });
    await world.pass(5000);
    const [here, there] = await Promise.all(told);
    await Promise.all([here?.[first](), there?.[first === 'undo' ? 'forget' : 'undo']()]);
    await world.pass(5000);
    const { uids, find } = world.account.mailbox('Drafts');
    assert.deepEqual(
      uids.map((uid) => find(uid)?.attachments.map(({ filename }) => filename)),
      drafts,
    );
    assert.deepEqual(await world.store.range({ table: 'blobs', prefix: [] }), []);
    assert.deepEqual(await client.pending(), []);
  }
});

test('mail that another device sent is listed while it waits, and cancelled here', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  const sendAt = new Date(world.server.clock.now() + 86_400_000).toISOString();
  world.account.sends.send({ ...mail, sendAt }, undefined);
  world.account.sends.send({ ...mail, subject: 'Now' }, undefined);
  const sent = await client.send({ ...mail, subject: 'Here' });
  await world.pass(5000, sent.applied);
  await world.pass(5000);
  const sends = await client.sends();
  assert.deepEqual(
    sends.map(({ subject, status, sendAt }) => [subject, status, sendAt]),
    [
      ['Later', 'queued', sendAt],
      ['Here', 'delivered', undefined],
    ],
  );
  await sends[0]?.operation.undo();
  await world.pass(5000);
  assert.deepEqual(
    (await client.sends()).map(({ subject }) => subject),
    ['Here'],
  );
  const { messages } = await client.mailbox('Drafts').list();
  assert.deepEqual(
    messages.map(({ envelope }) => envelope.subject),
    ['Later'],
  );
});

test('what became of many mails is asked for in one request, newest first', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  for (let number = 1; number <= 12; number++) {
    const { applied } = await client.send({ ...mail, subject: `${number}` });
    await world.pass(100, applied);
  }
  await world.pass(5000);
  const before = world.server.requests.length;
  const sends = await client.sends();
  assert.deepEqual(
    sends.map(({ subject }) => Number(subject)),
    [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1],
  );
  assert.equal(world.server.requests.length, before + 1);
});

test('a draft that waits for a network is sent, also where the app keeps its place as a proxy, as Vue does', async () => {
  const store = memoryStore();
  const update = store.update.bind(store);
  // IndexedDB takes no proxy either.
  store.update = (table, key, decide) => update(table, key, (row) => structuredClone(decide(row)));
  const world = new World({ seed: 1, withLocks: true, store });
  const { client } = await world.open();
  await world.pass(5000);
  world.server.online = false;
  const { mailbox, id } = await client.saveDraft(mail);
  const sent = await client.send({ ...mail, draft: new Proxy({ mailbox, id }, {}) });
  world.server.online = true;
  await world.pass(60_000, sent.applied);
  assert.equal(world.account.sends.all.length, 1);
  assert.equal(world.account.mailbox('Drafts').summary.messages, 0);
});

test('mail that waits for a network is a draft again at once where it is taken back', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  world.server.online = false;
  world.server.dropSockets();
  // What is tried fails, and rests.
  await world.pass(8000);
  assert.equal(client.state, 'offline');
  const sent = await client.send(mail);
  const [waiting] = await client.pending();
  assert.equal(waiting?.id, sent.id);
  const undone = waiting.undo();
  await world.pass(0);
  await undone;
  const { messages } = await client.mailbox('Drafts').list();
  assert.deepEqual(
    messages.map(({ envelope }) => envelope.subject),
    ['Later'],
  );
  world.server.online = true;
  client.reconnect();
  await world.pass(60_000);
  assert.equal(world.account.sends.all.length, 0);
  assert.equal(world.account.mailbox('Drafts').uids.length, 1);
});

test('mail that waits is one draft where it is taken back, also where it was written in another one', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  const { operation, ...draft } = await client.saveDraft(mail);
  await world.pass(1000, operation.applied);
  world.server.online = false;
  world.server.dropSockets();
  await world.pass(8000);
  const sent = await client.send({ ...mail, draft, text: 'Newer' });
  const taking = sent.cancel();
  await world.pass(0, taking);
  const taken = await taking;
  const shown = async () => {
    const { messages } = await client.mailbox('Drafts').list();
    return messages.map(({ preview, id }) => [preview, id]);
  };
  assert.deepEqual(await shown(), [['Newer', taken?.draft.id]]);
  world.server.online = true;
  client.reconnect();
  await world.pass(60_000);
  assert.deepEqual(await shown(), [['Newer', 2]]);
  assert.deepEqual(world.account.mailbox('Drafts').uids, [2]);
});

test('mail that waits and is taken back is one draft, also where the tab dies at that moment', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const [leader, other] = [await world.open(), await world.open()];
  await world.pass(5000);
  const { client } = leader;
  const { operation, ...draft } = await client.saveDraft(mail);
  await world.pass(1000, operation.applied);
  world.server.online = false;
  world.server.dropSockets();
  await world.pass(8000);
  world.freeze(leader, 2000);
  const sent = await other.client.send({ ...mail, draft, text: 'Newer' });
  void sent.cancel();
  // It is stored, and the leader did not see it.
  await world.pass(100);
  world.kill(other);
  world.server.online = true;
  await world.pass(60_000);
  const { messages } = await client.mailbox('Drafts').list();
  assert.deepEqual(
    messages.map(({ preview }) => preview),
    ['Newer'],
  );
  assert.deepEqual(world.account.mailbox('Drafts').uids, [2]);
});

test('mail that waits and is taken back is one draft, whatever is said of what it answers', async () => {
  for (const [status, code, isAnswer] of [
    [503, 'unavailable', true],
    [404, 'message_not_found', false],
    [409, 'uidvalidity_changed', false],
  ] as const) {
    const world = new World({ seed: 1, withLocks: true });
    world.account.deliver('INBOX', { subject: 'Hi' });
    const { client } = await world.open();
    await world.pass(5000);
    const refused: Operation[] = [];
    client.on('rejected', ({ operation }) => refused.push(operation));
    const { operation, ...draft } = await client.saveDraft(mail);
    await world.pass(1000, operation.applied);
    world.server.online = false;
    world.server.dropSockets();
    await world.pass(8000);
    const inReplyTo = { mailbox: 'INBOX', id: 1 };
    const sent = await client.send({ ...mail, draft, inReplyTo, text: 'Newer' });
    const taking = sent.cancel();
    await world.pass(0, taking);
    await taking;
    world.server.failNext({ status, code }, '/mail/drafts');
    world.server.online = true;
    client.reconnect();
    await world.pass(60_000);
    const { uids, find } = world.account.mailbox('Drafts');
    assert.deepEqual(refused, []);
    assert.deepEqual(uids, [2], code);
    assert.equal(find(2)?.envelope.inReplyTo !== undefined, isAnswer);
    assert.deepEqual(await client.pending(), []);
  }
});

test('mail that waits and is taken back twice at once is one draft', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  world.server.online = false;
  world.server.dropSockets();
  await world.pass(8000);
  const attachments = [{ filename: 'a.txt', content: Buffer.from('a') }];
  const sent = await client.send({ ...mail, attachments });
  const [again] = await client.pending();
  const taken = Promise.all([sent.cancel(), again?.undo(), sent.cancel()]);
  await world.pass(0, taken);
  await taken;
  world.server.online = true;
  client.reconnect();
  await world.pass(60_000);
  assert.equal(world.account.sends.all.length, 0);
  const { uids, find } = world.account.mailbox('Drafts');
  assert.deepEqual(
    uids.map((uid) => find(uid)?.attachments.length),
    [1],
  );
});

/**
 * Drafts of one mail, each in place of the one before, written while there is no network.
 *
 * @param isTried whether the first one is on its way when the network goes
 */
async function writeDrafts(texts: readonly string[], isTried: boolean) {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  const cutOff = async () => {
    world.server.online = false;
    world.server.dropSockets();
    // What is tried fails, and rests.
    await world.pass(8000);
  };
  if (isTried) world.server.failNext({ lose: 'request' }, '/mail/drafts');
  else await cutOff();
  const attachments = [{ filename: 'a.txt', content: Buffer.from('a') }];
  let before: MessageLocation | undefined;
  for (const text of texts) {
    const { operation, ...draft } = await client.saveDraft({ ...mail, text, attachments }, before);
    operation.applied.catch(() => {});
    before = draft;
    await world.pass(100);
    if (world.server.online) await cutOff();
  }
  /** What the server has in the end. */
  const connect = async () => {
    world.server.online = true;
    client.reconnect();
    await world.pass(60_000);
    assert.deepEqual(await client.pending(), []);
    assert.deepEqual(await world.store.range({ table: 'blobs', prefix: [] }), []);
    const { messages } = await client.mailbox('Drafts').list();
    assert.equal(messages.length, world.account.mailbox('Drafts').uids.length);
    return messages.map(({ preview }) => preview);
  };
  return { world, client, connect };
}

test('a draft that is refused leaves the one before it, also where that waited with it', async () => {
  const { world, client, connect } = await writeDrafts(['one', 'two', 'three'], false);
  const { messages } = await client.mailbox('Drafts').list();
  assert.deepEqual(
    messages.map(({ preview }) => preview),
    ['three'],
  );
  world.server.failNext({ status: 413, code: 'body_too_large' }, '/mail/drafts');
  // It is kept for whoever wants it; here somebody has all of it.
  client.on('rejected', ({ operation }) => void operation.forget());
  assert.deepEqual(await connect(), ['two']);
});

for (const isTried of [false, true]) {
  const first = isTried ? ', after the first one, which was on its way' : '';
  test(`of drafts that waited the last one alone goes${first}`, async () => {
    const { world, client, connect } = await writeDrafts(['one', 'two', 'three', 'four'], isTried);
    const { messages } = await client.mailbox('Drafts').list();
    assert.deepEqual(
      messages.map(({ preview }) => preview),
      ['four'],
    );
    assert.deepEqual(await connect(), ['four']);
    const appended = world.server.requests.filter(({ path }) => path === '/mail/drafts');
    assert.equal(appended.length, isTried ? 2 : 1);
  });
}

test('what somebody else than the server answers refuses nothing: it goes when the server is there', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.deliver('INBOX', { subject: 'Hi' });
  const first = await world.open();
  await world.pass(5000);
  const { fetch } = world.server;
  /** A network that wants a login first, a proxy without a server behind it, and the server. */
  const pages = [200, 404, undefined] as const;
  let page: number | undefined;
  Object.assign(world.server, {
    fetch: async (...request: Parameters<typeof fetch>) =>
      page === undefined ? fetch(...request) : new Response('<html>', { status: page }),
  });
  const refused: string[] = [];
  const { client } = first;
  client.on('rejected', ({ operation }) => refused.push(operation.kind));
  [page] = pages;
  await client.mailbox('INBOX').flag([1], { add: ['\\Flagged'] });
  const sent = await client.send(mail);
  const searching = client.search({ subject: 'Hi' });
  await world.pass(0, searching);
  const { offline, matches } = await searching;
  assert.deepEqual([offline, matches.map(({ id }) => id)], [true, [1]]);
  for (page of pages) await world.pass(60_000);
  await world.pass(60_000, sent.applied);
  assert.deepEqual(refused, []);
  assert.equal(client.state, 'live');
  assert.equal(world.account.sends.all.length, 1);
  assert.deepEqual(world.account.mailbox('INBOX').find(1)?.flags, ['\\Flagged']);
});

test('what waits is told of whenever it changes, in each tab', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.deliver('INBOX', { subject: 'Hi' });
  const [first, second] = [await world.open(), await world.open()];
  await world.pass(5000);
  const told: string[] = [];
  for (const [name, { client }] of Object.entries({ first, second })) {
    client.on('pending', ({ pending }) => {
      told.push(`${name}: ${pending.map(({ kind }) => kind).join(' ')}`);
    });
  }
  world.server.online = false;
  const inbox = first.client.mailbox('INBOX');
  await inbox.flag([1], { add: ['\\Seen'] });
  await world.pass(100);
  await inbox.move([1], 'Archive');
  await world.pass(100);
  assert.deepEqual(told.toSorted(), [
    'first: flag',
    'first: flag move',
    'second: flag',
    'second: flag move',
  ]);
  world.server.online = true;
  first.client.reconnect();
  await world.pass(30_000);
  assert.deepEqual(told.slice(-2).toSorted(), ['first: ', 'second: ']);
  assert.deepEqual(await second.client.pending(), []);
});

test('a draft says which message it answers: before the server has it, and after', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.deliver('INBOX', { subject: 'Question', messageId: '<q@sender.test>' });
  const { client } = await world.open();
  await world.pass(5000);
  const inReplyTo = { mailbox: 'INBOX', id: 1 };
  world.server.online = false;
  const { mailbox, id, operation } = await client.saveDraft({ ...mail, inReplyTo });
  const drafts = client.mailbox(mailbox);
  assert.deepEqual((await drafts.read(id)).inReplyTo, inReplyTo);
  world.server.online = true;
  // The server has it, and no sync has brought it yet.
  world.server.fault = ({ path }) => (path === '/mail/sync' ? { delayMs: 20_000 } : undefined);
  client.reconnect();
  await world.pass(5000);
  const early = drafts.read(id);
  await world.pass(1000, early);
  assert.deepEqual((await early).inReplyTo, inReplyTo);
  world.server.fault = undefined;
  await world.pass(30_000, operation.applied);
  const [stored] = await drafts.ids();
  assert.equal(typeof stored, 'number');
  const reading = drafts.read(stored ?? 0);
  await world.pass(1000, reading);
  assert.deepEqual((await reading).inReplyTo, inReplyTo);
  const plain = client.mailbox('INBOX').read(1);
  await world.pass(1000, plain);
  assert.equal((await plain).inReplyTo, undefined);
});

test('a refusal that was stored names its fields and its request, in the tab that asked for it and in another', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const tabs = [await world.open(), await world.open()];
  await world.pass(5000);
  const told: unknown[] = [];
  const note = (error: unknown) => {
    assert.ok(error instanceof ApiError);
    const { code, errors, requestId } = error;
    assert.ok(requestId);
    told.push([code, errors.map(({ field }) => field), error.message]);
  };
  for (const { client } of tabs) client.on('rejected', ({ error }) => note(error));
  const from = { address: 'eve@acme.test' };
  const sent = await tabs[1]?.client.send({ ...mail, from });
  const over = sent?.applied.catch(note);
  await world.pass(10_000, over);
  const expected = [
    'invalid_request',
    ['from.address'],
    '400 invalid_request: from.address must be ada@acme.test, or that with a +tag',
  ];
  assert.deepEqual(told, [expected, expected, expected]);
});

test('mail whose request was lost over a day ago is not sent blindly: the user is asked, and may have it as a draft', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { account, server } = world;
  const { client } = await world.open();
  await world.pass(5000);
  const asked: string[] = [];
  client.on('uncertain', ({ operation }) => asked.push(operation.id));
  server.failNext({ lose: 'request' }, '/mail/send');
  const sent = await client.send(mail);
  await world.pass(0);
  world.skew = 90_000_000;
  await world.pass(60_000);
  assert.deepEqual([asked, account.sends.all], [[sent.id], []]);
  // Nobody heard it, where the tab died that stored it.
  const askedAgain: SendOperation[] = [];
  const { client: next } = await world.open();
  next.on('uncertain', ({ operation }) => askedAgain.push(operation));
  assert.deepEqual(
    askedAgain.map(({ id }) => id),
    [sent.id],
  );
  const cancelling = askedAgain[0]?.cancel();
  await world.pass(60_000, cancelling);
  const { draft } = (await cancelling) ?? {};
  await world.pass(1000);
  const { messages } = await client.mailbox('Drafts').list();
  assert.deepEqual(
    messages.map(({ envelope }) => envelope.subject),
    ['Later'],
  );
  assert.equal(draft?.mailbox, 'Drafts');
  next.on('uncertain', ({ operation }) => askedAgain.push(operation));
  assert.equal(askedAgain.length, 1);
});

test('an answer goes also where the message that it answers was moved or deleted meanwhile', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.create('Work');
  const ids = [1, 2].map(() => world.account.deliver('Work', { subject: 'question' }));
  const { client } = await world.open();
  await world.pass(5000);
  for (const [at, id] of ids.entries()) {
    if (at === 0) world.account.remove('Work', [id]);
    else world.account.delete('Work');
    const inReplyTo = { mailbox: 'Work', id };
    const mail = { to: [{ address: 'bob@sender.test' }], subject: `answer ${at}`, inReplyTo };
    const saving = client.saveDraft(mail);
    await world.pass(5000, saving);
    const { mailbox, id: draft } = await saving;
    const sending = client.send({ ...mail, draft: { mailbox, id: draft } });
    await world.pass(0, sending);
    const { applied } = await sending;
    await world.pass(0, applied);
    await applied;
  }
  assert.equal(world.account.mailbox('Sent').uids.length, 2);
  assert.equal(world.account.mailbox('Drafts').uids.length, 0);
});

test('a refused mail outlives other changes; of very many the oldest says that it is not kept', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  const refuse = async () => {
    world.server.failNext({ status: 422, code: 'mail_server_refused' }, '/mail/send');
    const sent = await client.send(mail);
    await world.pass(
      100,
      sent.applied.catch(() => {}),
    );
    return sent;
  };
  const first = await refuse();
  for (let i = 0; i < 2; i++) await flagOften(world, client);
  let told: Operation[] = [];
  client.on('rejected', ({ operation }) => void told.push(operation))();
  assert.deepEqual(
    told.map(({ id }) => id),
    [first.id],
  );
  const [kept] = told;
  for (let i = 0; i < 55; i++) await refuse();
  told = [];
  client.on('rejected', ({ operation }) => void told.push(operation))();
  assert.ok(told.length >= 50 && !told.some(({ id }) => id === first.id));
  await assert.rejects(async () => kept?.undo(), { message: 'It is not kept any more.' });
  await kept?.forget();
  await told[0]?.undo();
  await world.pass(5000);
  assert.equal(world.account.mailbox('Drafts').uids.length, 1);
});
