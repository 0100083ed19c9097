/** Files of mail that waits: they go with it whatever happens, and no mail goes without one that it had. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { OutgoingAttachment, SendOperation, StoredDraft } from '../../src/mail.ts';
import { World } from './world.ts';

const content = Buffer.from('the file');
const file = { filename: 'a.txt', contentType: 'text/plain', content };
const mail = { to: [{ address: 'bob@sender.test' }], subject: 'Later', attachments: [file] };
const inBase64 = content.toString('base64');

/** The contents of files that went to the server. */
const sentBy = ({ server }: World) =>
  server.requests
    .filter(({ path }) => path === '/mail/send')
    .map(({ body }) => (body as { attachments: { content: string }[] }).attachments[0]?.content);

test('mail that waits has its files, also where the store is lost meanwhile', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.server.online = false;
  const tab = await world.open();
  await world.pass(5000);
  await tab.client.send(mail);
  world.lose(tab);
  world.server.online = true;
  await world.pass(60_000);
  assert.equal(world.account.sends.all.length, 1);
  assert.deepEqual(new Set(sentBy(world)), new Set([inBase64]));
});

test('mail does not go without a file that was lost with the store: it waits for the next start', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.server.online = false;
  const first = await world.open();
  await first.client.send(mail);
  world.kill(first);
  const second = await world.open();
  await world.pass(20_000);
  world.lose(second);
  world.server.online = true;
  await world.pass(60_000);
  assert.deepEqual(sentBy(world), []);
  assert.deepEqual(
    (await second.client.pending()).map(({ kind }) => kind),
    ['send'],
  );
  world.kill(second);
  await world.open();
  await world.pass(20_000);
  assert.deepEqual([world.account.sends.all.length, sentBy(world)], [1, [inBase64]]);
});

for (const undoSeconds of [60, 0]) {
  const end = undoSeconds > 0 ? 'it is a draft again' : 'it is said to have gone';
  test(`mail that a tab without its store sends too is taken back at the server alone: ${end}`, async () => {
    const world = new World({ seed: 1, withLocks: true });
    const { server, account } = world;
    const [, losing] = [await world.open(), await world.open()];
    await world.pass(5000);
    server.online = false;
    server.dropSockets();
    // What is tried fails, and rests.
    await world.pass(8000);
    const sent = await losing.client.send(mail, { undoSeconds });
    await world.pass(100);
    world.lose(losing);
    // One that comes later hears of it, too.
    const third = await world.open();
    await world.pass(5000);
    const [waiting] = (await third.client.pending()) as [SendOperation];
    assert.equal(waiting.id, sent.id);
    const cancelled = waiting.cancel();
    cancelled.catch(() => {});
    await world.pass(100);
    server.online = true;
    // It goes out before its answer is here.
    server.fault = ({ path }) => (path === '/mail/send' ? { delayMs: 1000 } : undefined);
    for (const { client } of world.living) client.reconnect();
    await world.pass(30_000);
    const statuses = account.sends.all.map(({ status }) => status);
    if (undoSeconds > 0) {
      assert.equal((await cancelled)?.draft.mailbox, 'Drafts');
      assert.deepEqual(statuses, ['cancelled']);
    } else {
      await assert.rejects(cancelled, { code: 'already_sent' });
      assert.deepEqual(statuses, ['delivered']);
    }
    assert.equal(new Set(sentBy(world)).size, 1);
  });
}

test('a file is a Blob, bytes or text', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  const { buffer } = new Uint8Array(content);
  const contents = [content, buffer, new Blob([content]), content.toString()];
  for (const one of contents) {
    const { applied } = await client.send({ ...mail, attachments: [{ ...file, content: one }] });
    await world.pass(5000, applied);
  }
  assert.deepEqual(
    sentBy(world),
    contents.map(() => inBase64),
  );
});

test('a UID that is text, and a watch without a function, are refused: nothing would be done', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.deliver('INBOX', { subject: 'Hi' });
  const { client } = await world.open();
  await world.pass(5000);
  const ids = ['1' as unknown as number];
  const inbox = client.mailbox('INBOX');
  for (const change of [
    () => inbox.move(ids, 'Archive'),
    () => inbox.flag(ids, { add: ['\\Seen'] }),
    () => inbox.delete(ids),
  ])
    await assert.rejects(change, { name: 'TypeError', message: 'UIDs are numbers: "1" is text' });
  const tell = undefined as unknown as () => void;
  assert.throws(() => inbox.watch({}, tell), TypeError);
});

