/** Threads (RFC 5256 section 4), with the examples of the RFC, and with References that strangers wrote. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Cursor } from './cursor.ts';
import type { Session } from './session.ts';
import { readBaseSubject } from './sort-keys.ts';
import { threading } from './thread.ts';
import { threadNumbers } from './thread-numbers.ts';
import { Threads, writeForest } from './threads.ts';

type Facts = Session['services']['mailstore']['imap']['facts'];

interface Mail {
  readonly id?: string;
  readonly refs?: string;
  readonly subject?: string;
  /** Where it is not its position in the mailbox. */
  readonly at?: number;
}

function load(mails: readonly Mail[]): Threads {
  const threads = new Threads();
  for (const [index, { id, refs = '', subject = '', at = index }] of mails.entries()) {
    const references = refs.split(' ').filter(Boolean);
    const message = { id, references, sentAt: at, subject: readBaseSubject(subject) };
    const numbers = Float64Array.from(threadNumbers(message));
    threads.add(numbers, 0, numbers.length);
  }
  return threads;
}

async function byReferences(mails: readonly Mail[]): Promise<string> {
  const forest = await load(mails).byReferences();
  return [...writeForest(forest, (message) => message + 1)].join('');
}

async function bySubject(mails: readonly Mail[]): Promise<string> {
  const forest = await load(mails).bySubject();
  return [...writeForest(forest, (message) => message + 1)].join('');
}

/** Messages `1`, `2` and so on with these references. */
const of = (...refs: readonly string[]): Mail[] =>
  refs.map((one, index) => ({ id: `${index + 1}`, refs: one }));

test('the first example: a thread alone, and one that branches twice', async () => {
  const refs = new Map(Object.entries({ 6: '3', 4: '3 6', 23: '4', 44: '6', 7: '44', 96: '7' }));
  const mails = Array.from({ length: 96 }, (_, at) => ({
    id: `${at + 1}`,
    refs: refs.get(`${at + 1}`) ?? '',
  }));
  const all = await byReferences(mails);
  assert.ok(all.startsWith('(1)(2)(3 6 (4 23)(44 7 96))(5)(8)'), all);
});

test('the second example: two answers to a message that is not there', async () => {
  assert.equal(await byReferences(of('0', '0')), '((1)(2))');
  assert.equal(await byReferences(of('0')), '(1)');
  assert.equal(await byReferences(of('0', '0', '1', '1')), '((1 (3)(4))(2))');
});

test('one that is not there in the middle is left out, and its answers move up', async () => {
  assert.equal(await byReferences(of('', '1 x', '1 x')), '(1 (2)(3))');
  assert.equal(await byReferences(of('r x', 'r x', 'r')), '((1)(2)(3))');
});

test('what a message says of itself counts more than what another says of it', async () => {
  // 3 names 2 below 1; 2 names x as the one it answers.
  assert.equal(await byReferences(of('', 'x', '1 2')), '(1)(2 3)');
});

test('loops are not made', async () => {
  assert.equal(await byReferences(of('2', '1')), '(2 1)');
  assert.equal(await byReferences(of('1')), '(1)');
  assert.equal(await byReferences(of('3 2', '1 3', '2 1')), '(3 2 1)');
});

test('a second message with an id stands for itself; quotes of a local part mean nothing', async () => {
  assert.equal(await byReferences([{ id: 'a@b' }, { id: 'a@b' }, { refs: '"a"@b' }]), '(1 3)(2)');
  assert.equal(await byReferences([{}, {}]), '(1)(2)');
});

test('siblings and threads are by date, a thread without its first message by its first answer', async () => {
  const mails: Mail[] = [
    { id: 'a', at: 5 },
    { id: 'b', refs: 'a', at: 9 },
    { id: 'c', refs: 'a', at: 7 },
    { id: 'd', refs: 'x', at: 6 },
    { id: 'e', refs: 'x', at: 1 },
  ];
  assert.equal(await byReferences(mails), '((5)(4))(1 (3)(2))');
});

