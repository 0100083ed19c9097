import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import {
  check,
  HOST,
  inShort,
  insider,
  mail,
  pass,
  records,
  signed,
  stranger,
} from '../../../../test/support/sender-checks/checking.ts';
import { sign } from '../../../../test/support/sender-checks/signed-mail.ts';
import { collect, cutAt, streamOf } from '../../../../test/support/sender-checks/stream.ts';
import { lookupIn } from '../../../../test/support/sender-checks/zone.ts';
import { createSenderChecks, RESULTS_MAX } from './check-sender.ts';

const forged = mail('ann@bank.test');
const refused = 'fail reject bank.test | reject';

suite('a header made to be expensive', () => {
  const headers: [what: string, header: string][] = [
    ['100,000 fields', 'X: y\r\n'.repeat(100_000)],
    ['a field of a megabyte', `X: ${'y'.repeat(1_000_000)}\r\n`],
    ['a field of 300,000 folds', `X: y\r\n${' z\r\n'.repeat(300_000)}`],
    ['200,000 lines that are no field', 'x\n'.repeat(200_000)],
    ['100,000 signatures', 'DKIM-Signature: v=1\r\n'.repeat(100_000)],
  ];
  for (const [what, header] of headers) {
    test(`${what}: no signature is read, the author is found`, async () => {
      const [head, body] = (await signed('ann@bank.test', { domain: 'bank.test' })).split(
        '\r\n\r\n',
      );
      const message = `${head}\r\n${header}\r\n${body}`;
      const { verdicts, left } = await check({ message });
      assert.equal(inShort(verdicts), `pass | policy | ${refused}`);
      assert.ok(left === message);
    });
  }

  const signatures: [what: string, signature: string, result: string][] = [
    ['white space in a row', `v=1;${' '.repeat(15_000)}a=rsa-sha256`, 'neutral'],
    ['empty tags', ';'.repeat(15_000), 'neutral'],
    [
      'a domain that DNS could not hold',
      `v=1; a=rsa-sha256; d=${'\u4e00\u4e8c'.repeat(2_500)}; s=key1; h=from; bh=x; b=x`,
      'neutral',
    ],
    ['100,000 octets', `v=1; z=${'x'.repeat(60_000)}`, 'policy'],
    [
      'thousands of signed fields',
      `v=1; a=rsa-sha256; d=bank.test; s=key1; bh=x; b=x; h=from${':x'.repeat(7_000)}`,
      'fail*',
    ],
    [
      'another body length than there is',
      `v=1; a=rsa-sha256; d=bank.test; s=key1; h=from; l=${'9'.repeat(70)}; bh=x; b=x`,
      'fail*',
    ],
  ];
  for (const [what, signature, result] of signatures) {
    test(`a signature of ${what}`, async () => {
      const { verdicts } = await check({ message: `DKIM-Signature: ${signature}\r\n${forged}` });
      assert.equal(inShort(verdicts), `pass | ${result} | ${refused}`);
    });
  }

  test('many signatures: the aligned one is among the ten that are verified', async () => {
    const noise = 'DKIM-Signature: v=1; a=rsa-sha256; d=evil.test; s=key1; h=from; bh=x; b=x\r\n';
    const message = `${noise.repeat(100)}${await signed('ann@bank.test', { domain: 'bank.test' })}`;
    const { verdicts, asked } = await check({ message });
    assert.equal(verdicts.dkim.length, 10);
    assert.equal(verdicts.dmarc.result, 'pass');
    assert.ok(asked.length < 10);
    assert.ok(verdicts.authenticationResults.length <= RESULTS_MAX);
  });
});

suite('an SPF record made to be expensive', () => {
  const spf: [what: string, record: string][] = [
    ['long terms', `v=spf1 a:${'x'.repeat(60_000)}! -all`],
    ['many terms', `v=spf1 ${'ip6:::1 '.repeat(7_000)} -all`],
  ];
  for (const [what, record] of spf) {
    test(`${what}: permerror`, async () => {
      const zone = { records: { ...records, 'TXT evil.test': [record] } };
      const { verdicts } = await check({ message: forged, zone });
      assert.equal(inShort(verdicts), `permerror |  | ${refused}`);
    });
  }

  test('a circle of includes ends', async () => {
    const zone = { records: { ...records, 'TXT evil.test': ['v=spf1 include:evil.test -all'] } };
    const { verdicts } = await check({ message: forged, zone });
    assert.equal(verdicts.spf.result, 'permerror');
  });
});

