import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Gathered } from './gathered.ts';

test('what came in pieces of any size is one piece, in memory of its own', () => {
  const whole = Buffer.from(Array.from({ length: 5_000 }, (_, index) => index % 251));
  for (const step of [1, 2, 7, 1_000, 4_999, 5_000]) {
    const gathered = new Gathered();
    for (let at = 0; at < whole.length; at += step) gathered.add(whole.subarray(at, at + step));
    assert.equal(gathered.size, whole.length);
    const taken = gathered.take();
    assert.equal(taken.buffer.byteLength, whole.length);
    assert.ok(whole.equals(taken));
    assert.equal(gathered.size, 0);
  }
});

test('nothing gathered is nothing taken, and it can begin anew', () => {
  const gathered = new Gathered();
  assert.equal(gathered.take().length, 0);
  gathered.add(Buffer.from('again'));
  assert.equal(Buffer.from(gathered.take()).toString(), 'again');
});
