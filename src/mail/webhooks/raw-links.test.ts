import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { readRetryAfter } from './send-webhook.ts';
import { type SignedLink, signLink, verifyLink } from './webhooks.ts';

const SECRET = ['a secret of at least sixteen'] as const;
const NOW = Date.UTC(2026, 0, 1);
const DAY = 24 * 3_600_000;

function partsOf(link: string): SignedLink {
  const url = new URL(link);
  const parameter = (name: string) => url.searchParams.get(name) ?? '';
  const id = decodeURIComponent(url.pathname.split('/').at(-1) ?? '');
  return { id, expires: parameter('expires'), signature: parameter('signature') };
}

suite('links to the source', () => {
  const link = signLink(SECRET, 'https://mail.test/base/', { id: 'abc-1' }, NOW);

  test('are below the public URL', () => {
    assert.match(
      link,
      /^https:\/\/mail\.test\/base\/webhooks\/raw\/abc-1\?expires=\d+&signature=[\w-]{43}$/,
    );
  });

  test('are valid with each value of the secret, and made with the first', () => {
    const both = ['new', ...SECRET] as const;
    assert.equal(verifyLink(both, partsOf(link), NOW), true);
    const fresh = partsOf(signLink(both, 'https://mail.test', { id: 'abc-1' }, NOW));
    assert.equal(verifyLink(['new'], fresh, NOW), true);
    assert.equal(verifyLink(SECRET, fresh, NOW), false);
  });

  test('are valid for seven days', () => {
    assert.equal(verifyLink(SECRET, partsOf(link), NOW), true);
    assert.equal(verifyLink(SECRET, partsOf(link), NOW + 7 * DAY - 1), true);
    assert.equal(verifyLink(SECRET, partsOf(link), NOW + 7 * DAY), false);
  });

  test('are valid only unchanged', () => {
    const parts = partsOf(link);
    const changed: Partial<SignedLink>[] = [
      { id: 'abc-2' },
      { expires: String(Number(parts.expires) + 1) },
      { expires: `${parts.expires}0` },
      { expires: '' },
      { expires: 'NaN' },
      { expires: '99999999999999999999' },
      { signature: '' },
      { signature: parts.signature.slice(1) },
      { signature: `${parts.signature}AAAA` },
      { signature: 'ä'.repeat(43) },
    ];
    for (const change of changed) {
      assert.equal(verifyLink(SECRET, { ...parts, ...change }, NOW), false, JSON.stringify(change));
    }
    assert.equal(verifyLink(['another secret'], parts, NOW), false);
    // Text before the colon cannot be moved behind it.
    const [first, ...rest] = parts.expires;
    const moved = { ...parts, id: `${parts.id}:${first}`, expires: rest.join('') };
    assert.equal(verifyLink(SECRET, moved, NOW), false);
  });

  test('to one part open only that part', () => {
    const target = { id: 'abc-1', part: '1.2' };
    const url = signLink(SECRET, 'https://mail.test', target, NOW);
    assert.match(
      url,
      /^https:\/\/mail\.test\/webhooks\/attachments\/abc-1\/1\.2\?expires=\d+&signature=[\w-]{43}$/,
    );
    const { searchParams } = new URL(url);
    const [expires, signature] = ['expires', 'signature'].map(
      (name) => searchParams.get(name) ?? '',
    );
    const good = { ...target, expires: expires ?? '', signature: signature ?? '' };
    assert.equal(verifyLink(SECRET, good, NOW), true);
    const { part: _, ...whole } = good;
    const others = [
      { ...good, part: '1.3' },
      { ...good, part: '1' },
      { ...good, id: 'abc-2' },
      whole,
    ];
    for (const other of others) assert.equal(verifyLink(SECRET, other, NOW), false);
    assert.equal(verifyLink(SECRET, { ...partsOf(link), part: '1' }, NOW), false);
    const moved = { ...good, id: 'abc-1:1.2', part: '' };
    assert.equal(verifyLink(SECRET, moved, NOW), false);
  });

  test('no random text is one', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), fc.string(), (id, expires, signature) => {
        assert.equal(verifyLink(SECRET, { id, expires, signature }, NOW), false);
      }),
    );
  });
});

suite('Retry-After', () => {
  const cases: [string | undefined, number | undefined][] = [
    ['120', 120],
    [' 0 ', 0],
    ['Thu, 01 Jan 2026 00:02:00 GMT', 120],
    ['Thursday, 01-Jan-26 00:02:00 GMT', 120],
    ['Thu Jan  1 00:02:00 2026', 120],
    ['Wed, 31 Dec 2025 00:00:00 GMT', 0],
    [undefined, undefined],
    ['', undefined],
    ['-5', undefined],
    ['1.5', undefined],
    ['soon', undefined],
    ['2026-01-01', undefined],
    ['99999999999999', undefined],
    ['Thu, 99 Jan 2026 00:02:00 GMT', undefined],
  ];
  for (const [field, seconds] of cases) {
    test(`${field} is ${seconds}`, () => assert.equal(readRetryAfter(field, NOW), seconds));
  }
});
