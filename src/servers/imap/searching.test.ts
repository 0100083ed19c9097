/** A search takes no more of the process than its share. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { parseMessage } from '../../protocols/message/message.ts';
import { BadCommand, Cursor } from './cursor.ts';
import { Search } from './find-messages.ts';
import { readSearch } from './parse-search.ts';
import { searching } from './search.ts';
import { No, type Session } from './session.ts';
import { View } from './view.ts';

const UIDS = Array.from({ length: 500 }, (_, at) => at + 1);

/** @param imap what the mail store answers */
function sessionOf(
  accountId: number,
  userId: string,
  imap: object,
  uids: readonly number[] = UIDS,
): Session {
  const mailbox = {
    ...{ id: 1, name: 'INBOX', uidvalidity: 1, highestmodseq: 1, pruned_modseq: 0, fork_modseq: 0 },
    ...{ uidnext: 100, messages: 3, unseen: 0, octets: 0, special_use: null },
    ...{ keywords: '', recent_uid: 1 },
  };
  return {
    selected: new View({ mailbox, uids, token: '1', isReadOnly: false }),
    user: { accountId, userId, address: 'a@b.test' },
    channel: { signal: new AbortController().signal },
    services: { mailstore: { imap } },
  } as unknown as Session;
}

const byFlags = () =>
  sessionOf(1, 'u', {
    index: async () => ({ uids: UIDS, modseqs: UIDS, flags: UIDS.map(() => '\\Seen') }),
  });
const keyOf = (text: string) => readSearch(new Cursor([` ${text}`])).key;

/** A message of which every column can be read, and nothing else is known. */
const MESSAGE: Readonly<Record<string, unknown>> = {
  ...{ modseq: 5, flags: '\\Seen', size: 10, internal_date: Date.UTC(2026, 0, 2) },
  ...{ saved_at: Date.UTC(2026, 0, 2), body_id: 7, thread_id: 3, preview: null },
  kept_search: JSON.stringify({ subject: 'hello' }),
  structure: JSON.stringify({ part: '', headerStart: 0, bodyStart: 0, bodyEnd: 0, type: 'a/b' }),
};

/** The mail store with that message, and the columns that were read of it. */
function storeOfOne() {
  const read: string[] = [];
  const imap = {
    rows: async (_mailbox: unknown, [uid]: readonly number[], columns: readonly string[]) => {
      read.push(...columns);
      return [{ uid, ...Object.fromEntries(columns.map((name) => [name, MESSAGE[name]])) }];
    },
    body: async () => undefined,
    headers: async () => new Map([[7, '\r\n']]),
    objectIds: { email: (id: number) => `M${id}`, thread: (id: number) => `T${id}` },
  };
  return { imap, read };
}

test('a date that no calendar has is refused, and not taken for another', () => {
  assert.ok(keyOf('SINCE 29-Feb-2020'));
  for (const text of [
    'SINCE 30-Feb-2020',
    'BEFORE 29-Feb-2021',
    'SENTON 31-Apr-2020',
    'ON 1-Fob-2020',
  ]) {
    assert.throws(() => keyOf(text), BadCommand, text);
  }
});

describe('a search reads of each row what its keys need', () => {
  for (const [text, columns] of [
    ['SINCE 1-Jan-2026', ['internal_date']],
    ['SAVEDSINCE 1-Jan-2026', ['saved_at']],
    ['LARGER 9 SEEN', ['flags', 'size']],
    ['EMAILID M7', []],
    ['THREADID T3', ['thread_id']],
    ['SUBJECT hello', ['kept_search']],
    ['OR LARGER 10 NOT (SUBJECT other UNSEEN)', ['flags', 'size', 'kept_search']],
    ['SENTSINCE 1-Jan-2026', ['internal_date']],
    ['NOT HEADER SUBJECT b', []],
    ['NOT HEADER X-A b', ['structure']],
    ['NOT TEXT b', ['structure']],
  ] as const) {
    test(text, async () => {
      const { imap, read } = storeOfOne();
      const { uids } = await new Search(sessionOf(1, 'u', imap, [1]), keyOf(text), []).run();
      assert.deepEqual(uids, [1]);
      assert.deepEqual(new Set(read), new Set(['modseq', 'body_id', ...columns]));
    });
  }
});

