import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { UidSet } from './uid-set.ts';

const uids = fc.uniqueArray(fc.integer({ min: 1, max: 60 }), { maxLength: 40 });
const listOf = (set: UidSet) => [...set.take()];
const sorted = (list: Iterable<number>) => [...list].sort((a, b) => a - b);

void suite('sets of UIDs', () => {
  void test('behave like sets of numbers', () => {
    fc.assert(
      fc.property(uids, uids, fc.integer({ min: 1, max: 60 }), (a, b, at) => {
        const [one, two] = [UidSet.of(a), UidSet.of(b)];
        assert.deepEqual(listOf(one), sorted(a));
        assert.equal(one.size, a.length);
        assert.deepEqual(listOf(one.union(two)), sorted(new Set([...a, ...b])));
        assert.deepEqual(listOf(one.without(two)), sorted(a.filter((uid) => !b.includes(uid))));
        assert.deepEqual(listOf(one.within(at, 50)), sorted(a.filter((u) => u >= at && u <= 50)));
        assert.deepEqual(
          listOf(UidSet.parse([...one.texts()].join(',')) ?? UidSet.empty),
          sorted(a),
        );
      }),
    );
  });

  void test('are read in the form of IMAP, or not at all', () => {
    assert.deepEqual(listOf(UidSet.parse('7,3:1,2:4') ?? UidSet.empty), [1, 2, 3, 4, 7]);
    assert.equal(UidSet.parse('1:4294967295')?.size, 4_294_967_295);
    for (const text of ['', '0', '1:*', '*', '1,', '01', '1:4294967296', '1-2', ' 1']) {
      assert.equal(UidSet.parse(text), undefined, text);
    }
  });

  void test('are written so that each text fits into a command', () => {
    const set = UidSet.of(Array.from({ length: 20_000 }, (_, index) => 1_000_000 + 2 * index));
    const texts = [...set.texts()];
    assert.ok(texts.length > 1 && texts.every((text) => text.length <= 7_000));
    assert.equal(UidSet.parse(texts.join(','))?.size, 20_000);
    assert.deepEqual([...UidSet.between(1, 1_000_000).texts()], ['1:1000000']);
    assert.deepEqual([...UidSet.empty.texts()], []);
  });
});
