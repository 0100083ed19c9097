import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { survivesForwarding } from './survive-forwarding.ts';
import { check, HOST, insider, mail, signed, stranger } from './testing/checking.ts';
import { sign } from './testing/signed-mail.ts';

suite('a message that is forwarded', () => {
  const survives = async (message: string, client = stranger) =>
    (await check({ message, client })).verdicts.survivesForwarding;

  test('survives by an aligned signature', async () => {
    assert.equal(await survives(await signed('ann@bank.test', { domain: 'bank.test' })), true);
    assert.equal(await survives(await signed('ann@bank.test', { domain: 'mail.bank.test' })), true);
  });

  test('does not by SPF, a foreign signature, one too loosely aligned, or one that fails', async () => {
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

  test('survives where the fields that are signed were there', async () => {
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

  test('does not where a signature forbids to add a field', () => {
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
