import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../../test/support/any-character.ts';
import {
  check,
  insider,
  mail,
  signed,
  stranger,
} from '../../../../test/support/sender-checks/checking.ts';
import { sign } from '../../../../test/support/sender-checks/signed-mail.ts';
import { collect, cutAt, streamOf } from '../../../../test/support/sender-checks/stream.ts';
import { lookupIn } from '../../../../test/support/sender-checks/zone.ts';
import { createSenderChecks } from './check-sender.ts';

suite('Authentication-Results', () => {
  test('says what was found, in the form of RFC 8601', async () => {
    const message = await sign(await signed('ann@bank.test', { domain: 'bank.test' }), {
      domain: 'list.test',
      selector: 'gone',
    });
    const { verdicts } = await check({ message, client: insider });
    const lines = verdicts.authenticationResults.replace(/header\.b="?[\w+/]{8}"?/g, 'header.b=X');
    assert.equal(
      lines,
      [
        'Authentication-Results: mail.example;',
        ' spf=pass smtp.mailfrom=bank.test;',
        ' dkim=pass header.d=bank.test header.s=key1 header.b=X;',
        ' dkim=neutral (no key) header.d=list.test header.s=gone header.b=X;',
        ' dmarc=pass (p=reject) header.from=bank.test',
        '',
      ].join('\r\n'),
    );
  });

  test('says what was missing', async () => {
    const { verdicts } = await check({
      message: mail('nobody:;'),
      client: { ...insider, from: '' },
    });
    assert.equal(
      verdicts.authenticationResults,
      'Authentication-Results: mail.example;\r\n spf=pass smtp.helo=out.bank.test;\r\n dkim=none;\r\n dmarc=none\r\n',
    );
  });

  test('those that claim our name are removed, others stay', async () => {
    const claim = 'Authentication-Results: MAIL.example; dmarc=pass header.from=bank.test\r\n';
    const other = 'Authentication-Results: mx.other; dmarc=pass header.from=bank.test\r\n';
    const { left } = await check({ message: `${claim}${other}${claim}${mail('ann@watch.test')}` });
    assert.equal(left, other + mail('ann@watch.test'));
  });
});

const HOST = 'mail.example';

/** What remains of a message, read in so many chunks. */
async function remove(
  chunks: readonly Buffer[],
  hostname = HOST,
): Promise<{ left: Buffer; removed: boolean }> {
  const { lookup } = lookupIn({ records: {} });
  const checks = createSenderChecks({ dns: { lookup }, hostname, enforce: true });
  const left = await collect(checks.begin(stranger).through(streamOf(chunks)));
  return { left, removed: left.length < Buffer.concat(chunks).length };
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
  // Their authserv-id cannot be read for sure, so no reader may take them for ours.
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
    test(`removed: ${JSON.stringify(claim)}`, async () => {
      for (const end of ['\r\n', '\n']) {
        const [before, after] = [`From: a@b.test${end}`, `To: c@d.test${end}${end}${claim}${end}`];
        const { left, removed } = await remove([Buffer.from(`${before}${claim}${end}${after}`)]);
        assert.equal(left.toString(), before + after);
        assert.equal(removed, true);
      }
    });
  }

  for (const other of others) {
    test(`kept: ${JSON.stringify(other)}`, async () => {
      const message = `${other}\r\nTo: c@d.test\r\n\r\nhello`;
      const { left, removed } = await remove([Buffer.from(message)]);
      assert.equal(left.toString(), message);
      assert.equal(removed, false);
    });
  }

  test('our name may be an internationalized one, in either form', async () => {
    for (const name of [
      'mail.bücher.example',
      'mail.xn--bcher-kva.example',
      'MAIL.BÜCHER.example',
    ]) {
      const message = Buffer.from(`Authentication-Results: ${name}; none\r\n\r\n`);
      for (const host of ['mail.bücher.example', 'mail.xn--bcher-kva.example']) {
        assert.equal((await remove([message], host)).left.toString(), '\r\n');
      }
    }
  });

  test('all of them, also without a body, an end of the last line, or any other field', async () => {
    const claim = 'Authentication-Results: mail.example; none';
    assert.equal((await remove([Buffer.from(`${claim}\r\n${claim}`)])).left.length, 0);
    assert.equal((await remove([])).left.length, 0);
  });

  test('one that is nothing but comments and white space for very long goes too', async () => {
    const space = ' '.repeat(100_000);
    const long = [
      `Authentication-Results: ${space}mail.example; none`,
      `Authentication-Results: (${space}) mail.example; none`,
    ];
    for (const claim of long) {
      const message = Buffer.from(`X: y\r\n${claim}\r\nTo: c@d.test\r\n\r\n`);
      for (const size of [1_000, message.length]) {
        const offsets = Array.from({ length: message.length / size }, (_, n) => n * size);
        const { left } = await remove(cutAt(message, offsets));
        assert.equal(left.toString(), 'X: y\r\nTo: c@d.test\r\n\r\n');
      }
    }
  });
});

