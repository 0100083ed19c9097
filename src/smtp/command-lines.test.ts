import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandLines, MAX_LINE_OCTETS } from './command-lines.ts';

/** The lines, and what is wrong with those that are none, up to the first fatal fault. */
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

test('lines are the same wherever the network cuts them', () => {
  const wire = `A b\r\n\r\n${'x'.repeat(MAX_LINE_OCTETS - 2)}\r\n${'y'.repeat(MAX_LINE_OCTETS - 1)}\r\nC\r\n`;
  const expected = ['A b', '', 'x'.repeat(MAX_LINE_OCTETS - 2), TOO_LONG, 'C'];
  for (let cut = 0; cut < wire.length; cut++) {
    assert.deepEqual(read(wire.slice(0, cut), wire.slice(cut)), expected, `cut at ${cut}`);
  }
  assert.deepEqual(read(...wire), expected);
});

test('a line that never ends is given up, and costs no memory', () => {
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

test('a bare LF ends no line, and nothing behind it is read', () => {
  for (const wire of ['A\nB\r\nC\r\n', '\nA\r\n', 'A\r\nB\n\r\n', `${'x'.repeat(9000)}\nA\r\n`]) {
    const found = read(wire);
    assert.equal(found.at(-1), BARE_LF, JSON.stringify(wire));
    assert.ok(!found.includes('C') && !found.includes(''), JSON.stringify(found));
  }
});

test('what no command has in it is refused, whatever the command', () => {
  for (const line of ['NOOP \0', 'QUIT\r', 'NOOP \x7f', 'NOOP\t\x01', Buffer.from([0x4e, 0xff])]) {
    assert.deepEqual(read(line, '\r\n'), [BAD_CHARACTERS]);
  }
  const text = 'MAIL FROM:<müller@sender.test> SMTPUTF8';
  assert.deepEqual(read(`${text} \t \r\nRSET \t\r\n`), [text, 'RSET']);
});