test('the files of another message are named in a draft, not fetched and sent again', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const attachments = [{ filename: 'a.bin', content }];
  const id = world.account.deliver('INBOX', { subject: 'Hi', attachments });
  const { client } = await world.open();
  await world.pass(5000);
  const from = { mailbox: 'INBOX', id, part: '2' };
  const { operation, ...draft } = await client.saveDraft({ ...mail, attachments: [{ from }] });
  await world.pass(5000, operation.applied);
  const again = await client.saveDraft({ ...mail, attachments: [{ from }], text: 'b' }, draft);
  await world.pass(5000, again.operation.applied);
  const asked = world.server.requests.map(({ path }) => path);
  assert.equal(asked.includes('/mail/attachment'), false);
  const drafts = world.server.requests.filter(({ path }) => path === '/mail/drafts');
  const bodies = drafts.map(({ body }) => JSON.stringify(body));
  assert.equal(bodies.length, 2);
  assert.equal(
    bodies.some((body) => body.includes('"content"')),
    false,
  );
  const { uids, find } = world.account.mailbox('Drafts');
  assert.deepEqual([uids, find(2)?.parts.get('2')], [[2], new Uint8Array(content)]);
});

test('mail that is refused while it is taken back is a draft with its files', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  world.server.failNext({ status: 503, retryAfter: 2 }, '/mail/send');
  world.server.failNext({ status: 409, code: 'domain_not_ready' }, '/mail/send');
  const sent = await client.send(mail);
  await world.pass(500);
  const cancelled = sent.cancel();
  await world.pass(20_000, cancelled);
  const taken = (await cancelled)?.draft;
  assert.deepEqual([taken?.mailbox, taken?.uid], ['Drafts', undefined]);
  await assert.rejects(sent.applied, /domain_not_ready/);
  const [draft, ...others] = world.server.requests.filter(({ path }) => path === '/mail/drafts');
  assert.equal(others.length, 0);
  assert.ok(JSON.stringify(draft?.body).includes(inBase64));
  assert.deepEqual(await world.store.range({ table: 'blobs', prefix: [] }), []);
});

test('mail that names a message finds it where a move of the user brought it before the mail went', async () => {
  // The answer to the move comes before the mail goes, or after the mail was refused.
  for (const delayMs of [0, 10_000]) {
    const world = new World({ seed: 1, withLocks: true });
    const { account, server } = world;
    const attachments = [{ ...file, content: new Uint8Array(content) }];
    account.deliver('INBOX', { subject: 'Hi', messageId: '<hi@sender.test>', attachments });
    const { client } = await world.open();
    await world.pass(5000);
    const place = { mailbox: 'INBOX', id: 1 } as const;
    server.online = false;
    server.dropSockets();
    await world.pass(5000);
    const from = { ...place, part: '2' };
    await client.send({ ...mail, inReplyTo: place, attachments: [{ filename: 'a.txt', from }] });
    await client.mailbox('INBOX').move([1], 'Archive');
    server.failNext({ delayMs }, '/mail/move');
    server.failNext({ status: 500 }, '/mail/send');
    server.online = true;
    client.reconnect();
    await world.pass(60_000);
    assert.deepEqual(await client.pending(), []);
    const [uid = 0] = account.mailbox('Sent').uids;
    const sent = account.mailbox('Sent').find(uid);
    assert.deepEqual(
      [account.mailbox('INBOX').uids, sent?.envelope.inReplyTo, sent?.attachments.length],
      [[], '<hi@sender.test>', 1],
    );
  }
});

