import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { FIELD_HELD, FieldCutter, type FieldPiece } from './cut-fields.ts';
import { ResultsRemoval, serviceName } from './remove-claimed-results.ts';
import { cutAt } from './testing/stream.ts';

const HOST = 'mail.example';

/** What is left of a message, in as many chunks. */
function remove(chunks: readonly Buffer[], hostname = HOST): { left: Buffer; removed: boolean } {
  const cutter = new FieldCutter();
  const removal = new ResultsRemoval(serviceName(hostname));
  const left: Buffer[] = [];
  const keep = (pieces: readonly FieldPiece[]) =>
    left.push(...pieces.filter((piece) => removal.keeps(piece)).map(({ bytes }) => bytes));
  let inBody = false;
  for (const chunk of chunks) {
    if (inBody) {
      left.push(chunk);
      continue;
    }
    const { pieces, rest } = cutter.take(chunk);
    keep(pieces);
    if (rest) left.push(rest);
    inBody = rest !== undefined;
  }
  if (!inBody) keep(cutter.end().pieces);
  return { left: Buffer.concat(left), removed: removal.removed };
}

const claims = [
  'Authentication-Results: mail.example; dkim=pass header.d=bank.test',
  'authentication-RESULTS:MAIL.Example;spf=pass',
  'Authentication-Results: mail.example',
  'Authentication-Results: mail.example 1; none',
  'Authentication-Results : mail.example; none',
  'Authentication-Results\r\n : mail.example; none',
  'Authentication-Results:\r\n mail.example;\r\n\tdkim=pass',
  'Authentication-Results:\n mail.example;\n\tdkim=pass',
  'Authentication-Results: (a comment) mail.example; none',
  'Authentication-Results: (nested (deep) \\) still) (two)\r\n mail.example; none',
  'Authentication-Results: mail.example(comment); none',
  'Authentication-Results: mail.example/1; none',
  'Authentication-Results: "mail.example"; none',
  'Authentication-Results: "ma\\il.exam\\ple" 1; none',
  'Authentication-Results: " mail.example "; none',
  'Authentication-Results: mail.example.; none',
  'Authentication-Results: \0mail.example\0; none',
  'Authentication-Results: \u00a0mail.example; none',
  'Authentication-Results: ｍail.example; none',
  // Whose these are cannot be told, so nobody is to take them for ours.
  'Authentication-Results: (mail.example; dkim=pass',
  'Authentication-Results: "mail.example; dkim=pass',
];

const others = [
  'Authentication-Results: mail.example.org; none',
  'Authentication-Results: notmail.example; none',
  'Authentication-Results: (mail.example) mx.other; none',
  'Authentication-Results: mx.other (mail.example); none',
  'Authentication-Results: "mail.example;"; none',
  'Authentication-Results: ;mail.example',
  'Authentication-Results:',
  'Authentication-Results mail.example; none',
  'Authentication-Results',
  'X-Authentication-Results: mail.example; none',
  'Authentication-Results-Old: mail.example; none',
  'ARC-Authentication-Results: i=1; mail.example; none',
  'Subject: Authentication-Results: mail.example; none',
  'Subject: hi\r\n Authentication-Results: mail.example; none',
];

suite('Authentication-Results that claim our name', () => {
  for (const claim of claims) {
    test(`removed: ${JSON.stringify(claim)}`, () => {
      for (const end of ['\r\n', '\n']) {
        const [before, after] = [`From: a@b.test${end}`, `To: c@d.test${end}${end}${claim}${end}`];
        const { left, removed } = remove([Buffer.from(`${before}${claim}${end}${after}`)]);
        assert.equal(left.toString(), before + after);
        assert.equal(removed, true);
      }
    });
  }

  for (const other of others) {
    test(`kept: ${JSON.stringify(other)}`, () => {
      const message = `${other}\r\nTo: c@d.test\r\n\r\nhello`;
      const { left, removed } = remove([Buffer.from(message)]);
      assert.equal(left.toString(), message);
      assert.equal(removed, false);
    });
  }

  test('our name may be an internationalized one, in either form', () => {
    for (const name of [
      'mail.bücher.example',
      'mail.xn--bcher-kva.example',
      'MAIL.BÜCHER.example',
    ]) {
      const message = Buffer.from(`Authentication-Results: ${name}; none\r\n\r\n`);
      for (const host of ['mail.bücher.example', 'mail.xn--bcher-kva.example']) {
        assert.equal(remove([message], host).left.toString(), '\r\n');
      }
    }
  });

  test('all of them, also without a body, an end of the last line, or any other field', () => {
    const claim = 'Authentication-Results: mail.example; none';
    assert.equal(remove([Buffer.from(`${claim}\r\n${claim}`)]).left.length, 0);
    assert.equal(remove([]).left.length, 0);
  });

  test('one that is nothing but comments and white space for longer than is held goes too', () => {
    const space = ' '.repeat(FIELD_HELD);
    const long = [
      `Authentication-Results: ${space}mail.example; none`,
      `Authentication-Results${space}: mail.example; none`,
      `Authentication-Results: (${space}) mail.example; none`,
    ];
    for (const claim of long) {
      const message = Buffer.from(`${claim}\r\nTo: c@d.test\r\n\r\n`);
      for (const size of [1_000, message.length]) {
        const offsets = Array.from({ length: message.length / size }, (_, n) => n * size);
        assert.equal(remove(cutAt(message, offsets)).left.toString(), 'To: c@d.test\r\n\r\n');
      }
    }
  });
});

