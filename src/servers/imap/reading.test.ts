/** What comes from clients: hostile octets, cut anywhere. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type CommandParts, CommandReader } from './command-reader.ts';
import { BadCommand, Cursor } from './cursor.ts';
import { Search } from './find-messages.ts';
import { matcherOf } from './list.ts';
import { readFetch } from './parse-fetch.ts';
import { readSearch } from './parse-search.ts';
import { No, type Session } from './session.ts';
import { View } from './view.ts';
import { numberSet, string } from './write.ts';

const LIMITS = { line: 2_000, literals: 3, literalOctets: 50 };

/** What a reader finds in octets that come in these pieces; it keeps every literal that it has room for. */
function readAll(pieces: readonly Buffer[]): string[] {
  const reader = new CommandReader(LIMITS);
  const found: string[] = [];
  for (const piece of pieces) {
    reader.push(piece);
    for (let reading = reader.next(); reading; reading = reader.next()) {
      if (reading.kind === 'too long') return [...found, 'too long'];
      if (reading.kind === 'command') found.push(JSON.stringify(reading.parts.map(String)));
      else if (reader.hasRoomFor(reading.literal)) reader.keep(reading.literal);
      else return [...found, 'no room'];
    }
  }
  return found;
}

describe('commands', () => {
  const piece = fc.constantFrom(
    'a LOGIN x y',
    '\r\n',
    '\n',
    '{3}\r\nabc',
    '{2+}\r\n\r\n',
    '{60}\r\n',
    '{',
    '"',
  );
  test('are the same wherever the stream is cut', () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 20 }), fc.array(fc.nat(200)), (texts, cuts) => {
        const octets = Buffer.from(texts.join(''), 'latin1');
        const bounds = [0, ...cuts.map((cut) => cut % (octets.length + 1)).sort((a, b) => a - b)];
        const pieces = bounds.map((from, at) => octets.subarray(from, bounds[at + 1]));
        assert.deepEqual(readAll(pieces), readAll([octets]));
      }),
    );
  });

  test('have their literals between their texts', () => {
    const told = readAll([Buffer.from('a LOGIN {3}\r\nann {2+}\r\npw\r\nb NOOP\r\n')]);
    assert.deepEqual(told, ['["a LOGIN ","ann"," ","pw",""]', '["b NOOP"]']);
  });

  test('end where they hold too much, before it is kept', () => {
    assert.deepEqual(readAll([Buffer.alloc(2_001, 'x')]), ['too long']);
    assert.deepEqual(readAll([Buffer.from('a X {51}\r\n')]), ['no room']);
    assert.deepEqual(readAll([Buffer.from('a X {4294967296}\r\n')]), ['no room']);
    assert.deepEqual(readAll([Buffer.from('{0}\r\n{0}\r\n{0}\r\n{0}\r\n')]), ['no room']);
    const reader = new CommandReader(LIMITS);
    // Lines of one command count together.
    for (const _ of [1, 2]) {
      reader.push(Buffer.from(`${'x'.repeat(900)} {0}\r\n`));
      const reading = reader.next();
      assert.equal(reading?.kind, 'literal');
      if (reading?.kind === 'literal') reader.keep(reading.literal);
    }
    reader.push(Buffer.alloc(300, 'x'));
    assert.equal(reader.next()?.kind, 'too long');
  });

  test('in small pieces are copied a few times, and not for each piece', (t) => {
    let copied = 0;
    const { concat } = Buffer;
    const { set } = Buffer.prototype;
    t.mock.method(Buffer, 'concat', (pieces: readonly Uint8Array[], size?: number) => {
      const joined = concat(pieces, size);
      copied += joined.length;
      return joined;
    });
    t.mock.method(Buffer.prototype, 'set', function (this: Buffer, from: Buffer, at?: number) {
      copied += from.length;
      set.call(this, from, at);
    });
    const size = 3_000;
    const reader = new CommandReader({ line: size, literals: 1, literalOctets: size });
    for (const octet of ['x'.repeat(size - 10), ` {${size}}\r\n`, 'y'.repeat(size), '\r\n'].join(
      '',
    )) {
      reader.push(Buffer.from(octet));
      const reading = reader.next();
      if (reading?.kind === 'literal') reader.keep(reading.literal);
      if (reading?.kind === 'command') assert.equal(reading.parts[1]?.length, size);
    }
    assert.equal(reader.waiting, 0);
    assert.ok(copied < 20 * size, `${copied} octets were copied`);
  });

  test('of any octets give a request or a clear refusal', () => {
    const word = fc.constantFrom(
      ...[
        '1:*',
        '(',
        ')',
        ' ',
        'BODY[',
        ']',
        'HEADER.FIELDS',
        '<0.1>',
        'FLAGS',
        'OR',
        'NOT',
        '"a"',
        '*',
        '$',
        'UID',
      ],
      ...[
        'SINCE',
        '1-Feb-1994',
        'RETURN',
        'CHARSET',
        'UTF-8',
        'MODSEQ',
        '12',
        'TEXT',
        'ALL',
        '\\',
        '%',
        '\0',
        'é',
      ],
    );
    const parts = fc.array(
      fc.oneof(
        fc.array(word).map((words) => words.join('')),
        fc.string(),
      ),
    );
    fc.assert(
      fc.property(parts, (texts) => {
        const command: CommandParts = texts.flatMap((text, at) =>
          at > 0 ? [Buffer.from(text), text] : [text],
        );
        for (const read of [readSearch, (cursor: Cursor) => readFetch(cursor, true)]) {
          try {
            read(new Cursor(command.length > 0 ? command : ['']));
          } catch (error) {
            assert.ok(error instanceof BadCommand || error instanceof No, String(error));
          }
        }
      }),
    );
  });

  test('that nest too deep are refused, and do not use up the stack', () => {
    const read = (text: string) => () => readSearch(new Cursor([text]));
    assert.throws(read(` ${'('.repeat(100_000)}ALL`), BadCommand);
    assert.throws(read(` ${'NOT '.repeat(100_000)}ALL`), BadCommand);
    assert.throws(read(`${' ALL'.repeat(1_001)}`), BadCommand);
  });
});

