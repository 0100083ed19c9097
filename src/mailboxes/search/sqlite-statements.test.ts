import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addDocument,
  forgetAccount,
  openIndexFile,
  readState,
  removeDocument,
  writeState,
} from './sqlite-statements.ts';

test('all statements go on after removals from written segments, where FTS5 gives ids above 2^53', () => {
  const db = openIndexFile(':memory:');
  const ROUNDS = 200;
  for (let round = 1; round <= ROUNDS; round++) {
    db.exec('begin immediate');
    for (let added = 0; added < round % 3; added++) {
      const bodyId = 10 * round + added;
      addDocument(db, { accountId: 1 + added, bodyId, date: round }, [`w${bodyId}`, 'x']);
    }
    if (round % 4 === 0) removeDocument(db, 1, 10 * (round - 3));
    if (round % 50 === 0) forgetAccount(db, 2, 5);
    writeState(db, 'position', String(round));
    db.exec('commit');
  }
  assert.equal(readState(db, 'position'), String(ROUNDS));
  const { documents, terms } =
    db
      .prepare(
        "select (select count(*) from documents) as documents, (select count(*) from terms where terms match 'x') as terms",
      )
      .get() ?? {};
  assert.equal(documents, terms);
  db.close();
});
