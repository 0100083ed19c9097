/** What FETCH reads and holds of a mailbox and its messages. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { SyncRequest } from '../../mailboxes/mailstore/mailstore.ts';
import { Cursor } from './cursor.ts';
import { fetching } from './fetch.ts';
import { select } from './select.ts';
import { type Answer, Bye, type Session } from './session.ts';
import { View } from './view.ts';
import type { Output, Part } from './write.ts';

const UIDS = Array.from({ length: 12_000 }, (_, at) => at + 1);

const mailbox = {
  ...{ id: 1, name: 'INBOX', uidvalidity: 1, highestmodseq: 1, pruned_modseq: 0, fork_modseq: 0 },
  ...{ uidnext: 100, messages: 3, unseen: 0, octets: 0, special_use: null },
  ...{ keywords: '', recent_uid: 1 },
};

/** @param imap what the mail store answers */
function sessionOf(uids: number[], imap: object): { session: Session; leave: () => void } {
  const client = new AbortController();
  const session = {
    selected: new View({ mailbox, uids, token: '1', isReadOnly: false }),
    user: { accountId: 1, userId: 'u', address: 'a@b.test' },
    channel: { signal: client.signal },
    services: { mailstore: { imap } },
  } as unknown as Session;
  return { session, leave: () => client.abort(new Bye('left')) };
}

/** Many lines may come in one text. */
function linesOf(output: Output): string[] {
  return [output]
    .flat()
    .map(String)
    .join('')
    .split(/(?<=\r\n)/);
}

test('flags are read in pieces, so that a client that does not read holds no mailbox', async () => {
  let reads = 0;
  const index = async () => {
    reads++;
    return { uids: UIDS, modseqs: UIDS, flags: UIDS.map(() => '') };
  };
  const { session } = sessionOf(UIDS, { index });
  const answer = fetching(false).run(session, new Cursor([' 1:* FLAGS']));
  const lines: string[] = [];
  const first = await answer.next();
  assert.equal(reads, 1);
  if (!first.done) lines.push(...linesOf(first.value));
  for await (const part of answer) lines.push(...linesOf(part));
  assert.equal(lines.length, UIDS.length);
  assert.equal(reads, 3);
});

test('of sources a quarter of a megabyte is read before the client has taken what was read before', async () => {
  const size = 64 * 1024;
  let octets = 0;
  const imap = {
    rows: async (_mailbox: unknown, uids: readonly number[]) =>
      uids.map((uid) => ({ uid, modseq: 1, flags: '', size, body_id: uid })),
    bodies: async (ids: readonly number[]) => {
      octets += ids.length * size;
      return new Map(ids.map((id) => [id, { content: Buffer.alloc(size) }]));
    },
  };
  const uids = UIDS.slice(0, 64);
  const answer = fetching(false).run(
    sessionOf(uids, imap).session,
    new Cursor([' 1:* (FLAGS BODY.PEEK[])']),
  );
  assert.equal((await answer.next()).done, false);
  assert.equal(octets, 256 * 1024);
  for await (const _ of answer);
  assert.equal(octets, uids.length * size);
});

test('where a FETCH sets \\Seen, the index of the mailbox is not made again for each piece', async () => {
  const imap = {
    facts: { read: () => assert.fail('each read needs the index as it is now') },
    rows: async (_mailbox: unknown, uids: readonly number[]) =>
      uids.map((uid) => ({ uid, modseq: 1, flags: '', size: 1, body_id: uid })),
    bodies: async (ids: readonly number[]) =>
      new Map(ids.map((id) => [id, { content: Buffer.of(0x78) }])),
  };
  const setFlags = async (_user: unknown, uids: readonly number[]) => ({
    updated: uids.map((uid) => ({ uid, flags: ['\\Seen'], modseq: '2' })),
  });
  const session = {
    ...sessionOf(UIDS.slice(0, 600), imap).session,
    ...{ services: { mailstore: { imap, setFlags } }, told: new Map() },
    setOf: (uids: readonly number[]) => uids,
  } as unknown as Session;
  let seen = 0;
  for await (const part of fetching(false).run(session, new Cursor([' 1:* BODY[]']))) {
    for (const one of [part].flat()) seen += String(one).split('\\Seen').length - 1;
  }
  assert.equal(seen, 600);
});

