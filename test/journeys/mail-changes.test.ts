/** Two devices of one account: one changes, the other follows by WebSocket and sync alone. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import {
  makeAccountWith,
  startTestService,
  type TestAccount,
  type TestService,
} from '../support/service.ts';
import { openSocket } from '../support/web-socket.ts';

onEachEngine('changing mail', (engine) => {
  let service: TestService;
  before(async () => {
    service = await startTestService(engine);
  });

  const call = (account: TestAccount, path: string, body: object) =>
    service.mail(account.token, 'POST', path, body);

  const accountWithMail = (subjects: readonly string[]) => makeAccountWith(service, subjects);

  async function mailboxes(account: TestAccount) {
    const { status, body } = await service.mail(account.token, 'GET', '/mail/mailboxes');
    assert.equal(status, 200);
    const all: Record<string, unknown>[] = body.mailboxes;
    return new Map(all.map((one) => [one.mailbox, one]));
  }

  test('mailboxes are listed with their counts, and counted with each change', async () => {
    const ann = await accountWithMail(['one', 'two', 'three']);
    const inbox = (await mailboxes(ann)).get('INBOX');
    assert.equal(inbox?.messages, 3);
    assert.equal(inbox?.unseen, 3);
    assert.equal((await mailboxes(ann)).get('Sent')?.specialUse, '\\Sent');
    await call(ann, '/mail/flags', { mailbox: 'INBOX', uids: [1, 2], add: ['\\Seen'] });
    await call(ann, '/mail/move', { mailbox: 'INBOX', uids: [2, 3], to: 'Trash' });
    await call(ann, '/mail/copy', { mailbox: 'Trash', uids: [1], to: 'Archive' });
    await call(ann, '/mail/delete', { mailbox: 'Trash', uids: [2] });
    const after = await mailboxes(ann);
    const counts = (name: string) => [after.get(name)?.messages, after.get(name)?.unseen];
    assert.deepEqual(counts('INBOX'), [1, 0]);
    assert.deepEqual(counts('Trash'), [1, 0]);
    assert.deepEqual(counts('Archive'), [1, 0]);
  });

  test('a change is announced to the other device, which syncs to the same state', async () => {
    const ann = await accountWithMail(['one', 'two']);
    const socket = await openSocket(service, ann.token);
    const hello = await socket.next();
    const known = hello.mailboxes.find(({ mailbox }: { mailbox: string }) => mailbox === 'INBOX');
    const flagged = await call(ann, '/mail/flags', {
      mailbox: 'inbox',
      uids: [1, 2, 77],
      uidvalidity: known.uidvalidity,
      add: ['\\Seen', 'work'],
    });
    assert.equal(flagged.status, 200);
    assert.deepEqual(
      flagged.body.updated.map(({ uid, flags }: { uid: number; flags: string[] }) => [uid, flags]),
      [
        [1, ['\\Seen', 'work']],
        [2, ['\\Seen', 'work']],
      ],
    );
    // On several nodes what was told of the mail before may still be on its way.
    while ((await socket.next()).token !== flagged.body.token);
    const delta = await call(ann, '/mail/sync', { ...known });
    assert.equal(delta.body.token, flagged.body.token);
    assert.deepEqual(delta.body.changes.updated, flagged.body.updated);
    socket.close();
  });

  test('an action returns what a sync since a token would return', async () => {
    const ann = await accountWithMail(['one', 'two']);
    const first = (await call(ann, '/mail/sync', {})).body;
    await service.send({ from: 'b@example.test', to: ann.address, subject: 'three', text: '3' });
    const since = { uidvalidity: first.uidvalidity, token: first.token };
    const moved = await call(ann, '/mail/move', {
      mailbox: 'INBOX',
      uids: [1],
      to: 'Archive',
      since,
      fields: ['envelope'],
    });
    assert.deepEqual(moved.body.moved, [{ uid: 1, toUid: 1 }]);
    const { changes, token } = moved.body.sync;
    assert.deepEqual(changes.removed, [{ uid: 1 }]);
    assert.equal(changes.added[0].envelope.subject, 'three');
    assert.equal((await call(ann, '/mail/sync', since)).body.token, token);
  });

  test('mailboxes are made and renamed, with those below them', async () => {
    const ann = await accountWithMail([]);
    const socket = await openSocket(service, ann.token);
    await socket.next();
    const made = await call(ann, '/mail/mailboxes/create', { mailbox: 'Projects/Größe' });
    assert.equal(made.status, 201);
    assert.equal((await socket.next()).mailbox, 'Projects/Größe');
    assert.deepEqual(await socket.next(), { type: 'mailboxes_changed' });
    await call(ann, '/mail/mailboxes/create', { mailbox: 'Projects' });
    await service.send({ from: 'bob@example.test', to: ann.address, subject: 'one', text: 'one' });
    await call(ann, '/mail/copy', { mailbox: 'INBOX', uids: [1], to: 'Projects' });
    const before = (await mailboxes(ann)).get('Projects');
    const renamed = await call(ann, '/mail/mailboxes/rename', { mailbox: 'Projects', to: 'Work' });
    assert.equal(renamed.status, 200);
    const after = await mailboxes(ann);
    assert.ok(after.has('Work/Größe'));
    assert.equal(after.get('Work')?.mailboxId, before?.mailboxId);
    assert.equal((await call(ann, '/mail/sync', { mailbox: 'Work' })).body.changes.added.length, 1);
    const gone = await call(ann, '/mail/sync', { mailbox: 'Projects' });
    assert.equal(gone.body.code, 'mailbox_not_found');
    socket.close();
    const again = await openSocket(service, ann.token);
    const hello = await again.next();
    const tip = hello.mailboxes.find(({ mailbox }: { mailbox: string }) => mailbox === 'Work');
    assert.equal(tip.mailboxId, before?.mailboxId);
    again.close();
  });

  test('a mailbox is deleted with its messages, and its name is free for another', async () => {
    const ann = await accountWithMail(['one', 'two']);
    await call(ann, '/mail/mailboxes/create', { mailbox: 'Old' });
    await call(ann, '/mail/move', { mailbox: 'INBOX', uids: [1], to: 'Old' });
    const before = (await call(ann, '/mail/sync', { mailbox: 'Old' })).body;
    const deleted = await call(ann, '/mail/mailboxes/delete', { mailbox: 'Old' });
    assert.deepEqual(deleted.body, { ok: true, deleted: 'Old' });
    assert.equal((await mailboxes(ann)).has('Old'), false);
    const since = { mailbox: 'Old', uidvalidity: before.uidvalidity, token: before.token };
    assert.equal((await call(ann, '/mail/sync', since)).body.code, 'mailbox_not_found');
    await call(ann, '/mail/mailboxes/create', { mailbox: 'Old' });
    const anew = (await call(ann, '/mail/sync', since)).body;
    assert.equal(anew.reset, true);
    assert.deepEqual(anew.changes.added, []);
  });

  const refusals: [title: string, path: string, body: object, status: number, code: string][] = [
    ['no uids', '/mail/flags', { uids: [] }, 400, 'invalid_request'],
    ['uid 0', '/mail/flags', { uids: [0] }, 400, 'invalid_request'],
    ['a negative uid', '/mail/flags', { uids: [-1] }, 400, 'invalid_request'],
    ['uid 2^32', '/mail/flags', { uids: [4_294_967_296] }, 400, 'invalid_request'],
    ['uids as strings', '/mail/flags', { uids: ['1'] }, 400, 'invalid_request'],
    ['1,001 uids', '/mail/flags', { uids: Array(1_001).fill(1) }, 400, 'invalid_request'],
    ['a flag that is no atom', '/mail/flags', { uids: [1], add: ['a b'] }, 400, 'invalid_request'],
    ['\\Recent', '/mail/flags', { uids: [1], add: ['\\Recent'] }, 400, 'invalid_request'],
    [
      '65 keywords',
      '/mail/flags',
      { uids: [1], add: Array.from({ length: 65 }, (_, n) => `k${n}`) },
      400,
      'invalid_request',
    ],
    [
      'another uidvalidity',
      '/mail/delete',
      { uids: [1], uidvalidity: '1' },
      409,
      'uidvalidity_changed',
    ],
    ['a move into itself', '/mail/move', { uids: [1], to: 'inbox' }, 400, 'invalid_request'],
    ['a move to nowhere', '/mail/move', { uids: [1], to: 'None' }, 404, 'mailbox_not_found'],
    ['a copy to nowhere', '/mail/copy', { uids: [1], to: 'None' }, 404, 'mailbox_not_found'],
    ['a move to a line end', '/mail/move', { uids: [1], to: 'a\nb' }, 404, 'mailbox_not_found'],
    ['an answer as a name', '/mail/sync', { mailbox: 'a\r\n* BYE' }, 404, 'mailbox_not_found'],
    [
      'a name of 2,000 bytes',
      '/mail/mailboxes/create',
      { mailbox: 'x'.repeat(2_000) },
      400,
      'invalid_request',
    ],
    ['a control character', '/mail/mailboxes/create', { mailbox: 'a\nb' }, 400, 'invalid_request'],
    ['INBOX/..', '/mail/mailboxes/create', { mailbox: 'INBOX/..' }, 400, 'invalid_request'],
    [
      'the same in another case',
      '/mail/mailboxes/create',
      { mailbox: 'sENT' },
      409,
      'mailbox_exists',
    ],
    ['INBOX renamed', '/mail/mailboxes/rename', { to: 'Old' }, 409, 'mailbox_protected'],
    [
      'Sent renamed',
      '/mail/mailboxes/rename',
      { mailbox: 'Sent', to: 'Old' },
      409,
      'mailbox_protected',
    ],
    [
      'a rename of nothing',
      '/mail/mailboxes/rename',
      { mailbox: 'None', to: 'Old' },
      404,
      'mailbox_not_found',
    ],
  ];

  test('an impossible change is refused with the reason, and changes nothing', async () => {
    const ann = await accountWithMail(['one']);
    const before = await mailboxes(ann);
    for (const [title, path, body, status, code] of refusals) {
      const answer = await call(ann, path, { mailbox: 'INBOX', ...body });
      assert.deepEqual([answer.status, answer.body.code], [status, code], title);
    }
    await call(ann, '/mail/mailboxes/create', { mailbox: 'Top' });
    const child = await call(ann, '/mail/mailboxes/rename', { mailbox: 'Top', to: 'Top/Below' });
    assert.equal(child.body.code, 'invalid_request');
    const cased = await call(ann, '/mail/mailboxes/rename', { mailbox: 'Top', to: 'tOP/Below' });
    assert.equal(cased.body.code, 'invalid_request');
    const dotless = await call(ann, '/mail/sync', { mailbox: 'ıNBOX' });
    assert.equal(dotless.body.code, 'mailbox_not_found');
    const after = await mailboxes(ann);
    assert.deepEqual(after.get('INBOX'), before.get('INBOX'));
  });

  test('two devices that change the same messages at once end in one state', async () => {
    const ann = await accountWithMail(['one', 'two', 'three']);
    const set = { mailbox: 'INBOX', uids: [1, 2, 3] };
    const answers = await Promise.all([
      call(ann, '/mail/flags', { ...set, add: ['\\Flagged'] }),
      call(ann, '/mail/move', { ...set, to: 'Archive' }),
      call(ann, '/mail/move', { ...set, to: 'Trash' }),
      call(ann, '/mail/delete', set),
    ]);
    for (const { status } of answers) assert.equal(status, 200);
    assert.deepEqual((await call(ann, '/mail/sync', {})).body.changes.added, []);
    const after = await mailboxes(ann);
    const there = Number(after.get('Archive')?.messages) + Number(after.get('Trash')?.messages);
    const deleted = answers[3]?.body.removed.length;
    assert.equal(there + deleted, 3);
  });
});