test('threads of one subject become one', async () => {
  const subjects = (...all: readonly string[]): Mail[] => all.map((subject) => ({ subject }));
  assert.equal(await byReferences(subjects('a', 'Re: a', 'b', 'Re: a')), '(1 (2)(4))(3)');
  assert.equal(await byReferences(subjects('Re: a', 'a')), '(2 1)');
  assert.equal(await byReferences(subjects('a', 'a')), '((1)(2))');
  assert.equal(await byReferences(subjects('Re: a', 'Re: a', 'Re: a')), '((1)(2)(3))');
  assert.equal(await byReferences(subjects('', '')), '(1)(2)');
  const twice = ['x', 'x', 'y', 'y'].map((refs) => ({ refs, subject: 'Re: a' }));
  assert.equal(await byReferences(twice), '((1)(2)(3)(4))');
  assert.equal(await byReferences([...twice, { subject: 'a' }]), '((1)(2)(3)(4)(5))');
});

test('by subjects a thread is the first message, and all others with its subject', async () => {
  const mails: Mail[] = [
    { subject: 'b', at: 4 },
    { subject: 'Re: a', at: 3 },
    { subject: 'a', at: 2 },
    { subject: 'B (fwd)', at: 5 },
    { subject: '[x] a', at: 6 },
  ];
  assert.equal(await bySubject(mails), '(3 (2)(5))(1)(4)');
  assert.equal(await bySubject([{ subject: '' }, {}]), '(1 2)');
});

test('every message is in one thread once, whatever References say', async () => {
  const id = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f');
  const mail = fc.record({
    id: fc.oneof(id, fc.constant(undefined)),
    refs: fc.array(id, { maxLength: 5 }).map((all) => all.join(' ')),
    subject: fc.constantFrom('', 'x', 'Re: x', 'y', 'Re: y'),
    at: fc.nat(5),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(mail, { maxLength: 12 }), async (mails) => {
      const given = mails.map(({ id, ...rest }) => (id === undefined ? rest : { id, ...rest }));
      for (const text of [await byReferences(given), await bySubject(given)]) {
        const told = (text.match(/\d+/g) ?? []).map(Number).sort((a, b) => a - b);
        assert.deepEqual(
          told,
          [...given.keys()].map((at) => at + 1),
        );
        assert.doesNotMatch(text, /\(\)|\( |\) | \)/);
      }
    }),
    { numRuns: 300 },
  );
});

test('a thread may be as deep as there are messages, in any order', async () => {
  const length = 20_000;
  const chain = Array.from({ length }, (_, at) => ({
    id: `${at}`,
    refs: at > 0 ? `${at - 1}` : '',
  }));
  const numbers = [...chain.keys()].map((at) => at + 1);
  assert.equal(await byReferences(chain), `(${numbers.join(' ')})`);
  const backwards = chain.toReversed().map((mail, at) => ({ ...mail, at: -at }));
  assert.equal(await byReferences(backwards), `(${numbers.toReversed().join(' ')})`);
});

test('by subjects no source is read: it may be large, or in a bucket that is away', async () => {
  const uids = [1, 2, 3];
  const facts = {
    read: async () => uids.map((uid) => ({ uid, sent_at: uid })),
    async ofThreads(...[, , kind, { make, take }]: Parameters<Facts['ofThreads']>) {
      assert.equal(kind, 'subjects');
      for (const [uid, numbers] of await make(uids)) {
        take(uid, Float64Array.from(numbers), 0, numbers.length);
      }
    },
  };
  const imap = {
    facts,
    rows: async (_mailbox: unknown, asked: readonly number[], columns: readonly string[]) => {
      assert.deepEqual(columns, ['body_id', 'envelope']);
      const envelope = (uid: number) => JSON.stringify({ subject: uid === 2 ? 'b' : 'a' });
      return asked.map((uid) => ({ uid, body_id: uid, envelope: envelope(uid) }));
    },
  };
  const session = {
    selected: { uids, mailbox: {}, saved: [] },
    user: { accountId: 1, userId: 'u', address: 'a@b.test' },
    channel: { signal: new AbortController().signal },
    services: { mailstore: { imap } },
  } as unknown as Session;
  const answer = threading(true).run(session, new Cursor([' ORDEREDSUBJECT UTF-8 ALL']));
  assert.equal((await Array.fromAsync(answer)).join(''), '* THREAD (1 3)(2)\r\n');
});
