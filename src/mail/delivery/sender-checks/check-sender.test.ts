import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  check,
  inShort,
  insider,
  mail,
  signed,
  stranger,
} from '../../../../test/support/sender-checks/checking.ts';
import { ed25519Key, sign } from '../../../../test/support/sender-checks/signed-mail.ts';
import { HOUR_MS } from '../../../platform/time/time.ts';
import type { SendingClient } from './check-sender.ts';

/** What is sent by whom, and the result; `*` marks aligned signatures. */
const table: [what: string, message: string, client: SendingClient, short: string][] = [
  [
    'SPF of the author domain',
    mail('ann@bank.test'),
    insider,
    'pass |  | pass reject bank.test | accept',
  ],
  [
    'SPF of another domain of the organization',
    mail('ann@mail.bank.test'),
    insider,
    'pass |  | pass quarantine mail.bank.test | accept',
  ],
  [
    'SPF of HELO, for the null sender',
    mail('ann@bank.test'),
    { ...insider, from: '' },
    'pass |  | pass reject bank.test | accept',
  ],
  [
    'the null sender of a client that gives its address for a name',
    mail('ann@bank.test'),
    { ...insider, from: '', heloName: '[192.0.2.1]' },
    'none |  | fail reject bank.test | reject',
  ],
  [
    'SPF that does not pass',
    mail('ann@bank.test'),
    { ...insider, remoteAddress: '203.0.113.9' },
    'fail |  | fail reject bank.test | reject',
  ],
  [
    'SPF that passes for somebody else',
    mail('ann@bank.test'),
    stranger,
    'pass |  | fail reject bank.test | reject',
  ],
  [
    'a name below the author domain that no host may have',
    mail('ann@-a.bank.test'),
    stranger,
    'pass |  | fail quarantine -a.bank.test | quarantine',
  ],
  [
    'SPF by an address in IPv6 form',
    mail('ann@bank.test'),
    { ...insider, remoteAddress: '::ffff:192.0.2.1' },
    'pass |  | pass reject bank.test | accept',
  ],
  [
    'SPF by another record',
    mail('ann@chain.test'),
    { ...insider, from: 'ann@chain.test' },
    'pass |  | none none chain.test | accept',
  ],
  [
    'SPF with a syntax error',
    mail('ann@broken.test'),
    { ...insider, from: 'ann@broken.test' },
    'permerror |  | none none broken.test | accept',
  ],
  [
    'a signature of the author domain',
    await signed('ann@bank.test', { domain: 'bank.test' }),
    stranger,
    'pass | pass* | pass reject bank.test | accept',
  ],
  [
    'a signature by Ed25519, simple canonicalization',
    await signed('ann@bank.test', {
      domain: 'bank.test',
      selector: 'key2',
      key: ed25519Key,
      canonicalization: 'simple/simple',
    }),
    stranger,
    'pass | pass* | pass reject bank.test | accept',
  ],
  [
    'a signature of another domain of the organization',
    await signed('ann@bank.test', { domain: 'mail.bank.test' }),
    stranger,
    'pass | pass* | pass reject bank.test | accept',
  ],
  [
    'a signature of somebody else',
    await signed('ann@bank.test', { domain: 'evil.test' }),
    stranger,
    'pass | pass | fail reject bank.test | reject',
  ],
  [
    'a signature of a body that was changed',
    `${await signed('ann@bank.test', { domain: 'bank.test' })}More.\r\n`,
    stranger,
    'pass | fail* | fail reject bank.test | reject',
  ],
  [
    'a signature of a header that was changed',
    (await signed('ann@bank.test', { domain: 'bank.test' })).replace('Hi', 'Hello'),
    stranger,
    'pass | fail* | fail reject bank.test | reject',
  ],
  [
    'a signature of a header into which a line was put that is no field',
    (await signed('ann@bank.test', { domain: 'bank.test' })).replace('Hi\r\n', 'Hi\r\nthere\r\n'),
    stranger,
    'pass | fail* | fail reject bank.test | reject',
  ],
  [
    'a signature without a key',
    await signed('ann@bank.test', { domain: 'bank.test', selector: 'gone' }),
    stranger,
    'pass | neutral* | fail reject bank.test | reject',
  ],
  [
    'a signature whose key has a name that DNS cannot hold',
    await signed('ann@bank.test', { domain: 'bank.test', selector: 'x'.repeat(64) }),
    stranger,
    'pass | neutral* | fail reject bank.test | reject',
  ],
  [
    'a signature that has expired',
    await signed('ann@bank.test', { domain: 'bank.test', expires: new Date(Date.now() - 60_000) }),
    stranger,
    'pass | neutral* | fail reject bank.test | reject',
  ],
  [
    'a signature that had expired when the message came, whatever the clock of this machine says',
    await signed('ann@bank.test', { domain: 'bank.test', expires: new Date(Date.now() + HOUR_MS) }),
    { ...stranger, at: Date.now() + 2 * HOUR_MS },
    'pass | neutral* | fail reject bank.test | reject',
  ],
  [
    'a signature by SHA-1',
    await signed('ann@bank.test', { domain: 'bank.test', algorithm: 'rsa-sha1' }),
    stranger,
    'pass | policy* | fail reject bank.test | reject',
  ],
  [
    'a signature of the start of the body, to which somebody added',
    `${await signed('ann@bank.test', { domain: 'bank.test', maxBodyLength: 8 })}Send money.\r\n`,
    stranger,
    'pass | policy* | fail reject bank.test | reject',
  ],
  [
    'a signature of as much of the body as there is',
    await signed('ann@bank.test', { domain: 'bank.test', maxBodyLength: 8 }),
    stranger,
    'pass | pass* | pass reject bank.test | accept',
  ],
  [
    'a bad signature besides a good one',
    await sign(await signed('ann@bank.test', { domain: 'bank.test' }), {
      domain: 'bank.test',
      selector: 'gone',
    }),
    stranger,
    'pass | neutral* pass* | pass reject bank.test | accept',
  ],
  [
    'strict alignment, kept by SPF',
    mail('ann@strict.test'),
    { ...insider, from: 'ann@strict.test' },
    'pass |  | pass reject strict.test | accept',
  ],
  [
    'strict alignment, missed by SPF',
    mail('ann@strict.test'),
    { ...insider, from: 'ann@out.strict.test' },
    'pass |  | fail reject strict.test | reject',
  ],
  [
    'strict alignment, kept by a signature',
    await signed('ann@strict.test', { domain: 'strict.test' }),
    stranger,
    'pass | pass* | pass reject strict.test | accept',
  ],
  [
    'strict alignment, missed by a signature',
    await signed('ann@strict.test', { domain: 'mail.strict.test' }),
    stranger,
    'pass | pass | fail reject strict.test | reject',
  ],
  [
    'p=quarantine',
    mail('ann@junk.test'),
    stranger,
    'pass |  | fail quarantine junk.test | quarantine',
  ],
  ['p=none', mail('ann@watch.test'), stranger, 'pass |  | fail none watch.test | accept'],
  [
    'sp=quarantine',
    mail('ann@x.bank.test'),
    stranger,
    'pass |  | fail quarantine x.bank.test | quarantine',
  ],
  [
    't=y asks for less',
    mail('ann@trial.test'),
    stranger,
    'pass |  | fail reject trial.test | quarantine',
  ],
  ['no policy', mail('ann@nowhere.test'), stranger, 'pass |  | none none nowhere.test | accept'],
  [
    'a policy that cannot be read',
    mail('ann@typo.test'),
    stranger,
    'pass |  | permerror none typo.test | accept',
  ],
  [
    'two authors, one of whom would not have it',
    mail('eve@evil.test, ann@bank.test'),
    stranger,
    'pass |  | fail reject bank.test | reject',
  ],
  [
    'two authors, the stricter of whom passes',
    mail('ann@bank.test, bob@junk.test'),
    insider,
    'pass |  | fail quarantine junk.test | quarantine',
  ],
  [
    'two From fields',
    `From: eve@evil.test\r\n${mail('ann@bank.test')}`,
    stranger,
    'pass |  | fail reject bank.test | reject',
  ],
  [
    'two From fields, the other way round',
    `From: ann@bank.test\r\n${mail('eve@evil.test')}`,
    stranger,
    'pass |  | fail reject bank.test | reject',
  ],
  [
    'a From field put on top of one that is signed',
    `From: ceo@bank.test\r\n${await signed('ann@bank.test', { domain: 'bank.test', headerList: ['from'] })}`,
    stranger,
    'pass | pass* | fail reject bank.test | reject',
  ],
  [
    'two From fields that are both signed',
    await sign(`From: ceo@bank.test\r\n${mail('ann@bank.test')}`, { domain: 'bank.test' }),
    stranger,
    'pass | pass* | pass reject bank.test | accept',
  ],
  [
    'a second To field that is not signed',
    `To: eve@evil.test\r\n${await signed('ann@bank.test', { domain: 'bank.test' })}`,
    stranger,
    'pass | pass* | fail reject bank.test | reject',
  ],
  ...(await Promise.all(
    [
      'Subject: Pay',
      'Date: x',
      'Cc: e@evil.test',
      'Reply-To: e@evil.test',
      'Content-Type: text/html',
    ].map(async (field): Promise<(typeof table)[number]> => {
      const name = field.split(':', 1)[0] ?? '';
      const once = `${name}: y\r\n${mail('ann@bank.test').replace('Subject: Hi\r\n', '')}`;
      const signing = { domain: 'bank.test', headerList: ['from', name] };
      return [
        `a ${name} put on top of one that is signed`,
        `${field}\r\n${await sign(once, signing)}`,
        stranger,
        'pass | pass* | fail reject bank.test | reject',
      ];
    }),
  )),
  ...(await Promise.all(
    ['X: y\r\nSubject\0: Pay', 'X: y\rSubject: Pay', 'X: y\n\ufeffTo: e@evil.test'].map(
      async (field): Promise<(typeof table)[number]> => [
        `${JSON.stringify(field)}, which only some readers see, on top of what is signed`,
        `${field}\r\n${await signed('ann@bank.test', { domain: 'bank.test' })}`,
        stranger,
        'pass | pass* | fail reject bank.test | reject',
      ],
    ),
  )),
  [
    'two Subject fields that are both signed',
    await sign(`Subject: Pay\r\n${mail('ann@bank.test')}`, { domain: 'bank.test' }),
    stranger,
    'pass | pass* | pass reject bank.test | accept',
  ],
  [
    'two Subject fields, one of which is signed, and SPF that passes',
    `Subject: Pay\r\n${await signed('ann@bank.test', { domain: 'bank.test' })}`,
    insider,
    'pass | pass* | pass reject bank.test | accept',
  ],
  ['no From field', 'Subject: Hi\r\n\r\nHello.\r\n', stranger, 'pass |  | none none  | quarantine'],
  [
    'an empty first line, so no header',
    `\r\n${mail('ann@bank.test')}`,
    stranger,
    'pass |  | none none  | quarantine',
  ],
  ['a group without authors', mail('nobody:;'), stranger, 'pass |  | none none  | quarantine'],
  [
    'a group with one',
    mail('us: ann@bank.test;'),
    stranger,
    'pass |  | fail reject bank.test | reject',
  ],
  ['a From field without an address', mail('Ann'), stranger, 'pass |  | none none  | quarantine'],
  [
    'a From field that is a header without a body',
    'From: ann@bank.test',
    stranger,
    'pass |  | fail reject bank.test | reject',
  ],
  [
    'a From field behind white space and in capitals',
    'X: y\r\nFROM  \r\n : ann@bank.test\r\n\r\n',
    stranger,
    'pass |  | fail reject bank.test | reject',
  ],
  ['a message of nothing', '', stranger, 'pass |  | none none  | quarantine'],
];

