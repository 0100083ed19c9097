import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readHeader } from '../../../protocols/message/message.ts';
import { formatAuthenticationResults } from './judge-sender.ts';
import { readSenderResults } from './read-results.ts';

const HOST = 'mx.example.test';

async function read(header: string) {
  const { fields } = await readHeader(
    (async function* () {
      yield Buffer.from(`${header}\r\n\r\n`);
    })(),
  );
  return readSenderResults(fields, HOST);
}

/** The field that we write for a message whose signature has a selector of the sender's choice. */
function written(selector: string): string {
  return formatAuthenticationResults(HOST, {
    spf: { result: 'softfail', domain: 'bank.test' },
    isHelo: false,
    signatures: [
      {
        result: 'fail',
        domain: 'bank.test',
        selector,
        start: 'abc',
        comment: 'dmarc=pass spf=pass',
        aligned: true,
      },
    ],
    authors: [{ domain: 'bank.test', result: 'fail', policy: 'none', action: 'accept' }],
    authorsUnknown: undefined,
    arc: { result: 'none', instance: 0, domain: '' },
    remoteAddress: '192.0.2.1',
  } as unknown as Parameters<typeof formatAuthenticationResults>[1]).trimEnd();
}

test('the results that we wrote are read back, whatever the sender put into them', async () => {
  const expected = { spf: 'softfail', dkim: 'fail', dmarc: 'fail' };
  for (const selector of [
    's1',
    'x"; dmarc=pass; y="',
    'a;dmarc=pass',
    'a(;spf=pass',
    '\\";dkim=pass',
  ]) {
    assert.deepEqual(await read(written(selector)), expected, selector);
  }
});

test('only the topmost field counts that has our name', async () => {
  const cases: [string, unknown][] = [
    ['Subject: none', undefined],
    ['Authentication-Results: other.test; spf=pass', undefined],
    [`Authentication-Results: "${HOST}" 1; none`, { spf: 'none', dkim: 'none', dmarc: 'none' }],
    [
      `Authentication-Results: MX.example.TEST. (c) 1; dkim=none; dkim=pass (a(b;dmarc=fail)) header.d=x; dmarc=pass`,
      { spf: 'none', dkim: 'pass', dmarc: 'pass' },
    ],
    [
      `Authentication-Results: other.test; spf=pass\r\nAuthentication-Results: ${HOST}; spf=fail\r\n` +
        `Authentication-Results: ${HOST}; spf=pass`,
      { spf: 'fail', dkim: 'none', dmarc: 'none' },
    ],
    [
      `Authentication-Results: ${HOST}; dmarc=pass header.from=a.test; dmarc=fail header.from=b.test`,
      { spf: 'none', dkim: 'none', dmarc: 'fail' },
    ],
    [`Authentication-Results: (${HOST}; spf=pass`, undefined],
  ];
  for (const [header, expected] of cases) assert.deepEqual(await read(header), expected, header);
});
