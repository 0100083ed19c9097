import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { sealMessage } from 'mailauth';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import {
  check,
  HOST,
  insider,
  mail,
  records,
  signed,
  stranger,
} from '../../../../test/support/sender-checks/checking.ts';
import { ed25519Key, rsaKey, sign } from '../../../../test/support/sender-checks/signed-mail.ts';
import { readSignature, readSigningKey } from './read-signature.ts';
import { keyIn, survivesForwarding } from './verify-signatures.ts';

/** Whether mailauth finds a valid signature that covers the whole body. */
async function passesElsewhere(message: Buffer): Promise<boolean> {
  const { results } = await dkimVerify(message, {
    strict: true,
    resolver: async (name) => {
      const found = records[`TXT ${name}`];
      if (!found) throw Object.assign(new Error('no record'), { code: 'ENOTFOUND' });
      return found.map((record) => [String(record)]);
    },
  });
  return results.some(({ status }) => status.result === 'pass' && !status.underSized);
}

test('a key is read once for an answer of DNS, and again from the next answer', () => {
  const answerWith = (record: string) => ({ kind: 'records' as const, records: [record] });
  const first = answerWith(rsaKey.record);
  const key = keyIn(first);
  assert.ok('key' in key);
  assert.equal(keyIn(first), key);
  assert.notEqual(keyIn(answerWith(rsaKey.record)), key);
  const revoked = answerWith('v=DKIM1; p=');
  assert.deepEqual(keyIn(revoked), { problem: 'key revoked' });
  assert.equal(keyIn(revoked), keyIn(revoked));
});

test('of several records at a selector the first that is a key counts', () => {
  const keyOf = (...texts: string[]) => keyIn({ kind: 'records', records: texts });
  assert.ok('key' in keyOf('v=spf1 -all', rsaKey.record));
  assert.ok('key' in keyOf(rsaKey.record, 'v=DKIM1; p='));
  assert.deepEqual(keyOf('v=DKIM1; p=', 'v=spf1 -all'), { problem: 'key revoked' });
  assert.ok('problem' in keyOf('a=1', 'a=2', 'a=3', 'a=4', rsaKey.record));
});

suite('signatures that another implementation makes', () => {
  const value = fc
    .array(
      fc.constantFrom(
        'a',
        'B',
        ' ',
        '\t',
        '\r\n ',
        '\r\n\t',
        ':',
        ';',
        'b=',
        '"',
        'ü',
        '  ',
        '=',
        ',',
      ),
      { minLength: 1, maxLength: 12 },
    )
    // A fold that ends the value would make a line of white space, which the signer drops.
    .map((parts) => `x${parts.join('')}x`);
  const name = fc.constantFrom(
    'Subject',
    'To',
    'X-One',
    'x-two',
    'Date ',
    'MIME-Version',
    'Subject',
  );
  const fields = fc.array(
    fc.tuple(name, value).map(([key, text]) => `${key}: ${text}\r\n`),
    {
      maxLength: 6,
    },
  );
  const body = fc
    .array(fc.constantFrom('a', ' ', '\t', '\r\n', 'b c', '\r\n\r\n', '.', 'ä'), { maxLength: 20 })
    .map((parts) => parts.join(''));
  const signing = fc.record({
    canonicalization: fc.constantFrom(
      'simple/simple',
      'relaxed/relaxed',
      'relaxed/simple',
      'simple/relaxed',
    ),
    keys: fc.constantFrom({ selector: 'key1', key: rsaKey }, { selector: 'key2', key: ed25519Key }),
    headerList: fc.constantFrom(
      undefined,
      ['from'],
      ['from', 'from', 'subject', 'subject', 'subject'],
      ['from', 'x-one', 'date', 'to'],
    ),
    maxBodyLength: fc.constantFrom(undefined, undefined, 5),
  });
  /** Changes that a message may get on its way; most break the signature, some do not. */
  const change = fc.constantFrom<(text: string) => string>(
    (text) => text,
    (text) => text,
    (text) => text.replace('Subject: x', 'Subject: y'),
    (text) => text.replace('Subject: x', 'SUBJECT:   x'),
    (text) => `${text}more\r\n`,
    (text) => `${text}\r\n\r\n`,
    (text) => `X-One: new\r\n${text}`,
    (text) => `Subject: new\r\n${text}`,
    (text) => `From: eve@evil.test\r\n${text}`,
    (text) => text.replace('a', 'c'),
    (text) => text.replaceAll('\r\n', '\n'),
    (text) => text.replace(' \r\n', '\r\n'),
    (text) => text.replace('h=', 'x-h=1; h='),
    (text) => text.replace('d=bank.test', 'd=BANK.test'),
    (text) => text.replace('v=1;', 'v=1; v=1;'),
    (text) => text.replace('; b=', ';\r\n nonsense; b='),
    (text) => text.replace('s=key', 's=kex'),
    (text) => text.replace('q=dns/txt', 'q=dns/other'),
    (text) => text.replace('c=', 'c=odd'),
  );

  test('pass here exactly where mailauth passes them, whatever was changed', async () => {
    await fc.assert(
      fc.asyncProperty(fields, body, signing, change, async (list, text, options, changed) => {
        const { canonicalization, headerList, maxBodyLength, keys } = options;
        const source = `From: ann@bank.test\r\n${list.join('')}\r\n${text}`;
        const signed = await sign(source, {
          domain: 'bank.test',
          canonicalization,
          ...keys,
          ...(headerList && { headerList }),
          ...(maxBodyLength !== undefined && { maxBodyLength }),
        });
        const message = Buffer.from(changed(signed));
        const { verdicts } = await check({ message, client: stranger });
        const passes = verdicts.dkim.some(({ result }) => result === 'pass');
        assert.equal(passes, await passesElsewhere(message), JSON.stringify(verdicts.dkim));
      }),
      { numRuns: 300 },
    );
  });
});