suite('the verdict on', () => {
  for (const [what, message, client, short] of table) {
    test(what, async () => {
      const { verdicts, left } = await check({ message, client });
      assert.equal(inShort(verdicts), short);
      assert.equal(left, message);
    });
  }

  test('a policy for half of the mail: the other half gets the next weaker one', async () => {
    const message = mail('ann@half.test');
    for (const [draw, action] of [
      [0, 'reject'],
      [0.49, 'reject'],
      [0.5, 'quarantine'],
      [0.99, 'quarantine'],
    ] as const) {
      const { verdicts } = await check({ message, options: { random: () => draw } });
      assert.equal(verdicts.action, action);
      assert.equal(verdicts.dmarc.policy, 'reject');
    }
  });

  test('mail that fails p=reject, where it is not enforced', async () => {
    const options = { enforce: false };
    const { verdicts } = await check({ message: mail('ann@bank.test'), options });
    assert.equal(inShort(verdicts), 'pass |  | fail reject bank.test | quarantine');
  });

  test('more authors than any honest message has', async () => {
    const authors = Array.from({ length: 11 }, (_, n) => `a@n${n}.test`).join(', ');
    const long = `${' '.repeat(10_000)}eve@evil.test`;
    for (const message of [mail(authors), mail(long), 'From: a@b.test\r\n'.repeat(11)]) {
      const { verdicts } = await check({ message });
      assert.equal(verdicts.dmarc.result, 'permerror');
      assert.equal(verdicts.action, 'reject');
    }
  });
});
