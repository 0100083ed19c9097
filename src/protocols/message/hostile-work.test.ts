/** The cost of a hostile message, counted in calls: their number does not depend on the load of the machine. */
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { suite, test } from 'node:test';
import { HeaderReader, MAX_FIELDS } from './header.ts';
import { MessageParser } from './parse-message.ts';
import { decodeText } from './text.ts';

const SIZE = 2 * 1024 * 1024;
const CHUNK = 64 * 1024;
const MULTIPART = 'From: a@b.test\r\nContent-Type: multipart/mixed; boundary=bbb\r\n\r\n--bbb\r\n';

const COUNTED = ['indexOf', 'toString', 'subarray', 'copy', 'equals'] as const;

/** Counts calls of slow Buffer methods. */
function countCalls(work: () => void): number {
  let calls = 0;
  const originals = COUNTED.map((name) => [name, Buffer.prototype[name]] as const);
  // Not the mocks of node:test, which keep a stack of each call.
  const replace = (name: string, value: unknown) =>
    Object.defineProperty(Buffer.prototype, name, { value, configurable: true, writable: true });
  for (const [name, method] of originals) {
    const counting = new Proxy(method, {
      apply(target, self, given) {
        calls++;
        return Reflect.apply(target, self, given);
      },
    });
    replace(name, counting);
  }
  try {
    work();
  } finally {
    for (const [name, method] of originals) replace(name, method);
  }
  return calls;
}

function parse(source: Buffer): void {
  const parser = new MessageParser();
  for (let at = 0; at < source.length; at += CHUNK) {
    parser.write(Uint8Array.prototype.subarray.call(source, at, at + CHUNK));
  }
  parser.end();
}

suite('two megabytes of', () => {
  const hostile: [what: string, start: string, line: string][] = [
    ['dashes in a part', `${MULTIPART}\r\n`, '--\r\n'],
    ['lines that begin like a boundary', `${MULTIPART}\r\n`, '--b\r\n'],
    ['dashes in the header of a part', MULTIPART, '--\r\n'],
    ['header fields of a part', MULTIPART, 'A: b\r\n'],
    ['header fields', '', 'A: b\r\n'],
    ['folds', 'A: b\r\n', ' b\r\n'],
    ['parts', MULTIPART, '\r\n--bbb\r\n\r\n'],
  ];
  for (const [what, start, line] of hostile) {
    test(`${what} needs no call for each line`, () => {
      const lines = SIZE / line.length;
      const source = Buffer.from(start + line.repeat(lines));
      const calls = countCalls(() => parse(source));
      assert.ok(calls < lines / 2, `${calls} calls for ${lines} lines`);
    });
  }

  test('UTF-7 needs no call for each character that is written in base64', () => {
    const shifted = '+AAA-';
    const text = Buffer.from(shifted.repeat(SIZE / shifted.length));
    const calls = countCalls(() => decodeText(text, 'utf-7'));
    assert.ok(calls < 10, `${calls} calls`);
  });

  test('header fields: only those that are read are kept', () => {
    const reader = new HeaderReader();
    reader.write(Buffer.from('A: b\r\n'.repeat(SIZE / 6)));
    assert.equal(reader.header.fields.length, MAX_FIELDS);
    assert.ok(reader.bytes.length < 2 * MAX_FIELDS * 6);
  });
});
