/** What a server sends, in pieces of any size, and what cannot be a response. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ImapFailure } from './failure.ts';
import { type ImapResponse, ResponseReader } from './responses.ts';

/** @param size octets of the pieces in which it comes */
function read(text: string, size = text.length): { seen: ImapResponse[]; rest: string } {
  const reader = new ResponseReader();
  const bytes = Buffer.from(text, 'latin1');
  const seen: ImapResponse[] = [];
  for (let at = 0; at < bytes.length; at += size) {
    reader.push(bytes.subarray(at, at + size));
    for (let one = reader.next(); one; one = reader.next()) seen.push(one);
  }
  return { seen, rest: reader.rest.toString('latin1') };
}

const only = (text: string): ImapResponse | undefined => read(text).seen[0];
const itemsOf = (text: string) => only(`${text}\r\n`)?.items;

void suite('responses of an IMAP server', () => {
  void test('are the same in pieces of any size', () => {
    const text =
      '* 3 FETCH (UID 9 BODY[HEADER.FIELDS (TO CC)]<0> {7}\r\nh\xe9)\r\n{1 FLAGS (\\Seen BODY[x)) \r\n' +
      '* LIST (\\HasNoChildren) "/" {5}\r\na"b\\c\n' +
      'a1 OK [COPYUID 7 1:2 "3"] a {5}\r\n* 7 EXISTS\r\n* OK half';
    const whole = read(text);
    assert.deepEqual(whole.seen, [
      {
        tag: '*',
        number: 3,
        name: 'FETCH',
        items: [
          [
            'UID',
            '9',
            'BODY',
            Buffer.from('h\xe9)\r\n{1', 'latin1'),
            'FLAGS',
            ['\\Seen', 'BODY[x'],
          ],
        ],
        code: undefined,
        text: '',
      },
      {
        tag: '*',
        number: undefined,
        name: 'LIST',
        items: [['\\HasNoChildren'], '/', Buffer.from('a"b\\c')],
        code: undefined,
        text: '',
      },
      {
        tag: 'a1',
        number: undefined,
        name: 'OK',
        items: [],
        code: { name: 'COPYUID', values: ['7', '1:2', '3'] },
        text: 'a {5}',
      },
      { tag: '*', number: 7, name: 'EXISTS', items: [], code: undefined, text: '' },
    ]);
    assert.equal(whole.rest, '* OK half');
    for (let size = 1; size < 40; size++) assert.deepEqual(read(text, size), whole, `${size}`);
  });

  void test('have strings, numbers, lists and NIL', () => {
    assert.deepEqual(itemsOf('* X NIL nil "NIL" () (a(b "") c) "q\\"\\\\" {0}\r\n'), [
      null,
      null,
      'NIL',
      [],
      ['a', ['b', ''], 'c'],
      'q"\\',
      Buffer.alloc(0),
    ]);
    assert.deepEqual(itemsOf('* SEARCH 1 2:3'), ['1', '2:3']);
    assert.deepEqual(itemsOf('* SEARCH'), []);
    assert.deepEqual(itemsOf('* X "\xc3\xa4" \xc3\xb6'), ['ä', 'ö']);
    assert.deepEqual(itemsOf('* 1 fetch (binary[1.2]<3> "x" body[]<0> NIL)'), [
      ['binary[1.2]<3>', 'x', 'body', null],
    ]);
  });

  void test('may say anything to people', () => {
    assert.deepEqual(only('+ \r\n')?.tag, '+');
    assert.deepEqual(only('* OK [see (] "what\r\n')?.text, '"what');
    assert.deepEqual(only('* OK [] what\r\n')?.code, undefined);
    assert.deepEqual(only('* OK [what\r\n')?.text, '[what');
    assert.deepEqual(only('* BYE (((\r\n')?.text, '(((');
    assert.deepEqual(only('HTTP/1.1 400 Bad Request\r\n')?.tag, 'HTTP/1.1');
    assert.equal(only(' x OK\r\n')?.tag, '');
  });

  void test('that are not well formed are read up to there', () => {
    assert.deepEqual(itemsOf('* 1 FETCH (UID 9 BODYSTRUCTURE ("a" ("b" "c'), [
      ['UID', '9', 'BODYSTRUCTURE', ['a', ['b']]],
    ]);
    assert.deepEqual(itemsOf('* LIST (a)) b'), [['a']]);
    const deep = `${'('.repeat(2_000_000)}x${')'.repeat(2_000_000)}`;
    assert.deepEqual(itemsOf(`* 1 FETCH (BODYSTRUCTURE ${deep} UID 9)`)?.flat().slice(2), [
      'UID',
      '9',
    ]);
  });

  void test('are read as servers write them that keep to no rule', () => {
    const tagsOf = (text: string) => read(text).seen.map(({ tag, name }) => `${tag} ${name}`);
    assert.deepEqual(tagsOf('\r\n* 1 EXISTS\r\n\r\n\n\0\0* OK\r\n\0a1 OK\r\n'), [
      '* EXISTS',
      '* OK',
      'a1 OK',
    ]);
    const spaced = read('*  3  EXISTS \r\n*  OK  [UIDNEXT  4]  in\r\na1  NO  x {5}\r\n').seen;
    assert.deepEqual(
      spaced.map(({ number, code, text }) => [number, code?.values, text]),
      [
        [3, undefined, ''],
        [undefined, ['4'], 'in'],
        [undefined, undefined, 'x {5}'],
      ],
    );
    assert.deepEqual(itemsOf('* 1 FETCH (BODY[]<0.512> "x" BINARY[1] ~{2}\r\n{1 UID 9)'), [
      ['BODY', 'x', 'BINARY[1]', Buffer.from('{1'), 'UID', '9'],
    ]);
    const fields = 'BODY[HEADER.FIELDS ("DATE" "X-(")]<0>';
    assert.deepEqual(itemsOf(`* 1 FETCH (${fields} NIL UID 9)`), [['BODY', null, 'UID', '9']]);
    assert.deepEqual(itemsOf('* LIST (\\Sent\\HasNoChildren) "\\\\" a\\b'), [
      ['\\Sent', '\\HasNoChildren'],
      '\\',
      'a\\b',
    ]);
    assert.deepEqual(itemsOf('* 1 FETCH (FLAGS (\\Seen\\Flagged)UID 9)'), [
      ['FLAGS', ['\\Seen', '\\Flagged'], 'UID', '9'],
    ]);
  });

  void test('that are too long fail, and none costs more than its length', () => {
    for (const [title, text] of [
      ['a literal that is too long', '* 1 FETCH (BODY[] {8388609}\r\n'],
      ['empty literals that are too many', `* X ${'{0}\r\n'.repeat(500_001)}`],
      ['lists that are too many', `* X ${'()'.repeat(2_000_001)}\r\n`],
      ['literals that are too many', `* X ${'{8388608}\r\n'.padEnd(8_388_619, 'x').repeat(5)}`],
      ['a line that does not end', `* X ${'x'.repeat(17_000_000)}`],
    ] as const) {
      const isGarbled = (error: unknown) =>
        error instanceof ImapFailure && error.kind === 'garbled';
      assert.throws(() => read(text, 65_536), isGarbled, title);
    }
    assert.equal(itemsOf(`* 1 FETCH (${'BODY[ x '.repeat(200_000)})`)?.length, 1);
    assert.equal(itemsOf(`* X ${'{5} '.repeat(200_000)}`)?.length, 200_000);
    // A sender decides how many there are in a BODYSTRUCTURE.
    assert.equal(itemsOf(`* X ${'{1}\r\nx '.repeat(100_000)}`)?.length, 100_000);
  });

  void test('of random octets are read or fail by name', () => {
    const alphabet = '* 17()[]{}"\\\r\n\n OKFETCHBODY<>NIL\xe9';
    let seed = 7;
    const next = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return seed % below;
    };
    for (let run = 0; run < 5_000; run++) {
      let text = next(2) ? '* 1 FETCH (' : '* ';
      for (let length = next(60); length > 0; length--) text += alphabet[next(alphabet.length)];
      try {
        assert.deepEqual(read(text, 1 + next(20)), read(text), JSON.stringify(text));
      } catch (error) {
        assert.ok(error instanceof ImapFailure && error.kind === 'garbled', JSON.stringify(text));
      }
    }
  });
});
