import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { addDocument, prepareIndex, removeDocument } from './sqlite-statements.ts';

test('a document is removed from a segment that was written, where FTS5 gives an id above 2^53', () => {
  const db = new DatabaseSync(':memory:');
  prepareIndex(db);
  db.exec('begin');
  for (let bodyId = 1; bodyId < 20; bodyId++) {
    addDocument(db, { accountId: 1, bodyId, date: bodyId }, [`w${bodyId}`]);
  }
  db.exec('commit');
  removeDocument(db, 1, 3);
  assert.equal(db.prepare('select count(*) as count from documents').get()?.count, 18);
  db.close();
});