describe('strings of answers', () => {
  test('never begin a line of their own', () => {
    const text = fc
      .array(fc.integer({ min: 0, max: 255 }))
      .map((codes) => String.fromCharCode(...codes));
    fc.assert(
      fc.property(text, (octets) => {
        const written = string(octets);
        const literal = /^\{(\d+)\}\r\n/.exec(written);
        if (!literal) return assert.match(written, /^"(?:[^"\\\r\n\0\x80-\xff]|\\["\\])*"$/);
        assert.equal(written.length - literal[0].length, Number(literal[1]));
        return undefined;
      }),
    );
  });

  test('sets of numbers are short', () => {
    assert.equal(numberSet([1, 2, 3, 7, 9, 10]), '1:3,7,9:10');
    assert.equal(numberSet([]), '');
  });
});

describe('patterns of LIST', () => {
  test('match as the wildcards say', () => {
    const letter = fc.constantFrom('a', 'b', '/', '*', '%');
    const pattern = fc.array(letter, { maxLength: 8 }).map((all) => all.join(''));
    const name = fc
      .array(fc.constantFrom('a', 'b', '/'), { maxLength: 8 })
      .map((all) => all.join(''));
    fc.assert(
      fc.property(pattern, name, (wanted, text) => {
        const expression = wanted.replaceAll('*', '[^]*').replaceAll('%', '[^/]*');
        assert.equal(matcherOf([wanted])(text), new RegExp(`^${expression}$`).test(text));
      }),
    );
  });

  test('with a run of wildcards cost what one does; with many, or long ones, they are refused', () => {
    assert.equal(matcherOf(['%*'.repeat(500)])(`${'a'.repeat(250)}/`), true);
    assert.equal(matcherOf([`${'*a'.repeat(32)}`])('a'.repeat(255)), true);
    for (const patterns of [['*a'.repeat(33)], Array(16).fill('*a%b*'), ['a'.repeat(301)]]) {
      assert.throws(() => matcherOf(patterns), BadCommand);
    }
  });
});

