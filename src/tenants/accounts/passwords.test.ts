import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { hash, verify } from '@node-rs/argon2';
import {
  checkPassword,
  generatePassword,
  hashPassword,
  verifyPassword as verifyInTurn,
} from './passwords.ts';

const verifyPassword = (hash: string | undefined, password: string) =>
  verifyInTurn({ hash, password, client: '192.0.2.1' }, async () => {});

test('hashes are argon2id in PHC format at the cost that OWASP recommends', async () => {
  // In a process of its own: those of tests make them cheaper.
  const program = `const { hashPassword } = await import(${JSON.stringify(import.meta.resolve('./passwords.ts'))});
    console.log(await hashPassword('correct horse', 'user'));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', program]);
  const hash = stdout.trimEnd();
  assert.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z\d+/]{22}\$[A-Za-z\d+/]{43}$/);
  assert.notEqual(await hashPassword('correct horse', 'user'), hash, 'each has a salt of its own');
  assert.ok(await verify(hash, 'correct horse'));
});

test('a password matches only its own hash', async () => {
  const hash = await hashPassword('correct horse', 'user');
  assert.equal(await verifyPassword(hash, 'correct horse'), true);
  for (const wrong of ['correct horsf', 'Correct horse', 'correct horse ', '', '\0', '\ud800']) {
    assert.equal(await verifyPassword(hash, wrong), false);
  }
  assert.equal(await verifyPassword(hash, 'x'.repeat(10_000_000)), false);
  assert.equal(await verifyPassword(undefined, 'correct horse'), false);
  assert.equal(await verifyPassword(undefined, ''), false);
});

test('a password is the same text on every keyboard', async () => {
  const [composed, decomposed] = ['Mật khẩu'.normalize('NFC'), 'Mật\u00a0khẩu'.normalize('NFD')];
  for (const [set, given] of [
    [composed, decomposed],
    [decomposed, composed],
    [decomposed, decomposed],
  ] as const) {
    assert.equal(await verifyPassword(await hashPassword(set, 'user'), given), true);
  }
  const wrong = await hashPassword('Mat khau', 'user');
  assert.equal(await verifyPassword(wrong, decomposed), false);
  // As it was stored before.
  assert.equal(await verifyPassword(await hash(decomposed), decomposed), true);
});

test('a password that is too long does not match even its own hash', async () => {
  const long = 'x'.repeat(1025);
  assert.equal(await verifyPassword(await hashPassword(long, 'user'), long), false);
  assert.equal(await verifyPassword(await hashPassword('', 'user'), long), false);
});

test('passwords have 8 characters to 1024 bytes', () => {
  for (const good of ['12345678', ' '.repeat(8), '🙂'.repeat(8), 'x'.repeat(1024)]) {
    checkPassword(good);
  }
  const bad = [
    '',
    '1234567',
    '🙂'.repeat(7),
    'á'.normalize('NFD').repeat(4),
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
    Array.from({ length: 400 }, (_, index) => {
      // Each in a network of its own.
      const client = `10.${index >> 8}.${index % 256}.1`;
      const guess = { hash: undefined, password: 'guess', client };
      return verifyInTurn(guess, async () => void checked++);
    }),
  );
  await hashPassword('correct horse', 'user');
  assert.ok(checked < 100, `${checked} guesses went first`);
  const refused = (await flood).filter((one) => one.status === 'rejected');
  assert.ok(refused.length > 100 && refused.length <= 400 - 256, `${refused.length}`);
  assert.ok(refused.every((one) => one.reason.code === 'unavailable' && one.reason.retryAfter));
  assert.equal(await verifyPassword(undefined, 'guess'), false);
});

test('an attempt that is refused in its turn is not checked', async () => {
  const refusal = new Error('not now');
  await assert.rejects(
    verifyInTurn(
      { hash: await hashPassword('correct horse', 'user'), password: 'x', client: '192.0.2.1' },
      () => Promise.reject(refusal),
    ),
    refusal,
  );
});

test('a network with many clients leaves half of the line to others', async () => {
  const hash = await hashPassword('correct horse', 'user');
  const guess = (client: string) =>
    verifyInTurn({ hash, password: 'x', client }, () => Promise.reject(new Error('turn')));
  const flood = Array.from({ length: 300 }, (_, n) => guess(`2001:db8:1:${n}::/64`));
  await assert.rejects(guess('192.0.2.2'), { message: 'turn' });
  const messages = (await Promise.allSettled(flood)).map((one) =>
    one.status === 'rejected' ? one.reason.message : '',
  );
  assert.equal(messages.filter((text) => text === 'turn').length, 128);
});

test('a login waits for one of each network in line, however many these have', async () => {
  const hash = await hashPassword('correct horse', 'user');
  const turns: string[] = [];
  const guess = (client: string, name: string) =>
    verifyInTurn({ hash, password: 'x', client }, async () => {
      turns.push(name);
    });
  const flood = Array.from({ length: 60 }, (_, n) => guess(`192.0.${n % 3}.${n}`, 'flood'));
  const honest = [guess('198.51.100.7', 'first'), guess('198.51.100.8', 'second')];
  await Promise.all([...flood, ...honest]);
  // Two are checked at once, and each network in line is asked before the next one of this network.
  assert.ok(turns.indexOf('first') <= 2 + 3, `${turns.indexOf('first')}`);
  assert.ok(turns.indexOf('second') <= 2 + 3 + 4, `${turns.indexOf('second')}`);
});

test('neither a client nor a user fills the line for the others', async () => {
  const hash = await hashPassword('correct horse', 'user');
  const guess = (client: string) =>
    verifyInTurn({ hash, password: 'x', client }, () => Promise.reject(new Error('turn')));
  const flood = Array.from({ length: 300 }, () => guess('192.0.2.1'));
  await assert.rejects(guess('192.0.2.2'), { message: 'turn' });
  const messages = (await Promise.allSettled(flood)).map((one) =>
    one.status === 'rejected' ? one.reason.message : '',
  );
  assert.equal(messages.filter((text) => text === 'turn').length, 96);
  assert.equal(
    messages.filter((text) => text === 'too many passwords are being checked').length,
    204,
  );
});

test('passwords that one organization sets have one share, whichever users they are for', async () => {
  const set = (userId: string, organizationId: string | undefined) =>
    hashPassword('correct horse', { userId, organizationId }).then(
      () => 'set',
      (error: Error) => error.message,
    );
  const ofOne = Array.from({ length: 300 }, (_, at) => set(`user-${at}`, 'org'));
  const ofAnother = await set('another', undefined);
  assert.equal(ofAnother, 'set');
  const outcomes = await Promise.all(ofOne);
  assert.equal(outcomes.filter((outcome) => outcome === 'set').length, 96);
});
