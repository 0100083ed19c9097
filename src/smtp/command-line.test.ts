import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refuseLine } from './command-line.ts';

function codeOf(line: string | Buffer, protocol: 'smtp' | 'lmtp' = 'smtp'): number | undefined {
  return refuseLine(Buffer.from(line), protocol)?.code;
}

test('what no command has in it is refused, whatever the command', () => {
  for (const line of ['NOOP \0', 'QUIT\r', 'NOOP \x7f', Buffer.from([0x4e, 0xff])]) {
    assert.equal(codeOf(line), 500);
  }
  assert.equal(codeOf('MAIL FROM:<müller@sender.test> SMTPUTF8'), undefined);
});

test('a command is what the library takes it for, in letters that become its own as well', () => {
  for (const line of ['quit now', 'quıt now', 'rſet x', 'DATA '])
    assert.equal(codeOf(line), 501, line);
  for (const line of ['auth plain', 'ſend a', 'EXPN', 'ſOML'])
    assert.equal(codeOf(line), 502, line);
  for (const line of ['quit', 'RSET', 'noop x', '']) assert.equal(codeOf(line), undefined, line);
});

test('each protocol has its own greeting', () => {
  assert.equal(codeOf('LHLO a.test'), 500);
  assert.equal(codeOf('EHLO a.test', 'lmtp'), 500);
  assert.equal(codeOf('LHLO a.test', 'lmtp'), undefined);
  assert.equal(codeOf('ehlo a.test'), undefined);
});