/**
 * The mail store with one message, and how many octets of it were read.
 *
 * @param kept the fields that it keeps of the header
 */
async function storeOf(lines: readonly string[], kept = '') {
  const content = Buffer.from(lines.join('\r\n'));
  const pieces = async function* (start = 0, end = content.length) {
    for (let at = start; at < end; at += 65_536) {
      octets += Math.min(end, at + 65_536) - at;
      yield content.subarray(at, Math.min(end, at + 65_536));
    }
  };
  let octets = 0;
  const { structure } = await parseMessage(pieces());
  octets = 0;
  const imap = {
    rows: async (_mailbox: unknown, uids: readonly number[]) =>
      uids.includes(1) ? [{ uid: 1, ...MESSAGE, structure: JSON.stringify(structure) }] : [],
    body: async () => ({ content }),
    source: (_body: unknown, { start, end }: { start: number; end: number }) => pieces(start, end),
    headers: async () => new Map([[7, kept]]),
  };
  const finds = async (text: string) =>
    (await new Search(sessionOf(1, 'u', imap, [1]), keyOf(text), []).run()).uids.length > 0;
  return { finds, octets: () => octets };
}

test('the body of a message has the headers and texts of those that are forwarded in it', async () => {
  const { finds } = await storeOf([
    ...['Subject: Fwd', 'Content-Type: multipart/mixed; boundary=o', '', '--o', '', 'See below'],
    ...['--o', 'Content-Type: message/rfc822', '', 'Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?='],
    ...['Content-Type: multipart/mixed; boundary=i', '', '--i', '', 'inner words'],
    ...['--i', 'Content-Type: message/rfc822', '', 'From: deep@a.test', '', 'deepest', '--i--'],
    ...['--o--', ''],
  ]);
  for (const key of ['BODY', 'TEXT']) {
    for (const text of ['see below', 'grüße', 'Inner', 'deep@a.test', 'deepest']) {
      assert.equal(await finds(`${key} "${text}"`), true, `${key} ${text}`);
    }
  }
  assert.equal(await finds('BODY Fwd'), false);
  assert.equal(await finds('TEXT Fwd'), true);
  assert.equal(await finds('TEXT absent'), false);
});

test('fields that are kept are not read from the source: headers of a large mailbox are more than one search may read', async () => {
  const header = ['Date: Fri, 2 Jan 2026 23:30:00 -0300', 'Message-ID: <a@b>', 'X-Own: c', ''];
  const keys = ['HEADER Message-ID A@B', 'SENTON 2-Jan-2026', 'NOT HEADER Subject ""'];
  const { finds, octets } = await storeOf(header, `${header.slice(0, 2).join('\r\n')}\r\n\r\n`);
  for (const key of keys) assert.equal(await finds(key), true, key);
  assert.equal(octets(), 0);
  assert.equal(await finds('HEADER X-Own c'), true);
  assert.ok(octets() > 0);
  // Some are too long to be kept.
  const unkept = await storeOf(header);
  for (const key of keys) assert.equal(await unkept.finds(key), true, key);
  assert.ok(unkept.octets() > 0);
});

test('the day on which mail was sent is the one that its sender wrote, in whichever form', async () => {
  for (const date of [
    'Fri, 9 Jan 2026 23:30:00 -0300',
    'Fri, 9 Jan 2026 0:30 +1400 (19:30 there)',
    'Fri , 9 Jan 26 23 : 30 : 60 PST',
    'Fri Jan  9 23:30:00 2026',
    'Fri Jan  9 23:30:00 PST 2026',
    '2026-01-09T23:30:00.000-06:00',
  ]) {
    const { finds } = await storeOf([`Date: ${date}`, '']);
    assert.equal(await finds('SENTON 9-Jan-2026'), true, date);
    assert.equal(await finds('NOT SENTSINCE 9-Jan-2026'), false, date);
    assert.equal(await finds('SENTBEFORE 9-Jan-2026'), false, date);
    assert.equal(await finds('SENTBEFORE 10-Jan-2026'), true, date);
  }
  // Without a date that can be read, it is the day on which the mail arrived, as with SORT (RFC 5256 section 2.2).
  for (const header of ['Date: Fri, 9 Jan -026 23:30:00 Z', 'Subject: none']) {
    const { finds } = await storeOf([header, '']);
    assert.equal(await finds('SENTON 2-Jan-2026'), true, header);
  }
});

