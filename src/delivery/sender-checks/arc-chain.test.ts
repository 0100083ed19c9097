import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { sealMessage } from 'mailauth';
import { check, mail } from './testing/checking.ts';
import { rsaKey } from './testing/signed-mail.ts';

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