suite('a body made to be expensive', () => {
  const CHUNKS = 320;
  const chunks: [what: string, chunk: string][] = [
    ['one line', 'x'.repeat(64 * 1024)],
    ['white space', ' '.repeat(64 * 1024)],
    ['bare LF', '\n'.repeat(64 * 1024)],
    ['ordinary lines', `${'x'.repeat(76)}\r\n`.repeat(840)],
  ];
  for (const [what, chunk] of chunks) {
    test(`20 MB of ${what} pass through, and none of it stays in memory`, async () => {
      const header = (await signed('ann@bank.test', { domain: 'bank.test' })).split('\r\n\r\n')[0];
      const checks = createSenderChecks({
        dns: lookupIn({ records }),
        hostname: HOST,
        enforce: true,
      });
      const checking = checks.begin(stranger);
      async function* source() {
        yield Buffer.from(`${header}\r\n\r\n`);
        const bytes = Buffer.from(chunk);
        for (let n = 0; n < CHUNKS; n++) yield bytes;
      }
      const held = () => process.memoryUsage().arrayBuffers;
      const before = held();
      let passed = 0;
      for await (const bytes of checking.through(source())) passed += bytes.length;
      assert.ok(held() - before < 8 * 1024 * 1024);
      assert.equal(passed, Buffer.byteLength(`${header}\r\n\r\n`) + CHUNKS * chunk.length);
      assert.equal((await checking.verdicts()).dkim[0]?.result, 'fail');
    });
  }
});

test('values from the message cannot break out of our field', async () => {
  const evil = 'x"; dmarc=pass header.from=bank.test (\r\n';
  const message = await sign(mail('ann@bank.test'), { domain: 'bank.test' });
  for (const text of [
    message.replace('s=key1', `s=${evil.trim().replaceAll(';', '')}`),
    message.replace('b=', `b=${evil.slice(0, 8).replace(';', '')}`),
  ]) {
    const { verdicts } = await check({
      message: text,
      client: { ...insider, from: '"a;b c"@bank.test' },
    });
    const lines = verdicts.authenticationResults.split(';\r\n ');
    assert.equal(lines.length, 4);
    assert.ok(lines.every((line, at) => at === 0 || /^(?:spf|dkim|dmarc)=/.test(line)));
    assert.ok(verdicts.authenticationResults.split('\r\n').every((line) => line.length < 998));
  }
});

test('a message that breaks off throws what its source throws, and leaves nothing behind', async () => {
  const { lookup } = lookupIn({ records, silent: ['*'] });
  const times = { lookupMs: 5, totalMs: 5, restMs: 5 };
  const checks = createSenderChecks({ dns: { lookup }, hostname: HOST, enforce: true, times });
  const checking = checks.begin(stranger);
  async function* source() {
    yield Buffer.from(forged);
    throw new Error('gone');
  }
  await assert.rejects(collect(checking.through(source())), /gone/);
  await assert.rejects(checking.verdicts(), /not read to its end/);
});

test('any bytes get a verdict, the same for all chunks', async () => {
  const part = fc.constantFrom(
    ...[
      'From: ',
      'ann@bank.test',
      'DKIM-Signature: ',
      'v=1; a=rsa-sha256; d=bank.test; s=key1; h=from',
    ],
    ...[
      '; bh=',
      '; b=',
      'ARC-Seal: i=1; ',
      'ARC-Message-Signature: i=1; ',
      'l=1',
      '\0',
      '\xff',
      '<',
      ':',
    ],
    ...[
      'Authentication-Results: mail.example; none',
      '\r\n',
      '\n',
      '\r',
      ' ',
      '"',
      '(',
      ')',
      ',',
      '\r\n\r\n',
    ],
  );
  const message = fc
    .array(part, { maxLength: 30 })
    .map((parts) => Buffer.from(parts.join(''), 'latin1'));
  const checks = createSenderChecks({
    dns: lookupIn({ records }),
    hostname: HOST,
    enforce: true,
  });
  const run = async (chunks: readonly Buffer[]) => {
    const checking = checks.begin(stranger);
    const left = await collect(checking.through(streamOf(chunks)));
    return { left: left.toString('latin1'), verdicts: await checking.verdicts() };
  };
  await fc.assert(
    fc.asyncProperty(message, fc.array(fc.nat()), async (bytes, cuts) => {
      assert.deepEqual(await run(cutAt(bytes, cuts)), await run([bytes]));
    }),
    { numRuns: 500 },
  );
});

test('two messages at a time do not mix', async () => {
  const checks = createSenderChecks({
    dns: lookupIn({ records }),
    hostname: HOST,
    enforce: true,
  });
  const good = await signed('ann@bank.test', { domain: 'bank.test' });
  const all = await Promise.all(
    Array.from({ length: 20 }, (_, n) => pass(checks, n % 2 ? good : forged, stranger)),
  );
  const expected = all.map((_, n) => (n % 2 ? 'accept' : 'reject'));
  assert.deepEqual(
    all.map(({ verdicts }) => verdicts.action),
    expected,
  );
});