describe('sets of messages', () => {
  const mailbox = {
    id: 1,
    name: 'INBOX',
    uidvalidity: 1,
    highestmodseq: 1,
    pruned_modseq: 0,
    fork_modseq: 0,
  };
  const counters = { uidnext: 100, messages: 3, unseen: 0, octets: 0, special_use: null };
  const own = { keywords: '', recent_uid: 1 };
  const viewOf = (uids: number[]) =>
    new View({
      mailbox: { ...mailbox, ...counters, ...own },
      uids,
      token: '1',
      isReadOnly: false,
    });
  const view = () => viewOf([3, 7, 20]);

  test('of UIDs name what is there, of numbers only what the session sees', () => {
    assert.deepEqual(view().resolve('1:*', true), [3, 7, 20]);
    assert.deepEqual(view().resolve('21:*', true), [20]);
    assert.deepEqual(view().resolve('*:8,3,3,1:4', true), [3, 20]);
    assert.deepEqual(view().resolve('3,1:2', false), [3, 7, 20]);
    assert.deepEqual(view().resolve('4294967295', true), []);
    for (const bad of ['0', '4', '1:4', ':', '1,', '', '1:2:3', '-1', '99999999999', '01']) {
      assert.throws(() => view().resolve(bad, false), BadCommand, bad);
    }
  });

  test('name what is in one of their pieces, in whatever order these are', () => {
    const piece = fc.tuple(fc.nat(30), fc.option(fc.nat(30), { nil: undefined }));
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.integer({ min: 1, max: 25 }), { minLength: 1 }),
        fc.array(piece, { minLength: 1, maxLength: 8 }),
        fc.boolean(),
        (found, pieces, isUids) => {
          const uids = found.sort((a, b) => a - b);
          const last = isUids ? (uids.at(-1) ?? 0) : uids.length;
          const numberOf = (n: number) => (n === 0 ? last : n);
          const nameOf = (n: number) => (n === 0 ? '*' : `${n}`);
          const set = pieces.map(([a, b]) =>
            b === undefined ? nameOf(a) : `${nameOf(a)}:${nameOf(b)}`,
          );
          const expected = uids.filter((uid, at) =>
            pieces.some(([a, b = a]) => {
              const ends = [numberOf(a), numberOf(b)];
              const number = isUids ? uid : at + 1;
              return number >= Math.min(...ends) && number <= Math.max(...ends);
            }),
          );
          assert.deepEqual(viewOf(uids).resolve(set.join(','), isUids, true), expected);
        },
      ),
    );
  });

  test('are kept once, however often they name all messages', () => {
    const uids = Array.from({ length: 100_000 }, (_, at) => 2 * at + 1);
    const large = viewOf(uids);
    assert.deepEqual(large.resolve(Array(10_000).fill('1:*').join(','), true), uids);
    const cursor = new Cursor([` ${Array(900).fill('1:*').join(' ')} UID 7:1,3`]);
    const { key } = readSearch(cursor);
    const channel = { signal: new AbortController().signal };
    new Search({ selected: large, channel } as unknown as Session, key, []);
    const set = large.rangesOf('7:2,199999:*', true);
    const found = uids.filter((uid) => set.has(uid));
    assert.deepEqual(found, [3, 5, 7, 199_999]);
  });

  test('an empty mailbox has no last message', () => {
    const empty = viewOf([]);
    assert.deepEqual(empty.resolve('1:*', true), []);
    assert.throws(() => empty.resolve('*', false), BadCommand);
  });

  test('removals are told from the last to the first', () => {
    const seen = view();
    assert.deepEqual(seen.remove(new Set([3, 20])), [3, 1]);
    assert.deepEqual(seen.uids, [7]);
    assert.equal(seen.numberOf(7), 1);
    assert.equal(seen.numberOf(20), 0);
  });
});