test('a header of any size is read once, as far as headers are, and no more once the client left', async () => {
  let octets = 0;
  const structure = JSON.stringify({ part: '', headerStart: 0, bodyStart: 50_000_000 });
  const row = { uid: 1, modseq: 1, flags: '', size: 50_000_000, body_id: 7, structure };
  const imap = {
    rows: async () => [row],
    headers: async () => new Map([[7, '']]),
    body: async () => ({ file: 'a' }),
    bodies: async () => new Map([[7, { content: undefined }]]),
    async *source(_body: unknown, { start, end }: { start: number; end: number }) {
      octets += end - start;
      yield Buffer.from(`A: ${'x'.repeat(70_000)}\r\n`);
    },
  };
  const { session, leave } = sessionOf([1], imap);
  const items = Array.from({ length: 50 }, (_, at) => `BODY.PEEK[HEADER.FIELDS (A B${at})]`);
  const answer = fetching(false).run(session, new Cursor([` 1 (${items.join(' ')})`]));
  assert.equal((await answer.next()).done, false);
  assert.equal(octets, 256 * 1024);
  leave();
  await assert.rejects(async () => {
    for (;;) if ((await answer.next()).done) return;
  }, /left/);
  // The same where its usual fields are too long to be kept.
  const long = sessionOf([1], imap);
  octets = 0;
  const usual = ['FROM', 'TO', 'CC'].map((name) => `BODY.PEEK[HEADER.FIELDS (${name})]`);
  for await (const _ of fetching(false).run(long.session, new Cursor([` 1 (${usual.join(' ')})`])));
  assert.equal(octets, 256 * 1024);
});

/** A FETCH of two messages, whose second source cannot be read. @param octets of their envelopes */
function fetchTwo(octets: readonly number[]) {
  let reads = 0;
  const structure = JSON.stringify({ part: '', headerStart: 0, bodyStart: 10 });
  const rows = octets.map((length, at) => {
    const row = { uid: at + 1, modseq: 1, flags: '', size: 50, body_id: at + 1, structure };
    return { ...row, kept_envelope: 'x'.repeat(length) };
  });
  const { session } = sessionOf([1, 2], {
    rows: async () => rows,
    bodies: async () => new Map([1, 2].map((id) => [id, { content: undefined }])),
    async *source() {
      if (++reads > 1) throw new Error('the bucket does not answer');
      yield Buffer.from('Subject: a');
    },
  });
  const command = new Cursor([' 1:2 (ENVELOPE BODY.PEEK[HEADER.FIELDS (X-OTHER)])']);
  return { answer: fetching(false).run(session, command), reads: () => reads };
}

test('a source is read once the client has taken what stands before it, and not where it left', async () => {
  // Together their envelopes are what is sent at a time.
  const { answer, reads } = fetchTwo([1_000, 65_000]);
  assert.equal((await answer.next()).done, false);
  // A failure that nobody waited for would end the process.
  await new Promise(setImmediate);
  assert.equal(reads(), 1);
  // The second message has begun: no other answer may follow.
  await assert.rejects(
    answer.next(),
    (error) => error instanceof Bye && /the bucket does not answer/.test(String(error.cause)),
  );
  assert.equal(reads(), 2);
});

test('of a message that has begun the rest is sent, although the next one cannot be read', async () => {
  const { answer } = fetchTwo([66_000, 1_000]);
  let text = '';
  await assert.rejects(
    async () => {
      for (;;) text += (await answer.next()).value;
    },
    // A NO may follow.
    (error) => !(error instanceof Bye) && /the bucket does not answer/.test(String(error)),
  );
  assert.match(text, /^\* 1 FETCH \(ENVELOPE x{66000} BODY.*\)\r\n$/s);
  assert.ok(!text.includes('* 2'));
});

