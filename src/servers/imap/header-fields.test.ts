/** Fields of headers are the same from what is kept as from the source. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseMessage } from '../../protocols/message/message.ts';
import { headersOf, isKept, readHeader } from './header-fields.ts';
import { type Section, selectFields } from './sections.ts';
import type { Session } from './session.ts';

/** A session with one message, whose store says what it was asked to keep. */
async function sessionOf(header: string, stored?: string) {
  const content = Buffer.from(`${header}\r\nHi\r\n`, 'latin1');
  async function* source() {
    yield content;
  }
  const { structure } = await parseMessage(source());
  const row = { uid: 1, body_id: 7, structure: JSON.stringify(structure) };
  const kept: string[] = [];
  let sources = 0;
  const body = () => {
    sources++;
    return { size: content.length, content, file: null };
  };
  const imap = {
    headers: () => Promise.resolve(new Map(stored === undefined ? [] : [[7, stored]])),
    rows: () => Promise.resolve([row]),
    bodies: () => Promise.resolve(new Map([[7, body()]])),
    body: () => Promise.resolve(body()),
    keepHeaders: (made: ReadonlyMap<number, string>) => {
      kept.push(...made.values());
      return Promise.resolve();
    },
  };
  const selected = { mailbox: { id: 1 } };
  const user = { accountId: 1, address: 'a@b.test' };
  const channel = { signal: new AbortController().signal };
  const services = { mailstore: { imap } };
  const session = { user, services, selected, channel } as unknown as Session;
  return { session, row, kept, sources: () => sources };
}

function section(names: readonly string[], more: Partial<Section> = {}): Section {
  return { part: '', what: 'HEADER.FIELDS', names, partial: undefined, label: 'BODY[]', ...more };
}

test('what is kept gives every list of such fields as the source does', async () => {
  const line = fc.constantFrom(
    ...['From: a@a.test', 'SUBJECT : x', 'subject: \xe9\xff', 'Received: by b', 'no field', 'To:'],
    ...[' folded', '\tfolded too', 'Message-ID:<1@x>', ': nothing', 'X-Other: y'],
  );
  const names = fc.subarray(['from', 'subject', 'to', 'message-id', 'cc'], { minLength: 1 });
  const end = fc.constantFrom('\r\n', '\n');
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(line, end)), names, async (lines, asked) => {
      const header = lines.map((parts) => parts.join('')).join('');
      const { session, row, kept } = await sessionOf(header);
      const fields = (await headersOf(session, [row])).get(7) ?? '';
      assert.deepEqual(kept, [fields]);
      const fromSource = selectFields(await readHeader(session, row), section(asked));
      assert.equal(selectFields(fields, section(asked)), fromSource);
    }),
  );
});

test('a source is read once, and not where its fields are kept', async () => {
  const { session, row, kept, sources } = await sessionOf('Subject: new\r\n', 'Subject: kept\r\n');
  assert.equal((await headersOf(session, [row])).get(7), 'Subject: kept\r\n');
  assert.deepEqual([kept, sources()], [[], 0]);
  const first = await sessionOf('Subject: new\r\n');
  assert.equal((await headersOf(first.session, [row, row])).get(7), 'Subject: new\r\n\r\n');
  assert.deepEqual([first.kept.length, first.sources()], [1, 1]);
});

test('fields with NUL or of great length are read from the source each time', async () => {
  for (const header of ['Subject: a\0b\r\n', `To: ${'a@a.test, '.repeat(2_000)}\r\n`]) {
    const { session, row, kept } = await sessionOf(header);
    assert.equal((await headersOf(session, [row])).get(7), '');
    assert.deepEqual(kept, ['']);
    assert.equal((await readHeader(session, row)).toString('latin1'), `${header}\r\n`);
  }
});

test('other sections are not made of them', () => {
  assert.equal(isKept(section(['from', 'x-priority'])), true);
  assert.equal(isKept(section(['from', 'received'])), false);
  assert.equal(isKept(section(['from'], { part: '1' })), false);
  assert.equal(isKept(section(['from'], { what: 'HEADER.FIELDS.NOT' })), false);
  assert.equal(isKept(section([], { what: 'HEADER' })), false);
});