suite('a signature is refused before its key is looked up', () => {
  const good = 'v=1; a=rsa-sha256; d=bank.test; s=key1; h=from; bh=x; b=x';
  const now = Date.UTC(2026, 0, 1);
  const seconds = now / 1_000;
  const refused: [what: string, text: string, comment: string | undefined][] = [
    ['a good one', good, undefined],
    ['an identity below the domain', `${good}; i=ann@mail.bank.test`, undefined],
    ['a time to come', `${good}; t=1; x=${seconds + 1}`, undefined],
    ['one query method among others', `${good}; q=x:dns/txt`, undefined],
    ['a selector that is a number', good.replace('s=key1', 's=20230601'), undefined],
    ['a selector that looks like an address', good.replace('s=key1', 's=10.1'), undefined],
    [
      'a selector that no name can have',
      good.replace('s=key1', 's=a/b'),
      'invalid domain or selector',
    ],
    ['no version', good.replace('v=1; ', ''), 'unknown version'],
    ['another version', good.replace('v=1', 'v=2'), 'unknown version'],
    ['no body hash', good.replace('bh=x; ', ''), 'missing tag'],
    ['an empty tag', good.replace('s=key1', 's='), 'missing tag'],
    ['a domain that is none', good.replace('bank.test', 'a b/c'), 'invalid domain or selector'],
    ['another algorithm', good.replace('sha256', 'sha512'), 'unknown algorithm'],
    ['SHA-1', good.replace('sha256', 'sha1'), 'rsa-sha1'],
    ['another canonicalization', `${good}; c=odd`, 'unknown canonicalization'],
    ['a From that is not signed', good.replace('h=from', 'h=to'), 'From not signed'],
    ['another query method', `${good}; q=x`, 'unknown query method'],
    ['a tag twice', `${good}; s=key2`, 'syntax error'],
    ['a tag without a value', `${good}; x`, 'syntax error'],
    ['a length that is no number', `${good}; l=-1`, 'syntax error'],
    ['an identity elsewhere', `${good}; i=@evil.test`, 'domain mismatch'],
    ['an identity that only ends alike', `${good}; i=@evilbank.test`, 'domain mismatch'],
    ['a time that is over', `${good}; x=${seconds - 1}`, 'expired'],
    [
      'an end before its start',
      `${good}; t=${seconds + 9}; x=${seconds + 1}`,
      'invalid expiration',
    ],
  ];
  test('by its selector and its domain as one name, in ASCII (RFC 8616 section 4)', () => {
    const nameOf = (tags: string) => {
      const text = `DKIM-Signature: ${Buffer.from(tags).toString('latin1')}`;
      return readSignature({ name: 'dkim-signature', text }, 'dkim', now).keyName;
    };
    assert.equal(nameOf('s=20230601; d=gmail.com'), '20230601._domainkey.gmail.com');
    assert.equal(nameOf('s=2048.mail; d=Bank.test'), '2048.mail._domainkey.bank.test');
    assert.equal(
      nameOf('s=schlüssel; d=bücher.test'),
      'xn--schlssel-95a._domainkey.xn--bcher-kva.test',
    );
  });
  for (const [what, text, comment] of refused) {
    test(what, () => {
      const field = { name: 'dkim-signature', text: `DKIM-Signature: ${text}` };
      assert.equal(readSignature(field, 'dkim', now).refusal?.comment, comment);
    });
  }
});