test('of each row only the columns are read that the command needs', async () => {
  const message = {
    ...{ body_id: 7, modseq: 9, flags: '\\Seen', size: 5, internal_date: 0 },
    ...{ kept_structure: '()', kept_envelope: '(NIL)' },
  };
  for (const [asked, columns, told] of [
    ['BODYSTRUCTURE', ['body_id', 'kept_structure'], '* 1 FETCH (BODYSTRUCTURE ())\r\n'],
    ['ENVELOPE', ['body_id', 'kept_envelope'], '* 1 FETCH (ENVELOPE (NIL))\r\n'],
    ['FLAGS', ['body_id', 'flags'], '* 1 FETCH (FLAGS (\\Seen))\r\n'],
    ['MODSEQ', ['body_id', 'modseq'], '* 1 FETCH (MODSEQ (9))\r\n'],
    ['FLAGS (CHANGEDSINCE 9)', ['body_id', 'modseq', 'flags'], ''],
    ['BODY.PEEK[]', ['body_id', 'size'], '* 1 FETCH (BODY[] {5}\r\nHello)\r\n'],
    // The flag that it sets is looked for.
    ['BODY[]', ['body_id', 'flags', 'size'], '* 1 FETCH (BODY[] {5}\r\nHello)\r\n'],
  ] as const) {
    const read: string[] = [];
    const imap = {
      rows: async (_mailbox: unknown, [uid]: readonly number[], names: readonly string[]) => {
        read.push(...names);
        const row = Object.entries(message).filter(([name]) => names.includes(name));
        return [{ uid, ...Object.fromEntries(row) }];
      },
      bodies: async () => new Map([[7, { content: Buffer.from('Hello') }]]),
    };
    const session = { ...sessionOf([1], imap).session, enableCondstore: () => '' };
    const parts: Part[] = [];
    for await (const part of fetching(false).run(
      session as unknown as Session,
      new Cursor([` 1 ${asked}`]),
    ))
      parts.push(...[part].flat());
    assert.equal(parts.map(String).join(''), told);
    assert.deepEqual(new Set(read), new Set(columns), asked);
  }
});

/** How many turns of the event loop an answer takes, where each look at the clock takes eleven milliseconds. */
async function turnsOf(t: TestContext, answer: Answer): Promise<number> {
  let now = 0;
  t.mock.method(performance, 'now', () => {
    now += 11;
    return now;
  });
  let isOver = false;
  const reading = (async () => {
    for await (const _ of answer);
  })().finally(() => {
    isOver = true;
  });
  let turns = 0;
  for (; !isOver; turns++) await turn();
  await reading;
  t.mock.restoreAll();
  return turns;
}

test('others have their turn between the items of one message, and between messages whose texts are made', async (t) => {
  const content = Buffer.from(`${'a: b\r\n'.repeat(2_000)}\r\nHi`);
  const structure = JSON.stringify({
    ...{ part: '1', type: 'text/plain', encoding: '7bit', size: 2, lines: 1 },
    ...{ headerStart: 0, bodyStart: content.length - 2, bodyEnd: content.length },
  });
  const imap = {
    rows: async (_mailbox: unknown, uids: readonly number[]) =>
      uids.map((uid) => ({
        ...{ uid, body_id: uid, size: content.length, structure },
        ...{ kept_envelope: null, kept_structure: null },
      })),
    body: async () => ({ content }),
    bodies: async (ids: readonly number[]) => new Map(ids.map((id) => [id, { content }])),
    headers: async () => new Map(),
    keepHeaders: async () => {},
    texts: async () => new Map(),
    keepTexts: async () => {},
  };
  const turnsFor = (uids: number[], asked: string) =>
    turnsOf(t, fetching(false).run(sessionOf(uids, imap).session, new Cursor([` 1:* ${asked}`])));
  const items = Array.from({ length: 30 }, (_, at) => `BODY.PEEK[HEADER.FIELDS (X${at})]`);
  // Of a header that is read for them, and of one that is in memory with its message.
  for (const first of ['', 'BODY.PEEK[TEXT] ']) {
    const turns = await turnsFor([1], `(${first}${items.join(' ')})`);
    assert.ok(turns > 10, `${turns} turns: ${first}`);
  }
  // For each message one before it is made, and one before it is written.
  for (const [asked, least] of [
    ['ENVELOPE', 2 * 30],
    ['BODY.PEEK[HEADER.FIELDS (SUBJECT)]', 2 * 30],
  ] as const) {
    const turns = await turnsFor(UIDS.slice(0, 30), asked);
    assert.ok(turns >= least, `${turns} turns: ${asked}`);
  }
});

