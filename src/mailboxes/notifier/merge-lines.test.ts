import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { mergeLines } from './merge-lines.ts';

const line = (mailbox: string, modseq: string, uidvalidity = '7', user = 'ann@acme.test') =>
  JSON.stringify({ user, mailbox, uidvalidity, highestmodseq: modseq });

test('one event for each mailbox, with its highest MODSEQ', () => {
  const lines = [line('INBOX', '9'), line('Sent', '3'), line('INBOX', '10'), line('INBOX', '8')];
  const { events, malformed } = mergeLines([...lines, line('INBOX', '1', '7', 'bob@b.test')], 'id');
  assert.deepEqual(malformed, []);
  const common = { event_type: 'MailboxesChanged', uidvalidity: '7' };
  assert.deepEqual(events, [
    { event_id: 'id-0', user: 'ann@acme.test', mailbox: 'INBOX', highestmodseq: '10', ...common },
    { event_id: 'id-1', user: 'ann@acme.test', mailbox: 'Sent', highestmodseq: '3', ...common },
    { event_id: 'id-2', user: 'bob@b.test', mailbox: 'INBOX', highestmodseq: '1', ...common },
  ]);
});

test('under another UIDVALIDITY the later line counts', () => {
  const { events } = mergeLines([line('INBOX', '90', '7'), line('INBOX', '1', '8')], 'id');
  assert.deepEqual(
    events.map(({ uidvalidity, highestmodseq }) => [uidvalidity, highestmodseq]),
    [['8', '1']],
  );
});

test('a bad line does not affect the others', () => {
  const bad = ['{', '[]', 'null', '{"user":1}', line('', '1'), line('x', '-1'), line('x', 'a')];
  bad.push(line('x', '1', ''), 'x'.repeat(20_000));
  const { events, malformed } = mergeLines([...bad, line('INBOX', '2')], 'id');
  assert.equal(events.length, 1);
  assert.deepEqual(malformed, bad);
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.string(), fc.json())), (lines) => {
      const merged = mergeLines([...lines, line('INBOX', '2')], 'id');
      assert.ok(merged.events.length >= 1);
      assert.ok(merged.events.length + merged.malformed.length <= lines.length + 1);
    }),
  );
});
