import assert from 'node:assert/strict';
import { test } from 'node:test';
import { verify } from '@node-rs/argon2';
import {
  checkPassword,
  generatePassword,
  hashPassword,
  verifyPassword as verifyInTurn,
} from './passwords.ts';

const verifyPassword = (passwordHash: string | undefined, password: string) =>
  verifyInTurn(passwordHash, password, async () => {});

test('hashes are argon2id in PHC format at the cost that OWASP recommends', async () => {
  const hash = await hashPassword('correct horse');
  assert.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z\d+/]{22}\$[A-Za-z\d+/]{43}$/);
  assert.notEqual(await hashPassword('correct horse'), hash, 'each has a salt of its own');
  assert.ok(await verify(hash, 'correct horse'));
});

test('a password matches only its own hash', async () => {
  const hash = await hashPassword('correct horse');
  assert.equal(await verifyPassword(hash, 'correct horse'), true);
  for (const wrong of ['correct horsf', 'Correct horse', 'correct horse ', '', '\0', '\ud800']) {
    assert.equal(await verifyPassword(hash, wrong), false);
  }
  assert.equal(await verifyPassword(hash, 'x'.repeat(10_000_000)), false);
  assert.equal(await verifyPassword(undefined, 'correct horse'), false);
  assert.equal(await verifyPassword(undefined, ''), false);
});

test('a password that is too long does not match even its own hash', async () => {
  const long = 'x'.repeat(1025);
  assert.equal(await verifyPassword(await hashPassword(long), long), false);
  assert.equal(await verifyPassword(await hashPassword(''), long), false);
});

test('passwords have 8 characters to 1024 bytes', () => {
  for (const good of ['12345678', ' '.repeat(8), '🙂'.repeat(8), 'x'.repeat(1024)]) {
    checkPassword(good);
  }
  const bad = [
    '',
    '1234567',
    '🙂'.repeat(7),
    'x'.repeat(1025),
    'ü'.repeat(513),
    '1234567\0',
    '1234567\ud800',
  ];
  for (const password of bad) {
    assert.throws(() => checkPassword(password), { code: 'invalid_request' });
  }
});

test('generated passwords have 20 unambiguous characters, each equally frequent', () => {
  const counts = new Map<string, number>();
  const seen = new Set<string>();
  for (let n = 0; n < 2800; n++) {
    const password = generatePassword();
    assert.match(password, /^[a-km-zA-HJ-NP-Z2-9]{20}$/);
    assert.doesNotMatch(password, /[o]/);
    seen.add(password);
    for (const sign of password) counts.set(sign, (counts.get(sign) ?? 0) + 1);
  }
  assert.equal(seen.size, 2800);
  assert.equal(counts.size, 56);
  // 1000 each on average with a deviation of 32: ten deviations never happen by chance.
  for (const count of counts.values()) assert.ok(count > 680 && count < 1320, String(count));
});

test('a flood of checks is refused, and does not prevent the setting of a password', async () => {
  let checked = 0;
  const flood = Promise.allSettled(
    Array.from({ length: 400 }, () => verifyInTurn(undefined, 'guess', async () => void checked++)),
  );
  await hashPassword('correct horse');
  assert.ok(checked < 100, `${checked} guesses went first`);
  const refused = (await flood).filter((one) => one.status === 'rejected');
  assert.ok(refused.length > 100 && refused.length <= 400 - 256, `${refused.length}`);
  assert.ok(refused.every((one) => one.reason.code === 'unavailable' && one.reason.retryAfter));
  assert.equal(await verifyPassword(undefined, 'guess'), false);
});

test('an attempt that is refused in its turn is not checked', async () => {
  const refusal = new Error('not now');
  await assert.rejects(
    verifyInTurn(await hashPassword('correct horse'), 'correct horse', () =>
      Promise.reject(refusal),
    ),
    refusal,
  );
});
