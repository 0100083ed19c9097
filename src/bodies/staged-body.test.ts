import assert from 'node:assert/strict';
import { test } from 'node:test';
import { holdBody, prependBody } from './staged-body.ts';

test('pieces are one body, joined once and alone in its memory', () => {
  // Small enough for the pool that Buffers share, with pieces out of it.
  const pieces = ['head', '', ' and ', 'body'].map((text) => Buffer.from(text));
  const body = holdBody(pieces);
  assert.equal(body.size, 13);
  const { content } = body;
  assert.equal(content.toString(), 'head and body');
  assert.equal(content.buffer.byteLength, 13);
  assert.equal(body.content, content);
});

test('what is put in front is joined with the rest, whether that was read before or not', () => {
  for (const isRead of [false, true]) {
    const body = holdBody([Buffer.from('one '), new Uint8Array(Buffer.from('two'))]);
    if (isRead) assert.equal(body.content.toString(), 'one two');
    const longer = prependBody(Buffer.from('zero '), body);
    assert.equal(longer.size, 12);
    assert.equal(longer.content.toString(), 'zero one two');
    assert.equal(longer.content.buffer.byteLength, 12);
    assert.equal(body.content.toString(), 'one two');
  }
});

test('a single piece is held without a copy', () => {
  const bytes = new Uint8Array(5_000);
  assert.equal(holdBody([bytes]).content.buffer, bytes.buffer);
});

test('nothing is a body too', () => {
  const body = holdBody([]);
  assert.equal(body.size, 0);
  assert.equal(body.content.length, 0);
  assert.equal(prependBody(Buffer.from('a'), body).content.toString(), 'a');
});