test('of the texts of a message a megabyte is read', async () => {
  const text = Array<string>(300_000).fill('a line of some length');
  for (const type of ['text/plain', 'text/html']) {
    const { finds, octets } = await storeOf([`Content-Type: ${type}`, '', 'begin', ...text, 'end']);
    assert.equal(await finds('BODY begin'), true);
    assert.equal(await finds('BODY end'), false);
    assert.ok(octets() < 2 * 1_200_000, `${octets()} octets for two searches`);
  }
});

test('a message of before 1970 is before a later day', async () => {
  const old = Date.UTC(1969, 6, 20);
  const imap = {
    ...storeOfOne().imap,
    rows: async () => [{ uid: 1, ...MESSAGE, internal_date: old, saved_at: old }],
  };
  for (const text of [
    'BEFORE 1-Jan-2026',
    'OLDER 60',
    'SAVEDBEFORE 1-Jan-2026',
    'SENTBEFORE 1-Jan-2026',
  ]) {
    const found = await new Search(sessionOf(1, 'u', imap, [1]), keyOf(text), []).run();
    assert.ok(found.uids.length > 0, text);
    const none = await new Search(sessionOf(1, 'u', imap, [1]), keyOf(`NOT ${text}`), []).run();
    assert.deepEqual(none.uids, [], text);
  }
});

test('all keys of a search that count seconds are of one instant', (t) => {
  let now = Date.UTC(2026, 0, 2);
  t.mock.method(Date, 'now', () => ++now);
  const arrived = { kind: 'arrived' };
  assert.deepEqual(keyOf('OLDER 60 YOUNGER 60'), {
    kind: 'and',
    keys: [
      { ...arrived, from: -Number.MAX_SAFE_INTEGER, before: now - 60_000 + 1 },
      { ...arrived, from: now - 60_000, before: Number.MAX_SAFE_INTEGER },
    ],
  });
});

describe('a search', () => {
  /** Each look at the clock takes this many milliseconds. */
  function slowDown(t: TestContext, milliseconds: number): void {
    let now = 0;
    t.mock.method(performance, 'now', () => {
      now += milliseconds;
      return now;
    });
  }

  test('by flags gives others their turn', async (t) => {
    slowDown(t, 1);
    let turns = 0;
    let isOver = false;
    const found = new Search(byFlags(), keyOf('UNKEYWORD a MODSEQ 1'), []).run();
    void found.then(() => {
      isOver = true;
    });
    for (; !isOver; turns++) await turn();
    assert.equal((await found).uids.length, UIDS.length);
    assert.ok(turns > 20, `${turns} turns`);
  });

  test('that takes too long is refused', async (t) => {
    slowDown(t, 100);
    const found = new Search(byFlags(), keyOf('UNSEEN MODSEQ 1'), []).run();
    await assert.rejects(found, (error) => error instanceof No && error.code === 'LIMIT');
  });

  test('by flags alone looks once at messages that have the same', async (t) => {
    slowDown(t, 1);
    const found = await new Search(byFlags(), keyOf('SEEN UNKEYWORD a'), []).run();
    assert.equal(found.uids.length, UIDS.length);
    assert.ok(performance.now() < 100, 'the clock, which goes on with each look, says so');
  });

  test('of a user with many accounts leaves turns to others', async () => {
    const waiting: string[] = [];
    const { promise: ended, resolve: end } = Promise.withResolvers<never[]>();
    const rows = (name: string) => () => {
      waiting.push(name);
      return ended;
    };
    const answers: Promise<unknown>[] = [];
    const begin = (accountId: number, userId: string) => {
      const session = sessionOf(accountId, userId, { rows: rows(userId) });
      const answer = searching(false).run(session, new Cursor([' BODY x']));
      answers.push(answer.next());
    };
    for (const accountId of [1, 2, 3, 4]) begin(accountId, 'many');
    begin(9, 'one');
    for (let turns = 0; turns < 20; turns++) await turn();
    assert.deepEqual(waiting.sort(), ['many', 'many', 'one']);
    // The turns are those of the process: tests after this one need them.
    end([]);
    await Promise.all(answers);
  });
});
