/** What is kept of a body for searches, orders and threads. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ImapTexts } from '../../mailboxes/mailstore/mailstore.ts';
import { parseMessage } from '../../protocols/message/message.ts';
import type { Session } from './session.ts';
import { plainField, readSearchTexts, type SearchTexts, textsOf } from './texts.ts';

/** The texts of a message, and those that the store was given to keep. */
async function textsOfMessage(header: string, stored?: ImapTexts) {
  const content = Buffer.from(`${header}\n\nHi\n`.replaceAll('\n', '\r\n'), 'latin1');
  async function* source() {
    yield content;
  }
  const { structure } = await parseMessage(source());
  const row = { uid: 1, body_id: 7, structure: JSON.stringify(structure) };
  const kept: ImapTexts[] = [];
  const imap = {
    texts: () => Promise.resolve(new Map(stored ? [[7, stored]] : [])),
    rows: () => Promise.resolve([row]),
    bodies: () => Promise.resolve(new Map([[7, { content }]])),
    keepTexts: (made: ReadonlyMap<number, ImapTexts>) => {
      kept.push(...made.values());
      return Promise.resolve();
    },
  };
  const selected = { mailbox: { id: 1 } };
  const user = { accountId: 1, address: 'a@b.test' };
  const channel = { signal: new AbortController().signal };
  const services = { mailstore: { imap } };
  const session = { user, services, selected, channel } as unknown as Session;
  const search = (await textsOf(session, ['search'], [row])).get(7)?.search;
  assert.ok(search);
  return { search, kept };
}

async function searched(header: string) {
  return readSearchTexts((await textsOfMessage(header)).search);
}

test('the first address of a field has a mailbox, and what programs show', async () => {
  const { first } = await searched(
    'From: =?utf-8?q?J=C3=BCrgen?= <J.K@a.test>, b@b.test\nTo: Team: c@c.test;\nCc: lonely@',
  );
  assert.deepEqual(first.from, { mailbox: 'J.K', shown: 'Jürgen' });
  assert.deepEqual(first.to, { mailbox: 'Team', shown: 'Team' });
  assert.equal((await searched('From: x@a.test')).first.from.shown, 'x@a.test');
  assert.deepEqual((await searched('Subject: x')).first.from, { mailbox: '', shown: '' });
  const long = await searched(`From: ${'x'.repeat(5_000)}@a.test`);
  assert.equal(long.first.from.shown.length, 128);
});

test('References are the earlier messages; without them the first id of In-Reply-To is', async () => {
  const { references } = await searched('In-Reply-To: <c@x>\nReferences: <a@x>\n <b@x> junk <b@x>');
  assert.deepEqual(references, ['a@x', 'b@x']);
  assert.deepEqual((await searched('References: junk\nIn-Reply-To: <c@x> <d@x>')).references, [
    'c@x',
  ]);
  assert.deepEqual((await searched('Subject: x')).references, []);
});

test('texts are made once, and kept', async () => {
  const { search, kept } = await textsOfMessage('From: a@a.test\nSubject: New');
  assert.equal(readSearchTexts(search).subject, 'new');
  assert.equal(kept.length, 1);
  assert.equal(kept[0]?.search, search);
  const again = await textsOfMessage('From: other@a.test', kept[0]);
  assert.deepEqual([again.search, again.kept], [search, []]);
});

test('a field without quotes and line ends is read as it stands, whatever the others have', () => {
  const word = fc.constantFrom(
    'a',
    '"',
    '\\',
    ',',
    ':',
    '\n',
    '"to":"',
    '","',
    'ü',
    '{',
    ' ',
    '\ud800',
  );
  const text = fc.array(word, { maxLength: 8 }).map((words) => words.join(''));
  const address = fc.record({ mailbox: text, shown: text });
  const texts = fc.record({
    ...{ from: text, to: text, cc: text, bcc: text, subject: text, references: fc.array(text) },
    first: fc.record({ from: address, to: address, cc: address }),
  });
  const fields = ['from', 'to', 'cc', 'bcc', 'subject'] as const;
  fc.assert(
    fc.property(texts, fc.constantFrom(...fields), (one: SearchTexts, field) => {
      const isPlain = !/["\\\n\ud800]/.test(one[field]);
      assert.equal(plainField(JSON.stringify(one), field), isPlain ? one[field] : undefined);
    }),
  );
});
