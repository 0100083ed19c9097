import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AddedMessage, SyncResult } from '../../mailboxes/mailstore/mailstore.ts';
import { writeInPieces } from './mail-sync.ts';

const PIECE_MAX = 1_000_000;

function answerOf(changes: Partial<SyncResult['changes']>, hasMore?: true): SyncResult {
  return {
    mailbox: 'INBOX',
    uidvalidity: '1',
    token: '0.9.4',
    changes: { added: [], updated: [], removed: [], ...changes },
    ...(hasMore && { hasMore }),
  };
}

function write(answer: SyncResult, withTexts: boolean): string[] {
  const pieces: string[] = [];
  const writing = writeInPieces(answer, withTexts);
  for (;;) {
    const { done, value } = writing.next();
    pieces.push(value);
    if (done) return pieces;
  }
}

/** Messages with envelopes of this length in characters. */
function messages(count: number, length: number): AddedMessage[] {
  return Array.from({ length: count }, (_, index) => ({
    uid: index + 1,
    envelope: { subject: 'x'.repeat(length) },
  }));
}

test('large messages are written a few at a time', () => {
  const answer = answerOf({ added: messages(9, 500_000), removed: [{ uid: 70 }] }, true);
  const pieces = write(answer, true);
  assert.deepEqual(JSON.parse(pieces.join('')), answer);
  assert.ok(pieces.length >= 9);
  for (const piece of pieces) assert.ok(piece.length < PIECE_MAX);
});

test('many small ones are written many at a time', () => {
  const answer = answerOf({ added: messages(5_000, 200) });
  const pieces = write(answer, true);
  assert.deepEqual(JSON.parse(pieces.join('')), answer);
  assert.ok(pieces.length > 1 && pieces.length < 30, `${pieces.length} pieces`);
});

test('changes without such fields are limited as well, for any flags', () => {
  const keyword = 'k'.repeat(64);
  const answer = answerOf({
    added: Array.from({ length: 30_000 }, (_, index) => ({ uid: 500 + index })),
    updated: Array.from({ length: 450 }, (_, index) => ({
      uid: index + 1,
      modseq: '8',
      flags: Array.from({ length: 64 }, () => keyword),
    })),
    removed: [{ uid: 451 }, { uid: 452 }],
  });
  const pieces = write(answer, false);
  assert.deepEqual(JSON.parse(pieces.join('')), answer);
  assert.ok(pieces.length > 3);
  for (const piece of pieces) assert.ok(piece.length < 1.3 * PIECE_MAX);
});

test('a short answer is one piece', () => {
  for (const answer of [
    answerOf({}),
    answerOf({ added: messages(3, 100), updated: [{ uid: 9, modseq: '7', flags: ['\\Seen'] }] }),
  ]) {
    assert.deepEqual(
      write(answer, true).map((text) => JSON.parse(text)),
      [answer],
    );
  }
});