suite('everything else', () => {
  test('100,000 fields, and one of a megabyte', () => {
    const fields = Array.from({ length: 100_000 }, (_, n) =>
      n % 1_000 === 0 ? 'Authentication-Results: mail.example; none\r\n' : `X-${n}: y\r\n`,
    );
    const long = `X: ${'z'.repeat(1_000_000)}\r\n z\r\nAuthentication-Results: mx; ${'y'.repeat(1_000_000)}\r\n`;
    const message = Buffer.from(`${fields.join('')}${long}\r\nbody`);
    const expected = `${fields.filter((field) => field.startsWith('X')).join('')}${long}\r\nbody`;
    const offsets = Array.from({ length: message.length / 1_400 }, (_, n) => n * 1_400);
    for (const chunks of [[message], cutAt(message, offsets)]) {
      assert.ok(remove(chunks).left.equals(Buffer.from(expected)));
    }
  });

  const lineEnd = fc.constantFrom('\r\n', '\n');
  const claim = fc.tuple(fc.constantFrom(...claims), lineEnd).map((parts) => parts.join(''));
  const oddLine = fc.array(
    fc.constantFrom('a', ':', ' ', '\t', '\r', '(', '"', 'Authentication-Results', 'mail.example'),
    { maxLength: 8 },
  );
  const other = fc
    .tuple(
      fc.oneof(
        fc.constantFrom(...others),
        oddLine.map((parts) => `X: ${parts.join('')}`),
        oddLine.map((parts) => `Subject: ${parts.join('')}\r\n ${parts.join('')}`),
        fc
          .string({ minLength: 1, unit: 'binary' })
          .map((text) => `B: ${text.replaceAll('\n', '')}`),
      ),
      lineEnd,
    )
    // A CR before the line end would be part of it; here every field ends as it should.
    .map(([field, end]) => `${field.replace(/\r+$/, '')}${end}`);
  const body = fc.string({ unit: 'binary' }).map((text) => `\r\n${text}`);
  const offsets = fc.array(fc.nat(), { maxLength: 20 });

  test('is passed on byte by byte, whatever the chunks', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(claim, other), { maxLength: 10 }),
        fc.option(body, { nil: '' }),
        offsets,
        (fields, rest, cuts) => {
          const isClaim = (field: string) => claims.includes(field.replace(/\r?\n$/, ''));
          const kept = fields.filter((field) => !isClaim(field));
          const { left, removed } = remove(cutAt(Buffer.from(fields.join('') + rest), cuts));
          assert.equal(
            left.toString('latin1'),
            Buffer.from(kept.join('') + rest).toString('latin1'),
          );
          assert.equal(removed, kept.length < fields.length);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  test('any bytes at all: chunks make no difference, and nothing is added', () => {
    const bytes = fc
      .array(fc.constantFrom('\r', '\n', '\r\n', ' ', 'x', ':', '(', '"', claims[0] ?? ''))
      .map((parts) => Buffer.from(parts.join('')));
    fc.assert(
      fc.property(bytes, offsets, (message, cuts) => {
        const whole = remove([message]);
        const cut = remove(cutAt(message, cuts));
        assert.deepEqual(cut.left.toString('latin1'), whole.left.toString('latin1'));
        if (!whole.removed) assert.ok(whole.left.equals(message));
      }),
      { numRuns: 1_000 },
    );
  });
});

test('names of nothing but dots are no claims, however many', () => {
  const field = `Authentication-Results: ${'.'.repeat(60_000)}a\r\n`;
  const message = Buffer.from(`${field.repeat(50)}\r\nHi.\r\n`);
  const { left, removed } = remove([message]);
  assert.equal(removed, false);
  assert.ok(left.equals(message));
});
