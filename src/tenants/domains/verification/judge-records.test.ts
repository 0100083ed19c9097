import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { parseTagList, trimSpace } from '../../../protocols/message/message.ts';
import { judgeDkim, judgeDmarc, listTexts, showText } from './judge-records.ts';
import { judgeSpf, spfRecordsOf } from './judge-spf.ts';

/** Any bytes, as a TXT record comes: one character each. */
const bytes = fc
  .uint8Array({ maxLength: 1_000 })
  .map((array) => Buffer.from(array).toString('latin1'));

/** Text that is nearly a tag list. */
const nearly = fc
  .array(
    fc.oneof(
      fc.constantFrom('v', 'p', 'k', '=', ';', ' ', '\t', 'DKIM1', 'DMARC1', 'v=spf1', 'none', '"'),
      bytes,
    ),
    { maxLength: 30 },
  )
  .map((parts) => parts.join(''));

const space = fc.stringMatching(/^[ \t\r\n]{0,3}$/);
const tagName = fc.stringMatching(/^[A-Za-z][A-Za-z0-9_]{0,8}$/);
/** RFC 6376 section 3.2 `tag-value`, without white space at its ends. */
const tagValue = fc.oneof(
  fc.constant(''),
  fc.stringMatching(/^[\x21-\x3a\x3c-\x7e]([\x21-\x3a\x3c-\x7e \t]{0,20}[\x21-\x3a\x3c-\x7e])?$/),
);

suite('tag lists', () => {
  test('text that follows the grammar is read back, wherever it has white space', () => {
    const spaced = fc.tuple(tagName, tagValue, space, space, space, space);
    fc.assert(
      fc.property(
        fc.uniqueArray(spaced, { minLength: 1, maxLength: 8, selector: ([name]) => name }),
        fc.constantFrom('', ';', '; ', ';;'),
        (specs, end) => {
          const text = specs
            .map(([name, value, a, b, c, d]) => `${a}${name}${b}=${c}${value}${d}`)
            .join(';');
          const { tags, first, broken, repeated } = parseTagList(text + end);
          assert.deepEqual(
            [...tags],
            specs.map(([name, value]) => [name, value]),
          );
          assert.equal(first, specs[0]?.[0]);
          assert.deepEqual([broken, repeated], [undefined, undefined]);
        },
      ),
    );
  });

  test('a repeated name is reported, and the first value counts', () => {
    fc.assert(
      fc.property(tagName, tagValue, tagValue, (name, one, other) => {
        const { tags, repeated } = parseTagList(`${name}=${one}; x${name}=1; ${name} = ${other}`);
        assert.equal(repeated, name);
        assert.equal(tags.get(name), one);
      }),
    );
  });

  test('any bytes are read without an exception, with the same result each time', () => {
    fc.assert(
      fc.property(fc.oneof(bytes, nearly), (text) => {
        const { tags } = parseTagList(text);
        const again = parseTagList([...tags].map(([name, value]) => `${name}=${value}`).join(';'));
        assert.deepEqual(again.tags, tags);
        assert.deepEqual([again.broken, again.repeated], [undefined, undefined]);
      }),
      { numRuns: 500 },
    );
  });

  test('white space is removed at both ends, and nothing else is', () => {
    fc.assert(
      fc.property(space, bytes, space, (a, text, b) => {
        const trimmed = trimSpace(a + text + b);
        assert.ok(!/^[ \t\r\n]|[ \t\r\n]$/.test(trimmed));
        assert.ok((a + text + b).includes(trimmed));
        assert.equal(trimmed.replace(/[ \t\r\n]/g, ''), text.replace(/[ \t\r\n]/g, ''));
      }),
    );
    assert.equal(trimSpace('\u00a0x\u00a0'), '\u00a0x\u00a0', 'bytes of UTF-8 are no white space');
  });

  const hostile: [string, string][] = [
    ['spaces', ' '.repeat(60_000)],
    ['spaces before a letter', `${' '.repeat(60_000)}x`],
    ['semicolons', ';'.repeat(60_000)],
    ['equals signs', `a${'='.repeat(60_000)}`],
    ['many tags', Array.from({ length: 10_000 }, (_, n) => `t${n}=1`).join(';')],
    ['tabs in a value', `v=DKIM1; p=${'A\t'.repeat(30_000)}`],
    ['the words of SPF again and again', 'v=spf1 '.repeat(9_000)],
  ];
  for (const [title, text] of hostile) {
    test(`the work of 64 KB of ${title} is linear`, () => {
      const txt = { kind: 'records', records: [text] } as const;
      // Processor time of this thread: a busy machine does not add to it.
      const before = process.threadCpuUsage();
      for (let n = 0; n < 10; n++) {
        judgeDkim('v=DKIM1; p=AAAA', { name: 'a.test', txt });
        judgeDmarc({ domain: 'a.test', txt });
        judgeSpf('a.test', 'b.test', txt, undefined);
      }
      const { user, system } = process.threadCpuUsage(before);
      // Linear work takes a fifth of this at most; quadratic work takes a hundred times as long.
      assert.ok(user + system < 5_000_000);
    });
  }
});