test('of refused mail as much is kept as fits, the last ones first, and the app is told what is not', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.deliver('INBOX', { subject: 'Hi' });
  const { client } = await world.open();
  await world.pass(5000);
  const dropped: string[] = [];
  client.on('dropped', ({ operation }) => dropped.push(operation.id));
  const ids: string[] = [];
  for (let i = 0; i < 3; i++) {
    world.server.failNext({ status: 409, code: 'domain_not_ready' }, '/mail/send');
    const { id, applied } = await client.send({ ...mail, text: 'x'.repeat(26_000_000) });
    ids.push(id);
    const refused = assert.rejects(applied, /domain_not_ready/);
    await world.pass(1000, refused);
    await refused;
  }
  const { applied } = await client.mailbox('INBOX').flag([1], { add: ['\\Seen'] });
  await world.pass(1000, applied);
  const told: string[] = [];
  client.on('rejected', ({ operation }) => told.push(operation.id));
  assert.deepEqual([dropped, told], [ids.slice(0, 1), ids.slice(1)]);
  assert.equal((await world.store.range({ table: 'blobs', prefix: [] })).length, 2);
});

for (const how of [
  'one after the other',
  'while the one before is on its way',
  'without a network',
]) {
  test(`a file is sent once, however often its draft is saved: ${how}`, async () => {
    const world = new World({ seed: 1, withLocks: true });
    const { account, server } = world;
    const id = account.deliver('Drafts', {
      subject: 'Old',
      attachments: [{ filename: 'old.bin', content: 'old' }],
    });
    const { client } = await world.open();
    await world.pass(5000);
    const drafts = client.mailbox('Drafts');
    const { attachments } = await drafts.read(id);
    const isOffline = how === 'without a network';
    if (isOffline) {
      server.online = false;
      server.dropSockets();
      await world.pass(8000);
    }
    const files: readonly OutgoingAttachment[] = attachments.map(({ part, filename }) => ({
      filename,
      from: { mailbox: 'Drafts', id, part },
    }));
    let before: StoredDraft | undefined;
    // More than are kept of those that are over.
    const count = isOffline ? 120 : 5;
    for (let at = 0; at < count; at++) {
      const given = before?.attachments ?? [...files, { filename: 'a.bin', content }];
      const saving = client.saveDraft(
        { ...mail, text: `${at}`, attachments: given },
        before ?? { mailbox: 'Drafts', id },
      );
      await world.pass(how === 'one after the other' ? 5000 : 20, saving);
      before = await saving;
    }
    // Read and opened before the server has it, as it is in the end.
    if (isOffline && before) {
      const read = await drafts.read(before.id);
      const [, own] = read.attachments;
      assert.ok(own);
      assert.deepEqual(
        new Uint8Array(await (await drafts.attachment(before.id, own.part)).arrayBuffer()),
        new Uint8Array(content),
      );
    }
    server.online = true;
    client.reconnect();
    await world.pass(60_000);
    assert.deepEqual(await client.pending(), []);
    const sent = await client.send({
      ...mail,
      attachments: before?.attachments,
      draft: before,
    });
    await world.pass(5000, sent.applied);
    assert.equal(
      server.requests.some(({ path }) => path === '/mail/attachment'),
      false,
    );
    // Of those that waited the last one alone goes.
    const saves = server.requests.filter(({ path }) => path === '/mail/drafts').length;
    assert.equal(saves, isOffline ? 1 : count);
    const bodies = server.requests.map(({ body }) => JSON.stringify(body) ?? '');
    assert.equal(bodies.filter((body) => body.includes(inBase64)).length, 1);
    const { uids, find } = account.mailbox('Sent');
    const parts = find(uids[0] ?? 0)?.attachments.map(({ part, filename }) => [
      filename,
      find(uids[0] ?? 0)?.parts.get(part),
    ]);
    const old = new TextEncoder().encode('old');
    assert.deepEqual(parts, [
      ['old.bin', old],
      ['a.bin', new Uint8Array(content)],
    ]);
    assert.deepEqual(account.mailbox('Drafts').uids, []);
    assert.deepEqual(await world.store.range({ table: 'blobs', prefix: [] }), []);
  });
}

test('a draft that was refused has its files yet, and so has the one after it', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  world.server.failNext({ status: 507, code: 'quota_exceeded' }, '/mail/drafts');
  const refused = await client.saveDraft(mail);
  await world.pass(
    5000,
    refused.operation.applied.catch(() => {}),
  );
  const next = await client.saveDraft({ ...mail, attachments: refused.attachments });
  await refused.operation.forget();
  await world.pass(5000, next.operation.applied);
  const { find } = world.account.mailbox('Drafts');
  assert.deepEqual(find(1)?.parts.get('2'), new Uint8Array(content));
  assert.deepEqual(await world.store.range({ table: 'blobs', prefix: [] }), []);
});
