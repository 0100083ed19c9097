import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Lookup, LookupAnswer } from './lookup.ts';
import { ResolverGuard } from './resolver-guard.ts';

const REST = 30_000;
const found: LookupAnswer = { kind: 'records', records: ['x'] };
const failed: LookupAnswer = { kind: 'unanswered', reason: 'no connection' };

/** A resolver whose answer the test chooses, with a clock of its own. */
function openGuard(answer: (name: string) => LookupAnswer | Promise<LookupAnswer>) {
  const asked: string[] = [];
  const lookup: Lookup = async (name) => {
    asked.push(name);
    return answer(name);
  };
  const clock = { now: 0 };
  const guard = new ResolverGuard({ lookup, restMs: REST, probeMs: 5, now: () => clock.now });
  const ask = (name: string) => guard.ask(name, 'TXT', 5, 'deciding');
  return { guard, ask, asked, clock };
}

/** Lets all that waits for promises go on. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

suite('a resolver that is dead', () => {
  test('is left alone for 30 s, then found alive by a probe', async () => {
    let answer: LookupAnswer = failed;
    const { guard, ask, asked, clock } = openGuard(() => answer);
    assert.equal((await ask('a.test')).kind, 'unanswered');
    await settle();
    assert.deepEqual(asked, ['a.test', 'a.root-servers.net']);
    clock.now = REST - 1;
    assert.equal((await ask('b.test')).kind, 'unanswered');
    assert.equal(guard.isResting(), true);
    assert.equal(asked.length, 2);

    // It is still dead: one probe more, and it rests again.
    clock.now = REST;
    for (const name of ['c.test', 'd.test']) assert.equal((await ask(name)).kind, 'unanswered');
    await settle();
    assert.deepEqual(asked.slice(2), ['a.root-servers.net']);
    clock.now = 2 * REST - 1;
    assert.equal((await ask('e.test')).kind, 'unanswered');
    assert.equal(asked.length, 3);

    answer = found;
    clock.now = 2 * REST;
    assert.equal(guard.isResting(), true);
    await settle();
    assert.equal(guard.isResting(), false);
    assert.equal((await ask('f.test')).kind, 'records');
    assert.deepEqual(asked.slice(3), ['a.root-servers.net', 'f.test']);
  });

  test('may be one that never answers', async () => {
    const { guard, ask } = openGuard(() => new Promise<LookupAnswer>(() => {}));
    assert.deepEqual(await ask('a.test'), { kind: 'unanswered', reason: 'timeout' });
    while (!guard.isResting()) await settle();
    assert.equal((await ask('b.test')).kind, 'unanswered');
  });
});

suite('a resolver that is alive', () => {
  test('is not given up because the servers of some domains are silent', async () => {
    const { guard, ask, asked } = openGuard((name) =>
      name.endsWith('evil.test') ? failed : found,
    );
    for (let n = 0; n < 20; n++) await ask(`n${n}.evil.test`);
    await settle();
    assert.ok(asked.includes('a.root-servers.net'));
    assert.equal(guard.isResting(), false);
    assert.equal((await ask('bank.test')).kind, 'records');
  });

  test('needs no probe while it answers other questions', async () => {
    const { ask, asked, clock } = openGuard((name) => {
      if (name !== 'evil.test') return found;
      return new Promise<LookupAnswer>(() => {});
    });
    const silent = ask('evil.test');
    clock.now = 1;
    await ask('bank.test');
    await silent;
    assert.deepEqual(asked, ['evil.test', 'bank.test']);
  });

  test('says that something is not there', async () => {
    const absent: LookupAnswer = { kind: 'absent', reason: 'no_name' };
    const { guard, ask, asked } = openGuard(() => absent);
    assert.deepEqual(await ask('a.test'), absent);
    await settle();
    assert.equal(guard.isResting(), false);
    assert.equal(asked.length, 1);
  });
});

test('lookups that decide nothing are bounded, and never in the way of those that do', async () => {
  const { guard, asked } = openGuard((name) =>
    name === 'bank.test' ? found : new Promise<LookupAnswer>(() => {}),
  );
  const others = Array.from({ length: 100 }, (_, n) =>
    guard.ask(`n${n}.evil.test`, 'TXT', 5, 'other'),
  );
  assert.equal(asked.length, 64);
  assert.equal((await guard.ask('bank.test', 'TXT', 5, 'deciding')).kind, 'records');
  const reasons = (await Promise.all(others)).map((answer) =>
    answer.kind === 'unanswered' ? answer.reason : answer.kind,
  );
  assert.equal(reasons.filter((reason) => reason === 'timeout').length, 64);
  assert.equal(reasons.filter((reason) => reason === 'too busy').length, 36);
  const later = guard.ask('later.test', 'TXT', 5, 'other');
  assert.equal(asked.at(-1), 'later.test');
  await later;
});
