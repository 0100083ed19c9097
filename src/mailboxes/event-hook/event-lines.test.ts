import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { EventLines, type MailserverEvent, type RejectedLine } from './event-lines.ts';

const fields = {
  event_id: 'evt-1',
  user: 'ann@acme.test',
  event_type: 'MailboxesChanged',
  mailbox: 'INBOX',
  uidvalidity: '1795244400',
  highestmodseq: '42',
};

const event = {
  eventId: 'evt-1',
  user: 'ann@acme.test',
  eventType: 'MailboxesChanged',
  mailbox: 'INBOX',
  uidvalidity: '1795244400',
  highestmodseq: '42',
};

function readAll(body: string | Uint8Array) {
  const lines = new EventLines(Buffer.from(body));
  const events: MailserverEvent[] = [];
  const rejected: RejectedLine[] = [];
  for (let slice = lines.next(); slice; slice = lines.next()) {
    events.push(...slice.events);
    rejected.push(...slice.rejected);
  }
  return { events, rejected };
}

const line = (changed: object = {}) => JSON.stringify({ ...fields, ...changed });

suite('lines that are events', () => {
  const accepted: [title: string, body: string | Uint8Array, expected: object[]][] = [
    ['one with a newline', `${line()}\n`, [{ line: 1, ...event }]],
    ['one without a newline at the end', line(), [{ line: 1, ...event }]],
    ['CR before the newline', `${line()}\r\n${line()}\r\n`, [event, event]],
    ['blank lines', `\n \t\r\n${line()}\n\r\n\n`, [{ line: 3, ...event }]],
    ['a byte order mark', `\ufeff${line()}`, [{ line: 1, ...event }]],
    ['white space around', ` \t${line()} \t`, [event]],
    ['members that are not known', line({ more: { deep: [1] }, event_id: 'evt-1' }), [event]],
    ['the last of members with one name', `{"mailbox":"Sent",${line().slice(1)}`, [event]],
    ['characters beyond ASCII', line({ mailbox: 'Entwürfe 📧' }), [{ mailbox: 'Entwürfe 📧' }]],
    ['escapes', line().replace('INBOX', '\\u0049NBOX'), [event]],
    ['an id of 255 characters', line({ event_id: 'e'.repeat(255) }), [{}]],
    ['a mailbox of 1024 characters', line({ mailbox: 'm'.repeat(1024) }), [{}]],
    [
      'the largest numbers',
      line({ uidvalidity: '4294967295', highestmodseq: '9223372036854775807' }),
      [{}],
    ],
    ['zeros', line({ uidvalidity: '0', highestmodseq: '0' }), [{}]],
    [
      'a __proto__ that carries members',
      line().replace('{', '{"__proto__":{"mailbox":"Other","polluted":1},'),
      [event],
    ],
  ];
  for (const [title, body, expected] of accepted) {
    test(title, () => {
      const { events, rejected } = readAll(body);
      assert.deepEqual(rejected, []);
      assert.equal(events.length, expected.length);
      for (const [index, parts] of expected.entries())
        assert.partialDeepStrictEqual(events[index], parts);
      assert.equal(Object.getOwnPropertyDescriptor(Object.prototype, 'polluted'), undefined);
    });
  }
});

