import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isInternationalized } from '../../protocols/smtp-client/smtp-client.ts';
import { CommandLines, MAX_LINE_OCTETS, readAddressCommand, reply } from './commands.ts';

test('reads paths and parameters', () => {
  const command = readAddressCommand(
    'Mail From:<Bob+tag@Remote.Test> SIZE=10  body=8bitMIME X',
    'FROM',
  );
  assert.ok('path' in command);
  assert.equal(command.path, 'Bob+tag@Remote.Test');
  assert.deepEqual(
    [...command.parameters],
    [
      ['SIZE', '10'],
      ['BODY', '8bitMIME'],
      ['X', undefined],
    ],
  );
});

test('a line full of spaces costs no more than another of its length', () => {
  const lines = new CommandLines(2_000_000);
  const line = `NOOP${' '.repeat(1_000_000)}x`;
  lines.add(Buffer.from(`${line}\t \r\n`));
  assert.equal(lines.next(), line);
});

test('a path has at most 256 octets (RFC 5321 section 4.5.3.1.3)', () => {
  const longest = `${'l'.repeat(254 - '@remote.test'.length)}@remote.test`;
  assert.ok('path' in readAddressCommand(`RCPT TO:<${longest}>`, 'TO'));
  assert.deepEqual(
    readAddressCommand(`RCPT TO:<l${longest}>`, 'TO'),
    reply(553, '5.1.3', 'The address is not valid'),
  );
});

const valid = [
  'a@b',
  'very.long.local.part@sub.domain.test',
  '"quoted @ > \\" text"@remote.test',
  '""@remote.test',
  "!#$%&'*+-/=?^_`{|}~@remote.test",
  'a@[192.0.2.1]',
  'a@[IPv6:2001:db8::1]',
  'a@xn--bcher-kva.test',
  'jürgen@bücher.test',
  `a@${'l'.repeat(63)}.test`,
  'a\u200db@remote.test',
];
for (const path of valid) {
  test(`accepts ${path}`, () => {
    const command = readAddressCommand(`RCPT TO:<${path}>`, 'TO');
    assert.ok('path' in command, JSON.stringify(command));
    assert.equal(command.path, path);
  });
}

const invalid = [
  'a',
  '@',
  'a@',
  '@b',
  'a@b.',
  'a@.b',
  'a@b..c',
  'a b@c',
  'a@b c',
  'a@@b',
  'a"b@c',
  '"a"b@c',
  '"a@b',
  'a@[192.0.2]',
  'a@[::1]',
  'a@[IPv6:192.0.2.1]',
  'a@[tag:text]',
  'a@b-',
  `a@${'l'.repeat(64)}.test`,
  'a,b@c',
  'a;b@c',
  'a(b)@c',
  'a\\b@c',
  'a:b@c',
  'a@b:c',
  'a@b/c',
  'a@b\u202e',
  'a\u00a0b@c',
  'a\u2028@c',
];
for (const path of invalid) {
  test(`refuses ${JSON.stringify(path)}`, () => {
    const command = readAddressCommand(`MAIL FROM:<${path}>`, 'FROM');
    assert.ok(!('path' in command), JSON.stringify(command));
  });
}

test('any line gets an answer, and an accepted path is safe in a header or a log', () => {
  const part = fc.oneof(
    fc.constantFrom(
      'MAIL FROM:',
      '<',
      '>',
      '@',
      '"',
      '\\',
      ' ',
      '=',
      'SIZE',
      '[',
      ']',
      ':',
      '.',
      'a',
    ),
    fc.string({ unit: 'grapheme', maxLength: 4 }),
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 30 }), (parts) => {
      const command = readAddressCommand(`MAIL FROM:<${parts.join('')}`, 'FROM');
      if (!('path' in command)) return;
      assert.doesNotMatch(command.path, /[\0-\x1f\x7f\u0080-\u009f\u2028\u2029]/);
      assert.ok(command.path === '' || command.path.includes('@'));
    }),
    { numRuns: 5000 },
  );
});

test('no line is slow to read', () => {
  // 2,000 characters, as long as a command line may be, of text that makes careless expressions backtrack.
  for (const bait of ['@a,', '"\\', 'a.', '-', ' ', '<', '@', ':']) {
    const line = `MAIL FROM:<${bait.repeat(2000 / bait.length)}`;
    for (const end of ['', '>', '@b>', '@b> X=']) {
      // A backtracking expression would run for hours here; the runner's timeout ends it.
      readAddressCommand(line + end, 'FROM');
    }
  }
});

test('tells ASCII from the rest', () => {
  assert.equal(isInternationalized('bob@remote.test'), false);
  assert.equal(isInternationalized('bob@bücher.test'), true);
});

/** The lines, and the fault of each that is not one, up to the first fatal fault. */
function read(...chunks: (string | Buffer)[]): string[] {
  const lines = new CommandLines();
  const found: string[] = [];
  for (const chunk of chunks) {
    lines.add(Buffer.from(chunk));
    for (let line = lines.next(); line !== undefined; line = lines.next()) {
      found.push(typeof line === 'string' ? line : `(${line.reply.text})`);
      if (typeof line !== 'string' && line.isFatal) return found;
    }
  }
  return found;
}

const BARE_LF = '(A line ends with CRLF, not with LF)';
const TOO_LONG = '(The line is too long)';
const BAD_CHARACTERS = '(The line has characters that no command has)';

test('lines are the same, however the network splits them', () => {
  const wire = `A b\r\n\r\n${'x'.repeat(MAX_LINE_OCTETS - 2)}\r\n${'y'.repeat(MAX_LINE_OCTETS - 1)}\r\nC\r\n`;
  const expected = ['A b', '', 'x'.repeat(MAX_LINE_OCTETS - 2), TOO_LONG, 'C'];
  for (let cut = 0; cut < wire.length; cut++) {
    assert.deepEqual(read(wire.slice(0, cut), wire.slice(cut)), expected, `cut at ${cut}`);
  }
  assert.deepEqual(read(...wire), expected);
});

test('a line that never ends is given up, and uses no memory', () => {
  const lines = new CommandLines();
  const endless = Buffer.alloc(16 * 1024, 'x');
  let found: ReturnType<CommandLines['next']>;
  let sent = 0;
  while (found === undefined && sent < 1_000_000) {
    lines.add(endless);
    sent += endless.length;
    found = lines.next();
  }
  assert.ok(typeof found === 'object' && found.isFatal && sent < 100_000);
  assert.ok(lines.takeAll().length < MAX_LINE_OCTETS);
});

test('a bare LF ends no line, and nothing after it is read', () => {
  for (const wire of ['A\nB\r\nC\r\n', '\nA\r\n', 'A\r\nB\n\r\n', `${'x'.repeat(9000)}\nA\r\n`]) {
    const found = read(wire);
    assert.equal(found.at(-1), BARE_LF, JSON.stringify(wire));
    assert.ok(!found.includes('C') && !found.includes(''), JSON.stringify(found));
  }
});

test('characters that no command has are refused in every command', () => {
  for (const line of ['NOOP \0', 'QUIT\r', 'NOOP \x7f', 'NOOP\t\x01', Buffer.from([0x4e, 0xff])]) {
    assert.deepEqual(read(line, '\r\n'), [BAD_CHARACTERS]);
  }
  const text = 'MAIL FROM:<müller@sender.test> SMTPUTF8';
  assert.deepEqual(read(`${text} \t \r\nRSET \t\r\n`), [text, 'RSET']);
});
