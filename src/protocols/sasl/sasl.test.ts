import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { anyCharacter } from '../../../test/support/any-character.ts';
import { type GivenLogin, MECHANISMS, type Mechanism, readLogin, SaslFault } from './sasl.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');

/** Runs an exchange with these answers; the challenges, and the login or why there is none. */
function exchange(mechanism: Mechanism, initial: string | undefined, ...answers: string[]) {
  const challenges: string[] = [];
  try {
    const reading = readLogin(mechanism, initial);
    let step = reading.next();
    while (!step.done) {
      challenges.push(step.value);
      step = reading.next(answers.shift() ?? '*');
    }
    return { challenges, login: step.value };
  } catch (error) {
    if (!(error instanceof SaslFault)) throw error;
    return { challenges, fault: error.reason };
  }
}

const ada: GivenLogin = { kind: 'password', address: 'ada@acme.test', password: 'a:b c' };
const token: GivenLogin = { kind: 'token', token: 'a.b.c' };

test('each mechanism is read with a first answer and without', () => {
  const plain = base64('\0ada@acme.test\0a:b c');
  assert.deepEqual(exchange('PLAIN', plain), { challenges: [], login: ada });
  assert.deepEqual(exchange('PLAIN', undefined, plain), { challenges: [''], login: ada });
  const named = base64('ada@acme.test\0ada@acme.test\0a:b c');
  assert.deepEqual(exchange('PLAIN', named).login, ada);
  const [user, password] = [base64('ada@acme.test'), base64('a:b c')];
  const asked = ['VXNlcm5hbWU6', 'UGFzc3dvcmQ6'];
  assert.deepEqual(exchange('LOGIN', undefined, user, password), { challenges: asked, login: ada });
  assert.deepEqual(exchange('LOGIN', user, password).login, ada);
  const bearer = base64('n,a=ada@acme.test,\x01host=x\x01auth=Bearer a.b.c\x01\x01');
  assert.deepEqual(exchange('OAUTHBEARER', bearer).login, token);
  const older = base64('user=ada@acme.test\x01auth=Bearer a.b.c\x01\x01');
  assert.deepEqual(exchange('XOAUTH2', undefined, older).login, token);
});

for (const [mechanism, answer, reason] of [
  ['PLAIN', '*', 'cancelled'],
  ['PLAIN', '=', 'malformed'],
  ['PLAIN', 'not base64', 'malformed'],
  ['PLAIN', 'A'.repeat(12_292), 'malformed'],
  ['PLAIN', base64('ada\0secret'), 'malformed'],
  ['PLAIN', base64('\0ada\0secret\0more'), 'malformed'],
  ['PLAIN', base64('eve@acme.test\0ada@acme.test\0secret'), 'another account'],
  ['LOGIN', base64('ada'), 'cancelled'],
  ['OAUTHBEARER', base64('n,,\x01auth=Basic abc\x01\x01'), 'malformed'],
] as const) {
  test(`${mechanism} refuses ${answer.slice(0, 40)}`, () => {
    assert.equal(exchange(mechanism, undefined, answer).fault, reason);
  });
}

test('whatever a client answers, an exchange ends with a login or a fault', () => {
  const answer = fc.oneof(
    fc.string(),
    fc.base64String(),
    fc.string({ unit: anyCharacter }).map(base64),
  );
  fc.assert(
    fc.property(
      fc.constantFrom(...MECHANISMS),
      fc.option(answer, { nil: undefined }),
      fc.array(answer, { maxLength: 3 }),
      (mechanism, initial, answers) => {
        const { challenges } = exchange(mechanism, initial, ...answers);
        assert.ok(challenges.length <= 2);
      },
    ),
  );
});

test('a password of any characters arrives as it was typed', () => {
  const typed = fc
    .string({ unit: 'grapheme', minLength: 1 })
    .filter((text) => !text.includes('\0'));
  fc.assert(
    fc.property(typed, typed, (address, password) => {
      const read = exchange('PLAIN', base64(`\0${address}\0${password}`));
      assert.deepEqual(read.login, { kind: 'password', address, password });
    }),
  );
});