suite('lines that are rejected', () => {
  const id = 'evt-1';
  const table: [title: string, body: string | Uint8Array, reason: RegExp, event_id?: string][] = [
    ['text', 'hello', /not JSON/],
    ['half a line', line().slice(0, -1), /not JSON/],
    ['two objects', `${line()} ${line()}`, /not JSON/],
    ['a number', '42', /not a JSON object/],
    ['null', 'null', /not a JSON object/],
    ['an array', `[${line()}]`, /not a JSON object/],
    ['other white space', '\u00a0', /not JSON/],
    ['a byte order mark on a later line', `\n\ufeff${line()}`, /not JSON/],
    ['not UTF-8', Buffer.from(line({ mailbox: 'Entwürfe' }), 'latin1'), /not UTF-8/],
    ['UTF-16', Buffer.from(line(), 'utf16le'), /not JSON/],
    ['an empty object', '{}', /event_id/],
    ['members of a __proto__ alone', `{"__proto__":${line()}}`, /event_id/],
    ['an id that is a number', line({ event_id: 1 }), /event_id/],
    ['an empty id', line({ event_id: '' }), /event_id/],
    ['an id of 256 characters', line({ event_id: 'e'.repeat(256) }), /event_id/],
    ['an id with NUL', line({ event_id: 'a\0b' }), /event_id/],
    ['half a character', line().replace('evt-1', '\\ud83d'), /event_id/],
    ['no user', line({ user: undefined }), /user/, id],
    ['a user that is null', line({ user: null }), /user/, id],
    ['no event type', line({ event_type: '' }), /event_type/, id],
    ['no mailbox', line({ mailbox: {} }), /mailbox/, id],
    ['a mailbox of 1025 characters', line({ mailbox: 'm'.repeat(1025) }), /mailbox/, id],
    ['a mailbox with a line end', line({ mailbox: 'a\r\nb' }), /mailbox/, id],
    ['a uidvalidity that is a number', line({ uidvalidity: 7 }), /uidvalidity/, id],
    ['a uidvalidity of 33 bits', line({ uidvalidity: '4294967296' }), /uidvalidity/, id],
    ['a uidvalidity with a sign', line({ uidvalidity: '+7' }), /uidvalidity/, id],
    ['a uidvalidity with a zero before', line({ uidvalidity: '07' }), /uidvalidity/, id],
    ['a uidvalidity with a newline', line({ uidvalidity: '7\n' }), /uidvalidity/, id],
    ['a modseq of 64 bits', line({ highestmodseq: '9223372036854775808' }), /highestmodseq/, id],
    ['a modseq of 20 digits', line({ highestmodseq: '1'.repeat(20) }), /highestmodseq/, id],
    ['a modseq in hex', line({ highestmodseq: '0x10' }), /highestmodseq/, id],
    ['depth', '['.repeat(60_000), /not JSON/],
    ['a closed depth', `{"event_id":${'['.repeat(30_000)}${']'.repeat(30_000)}}`, /event_id/],
  ];
  for (const [title, body, reason, event_id] of table) {
    test(title, () => {
      const { events, rejected } = readAll(body);
      assert.deepEqual(events, []);
      assert.equal(rejected.length, 1);
      assert.match(rejected[0]?.reason ?? '', reason);
      assert.equal(rejected[0]?.event_id, event_id);
    });
  }

  test('a line of 10 MB alone', () => {
    const long = line({ mailbox: 'm'.repeat(10_000_000) });
    const { events, rejected } = readAll(`${line()}\n${long}\n${line()}`);
    assert.deepEqual(
      events.map((found) => found.line),
      [1, 3],
    );
    assert.deepEqual(rejected, [{ line: 2, reason: 'is longer than 65536 bytes' }]);
  });

  test('a line that is not UTF-8 alone', () => {
    const { events, rejected } = readAll(
      Buffer.concat([Buffer.from(`${line()}\n`), Buffer.from([0xff, 0x0a]), Buffer.from(line())]),
    );
    assert.deepEqual(
      events.map((found) => found.line),
      [1, 3],
    );
    assert.deepEqual(rejected, [{ line: 2, reason: 'is not UTF-8' }]);
  });
});

test('a large body is read in slices, with the right number for every line', () => {
  const lines = new EventLines(Buffer.from(`${line()}\n`.repeat(2_500)));
  const sizes: number[] = [];
  let last = 0;
  for (let slice = lines.next(); slice; slice = lines.next()) {
    sizes.push(slice.events.length);
    for (const found of slice.events) assert.equal(found.line, ++last);
  }
  assert.deepEqual(sizes, [1_000, 1_000, 500]);
  assert.equal(lines.hasMore, false);
});

test('sixteen million blank lines are read in slices as well', () => {
  const lines = new EventLines(Buffer.alloc(16_777_216, '\n'));
  let slices = 0;
  for (let slice = lines.next(); slice; slice = lines.next()) {
    assert.deepEqual(slice, { events: [], rejected: [] });
    slices++;
  }
  assert.equal(slices, 16);
});

test('for any bytes, each line that is not blank is accepted or rejected', () => {
  const anyLine = fc.oneof(
    fc.constantFrom('', ' ', '\t\r', '\r', '\ufeff', line()).map((text) => Buffer.from(text)),
    fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
    fc.json().map((text) => Buffer.from(text)),
    fc
      .record(
        Object.fromEntries(
          Object.entries(fields).map(([name, value]) => [
            name,
            fc.oneof(fc.constant(value), fc.jsonValue()),
          ]),
        ),
        { requiredKeys: [] },
      )
      .map((value) => Buffer.from(JSON.stringify(value))),
  );
  fc.assert(
    fc.property(fc.array(anyLine, { maxLength: 20 }), (parts) => {
      const body = Buffer.concat(
        parts.flatMap((part, index) => (index === 0 ? [part] : [Buffer.from('\n'), part])),
      );
      const marked = body.subarray(0, 3).equals(Buffer.from('\ufeff')) ? body.subarray(3) : body;
      const expected = marked
        .toString('latin1')
        .split('\n')
        .flatMap((text, index) => (/^[ \t\r]*$/.test(text) ? [] : [index + 1]));
      const { events, rejected } = readAll(body);
      const found = [...events, ...rejected].map((one) => one.line).sort((a, b) => a - b);
      assert.deepEqual(found, expected);
    }),
    { numRuns: 500 },
  );
});