suite('a key record', () => {
  const p = rsaKey.record.split('p=')[1] ?? '';
  const spki = (bits: number, e = 'AQAB') => {
    const n = Buffer.alloc(bits / 8, 0xff).toString('base64url');
    const key = createPublicKey({ key: { kty: 'RSA', n, e }, format: 'jwk' });
    return key.export({ type: 'spki', format: 'der' }).toString('base64');
  };
  const bare = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({
    type: 'pkcs1',
    format: 'der',
  });
  const cases: [record: string, problem: string | undefined][] = [
    [rsaKey.record, undefined],
    [ed25519Key.record, undefined],
    [`p=${p}`, undefined],
    [`v=DKIM1; h=sha1:sha256; s=email; t=y; n=a note; p=${p};`, undefined],
    [`k=rsa; p=${bare.toString('base64')}`, undefined],
    [`p= ${p.slice(0, 20)} ${p.slice(20)}`, undefined],
    ['', 'invalid key record'],
    ['v=DKIM1', 'invalid key record'],
    [`p=${p}; p=${p}`, 'invalid key record'],
    [`v=DKIM2; p=${p}`, 'unknown key version'],
    [`p=${p}; v=DKIM1`, 'unknown key version'],
    ['v=DKIM1; p=', 'key revoked'],
    [`h=sha1; p=${p}`, 'key not for sha256'],
    [`s=tlsrpt; p=${p}`, 'key not for email'],
    [`k=dsa; p=${p}`, 'unknown key type'],
    [`k=ed25519; p=${p}`, 'invalid public key'],
    ['p=AAAA', 'invalid public key'],
    [`p=${spki(512)}`, 'weak key'],
    [`p=${spki(4_096)}`, undefined],
    [`p=${spki(8_200)}`, 'key too long'],
    [`p=${spki(2_048, 'AQAAAAAB')}`, 'key too long'],
  ];
  for (const [record, problem] of cases) {
    test(`${record.slice(0, 40)}: ${problem ?? 'a key'}`, () => {
      const found = readSigningKey(record);
      assert.equal('problem' in found ? found.problem : undefined, problem);
    });
  }
});