suite('a header that is longer than the part that is read', () => {
  // Twice the part that is read.
  const fill = (line: string) => line.repeat((512 * 1024) / line.length);
  const longHeaders = [
    fill('X: y\r\n'),
    `X: ${fill('y')}\r\n`,
    `X: y\r\n${fill(' z\r\n')}`,
    `X: y\n${fill('no field\n')}`,
  ];
  const cut = (message: Buffer, size: number, start = 0) =>
    cutAt(
      message,
      Array.from({ length: (message.length - start) / size }, (_, n) => start + n * size),
    );
  for (const header of longHeaders) {
    const what = JSON.stringify(header.slice(0, 20));
    test(`${what}: is passed on with its body, also where that has lines like a From`, async () => {
      const body = '\r\nFrom: ann@bank.test\r\nAuthentication-Results: mail.example; none\r\n';
      const message = Buffer.from(`Authentication-Results: ${HOST}; none\r\n${header}${body}`);
      for (const size of [1_400, 65_536, message.length]) {
        const { left } = await remove(cut(message, size));
        assert.ok(left.toString().endsWith(`none\r\n${header}${body}`.slice(6)));
        assert.equal(left.length, header.length + body.length);
      }
    });

    test(`${what}: is refused where the rest has a From or results in our name`, async () => {
      for (const field of [
        'FROM: ann@bank.test',
        'From\r\n : x',
        'Fr\0om\0\0: x',
        `F${'\0'.repeat(2_000)}rom: x`,
        'Authentication-Results: x',
      ]) {
        const message = Buffer.from(`${header}X: y\r\n${field}\r\nX: y\r\n\r\nHi.\r\n`);
        for (const chunks of [
          cut(message, 7, header.length - 1_000),
          cut(message, 1_400),
          [message],
        ]) {
          await assert.rejects(remove(chunks), { code: 'sender_rejected' });
        }
      }
    });
  }
});

suite('everything else', () => {
  const lineEnd = fc.constantFrom('\r\n', '\n');
  const claim = fc.tuple(fc.constantFrom(...claims), lineEnd).map((parts) => parts.join(''));
  const oddLine = fc.array(
    fc.constantFrom('a', ':', ' ', '\t', '\r', '(', '"', 'Authentication-Results', 'mail.example'),
    { maxLength: 8 },
  );
  const other = fc
    .tuple(
      fc.oneof(
        // A line that is not a field is part of the field before it.
        fc.constantFrom(...others.filter((other) => /^[\w-]+:/.test(other))),
        oddLine.map((parts) => `X: ${parts.join('')}`),
        oddLine.map((parts) => `Subject: ${parts.join('')}\r\n ${parts.join('')}`),
        fc
          .string({ minLength: 1, unit: anyCharacter })
          .map((text) => `B: ${text.replaceAll('\n', '')}`),
      ),
      lineEnd,
    )
    // A CR before the line end would be part of it; here every field ends with CRLF.
    .map(([field, end]) => `${field.replace(/\r+$/, '')}${end}`);
  const body = fc.string({ unit: anyCharacter }).map((text) => `\r\n${text}`);
  const offsets = fc.array(fc.nat(), { maxLength: 20 });

  test('is passed on byte by byte, whatever the chunks', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(claim, other), { maxLength: 10 }),
        fc.option(body, { nil: '' }),
        offsets,
        async (list, rest, cuts) => {
          // Text whose first line is no field has no header.
          const fields = ['X: y\r\n', ...list];
          const isClaim = (field: string) => claims.includes(field.replace(/\r?\n$/, ''));
          const kept = fields.filter((field) => !isClaim(field));
          const { left, removed } = await remove(cutAt(Buffer.from(fields.join('') + rest), cuts));
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

  test('any bytes: chunks make no difference, and nothing is added', async () => {
    const bytes = fc
      .array(fc.constantFrom('\r', '\n', '\r\n', ' ', 'x', ':', '(', '"', claims[0] ?? ''))
      .map((parts) => Buffer.from(parts.join('')));
    await fc.assert(
      fc.asyncProperty(bytes, offsets, async (message, cuts) => {
        const whole = await remove([message]);
        const cut = await remove(cutAt(message, cuts));
        assert.deepEqual(cut.left.toString('latin1'), whole.left.toString('latin1'));
        if (!whole.removed) assert.ok(whole.left.equals(message));
      }),
      { numRuns: 1_000 },
    );
  });
});

test('names that are only dots are no claims, however many', async () => {
  const field = `Authentication-Results: ${'.'.repeat(60_000)}a\r\n`;
  const message = Buffer.from(`${field.repeat(4)}\r\nHi.\r\n`);
  const { left, removed } = await remove([message]);
  assert.equal(removed, false);
  assert.ok(left.equals(message));
});
