import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { check, insider, mail, signed } from './testing/checking.ts';
import { sign } from './testing/signed-mail.ts';

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

  test('says what there was not', async () => {
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
