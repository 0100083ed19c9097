import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { onEachEngine } from '../../../test/support/databases.ts';
import {
  openTestMailstore,
  sampleMessage,
  type TestMailstore,
} from '../../../test/support/mail.ts';
import type { Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { liveQuery } from './change-queries.ts';
import { EmbeddedMailstore, type MailUser, type SyncResult, stageMessage } from './mailstore.ts';
import { oldTombstones, ownTombstones } from './purge-mailboxes.ts';
import { threadsQuery } from './stage-message.ts';

const DAY = 86_400_000;
let clock = Date.UTC(2026, 0, 1);

async function collect(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of source) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function refusedWith(code: string) {
  return (error: unknown) => error instanceof Refusal && error.code === code;
}

onEachEngine('embedded mail store', (engine) => {
  let store: TestMailstore;
  before(async () => {
    store = await openTestMailstore(engine, () => clock);
  });

  async function append(user: MailUser, subjects: string[], mailbox = 'INBOX'): Promise<number[]> {
    const uids: number[] = [];
    for (const subject of subjects) {
      const message = await store.stage(sampleMessage(subject));
      const [appended] = await store.append(message, [{ user, mailbox }]);
      assert.ok(appended);
      uids.push(appended.uid);
    }
    return uids;
  }

  const sync = (user: MailUser, request: object = {}) =>
    store.mailstore.sync(user, { mailbox: 'INBOX', ...request });

  test('a search reports missing mail if the index gets more mail during the search', async () => {
    let isIndexed = false;
    const search = {
      isBehind: async () => !isIndexed,
      async find() {
        isIndexed = true;
        return [];
      },
    };
    const { database, bodies } = store;
    const mailstore = new EmbeddedMailstore({ database, bodies, idSecret: 'secret', search });
    const user = await store.makeUser();
    await append(user, ['Hello']);
    const ask = () => mailstore.search(user, { texts: { text: 'hello' }, limit: 1 });
    assert.deepEqual(await ask(), { matches: [], indexing: true });
    assert.deepEqual(await ask(), { matches: [] });
  });

  test('an account has its mailboxes from the start, each with a UIDVALIDITY of its own', async () => {
    const user = await store.makeUser();
    const lists = await Promise.all([1, 2, 3].map(() => store.mailstore.listMailboxes(user)));
    assert.deepEqual(lists[0], lists[2]);
    const list = lists[0] ?? [];
    assert.deepEqual(
      list.map(({ mailbox, specialUse }) => [mailbox, specialUse]),
      [
        ['INBOX', undefined],
        ['Sent', '\\Sent'],
        ['Drafts', '\\Drafts'],
        ['Junk', '\\Junk'],
        ['Trash', '\\Trash'],
        ['Archive', '\\Archive'],
      ],
    );
    assert.equal(new Set(list.map(({ uidvalidity }) => uidvalidity)).size, 6);
    const other = await store.mailstore.listMailboxes(await store.makeUser());
    assert.ok(Number(other[0]?.uidvalidity) > Number(list[5]?.uidvalidity));
  });

  test('a first sync brings everything, the next one nothing', async () => {
    const user = await store.makeUser();
    await append(user, ['one', 'two']);
    const first = await sync(user);
    assert.deepEqual(first.changes, { added: [{ uid: 1 }, { uid: 2 }], updated: [], removed: [] });
    assert.equal(first.reset, undefined);
    const next = await sync(user, { uidvalidity: first.uidvalidity, token: first.token });
    assert.deepEqual(next, { ...first, changes: { added: [], updated: [], removed: [] } });
  });

  test('new messages are only added, known changed ones updated, known removed ones removed', async () => {
    const user = await store.makeUser();
    await append(user, ['one', 'two', 'three']);
    const { uidvalidity, token } = await sync(user);
    await store.mailstore.setFlags(
      user,
      { mailbox: 'INBOX', uids: [1] },
      { add: ['\\seen', 'work'] },
    );
    await store.mailstore.expunge(user, { mailbox: 'INBOX', uids: [2] });
    const [four, five] = await append(user, ['four', 'five']);
    assert.ok(four && five);
    await store.mailstore.setFlags(
      user,
      { mailbox: 'INBOX', uids: [four] },
      { add: ['\\Flagged'] },
    );
    await store.mailstore.expunge(user, { mailbox: 'INBOX', uids: [five] });
    const { changes } = await sync(user, { uidvalidity, token });
    assert.deepEqual(changes, {
      added: [{ uid: 4 }],
      updated: [{ uid: 1, modseq: '5', flags: ['\\Seen', 'work'] }],
      removed: [{ uid: 2 }],
    });
  });

  test('a mailbox can be renamed to a name that leads to its old name for one below it', async () => {
    const user = await store.makeUser();
    // The one below was created first.
    for (const name of ['Top/Top/Top', 'Top/Top']) await store.mailstore.createMailbox(user, name);
    const before = await store.mailstore.sync(user, { mailbox: 'Top/Top/Top' });
    await store.mailstore.renameMailbox(user, 'Top/Top', 'Top');
    const after = await store.mailstore.sync(user, { mailbox: 'Top/Top' });
    assert.equal(after.uidvalidity, before.uidvalidity);
    const names = (await store.mailstore.listMailboxes(user)).map(({ mailbox }) => mailbox);
    assert.deepEqual(names.filter((name) => name.startsWith('Top')).toSorted(), ['Top', 'Top/Top']);
  });

  test('a thousand mailboxes get their new names, and stay hidden, by a few statements', async () => {
    const user = await store.makeUser();
    const { accountId: account_id } = user;
    const { imap } = store.mailstore;
    await store.mailstore.createMailbox(user, 'Old');
    const rows = Array.from({ length: 990 }, (_, at) => ({
      ...{ account_id, name: `Old/${at}`, special_use: null, uidvalidity: 1_000_000 + at },
      keywords: '',
    }));
    await store.database.write((tx) => tx.insertInto('mailboxes').values(rows).execute());
    for (const name of ['Old/1', 'Old/2']) await imap.subscribe(user, name, false);
    await store.mailstore.renameMailbox(user, 'Old', 'New');
    const listed = await store.mailstore.listMailboxes(user);
    assert.equal(listed.filter(({ mailbox }) => mailbox.startsWith('New/')).length, 990);
    assert.ok(!listed.some(({ mailbox }) => mailbox.startsWith('Old')));
    const hidden = [...(await imap.subscriptions(user))].toSorted();
    assert.deepEqual(hidden, [
      ['New/1', false],
      ['New/2', false],
    ]);
    if (engine === 'sqlite') return;
    // The number of the statement within its transaction.
    const { rows: statements } = await sql`select distinct cmin::text from mailboxes
      where account_id = ${account_id} and name like 'New/%'`.execute(store.database.read);
    assert.equal(statements.length, 1);
  });

  test('of several requests for the same name at once, one creates the mailbox', async () => {
    const { mailstore } = store;
    const codeOf = (error: unknown) => (error instanceof Refusal ? error.code : String(error));
    for (const ask of [
      (user: MailUser) => mailstore.createMailbox(user, 'New'),
      (user: MailUser, index: number) => mailstore.renameMailbox(user, `Old ${index}`, 'New'),
    ]) {
      const user = await store.makeUser();
      for (const index of [0, 1, 2]) await mailstore.createMailbox(user, `Old ${index}`);
      const answers = await Promise.all(
        [0, 1, 2].map((index) => ask(user, index).then(() => 'made', codeOf)),
      );
      assert.deepEqual(answers.toSorted(), ['made', 'mailbox_exists', 'mailbox_exists']);
    }
  });

  test('a flag that is already set changes nothing', async () => {
    const user = await store.makeUser();
    await append(user, ['one']);
    assert.ok(
      await store.mailstore.setFlags(user, { mailbox: 'INBOX', uids: [1] }, { add: ['\\Seen'] }),
    );
    const { uidvalidity, token } = await sync(user);
    for (const uid of [1, 9]) {
      const set = { mailbox: 'INBOX', uids: [uid] };
      const { changes } = await store.mailstore.setFlags(user, set, { add: ['\\SEEN'] });
      assert.deepEqual(changes, []);
    }
    assert.equal((await sync(user, { uidvalidity, token })).token, token);
  });

  test('a change has the token that a sync returns', async () => {
    const user = await store.makeUser();
    const [appended] = await store.append(await store.stage(sampleMessage('x')), [
      { user, mailbox: 'inbox' },
    ]);
    const { uidvalidity, token } = await sync(user);
    assert.deepEqual(appended?.change, {
      kind: 'mailbox',
      accountId: user.accountId,
      mailbox: 'INBOX',
      uidvalidity,
      token,
      eventType: 'MailboxesChanged',
    });
  });

  test('a moved message is new in one mailbox and removed from the other', async () => {
    const user = await store.makeUser();
    await append(user, ['one', 'two']);
    const inbox = await sync(user);
    const trash = await sync(user, { mailbox: 'Trash' });
    const moved = await store.mailstore.move(user, { mailbox: 'INBOX', uids: [2, 77] }, 'Trash');
    assert.deepEqual([...moved.uids], [[2, 1]]);
    assert.deepEqual(
      moved.changes.map(({ mailbox }) => mailbox),
      ['INBOX', 'Trash'],
    );
    const { changes } = await sync(user, { uidvalidity: inbox.uidvalidity, token: inbox.token });
    assert.deepEqual(changes.removed, [{ uid: 2 }]);
    const there = await sync(user, { ...trash, mailbox: 'Trash' });
    assert.deepEqual(there.changes.added, [{ uid: 1 }]);
    const message = await store.mailstore.fetchMessage(user, 'Trash', 1);
    assert.equal(message.envelope.subject, 'two');
  });

  test('another UIDVALIDITY, a token from the future, and one that is too old get a reset', async () => {
    const user = await store.makeUser();
    await append(user, ['one', 'two', 'three']);
    const { uidvalidity, token } = await sync(user);
    const everything = { added: [{ uid: 1 }, { uid: 2 }, { uid: 3 }], updated: [], removed: [] };
    for (const request of [
      { uidvalidity: '1', token },
      { uidvalidity: '1' },
      { uidvalidity, token: String(Number(token) + 1) },
      { uidvalidity, token: '9223372036854775807' },
      { uidvalidity, token: '0' },
      { uidvalidity, token: `1.${Number(token) + 1}.1` },
      { uidvalidity, token: '2.2.1' },
    ]) {
      const answer = await sync(user, request);
      assert.equal(answer.reset, true, JSON.stringify(request));
      assert.deepEqual(answer.changes, everything);
      assert.equal(answer.token, token);
    }
  });

  test('a malformed token is refused, and so is one without uidvalidity', async () => {
    const user = await store.makeUser();
    const { uidvalidity } = await sync(user);
    for (const token of ['x', '-1', '1.5', '1.2.3.4', ' 1', '1e3', '9'.repeat(21), 'é']) {
      await assert.rejects(sync(user, { uidvalidity, token }), refusedWith('invalid_request'));
    }
    await assert.rejects(sync(user, { token: '1' }), refusedWith('invalid_request'));
  });

  test('tombstones are removed after their time, and older tokens get a reset', async () => {
    const user = await store.makeUser();
    await append(user, ['one', 'two', 'three']);
    const old = await sync(user);
    await store.mailstore.expunge(user, { mailbox: 'INBOX', uids: [1] });
    const between = await sync(user, old);
    clock += 31 * DAY;
    await store.mailstore.expunge(user, { mailbox: 'INBOX', uids: [2] });
    assert.ok((await store.mailstore.pruneTombstones(30 * DAY)) >= 1);
    assert.equal((await sync(user, old)).reset, true);
    const kept = await sync(user, between);
    assert.equal(kept.reset, undefined);
    assert.deepEqual(kept.changes.removed, [{ uid: 2 }]);
  });

  test('more tombstones than one transaction removes are removed, in each mailbox its own', async () => {
    const users = [await store.makeUser(), await store.makeUser()];
    const tokens: SyncResult[] = [];
    for (const user of users) {
      const uids = await append(
        user,
        Array.from({ length: 110 }, (_, n) => `${n}`),
      );
      tokens.push(await sync(user));
      for (let at = 0; at < 110; at += 5) {
        await store.mailstore.expunge(user, { mailbox: 'INBOX', uids: uids.slice(at, at + 5) });
      }
    }
    clock += 31 * DAY;
    const late = await store.makeUser();
    await append(late, ['one']);
    const before = await sync(late);
    await store.mailstore.expunge(late, { mailbox: 'INBOX', uids: [1] });
    assert.ok((await store.mailstore.pruneTombstones(30 * DAY)) >= 220);
    assert.equal(await store.mailstore.pruneTombstones(30 * DAY), 0);
    for (const [index, user] of users.entries()) {
      assert.equal((await sync(user, tokens[index])).reset, true);
    }
    assert.deepEqual((await sync(late, before)).changes.removed, [{ uid: 1 }]);
  });

  test('pages go by UID and end in the state of the first one', async () => {
    const user = await store.makeUser();
    await append(user, ['1', '2', '3', '4', '5', '6']);
    const first = await sync(user, { limit: 2, fields: ['envelope', 'flags', 'size'] });
    assert.equal(first.hasMore, true);
    assert.deepEqual(
      first.changes.added.map(({ uid, envelope }) => [uid, envelope?.subject]),
      [
        [1, '1'],
        [2, '2'],
      ],
    );
    // Meanwhile a message that was already sent and one that was not are removed, and a new one comes.
    await store.mailstore.expunge(user, { mailbox: 'INBOX', uids: [1, 4] });
    await append(user, ['7']);
    const second = await sync(user, { ...first, limit: 2 });
    assert.deepEqual(second.changes.added, [{ uid: 3 }, { uid: 5 }]);
    const third = await sync(user, { ...second, limit: 3 });
    assert.deepEqual(third.changes.added, [{ uid: 6 }]);
    assert.equal(third.hasMore, undefined);
    const next = await sync(user, third);
    assert.deepEqual(next.changes, {
      added: [{ uid: 7 }],
      updated: [],
      removed: [{ uid: 1 }, { uid: 4 }],
    });
  });

  test('a message comes back byte for byte, small and large', async () => {
    const user = await store.makeUser();
    const large = Buffer.alloc(300_000, 'abcdefghij');
    for (const body of [Buffer.from('a\0b\r\n\xff', 'latin1'), large]) {
      const source = Buffer.concat([Buffer.from('Subject: bytes\r\n\r\n'), body]);
      const [appended] = await store.append(await store.stage(source), [
        { user, mailbox: 'INBOX' },
      ]);
      const message = await store.mailstore.fetchMessage(user, 'INBOX', appended?.uid ?? 0);
      assert.deepEqual(await collect(message.open()), source);
      assert.equal(message.size, source.length);
      assert.deepEqual(message.flags, []);
    }
  });

  test('a part is read without its transfer encoding, whole and in ranges', async () => {
    const user = await store.makeUser();
    const content = Buffer.from(Array.from({ length: 200_000 }, (_, index) => (index * 7) % 256));
    const source =
      'Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\ntext\r\n--b\r\n' +
      'Content-Type: application/octet-stream; name="a/b.bin"\r\n' +
      'Content-Transfer-Encoding: base64\r\n\r\n' +
      `${content.toString('base64').replace(/.{76}/g, '$&\r\n')}\r\n--b--\r\n`;
    const [appended] = await store.append(await store.stage(source), [{ user, mailbox: 'INBOX' }]);
    const uid = appended?.uid ?? 0;
    const part = await store.mailstore.fetchPart(user, 'INBOX', uid, '2');
    assert.equal(part.size, content.length);
    assert.deepEqual(await collect(part.open()), content);
    const range = { start: 99_999, end: 100_010 };
    assert.deepEqual(await collect(part.open(range)), content.subarray(99_999, 100_010));
    await assert.rejects(
      store.mailstore.fetchPart(user, 'INBOX', uid, '3'),
      refusedWith('part_not_found'),
    );
  });

  test('one account never reaches the mail of another', async () => {
    const ann = await store.makeUser();
    const eve = await store.makeUser();
    await append(ann, ['secret']);
    await assert.rejects(
      store.mailstore.fetchMessage(eve, 'INBOX', 1),
      refusedWith('message_not_found'),
    );
    const set = { mailbox: 'INBOX', uids: [1] };
    assert.deepEqual((await store.mailstore.setFlags(eve, set, { add: ['\\Seen'] })).updated, []);
    assert.equal((await store.mailstore.copy(eve, set, 'Archive')).uids.size, 0);
    assert.equal((await store.mailstore.move(eve, set, 'Archive')).uids.size, 0);
    assert.deepEqual((await store.mailstore.expunge(eve, set)).removed, []);
    assert.deepEqual((await sync(eve)).changes.added, []);
    assert.equal((await sync(ann)).changes.added.length, 1);
    await assert.rejects(sync(eve, { mailbox: 'no such' }), refusedWith('mailbox_not_found'));
  });

  test('a target whose account was deleted is skipped', async () => {
    const ann = await store.makeUser();
    const gone = { accountId: 999_999, address: 'gone@nowhere.test' };
    const message = await store.stage(sampleMessage('to two'));
    const appended = await store.append(message, [
      { user: gone, mailbox: 'INBOX' },
      { user: ann, mailbox: 'INBOX' },
    ]);
    assert.deepEqual(
      appended.map(({ user }) => user),
      [ann],
    );
    assert.equal((await sync(ann)).changes.added.length, 1);
  });

  test('a shared body is removed with the last message that needs it', async () => {
    const [ann, bob] = [await store.makeUser(), await store.makeUser()];
    const files = async () =>
      (await readdir(join(store.directory, 'bodies'), { recursive: true })).filter((name) =>
        /^[0-9a-f]{2}\//.test(name),
      );
    const before = await files();
    const message = await store.stage(`Subject: large\r\n\r\n${'x'.repeat(100_000)}`);
    await store.append(message, [
      { user: ann, mailbox: 'INBOX' },
      { user: bob, mailbox: 'INBOX' },
    ]);
    await store.mailstore.expunge(ann, { mailbox: 'INBOX', uids: [1] });
    const left = await store.mailstore.fetchMessage(bob, 'INBOX', 1);
    assert.equal((await collect(left.open())).length, message.body.size);
    await store.mailstore.expunge(bob, { mailbox: 'INBOX', uids: [1] });
    assert.deepEqual(await files(), before);
  });

  test('text without a header is body, and never becomes part of the lines in front of it', async () => {
    const user = await store.makeUser();
    const head = Buffer.from('Received: here\r\n');
    for (const [source, size] of [
      ['hello world, no header at all\r\n', 31],
      [' begins with a space: no field\r\n', 32],
      ['\r\nonly a body\r\n', 13],
      ['Subject: x\r\n\r\nbody\r\n', 6],
      ['', 0],
    ] as const) {
      const message = await stageMessage(
        store.bodies,
        (async function* () {
          for (const byte of Buffer.from(source)) yield Uint8Array.of(byte);
        })(),
        head,
      );
      const [appended] = await store.append(message, [{ user, mailbox: 'INBOX' }]);
      const part = await store.mailstore.fetchPart(user, 'INBOX', appended?.uid ?? 0, '1');
      assert.equal(part.size, size, JSON.stringify(source));
      const { open } = await store.mailstore.fetchMessage(user, 'INBOX', appended?.uid ?? 0);
      const stored = (await collect(open())).toString();
      assert.ok(stored.startsWith('Received: here\r\n') && stored.endsWith(source));
    }
  });
});

/** SQLite's plan for a query. */
async function planOf(queries: Queries, compiled: string): Promise<string> {
  const text = sql.raw(compiled.replaceAll('?', '1'));
  const { rows } = await sql<{ detail: string }>`explain query plan ${text}`.execute(queries);
  return rows.map(({ detail }) => detail).join('; ');
}

const ANY = { mailboxId: 1, snapshot: 1, afterModseq: 1, afterUid: 1, most: 1 };

test('changes are found by MODSEQ, without reading the whole mailbox', async () => {
  const { database } = await openTestMailstore('sqlite');
  for (const kind of ['changed by UID', 'changed by MODSEQ'] as const) {
    const query = liveQuery(
      database.read,
      { kind, columns: ['flags'], newest: false },
      ANY,
    ).compile();
    assert.match(
      await planOf(database.read, query.sql),
      /^SEARCH .*COVERING INDEX messages_by_modseq \(mailbox_id=\? AND \(?modseq.*>.*\?\)/,
    );
  }
});

test('what a sweep removes is found without reading everything', async () => {
  const { database } = await openTestMailstore('sqlite');
  assert.equal(
    await planOf(database.read, oldTombstones(ownTombstones, 1).compile(database.read).sql),
    'SEARCH tombstones USING INDEX tombstones_by_time (expunged_at<?)',
  );
  const named = database.read.selectFrom('bodies').select('file').where('file', 'in', ['a', 'b']);
  assert.match(
    await planOf(database.read, named.compile().sql),
    /^SEARCH bodies USING COVERING INDEX bodies_by_file \(file=\?\)/,
  );
});

test('the thread of an answer is found by key, without reading all mail of the account', async () => {
  const { database } = await openTestMailstore('sqlite');
  const { sql: query } = threadsQuery(database.read, 1, [1, 2]).compile();
  assert.match(
    await planOf(database.read, query),
    /^SEARCH messages USING INDEX messages_by_key \(message_key=\?\)/,
  );
});