/** The lines of VANISHED in an answer. */
async function vanishedIn(answer: Answer): Promise<string[]> {
  const lines: string[] = [];
  for await (const part of answer) lines.push(...[part].flat().map(String));
  return lines.filter((line) => line.includes('VANISHED'));
}

test('what was removed earlier is told, but for a message that the session still sees', async () => {
  // Message 2 was removed after the list of messages was read.
  const changes = { added: [], updated: [], removed: [1, 2, 4].map((uid) => ({ uid })) };
  const uids = [2, 3];
  const imap = {
    open: async () => mailbox,
    select: async () => ({ index: { uids, flags: ['', ''] }, mailbox }),
    keywords: async () => [],
    objectIds: { mailbox: () => 'm1' },
    rows: async () => [],
    // Messages that came after the state which the program names.
    passedSince: async () => [2, 3, 5],
  };
  const sync = async (_: unknown, { fields }: SyncRequest) => {
    // With them there would be pages.
    assert.equal(fields, undefined);
    return { token: '9', changes };
  };
  const mailstore = { imap, sync };
  const session = {
    ...sessionOf(uids, imap).session,
    qresync: true,
    isRev2: false,
    services: { mailstore, recents: { open: () => undefined } },
    closeMailbox: async () => {},
    enableCondstore: () => '',
    openMailbox: () => {},
  } as unknown as Session;
  const told = ['* VANISHED (EARLIER) 1,4:5\r\n'];
  const resync = new Cursor([' INBOX (QRESYNC (1 1))']);
  assert.deepEqual(await vanishedIn(select.run(session, resync)), told);
  const since = new Cursor([' 1:* FLAGS (CHANGEDSINCE 1 VANISHED)']);
  assert.deepEqual(await vanishedIn(fetching(true).run(session, since)), told);
});

test('of many messages that changed while a program was away, flags are read as it reads', async () => {
  let reads = 0;
  const imap = {
    select: async () => ({ index: { uids: UIDS, flags: UIDS.map(() => '') }, mailbox }),
    keywords: async () => [],
    objectIds: { mailbox: () => 'm1' },
    passedSince: async () => [],
    index: async () => {
      reads++;
      return { uids: UIDS, modseqs: UIDS.map(() => 2), flags: UIDS.map(() => '\\Seen') };
    },
  };
  const updated = UIDS.map((uid) => ({ uid, modseq: '2', flags: ['\\Seen'] }));
  const sync = async () => ({ token: '2', changes: { added: [], updated, removed: [] } });
  const session = {
    ...sessionOf(UIDS, imap).session,
    ...{ condstore: true, qresync: true, isRev2: false },
    services: { mailstore: { imap, sync }, recents: { open: () => undefined } },
    closeMailbox: async () => {},
    openMailbox: () => {},
  } as unknown as Session;
  const lines: string[] = [];
  for await (const part of select.run(session, new Cursor([' INBOX (QRESYNC (1 1))']))) {
    lines.push(...linesOf(part));
    assert.ok(reads <= Math.ceil(lines.length / 5_000) + 1, `${reads} for ${lines.length} lines`);
  }
  assert.equal(reads, 3);
  const fetched = lines.filter((line) => line.includes('FETCH'));
  assert.deepEqual(
    fetched,
    UIDS.map((uid) => `* ${uid} FETCH (UID ${uid} FLAGS (\\Seen) MODSEQ (2))\r\n`),
  );
});