suite('ARC', () => {
  async function seal(message: string, cv: string): Promise<string> {
    const set = await sealMessage(Buffer.from(message), {
      signingDomain: 'list.test',
      selector: 'key1',
      privateKey: rsaKey.privateKey,
      cv,
      authResults: 'list.test; dmarc=pass header.from=bank.test',
    });
    return set.toString() + message;
  }
  const original = mail('ann@watch.test');

  test('a chain that is intact', async () => {
    const twice = await seal(await seal(original, 'none'), 'pass');
    const { verdicts, left } = await check({ message: twice });
    assert.deepEqual(verdicts.arc, { result: 'pass', instance: 2, domain: 'list.test' });
    assert.match(
      verdicts.authenticationResults,
      /arc=pass \(i=2 d=list\.test\) smtp\.remote-ip=203/,
    );
    assert.equal(left, twice);
  });

  test('the key of a seal whose domain and selector are in UTF-8 (RFC 8616 section 4)', async () => {
    const name = 'xn--schlssel-95a._domainkey.xn--bcher-kva.test';
    const once = await seal(original, 'none');
    const message = once.replace('d=list.test', 'd=bücher.test').replace('s=key1', 's=schlüssel');
    const { asked } = await check({ message });
    assert.ok(asked.includes(`TXT ${name}`), asked.join());
  });

  test('does not make up for DMARC', async () => {
    const { verdicts } = await check({ message: await seal(mail('ann@bank.test'), 'none') });
    assert.equal(verdicts.arc.result, 'pass');
    assert.equal(verdicts.action, 'reject');
  });

  test('a chain that is broken', async () => {
    const once = await seal(original, 'none');
    const broken = [
      `${once}More.\r\n`,
      once.replace('dmarc=pass', 'dmarc=fail'),
      once.replace(/^ARC-Seal/, 'X-ARC-Seal'),
      `ARC-Seal: i=1; cv=none\r\n${once}`,
      once.replace('s=key1', 's=gone'),
      `ARC-Seal: ${'x'.repeat(20_000)}\r\n${once}`,
      'ARC-Seal: nonsense\r\nARC-Message-Signature: i=1\r\n\r\n',
    ];
    for (const message of broken) {
      const { verdicts } = await check({ message });
      assert.notEqual(verdicts.arc.result, 'pass', message.slice(0, 60));
    }
  });
});

suite('a message that is forwarded', () => {
  const survives = async (message: string, client = stranger) =>
    (await check({ message, client })).verdicts.survivesForwarding;

  test('survives by an aligned signature', async () => {
    assert.equal(await survives(await signed('ann@bank.test', { domain: 'bank.test' })), true);
    assert.equal(await survives(await signed('ann@bank.test', { domain: 'mail.bank.test' })), true);
  });

  test('does not by SPF, an unaligned signature, one aligned too loosely, or one that fails', async () => {
    assert.equal(await survives(mail('ann@bank.test'), insider), false);
    assert.equal(await survives(await signed('ann@bank.test', { domain: 'evil.test' })), false);
    assert.equal(
      await survives(await signed('a@strict.test', { domain: 'mail.strict.test' })),
      false,
    );
    assert.equal(await survives(`${await signed('a@bank.test', { domain: 'bank.test' })}x`), false);
  });

  test('does not where one of its authors is left out', async () => {
    const message = await signed('ann@bank.test, bob@watch.test', { domain: 'bank.test' });
    assert.equal(await survives(message), false);
    assert.equal(await survives(await sign(message, { domain: 'watch.test' })), false);
  });

  const onTop = (...names: string[]) =>
    `${names.map((name) => `${name}: x.test; none\r\n`).join('')}${mail('ann@bank.test')}`;
  const headerList = ['from', 'received', 'authentication-results'];

  test('survives where each signed field exists', async () => {
    const message = onTop('Received', 'Authentication-Results');
    assert.equal(await survives(await sign(message, { domain: 'bank.test', headerList })), true);
  });

  test('does not where a signature covers a field that is removed', async () => {
    const claim = `Authentication-Results: ${HOST}; none\r\n${mail('ann@bank.test')}`;
    const message = await sign(claim, { domain: 'bank.test', headerList });
    const { verdicts, left } = await check({ message });
    assert.equal(verdicts.dkim[0]?.result, 'pass', 'it is judged as it came');
    assert.equal(left.includes(HOST), false);
    assert.equal(verdicts.survivesForwarding, false);
  });

  test('does not where a signature forbids added fields', () => {
    const fields = ['received', 'from'].map((name) => ({ name, text: '', start: 0, end: 0 }));
    const header = { fields, size: 0, isWhole: true };
    const names: [string[], boolean][] = [
      [['from'], true],
      [['from', 'from'], true],
      [['from', 'received'], true],
      [['from', 'received', 'received'], false],
      [['from', 'delivered-to'], false],
    ];
    for (const [signedFields, survives] of names) {
      const about = { domain: 'bank.test', selector: 'key1', start: '', comment: '', signedFields };
      const passing = { ...about, result: 'pass' as const };
      assert.equal(survivesForwarding(passing, header, false), survives, signedFields.join());
      assert.equal(survivesForwarding({ ...about, result: 'fail' }, header, false), false);
    }
  });
});
