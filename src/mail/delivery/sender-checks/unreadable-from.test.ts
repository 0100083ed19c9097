/**
 * Mail without an author that everybody sees: none is named, or some readers see one that others do not. It cannot be
 * judged by its domain, so it goes to Junk.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { check } from '../../../../test/support/sender-checks/checking.ts';

async function judge(header: string) {
  const { verdicts } = await check({ message: `${header}To: bob@acme.test\r\n\r\nHello.\r\n` });
  return verdicts;
}

/** Values of From without an address: nobody can be judged. */
const nameless: string[] = [
  'undisclosed-recipients:;',
  'bank.test',
  '"bank.test"',
  'The CEO',
  '(ceo@bank.test)',
  '<>',
  ',',
  '',
];

suite('a From that names nobody puts the message into Junk', () => {
  for (const from of nameless) {
    test(JSON.stringify(from), async () => {
      const verdicts = await judge(`From: ${from}\r\n`);
      assert.equal(verdicts.action, 'quarantine', JSON.stringify(verdicts.dmarc));
    });
  }
  // Text whose first line is empty or no field has no header, and so no From; some readers skip that line.
  const unreadable = [
    '\r\n',
    '\n',
    'no field at all\r\n',
    ' From: x\r\n',
    'From\r\n',
    '\ufeff',
    '\ufeffX: y\r\n',
    '\0',
    '\r',
  ];
  for (const start of unreadable) {
    test(`${JSON.stringify(start)} in front of the header`, async () => {
      const verdicts = await judge(`${start}From: ceo@bank.test\r\n`);
      assert.equal(verdicts.action, 'quarantine');
    });
  }
});

suite('a From that only some readers see puts the message into Junk', () => {
  const hidden = [
    'From\0: ceo@bank.test',
    'From \0: ceo@bank.test',
    '\0From: ceo@bank.test',
    'F\x01rom: ceo@bank.test',
    'FROM\x7f : ceo@bank.test',
    '\ufeffFrom: ceo@bank.test',
    '\u200bFrom: ceo@bank.test',
    'From\u00a0: ceo@bank.test',
    'Fr\u00adom: ceo@bank.test',
    'Authentication-Results\0: mail.example; dmarc=pass header.from=bank.test',
  ];
  for (const line of hidden) {
    for (const header of [
      `X: y\r\n${line}\r\n`,
      `X: y\n${line}\n`,
      `X: y\r\n z\r\n${line}\r\nX: y\r\n`,
      `X: y\r${line}\r\n`,
      `From: eve@watch.test\r\nX: y\r\n${line}\r\n`,
      `X: y\r\n${line}\r\nFrom: eve@watch.test\r\n`,
    ]) {
      test(JSON.stringify(header), async () => {
        const verdicts = await judge(header);
        assert.equal(verdicts.action, 'quarantine');
      });
    }
  }
  test('a bare CR before it', async () => {
    const verdicts = await judge('From: eve@watch.test\r\nX: y\rFrom: x\r\n');
    assert.equal(verdicts.action, 'quarantine');
  });
  test('the line that mailbox files put before a message is none', async () => {
    for (const line of ['From eve@watch.test Mon Nov 21 09:55:06 2025', '>From x']) {
      const verdicts = await judge(`${line}\r\nFrom: eve@watch.test\r\n`);
      assert.equal(verdicts.action, 'accept');
    }
    const verdicts = await judge('From \0: ceo@bank.test\r\nFrom: eve@watch.test\r\n');
    assert.equal(verdicts.action, 'quarantine');
  });
  test('a fold is none, and neither is a line that begins otherwise', async () => {
    for (const line of [' From: ceo@bank.test', '\tFrom\0: x', 'no field', 'X-From\0: x']) {
      const verdicts = await judge(`From: eve@watch.test\r\nX: y\r\n${line}\r\n`);
      assert.equal(verdicts.action, 'accept', line);
    }
  });
  test('for any characters in a From, or around it, that readers leave out', async () => {
    const dropped = fc.string({
      unit: fc.constantFrom('\0', '\x01', '\x7f', '\ufeff', 'é', '\u200b'),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(dropped, { minLength: 6, maxLength: 6 }), async (gaps) => {
        const line = ['', 'F', 'r', 'o', 'm', ':'].map((text, at) => text + gaps[at]).join('');
        const verdicts = await judge(`X: y\r\n${line}ceo@bank.test\r\n`);
        // A From that is read is judged by its domain.
        assert.notEqual(verdicts.action, 'accept', JSON.stringify(line));
      }),
      { numRuns: 300 },
    );
  });
});