suite('TXT records', () => {
  test('any records are judged without an exception, and described in readable text of limited length', () => {
    const answers = fc.array(fc.oneof(bytes, nearly), { maxLength: 8 });
    fc.assert(
      fc.property(answers, (records) => {
        const txt =
          records.length > 0
            ? ({ kind: 'records', records } as const)
            : ({ kind: 'absent', reason: 'no_record' } as const);
        const verdicts = [
          judgeDkim('v=DKIM1; k=rsa; p=AAAA', { name: 'a.test', txt }),
          judgeDmarc({ domain: 'a.test', txt }),
          judgeSpf('a.test', 'b.test', txt, undefined),
        ];
        for (const verdict of verdicts) {
          assert.notEqual(verdict.outcome, 'unknown');
          const shown = verdict.outcome === 'unknown' ? '' : verdict.observed;
          for (const text of [shown, verdict.detail]) {
            assert.ok(text.isWellFormed());
            assert.ok(!/[\0-\x1f\x7f]/.test(text));
            assert.ok(text.length > 0 && text.length <= 4_096);
          }
        }
      }),
      { numRuns: 500 },
    );
  });

  test('only one DKIM record ever passes: our key, alone', () => {
    const key = fc.stringMatching(/^[A-Za-z0-9+/]{4}([A-Za-z0-9+/]{4}){0,20}$/);
    fc.assert(
      fc.property(key, key, (own, other) => {
        const outcome = (...records: string[]) =>
          judgeDkim(`v=DKIM1; k=rsa; p=${own}`, {
            name: 'a.test',
            txt: { kind: 'records', records },
          }).outcome;
        assert.equal(outcome(`v=DKIM1; p=${own}`), 'match');
        assert.equal(outcome(`p=${own.split('').join(' ')}`), 'match');
        assert.equal(outcome(`v=DKIM1; p=${other}`), own === other ? 'match' : 'mismatch');
        assert.equal(outcome(`v=DKIM1; p=${own}`, `v=DKIM1; p=${other}`), 'mismatch');
        assert.equal(outcome(`v=DKIM1; p=${own}`, ''), 'mismatch');
      }),
    );
  });

  test('a record of SPF begins with its version, which ends at a space or with the record', () => {
    fc.assert(
      fc.property(fc.array(nearly, { maxLength: 5 }), (records) => {
        const found = spfRecordsOf({ kind: 'records', records });
        for (const record of records) {
          const head = record.slice(0, 6).toLowerCase();
          const is = head === 'v=spf1' && (record.length === 6 || record[6] === ' ');
          assert.equal(found.includes(record), is);
        }
      }),
    );
  });

  test('text is shown as it was written, in UTF-8 where it is UTF-8', () => {
    const printable = fc.string({ unit: 'grapheme', maxLength: 100 });
    fc.assert(
      fc.property(printable, (text) => {
        fc.pre(!/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text));
        assert.equal(showText(Buffer.from(text).toString('latin1')), text);
      }),
    );
    assert.equal(showText('\xff\x00\x85'), 'ÿ\\000\\133');
  });

  test('text that nobody would see, or would read in another order, is shown by its octets', () => {
    const hidden = Buffer.from('a\u200bb\u202ec\u2028').toString('latin1');
    assert.equal(showText(hidden), 'a\\226\\128\\139b\\226\\128\\174c\\226\\128\\168');
  });

  test('text that is too long is cut, and says so', () => {
    const long = '🙂'.repeat(10_000);
    const shown = showText(Buffer.from(long).toString('latin1'));
    assert.ok(shown.length <= 4_096 && shown.isWellFormed());
    assert.match(shown, /… \(\d+ more characters\)$/);
    assert.equal(listTexts(['a', 'b', 'c', 'd', 'e', 'f', 'g']).split(', ').length, 5);
    assert.match(listTexts(['a', 'b', 'c', 'd', 'e', 'f', 'g']), / and 2 more$/);
    assert.ok(listTexts(Array(10).fill('x'.repeat(4_000))).length <= 4_096);
  });
});
